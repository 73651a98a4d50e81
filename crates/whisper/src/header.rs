//! The header: 16 bytes, then 12 for each archive.

use plumbago_model::{Aggregation, MetricConfig, Retention, RetentionError, Stage};

use crate::{POINT_BYTES, Problem};

/// Size of the part before the list of archives, in bytes.
pub(crate) const METADATA_BYTES: usize = 16;
/// Size of an entry in the list of archives, in bytes.
pub(crate) const ARCHIVE_BYTES: usize = 12;
/// Maximum number of archives of a file. Real files have two to five.
const ARCHIVES_MAX: u32 = 256;
/// How a file in go-carbon's compressed format begins.
const COMPRESSED: &[u8] = b"whisper_compressed";

/// The aggregation methods of whisper 1.1.10 and their numbers in a file.
const METHODS: [(u32, Aggregation); 8] = [
    (1, Aggregation::Average),
    (2, Aggregation::Sum),
    (3, Aggregation::Last),
    (4, Aggregation::Max),
    (5, Aggregation::Min),
    (6, Aggregation::AvgZero),
    (7, Aggregation::AbsMax),
    (8, Aggregation::AbsMin),
];

/// The method with this number in a file; `None` if whisper 1.1.10 has none.
pub fn method_of(number: u32) -> Option<Aggregation> {
    METHODS.iter().find(|(known, _)| *known == number).map(|(_, method)| *method)
}

/// The number of a method in a file; `None` for methods that whisper does not have.
pub fn number_of(method: Aggregation) -> Option<u32> {
    METHODS.iter().find(|(_, known)| *known == method).map(|(number, _)| *number)
}

/// One archive: a ring of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archive {
    /// The byte offset of the archive in the file.
    pub offset: u32,
    /// The resolution and the number of slots.
    pub stage: Stage,
}

impl Archive {
    /// The size of the archive in the file, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.stage.points) * POINT_BYTES as u64
    }

    fn end(&self) -> u64 {
        u64::from(self.offset) + self.bytes()
    }
}

/// The header of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// How slots are aggregated into a slot of the next archive.
    pub method: Aggregation,
    /// The share of slots, from 0 to 1, that must be known for a slot of the next archive.
    pub x_files_factor: f32,
    /// The archives, the finest first.
    pub archives: Vec<Archive>,
}

impl Header {
    /// Reads and checks the header of a file. The file begins with `bytes` and has `bytes_total` bytes.
    ///
    /// # Errors
    /// If the bytes are not a header that describes a file of this length.
    pub fn parse(bytes: &[u8], bytes_total: u64) -> Result<Self, Problem> {
        if bytes.is_empty() {
            return Err(Problem::Empty);
        }
        if bytes.starts_with(COMPRESSED) {
            return Err(Problem::Compressed);
        }
        let needs = |needed: usize| {
            let truncated = Problem::Truncated { needed: needed as u64, found: bytes.len() as u64 };
            if bytes.len() < needed { Err(truncated) } else { Ok(()) }
        };
        needs(METADATA_BYTES)?;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
        let (number, given, count) = (word(0), word(4), word(12));
        let x_files_factor = f32::from_bits(word(8));
        if !(0.0..=1.0).contains(&x_files_factor) {
            return Err(Problem::Factor);
        }
        if count == 0 || count > ARCHIVES_MAX {
            return Err(Problem::ArchiveCount(count));
        }
        let method = method_of(number).ok_or(Problem::Method(number))?;
        let header_bytes = METADATA_BYTES + count as usize * ARCHIVE_BYTES;
        needs(header_bytes)?;
        let archive = |i: usize| {
            let at = METADATA_BYTES + i * ARCHIVE_BYTES;
            Archive { offset: word(at), stage: Stage { resolution: word(at + 4), points: word(at + 8) } }
        };
        let mut archives: Vec<Archive> = (0..count as usize).map(archive).collect();
        check_places(&archives, header_bytes as u64, bytes_total)?;
        let retention = retention(&archives).map_err(Problem::Archives)?;
        if u64::from(given) != retention.duration() {
            return Err(Problem::MaxRetention { given, found: retention.duration() });
        }
        archives.sort_by_key(|archive| archive.stage.resolution);
        Ok(Self { method, x_files_factor, archives })
    }

    /// The largest size of a header, in bytes. This many bytes at the start of a file contain its whole
    /// header.
    pub const BYTES_MAX: usize = METADATA_BYTES + ARCHIVES_MAX as usize * ARCHIVE_BYTES;

    /// The retention, the method and the factor as the settings of a metric. The file stores the factor as a
    /// 32-bit float; the settings have the shortest decimal number with that value, e.g. 0.3 instead of
    /// 0.30000001.
    pub fn config(&self) -> MetricConfig {
        MetricConfig {
            retention: retention(&self.archives).unwrap_or_else(|_| self.archives[0].stage.into()),
            aggregation: self.method,
            x_files_factor: self.x_files_factor.to_string().parse().unwrap_or(0.5),
        }
    }
}

fn retention(archives: &[Archive]) -> Result<Retention, RetentionError> {
    let too_long = |stage: &Stage| stage.duration() > u64::from(u32::MAX);
    if let Some(archive) = archives.iter().find(|archive| too_long(&archive.stage)) {
        return Err(RetentionError::TooLong(archive.stage.to_string()));
    }
    Retention::of_stages(archives.iter().map(|archive| archive.stage).collect())
}

/// Checks that the archives lie one after the other and fill the file.
fn check_places(archives: &[Archive], header_bytes: u64, found: u64) -> Result<(), Problem> {
    let mut order: Vec<usize> = (0..archives.len()).collect();
    order.sort_by_key(|at| archives[*at].offset);
    let mut end = header_bytes;
    for at in order {
        if u64::from(archives[at].offset) < end {
            return Err(Problem::Overlap(at));
        }
        end = archives[at].end();
    }
    match found {
        found if found < end => Err(Problem::Truncated { needed: end, found }),
        found if found > end => Err(Problem::Oversized { described: end, found }),
        _ => Ok(()),
    }
}
