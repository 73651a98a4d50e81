//! The `[quotas]` section of the configuration.

use std::path::PathBuf;

use plumbago_model::Period;
use plumbago_model::rules::{QuotaRules, Severity};
use serde::Deserialize;

/// The settings of the `[quotas]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Path of the file of quotas; empty for none. reload: yes
    pub rules: PathBuf,
    /// Pause between two measurements of the sizes of directories whose size is limited.
    pub measure_every: Period,
}

impl Default for Config {
    fn default() -> Self {
        Self { rules: PathBuf::new(), measure_every: Period::seconds(600) }
    }
}

impl Config {
    /// All problems of the section, each as `key: message`. Reads the rules.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.load_rules().err().unwrap_or_default();
        if self.measure_every.is_zero() {
            problems.push("quotas.measure_every: must not be 0".to_owned());
        }
        problems
    }

    /// Reads the rules. There are none if no file is named.
    ///
    /// # Errors
    ///
    /// All problems of the file, each as `key: message`.
    pub fn load_rules(&self) -> Result<QuotaRules, Vec<String>> {
        if self.rules.as_os_str().is_empty() {
            return Ok(QuotaRules::default());
        }
        let file = self.rules.display();
        let text = match std::fs::read(&self.rules).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(_)) => return Err(vec![format!("quotas.rules: {file}: is not UTF-8")]),
            Err(error) => return Err(vec![format!("quotas.rules: {file}: cannot be read: {error}")]),
        };
        let (rules, problems) = QuotaRules::parse(&text);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let errors: Vec<String> =
            errors.map(|problem| format!("quotas.rules: {}", problem.within(&self.rules))).collect();
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_at_once() {
        assert!(Config::default().problems().is_empty());
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("quotas.conf");
        std::fs::write(&rules, "[a]\nmetrics = 5\n[b]\npattern = b\nmetrics = x\nlimit = 5\n").unwrap();
        let config = Config { rules, measure_every: Period::seconds(0) };
        let problems = config.problems();
        assert_eq!(problems.len(), 4, "{problems:#?}");
        assert!(problems[0].contains("quotas.conf:1: [a] no pattern"), "{problems:#?}");
        let missing = Config { rules: "/nowhere/quotas.conf".into(), ..Config::default() };
        assert!(missing.problems()[0].starts_with("quotas.rules: /nowhere/quotas.conf: cannot be read"));
    }
}
