//! A query in a query string: `start=…&m=AGGREGATOR[:rate][:DOWNSAMPLE]:METRIC{TAG=FILTER}{TAG=FILTER}`.

use super::filter::Filter;
use super::parts::{Parts, SubParts, within};
use super::rate::RateOptions;

/// The number of parts between colons that a query may have.
const COLONS: std::ops::RangeInclusive<usize> = 2..=5;

pub(super) fn parts<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Parts, String> {
    let mut parts = Parts::default();
    let mut seen = Vec::new();
    for (key, value) in pairs {
        match key {
            "start" => parts.start = value.to_owned(),
            "end" => parts.end = value.to_owned(),
            "tz" | "timezone" => parts.zone = value.to_owned(),
            "ms" => parts.ms_resolution = true,
            "show_query" => parts.show_query = true,
            "tsuid" => return Err("tsuids are not supported; name the metric and its tags".to_owned()),
            // A sub-query that occurs twice is answered once.
            "m" if !seen.contains(&value) => {
                seen.push(value);
                within(seen.len(), "queries")?;
                parts.subs.push(sub(value)?);
            }
            _ => {}
        }
    }
    Ok(parts)
}

fn sub(text: &str) -> Result<SubParts, String> {
    let words: Vec<&str> = text.split(':').collect();
    if !COLONS.contains(&words.len()) {
        return Err(format!("Invalid parameter m={text} (2 to 5 parts with : between them)"));
    }
    let (metric, filters) = metric_and_filters(words[words.len() - 1])?;
    let mut sub = SubParts { aggregator: words[0].to_owned(), metric, filters, ..SubParts::default() };
    for word in &words[1..words.len() - 1] {
        let lower = word.to_ascii_lowercase();
        if lower.starts_with("rate") {
            sub.rate = true;
            sub.rate_options = word.contains('{').then(|| RateOptions::parse(word)).transpose()?;
        } else if word.starts_with(|first: char| first.is_ascii_digit()) {
            sub.downsample = (*word).to_owned();
        } else if lower.starts_with("explicit_tags") {
            sub.explicit_tags = true;
        } else if lower.starts_with("percentiles") || lower.starts_with("show-histogram-buckets") {
            return Err("histograms are not kept here".to_owned());
        }
    }
    Ok(sub)
}

/// The first braces contain the filters that group. The second ones contain the filters that do not.
fn metric_and_filters(text: &str) -> Result<(String, Vec<Filter>), String> {
    let Some((metric, braces)) = text.split_once('{') else { return Ok((text.to_owned(), Vec::new())) };
    let braces = braces.strip_suffix('}').ok_or_else(|| format!("Missing '}}' at the end of: {text}"))?;
    let (grouping, others) = match braces.split_once('}') {
        None => (braces, ""),
        Some((grouping, others)) => {
            let others = others.strip_prefix('{');
            (grouping, others.ok_or_else(|| format!("Invalid filters: {text}"))?)
        }
    };
    let mut filters = Vec::new();
    for (list, group_by) in [(others, false), (grouping, true)] {
        for pair in list.split(',').filter(|pair| !pair.is_empty()) {
            let (tag, value) = pair.split_once('=').ok_or_else(|| format!("invalid tag: {pair}"))?;
            filters.push(Filter::short(tag, value, group_by)?);
            within(filters.len(), "filters")?;
        }
    }
    Ok((metric.to_owned(), filters))
}

#[cfg(test)]
mod tests {
    use crate::opentsdb::{Query, RateOptions, Sub};

    fn parse(pairs: &[(&str, &str)]) -> Result<Query, String> {
        Query::parse_pairs(pairs.iter().copied(), 1_700_000_000_000)
    }

    fn sub(m: &str) -> Result<Sub, String> {
        parse(&[("start", "1h-ago"), ("m", m)]).map(|mut query| query.subs.remove(0))
    }

    #[test]
    fn query_strings() {
        let query = parse(&[
            ("start", "5"),
            ("end", "9"),
            ("m", "sum:a"),
            ("m", "sum:a"),
            ("m", "max:b"),
            ("ms", ""),
        ])
        .unwrap();
        assert_eq!((query.start_ms, query.end_ms, query.ms_resolution), (5000, 9000, true));
        assert_eq!(query.subs.iter().map(|sub| &*sub.metric).collect::<Vec<_>>(), ["a", "b"]);
        let one = sub("avg:1m-max-nan:rate{counter,,10}:explicit_tags:m{host=*,dc=a|b}{rack=wildcard(r*)}")
            .unwrap();
        assert_eq!(one.metric, "m");
        assert!(one.explicit_tags && one.downsample.is_some());
        let rate = RateOptions { counter: true, reset_value: 10, ..RateOptions::default() };
        assert_eq!((one.rate, one.grouped_by()), (Some(rate), vec!["dc", "host"]));
        assert_eq!(one.filters.len(), 3);
        assert_eq!(sub("sum:m{}").unwrap().filters.len(), 0);
        assert_eq!(sub("sum:m{}{a=b}").unwrap().grouped_by(), Vec::<&str>::new());
        for wrong in [
            "",
            "m",
            "sum:",
            "x:m",
            "sum:m{a",
            "sum:m{a}",
            "sum:m{a=}",
            "sum:m{a=b}x{c=d}",
            "a:b:c:d:e:f",
            "sum:1x-avg:m",
        ] {
            assert!(sub(wrong).is_err(), "{wrong}");
        }
        assert!(parse(&[("start", "5")]).is_err() && parse(&[("m", "sum:m")]).is_err());
    }
}
