//! Finds the coarsest storage rules that lose no more points than slots of one second would.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Resolutions that are tried, in seconds.
const RESOLUTIONS: [u32; 19] =
    [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400];
/// Largest number of metrics that are recorded separately. Further ones are recorded together.
const METRICS_MAX: usize = 100_000;
/// Largest number of metrics that a pattern lists. If a section would have more, it matches all series with
/// tags, and comes last.
const NAMED_MAX: usize = 200;
/// The record of all metrics beyond [`METRICS_MAX`].
const OTHERS: &str = "";

/// The records of the metrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Suggestions(BTreeMap<String, Note>);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    /// A bit for each resolution at which no series loses points.
    fits: u32,
    /// The time of the oldest point of any series, in seconds since the epoch.
    oldest: i64,
    series: u64,
}

impl Note {
    fn add(&mut self, other: &Self) {
        self.fits &= other.fits;
        self.oldest = self.oldest.min(other.oldest);
        self.series += other.series;
    }
}

impl Suggestions {
    /// Examines the sorted points of a series. A key is twice the milliseconds, plus a bit.
    pub(super) fn note(&mut self, name: &str, points: &[(i64, f64)]) {
        let Some((first, _)) = points.first() else { return };
        let count = |resolution: u32| {
            let slot = |key: i64| key / 2000 / i64::from(resolution);
            1 + points.windows(2).filter(|pair| slot(pair[0].0) != slot(pair[1].0)).count()
        };
        let all = count(1);
        let fits = RESOLUTIONS.iter().enumerate().filter(|(_, resolution)| count(**resolution) == all);
        let fits = fits.fold(0, |bits, (at, _)| bits | 1 << at);
        let metric = name.split(';').next().unwrap_or_default();
        self.put(metric, &Note { fits, oldest: first / 2000, series: 1 });
    }

    pub(super) fn add(&mut self, others: Self) {
        others.0.iter().for_each(|(metric, note)| self.put(metric, note));
    }

    fn put(&mut self, metric: &str, note: &Note) {
        let is_known = self.0.contains_key(metric);
        let metric = if is_known || self.0.len() < METRICS_MAX { metric } else { OTHERS };
        match self.0.get_mut(metric) {
            Some(known) => known.add(note),
            None => drop(self.0.insert(metric.to_owned(), note.clone())),
        }
    }

    /// The sections of a `storage-schemas.conf`. `now` is in seconds since the epoch.
    pub(super) fn text(&self, now: i64) -> String {
        let mut groups: BTreeMap<u32, Group<'_>> = BTreeMap::new();
        for (metric, note) in &self.0 {
            let at = (u32::BITS - 1).saturating_sub(note.fits.leading_zeros()) as usize;
            let group = groups.entry(RESOLUTIONS[at]).or_default();
            group.metrics.push(metric);
            group.series += note.series;
            group.age = group.age.max(now.saturating_sub(note.oldest));
        }
        // The group that is too large to be listed matches the rest. Only the finest such group may do so,
        // because coarser ones would lose points.
        let rest = groups.iter().find(|(_, group)| !group.is_named()).map(|(resolution, _)| *resolution);
        let mut text = String::new();
        let mut last = Group::default();
        for (resolution, group) in &groups {
            match rest {
                Some(rest) if !group.is_named() => {
                    last.series += group.series;
                    last.age = last.age.max(group.age);
                    last.count += group.metrics.len();
                    last.resolution = rest;
                }
                _ => text.push_str(&group.section(*resolution, &group.pattern())),
            }
        }
        if rest.is_some() {
            text.push_str(&last.section(last.resolution, ";"));
        }
        text
    }
}

/// Metrics with the same resolution.
#[derive(Default)]
struct Group<'a> {
    metrics: Vec<&'a str>,
    series: u64,
    /// Seconds since the first point.
    age: i64,
    /// The number of metrics, and the resolution, of the group that matches the rest.
    count: usize,
    resolution: u32,
}

impl Group<'_> {
    fn is_named(&self) -> bool {
        self.metrics.len() <= NAMED_MAX && !self.metrics.contains(&OTHERS)
    }

    fn pattern(&self) -> String {
        let names: Vec<String> = self.metrics.iter().map(|metric| escaped(metric)).collect();
        format!("^({})(;|$)", names.join("|"))
    }

    fn section(&self, resolution: u32, pattern: &str) -> String {
        let day = 86_400;
        // One day more, because the import may be made later than this.
        let days = self.age.max(0) / day + 2;
        format!(
            "# {} metrics, {} series\n[kairosdb_{resolution}s]\npattern = {pattern}\nretentions = {resolution}s:{days}d\n\n",
            self.metrics.len() + self.count,
            self.series
        )
    }
}

/// A pattern that matches just this text.
fn escaped(text: &str) -> String {
    let is_plain =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '%' | ',' | ':' | '@' | '=');
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_plain(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(step_ms: i64, shift_ms: i64) -> Vec<(i64, f64)> {
        (0..200).map(|i| ((1_700_000_000_000 + shift_ms + i * step_ms) * 2, 0.0)).collect()
    }

    #[test]
    fn the_coarsest_resolution_without_loss_is_suggested() {
        let mut found = Suggestions::default();
        found.note("minute;a=1", &every(60_000, 500));
        found.note("minute;a=2", &every(120_000, 0));
        found.note("half.a minute;a=1", &every(30_000, 0));
        // Milliseconds are lost in any case.
        found.note("fast;a=1", &every(250, 0));
        found.note("lonely;a=1", &every(60_000, 0)[..1]);
        let text = found.text(1_700_000_000 + 86_400 * 10);
        let expected = "\
# 1 metrics, 1 series
[kairosdb_1s]
pattern = ^(fast)(;|$)
retentions = 1s:12d

# 1 metrics, 1 series
[kairosdb_30s]
pattern = ^(half\\.a\\ minute)(;|$)
retentions = 30s:12d

# 1 metrics, 2 series
[kairosdb_60s]
pattern = ^(minute)(;|$)
retentions = 60s:12d

# 1 metrics, 1 series
[kairosdb_86400s]
pattern = ^(lonely)(;|$)
retentions = 86400s:12d

";
        assert_eq!(text, expected);
    }

    #[test]
    fn many_metrics_get_a_section_for_the_rest() {
        let mut found = Suggestions::default();
        for metric in 0..1000 {
            found.note(&format!("m{metric};a=1"), &every(10_000, 0));
            found.note(&format!("n{metric};a=1"), &every(60_000, 0));
        }
        found.note("one;a=1", &every(1_000, 0));
        let text = found.text(1_700_086_400);
        assert_eq!(text.matches("[kairosdb_").count(), 2);
        assert!(text.starts_with("# 1 metrics, 1 series\n[kairosdb_1s]\npattern = ^(one)(;|$)"), "{text}");
        assert!(
            text.ends_with(
                "# 2000 metrics, 2000 series\n[kairosdb_10s]\npattern = ;\nretentions = 10s:3d\n\n"
            ),
            "{text}"
        );
    }
}
