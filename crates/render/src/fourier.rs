//! The discrete Fourier transform for any number of values.

use std::f64::consts::{PI, TAU};
use std::ops::{Add, Mul, Sub};

/// A complex number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    pub(crate) fn polar(size: f64, phase: f64) -> Self {
        Self { re: size * phase.cos(), im: size * phase.sin() }
    }

    pub(crate) fn size(self) -> f64 {
        self.re.hypot(self.im)
    }

    pub(crate) fn phase(self) -> f64 {
        self.im.atan2(self.re)
    }

    fn conjugate(self) -> Self {
        Self { re: self.re, im: -self.im }
    }
}

impl From<f64> for Complex {
    fn from(re: f64) -> Self {
        Self { re, im: 0.0 }
    }
}

impl Add for Complex {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        Self { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The number of values in the work space of a transform: a power of two at least twice the number of values,
/// or the number itself if it is a power of two.
pub(crate) fn room(len: usize) -> usize {
    if len.is_power_of_two() {
        len
    } else {
        len.saturating_mul(2).checked_next_power_of_two().unwrap_or(usize::MAX)
    }
}

/// Transforms values to frequencies.
pub(crate) fn transformed(values: Vec<Complex>) -> Vec<Complex> {
    if values.len() <= 1 {
        values
    } else if values.len().is_power_of_two() {
        of_power_of_two(values)
    } else {
        by_chirp(&values)
    }
}

/// Transforms frequencies to values.
pub(crate) fn inverse(frequencies: Vec<Complex>) -> Vec<Complex> {
    let share = Complex::from(1.0 / frequencies.len() as f64);
    let turned = frequencies.into_iter().map(Complex::conjugate).collect();
    transformed(turned).into_iter().map(|value| value.conjugate() * share).collect()
}

/// The algorithm of Cooley and Tukey, in place.
fn of_power_of_two(mut values: Vec<Complex>) -> Vec<Complex> {
    let len = values.len();
    for at in 0..len {
        let other = at.reverse_bits() >> (len.leading_zeros() + 1);
        if at < other {
            values.swap(at, other);
        }
    }
    let roots: Vec<Complex> =
        (0..len / 2).map(|at| Complex::polar(1.0, -TAU * at as f64 / len as f64)).collect();
    let mut half = 1;
    while half < len {
        for pair in values.chunks_exact_mut(2 * half) {
            let (even, odd) = pair.split_at_mut(half);
            let roots = roots.iter().step_by(len / 2 / half);
            for ((even, odd), root) in even.iter_mut().zip(odd).zip(roots) {
                let turned = *odd * *root;
                (*even, *odd) = (*even + turned, *even - turned);
            }
        }
        half *= 2;
    }
    values
}

/// The algorithm of Bluestein: a transform of any length as a convolution with a chirp, computed by transforms
/// whose length is a power of two.
fn by_chirp(values: &[Complex]) -> Vec<Complex> {
    let len = values.len();
    // The square is reduced first, because the angles of large numbers lose precision.
    let angle = |at: usize| PI * ((at as u128 * at as u128) % (2 * len as u128)) as f64 / len as f64;
    let chirp: Vec<Complex> = (0..len).map(|at| Complex::polar(1.0, -angle(at))).collect();
    let mut turned: Vec<Complex> = values.iter().zip(&chirp).map(|(value, chirp)| *value * *chirp).collect();
    turned.resize(room(len), Complex::default());
    let mut kernel = vec![Complex::default(); room(len)];
    for (at, chirp) in chirp.iter().enumerate() {
        kernel[at] = chirp.conjugate();
        kernel[(room(len) - at) % room(len)] = chirp.conjugate();
    }
    let (turned, kernel) = (of_power_of_two(turned), of_power_of_two(kernel));
    let folded = inverse(turned.into_iter().zip(kernel).map(|(a, b)| a * b).collect());
    folded.into_iter().zip(chirp).map(|(value, chirp)| value * chirp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The transform by its definition.
    fn slowly(values: &[Complex]) -> Vec<Complex> {
        let len = values.len();
        let root = |at: usize| Complex::polar(1.0, -TAU * (at % len) as f64 / len as f64);
        let frequency = |k: usize| {
            values.iter().enumerate().fold(Complex::default(), |sum, (at, value)| sum + *value * root(at * k))
        };
        (0..len).map(frequency).collect()
    }

    #[test]
    fn any_length_is_transformed_and_back() {
        for len in (0..40).chain([97, 128, 360, 1440]) {
            let values: Vec<Complex> = (0..len)
                .map(|at| Complex { re: ((at * at) % 17) as f64 - 5.0, im: (at % 5) as f64 })
                .collect();
            let near = |a: &[Complex], b: &[Complex]| {
                a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| (*a - *b).size() < 1e-9 * (len as f64 + 1.0))
            };
            let frequencies = transformed(values.clone());
            assert!(near(&frequencies, &slowly(&values)), "{len}");
            assert!(near(&inverse(frequencies), &values), "{len}");
        }
    }
}
