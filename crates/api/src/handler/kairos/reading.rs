//! How queries of both protocols find series and read their points.

use std::borrow::Cow;
use std::sync::Arc;

use plumbago_kairosdb::kairos::Amount;
use plumbago_kairosdb::names;
use plumbago_store::{FetchError, FetchRequest, KnownSlots};

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

    /// Reads series after `from` and up to `until`, in seconds since the epoch, and makes a column of each. Only slots
    /// with a value are read and counted, since both protocols' queries often begin long before the first point.
    /// xFilesFactor hides no values: a slot with a point has a value for both protocols.
    pub(in crate::handler) async fn columns<C>(
        &mut self,
        names: Vec<String>,
        from: i64,
        until: i64,
        column: impl Fn(&KnownSlots) -> C,
    ) -> Result<Vec<C>, ApiError> {
        let mut columns = Vec::with_capacity(names.len());
        if until <= from {
            return Ok(columns);
        }
        for part in names.chunks(SERIES_PER_READ) {
            let names = part.iter().map(|name| Arc::from(name.as_str())).collect();
            let most = self.api.limits().points;
            let slots_max = most.saturating_sub(self.points);
            let request = FetchRequest { names, from, until, now: self.now, slots_max };
            let read = self.api.source.fetch_known(&request).await;
            let series = read.map_err(|error| match error {
                FetchError::TooManySlots(_) => beyond("points", "points", most),
                other => other.into(),
            })?;
            let slots: usize = series.iter().map(|one| one.slots.len()).sum();
            self.points += slots;
            self.account.add_read(series.len(), slots.saturating_mul(self.point_cost))?;
            columns.extend(series.iter().map(&column));
        }
        Ok(columns)
    }
}

/// The finite points of a series: times in milliseconds and values, each with the sum and the number of the points
/// behind it.
pub(in crate::handler) fn amounts(read: &KnownSlots) -> impl Iterator<Item = (i64, Amount)> + '_ {
    let finite = read.slots.iter().filter(|slot| slot.value.is_finite());
    finite.map(|slot| (slot.time * 1000, Amount { value: slot.value, sum: slot.sum, count: slot.count }))
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
    use plumbago_store::KnownSlot;

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
        let coarse = KnownSlot { time: 60, value: 2.0, sum: 8.0, count: 4 };
        let slots = vec![coarse, KnownSlot::raw(120, f64::INFINITY), KnownSlot::raw(180, 3.0)];
        let read = KnownSlots { name: "m".into(), step: 60, slots };
        let first = Amount { value: 2.0, sum: 8.0, count: 4 };
        let amounts: Vec<_> = amounts(&read).collect();
        assert_eq!(amounts, [(60_000, first), (180_000, Amount::from(3.0))]);
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
