use proptest::prelude::*;

use super::*;

fn bytes_of(values: &[f64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(values, &mut bytes);
    bytes
}

fn assert_round_trip(values: &[f64]) {
    let mut bytes = bytes_of(values);
    let len = bytes.len();
    bytes.extend([0xa5; 3]);
    let mut back = vec![7.0];
    assert_eq!(decode(&bytes, values.len(), &mut back), Ok(len), "{values:?}");
    assert_eq!(back.len(), values.len() + 1);
    for (a, b) in values.iter().zip(&back[1..]) {
        assert!(a.is_nan() && b.is_nan() || a.to_bits() == b.to_bits(), "{a:?} became {b:?} in {values:?}");
    }
}

#[test]
fn awkward_values_come_back_bit_for_bit() {
    let awkward = [
        0.0,
        -0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        f64::MAX,
        f64::MIN,
        9_223_372_036_854_775_807.0,
        -9_223_372_036_854_775_808.0,
        9_007_199_254_740_993.0,
        2_251_799_813_685_248.0,
        2_251_799_813_685_247.5,
        0.1,
        0.1 + 0.2,
        1e-14,
        123_456_789.123_456,
        1e22,
        1e23,
    ];
    assert_round_trip(&[]);
    assert_round_trip(&[f64::NAN; 9]);
    assert_round_trip(&awkward);
    for a in awkward {
        assert_round_trip(&[a]);
        assert_round_trip(&[a; 30]);
        for b in awkward {
            assert_round_trip(&[a, b]);
            assert_round_trip(&[f64::NAN, a, f64::NAN, b, a, b]);
        }
    }
}

#[test]
fn common_columns_are_small() {
    let column = |f: fn(u32) -> f64| bytes_of(&(0..60).map(f).collect::<Vec<_>>()).len();
    assert_eq!(column(|_| 0.0), 3);
    assert_eq!(column(|_| 0.5), 3);
    assert_eq!(column(|i| f64::from(1_000_000 + i * 60)), 6);
    // Eight bits per value, and four bytes before them.
    assert!(column(|i| f64::from(i * 31 % 256)) <= 64);
    assert!(column(|i| f64::from(i * 31 % 256) * 4096.0) <= 65);
    assert!(column(|i| f64::from(i * 7919 % 10_000) / 100.0) <= 110);
    // Values of single precision have 29 zero bits.
    assert!(column(|i| f64::from((f64::from(i) * 0.37).sin() as f32 + 2.0)) <= 60 * 4 + 12);
    // Values of full precision that repeat.
    assert!(column(|i| f64::from(i / 20).sqrt() + 0.1) <= 40);
}

#[test]
fn unknown_slots_cost_nothing_in_one_run_and_a_bit_else() {
    let mut values = [f64::NAN; 60];
    values[10..40].fill(3.0);
    assert_eq!(bytes_of(&values).len(), 5);
    values[20] = f64::NAN;
    assert_eq!(bytes_of(&values).len(), 3 + 8);
}

#[test]
fn columns_follow_each_other() {
    let mut bytes = Vec::new();
    encode(&[1.0, 2.5, f64::NAN], &mut bytes);
    let second = bytes.len();
    encode(&[7.0], &mut bytes);
    let mut out = Vec::new();
    assert_eq!(decode(&bytes, 3, &mut out), Ok(second));
    assert_eq!(decode(&bytes[second..], 1, &mut out), Ok(bytes.len() - second));
    assert_eq!(out[3], 7.0);
}

#[test]
fn a_cut_column_is_an_error_and_leaves_nothing() {
    let values: Vec<f64> = (0..30).map(|i| f64::from(i * i) / 10.0).collect();
    let bytes = bytes_of(&values);
    for len in 0..bytes.len() {
        let mut out = vec![1.0];
        assert_eq!(decode(&bytes[..len], 30, &mut out), Err(CodecError));
        assert_eq!(out, [1.0]);
    }
}

#[test]
fn decimals_become_integers_and_back() {
    for (values, wanted) in [
        (&[1.0, f64::NAN, -3.0, 9e18][..], Some(0)),
        (&[0.5, 12.25], Some(2)),
        (&[0.1 + 0.2], None),
        (&[-0.0], None),
        (&[1e17, 0.5], None),
    ] {
        assert_eq!(exponent(values), wanted, "{values:?}");
        for value in values.iter().filter(|v| !v.is_nan()) {
            let Some(exponent) = wanted else { continue };
            assert_eq!(to_value(to_integer(*value, exponent), exponent).to_bits(), value.to_bits());
        }
    }
}

fn slots() -> impl Strategy<Value = Vec<f64>> {
    let any_bits = any::<u64>().prop_map(f64::from_bits);
    let decimal = (-1_000_000_i64..1_000_000, 0..16_i32).prop_map(|(m, e)| m as f64 / 10_f64.powi(e));
    let whole = any::<i64>().prop_map(|i| i as f64);
    let gap = Just(f64::NAN);
    let repeat = prop_oneof![Just(0.1 + 0.2), Just(1.0 / 3.0)];
    prop_oneof![
        prop::collection::vec(any_bits.clone(), 0..70),
        prop::collection::vec(decimal.clone(), 0..70),
        prop::collection::vec(prop_oneof![3 => decimal.clone(), 1 => gap], 0..70),
        prop::collection::vec(whole.clone(), 0..70),
        prop::collection::vec(prop_oneof![9 => repeat, 1 => any_bits.clone(), 1 => gap], 0..400),
        prop::collection::vec(prop_oneof![any_bits, decimal, whole, gap], 0..70),
    ]
}

/// Found by libFuzzer: offsets of zero bits with a shift by all 64.
#[test]
fn a_shift_over_the_edge_is_damage() {
    let bytes = [0x40, 0x80, 0x40, 0, 0x6c, 0x20, 0x5a, 0x5a, 0x5a, 0x80, 1];
    assert_eq!(decode(&bytes, 1, &mut Vec::new()), Err(CodecError));
}

proptest! {
    #[test]
    fn any_column_round_trips(values in slots()) {
        assert_round_trip(&values);
    }

    #[test]
    fn known_runs_round_trip(values in slots(), before in 0..20_usize, after in 0..20_usize) {
        let mut padded = vec![f64::NAN; before];
        padded.extend(values);
        padded.resize(padded.len() + after, f64::NAN);
        assert_round_trip(&padded);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0..200_usize) {
        let mut out = Vec::new();
        if let Ok(used) = decode(&bytes, len, &mut out) {
            prop_assert!(used <= bytes.len());
            prop_assert_eq!(out.len(), len);
        } else {
            prop_assert!(out.is_empty());
        }
    }

    #[test]
    fn flipped_bits_make_no_panic(values in slots(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut bytes = bytes_of(&values);
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        let mut out = Vec::new();
        let _ = decode(&bytes, values.len(), &mut out);
        prop_assert!(out.is_empty() || out.len() == values.len());
    }
}
