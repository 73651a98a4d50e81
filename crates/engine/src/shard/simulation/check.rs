//! Compares the heads and the store with the model.

use super::*;

impl World {
    /// Compares every stage, read from heads and store, with the model.
    pub(super) fn check(&mut self) {
        for metric in 0..3 {
            let id = MetricId::of(&format!("m.{metric}"));
            let hash = self.router.hash(&format!("m.{metric}"));
            if self.shard.find(&hash).is_none() {
                continue;
            }
            for (stage, span) in self.spans.into_iter().enumerate() {
                let now = self.clock.now();
                let age = span - 1;
                let query =
                    HeadQuery { hashes: vec![hash], from: now - age, until: now, now, whole_raw: false };
                let answer = self.shard.read(&query, &hash).unwrap();
                assert_eq!(answer.stage, stage);
                let range = SlotRange {
                    id,
                    stage: self.config.retention.stages()[stage],
                    stage_index: stage as u8,
                    aggregation: self.config.aggregation,
                    from: answer.slots.0,
                    until: answer.slots.1,
                };
                let request = ReadRequest { ranges: vec![range], ..Default::default() };
                let mut column = self.runtime.block_on(self.store.read(&request)).unwrap().remove(0);
                let whole = self.whole_first(&answer);
                let got = crate::read::merge(&answer, &mut column, whole);
                let expected = self.expected(metric, &answer);
                let differ = got.iter().zip(&expected).enumerate().position(|(i, (a, b))| {
                    bits(*a) != bits(*b) && !self.mixed(metric, stage, answer.slots.0 + i as u32)
                });
                if let Some(at) = differ {
                    let slot = answer.slots.0 + at as u32;
                    let base = answer.base;
                    panic!(
                        "metric {metric} stage {stage} slot {slot} base {base}: {} for {}",
                        got[at], expected[at]
                    );
                }
            }
        }
    }

    /// With flushes at intervals, the store alone must match the model after a clean stop.
    pub(super) fn check_store_alone(&mut self) {
        if !self.limits.at_intervals {
            return;
        }
        self.settle(3);
        let mut job = Flushes::default();
        self.each(&mut job, Extent::Last);
        self.jobs.extend(job.into_jobs());
        self.work();
        self.acknowledge();
        // A head without slots contributes nothing to a read.
        for at in 0..self.shard.len() as u32 {
            let head = &mut self.shard.heads[at];
            head.refill(&mut self.shard.pool, &mut self.shard.scratch, &[]);
            head.clear(mark::PLACED);
            head.base = 0;
        }
        self.check();
    }

    fn whole_first(&self, answer: &HeadAnswer) -> Option<plumbago_store::Column> {
        let range = crate::read::window_ranges(answer)?;
        let mut read = self
            .runtime
            .block_on(self.store.read(&ReadRequest { ranges: vec![range], ..Default::default() }))
            .unwrap();
        Some(read.remove(0))
    }

    /// Whether a window of stage 2 contains a replaced window of stage 1. The value of such a window depends
    /// on when it was folded.
    fn mixed(&self, metric: usize, stage: usize, slot: u32) -> bool {
        let parts = PER[1] / PER[0];
        stage == 2 && self.aged.range((metric, slot * parts)..(metric, (slot + 1) * parts)).next().is_some()
    }

    fn expected(&self, metric: usize, answer: &HeadAnswer) -> Vec<f64> {
        let method = self.config.aggregation;
        let per = if answer.stage == 0 { 1 } else { answer.layout.per[answer.stage - 1] };
        (answer.slots.0..answer.slots.1)
            .map(|slot| {
                let slots =
                    self.model.range((metric, slot * per)..(metric, (slot + 1) * per)).map(|(_, v)| *v);
                if answer.stage == 0 {
                    return self.model.get(&(metric, slot)).copied().unwrap_or(f64::NAN);
                }
                if let Some(Some(value)) = self.aged.get(&(metric, slot)).filter(|_| answer.stage == 1) {
                    return method.finish(method.window_of(*value, per), per);
                }
                let window: Window = method.fold_all(slots);
                method.finish(window, per)
            })
            .collect()
    }
}

fn bits(value: f64) -> u64 {
    if value.is_nan() { u64::MAX } else { value.to_bits() }
}
