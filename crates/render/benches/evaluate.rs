//! Evaluates targets over many series: one day of 1,000 series with a point per minute, and six hours of
//! 10,000 series.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use plumbago_model::Series;
use plumbago_render::{
    Fetched, Limits, Request, Step, Target, TimeRange, TimeSeries, TimeZone, evaluate, parse,
};

const NOW: i64 = 1_700_006_400;

/// Targets, with the number of series and of points per series.
const TARGETS: &[(&str, usize, usize)] = &[
    ("sumSeries(host.*.*.value)", 1_000, 1440),
    ("averageSeries(host.*.*.value)", 1_000, 1440),
    ("maxSeries(host.*.*.value)", 1_000, 1440),
    ("stddevSeries(host.*.*.value)", 1_000, 1440),
    ("aggregate(host.*.*.value, 'median')", 1_000, 1440),
    ("percentileOfSeries(host.*.*.value, 95)", 1_000, 1440),
    ("asPercent(host.*.*.value)", 1_000, 1440),
    ("scale(host.*.*.value, 2)", 1_000, 1440),
    ("perSecond(host.*.*.value)", 1_000, 1440),
    ("movingAverage(host.*.*.value, 60)", 1_000, 1440),
    ("movingMedian(host.*.*.value, 60)", 1_000, 1440),
    ("summarize(host.*.*.value, '1h', 'max')", 1_000, 1440),
    ("highestAverage(host.*.*.value, 10)", 1_000, 1440),
    ("groupByNode(host.*.*.value, 1, 'sum')", 10_000, 360),
    ("aliasByNode(host.*.*.value, 1, 2)", 10_000, 360),
    ("aliasSub(host.*.*.value, '^host.([^.]+).*', '\\1')", 10_000, 360),
];

/// A hundred hosts; every fiftieth point is unknown.
fn series(count: usize, points: usize, range: TimeRange) -> Vec<TimeSeries> {
    let expression: Arc<str> = "host.*.*.value".into();
    let start = range.from - range.from.rem_euclid(60) + 60;
    let points = points + usize::try_from((NOW - points as i64 * 60 - range.from) / 60).unwrap_or(0);
    let one = |number: usize| {
        let name = format!("host.h{:02}.metric{number:05}.value", number % 100).into();
        let value = |at: usize| {
            if (at + number) % 50 == 7 { f64::NAN } else { (at * 31 + number * 17) as f64 % 1009.0 }
        };
        let values = (0..points).map(value).collect();
        TimeSeries::fetched(Series { name, start, step: 60, values }, &expression, 0.0)
    };
    (0..count).map(one).collect()
}

/// All series that the targets need.
fn fetched(targets: &[Target], request: &Request, count: usize, points: usize) -> Fetched {
    let mut fetched = Fetched::default();
    while let Ok(Step::Fetch(plan)) = evaluate(targets, request, &fetched) {
        for fetch in plan.fetches {
            let series = series(count, points, fetch.range);
            fetched.insert(fetch, series);
        }
    }
    fetched
}

fn evaluation(criterion: &mut Criterion) {
    for (text, count, points) in TARGETS {
        let request = Request {
            range: TimeRange { from: NOW - *points as i64 * 60, until: NOW },
            now: NOW,
            zone: TimeZone::utc(),
            x_files_factor: 0.0,
            templates: Vec::new(),
            limits: Limits::default(),
        };
        let Ok(target) = parse(text) else { continue };
        let targets = [target];
        let fetched = fetched(&targets, &request, *count, *points);
        let mut group = criterion.benchmark_group(format!("{count}x{points}"));
        group.sample_size(10);
        group.bench_function(*text, |bencher| {
            bencher.iter_batched(
                || (),
                |()| black_box(evaluate(&targets, &request, &fetched).is_ok()),
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

criterion_group!(benches, evaluation);
criterion_main!(benches);
