//! Writes files that Python's whisper reads.

use plumbago_model::{Aggregation, Retention};

use crate::POINT_BYTES;
use crate::header::{ARCHIVE_BYTES, METADATA_BYTES, number_of};

/// Why a metric cannot be written as a whisper file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteProblem {
    /// Whisper does not have the method.
    #[error("whisper has no aggregation method {0}")]
    Method(Aggregation),
    /// The file would be too large: its offsets have 32 bits. Holds the size in bytes.
    #[error("the retention needs {0} bytes, and a whisper file has at most 4 GiB")]
    TooLarge(u64),
}

/// A file with these points: for each stage of the retention, the start (seconds since the epoch) and the
/// value of each known slot, in the order of time. If two slots are further apart than the retention, only
/// the later one is kept.
///
/// # Errors
/// If whisper has no such method, or the file would be too large.
pub fn write(
    retention: &Retention,
    method: Aggregation,
    x_files_factor: f64,
    points: &[Vec<(u32, f64)>],
) -> Result<Vec<u8>, WriteProblem> {
    let number = number_of(method).ok_or(WriteProblem::Method(method))?;
    let stages = retention.stages();
    let header_bytes = METADATA_BYTES + stages.len() * ARCHIVE_BYTES;
    let slots: u64 = stages.iter().map(|stage| u64::from(stage.points)).sum();
    let total = header_bytes as u64 + slots * POINT_BYTES as u64;
    if total > u64::from(u32::MAX) {
        return Err(WriteProblem::TooLarge(total));
    }
    let mut out = Vec::with_capacity(total as usize);
    let longest = u32::try_from(retention.duration()).unwrap_or(u32::MAX);
    for word in [number, longest, (x_files_factor as f32).to_bits(), stages.len() as u32] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    let mut offset = header_bytes as u32;
    for stage in stages {
        for word in [offset, stage.resolution, stage.points] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        offset += stage.points * POINT_BYTES as u32;
    }
    out.resize(total as usize, 0);
    let mut rest = &mut out[header_bytes..];
    for (at, stage) in stages.iter().enumerate() {
        let (ring, after) = rest.split_at_mut(stage.points as usize * POINT_BYTES);
        rest = after;
        let points = points.get(at).map(Vec::as_slice).unwrap_or_default();
        fill(ring, stage.resolution, points);
    }
    Ok(out)
}

/// Puts points into a ring. The first point gets the first position.
fn fill(ring: &mut [u8], resolution: u32, points: &[(u32, f64)]) {
    let slots = (ring.len() / POINT_BYTES) as u32;
    let Some((newest, _)) = points.last() else { return };
    let is_kept = |time: u32| (newest - time) / resolution < slots;
    let mut kept = points.iter().filter(|(time, _)| is_kept(*time)).peekable();
    let Some((base, _)) = kept.peek().copied() else { return };
    for (time, value) in kept {
        let place = ((time - base) / resolution % slots) as usize * POINT_BYTES;
        ring[place..place + 4].copy_from_slice(&time.to_be_bytes());
        ring[place + 4..place + POINT_BYTES].copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_whisper_cannot_hold_is_refused() {
        let refused = |stages: &str, method| write(&stages.parse().unwrap(), method, 0.5, &[]).unwrap_err();
        let median = Aggregation::Percentile(500);
        assert_eq!(refused("10s:60s", median), WriteProblem::Method(median));
        assert!(matches!(refused("1s:30y", Aggregation::Sum), WriteProblem::TooLarge(_)));
    }
}
