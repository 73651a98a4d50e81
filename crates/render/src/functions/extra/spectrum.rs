//! `fft`, `ifft` and `lowPass`: series as frequencies.

use crate::context::Context;
use crate::fault::Fault;
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
        "The frequencies of each series: their amplitudes, their phases, or both. Unknown points count as 0.",
        "fft(server.requests, 'abs')",
    ),
    Function::new(
        "ifft",
        Group::Transform,
        &[Param::new("absSeriesList", Kind::Series), Param::new("phaseSeriesList", Kind::Series).optional()],
        ifft,
    )
    .about(
        "Computes series from the amplitudes and phases of their frequencies.",
        "ifft(fft(server.requests, 'abs'), fft(server.requests, 'phase'))",
    ),
    Function::new("lowPass", Group::Transform, CUT, low_pass).or(&["lpf"]).about(
        "Keeps this percentage of the frequencies, the lowest ones.",
        "ifft(lowPass(fft(server.requests, 'abs'), 10), fft(server.requests, 'phase'))",
    ),
];

/// Unknown values count as 0. A single one would make all frequencies unknown.
fn known(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value }
}

/// Checks that there is memory for a transform.
fn make_room(series: &TimeSeries, context: &Context<'_>) -> Result<(), Fault> {
    /// Numbers per value: complex ones, in as many columns as a transform uses at most.
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

/// Keeps the low frequencies, which are at both ends of the spectrum.
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
