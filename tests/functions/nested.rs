//! Nested random calls from a fixed seed.

use crate::cases::Case;
use crate::world::{MIDNIGHT, NOW, Random};

/// Calls with `@` for series.
const CALLS: &[&str] = &[
    "sumSeries(@)",
    "sumSeries(@,@)",
    "averageSeries(@,@,@)",
    "maxSeries(@)",
    "minSeries(@,@)",
    "diffSeries(@,@)",
    "multiplySeries(@,@)",
    "stddevSeries(@,@)",
    "rangeOfSeries(@,@)",
    "countSeries(@)",
    "group(@,@)",
    "aggregate(@,'median')",
    "aggregate(@,'count',0.5)",
    "percentileOfSeries(@,75)",
    "asPercent(@)",
    "asPercent(@,100)",
    "divideSeries(@,dense.b)",
    "groupByNode(@,0,'sum')",
    "groupByNode(@,1,'avg')",
    "groupByNodes(@,'max',0,1)",
    "aggregateWithWildcards(@,'sum',0)",
    "unique(@,@)",
    "scale(@,2.5)",
    "offset(@,-3)",
    "add(@,0.5)",
    "absolute(@)",
    "invert(@)",
    "squareRoot(@)",
    "pow(@,2)",
    "log(@)",
    "round(@,1)",
    "minMax(@)",
    "offsetToZero(@)",
    "derivative(@)",
    "nonNegativeDerivative(@)",
    "perSecond(@)",
    "integral(@)",
    "integralByInterval(@,'10min')",
    "interpolate(@)",
    "keepLastValue(@,3)",
    "transformNull(@,1)",
    "isNonNull(@)",
    "changed(@)",
    "delay(@,2)",
    "scaleToSeconds(@,1)",
    "summarize(@,'10min','avg')",
    "summarize(@,'5min','max',true)",
    "smartSummarize(@,'10min','sum')",
    "smartSummarize(@,'10min','sum','hours')",
    "hitcount(@,'10min')",
    "timeShift(@,'1h')",
    "timeStack(@,'1h',0,2)",
    "timeSlice(@,'-4h','-1h')",
    "movingAverage(@,5)",
    "movingAverage(@,'5min')",
    "movingMedian(@,3)",
    "movingMax(@,'10min',0.5)",
    "movingSum(@,4)",
    "movingWindow(@,'3min','min')",
    "exponentialMovingAverage(@,5)",
    "stdev(@,5,0.2)",
    "nPercentile(@,90)",
    "aggregateLine(@,'max',true)",
    "linearRegression(@)",
    "highest(@,2,'max')",
    "lowestAverage(@,2)",
    "limit(@,2)",
    "averageAbove(@,10)",
    "maximumBelow(@,60)",
    "filterSeries(@,'min','<',20)",
    "removeEmptySeries(@,0.3)",
    "removeAboveValue(@,40)",
    "removeBelowPercentile(@,20)",
    "mostDeviant(@,2)",
    "sortByName(@,true)",
    "sortBy(@,'min',true)",
    "sortByTotal(@)",
    "alias(@,'x.y')",
    "aliasByNode(@,0)",
    "aliasByNode(@,-1,0)",
    "aliasByMetric(@)",
    "aliasSub(@,'e','E')",
    "legendValue(@,'avg')",
    "substr(@,0,1)",
    "upper(@,0)",
    "consolidateBy(@,'max')",
    "cumulative(@)",
    "fallbackSeries(@,dense.a)",
    "setXFilesFactor(@,0.4)",
    "color(@,'red')",
    "dashed(@)",
    "secondYAxis(@)",
    "stacked(@)",
    "exclude(@,'b')",
    "grep(@,'a')",
    "aliasByTags(@,'name','host')",
];

const LEAVES: &[&str] = &[
    "dense.a",
    "dense.*",
    "sparse.a",
    "sparse.*",
    "null.a",
    "counter.up",
    "signed.*",
    "state.s",
    "share.p",
    "const.*",
    "ended.e",
    "servers.*.cpu.*",
    "servers.web1.cpu.*",
    "host.*.disk.used",
    "seriesByTag('name=cpu')",
    "missing.none",
    "kept.new",
    "rare.r",
];

/// Series of other steps. One case in twenty uses them.
const OTHER_STEPS: &[&str] = &["fine.x", "fine.*", "coarse.z", "hour.h"];

/// Makes `count` cases.
pub(crate) fn all(count: usize) -> impl Iterator<Item = Case> {
    let mut random = Random(42);
    (0..count).map(move |_| {
        let depth = 2 + random.below(4);
        let is_mixed = random.next() < 0.05;
        let target = call(&mut random, depth, is_mixed);
        let begin =
            if random.next() < 0.7 { NOW - 3600 - 31 } else { MIDNIGHT + 600 + random.below(7200) as i64 };
        Case {
            targets: vec![target],
            from: begin,
            until: begin + 1800 + random.below(1800) as i64,
            zone: "UTC",
            server_zone: "UTC",
            factor: if random.next() < 0.2 { 0.5 } else { 0.0 },
            width: (random.next() < 0.3).then(|| 1 + random.below(40)),
            is_random: false,
        }
    })
}

fn call(random: &mut Random, depth: usize, is_mixed: bool) -> String {
    if depth == 0 || random.next() < 0.1 {
        let leaves = if is_mixed && random.next() < 0.5 { OTHER_STEPS } else { LEAVES };
        return (*random.pick(leaves)).to_owned();
    }
    let mut text = (*random.pick(CALLS)).to_owned();
    while let Some(at) = text.find('@') {
        // Only the first argument is nested deeply: the number of evaluations grows exponentially with the
        // depth.
        let inner = if text[..at].contains(',') { depth.min(2) - 1 } else { depth - 1 };
        text.replace_range(at..=at, &call(random, inner, is_mixed));
    }
    text
}
