//! The owner of a shard: a thread that takes its share of every batch, answers reads, and keeps
//! flushes going. Reads and acknowledgements go before points.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plumbago_journal::{Journal, JournalError, JournalWriter};
use plumbago_model::Clock;
use plumbago_telemetry::Throttle;
use tokio::sync::{mpsc, oneshot};

use crate::create::Gate;
use crate::head::flag;
use crate::jobs::{Done, Flushes, Job};
use crate::ledger::Ledger;
use crate::router::{NameHash, Share};
use crate::shard::flush::Extent;
use crate::shard::live::Adopted;
use crate::shard::read::{HeadAnswer, HeadQuery};
use crate::shard::{Halt, Shard, World};

/// Frames go to the kernel at least this often.
const HAND_OVER: Duration = Duration::from_millis(10);
/// Metrics in one flush batch.
const FLUSH_METRICS: usize = 1000;
/// Due metrics are let grow to this many, or for a second, so that they can be sorted by id.
const DUE_METRICS: usize = 32_768;
/// How long a read waits for late points, should the store not take them.
const READ_PATIENCE: Duration = Duration::from_millis(500);
/// Reads that wait; when there are more, none does.
const READS_MAX: usize = 256;
/// A walk over all metrics takes about this many ticks.
const WALK_TICKS: u32 = 6000;

/// What an owner is asked.
#[derive(Debug)]
pub(crate) enum Control {
    /// These metrics are in the metadata store and the index.
    Created(Vec<u32>),
    /// The flusher is done with a job.
    Done(Done),
    /// What do the heads know?
    Read(HeadQuery, oneshot::Sender<Vec<Option<HeadAnswer>>>),
    /// These metrics are in the metadata store and the index, made by others.
    Adopt(Vec<Adopted>),
    /// Which of these are known?
    Know(Vec<NameHash>, oneshot::Sender<Vec<bool>>),
    /// Which of these got a point since then?
    AreWritten(Vec<NameHash>, i64, oneshot::Sender<Vec<bool>>),
    /// Forget these unless they got a point since then; says which are forgotten.
    Forget(Vec<NameHash>, i64, oneshot::Sender<Vec<bool>>),
    /// What became of this shard's points?
    Ledger(oneshot::Sender<Ledger>),
    /// Write everything now; answers when it is committed.
    FlushAll(oneshot::Sender<()>),
    /// Take what is queued, hold it durably, end.
    Stop(oneshot::Sender<Ledger>),
}

/// Numbers that an owner shows.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) applied: AtomicU64,
    pub(crate) held: AtomicU64,
    pub(crate) metrics: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Journal segments below are not needed.
    pub(crate) needed_from: AtomicU32,
    pub(crate) paused: AtomicBool,
}

/// One shard and its surroundings.
pub(crate) struct Owner {
    pub(crate) shard: Shard,
    pub(crate) writer: JournalWriter,
    pub(crate) journal: Journal,
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) shown: Arc<Shown>,
    pub(crate) control: mpsc::Receiver<Control>,
    pub(crate) points: mpsc::Receiver<Share>,
    pub(crate) jobs: mpsc::Sender<Job>,
    /// Those that need slots from the store; a flusher of its own does them.
    pub(crate) reading: mpsc::Sender<Job>,
    /// A walk over all metrics begins at most this often.
    pub(crate) walk_every: Duration,
    pub(crate) state: Progress,
}

/// Where an owner stands between two turns of its loop.
#[derive(Debug)]
pub(crate) struct Progress {
    handed_over: Instant,
    due_since: Option<Instant>,
    rest: Option<(Share, usize)>,
    throttle: Throttle,
    flush_all: Option<FlushAll>,
    stopping: Option<oneshot::Sender<Ledger>>,
    drained: bool,
    under_way: usize,
    ready: VecDeque<Job>,
    /// The last job that reads was one of late points.
    late_went_last: bool,
    reads: Vec<Read>,
    /// Shares taken off the queue.
    taken: u64,
    /// When the walk over all metrics began that is under way, or was the last.
    walked: Option<Instant>,
}

/// A read that waits for what came before it: queued points, and late ones on their way to the store.
#[derive(Debug)]
struct Read {
    /// The number of shares taken once all are that were queued before it.
    shares: u64,
    /// What came later need not be in the answer; known once those shares are taken.
    sequence: Option<u64>,
    since: Instant,
    query: HeadQuery,
    answer: oneshot::Sender<Vec<Option<HeadAnswer>>>,
}

#[derive(Debug)]
struct FlushAll {
    /// All slots, or only state rows: a stop.
    slots: bool,
    /// Metrics to flush.
    order: VecDeque<u32>,
    /// Those whose flush is handed over.
    sent: VecDeque<u32>,
    /// Late points that came later need not be in the store; without it none may be left.
    sequence: Option<u64>,
    done: Vec<oneshot::Sender<()>>,
}

impl FlushAll {
    /// True while nothing else is flushed.
    fn goes_first(&self) -> bool {
        !self.slots || !self.order.is_empty()
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            handed_over: Instant::now(),
            due_since: None,
            rest: None,
            throttle: Throttle::new(10_000),
            flush_all: None,
            stopping: None,
            drained: false,
            under_way: 0,
            ready: VecDeque::new(),
            late_went_last: false,
            reads: Vec::new(),
            taken: 0,
            walked: None,
        }
    }
}

impl Owner {
    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self) {
        let mut tick = tokio::time::interval(HAND_OVER);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let takes_points = self.state.rest.is_none() && !self.state.drained;
            tokio::select! {
                biased;
                control = self.control.recv() => match control {
                    Some(control) => self.obey(control),
                    None => return,
                },
                _ = tick.tick() => self.tick(),
                share = self.points.recv(), if takes_points => match share {
                    Some(share) => self.take_next(share),
                    None => return,
                },
            }
            if self.state.handed_over.elapsed() >= HAND_OVER {
                self.hand_over();
            }
            self.flush();
            if self.may_end() {
                return;
            }
        }
    }

    fn obey(&mut self, control: Control) {
        match control {
            Control::Created(metrics) => {
                for at in metrics {
                    self.shard.heads[at].set(flag::CREATED);
                }
            }
            Control::Done(done) => {
                self.state.under_way -= 1;
                match done {
                    Done::Flush(items) => self.shard.flush_done(items),
                    Done::Late(late) => self.shard.late_done(late),
                }
                self.answer_reads();
            }
            Control::Read(query, answer) => {
                let shares = self.state.taken + self.points.len() as u64;
                self.state.reads.push(Read { shares, sequence: None, since: Instant::now(), query, answer });
                self.answer_reads();
            }
            Control::Adopt(metrics) => self.shard.adopt(&metrics),
            Control::Know(hashes, answer) => {
                let _ = answer.send(hashes.iter().map(|hash| self.shard.find(hash).is_some()).collect());
            }
            Control::AreWritten(hashes, since, answer) => {
                let written = hashes.iter().map(|hash| self.shard.is_written(hash, since)).collect();
                let _ = answer.send(written);
            }
            Control::Forget(hashes, since, answer) => {
                let forget = |hash| self.shard.forget(hash, since, &mut self.writer);
                let _ = answer.send(hashes.iter().map(forget).collect());
            }
            Control::FlushAll(done) => {
                let order = self.shard.held_in_id_order();
                // One that is under way goes on as part of this one.
                let mut waiting = self.state.flush_all.take().map(|all| all.done).unwrap_or_default();
                waiting.push(done);
                let (sent, sequence) = (VecDeque::new(), Some(self.shard.sequence));
                self.state.flush_all = Some(FlushAll { slots: true, order, sent, sequence, done: waiting });
            }
            Control::Ledger(answer) => {
                let _ = answer.send(self.shard.ledger);
            }
            Control::Stop(done) => self.state.stopping = Some(done),
        }
    }

    /// Answers the reads whose points are applied and whose late ones are in the store, where the
    /// reader looks next.
    fn answer_reads(&mut self) {
        if self.state.reads.is_empty() {
            return;
        }
        let crowded = self.state.reads.len() > READS_MAX;
        // Points that the journal does not take may wait for long.
        let halted = self.state.rest.is_some();
        for mut read in std::mem::take(&mut self.state.reads) {
            if read.sequence.is_none() && (halted || self.state.taken >= read.shares) {
                read.sequence = Some(self.shard.sequence);
            }
            let stored = |sequence| self.shard.late_are_stored(&read.query.hashes, sequence);
            if !(crowded || read.sequence.is_some_and(stored) || read.since.elapsed() > READ_PATIENCE) {
                self.state.reads.push(read);
                continue;
            }
            let answers = read.query.hashes.iter().map(|hash| self.shard.read(&read.query, hash)).collect();
            // The reader may have gone away.
            let _ = read.answer.send(answers);
        }
    }

    fn take_next(&mut self, share: Share) {
        self.state.taken += 1;
        self.take(share, 0);
        self.answer_reads();
    }

    fn take(&mut self, share: Share, from: usize) {
        let now = self.clock.now();
        self.shard.release_waiting(now, &mut self.writer);
        let mut world = World { writer: &mut self.writer, gate: &mut self.gate, now };
        match self.shard.apply(&share, from, &mut world) {
            Ok(()) => self.state.rest = None,
            Err((done, halt)) => {
                if let Halt::Journal(error) = halt {
                    self.report(&error);
                }
                self.state.rest = Some((share, done));
            }
        }
        self.show();
    }

    fn tick(&mut self) {
        self.hand_over();
        self.gate.drain();
        self.answer_reads();
        let now = self.clock.now();
        self.shard.release_waiting(now, &mut self.writer);
        if let Some((share, from)) = self.state.rest.take() {
            self.take(share, from);
        }
        self.walk(now);
        // In this order, so that a stop sees the end of its own flush before it begins another.
        self.stop_when_drained();
        self.end_flush_all();
        self.show();
    }

    fn walk(&mut self, now: i64) {
        if !self.has_room() || self.state.flush_all.as_ref().is_some_and(FlushAll::goes_first) {
            return;
        }
        let interval = self.walk_every;
        if self.shard.sweep.rests && self.state.walked.is_some_and(|began| began.elapsed() < interval) {
            return;
        }
        if self.shard.sweep.rests || self.state.walked.is_none() {
            self.state.walked = Some(Instant::now());
        }
        let ticks = match (interval.as_millis() / HAND_OVER.as_millis()) as u32 {
            0 => WALK_TICKS,
            ticks => ticks.min(WALK_TICKS),
        };
        let heads = (self.shard.len() as u32 / ticks).clamp(64, 4 * FLUSH_METRICS as u32);
        let mut flushes = Flushes::default();
        self.shard.sweep(heads, self.writer.segment(), now, &mut flushes);
        flushes.into_jobs().for_each(|job| self.send(job));
    }

    fn hand_over(&mut self) {
        self.state.handed_over = Instant::now();
        if let Err(error) = self.writer.hand_over() {
            self.report(&error);
        }
    }

    fn report(&self, error: &JournalError) {
        if self.state.throttle.pass(self.clock.now_ms()).is_some() {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(error, "the journal does not take points: reading pauses until it does");
        }
    }

    /// Hands jobs to the flushers while they have room: late points first, so that a later state row
    /// covers them; but those of a metric whose turn it is to be flushed wait for that.
    fn flush(&mut self) {
        while self.has_room() {
            if !self.shard.late.is_empty()
                && let Some(flushes) = self.shard.take_aged(self.writer.segment(), self.clock.now())
            {
                flushes.into_jobs().for_each(|job| self.send(job));
                continue;
            }
            if !(self.send_late() || self.send_flush()) {
                return;
            }
        }
    }

    fn send_late(&mut self) -> bool {
        if !self.late_may_go() || self.shard.late.is_empty() {
            return false;
        }
        let Some(job) = self.shard.take_late() else { return false };
        self.send(Job::Late(job));
        true
    }

    fn send_flush(&mut self) -> bool {
        let Some(flushes) = self.next_flush() else { return false };
        flushes.into_jobs().for_each(|job| self.send(job));
        true
    }

    /// True when a flush can be handed over; also looks whether one may that reads.
    fn has_room(&mut self) -> bool {
        for job in std::mem::take(&mut self.state.ready) {
            self.send(job);
        }
        self.shard.may_read = self.reading.capacity() > 0;
        self.state.ready.is_empty() && self.jobs.capacity() > 0
    }

    /// The last place in the queue of what reads goes to late points and flushes in turn: many small jobs
    /// of late points would leave no room for a flush whenever one is due.
    fn late_may_go(&self) -> bool {
        let room = self.reading.capacity();
        room > 1 || (room == 1 && !self.state.late_went_last)
    }

    fn next_flush(&mut self) -> Option<Flushes> {
        if let Some(flushes) = self.next_of_all() {
            return Some(flushes);
        }
        if self.state.flush_all.as_ref().is_some_and(FlushAll::goes_first) {
            return None;
        }
        if self.shard.flushing.is_empty() && self.shard.due.is_empty() {
            return None;
        }
        if self.shard.flushing.is_empty() {
            let since = *self.state.due_since.get_or_insert_with(Instant::now);
            if self.shard.due.len() < DUE_METRICS && since.elapsed() < Duration::from_secs(1) {
                return None;
            }
            self.shard.begin_due();
            self.state.due_since = None;
        }
        self.shard.take_due(FLUSH_METRICS, self.writer.segment())
    }

    fn send(&mut self, job: Job) {
        let flusher = if job.reads() {
            self.state.late_went_last = matches!(job, Job::Late(_));
            &self.reading
        } else {
            &self.jobs
        };
        match flusher.try_send(job) {
            Ok(()) => self.state.under_way += 1,
            Err(mpsc::error::TrySendError::Full(job) | mpsc::error::TrySendError::Closed(job)) => {
                self.state.ready.push_back(job);
            }
        }
    }

    fn next_of_all(&mut self) -> Option<Flushes> {
        let now = self.clock.now();
        let segment = self.writer.segment();
        let all = self.state.flush_all.as_mut()?;
        let extent = if all.slots { Extent::All { now } } else { self.shard.last_extent() };
        let mut flushes = Flushes::default();
        // Metrics that cannot go yet are tried on the next turn.
        for _ in 0..all.order.len() {
            if flushes.len() == FLUSH_METRICS {
                break;
            }
            let Some(at) = all.order.pop_front() else { break };
            if self.shard.heads[at].is(flag::VACANT) {
                continue;
            }
            if self.shard.may_flush(at) {
                self.shard.build(at, extent, segment, &mut flushes);
                all.sent.push_back(at);
            } else {
                self.shard.hold_late_back(at);
                all.order.push_back(at);
            }
        }
        (flushes.len() > 0).then_some(flushes)
    }

    /// Looks whether all that was there when it was asked for is committed. What has come since, and goes
    /// on coming, is not waited for.
    fn end_flush_all(&mut self) {
        let Some(all) = &mut self.state.flush_all else { return };
        while all.sent.pop_front_if(|at| !self.shard.heads[*at].is(flag::IN_FLIGHT)).is_some() {}
        let is_stored = || match all.sequence {
            Some(sequence) => self.shard.late.are_stored(sequence),
            None => self.shard.late.is_idle() && self.state.under_way == 0,
        };
        if all.order.is_empty()
            && all.sent.is_empty()
            && is_stored()
            && let Some(all) = self.state.flush_all.take()
        {
            for done in all.done {
                let _ = done.send(());
            }
        }
    }

    /// A stop: once every queued point is applied, all heads get state rows, in id order.
    fn stop_when_drained(&mut self) {
        if self.state.stopping.is_none() || self.state.flush_all.is_some() || self.state.rest.is_some() {
            return;
        }
        while let Ok(share) = self.points.try_recv() {
            self.take_next(share);
            if self.state.rest.is_some() {
                return;
            }
        }
        self.points.close();
        self.state.drained = true;
        let order = if self.shard.limits.at_intervals {
            self.shard.held_in_id_order()
        } else {
            self.shard.unflushed_in_id_order()
        };
        let (sent, done) = (VecDeque::new(), Vec::new());
        self.state.flush_all = Some(FlushAll { slots: false, order, sent, sequence: None, done });
    }

    fn may_end(&mut self) -> bool {
        let idle = self.state.flush_all.is_none() && self.state.under_way == 0 && self.state.ready.is_empty();
        if !idle || !self.state.drained || self.shard.has_unflushed() {
            return false;
        }
        self.hand_over();
        self.shard.sweep.needed_from = self.journal.current_segment() + 1;
        self.show();
        if let Some(done) = self.state.stopping.take() {
            let _ = done.send(self.shard.ledger);
        }
        true
    }

    fn show(&mut self) {
        self.shard.show();
        self.shown.applied.store(self.shard.ledger.received, Ordering::Relaxed);
        self.shown.held.store(self.shard.ledger.held, Ordering::Relaxed);
        self.shown.metrics.store(self.shard.metrics() as u64, Ordering::Relaxed);
        self.shown.bytes.store(self.shard.bytes() as u64, Ordering::Relaxed);
        self.shown.needed_from.store(self.shard.sweep.needed_from, Ordering::Relaxed);
        self.shown.paused.store(self.state.rest.is_some(), Ordering::Relaxed);
    }
}
