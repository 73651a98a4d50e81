//! Checks of [`FlushStore`], for stores that also read points.

use std::collections::BTreeMap;

use plumbago_model::MetricId;

use super::random::Random;
use super::{Subject, assert_same, insist, insist_blocking};
use crate::{FlushBatch, FlushStore, PointStore, ReadRequest, StateRow};

/// Runs every check of this module. `now` is the time of the store's clock, in seconds since the epoch.
pub async fn all(flush: &dyn FlushStore, points: &dyn PointStore, now: u32) {
    rows_and_states_are_committed_together(flush, points, now).await;
    states_are_replaced_deleted_and_visited_in_id_order(flush);
    an_empty_commit_is_fine(flush);
    a_change_removes_the_note_of_a_checkpoint(flush);
    blocks_of_a_flush_read_back(flush, points, now).await;
}

/// A checkpoint is valid until a change, or until a start removes the record.
pub fn a_change_removes_the_note_of_a_checkpoint(flush: &dyn FlushStore) {
    if !flush.capabilities().keeps_checkpoints {
        return;
    }
    let id = Subject::new("flush.checkpoint").id;
    let change = FlushBatch { states: vec![StateRow { id, bytes: vec![7] }], ..FlushBatch::default() };
    let noted = || insist_blocking(|| flush.checkpoint());
    insist_blocking(|| flush.commit(&change));
    assert_eq!(noted(), None);
    insist_blocking(|| flush.note_checkpoint([3; 16]));
    assert_eq!(noted(), Some([3; 16]));
    insist_blocking(|| flush.commit(&change));
    assert_eq!(noted(), None);
    insist_blocking(|| flush.note_checkpoint([4; 16]));
    assert_eq!(insist_blocking(|| flush.take_held()), None, "it is not a number of points");
    assert_eq!(noted(), None);
}

/// All state rows, in the order of the scan.
fn states(flush: &dyn FlushStore) -> Vec<(MetricId, Vec<u8>)> {
    insist_blocking(|| {
        let mut rows = Vec::new();
        flush.scan_states(&mut |id, bytes| rows.push((id, bytes.to_vec())))?;
        Ok(rows)
    })
}

/// After a commit both its rows and its state rows can be read.
pub async fn rows_and_states_are_committed_together(
    flush: &dyn FlushStore,
    points: &dyn PointStore,
    now: u32,
) {
    let subject = Subject::new("flush.together");
    let slot = subject.raw.slot(now) - 40;
    let mut batch = FlushBatch::default();
    batch.rows.push(subject.run(0, slot, false), &[4.0, 5.0], None);
    batch.states.push(StateRow { id: subject.id, bytes: vec![1, 2, 3] });
    insist_blocking(|| flush.commit(&batch));
    insist_blocking(|| flush.sync());
    let request = ReadRequest { ranges: vec![subject.range(0, slot, slot + 2)], ..Default::default() };
    let columns = insist(|| points.read(&request)).await;
    assert_same(&columns[0].values, &[4.0, 5.0], "committed rows");
    assert!(states(flush).contains(&(subject.id, vec![1, 2, 3])));
}

/// A state row replaces the previous one of its metric, and empty bytes delete it. Scans are in id order.
pub fn states_are_replaced_deleted_and_visited_in_id_order(flush: &dyn FlushStore) {
    let mut random = Random::new(11);
    let ids: Vec<MetricId> = (0..50).map(|i| Subject::new(&format!("flush.state{i}")).id).collect();
    let mut wanted = BTreeMap::new();
    for round in 0..5 {
        let mut batch = FlushBatch::default();
        for id in &ids {
            let len = random.below(200) as usize * usize::from(!random.one_in(4));
            let bytes = vec![round; len];
            if len == 0 {
                wanted.remove(id);
            } else {
                wanted.insert(*id, bytes.clone());
            }
            batch.states.push(StateRow { id: *id, bytes });
        }
        insist_blocking(|| flush.commit(&batch));
        let all = states(flush);
        assert!(all.is_sorted_by_key(|(id, _)| *id), "in id order");
        let ours: BTreeMap<_, _> = all.into_iter().filter(|(id, _)| ids.contains(id)).collect();
        assert_eq!(ours, wanted, "round {round}");
    }
}

/// A commit of an empty batch succeeds.
pub fn an_empty_commit_is_fine(flush: &dyn FlushStore) {
    insist_blocking(|| flush.commit(&FlushBatch::default()));
}

/// Whole blocks of many metrics, committed one after the other as the engine does and some of them twice,
/// read back unchanged.
pub async fn blocks_of_a_flush_read_back(flush: &dyn FlushStore, points: &dyn PointStore, now: u32) {
    let layout = flush.layout();
    let mut random = Random::new(12);
    // Each layout has its own metrics. With a shared metric, a whole run could lack slots that an earlier
    // layout wrote to the same block.
    let name = |i| format!("flush.block{}.{i}", layout.raw_slots);
    let subjects: Vec<Subject> = (0..30).map(|i| Subject::new(&name(i))).collect();
    let blocks = 12;
    let mut written = vec![Vec::new(); subjects.len()];
    let starts: Vec<u32> = subjects
        .iter()
        .map(|s| layout.block_start(&s.id, s.raw.slot(now) - (blocks + 2) * layout.raw_slots) as u32)
        .collect();
    for block in 0..blocks {
        let mut batch = FlushBatch::default();
        for (i, subject) in subjects.iter().enumerate() {
            let values: Vec<f64> = (0..layout.raw_slots)
                .map(|_| if random.one_in(10) { f64::NAN } else { random.value() })
                .collect();
            batch.rows.push(subject.run(0, starts[i] + block * layout.raw_slots, true), &values, None);
            batch.states.push(StateRow { id: subject.id, bytes: vec![block as u8 + 1] });
            written[i].extend(values);
        }
        insist_blocking(|| flush.commit(&batch));
        if block % 5 == 0 {
            insist_blocking(|| flush.commit(&batch));
        }
    }
    let len = blocks * layout.raw_slots;
    let ranges = subjects.iter().zip(&starts).map(|(s, start)| s.range(0, *start, start + len)).collect();
    let request = ReadRequest { ranges, ..Default::default() };
    let columns = insist(|| points.read(&request)).await;
    for (i, column) in columns.iter().enumerate() {
        assert_same(&column.values, &written[i], &format!("metric {i}"));
    }
}
