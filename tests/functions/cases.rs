//! The cases: every function, with its defaults and with each option, over all kinds of series.

use std::fmt;

use crate::world::{MIDNIGHT, NOW};

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) targets: Vec<String>,
    pub(crate) from: i64,
    pub(crate) until: i64,
    pub(crate) zone: &'static str,
    /// The time zone of graphite-web's server.
    pub(crate) server_zone: &'static str,
    pub(crate) factor: f64,
    pub(crate) width: Option<usize>,
    /// Whether the values are random.
    pub(crate) is_random: bool,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { targets, from, until, zone, factor, width, .. } = self;
        write!(f, "{} [{}..{} {zone} {factor} {width:?}]", targets.join(" & "), from - NOW, until - NOW)
    }
}

/// Series as arguments of functions.
const SERIES: &[&str] = &[
    "dense.a",
    "dense.*",
    "sparse.*",
    "null.*",
    "group(sparse.a,null.a,const.zero)",
    "group(fine.*,dense.a)",
    "hour.h",
    "counter.up",
    "signed.*",
    "share.p",
    "const.*",
    "state.s",
    "rare.r",
    "ended.e",
    "kept.*",
    "seriesByTag('name=cpu')",
    "servers.*.cpu.*",
    "missing.none",
];

/// Series for which reading a week is cheap.
const SEASONAL: &[&str] =
    &["daily.d", "coarse.z", "hour.h", "null.a", "group(daily.d,coarse.z)", "missing.none"];

/// Calls with every option. `@` stands for series.
const CALLS: &str = include_str!("calls.txt");

/// Calls of functions that read the week before the graph.
const SEASONAL_CALLS: &str = "
holtWintersForecast(@)
holtWintersForecast(@, '3d')
holtWintersForecast(@, '2d', '6h')
holtWintersForecast(@, seasonality='12h')
holtWintersConfidenceBands(@)
holtWintersConfidenceBands(@, 2, '3d', '12h')
holtWintersConfidenceArea(@)
holtWintersConfidenceArea(@, 5, '2d')
holtWintersAberration(@)
holtWintersAberration(@, 1, '2d', '6h')
timeStack(@)
timeStack(@, '1d', 0, 3)
timeShift(@, '7d')
summarize(@, '1w')
movingAverage(@, '1d')
";

/// Complete targets.
const WHOLE: &str = include_str!("targets.txt");

/// Calls that depend on the server's time zone: graphite-web shifts their times if the request has another zone.
const ZONED: &[&str] = &[
    "sinFunction('s')",
    "timeFunction('t')",
    "integralByInterval(dense.a, '1d')",
    "linearRegression(dense.a)",
];

/// All cases. A short run takes one range for each case, a long run takes all ranges.
pub(crate) fn all(is_whole: bool) -> impl Iterator<Item = Case> {
    let fitting = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let calls = CALLS
        .lines()
        .filter(fitting)
        .flat_map(|call| SERIES.iter().map(move |series| call.replace('@', series)));
    let seasonal = SEASONAL_CALLS
        .lines()
        .filter(fitting)
        .flat_map(|call| SEASONAL.iter().map(move |series| call.replace('@', series)));
    let whole = WHOLE.lines().filter(fitting).map(str::to_owned);
    let plain = calls.chain(whole).enumerate().flat_map(move |(index, target)| {
        let ranges = if is_whole { &RANGES[..3] } else { &RANGES[index % 3..=index % 3] };
        let cases = ranges.iter().enumerate().map(|(at, range)| case(&target, *range, index + at));
        cases.collect::<Vec<_>>()
    });
    let seasonal = seasonal.enumerate().map(|(index, target)| case(&target, RANGES[3], index));
    let zoned = ZONED.iter().map(|target| Case { server_zone: "UTC", ..case(target, RANGES[1], 0) });
    plain.chain(seasonal).chain(zoned)
}

/// From, until and time zone. In the first range, series of step 10 and of step 60 begin at the same second.
const RANGES: [(i64, i64, &str); 4] = [
    (NOW - 3600 - 31, NOW, "UTC"),
    (MIDNIGHT - 1234, MIDNIGHT + 2000, "Europe/Rome"),
    (NOW - 4 * 3600 - 31, NOW - 3 * 3600, "America/New_York"),
    (NOW - 5 * 3600 - 25, NOW, "UTC"),
];

fn case(target: &str, (from, until, zone): (i64, i64, &'static str), index: usize) -> Case {
    Case {
        targets: target.split(" & ").map(str::to_owned).collect(),
        from,
        until,
        zone,
        server_zone: zone,
        factor: [0.0, 0.0, 0.0, 0.5][index % 4],
        width: [None, Some(10), None, Some(1), Some(37)][index % 5],
        is_random: target.contains("randomWalk"),
    }
}
