//! Values like those of real metrics: 20 % constants, 30 % integer gauges, 20 % counters, 20 % gauges with two
//! decimals, 10 % random numbers of full precision. Gauges move in random steps.

use std::io::Write;

/// The current value of one metric, and how it changes from point to point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Walk {
    random: u64,
    /// The value, in hundredths for gauges with decimals.
    state: i64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Constant,
    Gauge,
    Counter,
    Decimal,
    Noise,
}

impl Walk {
    /// Starts the walk of metric `number`. The same seed gives the same sequence.
    pub(crate) fn new(seed: u64, number: usize) -> Self {
        let mut random = seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let kind = match next(&mut random) % 10 {
            0 | 1 => Kind::Constant,
            2..=4 => Kind::Gauge,
            5 | 6 => Kind::Counter,
            7 | 8 => Kind::Decimal,
            _ => Kind::Noise,
        };
        let range = if kind == Kind::Counter { 100_000_000 } else { 100_000 };
        let state = (next(&mut random) % range) as i64;
        Self { random, state, kind }
    }

    /// Advances by one point and appends its value as text.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) {
        let random = next(&mut self.random);
        match self.kind {
            Kind::Constant => {}
            Kind::Gauge => self.state += (random % 21) as i64 - 10,
            Kind::Counter => self.state += (random % 5000) as i64,
            Kind::Decimal => self.state += (random % 201) as i64 - 100,
            Kind::Noise => {
                // 53 random bits, scaled to the range from 0 to 1000.
                let value = (random >> 11) as f64 / (1u64 << 53) as f64 * 1000.0;
                out.extend_from_slice(zmij::Buffer::new().format(value).as_bytes());
                return;
            }
        }
        // Writing to a vector cannot fail.
        let _ = match self.kind {
            Kind::Decimal => {
                let sign = if self.state < 0 { "-" } else { "" };
                let hundredths = self.state.unsigned_abs();
                write!(out, "{sign}{}.{:02}", hundredths / 100, hundredths % 100)
            }
            _ => out.write_all(itoa::Buffer::new().format(self.state).as_bytes()),
        };
    }
}

/// The next number of SplitMix64, a small generator that is good enough here and very fast.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_as_promised() {
        let mut counts = [0usize; 5];
        for number in 0..100_000 {
            counts[Walk::new(1, number).kind as usize] += 1;
        }
        for (count, share) in counts.into_iter().zip([20, 30, 20, 20, 10]) {
            assert!(count.abs_diff(share * 1000) < 1000, "{counts:?}");
        }
    }

    #[test]
    fn values_repeat_and_are_numbers() {
        for number in 0..1000 {
            let (mut a, mut b) = (Walk::new(7, number), Walk::new(7, number));
            for _ in 0..20 {
                let (mut x, mut y) = (Vec::new(), Vec::new());
                a.write(&mut x);
                b.write(&mut y);
                assert_eq!(x, y);
                String::from_utf8(x).unwrap().parse::<f64>().unwrap();
            }
        }
    }
}
