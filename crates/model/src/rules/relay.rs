//! Relay rules: which destinations get a point, read from carbon's `relay-rules.conf`.
//!
//! Sections are tried in the order of the file. The first one whose pattern is found in the name is used, and
//! also the following ones if it has `continue = true`. The section with `default = true` comes last.
//! Patterns ignore case. A mistake that keeps carbon's relay from starting is an error here as well.

use super::Problem;
use super::ini::{self, Section};
use super::pattern::{AllMatches, Pattern};
use super::problem::{Problems, RuleFile};
use super::sections::unknown_keys;

/// The keys of a section.
const KEYS: [&str; 4] = ["pattern", "destinations", "continue", "default"];

/// Compiled relay rules. Destinations are bits: the first one of the list is bit 0.
#[derive(Debug, Default)]
pub struct RelayRules {
    patterns: AllMatches,
    rules: Vec<Rule>,
    /// The destinations of the section with `default = true`.
    default: u64,
}

#[derive(Debug, Clone, Copy)]
struct Rule {
    destinations: u64,
    goes_on: bool,
}

impl RelayRules {
    /// Parses the file. `known` are the configured destinations, as `host:port`, at most 64. Rules with an
    /// error among their problems must not be used.
    pub fn parse(text: &str, known: &[String]) -> (Self, Vec<Problem>) {
        let mut found = Vec::new();
        let mut problems = Problems { file: RuleFile::Relay, found: &mut found };
        let (mut patterns, mut rules, mut default) = (Vec::new(), Vec::new(), None);
        for section in ini::read(text, &mut problems) {
            unknown_keys(&section, &KEYS, &mut problems);
            let mut reader = Reader { section: &section, known, problems: &mut problems };
            let destinations = reader.destinations();
            match (section.entry("pattern"), section.entry("default")) {
                (Some(_), Some(_)) => reader.error("has both pattern and default; use one of them"),
                (Some(_), None) => {
                    let goes_on = reader.is_on("continue");
                    if let Some(pattern) = reader.pattern() {
                        patterns.push(pattern);
                        rules.push(Rule { destinations, goes_on });
                    }
                }
                (None, Some(_)) if !reader.is_on("default") => {}
                (None, Some(_)) if default.is_some() => {
                    reader.error("is a second default; only one is possible");
                }
                (None, Some(_)) => default = Some(destinations),
                (None, None) => reader.warning("has neither pattern nor default, so it is skipped"),
            }
        }
        if default.is_none() {
            problems.error(0, "", "no section has default = true; carbon wants exactly one");
        }
        let patterns = AllMatches::new(patterns).unwrap_or_else(|error| {
            problems.error(0, "", format!("the patterns are too large together: {error}"));
            AllMatches::default()
        });
        (Self { patterns, rules, default: default.unwrap_or_default() }, found)
    }

    /// The destinations of a metric of this name, as bits.
    pub fn destinations(&self, name: &str) -> u64 {
        let (mut chosen, mut goes_on) = (0, true);
        self.patterns.visit(name, |position| {
            let rule = self.rules[position];
            chosen |= rule.destinations;
            goes_on = rule.goes_on;
            goes_on
        });
        if goes_on { chosen | self.default } else { chosen }
    }
}

/// Reads one section.
struct Reader<'a, 'p> {
    section: &'a Section,
    known: &'a [String],
    problems: &'a mut Problems<'p>,
}

impl Reader<'_, '_> {
    fn error(&mut self, message: &str) {
        self.problems.error(self.section.line, &self.section.name, message);
    }

    fn warning(&mut self, message: &str) {
        self.problems.warning(self.section.line, &self.section.name, message);
    }

    fn pattern(&mut self) -> Option<Pattern> {
        let entry = self.section.entry("pattern")?;
        let text = self.section.value(entry);
        let pattern = Pattern::new(&format!("(?i){text}"));
        pattern
            .inspect_err(|error| {
                let message = format!("pattern {text:?}: {error}");
                self.problems.error(entry.line, &self.section.name, message);
            })
            .ok()
    }

    /// The bits of the destinations of this section.
    fn destinations(&mut self) -> u64 {
        let Some(entry) = self.section.entry("destinations") else {
            self.error("no destinations");
            return 0;
        };
        let value = self.section.value(entry);
        let mut chosen = 0;
        for text in value.split(',').map(str::trim).filter(|text| !text.is_empty()) {
            let address = without_instance(text);
            match self.known.iter().take(64).position(|known| known == address) {
                Some(number) => chosen |= 1 << number,
                None => {
                    let message = format!(
                        "{text} is not in relay.destinations, which has {}",
                        if self.known.is_empty() { "none".to_owned() } else { self.known.join(", ") }
                    );
                    self.problems.error(entry.line, &self.section.name, message);
                }
            }
        }
        chosen
    }

    /// The value of a Boolean key; `false` if the key is missing.
    fn is_on(&mut self, key: &str) -> bool {
        let Some(entry) = self.section.entry(key) else { return false };
        let text = self.section.value(entry).trim().to_lowercase();
        match text.as_str() {
            "1" | "yes" | "true" | "on" => true,
            "0" | "no" | "false" | "off" => false,
            _ => {
                let message = format!("{key}: {text:?} is neither true nor false");
                self.problems.error(entry.line, &self.section.name, message);
                false
            }
        }
    }
}

/// `host:port` of `host:port:instance`. Instances distinguish carbon's caches on one port; here they have no
/// meaning.
fn without_instance(text: &str) -> &str {
    let host_end = text.find(']').map_or(0, |bracket| bracket + 1);
    let mut colons = text[host_end..].match_indices(':').map(|(at, _)| host_end + at);
    let second = colons.nth(1);
    second.map_or(text, |at| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Severity;

    fn known() -> Vec<String> {
        ["10.0.0.1:2004", "10.0.0.2:2004", "[::1]:2003"].map(str::to_owned).to_vec()
    }

    fn parse(text: &str) -> RelayRules {
        let (rules, problems) = RelayRules::parse(text, &known());
        assert!(problems.is_empty(), "{problems:?}");
        rules
    }

    #[test]
    fn the_first_match_decides_unless_it_continues() {
        let rules = parse(
            "[copy]\npattern = ^prod\\.\ndestinations = [::1]:2003:a\ncontinue = true\n\
             [db]\npattern = \\.db\\d\ndestinations = 10.0.0.1:2004:a, 10.0.0.2:2004\n\
             [web]\npattern = (?<!old)web\ndestinations = 10.0.0.1:2004\ncontinue = yes\n\
             [default]\ndefault = true\ndestinations = 10.0.0.2:2004:b\n",
        );
        for (name, destinations) in [
            ("prod.db1", 0b111),
            ("PROD.x", 0b110),
            ("test.DB2", 0b011),
            ("test.web", 0b011),
            ("test.oldweb", 0b010),
            ("prod.web.db3", 0b111),
            ("prod.web", 0b111),
            ("x", 0b010),
        ] {
            assert_eq!(rules.destinations(name), destinations, "{name}");
        }
    }

    #[test]
    fn all_problems_are_named() {
        let text = "[a]\npattern = [\ndestinations = 10.0.0.1:2004\n[b]\npattern = x\n[c]\npattern = y\n\
                    destinations = 10.0.0.9:2004\ndefault = true\n[d]\ndestinations = 10.0.0.1:2004\ncontinu = 1\n";
        let (_, problems) = RelayRules::parse(text, &known());
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        for part in [
            "line 2: [a] error: pattern \"[\"",
            "[b] error: no destinations",
            "[c] error: 10.0.0.9:2004 is not in relay.destinations, which has 10.0.0.1:2004",
            "[c] error: has both pattern and default",
            "[d] warning: has neither pattern nor default",
            "[d] warning: key continu is not known",
            "line 0: error: no section has default = true",
        ] {
            assert!(lines.iter().any(|line| line.contains(part)), "{part} in {lines:#?}");
        }
        assert_eq!(problems.iter().filter(|p| p.severity == Severity::Error).count(), 5);
        let twice = "[a]\ndefault = on\ndestinations = 10.0.0.1:2004\n[b]\ndefault = 1\ndestinations = 10.0.0.1:2004\n";
        assert_eq!(RelayRules::parse(twice, &known()).1.len(), 1);
    }
}
