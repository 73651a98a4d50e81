//! The result of reading a body or a line: points by series, and refusals.

use std::borrow::Cow;

use plumbago_model::name::NAME_BYTES_MAX;

use crate::number::{Number, is_beyond_64_bits};
use crate::{json, names};

/// Maximum number of refusals of a body that are named in its answer. Further ones are only counted.
const NAMED_MAX: usize = 100;

/// A point of [`Points`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The number of its series.
    pub series: u32,
    /// Seconds since the epoch.
    pub timestamp: u32,
    /// The value; never NaN.
    pub value: f64,
}

/// Why a point was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The body cannot be read from here on. Counts as one point.
    Body,
    /// The entry is not a point, or a part of it is missing.
    Item,
    /// The metric has no name.
    NameEmpty,
    /// The name of the series is longer than a name can be.
    NameTooLong,
    /// A tag or its value is empty or missing.
    Tags,
    /// The timestamp is not a number, or negative.
    Timestamp,
    /// The timestamp is after the year 2106.
    Future,
    /// The value is text, or of a type that is not kept.
    Value,
    /// The value is not finite.
    Nan,
}

impl Reason {
    /// Every reason, in the order of its discriminant.
    pub const ALL: [Self; 9] = [
        Self::Body,
        Self::Item,
        Self::NameEmpty,
        Self::NameTooLong,
        Self::Tags,
        Self::Timestamp,
        Self::Future,
        Self::Value,
        Self::Nan,
    ];
}

/// A refusal that is named in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why the point was refused.
    pub reason: Reason,
    /// The problem, as a text for the sender.
    pub text: String,
    /// The refused point as JSON, where the protocol returns it.
    pub item: Option<String>,
}

/// The points of a body. A name is stored once for all points of its entry, so that a point takes 16 bytes
/// however long its name is.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Points {
    names: String,
    /// Where the name of each series ends.
    ends: Vec<usize>,
    points: Vec<Point>,
    refused: Vec<Refused>,
    counts: [u64; Reason::ALL.len()],
    /// Number of points that [`Self::refusals`] left out.
    taken: usize,
    /// Number of points that had a time to live, which is not kept.
    pub with_ttl: u64,
    /// Number of points whose time had milliseconds, which were cut.
    pub cut: u64,
    /// Whole numbers beyond 2⁵³ that are kept as the nearest double.
    pub rounded: u64,
    /// Values beyond 64 bits that were read as doubles. Some of them may have been whole numbers in the body.
    large: u64,
}

impl Points {
    /// The points, in the order of the body.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Number of series. A series that occurs in several entries counts several times.
    pub fn series_len(&self) -> usize {
        self.ends.len()
    }

    /// The name of a series in Graphite's form.
    pub fn name(&self, series: u32) -> &str {
        let at = series as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.names[from..self.ends[at]]
    }

    /// A copy without the points. After the points have been handed over, the answer needs only this.
    pub fn refusals(&self) -> Self {
        Self { refused: self.refused.clone(), counts: self.counts, taken: self.taken(), ..Self::default() }
    }

    /// Number of points that were not refused.
    pub fn taken(&self) -> usize {
        self.taken + self.points.len()
    }

    /// The refusals that are named, at most a hundred.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Number of points refused for one reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason as usize]
    }

    /// Number of points refused.
    pub fn refused_len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Memory that the points take, in bytes.
    pub fn bytes(&self) -> usize {
        self.names.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.points.capacity() * size_of::<Point>()
    }

    /// Counts `points` refused points, and names the refusal unless many were named.
    pub(crate) fn refuse(&mut self, reason: Reason, points: u64, text: impl Into<String>) {
        self.counts[reason as usize] += points;
        if self.refused.len() < NAMED_MAX {
            self.refused.push(Refused { reason, text: text.into(), item: None });
        }
    }

    /// Adds a point to the series that the next call of [`Self::close_series`] names.
    #[inline]
    pub(crate) fn add(&mut self, time_ms: i64, value: Number) -> Result<(), Reason> {
        let timestamp = self.seconds(time_ms)?;
        let value = self.number(value)?;
        let series = self.ends.len() as u32;
        self.points.push(Point { series, timestamp, value });
        Ok(())
    }

    /// The whole seconds of a time. Points that lose milliseconds are counted.
    fn seconds(&mut self, time_ms: i64) -> Result<u32, Reason> {
        if time_ms < 0 {
            return Err(Reason::Timestamp);
        }
        let seconds = u32::try_from(time_ms / 1000).map_err(|_| Reason::Future)?;
        self.cut += u64::from(time_ms % 1000 != 0);
        Ok(seconds)
    }

    fn number(&mut self, number: Number) -> Result<f64, Reason> {
        let (value, is_rounded) = number.to_double();
        self.rounded += u64::from(is_rounded);
        self.large += u64::from(matches!(number, Number::Real(real) if is_beyond_64_bits(real)));
        if value.is_finite() { Ok(value) } else { Err(Reason::Nan) }
    }

    /// Counts the rounded whole numbers beyond 64 bits. The JSON parser returns them as doubles, so only the
    /// body itself distinguishes them from numbers like 1e30. The body is searched only if there are such
    /// values.
    pub(crate) fn count_large(&mut self, body: &[u8]) {
        if self.large > 0 {
            self.rounded += json::rounded_beyond_64_bits(body).min(self.large);
            self.large = 0;
        }
    }

    /// The present state, where the next entry begins.
    pub(crate) fn mark(&self) -> Mark {
        let Self { cut, rounded, large, .. } = *self;
        Mark { points: self.points.len(), refused: self.refused.len(), cut, rounded, large }
    }

    /// Number of points since a mark.
    pub(crate) fn since(&self, mark: Mark) -> usize {
        self.points.len() - mark.points
    }

    /// Removes the points added since a mark, and returns their number.
    pub(crate) fn take_back(&mut self, mark: Mark) -> u64 {
        let taken = self.since(mark);
        self.points.truncate(mark.points);
        (self.cut, self.rounded, self.large) = (mark.cut, mark.rounded, mark.large);
        taken as u64
    }

    /// Puts a text in front of the refusals since a mark.
    pub(crate) fn prefix(&mut self, mark: Mark, prefix: impl Fn() -> String) {
        for refused in &mut self.refused[mark.refused..] {
            refused.text.insert_str(0, &prefix());
        }
    }

    /// Attaches the JSON of a point to the refusals since a mark.
    pub(crate) fn attach(&mut self, mark: Mark, item: impl Fn() -> String) {
        for refused in &mut self.refused[mark.refused..] {
            refused.item = Some(item());
        }
    }

    /// Names the series of the points added since the last one. The tags must not be empty, and each occurs once.
    /// Fails if the name is too long.
    pub(crate) fn close_series(&mut self, metric: &str, tags: &mut [Tag<'_>]) -> Result<(), Reason> {
        let from = self.names.len();
        names::append(&mut self.names, metric, tags);
        if self.names.len() - from > NAME_BYTES_MAX {
            self.names.truncate(from);
            return Err(Reason::NameTooLong);
        }
        self.ends.push(self.names.len());
        Ok(())
    }
}

/// A state of [`Points`] to which [`Self::take_back`](Points::take_back) can return.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    points: usize,
    refused: usize,
    cut: u64,
    rounded: u64,
    large: u64,
}

/// A tag and its value.
pub(crate) type Tag<'a> = (Cow<'a, str>, Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_and_numbers_kept_as_doubles() {
        let mut points = Points::default();
        assert_eq!(points.add(1_500_000_000_999, Number::Whole(7)), Ok(()));
        assert_eq!(points.add(0, Number::Whole((1 << 53) + 1)), Ok(()));
        assert_eq!(points.add(-1, Number::Whole(1)), Err(Reason::Timestamp));
        assert_eq!(points.add(i64::MAX, Number::Whole(1)), Err(Reason::Future));
        assert_eq!(points.add(0, Number::Real(f64::INFINITY)), Err(Reason::Nan));
        points.close_series("m", &mut [("a".into(), "b".into())]).unwrap();
        assert_eq!((points.cut, points.rounded, points.points().len()), (1, 1, 2));
        assert_eq!(points.points()[0], Point { series: 0, timestamp: 1_500_000_000, value: 7.0 });
        assert_eq!(points.name(0), "m;a=b");
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(points.close_series(&long, &mut []), Err(Reason::NameTooLong));
        points.close_series("n", &mut []).unwrap();
        assert_eq!((points.name(1), points.series_len()), ("n", 2));
    }
}
