//! The setting of a protocol whose streams may be compressed.

use serde::Deserialize;

/// How the stream of a sender may be compressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Lines, or a stream of gzip, LZ4 frames or framed snappy. The first bytes show which it is.
    #[default]
    Auto,
    /// Lines only.
    None,
    /// Snappy only: framed, or the bare blocks of carbon-c-relay. Bare blocks cannot be distinguished from lines.
    Snappy,
}
