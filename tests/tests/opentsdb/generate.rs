//! Points and queries for the comparison with OpenTSDB.

use plumbago_tests::http;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Map, Value, json};

/// All tags, sorted.
pub(super) const TAGS: [&str; 3] = ["dc", "host", "rack"];

/// All values of tags, sorted.
pub(super) const VALUES: [&str; 8] = ["H1", "a", "b", "h1", "h2", "h3", "web-1", "web-2"];

/// Start and end of the dense points, in seconds since the epoch: four hours around the end of summer time in
/// Rome.
pub(super) const DENSE: (i64, i64) = (1_509_231_600, 1_509_246_000);

/// Start and end of the sparse points, in seconds since the epoch: sixty days.
const SPARSE: (i64, i64) = (1_504_116_000, 1_509_300_000);

/// A name for `tags` that comes before `filters`.
const TAGS_FIRST: &str = "@tags";

const AGGREGATORS: [&str; 19] = [
    "avg", "count", "dev", "first", "last", "max", "median", "mimmax", "mimmin", "min", "none", "p50", "p75",
    "p90", "p95", "p99", "p999", "sum", "zimsum",
];

/// Makes points for all metrics.
pub(super) fn points(random: &mut StdRng) -> Vec<Value> {
    let mut points = Vec::new();
    for tags in [
        json!({"dc": "a", "host": "h1"}),
        json!({"dc": "a", "host": "h2"}),
        json!({"dc": "b", "host": "web-1"}),
        json!({"dc": "b", "host": "H1", "rack": "a"}),
        json!({"host": "web-2"}),
    ] {
        let mut time = DENSE.0 + random.random_range(0..3600);
        let end = DENSE.1 - random.random_range(0..3600);
        while time < end {
            points.push(point("cmp.fast", time, value(random), &tags));
            time += if random.random_bool(0.02) {
                random.random_range(300..4000)
            } else {
                random.random_range(1..90)
            };
        }
    }
    for tags in
        [json!({"dc": "a", "host": "h1"}), json!({"dc": "b", "host": "h2"}), json!({"dc": "b", "host": "h3"})]
    {
        let mut time = SPARSE.0;
        while time < SPARSE.1 {
            points.push(point("cmp.slow", time, value(random), &tags));
            time += 600 * random.random_range(1..20);
        }
    }
    for host in ["h1", "h2", "h3"] {
        let mut counter = 0.5;
        let mut time = DENSE.0 + random.random_range(0..600);
        while time < DENSE.1 {
            counter += random.random_range(0..400) as f64 / 4.0;
            if random.random_bool(0.05) {
                counter = random.random_range(0..40) as f64 + 0.5;
            }
            points.push(point("cmp.counter", time, format!("{counter:?}"), &json!({"host": host})));
            time += 10 * random.random_range(1..12);
        }
    }
    points
}

/// A number with a fraction, so that OpenTSDB stores it as a double.
fn value(random: &mut StdRng) -> String {
    match random.random_range(0..4) {
        0 => format!("{:?}", random.random_range(-50..200) as f64),
        1 => format!("{:?}", random.random_range(-200..800) as f64 / 8.0),
        _ => format!("{:?}", random.random_range(-100.0..1000.0)),
    }
}

fn point(metric: &str, time: i64, value: String, tags: &Value) -> Value {
    json!({"metric": metric, "timestamp": time, "value": value, "tags": tags})
}

/// A query for one metric.
#[derive(Debug)]
pub(super) struct Query {
    metric: &'static str,
    start: String,
    end: String,
    zone: Option<&'static str>,
    aggregator: &'static str,
    downsample: Option<String>,
    /// The options of the rate, if there is one: whether it is of a counter, the counter's maximum, its reset value,
    /// and whether resets are left out.
    rate: Option<(bool, i64, i64, bool)>,
    filters: Vec<Filter>,
    /// Filters that both servers ignore: they are sent in the other list of a body, before the list that counts.
    ignored: Option<Vec<Filter>>,
    explicit: bool,
    ms: bool,
    arrays: bool,
    by_get: bool,
    /// Whether filters are sent as `tags`, which is possible only if all of them group.
    has_tags: bool,
    /// A second sub-query of the same request.
    second: Option<Box<Query>>,
}

#[derive(Debug)]
struct Filter {
    tag: &'static str,
    kind: &'static str,
    text: String,
    groups: bool,
}

fn pick<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    from[random.random_range(0..from.len())]
}

impl Query {
    pub(super) fn random(random: &mut StdRng) -> Self {
        let metric =
            pick(random, &["cmp.fast", "cmp.fast", "cmp.fast", "cmp.counter", "cmp.counter", "cmp.slow"]);
        let is_slow = metric == "cmp.slow";
        let (start, end) = times(random, is_slow);
        let zone = random.random_bool(0.3).then(|| pick(random, &["Europe/Rome", "America/New_York", "UTC"]));
        let downsample = random.random_bool(0.65).then(|| downsample(random, is_slow));
        let rate = random.random_bool(if metric == "cmp.counter" { 0.7 } else { 0.15 }).then(|| {
            let max = pick(random, &[i64::MAX, 65_535, 1000]);
            let reset = pick(random, &[0, 0, 5, 100]);
            (random.random_bool(0.7), max, reset, random.random_bool(0.2))
        });
        let filters = Filter::list(random, metric);
        Self {
            metric: if random.random_bool(0.01) { "cmp.unknown" } else { metric },
            start,
            end,
            aggregator: pick(random, &AGGREGATORS),
            downsample,
            rate,
            filters,
            explicit: random.random_bool(0.15),
            ms: random.random_bool(0.5),
            arrays: random.random_bool(0.5),
            by_get: zone.is_none() && random.random_bool(0.3),
            has_tags: random.random_bool(0.3),
            ignored: random.random_bool(0.1).then(|| Filter::list(random, metric)),
            second: None,
            zone,
        }
    }

    /// Whether buckets of a calendar are shorter than a day, so that some may be in the hour that is repeated
    /// at the end of summer time.
    pub(super) fn has_repeated_hour(&self) -> bool {
        let every = self.downsample.as_deref().and_then(|text| text.split('-').next()).unwrap_or_default();
        let is_short = ["msc", "sc", "mc", "hc"].iter().any(|unit| every.ends_with(unit));
        is_short && self.zone == Some("Europe/Rome")
    }

    /// Adds a query for another metric. The other query gets the times and the zone of this one. Its range
    /// must not be so long that there are too many short buckets.
    pub(super) fn with_second(mut self, second: Self) -> Self {
        let second = Self { zone: self.zone, ..second };
        let is_short = matches!(self.metric, "cmp.fast" | "cmp.counter");
        if is_short && second.metric != self.metric && !self.by_get && !second.has_repeated_hour() {
            self.second = Some(Box::new(second));
        }
        self
    }

    /// Method, path and body.
    pub(super) fn request(&self) -> (&'static str, String, String) {
        let arrays = if self.arrays { "arrays" } else { "x" };
        if !self.by_get {
            let body = self.body().to_string().replace(TAGS_FIRST, "tags");
            return ("POST", format!("/api/query?{arrays}"), body);
        }
        let ms = if self.ms { "&ms" } else { "" };
        let (start, end, m) = (http::encode(&self.start), http::encode(&self.end), http::encode(&self.m()));
        ("GET", format!("/api/query?{arrays}{ms}&start={start}&end={end}&m={m}"), String::new())
    }

    fn body(&self) -> Value {
        let subs: Vec<Value> = [self].into_iter().chain(self.second.as_deref()).map(Self::sub).collect();
        let mut query =
            json!({"start": self.start, "end": self.end, "msResolution": self.ms, "queries": subs});
        if let Some(zone) = self.zone {
            query["timezone"] = json!(zone);
        }
        query
    }

    fn sub(&self) -> Value {
        let mut sub =
            json!({"metric": self.metric, "aggregator": self.aggregator, "explicitTags": self.explicit});
        if let Some(downsample) = &self.downsample {
            sub["downsample"] = json!(downsample);
        }
        if let Some((counter, max, reset, drop)) = self.rate {
            sub["rate"] = json!(true);
            sub["rateOptions"] =
                json!({"counter": counter, "counterMax": max, "resetValue": reset, "dropResets": drop});
        }
        // Tags always group.
        let are_tags = self.has_tags && self.filters.iter().all(|filter| filter.groups);
        if self.filters.is_empty() && self.ignored.is_none() {
            return sub;
        }
        let tags = |filters: &[Filter]| {
            let tags = filters.iter().map(|filter| (filter.tag.to_owned(), json!(filter.short())));
            json!(tags.collect::<Map<String, Value>>())
        };
        let objects = |filters: &[Filter]| filters.iter().map(Filter::object).collect::<Value>();
        // Of both lists the last one counts. Members are sent in the order of their names.
        if are_tags {
            if let Some(ignored) = &self.ignored {
                sub["filters"] = objects(ignored);
            }
            sub["tags"] = tags(&self.filters);
        } else {
            if let Some(ignored) = &self.ignored {
                sub[TAGS_FIRST] = tags(ignored);
            }
            sub["filters"] = objects(&self.filters);
        }
        sub
    }

    fn m(&self) -> String {
        let mut parts = vec![self.aggregator.to_owned()];
        if let Some((counter, max, reset, drop)) = self.rate {
            let kind = if drop { "dropcounter" } else { "counter" };
            parts.push(if counter { format!("rate{{{kind},{max},{reset}}}") } else { "rate".to_owned() });
        }
        parts.extend(self.downsample.clone());
        if self.explicit {
            parts.push("explicit_tags".to_owned());
        }
        let list = |groups: bool| {
            let filters = self.filters.iter().filter(|filter| filter.groups == groups);
            filters.map(|filter| format!("{}={}", filter.tag, filter.short())).collect::<Vec<_>>().join(",")
        };
        let (grouping, others) = (list(true), list(false));
        let others = if others.is_empty() { String::new() } else { format!("{{{others}}}") };
        let braces = if self.filters.is_empty() { String::new() } else { format!("{{{grouping}}}{others}") };
        parts.push(format!("{}{braces}", self.metric));
        parts.join(":")
    }
}

/// Start and end of a query, each in a random notation.
fn times(random: &mut StdRng, is_slow: bool) -> (String, String) {
    let (from, until) = if is_slow { SPARSE } else { DENSE };
    let margin = if is_slow { 86_400 } else { 4000 };
    let step = pick(random, &[1, 60, 3600]);
    let mut time = || random.random_range(from - margin..until + margin) / step * step;
    let (a, b) = (time(), time());
    let (start, end) = (a.min(b), a.max(b));
    let spelled = |time: i64| match random.random_range(0..4) {
        0 => format!("{}", time * 1000),
        1 => format!("{}.000", time),
        2 if time % 60 == 0 => utc(time),
        _ => time.to_string(),
    };
    let mut spelled = spelled;
    (spelled(start), spelled(end))
}

/// A time as a date in UTC. If the query has another zone, the text means another time, for both servers.
fn utc(time: i64) -> String {
    let days = time.div_euclid(86_400);
    let (mut year, mut day) = (1970, days);
    let length = |year: i64| if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) { 366 } else { 365 };
    while day >= length(year) {
        day -= length(year);
        year += 1;
    }
    let february = length(year) - 337;
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < days {
            break;
        }
        day -= days;
        month += 1;
    }
    let second = time.rem_euclid(86_400);
    format!("{year}/{month:02}/{:02}-{:02}:{:02}", day + 1, second / 3600, second / 60 % 60)
}

fn downsample(random: &mut StdRng, is_slow: bool) -> String {
    let every = if is_slow {
        pick(random, &["10m", "1h", "6h", "7h", "1d", "3d", "1w", "2w", "1n", "2n", "1y", "0all"])
    } else {
        pick(random, &["500ms", "10s", "30s", "7s", "1m", "7m", "10m", "45m", "1h", "2h", "5h", "1d", "0all"])
    };
    let calendar = if every != "0all" && random.random_bool(0.25) { "c" } else { "" };
    let fold = loop {
        let fold = pick(random, &AGGREGATORS);
        if fold != "none" || random.random_bool(0.05) {
            break fold;
        }
    };
    let fill = pick(random, &["", "", "-none", "-nan", "-null", "-zero"]);
    format!("{every}{calendar}-{fold}{fill}")
}

impl Filter {
    /// Filters for some tags of a metric.
    fn list(random: &mut StdRng, metric: &str) -> Vec<Self> {
        let mut filters = Vec::new();
        for tag in TAGS {
            let likely = if tag == "host" { 0.6 } else { 0.2 };
            if random.random_bool(likely) && (tag == "host" || metric != "cmp.counter") {
                filters.push(Self::random(random, tag));
            }
        }
        filters
    }

    fn random(random: &mut StdRng, tag: &'static str) -> Self {
        let (kind, text) = match random.random_range(0..8) {
            0 | 1 => ("wildcard", pick(random, &["*", "h*", "*1", "web*", "*-*", "w*b-1"])),
            2 => ("iwildcard", pick(random, &["*", "H*", "*1", "WEB*"])),
            3 => ("regexp", pick(random, &[".*", "h[12]", "^h", "1$", "(a|b)", "nothing"])),
            4 => ("literal_or", pick(random, &["h1", "h1|h2", "a", "a|b", "web-1|H1", "zz", "h1|zz"])),
            5 => ("iliteral_or", pick(random, &["H1", "h1|A", "zz"])),
            6 => ("not_literal_or", pick(random, &["h1", "a|b", "zz"])),
            _ => ("not_iliteral_or", pick(random, &["H1", "A|zz"])),
        };
        Self { tag, kind, text: text.to_owned(), groups: random.random_bool(0.6) }
    }

    fn object(&self) -> Value {
        json!({"type": self.kind, "tagk": self.tag, "filter": self.text, "groupBy": self.groups})
    }

    fn short(&self) -> String {
        match (self.kind, self.text.as_str()) {
            ("literal_or", text) => text.to_owned(),
            ("iwildcard", "*") => "*".to_owned(),
            (kind, text) => format!("{kind}({text})"),
        }
    }
}
