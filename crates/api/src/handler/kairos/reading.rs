//! How queries of both protocols find series and read their points.

use std::borrow::Cow;
use std::sync::Arc;

use plumbago_kairosdb::kairos::Amount;
use plumbago_kairosdb::names;
use plumbago_store::{FetchRequest, Weighted};

use crate::error::{ApiError, beyond};
use crate::handler::tag_search;
use crate::memory::Account;
use crate::state::Api;

/// A query that ends in the future is read up to this many seconds after now.
const AHEAD: i64 = 300;

/// Maximum number of series in one read.
const SERIES_PER_READ: usize = 512;

/// Reads the points of one request and counts them against its limits.
pub(in crate::handler) struct Reading<'a> {
    api: &'a Arc<Api>,
    account: Account,
    /// The memory that a point takes until the answer is sent, in units of 8 bytes.
    point_cost: usize,
    /// The current time of the request, in seconds since the epoch.
    now: i64,
    series: usize,
    points: usize,
}

impl<'a> Reading<'a> {
    pub(in crate::handler) fn new(api: &'a Arc<Api>, now_ms: i64, point_cost: usize) -> Self {
        let now = now_ms.div_euclid(1000);
        Self { api, account: api.account(), point_cost, now, series: 0, points: 0 }
    }

    /// Counts series that were found, and fails if there are too many.
    pub(in crate::handler) fn count(&mut self, series: usize) -> Result<(), ApiError> {
        self.series += series;
        if self.series > self.api.limits().series {
            return Err(beyond("series", "series", self.api.limits().series));
        }
        Ok(())
    }

    /// The time up to which points are read for a query that ends at `until`, in seconds since the epoch.
    pub(in crate::handler) fn end(&self, until: i64) -> i64 {
        until.min(self.now + AHEAD)
    }

    /// Reads series after `from` and up to `until`, in seconds since the epoch, and makes a column of each
    /// series. xFilesFactor does not hide values here: in both protocols a slot with a point has a value.
    pub(in crate::handler) async fn columns<C>(
        &mut self,
        names: Vec<String>,
        from: i64,
        until: i64,
        column: impl Fn(&Weighted) -> C,
    ) -> Result<Vec<C>, ApiError> {
        let mut columns = Vec::with_capacity(names.len());
        if until <= from {
            return Ok(columns);
        }
        for part in names.chunks(SERIES_PER_READ) {
            let names = part.iter().map(|name| Arc::from(name.as_str())).collect();
            let request = FetchRequest { names, from, until, now: self.now };
            let series = self.api.source.fetch_weighted(&request).await?;
            let slots: usize = series.iter().map(|one| one.series.values.len()).sum();
            self.points += slots;
            if self.points > self.api.limits().points {
                return Err(beyond("points", "points", self.api.limits().points));
            }
            self.account.add_read(series.len(), slots.saturating_mul(self.point_cost))?;
            columns.extend(series.iter().map(&column));
        }
        Ok(columns)
    }
}

/// The points of a series that have a value: times in milliseconds and values, each with the sum and the number of the
/// points behind it.
pub(in crate::handler) fn amounts(read: &Weighted) -> impl Iterator<Item = (i64, Amount)> + '_ {
    let Weighted { series, weights } = read;
    let time = |at: usize| (series.start + at as i64 * i64::from(series.step)) * 1000;
    let amount = |at: usize, value: f64| match weights.get(at) {
        Some((sum, count)) if sum.is_finite() => Amount { value, sum: *sum, count: (*count).max(1) },
        _ => Amount::from(value),
    };
    let known = series.values.iter().enumerate().filter(|(_, value)| value.is_finite());
    known.map(move |(at, value)| (time(at), amount(at, *value)))
}

/// The tag expression that matches any of the given values of a tag. All values are encoded. `None` means any
/// value.
pub(in crate::handler) fn expression(tag: &str, values: Option<&[Cow<'_, str>]>) -> String {
    match values {
        Some([value]) => format!("{tag}={value}"),
        Some(values) => {
            let values: Vec<String> = values.iter().map(|value| escaped(value)).collect();
            format!("{tag}=~^({})$", values.join("|"))
        }
        None => format!("{tag}!="),
    }
}

/// The names of the series that match all tag expressions, sorted.
pub(in crate::handler) async fn find(api: &Arc<Api>, texts: &[String]) -> Result<Vec<String>, ApiError> {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    tag_search::series(api, &texts).await
}

/// Adds the series of a metric that has no tags. Such a series is only in the tree, not among the tagged
/// series.
pub(in crate::handler) fn add_untagged(api: &Api, metric: &str, found: &mut Vec<String>) {
    let plain = names::metric(metric);
    if !plain.contains(['*', '?', '[', '{']) && api.index.contains(&plain) {
        found.insert(0, plain.into_owned());
        found.dedup();
    }
}

/// Escapes a text so that each character stands for itself in a regular expression.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_punctuation()
            && !matches!(
                character,
                '_' | '%' | '=' | '~' | '"' | '\'' | ',' | ':' | '@' | '<' | '>' | '/' | '!' | '`'
            )
        {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use plumbago_model::Series;

    use super::*;

    #[test]
    fn escaped_texts_match_only_themselves() {
        for text in ["a.b", "x|y", "(a)", "50%2B", "a-b_c", "[x]{2}^$\\", "é", "a=b~c:d@e"] {
            let regex = regex_like(&escaped(text));
            assert_eq!(regex, text, "{text}");
        }
    }

    #[test]
    fn points_of_coarse_slots() {
        let series = Series { name: "m".into(), start: 60, step: 60, values: vec![2.0, f64::NAN, 3.0] };
        let raw = Weighted { series: series.clone(), weights: Vec::new() };
        let of = |read: &Weighted| amounts(read).collect::<Vec<_>>();
        assert_eq!(of(&raw), [(60_000, Amount::from(2.0)), (180_000, Amount::from(3.0))]);
        let coarse = Weighted { series, weights: vec![(8.0, 4), (0.0, 0), (3.0, 1)] };
        let first = Amount { value: 2.0, sum: 8.0, count: 4 };
        assert_eq!(of(&coarse), [(60_000, first), (180_000, Amount::from(3.0))]);
    }

    /// The text that these escapes stand for in a regular expression.
    fn regex_like(escaped: &str) -> String {
        let mut text = String::new();
        let mut characters = escaped.chars();
        while let Some(character) = characters.next() {
            text.push(if character == '\\' { characters.next().unwrap() } else { character });
        }
        text
    }
}
