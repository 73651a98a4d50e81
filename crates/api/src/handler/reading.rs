//! Reads the series that the targets of a render request need.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use plumbago_model::{Series, has_glob};
use plumbago_render::{Fetch, FetchPlan, Fetched, Source, TimeRange, TimeSeries};
use plumbago_store::{EventFilter, FetchError, FetchRequest};
use tokio_util::task::AbortOnDropHandle;

use super::render_params::RenderParams;
use super::{search, tag_search};
use crate::cache::FetchPoints;
use crate::error::{ApiError, beyond};
use crate::memory::Account;
use crate::meter::PhaseTimes;
use crate::state::Api;

/// Number of series in the first read of a request, when the number of their points is not known yet.
const FIRST_SERIES: usize = 16;

/// Maximum number of series in one read.
const SERIES_PER_READ: usize = 512;

/// Maximum number of reads in flight per request.
const READS_AHEAD: usize = 2;

/// What a fetch found and how long it took, for explanations.
#[derive(Debug)]
pub(super) struct FetchNote {
    pub(super) fetch: Fetch,
    /// The names that the fetch found.
    pub(super) names: Names,
    /// The time that it took to find the names.
    pub(super) find: Duration,
    /// The time that it took to read all fetches over the same range.
    pub(super) read: Duration,
}

/// Reads the points of one request and counts them against its limits.
pub(super) struct Reading<'a> {
    pub(super) api: &'a Arc<Api>,
    pub(super) asked: &'a RenderParams,
    pub(super) account: &'a Account,
    /// Number of series read so far.
    pub(super) count: usize,
    /// Number of points read so far.
    pub(super) points: usize,
    /// Number of points of the longest series read so far.
    pub(super) largest: usize,
    /// Time spent so far in each phase of the request.
    pub(super) times: PhaseTimes,
    /// Notes about all fetches except those of events, if the caller asked for notes.
    pub(super) notes: Option<Vec<FetchNote>>,
    /// The points of the first fetches except those of events, if the caller asked for them.
    pub(super) tally: Option<Vec<FetchPoints>>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(api: &'a Arc<Api>, asked: &'a RenderParams, account: &'a Account) -> Self {
        let times = PhaseTimes::default();
        Self { api, asked, account, count: 0, points: 0, largest: 0, times, notes: None, tally: None }
    }

    /// Reads the series of a plan into `fetched`. A metric that several fetches need over the same range is
    /// read only once.
    pub(super) async fn plan(&mut self, plan: FetchPlan, fetched: &mut Fetched) -> Result<(), ApiError> {
        let mut by_range: HashMap<TimeRange, Vec<(Fetch, Names)>> = HashMap::new();
        for fetch in plan.fetches {
            if fetch.source == Source::Events {
                let events = self.events(&fetch).await?;
                fetched.insert(fetch, vec![events]);
                continue;
            }
            let started = Instant::now();
            let names = names(self.api, &fetch, self.asked.is_front_end).await?;
            let find = started.elapsed();
            self.times.find += find;
            self.count += names.len();
            if self.count > self.api.limits().series {
                return Err(beyond("series", "series", self.api.limits().series));
            }
            if let Some(notes) = &mut self.notes {
                notes.push(FetchNote {
                    fetch: fetch.clone(),
                    names: names.clone(),
                    find,
                    read: Duration::ZERO,
                });
            }
            by_range.entry(fetch.range).or_default().push((fetch, names));
        }
        for (range, fetches) in by_range {
            let started = Instant::now();
            self.range(range, fetches, fetched).await?;
            let read = started.elapsed();
            self.times.fetch += read;
            let notes = self.notes.iter_mut().flatten();
            notes.filter(|note| note.fetch.range == range).for_each(|note| note.read = read);
        }
        Ok(())
    }

    /// Reads the series of all fetches over one range.
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
            self.give(fetch.clone(), series, fetched);
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
            self.give(fetch, series, fetched);
        }
        Ok(())
    }

    fn give(&mut self, fetch: Fetch, series: Vec<TimeSeries>, fetched: &mut Fetched) {
        if let Some(tally) = self.tally.as_mut().filter(|tally| tally.len() < FetchPoints::MAX) {
            tally.push(FetchPoints::of(&fetch, &series));
        }
        fetched.insert(fetch, series);
    }

    /// Returns a series with the number of events in each second, or an unknown value if there are none.
    async fn events(&mut self, fetch: &Fetch) -> Result<TimeSeries, ApiError> {
        let TimeRange { from, until } = fetch.range;
        let seconds = usize::try_from(until - from).unwrap_or(0);
        self.points = self.points.saturating_add(seconds);
        if self.points > self.api.limits().points {
            return Err(beyond("points", "points", self.api.limits().points));
        }
        self.account.add_read(1, seconds)?;
        let tags: Vec<String> = fetch.expression.split('\n').map(str::to_owned).collect();
        let tags = (tags != ["*"]).then_some(tags);
        let filter = EventFilter { from, until: until - 1, tags, any: false };
        let found = self.api.events.find_all(filter).await;
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

    /// Reads metrics in parts. The size of a part follows from the longest series so far. This stops a
    /// request that exceeds `api.limits.points` before it fills the memory. The next part is read while the
    /// previous one is processed.
    async fn read(&mut self, range: TimeRange, names: Names) -> Result<Vec<Series>, ApiError> {
        let (from, until, now) = (range.from, range.until, self.asked.request.now);
        let most = self.api.limits().points;
        let slots_max = most.saturating_sub(self.points);
        let too_many = |error| match error {
            FetchError::TooManySlots(_) => beyond("points", "points", most),
            other => ApiError::from(other),
        };
        let mut all = Vec::with_capacity(names.len());
        let mut left = names.into_iter();
        let mut next = |part: usize| {
            let names: Names = left.by_ref().take(part).collect();
            (!names.is_empty()).then_some(FetchRequest { names, from, until, now, slots_max })
        };
        let Some(first) = next(FIRST_SERIES) else { return Ok(all) };
        self.take_in(self.api.source.fetch(&first).await.map_err(too_many)?, &mut all)?;
        let mut ahead: VecDeque<(usize, AbortOnDropHandle<_>)> = VecDeque::new();
        let mut part = FIRST_SERIES;
        loop {
            while ahead.len() < READS_AHEAD {
                let awaited = ahead.iter().map(|(names, _)| names).sum();
                // Grow slowly, because the first series may have been the shortest.
                part = self.fitting(awaited).min(part * 4);
                let Some(request) = next(part) else { break };
                let (names, source) = (request.names.len(), Arc::clone(&self.api.source));
                let read = tokio::spawn(async move { source.fetch(&request).await });
                ahead.push_back((names, AbortOnDropHandle::new(read)));
            }
            let Some((_, read)) = ahead.pop_front() else { return Ok(all) };
            let series = read.await.map_err(|_| ApiError::Unavailable("a read was aborted".to_owned()))?;
            let series = series.map_err(too_many)?;
            self.take_in(series, &mut all)?;
        }
    }

    /// Number of metrics in the next read, given that `awaited` metrics are in flight.
    fn fitting(&self, awaited: usize) -> usize {
        // A reload may have lowered the limit.
        let fit = self.api.limits().points.saturating_sub(self.points) / self.largest.max(1);
        fit.saturating_sub(awaited).clamp(1, SERIES_PER_READ)
    }

    /// Counts series that were read and appends them to `all`. Fails if a limit is exceeded.
    fn take_in(&mut self, series: Vec<Series>, all: &mut Vec<Series>) -> Result<(), ApiError> {
        let lengths = || series.iter().map(|series| series.values.len());
        let points: usize = lengths().sum();
        self.points += points;
        self.largest = lengths().fold(self.largest, usize::max);
        if self.points > self.api.limits().points {
            return Err(beyond("points", "points", self.api.limits().points));
        }
        self.account.add_read(series.len(), points)?;
        all.extend(series);
        Ok(())
    }
}

/// Names of metrics, sorted and without duplicates.
pub(super) type Names = Vec<Arc<str>>;

/// Returns the metrics that the expression of a fetch selects.
async fn names(api: &Arc<Api>, fetch: &Fetch, is_front_end: bool) -> Result<Names, ApiError> {
    if fetch.source == Source::Tags {
        return match tag_search::series_by_tag(api, &fetch.expression).await {
            Ok(names) => Ok(names.into_iter().map(Arc::from).collect()),
            // A front end sends many targets in one request; one wrong target must not make the others fail.
            Err(ApiError::Invalid(_)) if is_front_end => Ok(Vec::new()),
            Err(error @ ApiError::Invalid(_)) => Err(ApiError::of_target(&fetch.expression, &error, None)),
            Err(other) => Err(other),
        };
    }
    // A tagged series is read by its exact name, even if a tag's value looks like a glob.
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
