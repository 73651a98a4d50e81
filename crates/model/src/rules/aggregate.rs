//! Aggregation rules: which points are folded into which other metrics, read from carbon's
//! `aggregation-rules.conf`.
//!
//! A line is `output (frequency) = method input`. Every rule whose input matches the whole name takes the
//! point. A line that makes carbon's aggregator stop, or fail at every point, is an error here.

use std::sync::Arc;

use super::Problem;
use super::pattern::{AllMatches, Pattern};
use super::problem::{Problems, RuleFile};
use crate::tags::canonical;

/// Compiled aggregation rules.
#[derive(Debug, Default)]
pub struct AggregationRules {
    rules: Vec<AggregationRule>,
    patterns: AllMatches,
}

/// A rule: one line of `aggregation-rules.conf`.
#[derive(Debug)]
pub struct AggregationRule {
    /// The name of the output metric, as written, with fields in angle brackets.
    pub output: Arc<str>,
    /// Seconds of an interval, at least 1.
    pub frequency: u32,
    /// How the values of an interval are folded.
    pub method: RuleMethod,
    pattern: Pattern,
    template: Vec<Part>,
}

/// A part of an output's name.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The number of a group of the pattern.
    Field(usize),
}

/// How the values of an interval are folded into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleMethod {
    /// The sum, in the order of arrival.
    Sum,
    /// The sum divided by the number of values.
    Avg,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The number of values.
    Count,
    /// A percentile in thousandths: 950 is the 95th. Between two values it is interpolated.
    Percentile(u16),
}

impl RuleMethod {
    /// All methods with carbon's names for them.
    pub const ALL: [(&'static str, Self); 12] = [
        ("sum", Self::Sum),
        ("avg", Self::Avg),
        ("min", Self::Min),
        ("max", Self::Max),
        ("p50", Self::Percentile(500)),
        ("p75", Self::Percentile(750)),
        ("p80", Self::Percentile(800)),
        ("p90", Self::Percentile(900)),
        ("p95", Self::Percentile(950)),
        ("p99", Self::Percentile(990)),
        ("p999", Self::Percentile(999)),
        ("count", Self::Count),
    ];

    /// The method with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, method)| *method)
    }

    /// Carbon's name of the method.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

impl AggregationRules {
    /// Parses the file. Rules with an error among their problems must not be used.
    pub fn parse(text: &str) -> (Self, Vec<Problem>) {
        let mut found = Vec::new();
        let mut problems = Problems { file: RuleFile::AggregationRules, found: &mut found };
        let mut rules = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match AggregationRule::parse(line) {
                Ok(rule) => rules.push(rule),
                Err(error) => problems.error(at + 1, "", error),
            }
        }
        let patterns = rules.iter().map(|rule| rule.pattern.clone());
        let patterns = AllMatches::new(patterns).unwrap_or_else(|error| {
            problems.error(0, "", format!("the patterns are too large together: {error}"));
            AllMatches::default()
        });
        (Self { rules, patterns }, found)
    }

    /// The rules, in the order of the file.
    pub fn rules(&self) -> &[AggregationRule] {
        &self.rules
    }

    /// Calls `visit` with the number of each rule that takes points of this name, and the name of the metric
    /// that it makes, in the order of the rules.
    pub fn visit(&self, name: &str, mut visit: impl FnMut(usize, String)) {
        self.patterns.visit(name, |number| {
            if let Some(output) = self.rules[number].output_for(name) {
                visit(number, output);
            }
            true
        });
    }

    /// A list of prefixes. Every name that a rule takes begins with one of them. `None` if there is no such list.
    pub fn beginnings(&self) -> Option<Vec<String>> {
        let each = self.rules.iter().map(|rule| rule.pattern.beginnings());
        each.collect::<Option<Vec<_>>>().map(|lists| lists.concat())
    }

    /// Number of searches in which a pattern exceeded its backtracking limit. The pattern then counts as no
    /// match.
    pub fn gave_up(&self) -> u64 {
        self.patterns.gave_up()
    }
}

impl AggregationRule {
    fn parse(line: &str) -> Result<Self, String> {
        const FORM: &str = "a rule is written: output (frequency) = method input";
        let (left, right) = line.split_once('=').ok_or_else(|| format!("there is no =; {FORM}"))?;
        let (output, frequency) = two(left).ok_or_else(|| {
            format!("left of the = there must be an output and a frequency, separated by a blank; {FORM}")
        })?;
        let (method, input) = two(right).ok_or_else(|| {
            format!("right of the = there must be a method and an input, separated by a blank; {FORM}")
        })?;
        let number = frequency.trim_start_matches('(').trim_end_matches(')');
        let frequency = number.parse().ok().filter(|seconds| *seconds > 0).ok_or_else(|| {
            format!("the frequency {frequency:?} is not a number of seconds in brackets, from 1 on")
        })?;
        let method = RuleMethod::named(method).ok_or_else(|| {
            let known: Vec<&str> = RuleMethod::ALL.iter().map(|(name, _)| *name).collect();
            format!("the method {method:?} is not known; the methods are {}", known.join(", "))
        })?;
        let pattern = Pattern::new(&format!("^(?:{}$)", expression(input))).map_err(|error| {
            format!("the input {input:?} does not become a valid regular expression: {error}")
        })?;
        let template = template(output, &pattern)?;
        if !output.contains('<')
            && let Err(error) = canonical(output)
        {
            return Err(format!("the output {output:?} cannot be the name of a metric: {error}"));
        }
        Ok(Self { output: output.into(), frequency, method, pattern, template })
    }

    /// The name of the metric that the rule makes from a metric of this name. `None` if its input does not
    /// match.
    fn output_for(&self, name: &str) -> Option<String> {
        let groups = self.pattern.captures(name)?;
        let mut output = String::new();
        for part in &self.template {
            match part {
                Part::Text(text) => output.push_str(text),
                // The text that Python writes for a group that took no part in the match.
                Part::Field(number) => {
                    output.push_str(groups.get(*number).copied().flatten().unwrap_or("None"));
                }
            }
        }
        Some(output)
    }
}

/// Splits a text into exactly two words.
fn two(text: &str) -> Option<(&str, &str)> {
    let mut words = text.split_whitespace();
    let pair = (words.next()?, words.next()?);
    words.next().is_none().then_some(pair)
}

/// The input as a regular expression, node by node as carbon does it.
fn expression(input: &str) -> String {
    input.split('.').map(node).collect::<Vec<_>>().join("\\.")
}

fn node(text: &str) -> String {
    if let (Some(begin), Some(end)) = (text.find("<<"), text.find(">>"))
        && begin + 2 <= end
    {
        return format!("{}(?P<{}>.+?){}", &text[..begin], &text[begin + 2..end], &text[end + 2..]);
    }
    match (text.find('<'), text.find('>')) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}(?P<{}>[^.]+?){}", &text[..begin], &text[begin + 1..end], &text[end + 1..])
        }
        _ if text == "*" => "[^.]+".to_owned(),
        _ => text.replace('*', "[^.]*"),
    }
}

/// The parts of an output's name. Carbon fills it with Python's `%`, so `%%` means a single `%`.
fn template(output: &str, pattern: &Pattern) -> Result<Vec<Part>, String> {
    let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), output.chars());
    while let Some(c) = rest.next() {
        match c {
            '<' => {
                let (name, after) = rest
                    .as_str()
                    .split_once('>')
                    .ok_or_else(|| format!("the output {output:?} has a < without a >"))?;
                let group = pattern.group(name).ok_or_else(|| {
                    format!("the output {output:?} uses <{name}>, which the input does not have")
                })?;
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Field(group));
                rest = after.chars();
            }
            '>' => return Err(format!("the output {output:?} has a > without a <")),
            '%' if rest.as_str().starts_with('%') => {
                rest.next();
                text.push('%');
            }
            '%' => return Err(format!("the output {output:?} has a %; write %% for one")),
            _ => text.push(c),
        }
    }
    parts.push(Part::Text(text));
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> AggregationRules {
        let (rules, problems) = AggregationRules::parse(text);
        assert!(problems.is_empty(), "{problems:?}");
        rules
    }

    fn outputs(rule: &str, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        rules(rule).visit(name, |_, output| found.push(output));
        found
    }

    #[test]
    fn names_are_made_as_carbon_makes_them() {
        for (rule, name, expected) in [
            ("<env>.all.r (60) = sum <env>.apps.*.r", "prod.apps.web.r", Some("prod.all.r")),
            ("<env>.all.r (60) = sum <env>.apps.*.r", "prod.apps.web.x.r", None),
            ("<env>.all.r (60) = sum <env>.apps.*.r", "a.prod.apps.web.r", None),
            ("<env>.all.r (60) = sum <env>.apps.*.r", "prod.apps.web.r2", None),
            ("all.<rest> (60) = sum *.web*.<<rest>>", "a.web12.b.c.d", Some("all.b.c.d")),
            ("all.<rest> (60) = sum *.web*.<<rest>>", "a.db.b.c.d", None),
            ("x<n>y (60) = avg a.s<n>e.b", "a.smidde.b", Some("xmiddy")),
            // A field replaces only a part of its node: a `*` repeats the character before it.
            ("<n> (60) = avg a.we*<n>", "a.weeeb", Some("b")),
            ("<n> (60) = avg a.we*<n>", "a.wxeb", Some("xeb")),
            ("100%%.x (60) = count a.[bc]", "a.c", Some("100%.x")),
            ("x (60) = count a|b.c", "a.anything", Some("x")),
            ("x.<n> (60) = count a(<n>)?", "a", Some("x.None")),
            ("x (60) = count A", "a", None),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(outputs(rule, name), expected, "{rule}: {name}");
        }
    }

    #[test]
    fn a_rule_is_read_as_carbon_reads_it() {
        let rules = rules("# x\n\n  a ((5)) = p999 b=c \nd 7 = count e\n");
        let read: Vec<_> = rules.rules().iter().map(|r| (&*r.output, r.frequency, r.method.name())).collect();
        assert_eq!(read, [("a", 5, "p999"), ("d", 7, "count")]);
        let mut found = Vec::new();
        rules.visit("b=c", |number, output| found.push((number, output)));
        assert_eq!(found, [(0, "a".to_owned())]);
    }

    #[test]
    fn all_lines_with_a_problem_are_reported() {
        let text = "a\na = sum b\na (x) = sum b\na (0) = sum b\na (1) = last b\na (1) = sum (\n\
                    a.<x> (1) = sum b\na.<b (1) = sum b\na> (1) = sum b\na% (1) = sum b\na (1) = sum b c\n\
                    <x> (1) = sum <x>.<x>\na (1) = sum <<x>.b\na;b (1) = sum b\nok (1) = sum b\n";
        let (_, problems) = AggregationRules::parse(text);
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, (1..=14).collect::<Vec<_>>(), "{problems:#?}");
        assert!(problems[4].message.contains("p999"), "{}", problems[4].message);
    }

    #[test]
    fn beginnings_are_known_if_every_rule_has_one() {
        let text = "x (1) = sum web.<a>.b\ny (1) = sum db.*\n";
        let mut beginnings = rules(text).beginnings().unwrap();
        beginnings.sort();
        assert_eq!(beginnings, ["db.", "web."]);
        assert!(rules("x (1) = sum *.b").beginnings().is_none_or(|b| b.iter().any(String::is_empty)));
    }
}
