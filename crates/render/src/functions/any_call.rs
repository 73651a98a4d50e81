//! Property test: any function with any arguments, sensible or not, must end without a panic.

use proptest::prelude::*;

use crate::describe;
use crate::fuzzing;

/// Arguments of all types, and edge cases.
const ARGUMENTS: &[&str] = &[
    "a.*",
    "missing",
    "seriesByTag('a=b')",
    "group()",
    "0",
    "1",
    "-1",
    "5",
    "2.5",
    "-0.5",
    "1e300",
    "-9223372036854775808",
    "9223372036854775807",
    "99999999999999999999",
    "inf",
    "none",
    "true",
    "false",
    "''",
    "'a'",
    "'%'",
    "'%d'",
    "'1min'",
    "'-1d'",
    "'99999999999y'",
    "'0s'",
    "'sum'",
    "'median'",
    "'asPercent'",
    "'sumSeries'",
    "'>'",
    "'<='",
    "'('",
    "'(.*)'",
    "'\\1'",
    "'\\g<1>'",
    "'now'",
    "'-1h'",
    "'midnight'",
    "'days'",
    "'weeks9'",
    "'si'",
    "'red'",
    "'group(%)'",
    "'movingAverage(%,5)'",
    "mapSeries(a.*,0)",
    "constantLine(5)",
    "timeFunction('t',1)",
    "x=5",
];

fn argument(depth: u32) -> BoxedStrategy<String> {
    let plain = prop::sample::select(ARGUMENTS).prop_map(str::to_owned);
    if depth == 0 { plain.boxed() } else { prop_oneof![3 => plain, 2 => call(depth - 1)].boxed() }
}

fn call(depth: u32) -> BoxedStrategy<String> {
    let names: Vec<&'static str> = describe::functions().iter().map(|function| function.name).collect();
    let first = prop_oneof![6 => Just("a.*".to_owned()), 1 => argument(depth), 2 => call_or_leaf(depth)];
    (prop::sample::select(names), first, prop::collection::vec(argument(depth), 0..4))
        .prop_map(|(name, first, mut others)| {
            others.insert(0, first);
            format!("{name}({})", others.join(","))
        })
        .boxed()
}

fn call_or_leaf(depth: u32) -> BoxedStrategy<String> {
    if depth == 0 { Just("a.*".to_owned()).boxed() } else { call(depth - 1) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn any_call_is_answered_or_refused(target in call(3)) {
        fuzzing::target(target.as_bytes());
    }
}

#[test]
fn nesting_costs_no_more_than_the_limit() {
    let deep = |call: &str, depth: usize| {
        let (before, behind) = call.split_once('@').unwrap();
        format!("{}a.c{}", before.repeat(depth), behind.repeat(depth))
    };
    for call in [
        "movingAverage(@,5)",
        "timeStack(@,'1min',0,7)",
        "sumSeries(@)",
        "smartSummarize(@,'1h','sum','hours')",
    ] {
        fuzzing::target(deep(call, 60).as_bytes());
    }
}
