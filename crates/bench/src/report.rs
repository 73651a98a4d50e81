//! Named figures, printed as a table or as JSON.

use serde_json::{Map, Value};

/// Figures with name and unit, in the order in which they were added.
#[derive(Debug, Default)]
pub struct Report(Vec<(String, Value, &'static str)>);

impl Report {
    /// Adds a figure. NaN means that the figure is unknown: it is printed as `-` and as `null`.
    pub fn figure(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.0.push((name.into(), Value::from(value), unit));
    }

    /// Adds a whole number.
    pub fn count(&mut self, name: impl Into<String>, value: u64, unit: &'static str) {
        self.0.push((name.into(), Value::from(value), unit));
    }

    /// A table with one line per figure: name, value and unit.
    pub fn table(&self) -> String {
        let shown: Vec<String> = self.0.iter().map(|(_, value, _)| shown(value)).collect();
        let names = self.0.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        let values = shown.iter().map(String::len).max().unwrap_or(0);
        let row = |((name, _, unit), shown): (&(String, Value, &str), &String)| {
            format!("{name:names$}  {shown:>values$} {unit}").trim_end().to_owned() + "\n"
        };
        self.0.iter().zip(&shown).map(row).collect()
    }

    /// One JSON object. Each key consists of the name and the unit of a figure, joined by `_`.
    pub fn json(&self) -> String {
        let fields = self.0.iter().map(|(name, value, unit)| (key(&format!("{name} {unit}")), value.clone()));
        Value::Object(fields.collect::<Map<_, _>>()).to_string() + "\n"
    }
}

/// The words of `text` joined by `_`, with `percent` for `%`.
fn key(text: &str) -> String {
    let text = text.replace('%', "percent");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_")
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(n) if n.is_u64() => grouped(n.as_u64().unwrap_or_default()),
        Value::Number(n) => match n.as_f64().unwrap_or(f64::NAN) {
            x if x >= 1000.0 => grouped(x.round() as u64),
            x if x.abs() >= 10.0 => format!("{x:.1}"),
            x => format!("{x:.3}"),
        },
        other => other.to_string(),
    }
}

/// Decimal digits in groups of three, separated by commas.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_its_json() {
        let mut report = Report::default();
        report.count("points", 1_234_567, "");
        report.figure("speed", 2_500_000.4, "points/s");
        report.figure("cpu", f64::NAN, "s");
        report.figure("growth", -2500.0, "B");
        assert_eq!(
            report.table(),
            "points  1,234,567\nspeed   2,500,000 points/s\ncpu             - s\ngrowth    -2500.0 B\n"
        );
        assert_eq!(
            report.json(),
            "{\"cpu_s\":null,\"growth_B\":-2500.0,\"points\":1234567,\"speed_points_s\":2500000.4}\n"
        );
    }
}
