//! The reasons why a point is refused, and the counting of refusals.

use std::fmt;
use std::net::SocketAddr;

use plumbago_kairosdb::point::Reason;
use plumbago_model::NameError;

/// Longest sample, in bytes as received.
const SAMPLE_BYTES: usize = 120;

/// Why a line, an item or a message was refused.
///
/// Each refusal counts as one received point. A broken frame also counts as one, because its number of points
/// is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reject {
    /// The line does not consist of exactly a name, a value and a timestamp.
    Fields,
    /// The value is not a number.
    Value,
    /// The timestamp is not a number, not finite, or negative. The exception is −1, which means now.
    Timestamp,
    /// The timestamp is after the year 2106. Usually it is in milliseconds.
    Future,
    /// The value is NaN, which senders use for "unknown". Carbon drops it silently.
    Nan,
    /// The name is not UTF-8.
    Encoding,
    /// The name has no component.
    NameEmpty,
    /// The name is longer than the longest name that can be stored.
    NameTooLong,
    /// The name contains a control character or white space.
    NameControl,
    /// The name has tags that Graphite does not allow.
    Tags,
    /// The line is longer than `line_bytes_max`.
    LineTooLong,
    /// The connection closed in the middle of the line.
    HalfLine,
    /// An entry of a frame is not a name with points.
    Item,
    /// The frame or the body could not be decoded. None of its points was accepted.
    Frame,
    /// The frame is longer than `frame_bytes_max`, and its connection was closed. Or the body is longer than
    /// `body_bytes_max`.
    FrameTooLarge,
    /// The connection closed in the middle of the frame, the body, or a block of a compressed stream.
    HalfFrame,
    /// The frame repeats long names so often, that its points would take far more memory than the frame. The
    /// rest of the frame was skipped. Or a compressed stream grows too much when it is decompressed, and its
    /// connection was closed.
    Amplified,
    /// A compressed stream is damaged, so that the rest cannot be decompressed. Its connection was closed, or
    /// the request that contained it was refused.
    Damaged,
    /// An HTTP request that cannot contain points: its method or the coding of its body is unknown.
    Request,
    /// `frame_memory_bytes` had no room for a large frame or body. Its connection was closed.
    Memory,
    /// A pattern of the blacklist matches the name.
    Blacklist,
    /// No pattern of the whitelist matches the name.
    Whitelist,
    /// Matching the pattern of a rule against the name exceeded the step limit.
    Rule,
    /// The engine did not accept the point. Either its queues were full when a datagram arrived, or it has
    /// failed or is shutting down.
    Overflow,
}

impl From<NameError> for Reject {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Empty => Self::NameEmpty,
            NameError::TooLong => Self::NameTooLong,
            NameError::Control => Self::NameControl,
            NameError::Tags => Self::Tags,
        }
    }
}

impl Reject {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order of its discriminant.
    pub const ALL: [Self; 24] = [
        Self::Fields,
        Self::Value,
        Self::Timestamp,
        Self::Future,
        Self::Nan,
        Self::Encoding,
        Self::NameEmpty,
        Self::NameTooLong,
        Self::NameControl,
        Self::Tags,
        Self::LineTooLong,
        Self::HalfLine,
        Self::Item,
        Self::Frame,
        Self::FrameTooLarge,
        Self::HalfFrame,
        Self::Amplified,
        Self::Damaged,
        Self::Request,
        Self::Memory,
        Self::Blacklist,
        Self::Whitelist,
        Self::Rule,
        Self::Overflow,
    ];

    /// The value of the label `reason`. It must not change, because alerts use it.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Fields => "fields",
            Self::Value => "value",
            Self::Timestamp => "timestamp",
            Self::Future => "future",
            Self::Nan => "nan",
            Self::Encoding => "encoding",
            Self::NameEmpty => "name_empty",
            Self::NameTooLong => "name_too_long",
            Self::NameControl => "name_control",
            Self::Tags => "tags",
            Self::LineTooLong => "line_too_long",
            Self::HalfLine => "half_line",
            Self::Item => "item",
            Self::Frame => "frame",
            Self::FrameTooLarge => "frame_too_large",
            Self::HalfFrame => "half_frame",
            Self::Amplified => "amplified",
            Self::Damaged => "damaged",
            Self::Request => "request",
            Self::Memory => "memory",
            Self::Blacklist => "blacklist",
            Self::Whitelist => "whitelist",
            Self::Rule => "rule",
            Self::Overflow => "overflow",
        }
    }

    /// Whether the operator or the sender intends the refusal, so that no warning is needed.
    pub(crate) const fn is_intended(self) -> bool {
        matches!(self, Self::Nan | Self::Blacklist | Self::Whitelist)
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The refusals since the last report: a count and one sample per reason.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Tally {
    counts: [u64; Reject::COUNT],
    samples: Vec<Sample>,
    /// Address of the sender whose bytes are being parsed, for the samples.
    pub origin: Option<SocketAddr>,
}

/// The first text that was refused for a reason since the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// Why the text was refused.
    pub reason: Reject,
    /// The text as received, escaped and shortened.
    pub text: String,
    /// Address of the sender, if known.
    pub origin: Option<SocketAddr>,
}

impl Tally {
    /// Counts a refusal. The first of each reason keeps `bytes` as its sample.
    #[cold]
    pub fn reject(&mut self, reason: Reject, bytes: &[u8]) {
        let count = &mut self.counts[reason as usize];
        *count += 1;
        if *count == 1 {
            self.samples.push(Sample { reason, text: excerpt(bytes), origin: self.origin });
        }
    }

    /// Counts `count` refusals for one reason, with one sample.
    pub(crate) fn reject_many(&mut self, reason: Reject, count: u64, bytes: &[u8]) {
        if count > 0 {
            self.reject(reason, bytes);
            self.counts[reason as usize] += count - 1;
        }
    }

    /// Number of refusals for one reason.
    pub fn count(&self, reason: Reject) -> u64 {
        self.counts[reason as usize]
    }

    /// Number of refusals for all reasons together.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// One sample for each reason that occurred.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Resets counts and samples, but keeps the origin.
    pub fn clear(&mut self) {
        if !self.samples.is_empty() {
            *self = Self { origin: self.origin, ..Self::default() };
        }
    }
}

/// Any bytes as a short text that fits into one log line.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let mut text = shown.escape_ascii().to_string();
    if shown.len() < bytes.len() {
        text.push_str("… (");
        text.push_str(&bytes.len().to_string());
        text.push_str(" bytes)");
    }
    text
}

/// The reason under which a refusal by the parsers of `plumbago_kairosdb` is counted.
pub(crate) fn reject_of(reason: Reason) -> Reject {
    match reason {
        Reason::Body => Reject::Frame,
        Reason::Item => Reject::Item,
        Reason::NameEmpty => Reject::NameEmpty,
        Reason::NameTooLong => Reject::NameTooLong,
        Reason::Tags => Reject::Tags,
        Reason::Timestamp => Reject::Timestamp,
        Reason::Future => Reject::Future,
        Reason::Value => Reject::Value,
        Reason::Nan => Reject::Nan,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_has_its_number_and_its_own_label() {
        for (i, reason) in Reject::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
        let labels: HashSet<_> = Reject::ALL.iter().map(|r| r.label()).collect();
        assert_eq!(labels.len(), Reject::COUNT);
    }

    #[test]
    fn samples_are_short_and_printable() {
        let mut tally = Tally::default();
        tally.reject(Reject::Fields, b"a\n\x1b[2J\xff");
        tally.reject(Reject::Fields, b"second");
        tally.reject(Reject::LineTooLong, &[b'x'; 5000]);
        assert_eq!((tally.count(Reject::Fields), tally.total()), (2, 3));
        let texts: Vec<_> = tally.samples().iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts[0], r"a\n\x1b[2J\xff");
        assert!(texts[1].ends_with("x… (5000 bytes)") && texts[1].len() < 150, "{}", texts[1]);
        tally.clear();
        assert_eq!(tally, Tally::default());
    }
}
