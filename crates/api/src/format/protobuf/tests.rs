//! Checks the handwritten encoder by decoding its messages with `prost`.

use std::sync::Arc;

use plumbago_model::Series;

use super::*;
use crate::format::series;

#[derive(Clone, PartialEq, Message)]
struct Second {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<SecondSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct SecondSeries {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    start: i32,
    #[prost(int32, tag = "3")]
    stop: i32,
    #[prost(int32, tag = "4")]
    step: i32,
    #[prost(double, repeated, tag = "5")]
    values: Vec<f64>,
    #[prost(bool, repeated, tag = "6")]
    is_absent: Vec<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Third {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<ThirdSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct ThirdSeries {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    path_expression: String,
    #[prost(string, tag = "3")]
    consolidation: String,
    #[prost(int64, tag = "4")]
    start: i64,
    #[prost(int64, tag = "5")]
    stop: i64,
    #[prost(int64, tag = "6")]
    step: i64,
    #[prost(float, tag = "7")]
    x_files_factor: f32,
    #[prost(double, repeated, tag = "9")]
    values: Vec<f64>,
    #[prost(int64, tag = "11")]
    request_start: i64,
    #[prost(int64, tag = "12")]
    request_stop: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Globbing {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    matches: Vec<Matched>,
}

#[derive(Clone, PartialEq, Message)]
struct ManyGlobbing {
    #[prost(message, repeated, tag = "1")]
    metrics: Vec<Globbing>,
}

#[derive(Clone, PartialEq, Message)]
struct Matched {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(bool, tag = "2")]
    is_leaf: bool,
}

fn made(count: usize) -> Vec<TimeSeries> {
    let one = |index: usize| {
        let name: Arc<str> = format!("series.é.{index}").into();
        let value = |point: usize| if point % 3 == 1 { f64::NAN } else { (point * index) as f64 / 7.0 };
        let values = (0..1000 * index).map(value).collect();
        TimeSeries::fetched(Series { name, start: 1_700_000_040, step: 60, values }, &"series.*".into(), 0.5)
    };
    (0..count).map(one).collect()
}

fn written(mut pieces: impl Pieces) -> Vec<u8> {
    let mut out = Vec::new();
    while pieces.next(&mut out) {}
    out
}

fn bytes(version: Version, count: usize) -> Vec<u8> {
    let range = TimeRange { from: 1_700_000_000, until: 1_700_000_100 };
    written(series(Protobuf { version, range }, made(count), None))
}

#[test]
fn the_second_protocol_is_read_back() {
    let read = Second::decode(&*bytes(Version::V2, 4)).unwrap().metrics;
    assert_eq!(read.len(), 4);
    for (read, series) in read.iter().zip(made(4)) {
        assert_eq!(read.name, *series.name);
        assert_eq!((read.start, read.stop, read.step), (series.start as i32, series.end as i32, 60));
        let absent: Vec<bool> = series.values.iter().map(|v| v.is_nan()).collect();
        assert_eq!(read.is_absent, absent);
        let shown: Vec<f64> = series.values.iter().map(|v| if v.is_nan() { 0.0 } else { *v }).collect();
        assert_eq!(read.values, shown);
    }
}

#[test]
fn the_third_protocol_is_read_back() {
    let read = Third::decode(&*bytes(Version::V3, 4)).unwrap().metrics;
    assert_eq!(read.len(), 4);
    for (read, series) in read.iter().zip(made(4)) {
        assert_eq!((&*read.name, &*read.path_expression), (&*series.name, "series.*"));
        assert_eq!((read.start, read.stop, read.step), (series.start, series.end, 60));
        assert_eq!((read.request_start, read.request_stop), (1_700_000_000, 1_700_000_100));
        assert_eq!((&*read.consolidation, read.x_files_factor), ("average", 0.5));
        let alike = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
        assert!(read.values.len() == series.values.len());
        assert!(read.values.iter().zip(series.values.iter()).all(alike));
    }
    assert!(bytes(Version::V3, 0).is_empty());
}

#[test]
fn globs_are_read_back() {
    let globbed = || {
        vec![
            Globbed {
                query: "a.*".to_owned(),
                nodes: vec![("a.b".to_owned(), true), ("a.c".to_owned(), false)],
            },
            Globbed { query: "none".to_owned(), nodes: Vec::new() },
        ]
    };
    let one = Globbing::decode(&*written(globs(Version::V2, globbed()))).unwrap();
    assert_eq!((&*one.name, one.matches.len()), ("a.*", 2));
    let many = ManyGlobbing::decode(&*written(globs(Version::V3, globbed()))).unwrap().metrics;
    assert_eq!(many[0], one);
    assert_eq!((&*many[1].name, many[1].matches.len()), ("none", 0));
    assert!(one.matches[0].is_leaf && !one.matches[1].is_leaf && one.matches[1].path == "a.c");
}
