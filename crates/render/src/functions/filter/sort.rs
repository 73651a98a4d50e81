//! Functions that sort series.

use std::cmp::Reverse;

use super::highest::{Order, sort};
use crate::aggregate::Aggregate;
use crate::context::Context;
use crate::function::{Args, Default, Function, Group, Kind, Outcome, Param, SERIES};
use crate::series::TimeSeries;

const REVERSE: Param = Param::new("reverse", Kind::Boolean).default(Default::Boolean(false));

pub(super) const ALL: &[Function] = &[
    Function::new(
        "sortBy",
        Group::Sorting,
        &[SERIES, Param::new("func", Kind::AggFunc).default(Default::Text("average")), REVERSE],
        |args, _| {
            let (method, _) = args.aggregate(1)?;
            let order = if args.flag(2) { Order::Down } else { Order::Up };
            by(args, method, order)
        },
    )
    .about("Sorts series by an aggregate.", "sortBy(host.*.load, 'max', true)"),
    Function::new(
        "sortByName",
        Group::Sorting,
        &[SERIES, Param::new("natural", Kind::Boolean).default(Default::Boolean(false)), REVERSE],
        by_name,
    )
    .about("Sorts series by name; natural puts web2 before web10.", "sortByName(host.*.load, true)"),
    Function::new("sortByMaxima", Group::Sorting, &[SERIES], |args, _| by(args, Aggregate::Max, Order::Down))
        .about("Sorts series by their maximum, the largest first.", "sortByMaxima(host.*.load)"),
    Function::new("sortByMinima", Group::Sorting, &[SERIES], by_minima).about(
        "Sorts series by their minimum, the smallest first, without those that are never above zero.",
        "sortByMinima(host.*.load)",
    ),
    Function::new("sortByTotal", Group::Sorting, &[SERIES], |args, _| by(args, Aggregate::Sum, Order::Down))
        .about("Sorts series by their sum, the largest first.", "sortByTotal(host.*.load)"),
];

fn by(args: &mut Args, method: Aggregate, order: Order) -> Outcome {
    let mut series = args.series(0);
    sort(&mut series, order, |series| method.key(&series.values));
    Ok(series.into())
}

fn by_minima(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let mut series = args.series(0);
    series.retain(|series| Aggregate::Max.of(&series.values) > 0.0);
    sort(&mut series, Order::Up, |series| Aggregate::Min.key(&series.values));
    Ok(series.into())
}

fn by_name(args: &mut Args, _: &mut Context<'_>) -> Outcome {
    let (is_natural, is_reverse) = (args.flag(1), args.flag(2));
    let mut series = args.series(0);
    let key = |series: &TimeSeries| if is_natural { natural(&series.name) } else { series.name.to_string() };
    if is_reverse {
        // The sort is stable.
        series.sort_by_cached_key(|series| Reverse(key(series)));
    } else {
        series.sort_by_cached_key(key);
    }
    Ok(series.into())
}

/// The name with every number padded to ten digits.
fn natural(name: &str) -> String {
    let mut key = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, behind) = rest.split_at(at);
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        let number = behind[..digits].trim_start_matches('0');
        key.push_str(before);
        key.push_str(&format!("{number:0>10}"));
        rest = &behind[digits..];
    }
    key + rest
}
