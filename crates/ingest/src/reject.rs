//! Why a point was refused, and the count of it.

use std::fmt;
use std::net::SocketAddr;

/// Longest text of a sample, in bytes of what came over the wire.
const SAMPLE_BYTES: usize = 120;

/// Why a line, an item or a message was refused.
///
/// One of them counts as one received point, also where more were lost with it (a broken frame): how
/// many it held is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Reject {
    /// A line that has not exactly a name, a value and a timestamp.
    Fields,
    /// A value that is no number.
    Value,
    /// A timestamp that is no number, not finite or negative (−1 excepted: it means now).
    Timestamp,
    /// A timestamp beyond the year 2106, usually milliseconds.
    Future,
    /// The value NaN, by which senders say "unknown"; carbon drops it without a word.
    Nan,
    /// A name that is not UTF-8.
    Encoding,
    /// A name with no component in it.
    NameEmpty,
    /// A name longer than is kept.
    NameTooLong,
    /// A name with a control character or white space.
    NameControl,
    /// Tags that Graphite does not allow.
    Tags,
    /// A line longer than the limit.
    LineTooLong,
    /// A line that was not ended when its connection closed.
    HalfLine,
    /// An entry of a frame that is no name with points.
    Item,
    /// A frame that could not be decoded; nothing of it was taken.
    Frame,
    /// A frame longer than the limit; its connection was closed.
    FrameTooLarge,
    /// A frame that was not complete when its connection closed.
    HalfFrame,
    /// The rest of a frame that repeats its names so often that it would fill the memory.
    Amplified,
    /// A large frame for which there was no memory; its connection was closed.
    Memory,
    /// A name that the blacklist matches.
    Blacklist,
    /// A name that the whitelist does not match.
    Whitelist,
    /// A name for which a rule's pattern could not be decided within its limit of steps.
    Rule,
    /// A point that the engine did not take: from a datagram that came while it was behind, or on any way
    /// when it has failed or its start was given up.
    Overflow,
}

impl Reject {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every reason, in the order of their numbers.
    pub const ALL: [Self; 22] = [
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
        Self::Memory,
        Self::Blacklist,
        Self::Whitelist,
        Self::Rule,
        Self::Overflow,
    ];

    /// The text of the label `reason`; stable, since alerts are written on it.
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
            Self::Memory => "memory",
            Self::Blacklist => "blacklist",
            Self::Whitelist => "whitelist",
            Self::Rule => "rule",
            Self::Overflow => "overflow",
        }
    }

    /// True for what the operator or the sender does on purpose, so that it is no news.
    pub(crate) const fn is_intended(self) -> bool {
        matches!(self, Self::Nan | Self::Blacklist | Self::Whitelist)
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// What was refused since the last report: a number per reason, and one sample of each.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Tally {
    counts: [u64; Reject::COUNT],
    samples: Vec<Sample>,
    /// The sender of what is parsed now, for the samples.
    pub origin: Option<SocketAddr>,
}

/// The first text that was refused for a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The reason.
    pub reason: Reject,
    /// What came, escaped and shortened.
    pub text: String,
    /// Who sent it.
    pub origin: Option<SocketAddr>,
}

impl Tally {
    /// Counts one more, and keeps `bytes` as the sample when it is the first of its reason.
    #[cold]
    pub fn reject(&mut self, reason: Reject, bytes: &[u8]) {
        let count = &mut self.counts[reason as usize];
        *count += 1;
        if *count == 1 {
            self.samples.push(Sample { reason, text: excerpt(bytes), origin: self.origin });
        }
    }

    /// How often the reason was given.
    pub fn count(&self, reason: Reject) -> u64 {
        self.counts[reason as usize]
    }

    /// How many were refused, for whatever reason.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// One sample for each reason that was given.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Back to nothing counted; the origin stays.
    pub fn clear(&mut self) {
        if !self.samples.is_empty() {
            *self = Self { origin: self.origin, ..Self::default() };
        }
    }
}

/// Bytes as a short text that fits into one log line, whatever they are.
fn excerpt(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SAMPLE_BYTES)];
    let mut text = shown.escape_ascii().to_string();
    if shown.len() < bytes.len() {
        text.push_str("… (");
        text.push_str(&bytes.len().to_string());
        text.push_str(" bytes)");
    }
    text
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
