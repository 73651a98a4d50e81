//! A second, simple implementation of the aggregates: every stage is computed from the slots of stage 0, and
//! xFilesFactor is applied when a slot is read.
//!
//! The tests compare the daemon with it after crashes, and where the daemon differs from whisper on purpose.

use std::collections::BTreeMap;

/// All points ever written to a metric.
#[derive(Debug, Clone)]
pub struct Flat {
    method: String,
    factor: f64,
    stages: Vec<(i64, i64)>,
    slots: BTreeMap<i64, f64>,
    direct: BTreeMap<(usize, i64), f64>,
}

/// The known points of a window, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Window {
    value: f64,
    count: i64,
}

impl Flat {
    /// A metric without points. `stages` are seconds per slot and number of slots, finest first.
    pub fn new(method: &str, factor: f64, stages: &[(i64, i64)]) -> Self {
        let (slots, direct) = (BTreeMap::new(), BTreeMap::new());
        Self { method: method.to_owned(), factor, stages: stages.to_vec(), slots, direct }
    }

    /// Writes a point that arrives at `now` into the finest stage that covers its age.
    pub fn put(&mut self, now: i64, timestamp: i64, value: f64) {
        let age = now - timestamp;
        let Some(stage) = self.stages.iter().position(|(step, n)| step * n >= age) else { return };
        let slot = floor(timestamp, self.stages[stage].0);
        if stage == 0 {
            self.slots.insert(slot, value);
        } else {
            self.direct.insert((stage, slot), value);
        }
    }

    /// The slots of stage 0.
    pub fn slots(&self) -> &BTreeMap<i64, f64> {
        &self.slots
    }

    /// The value that a reader sees in a slot of a stage.
    pub fn shown(&self, stage: usize, slot: i64) -> Option<f64> {
        let window = self.window(stage, slot);
        let whole = self.stages[stage].0 / self.stages[0].0;
        if window.count == 0 || (window.count as f64 / whole as f64) < self.factor {
            return None;
        }
        Some(match self.method.as_str() {
            "average" => window.value / window.count as f64,
            "avg_zero" => window.value / whole as f64,
            _ => window.value,
        })
    }

    /// Whether every slot of stage 0 in the window has a value.
    pub fn full(&self, stage: usize, slot: i64) -> bool {
        self.window(stage, slot).count == self.stages[stage].0 / self.stages[0].0
    }

    fn window(&self, stage: usize, slot: i64) -> Window {
        if stage == 0 {
            return self.slots.get(&slot).map_or(Window { value: 0.0, count: 0 }, |v| {
                let value = if self.method == "count" { 1.0 } else { *v };
                Window { value, count: 1 }
            });
        }
        if let Some(value) = self.direct.get(&(stage, slot)) {
            let count = self.stages[stage].0 / self.stages[0].0;
            let summed = matches!(self.method.as_str(), "average" | "avg_zero");
            return Window { value: if summed { value * count as f64 } else { *value }, count };
        }
        let finer = self.stages[stage - 1].0;
        let end = slot + self.stages[stage].0;
        let mut whole = Window { value: 0.0, count: 0 };
        let mut at = slot;
        while at < end {
            whole = self.merge(whole, self.window(stage - 1, at));
            at += finer;
        }
        whole
    }

    fn merge(&self, a: Window, b: Window) -> Window {
        if a.count == 0 {
            // Python's sum starts at 0.
            let is_sum = matches!(self.method.as_str(), "average" | "avg_zero" | "sum");
            return Window { value: if is_sum { 0.0 + b.value } else { b.value }, ..b };
        }
        if b.count == 0 {
            return a;
        }
        let value = match self.method.as_str() {
            "average" | "avg_zero" | "sum" | "count" => a.value + b.value,
            "min" => a.value.min(b.value),
            "max" => a.value.max(b.value),
            "last" => b.value,
            "absmax" => [a.value, b.value][usize::from(b.value.abs() > a.value.abs())],
            "absmin" => [a.value, b.value][usize::from(b.value.abs() < a.value.abs())],
            other => panic!("no fold for {other}"),
        };
        Window { value, count: a.count + b.count }
    }
}

/// The start of the slot that contains a time.
pub fn floor(timestamp: i64, step: i64) -> i64 {
    timestamp - timestamp.rem_euclid(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_show_what_was_put() {
        let mut flat = Flat::new("average", 0.5, &[(10, 12), (60, 10), (600, 10)]);
        for (i, value) in [1.0, 2.0, 6.0].into_iter().enumerate() {
            flat.put(700, 600 + i as i64 * 10, value);
        }
        assert_eq!(flat.shown(0, 610), Some(2.0));
        assert_eq!(flat.shown(1, 600), Some(3.0));
        assert_eq!(flat.shown(2, 600), None, "3 of 60 slots");
        flat.put(700, 400, 9.0);
        assert_eq!(flat.shown(1, 360), Some(9.0), "older than stage 0");
    }
}
