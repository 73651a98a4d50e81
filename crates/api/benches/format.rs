//! Measures how long each format takes to write 1,000 series of one day at one point per minute: 1.44 million
//! points.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use plumbago_api::bench;
use plumbago_model::Series;
use plumbago_render::{TimeSeries, TimeZone};

/// Builds the series. `value` returns a value from the numbers of its series and point.
fn day(value: fn(usize, usize) -> f64) -> Vec<TimeSeries> {
    let series = |number: usize| {
        let name: Arc<str> = format!("servers.web-{number:04}.cpu.user").into();
        let values = (0..1440).map(|point| value(number, point)).collect();
        TimeSeries::fetched(Series { name, start: 1_700_000_040, step: 60, values }, &"servers.*".into(), 0.0)
    };
    (0..1000).map(series).collect()
}

/// A mix, a quarter each: whole numbers, percentages with two digits, series with gaps, and floats with all
/// digits.
fn mixed(series: usize, point: usize) -> f64 {
    let noise = ((series * 7919 + point * 104_729) % 100_003) as f64;
    match series % 4 {
        0 => noise,
        1 => (noise / 10.0).round() / 100.0,
        2 if !point.is_multiple_of(3) => f64::NAN,
        _ => noise / 7.0,
    }
}

fn formats(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("1000x1440");
    group.sample_size(20);
    let whole: Vec<TimeSeries> = day(|series, point| ((series * 31 + point * 17) % 10_007) as f64);
    let mixed = day(mixed);
    let mut time = |name: &str, series: &Vec<TimeSeries>, write: fn(Vec<TimeSeries>) -> usize| {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| series.clone(), |series| black_box(write(series)), BatchSize::LargeInput);
        });
    };
    time("json, whole numbers", &whole, bench::json);
    time("json, mixed", &mixed, bench::json);
    time("json, mixed, 500 wide", &mixed, |series| bench::thinned_json(series, 500));
    time("raw, mixed", &mixed, bench::raw);
    time("csv, mixed", &mixed, |series| bench::csv(series, TimeZone::utc()));
    time("pickle, mixed", &mixed, bench::pickle);
    group.finish();
}

criterion_group!(benches, formats);
criterion_main!(benches);
