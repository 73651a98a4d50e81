//! Reads what readers see of one stage, a part at a time.

use std::sync::Arc;

use plumbago_model::Stage;

use crate::{FetchError, FetchRequest, SeriesSource};

/// Largest number of slots with a value in one part.
const KNOWN_MAX: usize = 1 << 17;

/// The slots of one stage of a metric that have a value and that xFilesFactor does not hide, in the order of
/// time. A part with few such slots covers a long time, so neither memory nor time grows with the number of
/// slots of the stage.
#[derive(Debug)]
pub struct ShownSlots<'a> {
    source: &'a dyn SeriesSource,
    name: Arc<str>,
    stage: Stage,
    from: i64,
    until: i64,
    /// Length of the next part, in seconds.
    part: i64,
}

impl<'a> ShownSlots<'a> {
    /// Reads the range `(from, until]`, in seconds since the epoch.
    pub fn new(source: &'a dyn SeriesSource, name: &str, stage: Stage, (from, until): (i64, i64)) -> Self {
        let name = Arc::from(name);
        let mut slots = Self { source, name, stage, from, until, part: 0 };
        // The first part is short, so that nothing of a full stage is read twice. Parts with few slots grow.
        slots.part = slots.least().clamp(1, (stage.duration() as i64).max(1));
        slots
    }

    /// Length of a part that cannot have more than [`KNOWN_MAX`] slots, in seconds.
    fn least(&self) -> i64 {
        (KNOWN_MAX as i64 / 2) * i64::from(self.stage.resolution)
    }

    /// The next part: the start of each slot in seconds since the epoch, and its value. A part may be empty. `None` at
    /// the end.
    ///
    /// # Errors
    /// As for [`SeriesSource::fetch_known`].
    pub async fn read_part(&mut self) -> Result<Option<Vec<(i64, f64)>>, FetchError> {
        while self.from < self.until {
            let end = self.until.min(self.from.saturating_add(self.part));
            // The age of a range decides which stage answers. So `now` is set such that the range is as old as this stage
            // reaches.
            let now = self.from.saturating_add(self.stage.duration() as i64).max(end);
            let names = vec![Arc::clone(&self.name)];
            let request = FetchRequest { names, from: self.from, until: end, now, slots_max: KNOWN_MAX };
            let read = match self.source.fetch_known(&request).await {
                Err(FetchError::TooManySlots(_)) if self.part > self.least() => {
                    self.part = (self.part / 2).max(self.least());
                    continue;
                }
                read => read?,
            };
            if read.iter().map(|series| series.slots.len()).sum::<usize>() < KNOWN_MAX / 4 {
                self.part = self.part.saturating_mul(2).min(self.stage.duration() as i64);
            }
            self.from = end;
            let slots = read.into_iter().flat_map(|series| series.slots);
            let shown = slots.filter(|slot| slot.is_shown && slot.time <= end);
            return Ok(Some(shown.map(|slot| (slot.time, slot.value)).collect()));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use plumbago_boxed_futures::boxed_futures;
    use plumbago_model::Series;

    use super::*;
    use crate::{KnownSlot, KnownSlots, Provenance};

    const START: i64 = 1_600_000_000;
    const DAY: i64 = 86_400;

    /// A metric with one-second slots: a point in each second of two days, and one a week later. Odd seconds
    /// are hidden.
    #[derive(Debug, Default)]
    struct Source {
        asked: Mutex<Vec<FetchRequest>>,
    }

    #[boxed_futures]
    impl SeriesSource for Source {
        async fn fetch(&self, _: &FetchRequest) -> Result<Vec<Series>, FetchError> {
            Err(FetchError::Stopping)
        }

        async fn fetch_known(&self, request: &FetchRequest) -> Result<Vec<KnownSlots>, FetchError> {
            self.asked.lock().unwrap().push(request.clone());
            let days = START + 2 * DAY..START + 4 * DAY;
            let times = days.chain([START + 10 * DAY]);
            let within = times.filter(|time| request.from < *time && *time <= request.until);
            let hides =
                |time: i64| KnownSlot { is_shown: time % 2 == 0, ..KnownSlot::raw(time, time as f64) };
            let slots: Vec<KnownSlot> = within.map(hides).collect();
            if slots.len() > request.slots_max {
                return Err(FetchError::TooManySlots(request.slots_max));
            }
            Ok(vec![KnownSlots { name: Arc::from("a"), step: 1, slots }])
        }

        async fn explain(&self, _: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn empty_years_take_few_requests_and_full_days_small_ones() {
        let source = Source::default();
        let stage = Stage { resolution: 1, points: 4380 * 86_400 };
        let mut slots = ShownSlots::new(&source, "a", stage, (START, START + 4000 * DAY));
        let mut all = Vec::new();
        while let Some(part) = slots.read_part().await.unwrap() {
            assert!(part.len() <= KNOWN_MAX);
            all.extend(part);
        }
        let shown = (START + 2 * DAY..START + 4 * DAY).chain([START + 10 * DAY]).filter(|time| time % 2 == 0);
        assert!(all.into_iter().eq(shown.map(|time| (time, time as f64))));
        let asked = source.asked.lock().unwrap();
        assert!(asked.len() < 60, "{}", asked.len());
        // Each request is answered from this stage, and the parts leave nothing out.
        assert!(asked.iter().all(|request| request.now - request.from >= stage.duration() as i64));
    }
}
