//! JSON for the page: one shared time axis for all series of the same step, and the values of each series in
//! one list.
//!
//! `{"from", "until", "now", "total", "series": [{"name", "axis", "step", "consolidation", "options",
//! "stage", "values"}, …], "axes": [{"start", "step", "count"}, …]}`.

use std::collections::HashMap;
use std::sync::Arc;

use plumbago_render::{Points, Request, TimeSeries};

use super::SeriesFormat;
use super::json::push_string;
use super::number::{push_float, push_integer};

/// Unknown and infinite values are null. `axis` is the index of the series' axis in `axes`; `step` is the step of the
/// series before its values were fitted to the width.
#[derive(Debug)]
pub(crate) struct Columns {
    /// `from`, `until` and `now` of the request.
    times: [i64; 3],
    /// The number of all series. Only the first ones are written.
    total: usize,
    /// For each metric name: its retention, and the number of the stage that was read.
    stages: HashMap<Arc<str>, (String, usize)>,
    /// Start, step and count of each axis.
    axes: Vec<(i64, i64, usize)>,
    has_series: bool,
    has_points: bool,
}

impl Columns {
    pub(crate) fn new(request: &Request, total: usize, stages: HashMap<Arc<str>, (String, usize)>) -> Self {
        let times = [request.range.from, request.range.until, request.now];
        Self { times, total, stages, axes: Vec::new(), has_series: false, has_points: false }
    }

    fn axis(&mut self, axis: (i64, i64, usize)) -> usize {
        // The series of a request rarely have more than two different steps.
        self.axes.iter().position(|known| *known == axis).unwrap_or_else(|| {
            self.axes.push(axis);
            self.axes.len() - 1
        })
    }
}

impl SeriesFormat for Columns {
    const THINS: bool = true;

    fn open(&mut self, out: &mut Vec<u8>) {
        let [from, until, now] = self.times;
        let total = self.total;
        let head =
            format!("{{\"from\":{from},\"until\":{until},\"now\":{now},\"total\":{total},\"series\":[");
        out.extend_from_slice(head.as_bytes());
    }

    fn head(&mut self, out: &mut Vec<u8>, series: &TimeSeries, points: &Points<'_>) -> bool {
        if std::mem::replace(&mut self.has_series, true) {
            out.push(b',');
        }
        self.has_points = false;
        let axis = self.axis((points.start, points.step, points.values.len()));
        out.extend_from_slice(b"{\"name\":");
        push_string(out, &series.name);
        let (step, consolidation) = (series.step, series.consolidation.name());
        let rest = format!(",\"axis\":{axis},\"step\":{step},\"consolidation\":\"{consolidation}\"");
        out.extend_from_slice(rest.as_bytes());
        push_options(out, series);
        if let Some((retention, number)) = self.stages.get(&series.name) {
            let stage = format!(",\"stage\":{{\"retention\":\"{retention}\",\"number\":{number}}}");
            out.extend_from_slice(stage.as_bytes());
        }
        out.extend_from_slice(b",\"values\":[");
        true
    }

    fn points(&mut self, out: &mut Vec<u8>, _: &TimeSeries, _: i64, _: i64, values: &[f64]) {
        for value in values {
            if std::mem::replace(&mut self.has_points, true) {
                out.push(b',');
            }
            if !value.is_finite() {
                out.extend_from_slice(b"null");
            } else {
                push_float(out, *value);
                // JavaScript has only one number type, so `1` means the same as `1.0`.
                if out.ends_with(b".0") {
                    out.truncate(out.len() - 2);
                }
            }
        }
    }

    fn tail(&mut self, out: &mut Vec<u8>, _: &TimeSeries) {
        out.extend_from_slice(b"]}");
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"],\"axes\":[");
        for (place, (start, step, count)) in self.axes.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"start\":");
            push_integer(out, *start);
            out.extend_from_slice(format!(",\"step\":{step},\"count\":{count}}}").as_bytes());
        }
        out.extend_from_slice(b"]}");
    }
}

/// Appends the drawing options that functions set.
fn push_options(out: &mut Vec<u8>, series: &TimeSeries) {
    let options = &series.options;
    let number = |value: Option<f64>| value.filter(|value| value.is_finite()).map(serde_json::Value::from);
    let flag = |set: bool| set.then_some(serde_json::Value::Bool(true));
    let all = [
        ("color", options.color.as_deref().map(serde_json::Value::from)),
        ("alpha", number(options.alpha)),
        ("lineWidth", number(options.line_width)),
        ("dashed", number(options.dashed)),
        ("secondYAxis", flag(options.second_y_axis)),
        ("stacked", flag(options.stacked)),
        ("invisible", flag(options.invisible)),
        ("drawAsInfinite", flag(options.draw_as_infinite)),
    ];
    let set: serde_json::Map<_, _> =
        all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    if !set.is_empty() {
        out.extend_from_slice(b",\"options\":");
        out.extend_from_slice(serde_json::Value::Object(set).to_string().as_bytes());
    }
}
