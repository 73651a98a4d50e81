//! Calls with random options from a fixed seed, over series of all kinds, steps and sizes.

use crate::cases::Case;
use crate::world::{MIDNIGHT, NOW, Random};

/// `@` stands for a series or another call. `#` and a letter stand for one of the [`OPTIONS`] with this
/// letter.
const CALLS: &[&str] = &[
    "aggregate(@,'#a',#x)",
    "aggregateLine(@,'#a',#b)",
    "aggregateSeriesLists(@,@,'#a')",
    "aggregateWithWildcards(@,'#a',#i)",
    "aliasByNode(@,#i,#i)",
    "aliasByTags(@,'#g',#i)",
    "aliasSub(@,'#r','#s')",
    "asPercent(@,#n)",
    "asPercent(@,@,#i)",
    "asPercent(@,none,#i)",
    "averageOutsidePercentile(@,#p)",
    "averageSeries(@,@)",
    "consolidateBy(@,'#c')",
    "delay(@,#k)",
    "derivative(@)",
    "diffSeries(@,@)",
    "divideSeries(@,share.p)",
    "divideSeriesLists(@,@)",
    "exponentialMovingAverage(@,#w)",
    "filterSeries(@,'#a','#o',#n)",
    "groupByNode(@,#i,'#a')",
    "groupByNodes(@,'#a',#i,#i)",
    "groupByTags(@,'#a','#g')",
    "groupByTags(seriesByTag('#q'),'#a','#g','#g')",
    "highest(@,#i,'#a')",
    "hitcount(@,'#t',#b)",
    "holtWintersAberration(@,#i,'4h','#t')",
    "holtWintersForecast(@,'3h','#t')",
    "integralByInterval(@,'#t')",
    "interpolate(@,#i)",
    "keepLastValue(@,#i)",
    "legendValue(@,'#a')",
    "linearRegression(@,'#d','#d')",
    "log(@,#i)",
    "lowest(@,#i,'#a')",
    "maxSeries(@,@)",
    "minMax(@)",
    "movingAverage(@,#w,#x)",
    "movingMedian(@,#w)",
    "movingWindow(@,#w,'#a',#x)",
    "multiplySeries(@,@)",
    "nonNegativeDerivative(@,#n)",
    "nPercentile(@,#p)",
    "percentileOfSeries(@,#p,#b)",
    "perSecond(@)",
    "pow(@,#i)",
    "powSeries(@,const.five)",
    "rangeOfSeries(@,@)",
    "removeAbovePercentile(@,#p)",
    "removeBelowValue(@,#n)",
    "removeBetweenPercentile(@,#p)",
    "removeEmptySeries(@,#x)",
    "round(@,#i)",
    "scale(@,#n)",
    "scaleToSeconds(@,#n)",
    "setXFilesFactor(@,#x)",
    "smartSummarize(@,'#t','#a')",
    "smartSummarize(@,'#t','#a','#u')",
    "sortBy(@,'#a',#b)",
    "sortByName(@,#b,#b)",
    "squareRoot(@)",
    "stddevSeries(@,@)",
    "stdev(@,#i,#x)",
    "substr(@,#i,#i)",
    "sumSeries(@,@)",
    "sumSeriesWithWildcards(@,#i)",
    "summarize(@,'#t','#a',#b)",
    "timeShift(@,'#t',#b)",
    "timeSlice(@,'#d','#d')",
    "timeStack(@,'#t',0,2)",
    "transformNull(@,#n)",
    "transformNull(@,#n,@)",
    "weightedAverage(@,@,#i)",
];

/// Options by their letter.
const OPTIONS: &[(&str, &[&str])] = &[
    (
        "#a",
        &[
            "sum", "average", "avg", "avg_zero", "median", "min", "max", "diff", "stddev", "count", "range",
            "multiply", "last", "current", "total", "rangeOf",
        ],
    ),
    ("#b", &["true", "false"]),
    ("#c", &["sum", "average", "avg_zero", "min", "max", "first", "last"]),
    ("#d", &["-2h", "-90min", "now", "midnight", "00:30", "-1h", "today", "yesterday", "-5h", "noon", "1am"]),
    ("#g", &["name", "dc", "host", "none"]),
    ("#i", &["0", "1", "2", "3", "5", "-1", "-2"]),
    ("#k", &["1", "2", "3", "5", "-1", "-2"]),
    ("#n", &["0", "1", "2.5", "-3", "1000000", "0.000001", "1e12", "33.3", "1e-9"]),
    ("#o", &["=", "!=", ">", ">=", "<", "<="]),
    ("#p", &["0.5", "10", "50", "75", "95", "99.9", "100"]),
    ("#q", &["name=cpu", "dc=a", "host=1", "name=none"]),
    ("#r", &["a", "^([a-z]+)", "\\.", "[.](.)", "o$", "x*"]),
    ("#s", &["", "\\1", "b", ".", "Ü", "a b"]),
    ("#t", &["1min", "90s", "5min", "7min", "10min", "30s", "1h", "25min", "1hour"]),
    ("#u", &["seconds", "minutes", "hours", "days", "weeks"]),
    ("#w", &["1", "2", "7", "30", "'30s'", "'5min'", "'1h'", "'7min'"]),
    ("#x", &["0", "0.3", "0.5", "0.9", "1"]),
];

const LEAVES: &[&str] = &[
    "dense.a",
    "dense.*",
    "sparse.*",
    "null.a",
    "counter.*",
    "signed.*",
    "state.s",
    "const.*",
    "ended.e",
    "rare.r",
    "large.*",
    "umlaut.*",
    "servers.*.cpu.*",
    "host.*.disk.{used,size}",
    "seriesByTag('name=cpu')",
    "seriesByTag('dc=a')",
    "missing.none",
    "kept.*",
    "fine.x",
    "coarse.z",
    "hour.h",
    "group(dense.a,fine.x)",
    "consolidateBy(fine.*,'max')",
];

/// Makes `count` cases.
pub(crate) fn all(count: usize) -> impl Iterator<Item = Case> {
    let mut random = Random(4711);
    (0..count).map(move |_| {
        let targets = (0..1 + random.below(8) / 7).map(|_| call(&mut random, 2)).collect();
        let from = match random.below(4) {
            0 => MIDNIGHT - random.below(5000) as i64,
            1 => NOW - 3 * 3600 - random.below(1800) as i64,
            _ => NOW - 600 - random.below(5400) as i64,
        };
        let until = (from + 60 + random.below(7200) as i64).min(NOW);
        let zone = ["UTC", "Europe/Rome", "America/New_York", "Asia/Kathmandu"][random.below(4)];
        Case {
            targets,
            from,
            until,
            zone,
            server_zone: zone,
            factor: [0.0, 0.0, 0.0, 0.5, 1.0][random.below(5)],
            width: (random.next() < 0.4).then(|| 1 + random.below(120)),
            is_random: false,
        }
    })
}

/// A random call. Three of ten arguments are again calls.
fn call(random: &mut Random, depth: usize) -> String {
    if depth == 0 {
        return (*random.pick(LEAVES)).to_owned();
    }
    let mut text = (*random.pick(CALLS)).to_owned();
    for (letter, options) in OPTIONS {
        while let Some(at) = text.find(letter) {
            let option: &&str = random.pick(options);
            text.replace_range(at..at + letter.len(), option);
        }
    }
    while let Some(at) = text.find('@') {
        let inner = if random.next() < 0.3 { call(random, depth - 1) } else { call(random, 0) };
        text.replace_range(at..=at, &inner);
    }
    text
}
