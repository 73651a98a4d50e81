//! Series as frequencies and back: `fft`, `ifft` and `lowPass`.

use crate::context::{Context, Fault};
use crate::fourier::{self, Complex};
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::number::general;
use crate::series::TimeSeries;

const CUT: &[Param] = &[SERIES, Param::new("cutPercent", Kind::Float)];

pub(super) const ALL: &[Function] = &[
    Function::new(
        "fft",
        Group::Transform,
        &[
            SERIES,
            Param::new("mode", Kind::String)
                .default(Default::Text("both"))
                .options(&["both", "all", "abs", "phase", ""]),
        ],
        fft,
    )
    .about(
        "The frequencies in series: how strong each is, its phase, or both. Unknown points count as 0.",
        "fft(server.requests, 'abs')",
    ),
    Function::new(
        "ifft",
        Group::Transform,
        &[Param::new("absSeriesList", Kind::Series), Param::new("phaseSeriesList", Kind::Series).optional()],
        ifft,
    )
    .about(
        "Series from the strengths of their frequencies and the phases.",
        "ifft(fft(server.requests, 'abs'), fft(server.requests, 'phase'))",
    ),
    Function::new("lowPass", Group::Transform, CUT, low_pass).or(&["lpf"]).about(
        "Keeps so many percent of the frequencies, the slowest.",
        "ifft(lowPass(fft(server.requests, 'abs'), 10), fft(server.requests, 'phase'))",
    ),
];

/// Unknown values would leave no frequency known.
fn known(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// Asked before each series is transformed.
fn make_room(series: &TimeSeries, context: &Context<'_>) -> Result<(), Fault> {
    /// Complex numbers, in as many columns as a transform takes at its most.
    const NUMBERS: usize = 2 * 3;
    context.may_hold_points(fourier::room(series.values.len()).saturating_mul(NUMBERS))
}

fn fft(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let mode = args.text(1).to_owned();
    let mut results = Vec::new();
    for series in args.series(0) {
        make_room(&series, context)?;
        let values = series.values.iter().map(|value| Complex::from(known(*value))).collect();
        let frequencies = fourier::transformed(values);
        let mut show = |part: &str, of: fn(Complex) -> f64| {
            if mode == part || !matches!(mode.as_str(), "abs" | "phase") {
                let values = frequencies.iter().copied().map(of).collect();
                results.push(series.clone().derived(format!("fft({},{part})", series.name), values));
            }
        };
        show("abs", Complex::size);
        show("phase", Complex::phase);
    }
    Ok(results.into())
}

fn ifft(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let phases = args.series(1);
    let mut results = Vec::new();
    for (index, series) in args.series(0).into_iter().enumerate() {
        make_room(&series, context)?;
        let phase = phases.get(index);
        let angle =
            |at: usize| phase.and_then(|phase| phase.values.get(at)).map_or(0.0, |angle| known(*angle));
        let frequency = |(at, value): (usize, &f64)| Complex::polar(known(*value), angle(at));
        let frequencies = series.values.iter().enumerate().map(frequency).collect();
        let values = fourier::inverse(frequencies).into_iter().map(Complex::size).collect();
        let name = match phase {
            Some(phase) => format!("ifft({},{})", series.name, phase.name),
            None => format!("ifft({})", series.name),
        };
        results.push(series.derived(name, values));
    }
    Ok(results.into())
}

/// The slow frequencies stand at both ends.
fn low_pass(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let percent = args.float(1);
    let mut results = Vec::new();
    for series in args.series(0) {
        let len = series.values.len();
        let low = (percent / 200.0 * len as f64) as usize;
        let high = len.saturating_sub(low);
        let keep = |(at, value): (usize, &f64)| if at < low || at >= high { *value } else { f64::NAN };
        let values = series.values.iter().enumerate().map(keep).collect();
        let name = format!("lowPass({},{})", series.name, general(percent));
        results.push(series.derived(name, values));
    }
    Ok(results.into())
}
