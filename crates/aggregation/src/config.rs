//! The `[aggregation]` section of the configuration.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbago_model::Period;
use plumbago_model::rules::{AggregationRules, Severity};
use serde::Deserialize;

/// The shortest pause between two computations of a buffer.
const WRITE_BACK_MIN: Duration = Duration::from_millis(100);

/// The settings of the `[aggregation]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Path of carbon's `aggregation-rules.conf`; empty switches aggregation off. reload: yes
    pub rules: PathBuf,
    /// Whether points are also stored and relayed after the rules have used them. reload: yes
    pub forward_all: bool,
    /// Intervals of a buffer that are kept for late points, beside the current one. reload: yes
    pub max_intervals: u32,
    /// Pause between two computations of a buffer, if it is shorter than the frequency of its rule; zero
    /// means the frequency. reload: yes
    pub write_back_frequency: Period,
    /// Largest number of open intervals of all buffers. reload: yes
    pub max_open_intervals: u64,
    /// Largest number of values that are kept for percentiles. reload: yes
    pub max_values: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rules: PathBuf::new(),
            forward_all: true,
            max_intervals: 5,
            write_back_frequency: Period::seconds(0),
            max_open_intervals: 2_000_000,
            max_values: 20_000_000,
        }
    }
}

impl Config {
    /// All problems of the settings, each as `key: message`. Reads the rules.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.load_rules().err().unwrap_or_default();
        if !self.write_back_frequency.is_zero() && *self.write_back_frequency < WRITE_BACK_MIN {
            problems.push(format!(
                "aggregation.write_back_frequency: {} is below 100ms",
                self.write_back_frequency
            ));
        }
        for (key, limit) in [("max_open_intervals", self.max_open_intervals), ("max_values", self.max_values)]
        {
            if limit == 0 {
                problems.push(format!("aggregation.{key}: must be at least 1"));
            }
        }
        problems
    }

    /// Whether aggregation is switched off.
    pub fn is_off(&self) -> bool {
        self.rules.as_os_str().is_empty()
    }

    /// Reads the rules. There are none if no file is named.
    ///
    /// # Errors
    ///
    /// All problems of the file, each as `key: message`.
    pub(crate) fn load_rules(&self) -> Result<AggregationRules, Vec<String>> {
        if self.is_off() {
            return Ok(AggregationRules::default());
        }
        let text = read(&self.rules).map_err(|error| vec![error])?;
        let (rules, problems) = AggregationRules::parse(&text);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let errors: Vec<String> =
            errors.map(|problem| format!("aggregation.rules: {}", problem.within(&self.rules))).collect();
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let bytes = std::fs::read(path)
        .map_err(|error| format!("aggregation.rules: {shown}: cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| format!("aggregation.rules: {shown}: is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_at_once() {
        assert!(Config::default().problems().is_empty());
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("aggregation-rules.conf");
        std::fs::write(&rules, "a (1) = sum b\nwrong\na (1) = none b\n").unwrap();
        let config = Config { rules, max_values: 0, ..Config::default() };
        let problems = config.problems();
        assert_eq!(problems.len(), 3, "{problems:#?}");
        assert!(problems[0].contains("aggregation-rules.conf:2: "), "{problems:#?}");
        assert!(problems[1].contains("aggregation-rules.conf:3: "), "{problems:#?}");
        let missing = Config { rules: "/nowhere/rules.conf".into(), ..Config::default() };
        assert!(missing.problems()[0].starts_with("aggregation.rules: /nowhere/rules.conf: cannot be read"));
    }
}
