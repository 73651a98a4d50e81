//! The parameters of `/render`.

use plumbago_render::{Limits, Request, TimeRange, TimeZone, attime};

use super::picture::Picture;
use super::render_format::Format;
use crate::error::{ApiError, beyond, quoted};
use crate::format::protobuf::{FetchRequest, MultiFetchRequest};
use crate::format::wrap::Wrapping;
use crate::params::Params;
use crate::state::Api;

/// A validated request to `/render`.
#[derive(Debug)]
pub(super) struct RenderParams {
    pub(super) targets: Vec<String>,
    pub(super) format: Format,
    /// Time range, time zone, xFilesFactor and limits of the evaluation.
    pub(super) request: Request,
    /// Maximum number of points per series of a JSON response (`maxDataPoints`).
    pub(super) width: Option<usize>,
    /// Maximum number of series of a response in the format `columns` (`seriesMax`).
    pub(super) series_max: usize,
    /// Whether JSON omits unknown points (`noNullPoints`).
    pub(super) no_nulls: bool,
    pub(super) wrapping: Wrapping,
    /// Whether a front end (graphite-web or carbonapi) sent the request. It must not get an error for a bad
    /// target, because it would then treat this server as failed.
    pub(super) is_front_end: bool,
    /// Options of the picture; `None` for other formats.
    pub(super) picture: Option<Picture>,
    /// The fetches of a protobuf message, used instead of `targets`. Each has its own time range.
    pub(super) fetches: Vec<FetchRequest>,
}

impl RenderParams {
    pub(super) fn of(params: &Params, api: &Api) -> Result<Self, ApiError> {
        let fetches = fetches(params)?;
        let targets = params.all("target");
        if targets.len().max(fetches.len()) > api.limits().targets {
            return Err(beyond("targets", "targets", api.limits().targets));
        }
        let format = Format::of(params)?;
        let zone = zone(params, api);
        let now = now(params, api, &zone)?;
        let mut targets: Vec<String> =
            targets.into_iter().filter(|t| !t.trim().is_empty()).map(str::to_owned).collect();
        let picture = Picture::of(params, format, &mut targets, api)?;
        let wrapping = if params.has("format") { Wrapping::of(params)? } else { Wrapping::default() };
        Ok(Self {
            targets,
            format,
            request: Request {
                range: range(params, now, &zone)?,
                now,
                zone,
                x_files_factor: x_files_factor(params)?,
                templates: templates(params)?,
                limits: Limits {
                    calls: api.limits().calls,
                    points: api.limits().computed_points,
                    fetches: api.limits().fetches,
                },
            },
            width: width(params),
            series_max: series_max(params)?,
            no_nulls: params.has("noNullPoints"),
            wrapping,
            is_front_end: format.is_of_front_ends() || params.get("local") == Some("1"),
            picture,
            fetches,
        })
    }
}

/// The fetches of a protobuf message. Start and end of a fetch are swapped if they are in the wrong order.
fn fetches(params: &Params) -> Result<Vec<FetchRequest>, ApiError> {
    let Some(message) = params.message::<MultiFetchRequest>()? else { return Ok(Vec::new()) };
    let mut fetches = message.metrics;
    for fetch in &mut fetches {
        let (a, b) = (clamped(fetch.start_time), clamped(fetch.stop_time));
        (fetch.start_time, fetch.stop_time) = (a.min(b), a.max(b));
    }
    Ok(fetches)
}

/// The time zone of the request. Unknown names are ignored, as in Graphite.
pub(super) fn zone(params: &Params, api: &Api) -> TimeZone {
    params.get("tz").and_then(TimeZone::named).unwrap_or_else(|| api.zone.clone())
}

/// The current time: the parameter `now` if it is given, else the time of the clock.
pub(super) fn now(params: &Params, api: &Api, zone: &TimeZone) -> Result<i64, ApiError> {
    let clock = api.clock.now();
    params.get("now").map_or(Ok(clock), |text| time("now", text, clock, zone))
}

/// Parses a time like `-1h` or `noon`. `name` is the name of the parameter, for errors.
pub(super) fn time(name: &str, text: &str, now: i64, zone: &TimeZone) -> Result<i64, ApiError> {
    attime::parse(text, now, zone).map_err(|error| ApiError::Invalid(format!("{name}: {error}")))
}

/// The range from `from` to `until`, swapped if necessary; by default the last day.
fn range(params: &Params, now: i64, zone: &TimeZone) -> Result<TimeRange, ApiError> {
    const DAY: i64 = 86_400;
    let until = params.get("until").map_or(Ok(now), |text| time("until", text, now, zone))?;
    let from = params.get("from").map_or(Ok(now - DAY), |text| time("from", text, now, zone))?;
    if from == until {
        return Err(ApiError::Invalid("from and until are the same: the time range is empty".to_owned()));
    }
    Ok(TimeRange { from: from.min(until), until: from.max(until) })
}

/// Clamps a time to the range that every format can express.
fn clamped(time: i64) -> i64 {
    time.clamp(0, i64::from(u32::MAX))
}

fn x_files_factor(params: &Params) -> Result<f64, ApiError> {
    let Some(text) = params.get("xFilesFactor") else { return Ok(0.0) };
    match text.trim().parse::<f64>() {
        Ok(factor) if factor.is_finite() => Ok(factor),
        _ => Err(ApiError::Invalid(format!("xFilesFactor={} is not a number", quoted(text)))),
    }
}

/// The value of `maxDataPoints`. Graphite ignores anything but digits; 0 is ignored too.
fn width(params: &Params) -> Option<usize> {
    let text = params.get("maxDataPoints")?;
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX)).filter(|width| *width > 0)
}

/// The value of `seriesMax`; without it, no limit.
fn series_max(params: &Params) -> Result<usize, ApiError> {
    let number = params.integer("seriesMax", i64::MAX)?;
    usize::try_from(number).map_err(|_| ApiError::Invalid(format!("seriesMax={number} is negative")))
}

/// The variables given as `template[name]=value`.
fn templates(params: &Params) -> Result<Vec<(String, String)>, ApiError> {
    /// Maximum number of variables of a request. Real dashboards use fewer.
    const TEMPLATES_MAX: usize = 64;
    let named = |(key, value): (&str, &str)| {
        let name = key.strip_prefix("template[")?.strip_suffix(']')?;
        Some((name.to_owned(), value.to_owned()))
    };
    let templates: Vec<(String, String)> = params.iter().filter_map(named).collect();
    if templates.len() > TEMPLATES_MAX {
        return Err(ApiError::TooLarge(format!("more than {TEMPLATES_MAX} parameters template[…]")));
    }
    Ok(templates)
}
