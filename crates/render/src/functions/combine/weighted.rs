//! `weightedAverage`: the mean of series, weighted by other series with the same components.

use std::collections::{BTreeSet, HashMap};

use super::aggregate::combined;
use super::divide::{by_index, ratio};
use crate::context::Context;
use crate::fault::Fault;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::node;
use crate::series::TimeSeries;
use crate::target::Literal;

pub(super) const ALL: &[Function] = &[Function::new(
    "weightedAverage",
    Group::Combine,
    &[
        Param::new("seriesListAvg", Kind::Series),
        Param::new("seriesListWeight", Kind::Series),
        Param::new("nodes", Kind::NodeOrTag).optional().many(),
    ],
    weighted_average,
)
.about(
    "The mean of series, weighted by other series with the same components.",
    "weightedAverage(host.*.latency, host.*.requests, 1)",
)];

fn weighted_average(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let nodes: Vec<Literal> = args.literals(2).cloned().collect();
    let (values, weights) = (args.series(0), args.series(1));
    if values.len() != weights.len() {
        let lengths = format!("{} and {}", values.len(), weights.len());
        return Err(format!("there must be as many weights as series, but there are {lengths}").into());
    }
    let mut order: Vec<String> = Vec::new();
    let mut pairs: HashMap<String, (Option<usize>, Option<usize>)> = HashMap::new();
    for index in 0..values.len() {
        for (list, is_weight) in [(&values, false), (&weights, true)] {
            let key = node::key(&list[index], nodes.iter());
            let pair = pairs.entry(key.clone()).or_insert_with(|| {
                order.push(key);
                (None, None)
            });
            *(if is_weight { &mut pair.1 } else { &mut pair.0 }) = Some(index);
        }
    }
    let mut products = Vec::new();
    for key in order {
        if let Some((Some(value), Some(weight))) = pairs.get(&key) {
            let (value, weight) = (&values[*value], &weights[*weight]);
            let name = format!("product({},{})", weight.name, value.name);
            products.push(over(name, value, weight, context, |a, b| a * b)?);
        }
    }
    let expressions = |list: &[TimeSeries]| {
        let unique: BTreeSet<&str> = list.iter().map(|series| &*series.path_expression).collect();
        unique.into_iter().collect::<Vec<_>>().join(",")
    };
    let nodes: Vec<String> = nodes.iter().map(Literal::python).collect();
    let name =
        format!("weightedAverage({}, {}, {})", expressions(&values), expressions(&weights), nodes.join(","));
    let (sum, total) = (combined(products, "sum", None, context)?, combined(weights, "sum", None, context)?);
    let (Some(sum), Some(total)) = (sum, total) else { return Ok(Vec::new().into()) };
    Ok(vec![over(name, &sum, &total, context, ratio)?].into())
}

/// Combines two series by index. As in graphite-web the result has the times of the first one.
fn over(
    name: String,
    first: &TimeSeries,
    second: &TimeSeries,
    context: &Context<'_>,
    of: impl Fn(f64, f64) -> f64,
) -> Result<TimeSeries, Fault> {
    let values = by_index(&first.values, &second.values, context, of)?;
    Ok(TimeSeries::made(name, first.times(), values, context.x_files_factor))
}
