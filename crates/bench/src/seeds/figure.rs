//! A measured figure, as text and as JSON.

use serde_json::{Value, json};

use super::catalogue::{ALL, Entry};
use crate::Report;

/// A figure with its measured values.
#[derive(Debug, Clone)]
pub struct Figure {
    entry: Entry,
    readings: Vec<Reading>,
    outcome: Outcome,
}

#[derive(Debug, Clone)]
struct Reading {
    name: String,
    value: f64,
    unit: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Met,
    NotMet,
    NotMeasured(String),
}

impl Figure {
    /// A figure that has no value yet.
    pub(super) fn new(number: u8) -> Self {
        let entry = ALL[usize::from(number.clamp(1, ALL.len() as u8)) - 1];
        let reason = if entry.absent.is_empty() { "no value" } else { entry.absent };
        Self { entry, readings: Vec::new(), outcome: Outcome::NotMeasured(reason.to_owned()) }
    }

    pub(super) fn number(&self) -> u8 {
        self.entry.number
    }

    /// Adds a measured value.
    pub(super) fn read(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.readings.push(Reading { name: name.into(), value, unit });
    }

    /// Notes whether the target is met. A figure for which this is not called, or that has an unknown value,
    /// counts as not measured.
    pub(super) fn judge(&mut self, met: bool) {
        self.outcome = match self.readings.iter().find(|reading| !reading.value.is_finite()) {
            Some(reading) => Outcome::NotMeasured(format!("{}: no value", reading.name)),
            None if met => Outcome::Met,
            None => Outcome::NotMet,
        };
    }

    fn text(&self) -> String {
        let mut report = Report::default();
        for Reading { name, value, unit } in &self.readings {
            match value.fract() == 0.0 && *value >= 0.0 {
                true => report.count(name, *value as u64, unit),
                false => report.figure(name, *value, unit),
            }
        }
        let Entry { number, what, target, .. } = self.entry;
        let outcome = match &self.outcome {
            Outcome::Met => "met".to_owned(),
            Outcome::NotMet => "not met".to_owned(),
            Outcome::NotMeasured(reason) => format!("not measured: {reason}"),
        };
        let rows: String = report.table().lines().map(|line| format!("     {line}\n")).collect();
        format!("{:<4} {what}\n     target: {target}\n{rows}     {outcome}\n", format!("H{number}"))
    }

    fn json(&self) -> Value {
        let reading = |r: &Reading| json!({"name": r.name, "value": r.value, "unit": r.unit});
        let (outcome, reason) = match &self.outcome {
            Outcome::Met => ("met", None),
            Outcome::NotMet => ("not met", None),
            Outcome::NotMeasured(reason) => ("not measured", Some(reason)),
        };
        let values: Vec<Value> = self.readings.iter().map(reading).collect();
        let Entry { number, what, target, .. } = self.entry;
        json!({"figure": format!("H{number}"), "what": what, "target": target, "values": values,
               "outcome": outcome, "reason": reason})
    }
}

/// All figures as text for people.
pub fn text(figures: &[Figure]) -> String {
    figures.iter().map(Figure::text).collect::<Vec<_>>().join("\n")
}

/// All figures as a JSON list.
pub fn json_list(figures: &[Figure]) -> String {
    Value::Array(figures.iter().map(Figure::json).collect()).to_string() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_in_both_forms() {
        let mut figure = Figure::new(4);
        figure.read("names returned", 1200.0, "");
        figure.read("visited for each", 1.25, "nodes");
        figure.judge(true);
        let shown = text(std::slice::from_ref(&figure));
        assert!(shown.starts_with("H4   nodes visited"), "{shown}");
        assert!(shown.contains("     names returned    1,200\n") && shown.ends_with("     met\n"), "{shown}");
        let json = figure.json();
        assert_eq!((&json["figure"], &json["values"][1]["value"]), (&json!("H4"), &json!(1.25)));
        assert_eq!((&json["outcome"], &json["reason"]), (&json!("met"), &Value::Null));
    }

    #[test]
    fn what_is_unknown_is_not_measured() {
        let absent = Figure::new(15);
        assert!(text(&[absent]).contains("not measured: about Cassandra's tables"));
        let mut figure = Figure::new(9);
        figure.read("p99", f64::NAN, "ms");
        figure.judge(true);
        assert_eq!(figure.json()["reason"], "p99: no value");
    }
}
