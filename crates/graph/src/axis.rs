//! The vertical axis: its range, and the numbers beside it.

use crate::label::{Units, label};
use crate::options::{Max, Range};

/// Rounding errors below this share of a step are ignored.
const EPSILON: f64 = 1e-4;

/// Maximum number of labels of an axis. More labels mean that the given step is a mistake.
const LABELS_MAX: usize = 1000;

/// A finished axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    pub(crate) bottom: f64,
    pub(crate) top: f64,
    /// Values and their labels, from the bottom up.
    pub(crate) labels: Vec<(f64, String)>,
    log_base: Option<f64>,
}

/// The settings of an axis, apart from the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) range: Range,
    pub(crate) divisors: &'a [u32],
    pub(crate) units: Units,
    pub(crate) log_base: Option<f64>,
}

impl Axis {
    /// Makes an axis for data between two values.
    pub(crate) fn new(data: (f64, f64), wanted: &Wanted<'_>) -> Self {
        let limits = Limits::new(data, &wanted.range);
        match wanted.log_base {
            Some(base) => Self::logarithmic(&limits, base, wanted.units),
            None => Self::linear(limits, wanted),
        }
    }

    /// The height of a value, from 0 at the bottom to 1 at the top. `None` for a value without a logarithm on a
    /// logarithmic axis.
    pub(crate) fn height(&self, value: f64) -> Option<f64> {
        if self.log_base.is_none() {
            return Some((value - self.bottom) / (self.top - self.bottom));
        }
        (value > 0.0).then(|| (value.ln() - self.bottom.ln()) / (self.top.ln() - self.bottom.ln()))
    }

    fn linear(limits: Limits, wanted: &Wanted<'_>) -> Self {
        let is_binary = wanted.units == Units::Binary;
        let chosen = || limits.step(wanted.divisors, is_binary);
        let mut step = wanted.range.step.unwrap_or_else(chosen);
        let (mut bottom, mut top) = limits.rounded(step);
        if (top - bottom) / step > LABELS_MAX as f64 {
            step = limits.step(&[4, 5, 6], is_binary);
            (bottom, top) = limits.rounded(step);
        }
        if top <= bottom {
            top = bottom + bottom.abs().max(1.0);
        }
        let first = (bottom / step - EPSILON).ceil();
        let value = |index: usize| (first + index as f64) * step;
        let values = (0..=LABELS_MAX).map(value).take_while(|value| *value <= top + EPSILON * step);
        let text = |value: f64| (value, label(value, Some(step), top - bottom, wanted.units));
        Self { bottom, top, labels: values.map(text).collect(), log_base: None }
    }

    /// An axis whose ends are powers of the base.
    fn logarithmic(limits: &Limits, base: f64, units: Units) -> Self {
        const POWERS: std::ops::Range<f64> = -300.0..300.0;
        let power = |value: f64| value.max(f64::MIN_POSITIVE).ln() / base.ln();
        let least = POWERS.start / base.log10();
        let (low, high) = (power(limits.min).floor().max(least), power(limits.max).ceil());
        let high = high.clamp(low + 1.0, (POWERS.end / base.log10()).max(low + 1.0));
        let (bottom, top) = (base.powf(low), base.powf(high));
        // If there are too many powers, only every second (third, …) power gets a label.
        let stride = ((high - low) / 20.0).ceil().max(1.0);
        let powers = (0..=20).map(|index| low + f64::from(index) * stride);
        let values = powers.take_while(|power| *power <= high + EPSILON).map(|power| base.powf(power));
        let text = |value: f64| (value, label(value, None, top - bottom, units));
        Self { bottom, top, labels: values.map(text).collect(), log_base: Some(base) }
    }
}

/// The range that an axis must cover, and whether its ends may be rounded.
#[derive(Debug, Clone, Copy)]
struct Limits {
    min: f64,
    max: f64,
    is_min_fixed: bool,
    is_max_fixed: bool,
    /// The value beyond which rounding must not extend the range.
    limit: f64,
}

impl Limits {
    fn new((min, max): (f64, f64), range: &Range) -> Self {
        let mut limits = Self { min, max, is_min_fixed: false, is_max_fixed: false, limit: f64::INFINITY };
        if let Some(min) = range.min {
            (limits.min, limits.is_min_fixed) = (min, true);
        }
        let is_fixed = match range.max {
            Max::Round => false,
            Max::Largest => {
                limits.is_max_fixed = true;
                false
            }
            Max::At(max) => {
                (limits.max, limits.is_max_fixed) = (max, true);
                true
            }
        };
        let mut is_limited = false;
        match range.limit {
            Some(limit) if limit < limits.max => {
                (limits.max, limits.is_max_fixed, is_limited) = (limit, true, true);
            }
            Some(limit) => limits.limit = limit,
            None => {}
        }
        limits.order(is_fixed || is_limited);
        limits
    }

    /// Makes room if the top is not above the bottom. If both were given, the bottom is kept.
    fn order(&mut self, is_max_asked: bool) {
        if self.min < self.max {
            return;
        }
        let room = |value: f64| if value.abs() < 1e-9 { 1.0 } else { 0.1 * value.abs() };
        match (self.is_min_fixed, is_max_asked) {
            (true, _) => self.max = self.min + room(self.min),
            (false, true) => self.min = self.max - room(self.max),
            (false, false) => {
                let room = room(self.min.abs().max(self.max.abs()));
                let middle = self.min / 2.0 + self.max / 2.0;
                (self.min, self.max) = (middle - room, middle + room);
            }
        }
    }

    /// The range widened to multiples of a step.
    fn rounded(&self, step: f64) -> (f64, f64) {
        let bottom = if self.is_min_fixed { self.min } else { step * (self.min / step + EPSILON).floor() };
        let top = if self.is_max_fixed {
            self.max
        } else {
            (step * (self.max / step - EPSILON).ceil()).min(self.limit.max(self.max))
        };
        (bottom, top)
    }

    /// The round step that leaves the least empty space at the ends if the range is divided into one of these
    /// numbers of steps.
    fn step(&self, divisors: &[u32], is_binary: bool) -> f64 {
        let (fewest, most) = (divisors.iter().min(), divisors.iter().max());
        let (Some(fewest), Some(most)) = (fewest.copied().map(f64::from), most.copied().map(f64::from))
        else {
            return 1.0;
        };
        let span = self.max - self.min;
        let mut best: Option<(f64, f64)> = None;
        for step in round_steps(span / most, is_binary) {
            if best.is_some_and(|(slop, _)| step * fewest >= 2.0 * slop + span) {
                break;
            }
            for divisor in divisors {
                if let Some(slop) = self.slop(step, f64::from(*divisor))
                    && best.is_none_or(|(least, _)| slop < least)
                {
                    best = Some((slop, step));
                }
            }
        }
        best.map_or(span.max(f64::MIN_POSITIVE), |(_, step)| step)
    }

    /// The empty space at the wider end if this many steps cover the data; `None` if they do not cover it.
    fn slop(&self, step: f64, steps: f64) -> Option<f64> {
        let bottom = step * (self.min / step + EPSILON).floor();
        let top = bottom + step * steps;
        (top >= self.max - EPSILON * step).then(|| (top - self.max).max(self.min - bottom))
    }
}

/// The numbers 1, 2, 5, 10, … or the powers of two, starting at `least`.
fn round_steps(least: f64, is_binary: bool) -> impl Iterator<Item = f64> {
    const EXPONENTS: i32 = 40;
    let (base, mantissas): (f64, &[f64]) = if is_binary { (2.0, &[1.0]) } else { (10.0, &[1.0, 2.0, 5.0]) };
    let least = if least.is_finite() { least.max(1e-290) } else { 1e300 };
    let first = (least.log10() / base.log10() - EPSILON).floor() as i32;
    let steps = move |exponent| mantissas.iter().map(move |mantissa| mantissa * base.powi(exponent));
    (first..first + EXPONENTS)
        .flat_map(steps)
        .filter(move |step| *step >= least * (1.0 - EPSILON) && step.is_finite())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wanted(range: Range) -> Wanted<'static> {
        Wanted { range, divisors: &[4, 5, 6], units: Units::Si, log_base: None }
    }

    fn values(axis: &Axis) -> Vec<f64> {
        axis.labels.iter().map(|(value, _)| *value).collect()
    }

    #[test]
    fn steps_are_round() {
        let axis = |min, max| Axis::new((min, max), &wanted(Range::default()));
        assert_eq!(values(&axis(0.0, 100.0)), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(values(&axis(3.0, 17.0)), [0.0, 5.0, 10.0, 15.0, 20.0]);
        assert_eq!(values(&axis(-1.0, 1.0)), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        let flat = axis(5.0, 5.0);
        assert!(flat.bottom < 5.0 && flat.top > 5.0 && flat.labels.len() > 2);
    }

    #[test]
    fn what_is_asked_for_is_not_rounded() {
        let range = Range { min: Some(3.0), max: Max::At(17.0), ..Range::default() };
        let axis = Axis::new((0.0, 100.0), &wanted(range));
        assert_eq!((axis.bottom, axis.top), (3.0, 17.0));
        let limited = Axis::new((0.0, 100.0), &wanted(Range { limit: Some(50.0), ..Range::default() }));
        assert_eq!(limited.top, 50.0);
        let stepped = Axis::new((0.0, 100.0), &wanted(Range { step: Some(25.0), ..Range::default() }));
        assert_eq!(values(&stepped), [0.0, 25.0, 50.0, 75.0, 100.0]);
        let tiny = Axis::new((0.0, 100.0), &wanted(Range { step: Some(1e-9), ..Range::default() }));
        assert_eq!(tiny.labels.len(), 6);
    }

    #[test]
    fn powers_of_a_base() {
        let axis = Axis::new((3.0, 2500.0), &Wanted { log_base: Some(10.0), ..wanted(Range::default()) });
        assert_eq!((axis.bottom, axis.top.round()), (1.0, 10_000.0));
        assert_eq!(axis.labels.len(), 5);
        assert_eq!((axis.height(0.0), axis.height(-1.0)), (None, None));
        assert!((axis.height(100.0).unwrap() - 0.5).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn any_axis_is_finite(
            a in -1e300..1e300f64, b in -1e300..1e300f64, scale in -300i32..1,
            min in proptest::option::of(-1e300..1e300f64), max in proptest::option::of(-1e300..1e300f64),
            limit in proptest::option::of(-1e300..1e300f64), step in proptest::option::of(1e-300..1e300f64),
            log in proptest::option::of(1.0001..1e6f64), is_binary: bool,
        ) {
            let (a, b) = (a * 10f64.powi(scale), b * 10f64.powi(scale));
            let range = Range { min, max: max.map_or(Max::Round, Max::At), limit, step };
            let units = if is_binary { Units::Binary } else { Units::Si };
            let axis = Axis::new((a.min(b), a.max(b)), &Wanted { range, divisors: &[4, 5, 6], units, log_base: log });
            prop_assert!(axis.bottom.is_finite() && axis.top.is_finite() && axis.bottom < axis.top, "{axis:?}");
            prop_assert!(axis.labels.len() <= LABELS_MAX + 1);
        }
    }
}
