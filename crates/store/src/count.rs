//! The number of slots that a row adds to a window. It may be negative.

use std::iter::Sum;
use std::ops::{Add, Neg, Sub};

/// The number of slots that the row of one writer adds to a window.
///
/// Readers add up the counts of all writers, and only the sum has to be right. The count is negative in a
/// row that corrects a window in which other writers counted slots twice. A merged window has an unsigned
/// count ([`Window::count`](plumbago_model::Window)). Arithmetic saturates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct RowCount(i32);

impl RowCount {
    /// The count of a window without slots.
    pub const ZERO: Self = Self(0);
    /// One slot, as every row of a raw stage has.
    pub const ONE: Self = Self(1);

    /// A count of `slots`; negative values subtract slots that other writers counted twice.
    pub const fn new(slots: i32) -> Self {
        Self(slots)
    }

    /// The number of slots.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The count of a window that consists of this row alone: 0 for a row that only corrects others.
    pub fn of_window(self) -> u32 {
        self.0.max(0).unsigned_abs()
    }

    /// The number as unsigned bits (two's complement), for binary formats.
    pub const fn to_bits(self) -> u32 {
        self.0.cast_unsigned()
    }

    /// The inverse of [`RowCount::to_bits`].
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits.cast_signed())
    }
}

impl From<u32> for RowCount {
    fn from(slots: u32) -> Self {
        Self(i32::try_from(slots).unwrap_or(i32::MAX))
    }
}

impl PartialEq<i32> for RowCount {
    fn eq(&self, other: &i32) -> bool {
        self.0 == *other
    }
}

impl Add for RowCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for RowCount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for RowCount {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Sum for RowCount {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_survives_the_bits() {
        for slots in [0, 7, -7, i32::MAX, i32::MIN] {
            assert_eq!(RowCount::from_bits(RowCount::new(slots).to_bits()), slots);
        }
        assert_eq!(RowCount::from(u32::MAX), i32::MAX);
    }

    #[test]
    fn a_correction_alone_is_no_window() {
        assert_eq!(RowCount::new(-3).of_window(), 0);
        assert_eq!(RowCount::new(3).of_window(), 3);
        let whole: RowCount = [5, -2, i32::MAX].map(RowCount::new).into_iter().sum();
        assert_eq!(whole, i32::MAX);
    }
}
