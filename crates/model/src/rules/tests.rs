use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/rules")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(testdata().join(name)).unwrap()
}

fn schemas(text: &str) -> (StorageRules, Vec<Problem>) {
    StorageRules::parse(Some(text), None)
}

fn parse_file(file: &str) -> (StorageRules, Vec<Problem>) {
    let text = read(file);
    match file.contains(".schemas.") {
        true => StorageRules::parse(Some(&text), None),
        false => StorageRules::parse(None, Some(&text)),
    }
}

/// A configuration in the form that `record.py` writes.
fn answer(file: &str, config: &MetricConfig) -> String {
    if file.contains(".schemas.") {
        let stages = config.retention.stages().iter();
        return stages.map(|s| format!("{}:{}", s.resolution, s.points)).collect::<Vec<_>>().join(",");
    }
    format!("{} {:?}", config.aggregation, config.x_files_factor)
}

#[test]
fn the_files_mean_what_carbon_makes_of_them() {
    let recorded = read("recorded.tsv");
    let mut files: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for line in recorded.lines() {
        let mut fields = line.split('\t');
        let (file, name, answer) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        files.entry(file).or_default().push((name, answer));
    }
    assert!(files.len() > 20);
    for (file, lines) in files {
        let (rules, problems) = parse_file(file);
        let refused = problems.iter().any(|p| p.severity == Severity::Error);
        assert_eq!(refused, lines[0].0 == "!", "{file}: {problems:?}");
        for (name, expected) in lines {
            match name {
                "!" => {}
                "-" => {
                    let warned =
                        problems.iter().any(|p| p.section == expected && p.severity == Severity::Warning);
                    assert!(warned, "{file}: nothing said of the skipped section {expected}");
                }
                _ => assert_eq!(answer(file, &rules.config_for(name)), expected, "{file}: {name}"),
            }
        }
    }
}

#[test]
fn files_that_carbon_takes_as_they_are_have_no_problem() {
    for file in
        ["carbon-example.schemas.conf", "regex-dialect.schemas.conf", "carbon-example.aggregation.conf"]
    {
        assert_eq!(parse_file(file).1, [], "{file}");
    }
}

/// Python accepts a repeated look-around, which has no effect. Plumbago refuses it.
const REPEATED_LOOK_AROUND: [&str; 2] = [r"(?=.*?)*\b", r"\w(?<=a\.)*x"];

#[test]
fn patterns_find_what_python_finds() {
    let names = read("names.txt");
    let names: Vec<&str> = names.lines().collect();
    let mut compared = 0;
    for line in read("patterns.tsv").lines() {
        let (pattern, expected) = line.rsplit_once('\t').unwrap();
        if expected == "refused" || REPEATED_LOOK_AROUND.contains(&pattern) {
            continue;
        }
        let compiled = Pattern::new(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
        for (name, digit) in names.iter().zip(expected.chars()) {
            assert_eq!(compiled.is_match(name), Some(digit == '1'), "{pattern} in {name}");
            compared += 1;
        }
    }
    assert!(compared > 30_000);
}

#[test]
fn every_problem_is_listed_with_its_line() {
    let (_, problems) = StorageRules::parse(
        Some("stray\n[a]\npattern = (\nretentions = 60s\n[b]\nretentions = 60s:1d,90s:2d\npriority = high\n"),
        Some("[c]\npattern = x\nxFilesFactor = 2\naggregationMethod = mode\nfoo = 1\n"),
    );
    let lines: Vec<_> = problems.iter().map(|p| (p.file, p.line, p.severity)).collect();
    use RuleFile::{Aggregation, Schemas};
    use Severity::{Error, Warning};
    let expected = [
        (Schemas, 1, Error),
        (Schemas, 3, Error),
        (Schemas, 4, Error),
        (Schemas, 5, Warning),
        (Schemas, 6, Warning),
        (Schemas, 7, Error),
        (Aggregation, 3, Error),
        (Aggregation, 4, Error),
        (Aggregation, 5, Warning),
    ];
    assert_eq!(lines, expected, "{problems:#?}");
    assert_eq!(
        problems[4].to_string(),
        "line 6: [b] warning: retentions: the resolution 60s does not divide the next coarser one, 90s, so the section is skipped"
    );
}

#[test]
fn go_carbons_spellings() {
    let text = "[low]\npattern = .*\nretentions = 1min:7days\n
[high]\npattern = ^a\nretentions = 10sec:1hour\npriority = 10\ncompressed = true\n
[same]\npattern = ^a\nretentions = 60s:2d\npriority = 10\n";
    let (rules, problems) = schemas(text);
    assert_eq!(problems, []);
    assert_eq!(rules.config_for("a").retention.to_string(), "10s:3600s");
    assert_eq!(rules.config_for("b").retention.to_string(), "60s:604800s");
}

#[test]
fn built_in_rules() {
    let rules = StorageRules::built_in();
    for (name, text) in [
        ("a.b", "60s:604800s,900s:63072000s average 0.5"),
        ("a.count", "60s:604800s,900s:63072000s sum 0"),
        ("a.min", "60s:604800s,900s:63072000s min 0.1"),
        ("a.max", "60s:604800s,900s:63072000s max 0.1"),
    ] {
        assert_eq!(rules.config_for(name).to_text(), text);
    }
    let (rules, _) = StorageRules::parse(Some(""), Some(""));
    assert_eq!(rules.config_for("a.count").to_text(), "60s:604800s average 0.5");
}

#[test]
fn equal_configurations_are_one() {
    let (rules, _) =
        schemas("[a]\npattern = ^a\nretentions = 60s:1d\n[b]\npattern = ^b\nretentions = 60:1440\n");
    assert!(Arc::ptr_eq(&rules.config_for("a"), &rules.config_for("b")));
    assert!(!Arc::ptr_eq(&rules.config_for("a"), &rules.config_for("c")));
}

#[test]
fn patterns_that_give_up_are_counted() {
    let (rules, _) = schemas("[a]\npattern = ^((a|aa)*)*\\1b$\nretentions = 60s:1d\n");
    assert_eq!(rules.config_for(&("a".repeat(40) + "c")).retention.to_string(), "60s:604800s");
    assert_eq!(rules.gave_up(), 1);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([\\[\\]a-z=:#; %\\n\\t().s0-9]|retentions|pattern|xFilesFactor|60s:1d){0,40}") {
        let (rules, problems) = StorageRules::parse(Some(&text), Some(&text));
        rules.config_for("a.b");
        let lines = text.lines().count();
        prop_assert!(problems.iter().all(|p| p.line <= lines.max(1)));
    }
}
