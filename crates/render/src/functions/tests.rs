use std::sync::Arc;

use plumbago_model::Series;

use crate::{
    EvalError, FetchPlan, Fetched, Limits, Request, Step, TimeRange, TimeSeries, TimeZone, evaluate, parse,
};

const NAN: f64 = f64::NAN;

/// A name, a start, a step, and values.
pub(super) type Stored = (&'static str, i64, u32, Vec<f64>);

fn stored() -> Vec<Stored> {
    vec![
        ("a.x", 60, 60, vec![1.0, NAN, -0.0, 4.0]),
        ("a.y", 60, 60, vec![10.0, NAN, NAN, 2.5]),
        ("fine.z", 10, 10, vec![1.0; 24]),
        ("cpu;dc=a;host=1", 60, 60, vec![1.0]),
        ("cpu;dc=a;host=2", 60, 60, vec![2.0]),
    ]
}

fn run(text: &str, factor: f64) -> Result<Vec<TimeSeries>, String> {
    run_over(&stored(), text, factor)
}

/// Evaluates a target. A path matches the series whose names begin with its text up to the first star.
pub(super) fn run_over(stored: &[Stored], text: &str, factor: f64) -> Result<Vec<TimeSeries>, String> {
    let request = Request {
        range: TimeRange { from: 0, until: 240 },
        now: 240,
        zone: TimeZone::utc(),
        x_files_factor: factor,
        templates: Vec::new(),
        limits: Limits::default(),
    };
    let targets = [parse(text).map_err(|error| error.to_string())?];
    let mut plan = FetchPlan::new(&targets, &request).map_err(|error| error.to_string())?;
    let mut fetched = Fetched::default();
    loop {
        for fetch in plan.fetches {
            let prefix = fetch.expression.split('*').next().unwrap_or_default();
            let found = stored.iter().filter(|(name, ..)| name.starts_with(prefix));
            let series = found.map(|(name, start, step, values)| {
                let series =
                    Series { name: (*name).into(), start: *start, step: *step, values: values.clone() };
                TimeSeries::fetched(series, &fetch.expression, factor)
            });
            let series = series.collect();
            fetched.insert(fetch, series);
        }
        match evaluate(&targets, &request, &fetched).map_err(|error| error.to_string())? {
            Step::Done(series) => return Ok(series),
            Step::Fetch(next) => plan = next,
        }
    }
}

/// Each series as `name @start/step values`.
fn shown(text: &str, factor: f64) -> Vec<String> {
    let value = |v: &f64| if v.is_nan() { "-".to_owned() } else { v.to_string() };
    let show = |s: TimeSeries| {
        let values: Vec<String> = s.values.iter().map(value).collect();
        format!("{} @{}/{} {}", s.name, s.start, s.step, values.join(" "))
    };
    run(text, factor).unwrap().into_iter().map(show).collect()
}

#[test]
fn combining() {
    for (target, factor, result) in [
        ("sumSeries(a.*)", 0.0, "sumSeries(a.*) @60/60 11 - 0 6.5"),
        ("sum(a.x,a.y,a.x)", 0.0, "sumSeries(a.x,a.y) @60/60 12 - 0 10.5"),
        ("avg(a.*)", 0.0, "averageSeries(a.*) @60/60 5.5 - 0 3.25"),
        ("averageSeries(a.*)", 0.6, "averageSeries(a.*) @60/60 5.5 - - 3.25"),
        ("maxSeries(a.*)", 0.0, "maxSeries(a.*) @60/60 10 - -0 4"),
        ("minSeries(a.*)", 0.0, "minSeries(a.*) @60/60 1 - -0 2.5"),
        ("sum(alias(a.x,'z'),scale(a.y,2))", 0.0, "sumSeries(a.x,scale(a.y,2)) @60/60 21 - 0 9"),
        // Series of different steps are combined in the slots of the longest one, each from its own first
        // value.
        ("sum(fine.z,a.x)", 0.0, "sumSeries(fine.z,a.x) @10/60 2 1 1 5"),
        (
            "sum(consolidateBy(fine.z,'sum'),a.x)",
            0.0,
            "sumSeries(consolidateBy(fine.z,\"sum\"),a.x) @10/60 7 6 6 10",
        ),
    ] {
        assert_eq!(shown(target, factor), [result]);
    }
    assert!(shown("group()", 0.0).is_empty());
    assert!(shown("sum(nothing)", 0.0).is_empty());
}

/// Python's `sum` starts at 0; its `max` and `min` return the first of equal values.
#[test]
fn zeros_have_the_sign_that_graphite_web_gives_them() {
    let stored: [Stored; 2] =
        [("z.a", 60, 60, vec![-0.0, -0.0, 0.0, NAN]), ("z.b", 60, 60, vec![NAN, 0.0, -0.0, -0.0])];
    for (target, result) in [
        ("sumSeries(z.*)", "[0.0, 0.0, 0.0, 0.0]"),
        ("averageSeries(z.*)", "[0.0, 0.0, 0.0, 0.0]"),
        ("aggregate(z.*,'avg_zero')", "[0.0, 0.0, 0.0, 0.0]"),
        ("diffSeries(z.*)", "[0.0, 0.0, 0.0, 0.0]"),
        ("diffSeries(z.a)", "[0.0, 0.0, 0.0, NaN]"),
        ("maxSeries(z.*)", "[-0.0, -0.0, 0.0, -0.0]"),
        ("minSeries(z.*)", "[-0.0, -0.0, 0.0, -0.0]"),
        ("aggregate(z.*,'last')", "[-0.0, 0.0, -0.0, -0.0]"),
        ("hitcount(z.a,'1min')", "[0.0, 0.0, 0.0, NaN]"),
        ("integral(z.a)", "[0.0, 0.0, 0.0, NaN]"),
        ("summarize(z.a,'1min','diff',true)", "[0.0, 0.0, 0.0, NaN]"),
        ("summarize(z.a,'1min','max',true)", "[-0.0, -0.0, 0.0, NaN]"),
        ("movingSum(z.a,1)", "[0.0, 0.0, NaN]"),
    ] {
        let series = run_over(&stored, target, 0.0).unwrap();
        assert_eq!(format!("{:?}", series[0].values), result, "{target}");
    }
}

#[test]
fn beyond_graphite_web() {
    let mut wrong = Vec::new();
    for (target, result) in [
        ("max(a.*)", "maxSeries(a.*) @60/60 10 - -0 4"),
        ("removeZeroSeries(group(a.y,scale(a.x,0)))", "a.y @60/60 10 - - 2.5"),
        ("integralWithReset(a.y,a.x)", "integralWithReset(a.y,a.x) @60/60 0 - - 0"),
        ("highestMin(a.*,1)", "a.y @60/60 10 - - 2.5"),
        ("lowestMax(a.*,1)", "a.x @60/60 1 - -0 4"),
        ("powSeriesLists(a.y,a.x)", "powSeries(a.y,a.x) @60/60 10 - - 39.0625"),
        ("scaleAfterTimestamp(a.x,10,'180')", "scale(a.x,10,180) @60/60 1 - -0 40"),
        ("slo(a.x,'2min','above',0.5)", "slo(a.x, 2min, above, 0.5) @60/120 1 0.5"),
        (
            "sloErrorBudget(a.x,'2min','above',0.5,0.75)",
            "sloErrorBudget(a.x, 2min, above, 0.5, 0.75) @60/120 30 -30",
        ),
        ("pearsonClosest(a.x,a.*,1)", "a.x @60/60 1 - -0 4"),
        ("tukeyAbove(a.*,0.2,1)", "a.y @60/60 10 - - 2.5"),
        ("polyfit(timeFunction('t',60))", "polyfit(t) @0/60 0 60 120 180"),
        ("baseline(a.x,'1min',1,2)", "baseline(a.x) @60/60 1 - -0 4"),
        (
            "ewma(fine.z,2)",
            "exponentialMovingAverage(fine.z,2) @30/10 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
        ),
        ("isNotNull(a.x)", "isNonNull(a.x) @60/60 1 0 1 1"),
    ] {
        let shown = shown(target, 0.0);
        if shown != [result] {
            wrong.push(format!("{target}: {shown:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(shown("pearson(a.x,a.x,3)", 0.0), ["pearson(a.x,a.x,3) @60/60 - - 1 1"]);
}

#[test]
fn events_are_a_leaf() {
    assert!(shown("events('deploy')", 0.0).is_empty());
}

#[test]
fn tags_of_results() {
    let tags = |text: &str| -> Vec<String> {
        let series = run(text, 0.0).unwrap();
        series[0].tags.iter().map(|(key, value)| format!("{key}={value}")).collect()
    };
    assert_eq!(tags("sum(a.*)"), ["name=sumSeries(a.*)", "aggregatedBy=sum"]);
    assert_eq!(tags("sum(cpu*)"), ["dc=a", "name=cpu", "aggregatedBy=sum"]);
    assert_eq!(tags("scale(a.x,2)"), ["name=a.x", "scale=2.0"]);
    assert_eq!(tags("alias(a.x,'b')"), ["name=a.x"]);
    assert_eq!(tags("consolidateBy(a.x,'avg')"), ["name=a.x", "consolidateBy=avg"]);
}

#[test]
fn names() {
    for (target, name) in [
        ("alias(a.x, 'Hello, you')", "Hello, you"),
        ("alias(a.x, none)", "None"),
        ("a.x|alias('b')", "b"),
        ("aliasByNode(a.x, 1)", "x"),
        ("aliasByNode(a.x, -1, 0)", "x.a"),
        ("aliasByNode(a.x, 7)", ""),
        ("aliasByNode(scale(a.x, 0.5), 1)", "x"),
        ("aliasByNode(sum(a.*), 0)", "a"),
        ("aliasByNode(cpu*, 'host', 0)", "1.cpu"),
        ("scale(a.x, 1e10)", "scale(a.x,1e+10)"),
        ("scale(a.x, '0.5')", "scale(a.x,0.5)"),
        ("scale(a.x, factor=3)", "scale(a.x,3)"),
    ] {
        assert_eq!(&*run(target, 0.0).unwrap()[0].name, name, "{target}");
    }
    let alias = run("alias(a.x,'b')", 0.0).unwrap();
    assert_eq!(&*alias[0].path_expression, "a.x");
}

#[test]
fn values_are_shared_until_they_are_changed() {
    let plain = run("a.x", 0.0).unwrap();
    assert_eq!(Arc::strong_count(&plain[0].values), 1);
    assert_eq!(shown("scale(a.x,2)", 0.0), ["scale(a.x,2) @60/60 2 - -0 8"]);
}

#[test]
fn wrong_arguments_are_named() {
    for (target, error) in [
        ("nosuch(a)", "unknown function nosuch at character 1"),
        ("sum(a.x,  maximum(a.y))", "unknown function maximum at character 11"),
        ("scale(a.x)", "scale: the argument factor is missing, at character 1"),
        ("scale(a.x, 'much')", "scale: the argument factor must be a number, at character 1"),
        ("scale(a.x, a.y)", "scale: the argument factor must be a number, at character 1"),
        ("scale(2, 2)", "scale: the argument seriesList must be series, at character 1"),
        ("scale(a.x, 1, 2)", "scale: takes at most 2 arguments, at character 1"),
        ("scale(a.x, 1, factor=2)", "scale: the argument factor is given twice, at character 1"),
        ("scale(a.x, by=2)", "scale: has no argument by, at character 1"),
        ("sum(1)", "sum: the argument seriesLists must be series, at character 1"),
        ("aliasByNode(a.x)", "aliasByNode: the argument nodes is missing, at character 1"),
        (
            "aliasByNode(a.x, 1.5)",
            "aliasByNode: the argument nodes must be the number of a component or the name of a tag, at character 1",
        ),
        (
            "consolidateBy(a.x, 'mode')",
            "consolidateBy: the argument consolidationFunc is \"mode\", which is none of sum, average, avg, avg_zero, min, max, first, last, at character 1",
        ),
    ] {
        assert_eq!(run(target, 0.0).unwrap_err(), error, "{target}");
    }
}

#[test]
fn steps_without_a_common_multiple_are_refused() {
    let series = |step: u32| {
        let name: Arc<str> = format!("s{step}").into();
        TimeSeries::fetched(Series { name: Arc::clone(&name), start: 0, step, values: vec![1.0] }, &name, 0.0)
    };
    let steps = [86_399, 86_400, 86_401, 4_294_967_291];
    let series = steps.map(series);
    assert!(crate::grid::Grid::of(&series).is_err());
    assert!(crate::grid::Grid::of(&series[..1]).is_ok());
}

/// Records the most memory that was held, and stops the evaluation above a limit.
#[derive(Debug)]
struct Meter {
    most: std::cell::Cell<usize>,
    limit: usize,
}

impl crate::Watch for Meter {
    fn may_hold(&self, bytes: usize) -> bool {
        self.most.set(self.most.get().max(bytes));
        bytes <= self.limit
    }
}

/// Evaluates a target over one metric of 1,000 points. Returns the most memory that was held beside it.
fn metered(text: &str, limit: usize) -> (usize, Result<(), EvalError>) {
    let request = Request {
        range: TimeRange { from: 0, until: 1000 },
        now: 1000,
        zone: TimeZone::utc(),
        x_files_factor: 0.0,
        templates: Vec::new(),
        limits: Limits::default(),
    };
    let targets = [parse(text).unwrap()];
    let meter = Meter { most: std::cell::Cell::new(0), limit };
    let mut fetched = Fetched::default();
    loop {
        match crate::evaluate_watched(&targets, &request, &fetched, &meter) {
            Err(error) => return (meter.most.get(), Err(error.error)),
            Ok(Step::Done(_)) => return (meter.most.get(), Ok(())),
            Ok(Step::Fetch(plan)) => {
                for fetch in plan.fetches {
                    let series = Series { name: "a".into(), start: 0, step: 1, values: vec![1.0; 1000] };
                    let series = TimeSeries::fetched(series, &fetch.expression, 0.0);
                    fetched.insert(fetch, vec![series]);
                }
            }
        }
    }
}

#[test]
fn what_an_evaluation_holds_is_known() {
    let one = 8000 + TimeSeries::BYTES;
    let most = |text: &str| metered(text, usize::MAX).0;
    assert!(most("a") == 0 && most("alias(a,'b')") <= TimeSeries::BYTES);
    assert!((one..3 * one).contains(&most("scale(a,2)")));
    // Memory of intermediate results is released.
    let nested = "scale(".repeat(50) + "a" + &",2)".repeat(50);
    assert!((one..4 * one).contains(&most(&nested)));
    let wide = format!("group({})", ["scale(a,2)"; 50].join(","));
    assert!((50 * one..102 * one).contains(&most(&wide)));
}

#[test]
fn an_evaluation_is_stopped() {
    assert_eq!(metered("scale(a,2)", 100), (metered("scale(a,2)", 100).0, Err(EvalError::Stopped)));
    for text in ["movingMedian(a,5)", "group(scale(a,2),scale(a,3))", "constantLine(5)|scale(2)"] {
        let (most, _) = metered(text, usize::MAX);
        assert_eq!(metered(text, most).1, Ok(()), "{text}");
        assert_eq!(metered(text, most - 1).1, Err(EvalError::Stopped), "{text}");
    }
}

#[test]
fn a_call_is_stopped_before_it_has_made_all_its_series() {
    for call in ["smartSummarize(@,'1s')", "summarize(@,'1s')", "hitcount(@,'1s')", "slo(@,'1s','above',0)"] {
        let text = call.replace('@', &format!("group({})", ["a"; 50].join(",")));
        let (most, end) = metered(&text, 100_000);
        assert_eq!(end, Err(EvalError::Stopped), "{text}");
        assert!(most < 110_000, "{text}: {most}");
        // The result counts once.
        let (most, end) = metered(&text, usize::MAX);
        assert!(end == Ok(()) && most < 50 * 8000 + 102 * TimeSeries::BYTES + 8000, "{text}: {most} {end:?}");
    }
}

/// Stops the evaluation when it is asked for the `stop_at`th time.
#[derive(Debug)]
struct StopAt {
    asked: std::cell::Cell<usize>,
    stop_at: usize,
}

impl crate::Watch for StopAt {
    fn may_hold(&self, _: usize) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() < self.stop_at
    }
}

/// How often the watch is asked while a target is evaluated over a million points, and the result.
fn asked(text: &str, stop_at: usize) -> (usize, Result<(), EvalError>) {
    let request = Request {
        range: TimeRange { from: 0, until: 1_000_000 },
        now: 1_000_000,
        zone: TimeZone::utc(),
        x_files_factor: 0.0,
        templates: Vec::new(),
        limits: Limits { points: usize::MAX, ..Limits::default() },
    };
    let targets = [parse(text).unwrap()];
    let values: Arc<Vec<f64>> = Arc::new((0..1_000_000).map(|at| f64::from(at % 1000)).collect());
    let mut fetched = Fetched::default();
    loop {
        let patience = StopAt { asked: Default::default(), stop_at };
        match crate::evaluate_watched(&targets, &request, &fetched, &patience) {
            Err(error) => return (patience.asked.get(), Err(error.error)),
            Ok(Step::Done(_)) => return (patience.asked.get(), Ok(())),
            Ok(Step::Fetch(plan)) => {
                for fetch in plan.fetches {
                    let series = Series { name: "a".into(), start: 0, step: 1, values: Vec::new() };
                    let mut series = TimeSeries::fetched(series, &fetch.expression, 0.0);
                    (series.end, series.values) = (1_000_000, Arc::clone(&values));
                    fetched.insert(fetch, vec![series]);
                }
            }
        }
    }
}

#[test]
fn long_work_is_stopped_in_the_middle() {
    for text in [
        "holtWintersForecast(a,'1h','1min')",
        "movingWindow(a,60,'stddev')",
        "movingMedian(a,5000)",
        "pearson(a,a,50)",
        "ksTest2(a,a,10)",
        "randomWalk('w',1)",
        "percentileOfSeries(group(a,a,a),95)",
        "stddevSeries(a,a,a,a,a,a,a,a)",
    ] {
        let (questions, end) = asked(text, usize::MAX);
        assert!(questions > 10 && end == Ok(()), "{text}: {questions} {end:?}");
        assert_eq!(asked(text, questions - 5), (questions - 5, Err(EvalError::Stopped)), "{text}");
    }
}
