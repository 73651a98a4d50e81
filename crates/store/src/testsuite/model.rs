//! The expected content of a store, in a plain map.

use std::collections::BTreeMap;

use super::Subject;
use crate::RowCount;

/// The known slots of one metric: (stage index, slot number) to (value, count).
#[derive(Debug, Default, Clone)]
pub(crate) struct Model {
    slots: BTreeMap<(u8, u32), (f64, RowCount)>,
}

impl Model {
    pub(crate) fn set(&mut self, stage_index: u8, slot: u32, value: f64, count: RowCount) {
        if !value.is_nan() {
            self.slots.insert((stage_index, slot), (value, count));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    pub(crate) fn clear_range(&mut self, stage_index: u8, from: u32, until: u32) {
        self.slots.retain(|(stage, slot), _| *stage != stage_index || !(from..until).contains(slot));
    }

    pub(crate) fn values(&self, stage_index: u8, from: u32, until: u32) -> Vec<f64> {
        (from..until).map(|slot| self.get(stage_index, slot).0).collect()
    }

    pub(crate) fn counts(&self, stage_index: u8, from: u32, until: u32) -> Vec<RowCount> {
        (from..until).map(|slot| self.get(stage_index, slot).1).collect()
    }

    fn get(&self, stage_index: u8, slot: u32) -> (f64, RowCount) {
        self.slots.get(&(stage_index, slot)).copied().unwrap_or((f64::NAN, RowCount::ZERO))
    }
}

/// A metric with its expected content.
pub(crate) struct Tracked {
    pub(crate) subject: Subject,
    pub(crate) model: Model,
}

impl Tracked {
    pub(crate) fn new(name: &str) -> Self {
        Self { subject: Subject::new(name), model: Model::default() }
    }
}
