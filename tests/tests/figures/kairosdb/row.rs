//! Prints the figures of both servers.

use crate::figures::table;

/// A figure of both servers.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) figure: &'a str,
    pub(super) target: &'a str,
    pub(super) ours: String,
    pub(super) kairosdb: String,
    /// KairosDB's value divided by ours.
    pub(super) ratio: Option<f64>,
    /// Whether the target was met; `None` for a figure without a target.
    pub(super) met: Option<bool>,
}

pub(super) fn heading(what: &str) {
    println!("\n{what}");
    table::head(&["figure", "target", "ours", "KairosDB", "ratio", "met"]);
}

impl<'a> Row<'a> {
    /// A row of two numbers of one unit, where less is better.
    pub(super) fn of(figure: &'a str, target: &'a str, unit: &str, ours: f64, kairosdb: f64) -> Self {
        let with_unit = |value: f64| format!("{} {unit}", shown(value)).trim_end().to_owned();
        let ratio = (ours > 0.0).then_some(kairosdb / ours);
        Self { figure, target, ours: with_unit(ours), kairosdb: with_unit(kairosdb), ratio, met: None }
    }

    pub(super) fn met(self, met: bool) -> Self {
        Self { met: Some(met), ..self }
    }

    pub(super) fn print(&self) {
        let Self { figure, target, ours, kairosdb, .. } = self;
        let ratio = self.ratio.map_or(String::new(), shown);
        let met = self.met.map_or("", table::met);
        println!("{}", table::row(&[figure, target, ours, kairosdb, &ratio, met]));
    }
}

/// A number with about three digits.
pub(super) fn shown(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
