//! Measures encoding and decoding of columns of values, by length. First prints the bytes per value.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use plumbago_model::codec;

mod common;

const LENGTHS: [usize; 6] = [8, 30, 45, 60, 360, 1440];
const METRICS: u64 = 1000;

fn columns(len: usize) -> Vec<Vec<f64>> {
    (0..METRICS)
        .map(|number| {
            let mut series = common::Series::new(number);
            (0..len).map(|_| series.next()).collect()
        })
        .collect()
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    for len in LENGTHS {
        let columns = columns(len);
        let mut bytes = Vec::new();
        columns.iter().for_each(|column| codec::encode(column, &mut bytes));
        println!("{len} values: {:.3} bytes per value", bytes.len() as f64 / (len as f64 * METRICS as f64));
        group.throughput(Throughput::Elements(len as u64 * METRICS));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| {
                bytes.clear();
                columns.iter().for_each(|column| codec::encode(black_box(column), &mut bytes));
                bytes.len()
            });
        });
    }
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    for len in LENGTHS {
        let mut bytes = Vec::new();
        columns(len).iter().for_each(|column| codec::encode(column, &mut bytes));
        let mut out = Vec::with_capacity(len);
        group.throughput(Throughput::Elements(len as u64 * METRICS));
        group.bench_function(BenchmarkId::from_parameter(len), |b| {
            b.iter(|| {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    out.clear();
                    match codec::decode(black_box(rest), len, &mut out) {
                        Ok(used) => rest = &rest[used..],
                        Err(error) => panic!("{error}"),
                    }
                }
                out.len()
            });
        });
    }
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
