//! The metrics whose reads were noted today, so that they are not looked up again.

use std::sync::Mutex;

use plumbago_model::MetricId;

use crate::locks::lock;

/// Size of the table of metrics that are known to be noted today, so that they are not looked up again. The
/// table takes 1 MiB. Must be a power of two.
const PLACES: usize = 1 << 17;

/// Metrics that were noted today. Several metrics share a place in the table, where the last one replaces the
/// others. So the table may lack metrics; only the rows are complete.
#[derive(Debug, Default)]
pub(crate) struct NotedToday(Mutex<(u16, Vec<u64>)>);

impl NotedToday {
    /// The metrics that are not known to be noted for this day.
    pub(crate) fn missing<'a>(
        &self,
        day: u16,
        metrics: &'a [(MetricId, String)],
    ) -> Vec<&'a (MetricId, String)> {
        let known = lock(&self.0);
        let is_known = |id: &MetricId| known.0 == day && known.1.get(place(id)) == Some(&short(id));
        metrics.iter().filter(|(id, _)| !is_known(id)).collect()
    }

    pub(crate) fn add(&self, day: u16, ids: impl Iterator<Item = MetricId>) {
        let mut known = lock(&self.0);
        if known.0 > day {
            return;
        }
        if known.0 != day || known.1.is_empty() {
            *known = (day, vec![0; PLACES]);
        }
        for id in ids {
            known.1[place(&id)] = short(&id);
        }
    }

    /// Forgets a metric, because its row was deleted.
    pub(crate) fn remove(&self, id: &MetricId) {
        let mut known = lock(&self.0);
        if let Some(noted) = known.1.get_mut(place(id)).filter(|noted| **noted == short(id)) {
            *noted = 0;
        }
    }
}

fn place(id: &MetricId) -> usize {
    short(id) as usize & (PLACES - 1)
}

/// Ids are hashes, so a part of one serves as a hash. It is never 0, which stands for no metric.
fn short(id: &MetricId) -> u64 {
    id.0[8..].try_into().map_or(1, u64::from_le_bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(names: &[&str]) -> Vec<(MetricId, String)> {
        names.iter().map(|name| (MetricId::of(name), (*name).to_owned())).collect()
    }

    fn add(noted: &NotedToday, day: u16, metrics: &[(MetricId, String)]) {
        noted.add(day, metrics.iter().map(|(id, _)| *id));
    }

    #[test]
    fn a_day_forgets_the_one_before() {
        let noted = NotedToday::default();
        let all = metrics(&["a", "b", "c"]);
        assert_eq!(noted.missing(7, &all), [&all[0], &all[1], &all[2]]);
        add(&noted, 7, &all[..2]);
        assert_eq!(noted.missing(7, &all), [&all[2]]);
        noted.remove(&all[0].0);
        assert_eq!(noted.missing(7, &all), [&all[0], &all[2]]);
        assert_eq!(noted.missing(8, &all), [&all[0], &all[1], &all[2]]);
        add(&noted, 8, &all[2..]);
        add(&noted, 7, &all);
        assert_eq!(noted.missing(8, &all), [&all[0], &all[1]], "a late note of the day before");
    }

    #[test]
    fn metrics_of_one_place_are_told_apart() {
        let noted = NotedToday::default();
        let one = MetricId([7; 16]);
        let mut other = one;
        other.0[15] = 8;
        assert_eq!(place(&one), place(&other));
        let both = [(one, "one".to_owned()), (other, "other".to_owned())];
        add(&noted, 1, &both[..1]);
        assert_eq!(noted.missing(1, &both), [&both[1]]);
        add(&noted, 1, &both[1..]);
        assert_eq!(noted.missing(1, &both), [&both[0]], "which its row tells");
        noted.remove(&one);
        assert!(noted.missing(1, &both[1..]).is_empty());
    }
}
