//! Gives metrics other settings while points of them may arrive.
//!
//! `fill` says what new stages get from the old ones. The order matters for a kill in between; it is in
//! `docs/decisions/rules-apply.md`.

mod fill;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plumbago_model::{MetricConfig, Window};
use plumbago_store::{
    ErrorKind, FetchError, FlushBatch, MetricMeta, ReadRequest, SettingsChange, SettingsChanger,
    SettingsReport, SlotRange, StateRow, StoreError, TimeRange,
};

use self::fill::Change;
use crate::engine::Engine;
use crate::read::read_merged;
use crate::shard::ALLOWANCE;
use crate::shard::downsample::MetricLayout;
use crate::shard::import::{Begun, End, ImportHead};
use crate::shard::ranges::{Ask, BeginRange};
use crate::slots::Stored;

/// How often metrics are asked for of which points are on their way to the store.
const TRIES: u32 = 200;
/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause between two tries to change the metadata store; it doubles up to the longest.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Windows of a metric that only other writers write are filled when they ended this many seconds ago: the writer may
/// still have to write younger ones, as a whole.
const UNSETTLED: u32 = 600;

/// A metric that is to change.
struct Wanted {
    /// The place of its report.
    place: usize,
    /// With the new settings.
    meta: MetricMeta,
    /// The metadata store has them already.
    is_follower: bool,
}

/// A metric on its way.
struct Work {
    place: usize,
    meta: MetricMeta,
    head: Box<ImportHead>,
    layout: MetricLayout,
    /// The metadata store has the new settings already.
    is_follower: bool,
    open: Vec<Window>,
    outcome: Outcome,
}

/// Which settings the metadata store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Old,
    New,
    /// It does not say, and the engine is stopping: nothing more of the metric may go to the store. The next start reads
    /// the journal.
    Unknown,
}

impl Work {
    fn change(&self, now: i64) -> Change<'_> {
        let raw = self.head.layout.raw;
        let slot = raw.slot(u32::try_from(now).unwrap_or(0));
        let ahead = slot.saturating_add(ALLOWANCE);
        let (base, raw_until) = match (self.head.base, self.head.is_refolded) {
            (0, false) => (slot.saturating_sub(raw.slot(UNSETTLED)).saturating_sub(2 * ALLOWANCE), ahead),
            (_, true) => (ahead, ahead),
            (base, false) => (base, base),
        };
        Change { head: &self.head, new: &self.layout, now, base, raw_until, is_follower: self.is_follower }
    }

    /// False if the head has no base: the store has all of the metric then.
    fn is_placed(&self) -> bool {
        self.head.base > 0 && !self.head.is_refolded
    }
}

#[async_trait]
impl SettingsChanger for Engine {
    async fn settings_in_use(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError> {
        self.settings_of(names).await.map_err(stopping)
    }

    async fn change_settings(&self, changes: Vec<SettingsChange>) -> Result<Vec<SettingsReport>, StoreError> {
        // A task of its own: heads that are held still have to be released even if the caller goes away.
        let engine = self.clone();
        let changing = tokio::spawn(async move { engine.change(&changes).await });
        match changing.await {
            Ok(result) => result,
            Err(error) => Err(StoreError::with(ErrorKind::Internal, "change settings", error)),
        }
    }
}

impl Engine {
    async fn change(&self, changes: &[SettingsChange]) -> Result<Vec<SettingsReport>, StoreError> {
        let _alone = self.alone().await;
        let mut reports = vec![SettingsReport::default(); changes.len()];
        let names: Vec<Arc<str>> = changes.iter().map(|change| Arc::from(change.name.as_str())).collect();
        self.load_missing(&names).await?;
        let metas = self.wanted(changes, &mut reports).await?;
        let mut left: Vec<usize> = (0..metas.len()).collect();
        let mut result = Ok(());
        for _ in 0..TRIES {
            result = self.change_some(&metas, &mut left, &mut reports).await;
            if left.is_empty() || result.is_err() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.ask_settings(&metas, &left, Ask::Leave).await?;
        result.map(|()| reports)
    }

    /// The metrics that can change.
    async fn wanted(
        &self,
        changes: &[SettingsChange],
        reports: &mut [SettingsReport],
    ) -> Result<Vec<Wanted>, StoreError> {
        let metadata = &self.parts().metadata;
        let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        let heads = self.settings_in_use(&names).await?;
        let known = metadata.get(&names).await?.into_iter().zip(heads);
        let mut wanted = Vec::new();
        for (place, ((known, head), change)) in known.zip(changes).enumerate() {
            let (Some(known), Some(head)) = (known, head) else {
                "there is no such metric".clone_into(&mut reports[place].refused);
                continue;
            };
            let config = metadata.as_read(Arc::clone(&change.config));
            // The head may have other settings than the metadata store: after a kill, or if another daemon changed them.
            if config == known.config && config == head {
                continue;
            }
            match change.config.refuses_points_of(&head) {
                Some(why) => reports[place].refused = why,
                None => {
                    let is_follower = config == known.config;
                    let meta = MetricMeta { config: Arc::clone(&change.config), ..known };
                    wanted.push(Wanted { place, meta, is_follower });
                }
            }
        }
        Ok(wanted)
    }

    async fn ask_settings(
        &self,
        metas: &[Wanted],
        places: &[usize],
        ask: Ask,
    ) -> Result<Vec<Begun>, StoreError> {
        let range = TimeRange { from: 0, until: 0 };
        let begin = |at: &usize| BeginRange { hash: self.router().hash(&metas[*at].meta.name), range, ask };
        self.begin_range(places.iter().map(begin).collect()).await.map_err(stopping)
    }

    /// Changes the metrics that are at rest. The others stay in the list.
    async fn change_some(
        &self,
        metas: &[Wanted],
        left: &mut Vec<usize>,
        reports: &mut [SettingsReport],
    ) -> Result<(), StoreError> {
        let answers = self.ask_settings(metas, left, Ask::Begin).await?;
        let (mut works, mut busy) = (Vec::new(), Vec::new());
        for (at, begun) in left.iter().zip(answers) {
            let wanted = &metas[*at];
            let report = &mut reports[wanted.place];
            report.is_busy = matches!(begun, Begun::Busy);
            match begun {
                Begun::Busy => busy.push(*at),
                Begun::Unknown => "it was deleted meanwhile".clone_into(&mut report.refused),
                Begun::Ready(head) => {
                    let (place, meta, is_follower) = (wanted.place, wanted.meta.clone(), wanted.is_follower);
                    let config = self.parts().metadata.as_read(Arc::clone(&meta.config));
                    let (layout, open) = (MetricLayout::new(config), Vec::new());
                    works.push(Work { place, meta, head, layout, is_follower, open, outcome: Outcome::Old });
                }
            }
        }
        *left = busy;
        let result = self.carry_out_change(&mut works, reports).await;
        let end = |work: Work| {
            let shard = self.router().shard(&self.router().hash(&work.meta.name));
            let is_done = work.outcome == Outcome::New;
            reports[work.place].changed = is_done;
            let config = is_done.then(|| Arc::clone(&work.layout.config));
            let open = (is_done && work.is_placed()).then_some(work.open);
            let (at, name) = (work.head.at, work.meta.name.as_str().into());
            (shard, End { at, name, open, fill: Vec::new(), config })
        };
        let known = works.into_iter().filter(|work| work.outcome != Outcome::Unknown);
        self.end_import(known.map(end).collect()).await.map_err(stopping)?;
        result
    }

    /// New stages are filled first, while nobody reads them. Then the state row gets the open windows of the old and of
    /// the new stages. The metadata store decides which of them count, at this moment and after a kill.
    async fn carry_out_change(
        &self,
        works: &mut [Work],
        reports: &mut [SettingsReport],
    ) -> Result<(), StoreError> {
        if works.is_empty() {
            return Ok(());
        }
        let now = self.parts().clock.now();
        let mut states = Vec::new();
        for work in works.iter_mut() {
            reports[work.place].points = self.fill_stages(work, now).await?;
            work.open = self.open_windows(work, now).await?;
            if work.is_placed() {
                let bytes = both(work).encode();
                states.push(StateRow { id: work.head.id, bytes });
            }
        }
        self.commit_history(FlushBatch { states, ..FlushBatch::default() }).await?;
        let flush = Arc::clone(&self.parts().flush);
        let synced = tokio::task::spawn_blocking(move || flush.sync()).await;
        synced
            .unwrap_or_else(|error| Err(StoreError::with(ErrorKind::Internal, "sync new stages", error)))?;
        self.set_configs(works).await
    }

    async fn fill_stages(&self, work: &Work, now: i64) -> Result<u64, StoreError> {
        let change = work.change(now);
        let mut points = 0;
        for stage in (0..=work.layout.coarse()).filter(|stage| !change.is_kept(*stage)) {
            let mut slots = change.slots(stage);
            while !slots.is_empty() {
                let part = slots.start..change.part_end(stage, &slots);
                let request = ReadRequest {
                    ranges: change.reads(stage, &part),
                    include_retained: true,
                    ..ReadRequest::default()
                };
                let columns = read_merged(&*self.parts().points, &request).await?;
                let source = |(range, column): (&SlotRange, _)| Stored { from: range.from, column };
                let sources: Vec<Stored> = request.ranges.iter().zip(columns).map(source).collect();
                let mut batch = FlushBatch::default();
                let filled = change.fill(stage, &part, &sources);
                points += change.push(stage, part.start, &filled.values, &mut batch.rows);
                let id = work.head.id;
                let gone =
                    filled.gone.iter().map(|slots| work.layout.range(id, stage, slots.start, slots.end));
                let gone: Vec<SlotRange> = gone.collect();
                if !gone.is_empty() {
                    self.parts().points.delete_ranges(&gone).await?;
                }
                if stage > 0 {
                    self.parts().points.subtract_other_writers(&mut batch.rows).await?;
                }
                if !batch.rows.runs.is_empty() {
                    self.commit_history(batch).await?;
                }
                slots.start = part.end;
            }
        }
        Ok(points)
    }

    async fn open_windows(&self, work: &Work, now: i64) -> Result<Vec<Window>, StoreError> {
        let change = work.change(now);
        let mut open = Vec::with_capacity(work.layout.coarse());
        for stage in 1..=work.layout.coarse() {
            let (at, range) = change.open_read(stage);
            let request =
                ReadRequest { ranges: vec![range], include_retained: true, ..ReadRequest::default() };
            let column = read_merged(&*self.parts().points, &request).await?.pop().unwrap_or_default();
            open.push(change.open(stage, at, &Stored { from: range.from, column }));
        }
        Ok(open)
    }

    /// Changes the metadata store. A call that failed may have taken effect, now or later. So it is repeated until the
    /// store answers: the head has to go with it.
    async fn set_configs(&self, works: &mut [Work]) -> Result<(), StoreError> {
        let metas: Vec<MetricMeta> = works.iter().map(|work| work.meta.clone()).collect();
        works.iter_mut().for_each(|work| work.outcome = Outcome::Unknown);
        let mut pause = RETRY;
        loop {
            let Err(error) = self.try_set_configs(&metas).await else {
                works.iter_mut().for_each(|work| work.outcome = Outcome::New);
                return Ok(());
            };
            if !error.is_transient() && self.look(works, &metas).await {
                return Err(error);
            }
            if self.has_given_up() {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = RETRY_MAX.min(pause * 2);
        }
    }

    async fn try_set_configs(&self, metas: &[MetricMeta]) -> Result<(), StoreError> {
        self.parts().metadata.set_configs(metas).await?;
        self.parts().metadata.sync_names().await
    }

    /// Finds out which settings the metadata store has, after it refused to change them. Returns whether it answered.
    async fn look(&self, works: &mut [Work], metas: &[MetricMeta]) -> bool {
        let names: Vec<&str> = metas.iter().map(|meta| meta.name.as_str()).collect();
        let Ok(known) = self.parts().metadata.get(&names).await else { return false };
        for (work, known) in works.iter_mut().zip(known) {
            let is_new = known.is_some_and(|known| known.config == work.layout.config);
            work.outcome = if is_new { Outcome::New } else { Outcome::Old };
        }
        true
    }
}

/// The state of a head with the open windows of its old stages and of its new ones.
fn both(work: &Work) -> crate::shard::state_row::State<'static> {
    let mut state = work.head.state.with_open(&work.head.open);
    state.resolutions.clone_from(&work.head.layout.coarse_resolutions);
    for (resolution, window) in work.layout.coarse_resolutions.iter().zip(&work.open) {
        if !state.resolutions.contains(resolution) {
            state.resolutions.push(*resolution);
            state.open.push(*window);
        }
    }
    state
}

fn stopping(_: FetchError) -> StoreError {
    StoreError::new(ErrorKind::Closed, "change settings: the engine is stopping")
}
