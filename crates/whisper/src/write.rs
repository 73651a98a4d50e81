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

/// Gaps between points are written as zeros up to this many bytes; longer ones are left out. About a block of a file
/// system.
const GAP_BYTES: u64 = 4096;

/// A file of which only the parts with points are in memory. All other bytes are zero, which whisper reads as slots
/// without a point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparse {
    /// Bytes of the whole file.
    pub len: u64,
    /// The parts: the place of each in the file, and its bytes.
    pub parts: Vec<(u64, Vec<u8>)>,
}

/// The bytes of a file with this retention.
///
/// # Errors
/// If the file would be too large.
pub fn file_bytes(retention: &Retention) -> Result<u64, WriteProblem> {
    let stages = retention.stages();
    let slots: u64 = stages.iter().map(|stage| u64::from(stage.points)).sum();
    let total = (METADATA_BYTES + stages.len() * ARCHIVE_BYTES) as u64 + slots * POINT_BYTES as u64;
    if total > u64::from(u32::MAX) { Err(WriteProblem::TooLarge(total)) } else { Ok(total) }
}

/// A file with these points: for each stage of the retention, the start (seconds since the epoch) and the
/// value of each known slot, in the order of time. If two slots are further apart than the retention, only
/// the later one is kept.
///
/// # Errors
/// If whisper has no such method, or the file would be too large.
pub fn write_sparse(
    retention: &Retention,
    method: Aggregation,
    x_files_factor: f64,
    points: &[Vec<(u32, f64)>],
) -> Result<Sparse, WriteProblem> {
    let number = number_of(method).ok_or(WriteProblem::Method(method))?;
    let len = file_bytes(retention)?;
    let stages = retention.stages();
    let longest = u32::try_from(retention.duration()).unwrap_or(u32::MAX);
    let mut header = Vec::with_capacity(METADATA_BYTES + stages.len() * ARCHIVE_BYTES);
    for word in [number, longest, (x_files_factor as f32).to_bits(), stages.len() as u32] {
        header.extend_from_slice(&word.to_be_bytes());
    }
    let first = (METADATA_BYTES + stages.len() * ARCHIVE_BYTES) as u32;
    let mut offset = first;
    for stage in stages {
        for word in [offset, stage.resolution, stage.points] {
            header.extend_from_slice(&word.to_be_bytes());
        }
        offset += stage.points * POINT_BYTES as u32;
    }
    let mut parts = vec![(0, header)];
    let mut offset = u64::from(first);
    for (at, stage) in stages.iter().enumerate() {
        fill(offset, stage.points, stage.resolution, points.get(at).map_or(&[], Vec::as_slice), &mut parts);
        offset += u64::from(stage.points) * POINT_BYTES as u64;
    }
    Ok(Sparse { len, parts })
}

/// Like [`write_sparse`], with the whole file as one piece.
///
/// # Errors
/// As for [`write_sparse`].
pub fn write(
    retention: &Retention,
    method: Aggregation,
    x_files_factor: f64,
    points: &[Vec<(u32, f64)>],
) -> Result<Vec<u8>, WriteProblem> {
    let Sparse { len, parts } = write_sparse(retention, method, x_files_factor, points)?;
    let mut out = Vec::with_capacity(len as usize);
    for (place, bytes) in parts {
        out.resize(place as usize, 0);
        out.extend_from_slice(&bytes);
    }
    out.resize(len as usize, 0);
    Ok(out)
}

/// Puts points into a ring of this many slots that begins at `offset`. The first point gets the first
/// position.
fn fill(offset: u64, slots: u32, resolution: u32, points: &[(u32, f64)], parts: &mut Vec<(u64, Vec<u8>)>) {
    let Some((newest, _)) = points.last() else { return };
    let is_kept = |time: u32| (newest - time) / resolution < slots;
    let mut kept = points.iter().filter(|(time, _)| is_kept(*time)).peekable();
    let Some((base, _)) = kept.peek().copied() else { return };
    for (time, value) in kept {
        let mut point = [0; POINT_BYTES];
        point[..4].copy_from_slice(&time.to_be_bytes());
        point[4..].copy_from_slice(&value.to_be_bytes());
        put(offset + u64::from((time - base) / resolution) * POINT_BYTES as u64, point, parts);
    }
}

/// Adds a point to the last part, or to a new one if its place in the file is far from the last part.
fn put(place: u64, point: [u8; POINT_BYTES], parts: &mut Vec<(u64, Vec<u8>)>) {
    let end = parts.last().map_or(0, |(start, bytes)| start + bytes.len() as u64);
    match parts.last_mut() {
        Some((start, part)) if place <= end + GAP_BYTES => {
            let at = place.saturating_sub(*start) as usize;
            part.resize(part.len().max(at + POINT_BYTES), 0);
            part[at..at + POINT_BYTES].copy_from_slice(&point);
        }
        _ => parts.push((place, point.to_vec())),
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

    #[test]
    fn a_long_file_with_few_points_has_few_parts() {
        let retention: Retention = "1s:10y,60s:11y".parse().unwrap();
        let start: u32 = 1_600_000_020;
        let seconds = [start, start + 1, start + 100, start + 200_000_000];
        let points =
            [seconds.map(|time| (time, f64::from(time))).to_vec(), vec![(start - 60, 7.0), (start, 8.0)]];
        let file = write_sparse(&retention, Aggregation::Sum, 0.5, &points).unwrap();
        assert_eq!(file.len, file_bytes(&retention).unwrap());
        let places: Vec<u64> = file.parts.iter().map(|(place, _)| *place).collect();
        let header = (METADATA_BYTES + 2 * ARCHIVE_BYTES) as u64;
        let coarse = header + 12 * 3650 * 86_400;
        assert_eq!(places, [0, header + 12 * 200_000_000, coarse]);
        let lens: Vec<usize> = file.parts.iter().map(|(_, bytes)| bytes.len()).collect();
        assert_eq!(lens, [header as usize + 101 * POINT_BYTES, POINT_BYTES, 2 * POINT_BYTES]);
        assert_eq!(file.parts[2].1[..4], (start - 60).to_be_bytes());
    }
}
