//! `plumbago bench seeds` at a tiny scale: every figure has a value or a reason why there is none, and the
//! figures that can be predicted are right.

use plumbago_tests::daemon::Setup;
use serde_json::Value;

/// Number of cities in the test, instead of 300,000.
const CITIES: f64 = 60.0;

fn figure<'a>(figures: &'a [Value], id: &str) -> &'a Value {
    figures.iter().find(|figure| figure["figure"] == id).unwrap_or_else(|| panic!("no {id}: {figures:?}"))
}

/// The value of the figure whose name starts with `id`.
fn value(figures: &[Value], id: &str, name: &str) -> f64 {
    let figure = figure(figures, id);
    let mut values = figure["values"].as_array().unwrap().iter();
    let found = values.find(|value| value["name"].as_str().unwrap().starts_with(name));
    found.and_then(|value| value["value"].as_f64()).unwrap_or_else(|| panic!("no {name}: {figure}"))
}

fn measured(arguments: &[&str]) -> Vec<Value> {
    let setup = Setup::new();
    let mut command = setup.command(&[&["bench", "seeds", "--json"], arguments].concat());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"))
}

#[test]
fn every_seed_figure_has_a_value_or_a_reason() {
    let figures = measured(&["--scale", "0.0002"]);
    assert_eq!(figures.len(), 19);
    for figure in &figures {
        let values = figure["values"].as_array().unwrap();
        assert!(values.iter().all(|value| value["value"].as_f64().is_some_and(f64::is_finite)), "{figure}");
        match figure["outcome"].as_str() {
            Some("not measured") => assert!(!figure["reason"].as_str().unwrap().is_empty(), "{figure}"),
            _ => assert!(!values.is_empty() && figure["reason"].is_null(), "{figure}"),
        }
    }
    let absent: Vec<&str> = figures
        .iter()
        .filter(|figure| figure["outcome"] == "not measured")
        .map(|figure| figure["figure"].as_str().unwrap())
        .collect();
    assert_eq!(absent, ["H7", "H13", "H14", "H15", "H16"]);
    check_counts(&figures);
}

/// Checks the counts, which do not depend on the machine.
fn check_counts(figures: &[Value]) {
    let value = |id: &str, name: &str| value(figures, id, name);
    assert_eq!(value("H8", "series"), 3.0 * CITIES);
    assert_eq!(value("H8", "names written in the first three weeks"), 3.0 * CITIES);
    assert_eq!(value("H8", "names written in the 49 weeks after"), 0.0);
    assert_eq!(value("H8", "index rows of KairosDB's model"), 3.0 * CITIES * 18.0);
    assert_eq!(value("H9", "one city: found"), 3.0);
    assert_eq!(value("H9", "one city by regex: found"), 3.0);
    assert_eq!(value("H9", "all but one city: found"), 3.0 * (CITIES - 1.0));
    assert_eq!(value("H10", "10 targets: found"), 10.0);
    assert_eq!(value("H11", "points left in the deleted weeks"), 0.0);
    assert_eq!(value("H11", "points in the week after"), 7.0 * 144.0);
    let year = 364.0 * 144.0;
    assert!((value("H12", "90 % deleted: points left") - year / 10.0).abs() <= 1.0);
    assert_eq!(value("H3", "1:1000: found"), value("H3", "1:1: found"));
    assert_eq!(value("H4", "names returned"), value("H4", "names below") / 100.0);
    assert_eq!(value("H17", "of them exact"), value("H17", "sums of an hour"));
    assert_eq!(value("H18", "created by 8 senders"), value("H18", "names"));
    assert_eq!(value("H18", "in the index"), value("H18", "names"));
    assert_eq!(value("H19", "empty directories left"), 0.0);
    assert_eq!(value("H19", "live metrics harmed"), 0.0);
}

#[test]
fn chosen_figures_come_by_number() {
    let figures = measured(&["--only", "h16,H3", "--scale", "0.0002"]);
    let ids: Vec<&Value> = figures.iter().map(|figure| &figure["figure"]).collect();
    assert_eq!(ids, ["H3", "H16"]);
    for wrong in [&["--only", "H20"][..], &["--scale", "0"], &["--scale", "2"]] {
        let ended = Setup::new().run(&[&["bench", "seeds"], wrong].concat());
        assert_eq!(ended.status.code(), Some(2), "{wrong:?}: {}", ended.output);
    }
}
