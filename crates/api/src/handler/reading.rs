//! What the targets of a render request read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use plumbago_engine::FetchRequest;
use plumbago_model::{Series, has_glob};
use plumbago_render::{Fetch, Fetched, Plan, Source, TimeRange, TimeSeries};
use tokio_util::task::AbortOnDropHandle;

use super::render::wrong_target;
use super::render_params::RenderParams;
use super::{search, tag_search};
use crate::error::{ApiError, beyond};
use crate::events::Question;
use crate::memory::Account;
use crate::state::Api;

/// Series that are read first, before it is known how many points they give.
const FIRST_SERIES: usize = 16;

/// Most series that are read at a time.
const SERIES_PER_READ: usize = 512;

/// Reads at the same time.
const READS_AHEAD: usize = 2;

/// The reads of one request.
pub(super) struct Reading<'a> {
    pub(super) api: &'a Arc<Api>,
    pub(super) asked: &'a RenderParams,
    pub(super) account: &'a Account,
    /// All series so far.
    pub(super) count: usize,
    /// All points so far.
    pub(super) points: usize,
    /// The most that one metric gave.
    pub(super) largest: usize,
}

impl Reading<'_> {
    /// Reads what a plan names: the metrics of all fetches over one range together, each once.
    pub(super) async fn plan(&mut self, plan: Plan, fetched: &mut Fetched) -> Result<(), ApiError> {
        let mut by_range: HashMap<TimeRange, Vec<(Fetch, Names)>> = HashMap::new();
        for fetch in plan.fetches {
            if fetch.source == Source::Events {
                let events = self.events(&fetch).await?;
                fetched.insert(fetch, vec![events]);
                continue;
            }
            let names = names(self.api, &fetch, self.asked.is_front_end).await?;
            self.count += names.len();
            if self.count > self.api.limits.series {
                return Err(beyond("series", "series", self.api.limits.series));
            }
            by_range.entry(fetch.range).or_default().push((fetch, names));
        }
        for (range, fetches) in by_range {
            self.range(range, fetches, fetched).await?;
        }
        Ok(())
    }

    async fn range(
        &mut self,
        range: TimeRange,
        mut fetches: Vec<(Fetch, Names)>,
        fetched: &mut Fetched,
    ) -> Result<(), ApiError> {
        let factor = self.asked.request.x_files_factor;
        if let [(fetch, names)] = &mut fetches[..] {
            let series = self.read(range, std::mem::take(names)).await?;
            let expression = &fetch.expression;
            let series = series.into_iter().map(|s| TimeSeries::fetched(s, expression, factor)).collect();
            fetched.insert(fetch.clone(), series);
            return Ok(());
        }
        let mut names: Names = fetches.iter().flat_map(|(_, names)| names).cloned().collect();
        names.sort_unstable();
        names.dedup();
        let shared: HashMap<Arc<str>, TimeSeries> = self
            .read(range, names)
            .await?
            .into_iter()
            .map(|s| (Arc::clone(&s.name), TimeSeries::fetched(s, &Arc::from(""), factor)))
            .collect();
        for (fetch, names) in fetches {
            let of_fetch = |name| {
                let series = shared.get(name)?.clone();
                Some(TimeSeries { path_expression: Arc::clone(&fetch.expression), ..series })
            };
            let series = names.iter().filter_map(of_fetch).collect();
            fetched.insert(fetch, series);
        }
        Ok(())
    }

    /// How many events there are in each second, unknown where there are none.
    async fn events(&mut self, fetch: &Fetch) -> Result<TimeSeries, ApiError> {
        let TimeRange { from, until } = fetch.range;
        let seconds = usize::try_from(until - from).unwrap_or(0);
        self.points = self.points.saturating_add(seconds);
        if self.points > self.api.limits.points {
            return Err(beyond("points", "points", self.api.limits.points));
        }
        self.account.add_read(1, seconds)?;
        let tags: Vec<String> = fetch.expression.split('\n').map(str::to_owned).collect();
        let tags = (tags != ["*"]).then_some(tags);
        let question = Question { from, until: until - 1, tags, any: false };
        let events = Arc::clone(&self.api.events);
        let found = tokio::task::spawn_blocking(move || events.find(&question)).await;
        let found = found.map_err(|_| ApiError::Unavailable("the events were not read".to_owned()))?;
        let mut values = vec![f64::NAN; seconds];
        for event in found {
            let at = usize::try_from(event.when - from).ok().and_then(|at| values.get_mut(at));
            if let Some(value) = at {
                *value = if value.is_nan() { 1.0 } else { *value + 1.0 };
            }
        }
        let series = Series { name: Arc::clone(&fetch.expression), start: from, step: 1, values };
        Ok(TimeSeries::fetched(series, &fetch.expression, self.asked.request.x_files_factor))
    }

    /// Reads metrics in parts whose size follows from what the largest metric so far gave, so that
    /// a request beyond its points is stopped before they fill the memory. While one part is taken in,
    /// the next is being read.
    async fn read(&mut self, range: TimeRange, names: Names) -> Result<Vec<Series>, ApiError> {
        let (from, until, now) = (range.from, range.until, self.asked.request.now);
        let mut all = Vec::with_capacity(names.len());
        let mut left = names.into_iter();
        let mut next = |part: usize| {
            let names: Names = left.by_ref().take(part).collect();
            (!names.is_empty()).then_some(FetchRequest { names, from, until, now })
        };
        let Some(first) = next(FIRST_SERIES) else { return Ok(all) };
        self.take_in(self.api.source.fetch(&first).await?, &mut all)?;
        let mut ahead: VecDeque<(usize, AbortOnDropHandle<_>)> = VecDeque::new();
        let mut part = FIRST_SERIES;
        loop {
            while ahead.len() < READS_AHEAD {
                let awaited = ahead.iter().map(|(names, _)| names).sum();
                // Slowly more: the first metrics may have been the shortest.
                part = self.fitting(awaited).min(part * 4);
                let Some(request) = next(part) else { break };
                let (names, source) = (request.names.len(), Arc::clone(&self.api.source));
                let read = tokio::spawn(async move { source.fetch(&request).await });
                ahead.push_back((names, AbortOnDropHandle::new(read)));
            }
            let Some((_, read)) = ahead.pop_front() else { return Ok(all) };
            let series =
                read.await.map_err(|_| ApiError::Unavailable("a read was given up".to_owned()))??;
            self.take_in(series, &mut all)?;
        }
    }

    /// How many metrics may be read next, while others are awaited.
    fn fitting(&self, awaited: usize) -> usize {
        let fit = (self.api.limits.points - self.points) / self.largest.max(1);
        fit.saturating_sub(awaited).clamp(1, SERIES_PER_READ)
    }

    /// Counts series that were read, and refuses them beyond a limit.
    fn take_in(&mut self, series: Vec<Series>, all: &mut Vec<Series>) -> Result<(), ApiError> {
        let lengths = || series.iter().map(|series| series.values.len());
        let points: usize = lengths().sum();
        self.points += points;
        self.largest = lengths().fold(self.largest, usize::max);
        if self.points > self.api.limits.points {
            return Err(beyond("points", "points", self.api.limits.points));
        }
        self.account.add_read(series.len(), points)?;
        all.extend(series);
        Ok(())
    }
}

/// Metrics, sorted, each once.
type Names = Vec<Arc<str>>;

/// The metrics of a fetch.
async fn names(api: &Arc<Api>, fetch: &Fetch, is_front_end: bool) -> Result<Names, ApiError> {
    if fetch.source == Source::Tags {
        return match tag_search::series_by_tag(api, &fetch.expression).await {
            Ok(names) => Ok(names.into_iter().map(Arc::from).collect()),
            // One wrong target of a front end takes no other with it.
            Err(ApiError::Invalid(_)) if is_front_end => Ok(Vec::new()),
            Err(error @ ApiError::Invalid(_)) => Err(wrong_target(&fetch.expression, &error)),
            Err(other) => Err(other),
        };
    }
    // A tagged series is asked for as it is called, whatever its values hold.
    if !has_glob(&fetch.expression) || fetch.expression.contains(';') {
        return Ok(vec![Arc::clone(&fetch.expression)]);
    }
    let mut names: Names = search::leaves(api, &fetch.expression).await?.into_iter().map(Arc::from).collect();
    if !names.is_sorted() {
        names.sort_unstable();
    }
    names.dedup();
    Ok(names)
}
