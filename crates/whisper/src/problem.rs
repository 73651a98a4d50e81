//! Why a file cannot be read.

use plumbago_model::RetentionError;

/// Why bytes are not a whisper file that can be read. The text continues "the file …".
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Problem {
    /// The file is empty.
    #[error("is empty")]
    Empty,
    /// The file is shorter than its header says.
    #[error("is cut off: it has {found} bytes, and its header needs {needed}")]
    Truncated {
        /// Number of bytes that the header describes.
        needed: u64,
        /// Number of bytes in the file.
        found: u64,
    },
    /// The file continues after its last archive.
    #[error(
        "has {found} bytes, but its header describes {described}: it is damaged, or not a whisper file. If \
         whisper-info.py shows the right archives, cut it to {described} bytes with truncate(1)"
    )]
    Oversized {
        /// Number of bytes that the header describes.
        described: u64,
        /// Number of bytes in the file.
        found: u64,
    },
    /// The file has go-carbon's compressed format.
    #[error(
        "has go-carbon's compressed format, which cannot be read. Keep go-carbon running for graphs of that time until \
         the points of the file have expired, or write the metric to a plain whisper file with go-carbon's own tools"
    )]
    Compressed,
    /// The number of the aggregation method is unknown.
    #[error(
        "has the aggregation method {0}, which whisper 1.1.10 does not know. Set a known one with \
         whisper-set-aggregation-method.py"
    )]
    Method(u32),
    /// The xFilesFactor is not between 0 and 1.
    #[error("is not a whisper file, or its header is damaged: its xFilesFactor is not from 0 to 1")]
    Factor,
    /// The number of archives is 0 or too large.
    #[error("is not a whisper file, or its header is damaged: it has {0} archives")]
    ArchiveCount(u32),
    /// An archive begins inside the header or another archive.
    #[error("has a damaged header: archive {0} overlaps the header or another archive")]
    Overlap(usize),
    /// The archives are not a valid retention.
    #[error("has archives that do not form a retention: {0}")]
    Archives(RetentionError),
    /// The longest archive is not as long as the header says.
    #[error(
        "has a damaged header: it gives {given} s as the longest retention, but its archives cover {found} s"
    )]
    MaxRetention {
        /// The longest time range according to the header, in seconds.
        given: u32,
        /// The time range that the archives cover, in seconds.
        found: u64,
    },
}

impl Problem {
    /// A short name of the problem, for counting problems by reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Truncated { .. } => "truncated",
            Self::Oversized { .. } => "oversized",
            Self::Compressed => "compressed",
            Self::Method(_) => "method",
            Self::Factor | Self::ArchiveCount(_) => "not_whisper",
            Self::Overlap(_) | Self::MaxRetention { .. } => "damaged",
            Self::Archives(_) => "archives",
        }
    }
}
