//! What is wrong with this machine's clock, as comparisons with the servers' clock show.

use std::collections::VecDeque;

/// A difference above this is reported, in milliseconds.
const TOLERANCE_MS: i64 = 10_000;
/// Our clock counts as behind only after this many comparisons in a row have found it behind, which takes a minute.
/// Each comparison asks one server, and that server's clock may be the wrong one.
const BEHIND_LOOKS: usize = 15;

/// What is wrong with the clock, as text for operators.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClockProblems {
    pub(crate) ahead: Option<String>,
    pub(crate) behind: Option<String>,
}

/// By how many milliseconds our clock was behind in the last comparisons.
#[derive(Debug, Default)]
pub(crate) struct Behind(VecDeque<i64>);

impl Behind {
    /// Adds a comparison. Returns by how many milliseconds our clock is behind for certain; 0 within the tolerance.
    pub(crate) fn note(&mut self, behind_ms: i64) -> i64 {
        self.0.push_back(behind_ms);
        if self.0.len() > BEHIND_LOOKS {
            self.0.pop_front();
        }
        let least_ms = self.0.iter().copied().min().unwrap_or(0);
        if self.0.len() < BEHIND_LOOKS || least_ms <= TOLERANCE_MS { 0 } else { least_ms }
    }
}

/// Text for operators about a clock that is behind by `lag_ms`: its effect, and what to do. `None` for 0.
pub(crate) fn behind_text(lag_ms: i64) -> Option<String> {
    (lag_ms > 0).then(|| {
        let seconds = lag_ms / 1000;
        format!(
            "the clock of this machine is {seconds} s behind the server's: correct it, for example with NTP. Rows get \
             timestamps of the server's clock meanwhile, but points without a time, points ahead of now and the expiry \
             of points follow the wrong clock"
        )
    })
}

/// Text for operators about a clock that is ahead: its effect, and what to do. This machine's clock is
/// ahead of the server's clock by `clock_ms`, and the timestamps that rows get are ahead of it by
/// `rows_ms`. `None` if both are within the tolerance.
pub(crate) fn ahead_text(clock_ms: i64, rows_ms: i64) -> Option<String> {
    let effect = "rows of this daemon replace rows and deletions of other daemons, even those that are later";
    if clock_ms > TOLERANCE_MS {
        let seconds = clock_ms / 1000;
        return Some(format!(
            "the clock of this machine is {seconds} s ahead of the server's, so {effect}: correct it, for \
             example with NTP"
        ));
    }
    (rows_ms > TOLERANCE_MS).then(|| {
        let seconds = rows_ms / 1000;
        format!(
            "the clock of this machine was ahead: for {seconds} s more, rows get timestamps ahead of the server's \
             clock, so that they replace the earlier rows. Until then {effect}. This ends by itself; keep \
             data_dir, which has the last timestamp"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_told_from_one_that_was() {
        assert_eq!(ahead_text(10_000, 10_000), None);
        assert_eq!(ahead_text(-3_600_000, 0), None);
        let is = ahead_text(11_000, 11_000).unwrap();
        assert!(is.contains("is 11 s ahead") && is.contains("NTP"), "{is}");
        let was = ahead_text(-5, 3_600_000).unwrap();
        assert!(was.contains("was ahead: for 3600 s more") && was.contains("keep data_dir"), "{was}");
    }

    #[test]
    fn one_server_that_is_ahead_makes_no_clock_look_behind() {
        let mut behind = Behind::default();
        for look in 0..60 {
            assert_eq!(behind.note(if look % 3 == 0 { 5 } else { 3_600_000 }), 0);
        }
        let noted: Vec<i64> = (0..20).map(|look| behind.note(600_000 + look)).collect();
        assert!(noted.iter().filter(|lag_ms| **lag_ms == 0).count() >= 12, "{noted:?}");
        assert_eq!(*noted.last().unwrap(), 600_005, "the least of the last fifteen");
        assert_eq!(behind.note(0), 0, "it was put right");
        assert!(behind_text(600_005).unwrap().contains("is 600 s behind"));
        assert_eq!(behind_text(0), None);
    }
}
