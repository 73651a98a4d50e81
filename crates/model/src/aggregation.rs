//! Aggregation methods: how slots fold into the windows of coarser stages.

use std::fmt;
use std::str::FromStr;

/// The aggregation method of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Aggregation {
    /// Mean of the known slots.
    #[default]
    Average,
    /// Sum of the known slots.
    Sum,
    /// Smallest known slot.
    Min,
    /// Largest known slot.
    Max,
    /// The latest known slot.
    Last,
    /// Sum divided by all slots of the window, known or not.
    AvgZero,
    /// Number of known slots.
    Count,
    /// The value with the largest magnitude, with its sign.
    AbsMax,
    /// The value with the smallest magnitude, with its sign.
    AbsMin,
    /// A percentile in thousandths (`p50` is 500, `p999` is 999); the median is `p50`.
    Percentile(u16),
}

/// A window of a coarse stage as it is stored: the folded value and the number of slots folded into it.
///
/// For average and avg_zero the value is the **sum**, as in BigGraphite's tables, so that the windows of
/// several writers can be merged.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Window {
    /// The folded value. Has no meaning if `count` is 0.
    pub value: f64,
    /// The number of known slots that were folded.
    pub count: u32,
}

impl Aggregation {
    /// Folds a slot into the window. Slots must be folded in the order of time.
    #[inline]
    pub fn fold(self, window: &mut Window, value: f64) {
        let value = if self == Self::Count { 1.0 } else { value };
        self.fold_window(window, Window { value, count: 1 });
    }

    /// Folds a window of a finer stage into a window of a coarser one. Windows must be folded in the order of
    /// time.
    ///
    /// A sum starts at 0.0, as in whisper, so the sum of nothing but -0.0 is 0.0. [`Aggregation::merge`] keeps the -0.0
    /// of a stored window.
    #[inline]
    pub fn fold_window(self, whole: &mut Window, part: Window) {
        *whole = match (whole.count, self) {
            (0, Self::Average | Self::AvgZero | Self::Sum) => Window { value: 0.0 + part.value, ..part },
            _ => self.merge(*whole, part),
        };
    }

    /// Merges two windows of the same period. With the method last the value of `later` is kept.
    #[inline]
    pub fn merge(self, earlier: Window, later: Window) -> Window {
        if earlier.count == 0 {
            return later;
        }
        if later.count == 0 {
            return earlier;
        }
        let (a, b) = (earlier.value, later.value);
        let value = match self {
            Self::Average | Self::AvgZero | Self::Sum | Self::Count => a + b,
            Self::Min => {
                if b < a {
                    b
                } else {
                    a
                }
            }
            Self::Max => {
                if b > a {
                    b
                } else {
                    a
                }
            }
            Self::AbsMax => {
                if b.abs() > a.abs() {
                    b
                } else {
                    a
                }
            }
            Self::AbsMin => {
                if b.abs() < a.abs() {
                    b
                } else {
                    a
                }
            }
            Self::Last | Self::Percentile(_) => b,
        };
        Window { value, count: earlier.count.saturating_add(later.count) }
    }

    /// Folds all slots of a window, in the order of time; NaN is unknown. Percentiles can only be computed this
    /// way.
    pub fn fold_all(self, slots: impl Iterator<Item = f64>) -> Window {
        let known = slots.filter(|v| !v.is_nan());
        if let Self::Percentile(thousandths) = self {
            let mut values: Vec<f64> = known.collect();
            return percentile(&mut values, thousandths);
        }
        let mut window = Window::default();
        known.for_each(|v| self.fold(&mut window, v));
        window
    }

    /// Merges the windows of a finer stage, in the order of time. For a percentile this is an approximation.
    /// It is the value at the rank, where the value of each window is counted once for each of its slots.
    pub fn merge_all(self, windows: impl Iterator<Item = Window>) -> Window {
        let Self::Percentile(thousandths) = self else {
            let mut whole = Window::default();
            windows.for_each(|part| self.fold_window(&mut whole, part));
            return whole;
        };
        let mut windows: Vec<Window> = windows.filter(|window| window.count > 0).collect();
        windows.sort_by(|a, b| a.value.total_cmp(&b.value));
        let count = windows.iter().fold(0u32, |sum, window| sum.saturating_add(window.count));
        let mut left = rank(count as usize, thousandths);
        let stands = |window: &&Window| {
            left = left.saturating_sub(window.count as usize);
            left == 0
        };
        windows.iter().find(stands).map_or(Window::default(), |window| Window { value: window.value, count })
    }

    /// The value that a reader gets for a window with `slots` slots; NaN if none is known.
    #[inline]
    pub fn finish(self, window: Window, slots: u32) -> f64 {
        if window.count == 0 {
            return f64::NAN;
        }
        match self {
            Self::Average => window.value / f64::from(window.count),
            Self::AvgZero => window.value / f64::from(slots.max(window.count)),
            _ => window.value,
        }
    }

    /// The sum of the points in a window. It is exact for the methods whose windows are sums. For the others every
    /// point counts as the window's value.
    #[inline]
    pub fn sum_of(self, window: Window) -> f64 {
        match self {
            Self::Average | Self::AvgZero | Self::Sum | Self::Count => window.value,
            _ => window.value * f64::from(window.count),
        }
    }

    /// A window whose finished value is `value`. Used for points that are too old for the finer stages, which
    /// are written directly to a coarse stage. As in whisper, the window counts as full, so that xFilesFactor
    /// does not hide it.
    pub fn window_of(self, value: f64, slots: u32) -> Window {
        let value = match self {
            Self::Average | Self::AvgZero => value * f64::from(slots),
            _ => value,
        };
        Window { value, count: slots }
    }

    /// A window whose finished value is exactly `value`, with at least `least` slots. Multiplying a mean by a
    /// number of slots and dividing it again may change its last bits, so the window may have a few more
    /// slots than `least`. For avg_zero `least` must be at least the number of all slots of the window.
    /// `None` if there is no such window, because the sum would be infinite.
    pub fn window_showing(self, value: f64, least: u32) -> Option<Window> {
        let least = least.max(1);
        if !matches!(self, Self::Average | Self::AvgZero) {
            return Some(Window { value, count: least });
        }
        // A power of two changes no digit of the value.
        let counts = least..=least.checked_next_power_of_two()?;
        let shows = |count: &u32| {
            let slots = f64::from(*count);
            (value * slots / slots).to_bits() == value.to_bits()
        };
        counts.into_iter().find(shows).map(|count| Window { value: value * f64::from(count), count })
    }

    /// Whether windows that were folded with `other` have the same meaning under this method. This covers
    /// open and stored windows. It holds for the methods whose windows are sums.
    pub fn reads_windows_of(self, other: Self) -> bool {
        let is_sum = |method| matches!(method, Self::Average | Self::AvgZero | Self::Sum);
        self == other || (is_sum(self) && is_sum(other))
    }

    /// Whether a window cannot be folded slot by slot, but only from all of its slots when it closes.
    pub fn needs_all_slots(self) -> bool {
        matches!(self, Self::Percentile(_))
    }
}

/// Computes a percentile as carbon's aggregator does: the value at the rank ceil(n · p).
fn percentile(values: &mut [f64], thousandths: u16) -> Window {
    if values.is_empty() {
        return Window::default();
    }
    values.sort_by(f64::total_cmp);
    Window { value: values[rank(values.len(), thousandths) - 1], count: values.len() as u32 }
}

/// The rank of a percentile among `count` values, counted from 1.
fn rank(count: usize, thousandths: u16) -> usize {
    (count * usize::from(thousandths)).div_ceil(1000).clamp(1, count.max(1))
}

/// The text is not the name of an aggregation method.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not an aggregation method; use average, sum, min, max, last, avg_zero, count, absmax, absmin, median or p50…p999"
)]
pub struct AggregationError(pub String);

impl FromStr for Aggregation {
    type Err = AggregationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "average" | "avg" | "mean" => Self::Average,
            "sum" | "total" => Self::Sum,
            "min" | "minimum" => Self::Min,
            "max" | "maximum" => Self::Max,
            "last" | "current" => Self::Last,
            "avg_zero" => Self::AvgZero,
            "count" => Self::Count,
            "absmax" => Self::AbsMax,
            "absmin" => Self::AbsMin,
            "median" => Self::Percentile(500),
            _ => return percentile_name(text).ok_or_else(|| AggregationError(text.to_owned())),
        })
    }
}

/// Reads `p5` … `p99` as hundredths, and `p999` as thousandths.
fn percentile_name(text: &str) -> Option<Aggregation> {
    let digits = text.strip_prefix('p')?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u16 = digits.parse().ok()?;
    match digits.len() {
        1 | 2 if number > 0 => Some(Aggregation::Percentile(number * 10)),
        3 if number > 0 => Some(Aggregation::Percentile(number)),
        _ => None,
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Average => "average",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Last => "last",
            Self::AvgZero => "avg_zero",
            Self::Count => "count",
            Self::AbsMax => "absmax",
            Self::AbsMin => "absmin",
            Self::Percentile(500) => "median",
            Self::Percentile(p) if p % 10 == 0 => return write!(f, "p{}", p / 10),
            Self::Percentile(p) => return write!(f, "p{p:03}"),
        };
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_windows() {
        let points = [2.0, -1.0, 4.0];
        for (method, sum) in [
            (Aggregation::Average, 5.0),
            (Aggregation::AvgZero, 5.0),
            (Aggregation::Sum, 5.0),
            (Aggregation::Count, 3.0),
            (Aggregation::Max, 12.0),
            (Aggregation::Last, 12.0),
            (Aggregation::Percentile(500), 6.0),
        ] {
            assert_eq!(method.sum_of(method.fold_all(points.into_iter())), sum, "{method}");
        }
    }

    #[test]
    fn methods_with_sums_read_the_windows_of_each_other() {
        let slots = [1.0, f64::NAN, 4.0, 4.0];
        let methods = ["average", "avg_zero", "sum", "count", "min", "max", "last", "median"];
        let methods = methods.map(|name| name.parse::<Aggregation>().unwrap());
        for (a, one) in methods.into_iter().enumerate() {
            for (b, other) in methods.into_iter().enumerate() {
                assert_eq!(one.reads_windows_of(other), a == b || (a < 3 && b < 3), "{one} {other}");
                if one.reads_windows_of(other) {
                    assert_eq!(one.fold_all(slots.into_iter()), other.fold_all(slots.into_iter()));
                }
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for name in [
            "average", "sum", "min", "max", "last", "avg_zero", "count", "absmax", "absmin", "median", "p95",
            "p999",
        ] {
            assert_eq!(name.parse::<Aggregation>().unwrap().to_string(), name);
        }
        assert!("p1000".parse::<Aggregation>().is_err());
        assert!("mode".parse::<Aggregation>().is_err());
    }

    #[test]
    fn windows_finish_as_whisper_shows_them() {
        let slots = [1.0, f64::NAN, -4.0, 2.0];
        for (method, shown) in [
            ("average", -1.0 / 3.0),
            ("sum", -1.0),
            ("min", -4.0),
            ("max", 2.0),
            ("last", 2.0),
            ("avg_zero", -0.25),
            ("count", 3.0),
            ("absmax", -4.0),
            ("absmin", 1.0),
            ("median", 1.0),
        ] {
            let method: Aggregation = method.parse().unwrap();
            assert_eq!(method.finish(method.fold_all(slots.into_iter()), 4), shown, "{method}");
        }
    }

    /// Python's `sum` starts at 0; its `max` and `min` return the first of equal values.
    #[test]
    fn zeros_have_the_sign_that_whisper_gives_them() {
        let slots = [[-0.0, -0.0], [-0.0, 0.0], [0.0, -0.0], [f64::NAN, -0.0]];
        for (method, shown) in [
            ("average", [0.0_f64, 0.0, 0.0, 0.0]),
            ("sum", [0.0, 0.0, 0.0, 0.0]),
            ("avg_zero", [0.0_f64, 0.0, 0.0, 0.0]),
            ("last", [-0.0, 0.0, -0.0, -0.0]),
            ("max", [-0.0, -0.0, 0.0, -0.0]),
            ("min", [-0.0, -0.0, 0.0, -0.0]),
            ("absmax", [-0.0, -0.0, 0.0, -0.0]),
            ("absmin", [-0.0, -0.0, 0.0, -0.0]),
        ] {
            let method: Aggregation = method.parse().unwrap();
            for (slots, shown) in slots.iter().zip(shown) {
                let finished = |window: Window| method.finish(window, 2).to_bits();
                assert_eq!(
                    finished(method.fold_all(slots.iter().copied())),
                    shown.to_bits(),
                    "{method} of {slots:?}"
                );
                // The same for windows of a finer stage.
                let windows = slots.iter().map(|v| Window { value: *v, count: u32::from(!v.is_nan()) });
                assert_eq!(finished(method.merge_all(windows)), shown.to_bits(), "{method} of {slots:?}");
            }
            // A window that was stored with -0.0 keeps it.
            let (stored, none) = (Window { value: -0.0, count: 2 }, Window::default());
            for whole in [method.merge(stored, none), method.merge(none, stored)] {
                assert_eq!(method.finish(whole, 2).to_bits(), (-0.0_f64).to_bits(), "{method}");
            }
        }
    }

    #[test]
    fn a_window_that_shows_a_value_shows_it_bit_for_bit() {
        let values = [0.1, 1.0 / 3.0, -7.3e-310, 5e-324, 1e300, -0.0, f64::INFINITY, 123.456, 2.0_f64.sqrt()];
        for method in ["average", "sum", "min", "max", "last", "avg_zero", "absmax", "absmin"] {
            let method: Aggregation = method.parse().unwrap();
            for (value, slots) in values.iter().flat_map(|value| (1..200).map(move |slots| (*value, slots))) {
                let window = method.window_showing(value, slots).unwrap();
                assert_eq!(
                    method.finish(window, slots).to_bits(),
                    value.to_bits(),
                    "{method} {value} {slots}"
                );
                assert!((slots..=slots.next_power_of_two()).contains(&window.count));
            }
        }
        assert_eq!(Aggregation::Average.window_showing(f64::MAX, 60), None);
        assert_eq!(
            Aggregation::Max.window_showing(f64::MAX, 60),
            Some(Window { value: f64::MAX, count: 60 })
        );
    }

    #[test]
    fn windows_of_a_finer_stage_weigh_what_went_into_them() {
        let windows = [(1.0, 1), (2.0, 60), (f64::NAN, 0), (9.0, 3)];
        let windows = || windows.into_iter().map(|(value, count)| Window { value, count });
        for (method, value) in [("median", 2.0), ("p999", 9.0), ("p1", 1.0), ("sum", 12.0), ("max", 9.0)] {
            let method: Aggregation = method.parse().unwrap();
            assert_eq!(method.merge_all(windows()), Window { value, count: 64 }, "{method}");
            assert_eq!(method.merge_all(std::iter::empty()), Window::default(), "{method}");
        }
    }
}
