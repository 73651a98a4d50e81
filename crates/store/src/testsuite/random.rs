//! A small random generator with a seed, so that a failing test can be repeated.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// Returns `true` with a probability of 1 in `n`.
    pub(crate) fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    /// A value of a kind that is common in metrics, or of any bits. Never NaN.
    pub(crate) fn value(&mut self) -> f64 {
        match self.below(6) {
            0 => 0.0,
            1 => f64::from(self.below(1000)),
            2 => f64::from(self.below(100_000)) / 100.0,
            3 => -f64::from(self.below(10)),
            4 => (self.next() >> 11) as f64 / 1e9,
            _ => {
                let value = f64::from_bits(self.next());
                if value.is_nan() { -0.0 } else { value }
            }
        }
    }
}
