//! Points by their slots, for tests that compare what stages show.

use std::collections::BTreeMap;

use plumbago_tests::daemon::Daemon;
use plumbago_tests::send::Point;

pub(crate) type Slots = BTreeMap<i64, f64>;

/// Slots of a minute at these times, each with a value that depends on its time.
pub(crate) fn slots(times: impl IntoIterator<Item = i64>) -> Slots {
    times.into_iter().map(|time| (time / 60 * 60, (time / 60 % 97 + 1) as f64)).collect()
}

/// Sends the points to a daemon.
pub(crate) fn put(daemon: &Daemon, name: &str, slots: &Slots) {
    daemon.put(&slots.iter().map(|(time, value)| Point::new(name, *time, *value)).collect::<Vec<_>>());
}

/// The slots that `/render` shows for this many seconds before `now`.
pub(crate) fn shown_at(daemon: &Daemon, name: &str, seconds: i64, now: i64) -> Slots {
    let series = daemon.render(name, now - seconds, now, now);
    let known = |(time, value): &(i64, Option<f64>)| value.map(|value| (*time, value));
    series.iter().flat_map(|series| series.slots.iter().filter_map(known)).collect()
}

/// The sums of the slots in each window.
pub(crate) fn windows(slots: &Slots, seconds: i64) -> Slots {
    let mut windows = Slots::new();
    slots.iter().for_each(|(time, value)| *windows.entry(time / seconds * seconds).or_default() += value);
    windows
}
