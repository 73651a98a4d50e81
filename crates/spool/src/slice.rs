//! The bytes of a slice: the runs that one commit has for one metric (`docs/formats/spool.md`).

use plumbago_model::{Aggregation, MetricId, Stage, codec};
use plumbago_store::{RowCount, Run, WriteBatch};

const VERSION: u8 = 1;
const WHOLE: u8 = 1;
const COARSE: u8 = 2;
const HEADER_BYTES: usize = 20;
/// The longest run. A slice with a longer one is damaged.
const SLOTS_MAX: u32 = 1 << 24;

/// A slice that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Begins a slice.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.push(VERSION);
}

/// Appends a run to a slice.
pub(crate) fn push(out: &mut Vec<u8>, run: &Run, values: &[f64], counts: &[RowCount]) {
    let coarse = run.stage_index > 0;
    out.push(if run.whole { WHOLE } else { 0 } | if coarse { COARSE } else { 0 });
    out.push(run.stage_index);
    out.extend_from_slice(&aggregation_code(run.aggregation).to_le_bytes());
    for number in [run.stage.resolution, run.stage.points, run.first_slot, values.len() as u32] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    codec::encode(values, out);
    if coarse {
        let known = values.iter().zip(counts).filter(|(value, _)| !value.is_nan());
        known.for_each(|(_, count)| push_number(out, count.to_bits()));
    }
}

/// Appends the runs of a slice to a batch.
pub(crate) fn read(id: MetricId, bytes: &[u8], batch: &mut WriteBatch) -> Result<(), Damaged> {
    let runs = batch.runs.len();
    let slots = batch.values.len();
    let result = read_runs(id, bytes, batch);
    if result.is_none() {
        batch.runs.truncate(runs);
        batch.values.truncate(slots);
        batch.counts.truncate(slots);
    }
    result.ok_or(Damaged)
}

fn read_runs(id: MetricId, bytes: &[u8], batch: &mut WriteBatch) -> Option<()> {
    let (version, mut rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    while !rest.is_empty() {
        let (header, tail) = rest.split_first_chunk::<HEADER_BYTES>()?;
        let (run, coarse) = read_header(id, header, batch.values.len())?;
        let used = codec::decode(tail, run.len as usize, &mut batch.values).ok()?;
        rest = tail.get(used..)?;
        for value in batch.values.get(run.at as usize..)? {
            let count = match (value.is_nan(), coarse) {
                (true, _) => RowCount::ZERO,
                (false, true) => RowCount::from_bits(take_number(&mut rest)?),
                (false, false) => RowCount::ONE,
            };
            batch.counts.push(count);
        }
        batch.runs.push(run);
    }
    Some(())
}

fn read_header(id: MetricId, header: &[u8; HEADER_BYTES], at: usize) -> Option<(Run, bool)> {
    let [flags, stage_index, a0, a1, numbers @ ..] = header;
    let mut numbers = numbers.chunks_exact(4).map(|n| n.try_into().map_or(0, u32::from_le_bytes));
    let mut next = || numbers.next().unwrap_or(0);
    let run = Run {
        id,
        stage: Stage { resolution: next(), points: next() },
        stage_index: *stage_index,
        aggregation: aggregation_of(u16::from_le_bytes([*a0, *a1]))?,
        first_slot: next(),
        len: next(),
        at: u32::try_from(at).ok()?,
        whole: flags & WHOLE != 0,
    };
    let sound =
        run.len <= SLOTS_MAX && run.first_slot.checked_add(run.len).is_some() && run.stage.resolution > 0;
    sound.then_some((run, flags & COARSE != 0))
}

/// Appends a number in little-endian groups of seven bits.
fn push_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u32;
    for shift in (0..35).step_by(7) {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

const METHODS: [Aggregation; 9] = [
    Aggregation::Average,
    Aggregation::Sum,
    Aggregation::Min,
    Aggregation::Max,
    Aggregation::Last,
    Aggregation::AvgZero,
    Aggregation::Count,
    Aggregation::AbsMax,
    Aggregation::AbsMin,
];
const PERCENTILE: u16 = 0x8000;

/// The method's position in [`METHODS`], to which methods are only ever appended. Percentiles have a separate
/// bit.
fn aggregation_code(method: Aggregation) -> u16 {
    match method {
        Aggregation::Percentile(thousandths) => PERCENTILE | thousandths,
        method => METHODS.iter().position(|known| *known == method).unwrap_or(0) as u16,
    }
}

fn aggregation_of(code: u16) -> Option<Aggregation> {
    if code & PERCENTILE != 0 {
        return Some(Aggregation::Percentile(code & !PERCENTILE));
    }
    METHODS.get(usize::from(code)).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn a_run() -> impl Strategy<Value = (Run, Vec<f64>, Vec<RowCount>)> {
        let slot = prop_oneof![Just((f64::NAN, 0)), (any::<f64>(), 1_u32..), (0.0..100.0, 1_u32..100)];
        let method = prop_oneof![
            (0..METHODS.len()).prop_map(|i| METHODS[i]),
            (1..1000_u16).prop_map(Aggregation::Percentile)
        ];
        let slots = prop::collection::vec(slot, 0..80);
        (0..4_u8, method, 1..10_000_u32, 0..1_000_000_u32, any::<bool>(), slots).prop_map(
            |(stage_index, aggregation, resolution, first_slot, whole, slots)| {
                let run = Run {
                    id: MetricId([7; 16]),
                    stage: Stage { resolution, points: 1000 },
                    stage_index,
                    aggregation,
                    first_slot,
                    len: 0,
                    at: 0,
                    whole,
                };
                let count = |value: f64, count| match (value.is_nan(), stage_index) {
                    (true, _) => RowCount::ZERO,
                    (false, 0) => RowCount::ONE,
                    (false, _) => RowCount::from_bits(count),
                };
                let counts = slots.iter().map(|(v, c)| count(*v, *c)).collect();
                (run, slots.iter().map(|(v, _)| *v).collect(), counts)
            },
        )
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(runs in prop::collection::vec(a_run(), 0..6)) {
            let mut wanted = WriteBatch::default();
            let mut bytes = Vec::new();
            begin(&mut bytes);
            for (run, values, counts) in &runs {
                push(&mut bytes, run, values, counts);
                wanted.push(*run, values, Some(counts));
            }
            let mut found = WriteBatch::default();
            read(MetricId([7; 16]), &bytes, &mut found).unwrap();
            prop_assert_eq!(&found.runs, &wanted.runs);
            prop_assert_eq!(&found.counts, &wanted.counts);
            let bits = |values: &[f64]| -> Vec<u64> {
                values.iter().map(|v| if v.is_nan() { f64::NAN.to_bits() } else { v.to_bits() }).collect()
            };
            prop_assert_eq!(bits(&found.values), bits(&wanted.values));
            for cut in 0..bytes.len() {
                let before = (found.runs.len(), found.values.len(), found.counts.len());
                if read(MetricId([7; 16]), &bytes[..cut], &mut found).is_err() {
                    prop_assert_eq!((found.runs.len(), found.values.len(), found.counts.len()), before);
                }
                found = WriteBatch::default();
                read(MetricId([7; 16]), &bytes, &mut found).unwrap();
            }
        }

        #[test]
        fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut batch = WriteBatch::default();
            let mut sound = vec![VERSION];
            sound.extend(&bytes);
            let _ = read(MetricId([7; 16]), &bytes, &mut batch);
            let _ = read(MetricId([7; 16]), &sound, &mut batch);
            prop_assert_eq!(batch.values.len(), batch.counts.len());
        }
    }

    #[test]
    fn every_method_has_a_code() {
        for method in METHODS {
            assert_eq!(aggregation_of(aggregation_code(method)), Some(method));
        }
        assert_eq!(aggregation_of(9), None);
    }
}
