//! Functions that make series for experiments.

use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param};
use crate::series::TimeSeries;

/// The longest step: one year.
const STEP_MAX: i64 = 365 * 86_400;

const NAME: Param = Param::new("name", Kind::String);
const STEP: Param = Param::new("step", Kind::Integer).default(Default::Integer(60));

pub(super) const ALL: &[Function] = &[
    Function::new("timeFunction", Group::Transform, &[NAME, STEP], |args, context| {
        let step = args.int(1);
        made(args, context, step, |time| time as f64)
    })
    .or(&["time"])
    .about("The time of each point, in seconds since 1970.", "timeFunction('time')"),
    Function::new(
        "sinFunction",
        Group::Transform,
        &[NAME, Param::new("amplitude", Kind::Integer).default(Default::Integer(1)), STEP],
        |args, context| {
            let (amplitude, step) = (args.int(1) as f64, args.int(2));
            made(args, context, step, |time| (time as f64).sin() * amplitude)
        },
    )
    .or(&["sin"])
    .about("The sine of the time in seconds since 1970.", "sinFunction('sine', 2)"),
    Function::new("identity", Group::Calculate, &[NAME], |args, context| {
        let name = args.text(0).to_owned();
        let mut series = series(&name, context, 60, |time| time as f64)?;
        series.path_expression = format!("identity(\"{name}\")").into();
        series.is_whole = true;
        Ok(vec![series].into())
    })
    .about("The time of each point in seconds since 1970, once a minute.", "identity('time')"),
    Function::new("randomWalkFunction", Group::Special, &[NAME, STEP], random_walk)
        .or(&["randomWalk"])
        .about("A random walk that starts at zero.", "randomWalk('walk')"),
];

fn made(args: &Args, context: &Context<'_>, step: i64, of: impl FnMut(i64) -> f64) -> Outcome {
    Ok(vec![series(args.text(0), context, step, of)?].into())
}

fn series(
    name: &str,
    context: &Context<'_>,
    step: i64,
    mut of: impl FnMut(i64) -> f64,
) -> Result<TimeSeries, Fault> {
    if !(1..=STEP_MAX).contains(&step) {
        return Err(format!("the argument step must be from 1 to {STEP_MAX}").into());
    }
    let (from, until) = (context.range.from, context.range.until);
    let count = usize::try_from((until - from + step - 1) / step).unwrap_or(0);
    context.count_points(count)?;
    let mut pace = context.pace();
    let times = (0..).map(|at: i64| from + at * step).take(count);
    let values = times.map(|time| pace.step(1).map(|()| of(time))).collect::<Result<_, _>>()?;
    Ok(TimeSeries::made(name, (from, until, step), values, context.x_files_factor))
}

/// The seed is the name and the start of the graph, so that the same request gives the same walk.
fn random_walk(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let name = args.text(0);
    let mut state = name.bytes().fold(context.range.from as u64, |hash, byte| mixed(hash ^ u64::from(byte)));
    let mut sum = 0.0;
    made(args, context, args.int(1), |_| {
        let here = sum;
        state = mixed(state);
        sum += (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        here
    })
}

/// One step of splitmix64.
fn mixed(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
