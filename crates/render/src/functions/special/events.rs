//! `events`: the number of events in each second. It counts all events for *, otherwise the events with all
//! of the tags.

use crate::context::Context;
use crate::fetch::Source;
use crate::function::{Args, Function, Group, Kind, Outcome, Param};
use crate::series::{Consolidation, DrawOptions, TimeSeries};
use crate::tags::Tags;

pub(super) const ALL: &[Function] =
    &[Function::new("events", Group::Special, &[Param::new("tags", Kind::String).many()], events).about(
        "The number of events in each second: of all events with *, or of those with all of the tags.",
        "events('deploy', 'web')",
    )];

fn events(args: &mut Args, context: &mut Context<'_>) -> Outcome {
    let tags = args.texts(0);
    let fetched = context.fetched(&tags.join("\n"), Source::Events)?;
    let name = format!("events(\"{}\")", tags.join("\", \""));
    let named = |series: TimeSeries| {
        let series = TimeSeries { options: DrawOptions::default(), ..series };
        let mut series = TimeSeries { consolidation: Consolidation::Sum, is_whole: true, ..series };
        series.rename(name.clone());
        series.tags = Tags::of(&series.name);
        series
    };
    Ok(fetched.into_iter().map(named).collect::<Vec<_>>().into())
}
