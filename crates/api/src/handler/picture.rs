//! `/render` with a picture as the answer.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use plumbago_graph::{Content, DrawOptions, Fold, GraphError, Options, PieMode, Series, Slice, png, svg};
use plumbago_render::consolidate::fold;
use plumbago_render::{TimeSeries, TimeZone};

use super::render_format::Format;
use crate::error::{ApiError, quoted};
use crate::format::json::push_string;
use crate::format::wrap::{self, Wrapping};
use crate::memory::Account;
use crate::params::Params;
use crate::state::Api;

/// The options of a picture.
#[derive(Debug)]
pub(super) struct Picture {
    options: Options,
    is_svg: bool,
    /// For a pie chart: how to compute the value of a slice from its series. `None` draws a line graph.
    pie: Option<PieMode>,
    /// Slices of a pie chart that the request gives as `name:value`.
    slices: Vec<Slice>,
}

impl Picture {
    /// Reads the options of a picture. Returns `None` for other formats. For a pie chart it removes targets
    /// like `name:5`, which are slices.
    pub(super) fn of(
        params: &Params,
        format: Format,
        targets: &mut Vec<String>,
        api: &Api,
    ) -> Result<Option<Self>, ApiError> {
        let is_pie = match params.get("graphType") {
            None | Some("line") => false,
            Some("pie") => true,
            Some(other) => {
                return Err(ApiError::Invalid(format!("graphType={} is not line or pie", quoted(other))));
            }
        };
        if !format.is_picture() {
            return Ok(None);
        }
        let mode = || PieMode::named(params.get("pieMode").unwrap_or("average"));
        Ok(Some(Self {
            options: Options::parse(&|name| params.get(name), zone_name(params, api))?,
            is_svg: format == Format::Svg,
            pie: is_pie.then(mode).transpose()?,
            slices: if is_pie { taken_slices(targets) } else { Vec::new() },
        }))
    }

    fn content(&self, series: Vec<TimeSeries>) -> Content {
        let Some(mode) = self.pie else { return Content::Lines(series.into_iter().map(drawn).collect()) };
        let slice = |s: TimeSeries| Slice { name: s.name.to_string(), value: mode.value(&s.values) };
        Content::Pie(self.slices.iter().cloned().chain(series.into_iter().map(slice)).collect())
    }

    fn paint(&self, series: Vec<TimeSeries>) -> Result<Vec<u8>, GraphError> {
        let text = svg(&self.options, self.content(series))?;
        if self.is_svg { Ok(text.into_bytes()) } else { png(&text) }
    }
}

/// Removes targets like `name:5` from the targets of a pie chart and returns them as slices.
fn taken_slices(targets: &mut Vec<String>) -> Vec<Slice> {
    let slice = |target: &String| {
        let (name, value) = target.rsplit_once(':')?;
        Some(Slice { name: name.to_owned(), value: value.trim().parse().ok()? })
    };
    let slices = targets.iter().filter_map(slice).collect();
    targets.retain(|target| slice(target).is_none());
    slices
}

/// Draws series on a thread for blocking work and returns the picture.
pub(super) async fn answer(
    api: &Arc<Api>,
    picture: Picture,
    wrapping: Wrapping,
    series: Vec<TimeSeries>,
    account: Arc<Account>,
) -> Result<Response, ApiError> {
    let turn = Arc::clone(&api.pictures).acquire_owned().await.map_err(|_| aborted())?;
    let is_svg = picture.is_svg;
    let painting = tokio::task::spawn_blocking(move || {
        let painted = picture.paint(series);
        drop((turn, account));
        painted
    });
    let painted = painting.await.map_err(|_| aborted())??;
    let (_, jsonp) = wrapping.head();
    Ok(match jsonp {
        Some(name) if is_svg => wrap::answer("text/javascript", Body::from(called(&name, &painted))),
        _ if is_svg => wrap::answer("image/svg+xml", Body::from(painted)),
        _ => wrap::answer("image/png", Body::from(painted)),
    })
}

/// The name of the request's time zone.
fn zone_name<'a>(params: &'a Params, api: &'a Api) -> &'a str {
    params.get("tz").filter(|name| TimeZone::named(name).is_some()).unwrap_or(&api.zone_name)
}

fn aborted() -> ApiError {
    ApiError::Unavailable("drawing was aborted".to_owned())
}

/// Writes the JavaScript call `name("text")`.
fn called(name: &str, text: &[u8]) -> Vec<u8> {
    let mut out = format!("{name}(").into_bytes();
    push_string(&mut out, &String::from_utf8_lossy(text));
    out.push(b')');
    out
}

fn drawn(series: TimeSeries) -> Series {
    let (consolidation, factor, options) = (series.consolidation, series.x_files_factor, series.options);
    Series {
        name: series.name.to_string(),
        start: series.start,
        end: series.end,
        step: series.step,
        values: series.values,
        fold: Fold::new(move |values, group| fold(values, group, consolidation, factor)),
        options: DrawOptions {
            color: options.color.as_deref().map(str::to_owned),
            alpha: options.alpha,
            line_width: options.line_width,
            dashed: options.dashed,
            second_y_axis: options.second_y_axis,
            stacked: options.stacked,
            invisible: options.invisible,
            draw_as_infinite: options.draw_as_infinite,
        },
    }
}
