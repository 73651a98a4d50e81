//! Raises a condition when many points are refused, so that an operator notices without reading counters.

use plumbago_telemetry::{Conditions, Counter};

use crate::config::{Config, CreateLimit};
use crate::stats::{Reject, Stats};

/// Number of points with a wrong time at which a condition begins. A few such points may come from a single
/// sender.
const MANY: u64 = 100;
/// Seconds without a refusal after which the condition ends and the count starts again at zero. This is
/// longer than the interval of most senders.
const QUIET: i64 = 150;

/// Watches the counters of points that were refused because of a limit in the settings or a wrong clock.
#[derive(Debug)]
pub(crate) struct Refusals {
    conditions: Conditions,
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    name: &'static str,
    text: String,
    counter: Counter,
    /// Number of refused points at which the condition begins.
    many: u64,
    /// The counter's value at the last call of `look`.
    seen: u64,
    /// When the counter last increased, in seconds since the epoch.
    grew: i64,
    /// Number of refused points since the last period without refusals.
    refused: u64,
}

impl Refusals {
    pub(crate) fn new(config: &Config, stats: &Stats, conditions: Conditions) -> Self {
        let texts = [
            (Reject::CreateLimited, create_text(config.max_creates_per_minute)),
            (
                Reject::Future,
                format!(
                    "points are refused (future): their timestamps are more than {} (engine.future_max) ahead of now; \
                     correct the clocks of their senders and of this machine",
                    config.future_max
                ),
            ),
            (
                Reject::FutureFull,
                "points are refused (future_full): too many points ahead of now are pending; correct the \
                 clocks of their senders and of this machine, or lower engine.future_max"
                    .to_owned(),
            ),
        ];
        let watched = texts.map(|(reason, text)| Watched {
            name: Reject::NAMES[reason as usize],
            text,
            counter: stats.rejected[reason as usize].clone(),
            // A metric that is not created is missing, so each refusal counts.
            many: if reason == Reject::CreateLimited { 1 } else { MANY },
            seen: 0,
            grew: 0,
            refused: 0,
        });
        Self { conditions, watched: watched.into() }
    }

    /// Notes the limit on new metrics, which may have changed.
    pub(crate) fn set_create_limit(&mut self, limit: CreateLimit) {
        self.watched[0].text = create_text(limit);
    }

    /// Compares the counters with their values at the last call, and begins or ends conditions. `now` is in
    /// seconds since the epoch.
    pub(crate) fn look(&mut self, now: i64) {
        for watched in &mut self.watched {
            watched.look(watched.counter.get(), now);
            if watched.refused >= watched.many {
                self.conditions.begin(watched.name, watched.text.clone());
            } else {
                self.conditions.end(watched.name);
            }
        }
    }
}

fn create_text(limit: CreateLimit) -> String {
    match limit {
        CreateLimit::None => {
            "points of new metrics are refused (create_limited): engine.max_creates_per_minute is \
             \"none\", so no metric is created; change this setting if the new metrics are \
             wanted"
                .to_owned()
        }
        CreateLimit::PerMinute(number) => format!(
            "points of new metrics are refused (create_limited): more than {number} metrics a minute are \
             new; raise engine.max_creates_per_minute if the new metrics are wanted"
        ),
    }
}

impl Watched {
    fn look(&mut self, count: u64, now: i64) {
        if now - self.grew > QUIET {
            self.refused = 0;
        }
        if count > self.seen {
            self.refused += count - self.seen;
            self.seen = count;
            self.grew = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use plumbago_telemetry::Registry;

    use super::*;

    #[test]
    fn each_kind_of_refusal_in_number_is_a_condition_until_it_stops() {
        let registry = Registry::new();
        let (stats, conditions) = (Stats::new(&registry), Conditions::new(&registry));
        let mut refusals = Refusals::new(&Config::default(), &stats, conditions.clone());
        for (reason, name, setting, many) in [
            (Reject::CreateLimited, "create_limited", "engine.max_creates_per_minute", 1),
            (Reject::Future, "future", "engine.future_max", MANY),
            (Reject::FutureFull, "future_full", "engine.future_max", MANY),
        ] {
            let counter = &stats.rejected[reason as usize];
            let mut now = 1_700_000_000;
            counter.add(many - 1);
            refusals.look(now);
            assert!(!conditions.contains(name), "a few are no condition");
            counter.add(1);
            now += 60;
            refusals.look(now);
            let held = conditions.list();
            assert_eq!((held.len(), held[0].name), (1, name));
            assert!(held[0].text.contains(setting), "{}", held[0].text);
            now += QUIET;
            refusals.look(now);
            assert!(conditions.contains(name), "senders send once a minute");
            refusals.look(now + 1);
            assert!(!conditions.contains(name));
        }
    }

    #[test]
    fn a_few_refusals_now_and_then_are_no_condition() {
        let registry = Registry::new();
        let (stats, conditions) = (Stats::new(&registry), Conditions::new(&registry));
        let mut refusals = Refusals::new(&Config::default(), &stats, conditions.clone());
        for minute in 0..100 {
            stats.rejected[Reject::Future as usize].add(MANY / 2);
            refusals.look(1_700_000_000 + minute * (QUIET + 1));
        }
        assert!(conditions.list().is_empty());
    }
}
