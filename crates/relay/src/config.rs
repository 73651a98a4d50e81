//! The `[relay]` section of the configuration.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use plumbago_model::rules::{RelayRules, Severity};
use plumbago_model::{ByteSize, Period};
use plumbago_tls::Client;
use serde::Deserialize;

use crate::destination::Destination;

/// Largest number of destinations, because a point's destinations are bits of one number.
const DESTINATIONS_MAX: usize = 64;

/// The settings of the `[relay]` section.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where accepted points are sent, each as [`Destination`] writes it. Empty switches the relay off. reload: no
    pub destinations: Vec<String>,
    /// Path of carbon's `relay-rules.conf`; empty if every destination gets every point. reload: yes
    pub rules: PathBuf,
    /// Path of a PEM file with the authorities that sign the certificates of destinations with TLS. reload: no
    pub ca: PathBuf,
    /// Limit on the bytes of each queue on disk. Beyond the limit, the oldest points of the queue are
    /// dropped. reload: no
    pub max_bytes: ByteSize,
    /// After a connection breaks, the points that were sent within this time before the break are sent again.
    /// reload: no
    pub resend: Period,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            destinations: Vec::new(),
            rules: PathBuf::new(),
            ca: PathBuf::new(),
            max_bytes: ByteSize(10 << 30),
            resend: Period::seconds(30),
        }
    }
}

impl Config {
    /// Returns all problems of the section, each as `key: message`. Reads the files `rules` and `ca`.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (mut destinations, mut directories) = (Vec::new(), HashSet::new());
        for text in &self.destinations {
            match text.parse::<Destination>() {
                Ok(destination) => {
                    if !directories.insert(destination.directory()) {
                        problems
                            .push(format!("relay.destinations: {} is listed twice", destination.address()));
                    }
                    destinations.push(destination);
                }
                Err(error) => problems.push(format!("relay.destinations: {error}")),
            }
        }
        if self.destinations.len() > DESTINATIONS_MAX {
            problems.push(format!("relay.destinations: at most {DESTINATIONS_MAX} are possible"));
        }
        if self.max_bytes.0 < 1 << 20 {
            problems.push(format!("relay.max_bytes: {} is below 1MiB", self.max_bytes));
        }
        self.ca_problem(destinations.iter().any(|destination| destination.tls), &mut problems);
        // A destination that could not be parsed would be missing when the rules are checked.
        if problems.is_empty()
            && let Err(found) = self.load_rules()
        {
            problems.extend(found);
        }
        problems
    }

    fn ca_problem(&self, is_needed: bool, problems: &mut Vec<String>) {
        if self.ca.as_os_str().is_empty() {
            if is_needed {
                problems.push("relay.ca: a destination with TLS needs the authorities to trust".to_owned());
            }
        } else if let Err(error) = Client::trusting(&self.ca) {
            problems.push(format!("relay.ca: {error}"));
        }
    }

    /// The destinations that can be parsed.
    pub(crate) fn parsed(&self) -> Vec<Destination> {
        self.destinations.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Reads the rules. `None` if none are configured.
    ///
    /// # Errors
    ///
    /// All problems of the file, each as `key: message`.
    pub(crate) fn load_rules(&self) -> Result<Option<RelayRules>, Vec<String>> {
        if self.rules.as_os_str().is_empty() {
            return Ok(None);
        }
        let text = read(&self.rules).map_err(|error| vec![error])?;
        let addresses: Vec<String> = self.parsed().iter().map(Destination::address).collect();
        let (rules, problems) = RelayRules::parse(&text, &addresses);
        let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
        let errors: Vec<String> =
            errors.map(|problem| format!("relay.rules: {}", problem.within(&self.rules))).collect();
        if errors.is_empty() { Ok(Some(rules)) } else { Err(errors) }
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("relay.rules: {}: cannot be read: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|_| format!("relay.rules: {}: is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_reported_at_once() {
        assert!(Config::default().problems().is_empty());
        let config = Config {
            destinations: ["line://a:1", "pickle://a:1", "b:2", "line+tls://c:3"].map(str::to_owned).to_vec(),
            max_bytes: ByteSize(5),
            ..Config::default()
        };
        let problems = config.problems();
        for start in [
            "relay.destinations: a:1 is listed twice",
            "relay.destinations: \"b:2\" is not a destination",
            "relay.max_bytes: ",
            "relay.ca: a destination with TLS",
        ] {
            assert!(problems.iter().any(|problem| problem.starts_with(start)), "{start} in {problems:#?}");
        }
        assert_eq!(problems.len(), 4);
    }

    #[test]
    fn rules_are_checked_against_the_destinations() {
        let dir = tempfile::tempdir().unwrap();
        let rules = dir.path().join("relay-rules.conf");
        std::fs::write(&rules, "[a]\npattern = ^a\ndestinations = a:1, b:2\n").unwrap();
        let mut config = Config { destinations: vec!["line://a:1".to_owned()], rules, ..Config::default() };
        let problems = config.problems();
        assert_eq!(problems.len(), 2, "{problems:#?}");
        config.rules = "/nowhere/rules.conf".into();
        assert!(config.problems()[0].starts_with("relay.rules: /nowhere/rules.conf: cannot be read"));
    }
}
