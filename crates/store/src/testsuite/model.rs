//! What a store should hold, kept in the plainest way.

use std::collections::BTreeMap;

use super::Subject;

/// The slots of one metric, by stage index and slot.
#[derive(Debug, Default, Clone)]
pub(crate) struct Model {
    slots: BTreeMap<(u8, u32), (f64, u32)>,
}

impl Model {
    pub(crate) fn set(&mut self, stage_index: u8, slot: u32, value: f64, count: u32) {
        if !value.is_nan() {
            self.slots.insert((stage_index, slot), (value, count));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    pub(crate) fn values(&self, stage_index: u8, from: u32, until: u32) -> Vec<f64> {
        (from..until).map(|slot| self.get(stage_index, slot).0).collect()
    }

    pub(crate) fn counts(&self, stage_index: u8, from: u32, until: u32) -> Vec<u32> {
        (from..until).map(|slot| self.get(stage_index, slot).1).collect()
    }

    fn get(&self, stage_index: u8, slot: u32) -> (f64, u32) {
        self.slots.get(&(stage_index, slot)).copied().unwrap_or((f64::NAN, 0))
    }
}

/// A metric with its model.
pub(crate) struct Tracked {
    pub(crate) subject: Subject,
    pub(crate) model: Model,
}

impl Tracked {
    pub(crate) fn new(name: &str) -> Self {
        Self { subject: Subject::new(name), model: Model::default() }
    }
}
