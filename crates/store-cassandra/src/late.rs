//! Windows that a late point changed after all writers had closed them.
//!
//! The engine computes the whole window from the raw points. Other writers have rows of the same
//! window, which a reader adds to ours; so ours becomes what is missing between theirs and the
//! whole. Only windows that are closed for every writer may be treated so.

use plumbago_model::{Aggregation, Window};

/// A window whose count may be negative: a row that corrects others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// The value of our row.
    pub value: f64,
    /// Its count.
    pub count: i32,
}

/// What our row has to say so that it and the `others` (merged, of our replica) give the `whole`.
pub fn ours(method: Aggregation, whole: Window, others: Option<Window>) -> Correction {
    let whole_count = i32::try_from(whole.count).unwrap_or(i32::MAX);
    let Some(others) = others else {
        return Correction { value: whole.value, count: whole_count };
    };
    let missing = whole_count.saturating_sub(i32::try_from(others.count).unwrap_or(i32::MAX));
    match method {
        Aggregation::Average | Aggregation::AvgZero | Aggregation::Sum | Aggregation::Count => {
            Correction { value: whole.value - others.value, count: missing }
        }
        // The fullest row wins, and the whole is never less full.
        Aggregation::Percentile(_) => Correction { value: whole.value, count: whole_count },
        _ => Correction { value: whole.value, count: missing },
    }
}

/// A correction's count in a batch, whose counts have no sign.
pub fn to_batch(count: i32) -> u32 {
    count as u32
}

/// A count of a batch with its sign.
pub fn from_batch(count: u32) -> i32 {
    count as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(value: f64, count: u32) -> Window {
        Window { value, count }
    }

    #[test]
    fn sums_are_completed() {
        let row = ours(Aggregation::Average, window(60.0, 60), Some(window(50.0, 55)));
        assert_eq!(row, Correction { value: 10.0, count: 5 });
        let row = ours(Aggregation::Sum, window(60.0, 60), Some(window(75.0, 70)));
        assert_eq!(row, Correction { value: -15.0, count: -10 });
    }

    #[test]
    fn extremes_stay_whole() {
        let row = ours(Aggregation::Max, window(9.0, 60), Some(window(5.0, 55)));
        assert_eq!(row, Correction { value: 9.0, count: 5 });
        let row = ours(Aggregation::Percentile(500), window(9.0, 60), Some(window(5.0, 55)));
        assert_eq!(row, Correction { value: 9.0, count: 60 });
    }

    #[test]
    fn alone_the_whole_is_ours() {
        assert_eq!(ours(Aggregation::Sum, window(6.0, 3), None), Correction { value: 6.0, count: 3 });
    }

    #[test]
    fn signs_survive_a_batch() {
        for count in [0, 7, -7, i32::MAX, i32::MIN] {
            assert_eq!(from_batch(to_batch(count)), count);
        }
    }
}
