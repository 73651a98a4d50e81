//! Quotas: limits on the metrics below a directory. They are read from a file in the form of carbon's
//! configuration files.
//!
//! The pattern of a section is a glob of directories, or `/` for everything. The limits of the section apply
//! to each matching directory separately. Sections are tried in the order of the file. The first one that
//! matches a parent directory of a metric is used, so a metric belongs to at most one quota.

use super::Problem;
use super::ini::{self, Entry, Section};
use super::problem::{Problems, RuleFile, Severity};
use crate::ByteSize;
use crate::glob::{Path, Pattern, Step};

/// The pattern that selects all metrics.
const ROOT: &str = "/";
/// The keys of a section.
const KEYS: [&str; 6] = ["pattern", "metrics", "points_per_minute", "bytes", "over_bytes", "dry_run"];
/// The largest limit of points. It is the largest value of the counter of one minute.
const POINTS_MAX: u64 = u32::MAX as u64;

/// The limits of a quota. An amount without a limit is only counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// The number of metrics.
    pub metrics: Option<u64>,
    /// The number of points that arrive in a minute.
    pub points_per_minute: Option<u64>,
    /// The number of bytes in the store.
    pub bytes: Option<u64>,
}

/// A section of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// The name between the brackets.
    pub name: String,
    /// The directories, as they are written.
    pub pattern: String,
    /// The limits of each of these directories.
    pub limits: QuotaLimits,
    /// Whether points of known metrics are refused too while there are too many bytes.
    pub over_bytes_refuses_points: bool,
    /// Whether the quota only counts and refuses nothing.
    pub dry_run: bool,
}

/// The quotas of a file, in its order.
#[derive(Debug, Default)]
pub struct QuotaRules {
    quotas: Vec<Quota>,
    matchers: Vec<Matcher>,
}

/// One way in which a directory can match.
#[derive(Debug)]
struct Matcher {
    /// The position of its quota.
    quota: usize,
    /// The number of components of the directories.
    depth: usize,
    path: Path,
    /// The first component, if only one text matches.
    first: Option<String>,
}

impl QuotaRules {
    /// Parses the file. Rules with an error among their problems must not be used.
    pub fn parse(text: &str) -> (Self, Vec<Problem>) {
        let (mut found, mut rules) = (Vec::new(), Self::default());
        let mut problems = Problems { file: RuleFile::Quotas, found: &mut found };
        for section in ini::read(text, &mut problems) {
            if section.name == "DEFAULT" {
                continue;
            }
            let mut reader = Reader { section: &section, problems: &mut problems };
            reader.refuse_unknown_keys();
            if let Some((pattern, paths)) = reader.pattern() {
                let quota = rules.quotas.len();
                rules.matchers.extend(paths.into_iter().map(|path| Matcher::new(quota, path)));
                rules.quotas.push(reader.quota(pattern));
            }
        }
        // Carbon skips sections with some problems. A quota that is skipped would limit nothing.
        found.iter_mut().for_each(|problem| problem.severity = Severity::Error);
        (rules, found)
    }

    /// The quotas, in the order of the file.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Whether there is no quota.
    pub fn is_empty(&self) -> bool {
        self.quotas.is_empty()
    }

    /// The position of the quota that a metric belongs to, and the directory to which the quota applies. For
    /// the pattern `/` the directory is empty.
    pub fn find<'a>(&self, name: &'a str) -> Option<(usize, &'a str)> {
        if self.is_empty() {
            return None;
        }
        // Tags are not part of the path, and their dots do not separate components.
        let path = name.split_once(';').map_or(name, |(path, _)| path);
        let dots: Vec<usize> = path.match_indices('.').map(|(at, _)| at).collect();
        let first = dots.first().map_or("", |dot| &path[..*dot]);
        self.matchers.iter().find_map(|matcher| {
            let end = match matcher.depth {
                0 => 0,
                depth => *dots.get(depth - 1)?,
            };
            let is_possible = matcher.first.as_ref().is_none_or(|only| only == first);
            (is_possible && matcher.matches(&path[..end])).then(|| (matcher.quota, &path[..end]))
        })
    }
}

impl Matcher {
    fn new(quota: usize, path: Path) -> Self {
        let first = match path.steps().first() {
            Some(Step::Component(component)) if component.wildcards().is_empty() => {
                match component.literals() {
                    [only] => Some(only.clone()),
                    _ => None,
                }
            }
            _ => None,
        };
        Self { quota, depth: path.steps().len(), path, first }
    }

    fn matches(&self, directory: &str) -> bool {
        self.depth == 0 || self.path.matches(directory)
    }
}

/// Reads one section.
struct Reader<'a, 'p> {
    section: &'a Section,
    problems: &'a mut Problems<'p>,
}

impl Reader<'_, '_> {
    fn quota(&mut self, pattern: String) -> Quota {
        Quota {
            name: self.section.name.clone(),
            pattern,
            limits: QuotaLimits {
                metrics: self.read("metrics", count),
                points_per_minute: self.read("points_per_minute", points),
                bytes: self.read("bytes", bytes),
            },
            over_bytes_refuses_points: self.read("over_bytes", over_bytes).unwrap_or(false),
            dry_run: self.read("dry_run", boolean).unwrap_or(false),
        }
    }

    /// Refuses unknown keys, because one could be a misspelt limit on which somebody relies.
    fn refuse_unknown_keys(&mut self) {
        for entry in self.section.entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
            let message = format!("there is no key {}; the keys are {}", entry.key, KEYS.join(", "));
            self.problems.error(entry.line, &self.section.name, message);
        }
    }

    fn pattern(&mut self) -> Option<(String, Vec<Path>)> {
        let Some(entry) = self.section.entry("pattern") else {
            let message =
                "the pattern is missing; it names directories, like pattern = teams.*, or / for everything";
            self.problems.error(self.section.line, &self.section.name, message);
            return None;
        };
        let text = self.section.value(entry);
        match paths(&text) {
            Ok(paths) => Some((text, paths)),
            Err(why) => {
                self.refuse(entry, &why);
                None
            }
        }
    }

    /// The value of a key; `None` if the key is missing.
    fn read<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, &'static str>) -> Option<T> {
        let entry = self.section.entry(key)?;
        match parse(self.section.value(entry).trim()) {
            Ok(value) => Some(value),
            Err(wanted) => {
                self.refuse(entry, wanted);
                None
            }
        }
    }

    fn refuse(&mut self, entry: &Entry, wanted: &str) {
        let message = format!("{} = {}: {wanted}", entry.key, entry.value);
        self.problems.error(entry.line, &self.section.name, message);
    }
}

/// The ways in which a directory can match a pattern.
fn paths(text: &str) -> Result<Vec<Path>, String> {
    if text == ROOT {
        return Ok(vec![Path::default()]);
    }
    let pattern = Pattern::parse(text).map_err(|error| error.to_string())?;
    let paths = pattern.paths();
    let has_levels = |path: &Path| path.steps().iter().any(|step| matches!(step, Step::Levels));
    if paths.is_empty() {
        return Err("names no directory; use a glob like teams.*, or / for everything".to_owned());
    }
    if paths.iter().any(has_levels) {
        return Err(
            "** is not possible, because a directory would be counted in those above it; name one level, like \
             teams.*"
                .to_owned(),
        );
    }
    Ok(paths.to_vec())
}

fn count(text: &str) -> Result<u64, &'static str> {
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    digits.parse().map_err(|_| "must be a whole number, like 100000 or 100,000")
}

fn points(text: &str) -> Result<u64, &'static str> {
    match count(text)? {
        number if number < POINTS_MAX => Ok(number),
        _ => Err("must be below 4,294,967,295; leave the key out for no limit"),
    }
}

fn bytes(text: &str) -> Result<u64, &'static str> {
    let size: Result<ByteSize, _> = text.parse();
    size.map(|size| size.0).map_err(|_| "must be a whole number and a unit, like 20GiB")
}

fn over_bytes(text: &str) -> Result<bool, &'static str> {
    match text {
        "names" => Ok(false),
        "points" => Ok(true),
        _ => Err("must be names (new names are refused) or points (all points are refused)"),
    }
}

fn boolean(text: &str) -> Result<bool, &'static str> {
    match text.to_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Ok(true),
        "0" | "no" | "false" | "off" => Ok(false),
        _ => Err("must be true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_quota_that_matches_a_directory_above_decides() {
        let (rules, problems) = QuotaRules::parse(
            "[exempt]\npattern = teams.core\n[teams]\npattern = teams.*\nmetrics = 1,000\n\
             [deep]\npattern = {a,b.c}.x?\npoints_per_minute = 6_000\n[rest]\npattern = /\nbytes = 20GiB\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        for (name, expected) in [
            ("teams.core.cpu", Some((0, "teams.core"))),
            ("teams.web.cpu.user", Some((1, "teams.web"))),
            ("teams.web", Some((3, ""))),
            ("teams.web;dc=a.b.c", Some((3, ""))),
            ("teams.web.cpu;dc=a", Some((1, "teams.web"))),
            ("a.x1.y", Some((2, "a.x1"))),
            ("b.c.x1.y", Some((2, "b.c.x1"))),
            ("b.x1.y", Some((3, ""))),
            ("x", Some((3, ""))),
        ] {
            assert_eq!(rules.find(name), expected, "{name}");
        }
        let quotas = rules.quotas();
        assert_eq!(quotas[0].limits, QuotaLimits::default());
        assert_eq!(quotas[1].limits.metrics, Some(1000));
        assert_eq!(quotas[2].limits.points_per_minute, Some(6000));
        assert_eq!(quotas[3].limits.bytes, Some(20 << 30));
    }

    #[test]
    fn defaults_hold_for_all_sections() {
        let (rules, problems) = QuotaRules::parse(
            "[DEFAULT]\ndry_run = yes\nover_bytes = points\n[a]\npattern = a\n[b]\npattern = b\ndry_run = no\n",
        );
        assert!(problems.is_empty(), "{problems:?}");
        let modes: Vec<_> = rules.quotas().iter().map(|q| (q.dry_run, q.over_bytes_refuses_points)).collect();
        assert_eq!(modes, [(true, true), (false, true)]);
        assert_eq!(rules.find("c.d"), None);
    }

    #[test]
    fn all_problems_are_named() {
        let text = "[a]\nmetrics = 5\n[b]\npattern = x.**\n[c]\npattern = .\n[d]\npattern = d\nmetrics = many\n\
                    points_per_minute = 4294967295\nbytes = 20\nover_bytes = all\ndry_run = perhaps\nmetric = 5\n";
        let (_, problems) = QuotaRules::parse(text);
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 4, 6, 14, 9, 10, 11, 12, 13], "{problems:#?}");
        assert!(problems.iter().all(|problem| problem.severity == Severity::Error));
        assert_eq!(problems[0].file.to_string(), "quotas.conf");
    }
}
