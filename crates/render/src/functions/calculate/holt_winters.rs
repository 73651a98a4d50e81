//! Forecasts by Holt and Winters, and deviations from them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::attime::parse_interval;
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::request::TimeRange;
use crate::series::{Consolidation, DrawOptions, TimeSeries};

const DELTA: Param = Param::new("delta", Kind::Integer).default(Default::Integer(3));
const BOOTSTRAP: Param = Param::new("bootstrapInterval", Kind::Interval)
    .default(Default::Text("7d"))
    .suggest(&[Default::Text("7d"), Default::Text("30d")]);
const SEASON: Param = Param::new("seasonality", Kind::Interval)
    .default(Default::Text("1d"))
    .suggest(&[Default::Text("1d"), Default::Text("7d")]);
const BANDS: &[Param] = &[SERIES, DELTA, BOOTSTRAP, SEASON];

pub(super) const ALL: &[Function] = &[
    Function::new("holtWintersForecast", Group::Calculate, &[SERIES, BOOTSTRAP, SEASON], forecast)
        .reads(|args, context| Ok(vec![context.range.earlier(parse_interval(args.text(1))?)]))
        .about(
            "Forecasts each point with a trend and a season. The model is trained with the points before the graph.",
            "holtWintersForecast(server.requests)",
        ),
    Function::new("holtWintersConfidenceBands", Group::Calculate, BANDS, |args, context| {
        Ok(bands(args, context)?.into())
    })
    .reads(earlier)
    .about(
        "The lower and the upper limit of the forecast.",
        "holtWintersConfidenceBands(server.requests)",
    ),
    Function::new("holtWintersConfidenceArea", Group::Calculate, BANDS, area)
        .reads(earlier)
        .about("The area between the lower and the upper limit of the forecast.", "holtWintersConfidenceArea(server.requests)"),
    Function::new("holtWintersAberration", Group::Calculate, BANDS, aberration).reads(earlier).about(
        "How far points are above or below the limits of the forecast.",
        "holtWintersAberration(server.requests)",
    ),
];

fn earlier(args: &Args, context: &Context<'_>) -> Result<Vec<TimeRange>, Fault> {
    Ok(vec![context.range.earlier(parse_interval(args.text(2))?)])
}

/// The forecast of each point, and the deviation of the point one season earlier.
struct Analysis {
    predictions: Vec<f64>,
    deviations: Vec<f64>,
}

impl Analysis {
    fn of(series: &TimeSeries, seasonality: &str, context: &Context<'_>) -> Result<Self, Fault> {
        const ALPHA: f64 = 0.1;
        const BETA: f64 = 0.0035;
        const GAMMA: f64 = 0.1;
        let values = &series.values;
        let season = usize::try_from(parse_interval(seasonality)?.div_euclid(series.step)).unwrap_or(0);
        if season < 2 && values.iter().any(|value| !value.is_nan()) {
            return Err("the argument seasonality must be at least two steps of the series".into());
        }
        let (mut predictions, mut deviations) =
            (Vec::with_capacity(values.len()), Vec::with_capacity(values.len()));
        let mut seasonals: Vec<f64> = Vec::with_capacity(values.len());
        let before = |all: &[f64], at: usize| at.checked_sub(season).map_or(0.0, |before| all[before]);
        let (mut last_intercept, mut last_slope, mut expected) = (f64::NAN, 0.0, f64::NAN);
        let mut pace = context.pace();
        for (at, value) in values.iter().copied().enumerate() {
            pace.step(1)?;
            if value.is_nan() {
                predictions.push(expected);
                seasonals.push(0.0);
                deviations.push(0.0);
                (last_intercept, last_slope, expected) = (f64::NAN, 0.0, f64::NAN);
                continue;
            }
            if last_intercept.is_nan() {
                last_intercept = value;
            }
            let prediction = if at == 0 { value } else { expected };
            let last_seasonal = before(&seasonals, at);
            let next_seasonal = before(&seasonals, at + 1);
            let intercept = ALPHA * (value - last_seasonal) + (1.0 - ALPHA) * (last_intercept + last_slope);
            let slope = BETA * (intercept - last_intercept) + (1.0 - BETA) * last_slope;
            let strayed = (value - if prediction.is_nan() { 0.0 } else { prediction }).abs();
            let last_deviation = before(&deviations, at);
            predictions.push(prediction);
            seasonals.push(GAMMA * (value - intercept) + (1.0 - GAMMA) * last_seasonal);
            deviations.push(GAMMA * strayed + (1.0 - GAMMA) * last_deviation);
            expected = intercept + slope + next_seasonal;
            (last_intercept, last_slope) = (intercept, slope);
        }
        Ok(Self { predictions, deviations })
    }

    /// Removes the points that the model was trained with.
    fn shown(mut self, points: usize) -> Self {
        self.predictions.drain(..points.min(self.predictions.len()));
        self.deviations.drain(..points.min(self.deviations.len()));
        self
    }
}

/// The number of points of a series before the start of the graph.
fn points_before(seconds: i64, series: &TimeSeries) -> usize {
    usize::try_from(seconds.div_euclid(series.step)).unwrap_or(0)
}

fn forecast(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let (seconds, seasonality) = (parse_interval(args.text(1))?, args.text(2).to_owned());
    let expect = |mut series: TimeSeries| -> Result<TimeSeries, Fault> {
        let analysis = Analysis::of(&series, &seasonality, context)?.shown(points_before(seconds, &series));
        tag(&mut series, &["holtWintersForecast", "holtWintersDeviation"]);
        let name = format!("holtWintersForecast({})", series.name);
        Ok(made(series, seconds, name, analysis.predictions))
    };
    let series = context.again(context.range.earlier(seconds))?;
    Ok(series.into_iter().map(expect).collect::<Result<Vec<_>, _>>()?.into())
}

fn tag(series: &mut TimeSeries, names: &[&str]) {
    names.iter().for_each(|name| series.tags.set(name, "1"));
}

/// Makes a result that begins `seconds` after the series. It is consolidated by the mean.
fn made(series: TimeSeries, seconds: i64, name: String, values: Vec<f64>) -> TimeSeries {
    let start = series.start + seconds;
    let consolidation = Consolidation::default();
    TimeSeries { start, consolidation, ..series.derived(name, values) }
}

/// The lower and the upper band of each series.
fn bands(args: &mut Args, context: &Context<'_>) -> Result<Vec<TimeSeries>, Fault> {
    let (delta, seconds) = (args.int(1) as f64, parse_interval(args.text(2))?);
    let seasonality = args.text(3).to_owned();
    let mut bands = Vec::new();
    for mut series in context.again(context.range.earlier(seconds))? {
        let analysis = Analysis::of(&series, &seasonality, context)?.shown(points_before(seconds, &series));
        tag(&mut series, &["holtWintersForecast", "holtWintersDeviation"]);
        tag(&mut series, &["holtWintersConfidenceUpper", "holtWintersConfidenceLower"]);
        for (edge, factor) in [("Lower", -delta), ("Upper", delta)] {
            let pairs = analysis.predictions.iter().zip(&analysis.deviations);
            let values = pairs.map(|(prediction, deviation)| prediction + factor * deviation).collect();
            let name = format!("holtWintersConfidence{edge}({})", series.name);
            let path_expression = Arc::clone(&series.path_expression);
            bands.push(TimeSeries { path_expression, ..made(series.clone(), seconds, name, values) });
        }
    }
    Ok(bands)
}

fn area(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let mut bands = bands(args, context)?;
    if bands.len() != 2 {
        return Err(format!("needs exactly one series, but got {}", bands.len() / 2).into());
    }
    for (band, is_lower) in bands.iter_mut().zip([true, false]) {
        band.rename(format!("holtWintersConfidenceArea({})", band.path_expression));
        band.tags.set("holtWintersConfidenceArea", "1");
        band.options = DrawOptions { stacked: true, invisible: is_lower, ..DrawOptions::default() };
    }
    Ok(bands.into())
}

fn aberration(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let bands: HashMap<Arc<str>, TimeSeries> =
        bands(args, context)?.into_iter().map(|band| (Arc::clone(&band.name), band)).collect();
    let stray = |mut series: TimeSeries| {
        let band = |edge: &str| bands.get(&*format!("holtWintersConfidence{edge}({})", series.name));
        let (lower, upper) = (band("Lower"), band("Upper"));
        let edge = |band: Option<&TimeSeries>, at: usize| {
            band.and_then(|band| band.values.get(at)).copied().unwrap_or(f64::NAN)
        };
        let beyond = |(at, value): (usize, &f64)| match (edge(lower, at), edge(upper, at)) {
            (_, upper) if *value > upper => value - upper,
            (lower, _) if *value < lower => value - lower,
            _ => 0.0,
        };
        let values = series.values.iter().enumerate().map(beyond).collect();
        series.tags.set("holtWintersAberration", "1");
        let name = format!("holtWintersAberration({})", series.name);
        let consolidation = Consolidation::default();
        TimeSeries { consolidation, ..series.derived(name, values) }
    };
    Ok(args.series(0).into_iter().map(stray).collect::<Vec<_>>().into())
}
