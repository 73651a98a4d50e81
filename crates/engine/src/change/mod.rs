//! Changes the settings of metrics while points of them may arrive.
//!
//! `fill` computes the values of new stages from the old ones, and `stages` reads and stores them for many
//! metrics at once. The order of the steps makes a kill between them harmless, as
//! `docs/decisions/rules-apply.md` explains.

mod fill;
mod stages;

use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricConfig, Window};
use plumbago_store::{
    ErrorKind, FetchError, FlushBatch, MetricMeta, SettingsChange, SettingsChanger, SettingsReport, StateRow,
    StoreError, TimeRange,
};

use self::fill::Change;
use crate::engine::Engine;
use crate::shard::ALLOWANCE;
use crate::shard::downsample::MetricLayout;
use crate::shard::import::{Begun, End, ImportHead};
use crate::shard::ranges::{Ask, BeginRange};

/// Largest number of metrics that are blocked at the same time.
const HELD_METRICS: usize = 1000;
/// Approximate limit on the slots that these metrics have together in all stages. Without it, metrics with
/// long stages would be blocked for too long.
const HELD_SLOTS: u64 = 1 << 24;
/// Largest number of metrics in one request to the shards, so that points do not wait long for the answer.
const ASKED: usize = 256;

/// How many times a metric is requested again while its points are on their way to the store.
const TRIES: u32 = 200;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// Pause between two tries to change the metadata store; it doubles with each try, up to the longest pause.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// In seconds. If only other writers write a metric, its windows are filled no earlier than this long after
/// their end, because until then a writer may still store the whole window.
const UNSETTLED: u32 = 600;

/// A metric whose settings are to change.
struct Wanted {
    /// The position of its report in the list of reports.
    place: usize,
    /// The metric with its new settings.
    meta: MetricMeta,
    /// The metadata store already has the new settings.
    is_follower: bool,
    /// The number of slots of all old and new stages.
    slots: u64,
}

/// A metric whose settings are being changed.
#[derive(Debug)]
struct Work {
    place: usize,
    meta: MetricMeta,
    head: Box<ImportHead>,
    layout: MetricLayout,
    /// The metadata store already has the new settings.
    is_follower: bool,
    /// The open windows of the new stages.
    open: Vec<Window>,
    /// The number of slots and windows that were filled.
    points: u64,
    outcome: Outcome,
}

/// Which settings the metadata store has after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Old,
    New,
    /// Not known, because the engine is stopping. Nothing more of the metric may go to the store, and the
    /// next start reads the journal.
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

    /// Whether the change affects nothing that is stored, because only the xFilesFactor changes.
    fn is_light(&self) -> bool {
        let (old, new) = (&self.head.layout.config, &self.layout.config);
        old.retention == new.retention && old.aggregation == new.aggregation
    }

    /// Whether the head has a base. If not, the store has all points of the metric.
    fn is_placed(&self) -> bool {
        self.head.base > 0 && !self.head.is_refolded
    }
}

#[boxed_futures]
impl SettingsChanger for Engine {
    async fn settings_in_use(&self, names: &[&str]) -> Result<Vec<Option<Arc<MetricConfig>>>, StoreError> {
        self.settings_of(names).await.map_err(stopping)
    }

    async fn change_settings(&self, changes: Vec<SettingsChange>) -> Result<Vec<SettingsReport>, StoreError> {
        // Runs in a separate task: blocked heads have to be released even if the caller is
        // dropped.
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
        let (mut left, mut next, mut tries, mut result) = (Vec::new(), 0, 0, Ok(()));
        while tries < TRIES {
            next = take_more(&metas, next, &mut left);
            let asked = left.len();
            result = self.change_some(&metas, &mut left, &mut reports).await;
            let is_end = left.is_empty() && next == metas.len();
            if is_end || result.is_err() {
                break;
            }
            // While there are other metrics to change, do not wait for the metrics whose points are on their
            // way to the store.
            if next == metas.len() || left.len() == asked {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
        metas[next..].iter().for_each(|wanted| reports[wanted.place].is_busy = true);
        self.ask_settings(&metas, &left, Ask::Leave).await?;
        result.map(|()| reports)
    }

    /// The metrics whose settings can change.
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
            // The settings of the head may differ from those in the metadata store, after a kill or because
            // another daemon changed them.
            if config == known.config && config == head {
                continue;
            }
            match change.config.refuses_points_of(&head) {
                Some(why) => reports[place].refused = why,
                None => {
                    let is_follower = config == known.config;
                    let slots = slots_of(&head) + slots_of(&config);
                    let meta = MetricMeta { config: Arc::clone(&change.config), ..known };
                    wanted.push(Wanted { place, meta, is_follower, slots });
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
        let mut begun = Vec::with_capacity(places.len());
        for places in places.chunks(ASKED) {
            let hash = |at: &usize| self.router().hash(&metas[*at].meta.name);
            let asked = places.iter().map(|at| BeginRange { hash: hash(at), range, ask }).collect();
            begun.extend(self.begin_range(asked).await.map_err(stopping)?);
        }
        Ok(begun)
    }

    /// Changes the metrics that are at rest. The others stay in `left`.
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
                    let (layout, open, outcome) = (MetricLayout::new(config), Vec::new(), Outcome::Old);
                    works.push(Work { place, meta, head, layout, is_follower, open, points: 0, outcome });
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
            let has_open = is_done && work.is_placed() && !work.is_light();
            let open = has_open.then_some(work.open);
            let (at, name) = (work.head.at, work.meta.name.as_str().into());
            (shard, End { at, name, open, fill: Vec::new(), config })
        };
        let known = works.into_iter().filter(|work| work.outcome != Outcome::Unknown);
        self.end_import(known.map(end).collect()).await.map_err(stopping)?;
        result
    }

    /// Carries out a change. First fills the new stages, which are not read yet. Then writes state rows with
    /// the open windows of both the old and the new stages. The settings in the metadata store decide which
    /// of these windows count, both now and after a kill.
    async fn carry_out_change(
        &self,
        works: &mut [Work],
        reports: &mut [SettingsReport],
    ) -> Result<(), StoreError> {
        if works.is_empty() {
            return Ok(());
        }
        self.fill_all(works, self.parts().clock.now()).await?;
        let mut states = Vec::new();
        for work in works.iter() {
            reports[work.place].points = work.points;
            // Needed even if only the xFilesFactor changes: blocking the metric has written its late points
            // to the journal again.
            if work.is_placed() {
                states.push(StateRow { id: work.head.id, bytes: both(work).encode() });
            }
        }
        self.commit_history(FlushBatch { states, ..FlushBatch::default() }).await?;
        let flush = Arc::clone(&self.parts().flush);
        let synced = tokio::task::spawn_blocking(move || flush.sync()).await;
        synced
            .unwrap_or_else(|error| Err(StoreError::with(ErrorKind::Internal, "sync new stages", error)))?;
        self.set_configs(works).await
    }

    /// Changes the metadata store. A failed call may still take effect, even later. So the call is repeated
    /// until the store answers, because the head must have the same settings as the metadata store.
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

    /// Finds out which settings the metadata store has, after it refused to change them. Returns whether the
    /// store answered.
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

/// Adds metrics to `asked`, up to the limits. Returns the position of the first one that has to wait.
fn take_more(metas: &[Wanted], mut next: usize, asked: &mut Vec<usize>) -> usize {
    let mut slots: u64 = asked.iter().map(|at| metas[*at].slots).sum();
    while next < metas.len() && asked.len() < HELD_METRICS {
        slots += metas[next].slots;
        if slots > HELD_SLOTS && !asked.is_empty() {
            break;
        }
        asked.push(next);
        next += 1;
    }
    next
}

fn slots_of(config: &MetricConfig) -> u64 {
    config.retention.stages().iter().map(|stage| u64::from(stage.points)).sum()
}

/// The state of a head with the open windows of both its old and its new stages.
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
