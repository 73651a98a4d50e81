//! Stages and retentions: how long points are kept, and at which resolution.

use std::fmt;
use std::str::FromStr;

use crate::Period;

/// A level of a retention. Stage 0 is raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stage {
    /// Seconds between two slots.
    pub resolution: u32,
    /// The number of slots that are kept.
    pub points: u32,
}

impl Stage {
    /// The time that the stage covers, in seconds.
    pub fn duration(&self) -> u64 {
        u64::from(self.resolution) * u64::from(self.points)
    }

    /// The stage in the usual notation, like `1m:1w`.
    pub fn spelled(&self) -> String {
        format!("{}:{}", Period::seconds(u64::from(self.resolution)), Period::seconds(self.duration()))
    }

    /// The start of the slot of a point, in seconds since the epoch.
    #[inline]
    pub fn slot(&self, timestamp: u32) -> u32 {
        timestamp / self.resolution
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s:{}s", self.resolution, self.duration())
    }
}

/// The stages of a metric, the finest first. Never empty; satisfies the rules of [`Retention::of_stages`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Retention(Vec<Stage>);

/// Why a text or a list of stages is not a retention.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetentionError {
    /// There is no stage.
    #[error("the retention has no stage")]
    Empty,
    /// The text is not of the form `precision:length`.
    #[error("{0:?} is not a stage; write resolution:length, like 60s:7d")]
    Form(String),
    /// A number is zero, or a number or unit is not understood.
    #[error("{0:?} is not a duration; units are s, m(in), h, d, w, y")]
    Duration(String),
    /// A stage covers more than 136 years, or has more slots than 32 bits can count.
    #[error("{0:?} is too long: a stage covers at most 136 years and has fewer than 2^32 slots")]
    TooLong(String),
    /// Two stages have the same resolution.
    #[error("two stages have the resolution {0}s")]
    DuplicateResolution(u32),
    /// A resolution does not divide the next coarser one.
    #[error("the resolution {0}s does not divide the next coarser one, {1}s")]
    NotDivisible(u32, u32),
    /// A coarser stage covers no more time than the finer one.
    #[error("stage {0} does not cover more time than the finer stage {1}")]
    NotLonger(Stage, Stage),
    /// A finer stage has too few slots to fill one slot of the next stage.
    #[error("stage {0} has too few slots to fill one slot of {1}")]
    TooFewPoints(Stage, Stage),
}

impl Retention {
    /// Sorts the stages by resolution and checks whisper's rules: those of [`Retention::of_stages`], and each
    /// stage must have enough slots to fill one slot of the next.
    ///
    /// # Errors
    ///
    /// Returns the first rule that is broken.
    pub fn new(stages: Vec<Stage>) -> Result<Self, RetentionError> {
        let retention = Self::of_stages(stages)?;
        for pair in retention.0.windows(2) {
            let (fine, coarse) = (pair[0], pair[1]);
            if fine.points < coarse.resolution / fine.resolution {
                return Err(RetentionError::TooFewPoints(fine, coarse));
            }
        }
        Ok(retention)
    }

    /// Sorts the stages by resolution and checks BigGraphite's rules, which are weaker than whisper's: each
    /// resolution is a multiple of the finer one, and durations grow. Two stages of the same resolution, which
    /// BigGraphite allows, are an error.
    ///
    /// # Errors
    ///
    /// Returns the first rule that is broken.
    pub fn of_stages(mut stages: Vec<Stage>) -> Result<Self, RetentionError> {
        if stages.is_empty() {
            return Err(RetentionError::Empty);
        }
        if let Some(stage) = stages.iter().find(|stage| stage.duration() == 0) {
            return Err(RetentionError::Duration(stage.to_string()));
        }
        stages.sort_by_key(|s| s.resolution);
        for pair in stages.windows(2) {
            let (fine, coarse) = (pair[0], pair[1]);
            if fine.resolution == coarse.resolution {
                return Err(RetentionError::DuplicateResolution(fine.resolution));
            }
            if coarse.resolution % fine.resolution != 0 {
                return Err(RetentionError::NotDivisible(fine.resolution, coarse.resolution));
            }
            if coarse.duration() <= fine.duration() {
                return Err(RetentionError::NotLonger(coarse, fine));
            }
        }
        Ok(Self(stages))
    }

    /// Parses a printed retention by the rules of [`Retention::of_stages`], because retentions that BigGraphite
    /// made are stored too.
    ///
    /// # Errors
    ///
    /// Returns [`RetentionError`] if the text is not a retention.
    pub fn from_text(text: &str) -> Result<Self, RetentionError> {
        Self::of_stages(parse_stages(text)?)
    }

    /// The stages, the finest first.
    pub fn stages(&self) -> &[Stage] {
        &self.0
    }

    /// Stage 0, the raw one.
    #[inline]
    pub fn finest(&self) -> Stage {
        self.0[0]
    }

    /// The time that the longest stage covers, in seconds.
    pub fn duration(&self) -> u64 {
        self.0[self.0.len() - 1].duration()
    }

    /// The finest stage that still has all slots of a window of `stage` when the window closes. It allows for
    /// a delay as long as the window itself.
    #[inline]
    pub fn source_of(&self, stage: usize) -> usize {
        let length = u64::from(self.0[stage].resolution);
        (0..stage).find(|finer| self.0[*finer].duration() >= 2 * length).unwrap_or(stage.saturating_sub(1))
    }

    /// The retention in the usual notation, like `1m:1w,1h:730d`.
    pub fn spelled(&self) -> String {
        self.0.iter().map(Stage::spelled).collect::<Vec<_>>().join(",")
    }

    /// The finest stage that covers a point of this age (in seconds), as whisper chooses it. `None` if no stage
    /// does.
    pub fn stage_for_age(&self, age: i64) -> Option<usize> {
        self.0.iter().position(|s| s.duration() as i64 >= age)
    }
}

impl From<Stage> for Retention {
    /// A single stage satisfies all rules.
    fn from(stage: Stage) -> Self {
        Self(vec![stage])
    }
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, stage) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{stage}")?;
        }
        Ok(())
    }
}

impl FromStr for Retention {
    type Err = RetentionError;

    /// Parses carbon's form `60s:7d,15m:2y`, where a length without a unit is a number of points, and the
    /// longer unit names of the whisper tools and go-carbon (`1min:7days`).
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(parse_stages(text)?)
    }
}

fn parse_stages(text: &str) -> Result<Vec<Stage>, RetentionError> {
    text.split(',').map(|part| parse_stage(part.trim())).collect()
}

fn parse_stage(text: &str) -> Result<Stage, RetentionError> {
    let (precision, length) = text.split_once(':').ok_or_else(|| RetentionError::Form(text.to_owned()))?;
    let (resolution, _) = parse_duration(precision.trim())?;
    let (amount, unit) = parse_duration(length.trim())?;
    let points = if unit { amount / resolution } else { amount };
    let too_long = || RetentionError::TooLong(text.to_owned());
    if points == 0 {
        return Err(RetentionError::Duration(length.to_owned()));
    }
    if resolution.checked_mul(points).is_none_or(|seconds| seconds > u64::from(u32::MAX)) {
        return Err(too_long());
    }
    Ok(Stage {
        resolution: u32::try_from(resolution).map_err(|_| too_long())?,
        points: u32::try_from(points).map_err(|_| too_long())?,
    })
}

/// Parses a positive number with an optional unit. The result says whether there was a unit.
fn parse_duration(text: &str) -> Result<(u64, bool), RetentionError> {
    let error = || RetentionError::Duration(text.to_owned());
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| error())?;
    let unit = text[digits..].trim();
    if number == 0 {
        return Err(error());
    }
    if unit.is_empty() {
        return Ok((number, false));
    }
    let seconds = unit_seconds(unit).ok_or_else(error)?;
    number.checked_mul(seconds).map(|s| (s, true)).ok_or_else(error)
}

/// The seconds of a unit. As in the whisper tools, any prefix of its name is accepted.
fn unit_seconds(unit: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] = [
        ("seconds", 1),
        ("minutes", 60),
        ("hours", 3600),
        ("days", 86_400),
        ("weeks", 604_800),
        ("years", 31_536_000),
    ];
    UNITS.iter().find(|(word, _)| word.starts_with(unit)).map(|(_, seconds)| *seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_carbon_and_go_carbon() {
        for (text, printed) in [
            ("60s:7d,15m:2y", "60s:604800s,900s:63072000s"),
            ("60:1440", "60s:86400s"),
            ("1min:7days", "60s:604800s"),
            ("1h:1y, 1m:7d", "60s:604800s,3600s:31536000s"),
        ] {
            let retention: Retention = text.parse().unwrap();
            assert_eq!(retention.to_string(), printed);
            assert_eq!(printed.parse::<Retention>().unwrap(), retention);
        }
    }

    #[test]
    fn invalid_retentions_say_why() {
        use RetentionError as E;
        assert!(matches!("60s".parse::<Retention>(), Err(E::Form(_))));
        assert!(matches!("60x:7d".parse::<Retention>(), Err(E::Duration(_))));
        assert!(matches!("0s:7d".parse::<Retention>(), Err(E::Duration(_))));
        assert!(matches!("60s:1d,60s:2d".parse::<Retention>(), Err(E::DuplicateResolution(60))));
        assert!(matches!("60s:1d,90s:2d".parse::<Retention>(), Err(E::NotDivisible(60, 90))));
        assert!(matches!("60s:1d,120s:1d".parse::<Retention>(), Err(E::NotLonger(..))));
        assert!(matches!("1s:10,60s:1d".parse::<Retention>(), Err(E::TooFewPoints(..))));
        assert!(matches!("1s:200y".parse::<Retention>(), Err(E::TooLong(_))));
    }

    #[test]
    fn retentions_of_biggraphite_need_not_be_whispers() {
        use RetentionError as E;
        let stage = |points, resolution| Stage { resolution, points };
        let stages = vec![stage(1825, 86_400), stage(720, 60)];
        assert!(matches!(Retention::new(stages.clone()), Err(E::TooFewPoints(..))));
        let retention = Retention::of_stages(stages).unwrap();
        assert_eq!(retention.stages(), [stage(720, 60), stage(1825, 86_400)]);
        assert_eq!(Retention::from_text(&retention.to_string()), Ok(retention.clone()));
        // The text that the local copy of the names stores.
        let config = crate::MetricConfig { retention, aggregation: Default::default(), x_files_factor: 0.5 };
        assert_eq!(crate::MetricConfig::from_text(&config.to_text()), Some(config));
        let refused = |stages: &[Stage]| Retention::of_stages(stages.to_vec()).unwrap_err();
        assert!(matches!(refused(&[]), E::Empty));
        assert!(matches!(refused(&[stage(0, 60)]), E::Duration(_)));
        assert!(matches!(refused(&[stage(60, 0), stage(60, 60)]), E::Duration(_)));
        assert!(matches!(refused(&[stage(60, 60), stage(70, 60)]), E::DuplicateResolution(60)));
        assert!(matches!(refused(&[stage(60, 60), stage(60, 90)]), E::NotDivisible(60, 90)));
        assert!(matches!(refused(&[stage(60, 60), stage(30, 120)]), E::NotLonger(..)));
    }
}
