//! The expected numbers were computed without this code: transforms and distributions by their definitions (a
//! sum over all values; 2,000 terms of Kolmogorov's series), the rest manually.

use crate::TimeSeries;
use crate::functions::tests::{Stored, run_over};

const NAN: f64 = f64::NAN;

fn stored() -> Vec<Stored> {
    vec![
        ("wave.a", 60, 60, vec![3.0, 1.0, -2.0, 5.0, 0.0, 7.0]),
        ("gap.a", 60, 60, vec![4.0, 2.0, NAN, 1.0, 3.0]),
        ("ks.a", 60, 60, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]),
        ("ks.b", 60, 60, vec![5.0, 6.0, 1.0, 8.0, 19.0, 20.0, 21.0, 22.0, 23.0, 24.0]),
        ("heat.3", 60, 60, vec![10.0, NAN, 3.0, 17.0, 10.0, 90.0]),
        ("heat.1", 60, 60, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("heat.2", 60, 60, vec![2.0, NAN, 20.0, 8.0, 10.0, 7.0]),
        ("state.a", 60, 60, vec![1.0, 2.0, NAN, -1.5]),
        ("state.b", 60, 60, vec![1.9, 1.0, 2.0]),
        ("apps.1_3.m", 60, 60, vec![1.0; 11]),
        ("apps.2.m", 60, 60, vec![2.0; 11]),
        ("apps.3.m", 60, 60, vec![3.0; 11]),
        ("apps.none.m", 60, 60, vec![4.0; 11]),
        ("mark.1_2", 60, 60, mark(2)),
        ("mark.1_3", 60, 60, mark(3)),
        ("mark.2_2", 60, 60, mark(6)),
        ("mark.3_0", 60, 60, mark(7)),
        ("mark.3_1", 60, 60, mark(8)),
        ("b.aG9zdA==.c", 60, 60, vec![1.0]),
        ("bG9hZA==", 60, 60, vec![1.0]),
    ]
}

fn mark(at: usize) -> Vec<f64> {
    (0..11).map(|slot| if slot == at { 1.0 } else { NAN }).collect()
}

fn run(text: &str) -> Vec<TimeSeries> {
    run_over(&stored(), text, 0.0).unwrap()
}

fn error(text: &str) -> String {
    run_over(&stored(), text, 0.0).unwrap_err()
}

fn names(text: &str) -> Vec<String> {
    run(text).iter().map(|series| series.name.to_string()).collect()
}

#[track_caller]
fn assert_near(values: &[f64], expected: &[f64]) {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 || a.is_nan() && b.is_nan();
    assert!(values.len() == expected.len() && values.iter().zip(expected).all(near), "{values:?}");
}

#[test]
fn frequencies() {
    let both = run("fft(wave.a)");
    assert_eq!(names("fft(wave.a)"), ["fft(wave.a,abs)", "fft(wave.a,phase)"]);
    let sizes = [
        14.0,
        7.549_834_435_270_75,
        6.082_762_530_298_223,
        12.0,
        6.082_762_530_298_214,
        7.549_834_435_270_762,
    ];
    assert_near(&both[0].values, &sizes);
    let phases = [0.0, 1.162_158_471_697_304, 0.605_891_118_839_246_5];
    assert_near(&both[1].values[..3], &phases);
    // At half of the sampling rate the phase is π or -π.
    assert_near(&[both[1].values[3].abs()], &[std::f64::consts::PI]);
    assert_near(&both[1].values[4..], &[-phases[2], -phases[1]]);
    assert_eq!(run("fft(wave.a,'abs')"), both[..1]);
    assert_eq!(run("fft(wave.a,'phase')"), both[1..]);
    // An unknown point counts as 0.
    let sizes = [
        10.0,
        4.979_796_569_765_559_5,
        0.449_027_976_579_586,
        0.449_027_976_579_584_5,
        4.979_796_569_765_563,
    ];
    assert_near(&run("fft(gap.a,'abs')")[0].values, &sizes);
    assert!(error("fft(wave.a,'power')").contains("mode"));
}

#[test]
fn frequencies_turn_back_into_series() {
    let back = run("ifft(fft(wave.a,'abs'),fft(wave.a,'phase'))");
    assert_eq!(&*back[0].name, "ifft(fft(wave.a,abs),fft(wave.a,phase))");
    // Magnitudes have no sign.
    assert_near(&back[0].values, &[3.0, 1.0, 2.0, 5.0, 0.0, 7.0]);
    let without =
        [8.877_532_321_856_323, 0.577_845_317_495_423_3, 2.061_233_839_071_838, 0.155_690_634_990_846];
    assert_near(&run("ifft(fft(wave.a,'abs'))")[0].values[..4], &without);
}

#[test]
fn slow_frequencies_pass() {
    let passed = run("lpf(ks.a, 45)");
    assert_eq!(&*passed[0].name, "lowPass(ks.a,45)");
    assert_near(&passed[0].values, &[1.0, 2.0, NAN, NAN, NAN, NAN, NAN, NAN, 9.0, 10.0]);
    assert!(run("lowPass(ks.a, 0)")[0].values.iter().all(|value| value.is_nan()));
    assert_eq!(run("lowPass(ks.a, 1e9)")[0].values, run("ks.a")[0].values);
}

#[test]
fn samples_of_one_distribution() {
    let tested = run("ksTest2(ks.a, ks.b, 6)");
    assert_eq!(&*tested[0].name, "kolmogorovSmirnovTest2(ks.a,ks.b,6)");
    assert!(tested[0].values[..6].iter().all(|value| value.is_nan()));
    for (value, expected) in
        tested[0].values[6..].iter().zip([0.138_920_284_3, 0.138_920_284_3, 0.031_007_591_6, 0.004_957_504_3])
    {
        // Both series of the distribution are cut off after the third or fourth term.
        assert!((value - expected).abs() < 1e-7, "{value} {expected}");
    }
    assert_eq!(run("ksTest2(ks.a, ks.a, 6)")[0].values[6..], [1.0; 4]);
    assert!(error("ksTest2(ks.*, ks.a, 6)").contains("two series"));
    assert!(error("ksTest2(ks.a, ks.b, 0)").contains("windowSize"));
    assert!(run("ksTest2(nothing, ks.b, 6)").is_empty());
}

#[test]
fn heat() {
    let map = run("heatMap(heat.*)");
    assert_eq!(names("heatMap(heat.*)"), ["heatMap(heat.2,heat.1)", "heatMap(heat.3,heat.2)"]);
    assert_near(&map[0].values, &[1.0, NAN, 17.0, 4.0, 5.0, 1.0]);
    assert_near(&map[1].values, &[8.0, NAN, -17.0, 9.0, 0.0, 83.0]);
    assert!(run("heatMap(heat.1)").is_empty() && run("heatMap(nothing)").is_empty());
    assert!(error("heatMap(group(heat.1,ks.a))").contains("different times"));
}

#[test]
fn values_are_counted() {
    assert_eq!(names("countValues(state.*)"), ["-1", "1", "2"]);
    let counts = run("countValues(state.*)");
    assert_eq!(*counts[0].values, [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(*counts[1].values, [2.0, 1.0, 0.0, 0.0]);
    assert_eq!(*counts[2].values, [0.0, 1.0, 1.0, 0.0]);
    let many = run("countValues(state.*, 2)");
    assert_eq!((many.len(), &*many[0].name), (1, "valuesLimitReached"));
    assert_eq!(*many[0].values, [0.0; 4]);
    assert!(run("countValues(nothing)").is_empty());
}

#[test]
fn lists_are_joined() {
    for (how, expected) in [
        ("", &["ks.a"][..]),
        (",'and'", &["ks.a"]),
        (",'OR'", &["ks.a", "ks.b", "state.a"]),
        (",'xor'", &["ks.b", "state.a"]),
        (",type='SUB'", &["ks.b"]),
    ] {
        assert_eq!(names(&format!("join(ks.*,group(ks.a,state.a){how})")), expected, "{how}");
    }
    assert!(error("join(ks.*,ks.a,'NAND')").contains("must be one of AND, OR, XOR, SUB"));
}

#[test]
fn versions_are_laid_over_each_other() {
    let shifted = run("timeShiftByMetric(apps.*, mark.*, 1)");
    let shown: Vec<_> = shifted.iter().map(|s| (&*s.name, s.start, s.end)).collect();
    assert_eq!(
        shown,
        [
            ("timeShiftByMetric(apps.1_3.m)", 60 + 300, 720 + 300),
            ("timeShiftByMetric(apps.2.m)", 60 + 120, 720 + 120),
            ("timeShiftByMetric(apps.3.m)", 60, 720),
        ]
    );
    assert!(error("timeShiftByMetric(apps.*, mark.1_*, 1)").contains("two major versions"));
    assert!(error("timeShiftByMetric(ks.*, mark.*, 1)").contains("different numbers of points"));
    assert!(run("timeShiftByMetric(nothing, mark.*, 1)").is_empty());
}

#[test]
fn names_in_base64() {
    assert_eq!(names("aliasByBase64(b.*, 2)"), ["b.host.c"]);
    assert_eq!(names("aliasByBase64(b.*, 1)"), ["b.aG9zdA==.c"]);
    assert_eq!(names("aliasByBase64(b.*, 9)"), ["b.aG9zdA==.c"]);
    assert_eq!(names("aliasByBase64(b.*, -1)"), ["b.aG9zdA==.c"]);
    assert_eq!(names("aliasByBase64(bG9h*)"), ["load"]);
    assert_eq!(names("aliasByBase64(ks.a)"), ["ks.a"]);
}

#[test]
fn percentiles_aggregate() {
    // Nine tenths of the way from the first to the last of ten values.
    assert_near(&run("summarize(ks.a,'10min','p90',true)")[0].values, &[9.1]);
    assert_near(&run("aggregate(ks.*,'p50')")[0].values[..3], &[3.0, 4.0, 2.0]);
    assert_near(&run("movingWindow(ks.a,2,'p25')")[0].values[6..8], &[8.25, 9.25]);
    let both = ["p99.9", "p999"].map(|name| run(&format!("aggregateLine(ks.a,'{name}')"))[0].values[0]);
    assert_near(&both, &[9.991, 9.991]);
    for wrong in ["p", "p-1", "pinf", "p1e400", "pp"] {
        assert!(error(&format!("aggregate(ks.*,'{wrong}')")).contains("aggregation function"), "{wrong}");
    }
}
