//! The worker of a shard: a thread that applies the shard's points, answers commands and keeps flushes going.
//! Commands are handled before points, so that a full queue of points delays no read and no acknowledgement.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use plumbago_journal::{Journal, JournalError, JournalWriter, Record};
use plumbago_model::Clock;
use plumbago_telemetry::Throttle;
use tokio::sync::{mpsc, oneshot};

use super::create::Gate;
use super::flush_all::FlushAll;
use crate::command::{ShardCommand, ShardGauges, StopOrder};
use crate::router::{NameHash, ShardBatch};
use crate::shard::copy::{BeginMove, Moved};
use crate::shard::import::{Begun, End};
use crate::shard::jobs::{Done, Job};
use crate::shard::read::{HeadAnswer, HeadQuery};
use crate::shard::restore::Replayed;
use crate::shard::{ApplyContext, ApplyStop, Shard};

/// Journal frames are written to the file at least this often.
pub(super) const WRITE_OUT: Duration = Duration::from_millis(10);
/// Pause between two ticks of a worker that has nothing to do.
const QUIET_PAUSE: Duration = Duration::from_millis(100);
/// A worker that has received nothing for this long makes longer pauses.
const QUIET_AFTER: Duration = Duration::from_secs(1);
/// Approximate number of bytes of the journal that a tick reads again.
const READ_AGAIN_BYTES: u64 = 1 << 20;
/// How long a read waits for late points that are on their way to the store.
const READ_TIMEOUT: Duration = Duration::from_millis(500);
/// Largest number of reads that may wait for late points. When there are more, all of them are answered at
/// once.
const READS_MAX: usize = 256;

/// A shard, and what its worker needs to run it.
pub(crate) struct ShardWorker {
    pub(crate) shard: Shard,
    pub(crate) writer: JournalWriter,
    pub(crate) journal: Journal,
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gauges: Arc<ShardGauges>,
    pub(crate) commands: mpsc::Receiver<ShardCommand>,
    pub(crate) points: mpsc::Receiver<ShardBatch>,
    /// Jobs that need nothing from the store.
    pub(crate) jobs: mpsc::Sender<Job>,
    /// Jobs that need slots from the store, for a separate flusher.
    pub(crate) reading: mpsc::Sender<Job>,
    /// A sweep over all metrics begins at most this often.
    pub(crate) sweep_every: Duration,
    pub(crate) state: Progress,
}

/// The state of a worker between two rounds of its loop.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(super) written_out: Instant,
    /// When the last command or batch arrived.
    active: Instant,
    ticked: Instant,
    /// Pause before the next tick. During a tick, the pause that preceded it.
    pub(super) pause: Duration,
    /// When a metric became due while none was being flushed.
    pub(super) due_since: Option<Instant>,
    /// A batch that was applied only in part, and the first entry that is left.
    pub(super) unapplied: Option<(ShardBatch, usize)>,
    throttle: Throttle,
    pub(super) flush_all: Option<FlushAll>,
    pub(super) stopping: Option<StopOrder>,
    /// A position that is used during a stop for a checkpoint: no head before it is being created.
    pub(super) created_until: u32,
    /// Whether the queue of points is closed and empty.
    pub(super) drained: bool,
    /// The number of flushes in flight. Late points in flight are counted by metric.
    pub(super) in_flight: usize,
    /// Jobs for which a flusher's queue had no room.
    pub(super) ready: VecDeque<Job>,
    /// Whether the last job that reads was one of late points.
    pub(super) late_went_last: bool,
    reads: Vec<PendingRead>,
    /// Requests that wait until the points queued before them are in the journal's file. Each has the value that
    /// `taken` had when the request was received.
    journaled: Vec<(u64, oneshot::Sender<()>)>,
    /// The number of batches taken from the queue.
    taken: u64,
    /// When the last sweep over all metrics began.
    pub(super) swept: Option<Instant>,
}

/// A read that waits for everything before it: queued points, and late points in flight.
#[derive(Debug)]
struct PendingRead {
    /// The value of `taken` once every batch that was queued before the read is applied.
    batches: u64,
    /// The journal sequence at that time. Points that arrived later need not be in the answer.
    sequence: Option<u64>,
    since: Instant,
    query: HeadQuery,
    answer: oneshot::Sender<Vec<Option<HeadAnswer>>>,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            written_out: Instant::now(),
            active: Instant::now(),
            ticked: Instant::now(),
            pause: WRITE_OUT,
            due_since: None,
            unapplied: None,
            throttle: Throttle::new(10_000),
            flush_all: None,
            stopping: None,
            created_until: 0,
            drained: false,
            in_flight: 0,
            ready: VecDeque::new(),
            late_went_last: false,
            reads: Vec::new(),
            journaled: Vec::new(),
            taken: 0,
            swept: None,
        }
    }
}

impl ShardWorker {
    /// Runs until a stop is complete or the engine is dropped.
    pub(crate) async fn run(mut self) {
        let tick = tokio::time::sleep(Duration::ZERO);
        tokio::pin!(tick);
        loop {
            let takes_points = self.state.unapplied.is_none() && !self.state.drained;
            let comes = tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(command) => { self.handle(command); true }
                    None => return,
                },
                () = &mut tick => { self.tick(); false }
                batch = self.points.recv(), if takes_points => match batch {
                    Some(batch) => { self.take_next(batch); true }
                    None => return,
                },
            };
            if self.state.written_out.elapsed() >= WRITE_OUT {
                self.write_out();
            }
            self.flush();
            if self.end_if_stopped() {
                return;
            }
            let next: tokio::time::Instant = self.next_tick(comes).into();
            if tick.deadline() != next {
                tick.as_mut().reset(next);
            }
        }
    }

    /// When the next tick is due. `comes` says whether a command or a batch was just handled; otherwise a
    /// tick has just ended.
    fn next_tick(&mut self, comes: bool) -> Instant {
        let now = Instant::now();
        if comes {
            self.state.active = now;
        } else {
            self.state.ticked = now;
        }
        let is_quiet = now - self.state.active >= QUIET_AFTER && self.has_nothing_to_do();
        self.state.pause = if is_quiet { QUIET_PAUSE } else { WRITE_OUT };
        self.state.ticked + self.state.pause
    }

    /// Whether a tick has nothing to do except to continue the sweep and check the time.
    fn has_nothing_to_do(&self) -> bool {
        let state = &self.state;
        let is_busy = state.unapplied.is_some() || state.flush_all.is_some() || state.stopping.is_some();
        let is_flushing = state.in_flight > 0
            || !state.ready.is_empty()
            || !self.shard.due.is_empty()
            || !self.shard.flushing.is_empty()
            || !self.shard.late.is_idle();
        let is_asked = !state.reads.is_empty() || !state.journaled.is_empty();
        let is_written = self.writer.pending_points() == 0 && self.gate.is_drained();
        !is_busy && !is_flushing && !is_asked && is_written
    }

    fn handle(&mut self, command: ShardCommand) {
        match command {
            ShardCommand::Created(created) => {
                let now = self.clock.now();
                let mut context = ApplyContext { writer: &mut self.writer, gate: &mut self.gate, now };
                created.iter().for_each(|created| self.shard.created(created, &mut context));
            }
            ShardCommand::Done(done) => {
                match done {
                    Done::Flush(items) => {
                        self.state.in_flight -= 1;
                        self.shard.flush_done(items);
                    }
                    Done::Late(late) => self.shard.late_done(late),
                }
                self.answer_reads();
            }
            ShardCommand::Read(query, since, answer) => {
                let batches = self.state.taken + self.points.len() as u64;
                self.state.reads.push(PendingRead { batches, sequence: None, since, query, answer });
                self.answer_reads();
            }
            ShardCommand::Adopt(metrics) => self.shard.adopt(metrics),
            // An error of `send` means that the caller no longer waits for the answer.
            ShardCommand::Contains(hashes, answer) => {
                let _ = answer.send(hashes.iter().map(|hash| self.shard.find(hash).is_some()).collect());
            }
            ShardCommand::Settings(hashes, answer) => {
                let _ = answer.send(hashes.iter().map(|hash| self.shard.settings(hash)).collect());
            }
            ShardCommand::AreWritten(hashes, since, answer) => {
                let written = hashes.iter().map(|hash| self.shard.is_written(hash, since)).collect();
                let _ = answer.send(written);
            }
            ShardCommand::MayHavePoints(hashes, range, answer) => {
                let now = self.clock.now();
                let may = |hash| self.shard.may_have_points(hash, range, now);
                let _ = answer.send(hashes.iter().map(may).collect());
            }
            ShardCommand::Forget(hashes, since, answer) => {
                let forget = |hash| self.shard.forget(hash, since, &mut self.writer);
                let _ = answer.send(hashes.iter().map(forget).collect());
            }
            ShardCommand::BeginDeletions(hashes, answer) => {
                let _ = answer.send(self.begin_deletions(&hashes));
            }
            ShardCommand::EndDeletions(hashes, answer) => {
                self.shard.end_deletions(&hashes, &mut self.gate);
                let _ = answer.send(vec![true; hashes.len()]);
            }
            ShardCommand::BeginQuotas(generation, answer) => {
                self.shard.begin_quotas(generation);
                let _ = answer.send(());
            }
            ShardCommand::DecideQuotas(decisions) => self.shard.decide_quotas(decisions),
            ShardCommand::UndecidedQuotas(answer) => {
                let _ = answer.send(self.shard.undecided_quotas());
            }
            ShardCommand::EndQuotas(answer) => {
                self.shard.end_quotas();
                let _ = answer.send(());
            }
            ShardCommand::ClosedUntil(hashes, answer) => {
                let _ = answer.send(hashes.iter().map(|hash| self.shard.closed_until(hash)).collect());
            }
            ShardCommand::BeginImport(metrics, answer) => {
                let begun = metrics.iter().map(|begin| self.shard.begin_import(begin)).collect();
                if let Err(begun) = answer.send(begun) {
                    self.abandon_import(begun);
                }
            }
            ShardCommand::BeginRange(metrics, answer) => {
                let writer = &mut self.writer;
                let begun = metrics.iter().map(|begin| self.shard.begin_range(begin, writer)).collect();
                self.write_out();
                self.update_gauges();
                if let Err(begun) = answer.send(begun) {
                    self.abandon_import(begun);
                }
            }
            ShardCommand::BeginMoves(moves, answer) => {
                let _ = answer.send(self.begin_moves(&moves));
            }
            ShardCommand::EndImport(ends, answer) => {
                self.end_import(ends);
                let _ = answer.send(());
            }
            ShardCommand::FlushAll(done) => self.begin_flush_all(done),
            ShardCommand::Journaled(answer) => {
                self.state.journaled.push((self.state.taken + self.points.len() as u64, answer));
            }
            ShardCommand::Crowded(answer) => {
                let _ = answer.send(self.shard.crowded(self.clock.now()));
            }
            ShardCommand::Ledger(answer) => {
                let _ = answer.send(self.shard.ledger());
            }
            ShardCommand::Stop(order) => self.state.stopping = Some(order),
        }
    }

    fn end_import(&mut self, ends: Vec<End>) {
        let now = self.clock.now();
        let mut context = ApplyContext { writer: &mut self.writer, gate: &mut self.gate, now };
        self.shard.end_import(ends, &mut context);
        self.update_gauges();
    }

    /// Releases heads if the caller no longer waits for the answer.
    fn abandon_import(&mut self, begun: Vec<Begun>) {
        let end = |begun| match begun {
            Begun::Ready(head) => {
                Some(End { at: head.at, name: Arc::default(), open: None, fill: Vec::new(), config: None })
            }
            Begun::Unknown | Begun::Busy => None,
        };
        self.end_import(begun.into_iter().filter_map(end).collect());
    }

    /// Begins deletions. No deletion begins while everything is being flushed. The removals are written to
    /// the journal's file before the caller deletes anything; otherwise a kill in between would bring the
    /// points back.
    fn begin_deletions(&mut self, hashes: &[NameHash]) -> Vec<bool> {
        if self.state.flush_all.is_some() || self.state.stopping.is_some() {
            return vec![false; hashes.len()];
        }
        let begun = self.shard.begin_deletions(hashes, &mut self.writer);
        self.write_out();
        self.update_gauges();
        begun
    }

    /// Begins the deletion of metrics that were copied.
    fn begin_moves(&mut self, moves: &[BeginMove]) -> Vec<Moved> {
        if self.state.flush_all.is_some() || self.state.stopping.is_some() {
            return moves.iter().map(|_| Moved::Busy).collect();
        }
        let begun = moves.iter().map(|moved| self.shard.begin_move(moved, &mut self.writer)).collect();
        self.write_out();
        self.update_gauges();
        begun
    }

    /// Answers the reads for which every earlier point is applied and every earlier late point is stored.
    /// After the answer, the reader reads the store.
    fn answer_reads(&mut self) {
        if self.state.reads.is_empty() {
            return;
        }
        let too_many = self.state.reads.len() > READS_MAX;
        // A batch that cannot be applied now may wait long, for example for the journal. Reads do not wait for
        // it.
        let is_stuck = self.state.unapplied.is_some();
        for mut read in std::mem::take(&mut self.state.reads) {
            if read.sequence.is_none() && (is_stuck || self.state.taken >= read.batches) {
                read.sequence = Some(self.shard.sequence);
            }
            let stored = |sequence| self.shard.late_are_stored(&read.query.hashes, sequence);
            if !(too_many || read.sequence.is_some_and(stored) || read.since.elapsed() > READ_TIMEOUT) {
                self.state.reads.push(read);
                continue;
            }
            let answers = read.query.hashes.iter().map(|hash| self.shard.read(&read.query, hash)).collect();
            let _ = read.answer.send(answers);
        }
    }

    pub(super) fn take_next(&mut self, batch: ShardBatch) {
        self.state.taken += 1;
        self.apply(batch, 0);
        self.answer_reads();
    }

    fn apply(&mut self, batch: ShardBatch, from: usize) {
        let now = self.clock.now();
        self.shard.release_future(now, &mut self.writer);
        let mut context = ApplyContext { writer: &mut self.writer, gate: &mut self.gate, now };
        match self.shard.apply(&batch, from, &mut context) {
            Ok(()) => self.state.unapplied = None,
            Err((done, stop)) => {
                if let ApplyStop::Journal(error) = stop {
                    self.report(&error);
                }
                self.state.unapplied = Some((batch, done));
            }
        }
        self.update_gauges();
    }

    fn tick(&mut self) {
        self.write_out();
        self.read_waiting();
        self.gate.drain();
        self.answer_reads();
        let now = self.clock.now();
        self.shard.release_future(now, &mut self.writer);
        if let Some((batch, from)) = self.state.unapplied.take() {
            self.apply(batch, from);
        }
        self.sweep(now);
        // This order lets a stop see the end of its own flush before it begins another.
        self.stop_when_drained();
        self.end_flush_all();
        self.update_gauges();
    }

    /// Reads late points that wait in the journal, once there is room in memory. Each call reads little, so
    /// that points that arrive meanwhile are not delayed.
    fn read_waiting(&mut self) {
        let Some(position) = self.shard.waits_from() else { return };
        let is_written = self.writer.pending_points() == 0;
        let now = self.clock.now();
        let shard = &mut self.shard;
        let read = self.journal.read_again(position, READ_AGAIN_BYTES, &mut |record| {
            if let Record::Point { sequence, metric, timestamp, value } = record {
                shard.take_again(&Replayed { sequence, metric, timestamp, value }, now);
            }
        });
        match read {
            Ok((next, is_end)) => self.shard.end_reading(next, is_end && is_written),
            Err(error) => {
                if self.state.throttle.pass(self.clock.now_ms()).is_some() {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::error!(
                        error,
                        "cannot read late points back from the journal; they wait there, and reading is retried"
                    );
                }
            }
        }
    }

    pub(super) fn write_out(&mut self) {
        self.state.written_out = Instant::now();
        match self.writer.write_out() {
            Ok(_) => self.answer_journaled(),
            Err(error) => self.report(&error),
        }
    }

    fn answer_journaled(&mut self) {
        // The last batch that was taken may be applied only in part.
        let applied = self.state.taken - u64::from(self.state.unapplied.is_some());
        for (_, answer) in self.state.journaled.extract_if(.., |(batches, _)| *batches <= applied) {
            let _ = answer.send(());
        }
    }

    pub(super) fn report(&self, error: &JournalError) {
        if self.state.throttle.pass(self.clock.now_ms()).is_some() {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(
                error,
                "failed to write points to the journal; no points are accepted until writing works again"
            );
        }
    }

    pub(super) fn update_gauges(&mut self) {
        self.shard.export_counters();
        let gauges = &self.gauges;
        gauges.applied.store(self.shard.ledger.received, Ordering::Relaxed);
        gauges.held.store(self.shard.ledger.held, Ordering::Relaxed);
        gauges.late_waiting.store(self.shard.ledger().waiting, Ordering::Relaxed);
        let flush_all_left = self.state.flush_all.as_ref().map_or(0, FlushAll::left);
        gauges.flush_all_left.store(flush_all_left, Ordering::Relaxed);
        gauges.metrics.store(self.shard.metrics() as u64, Ordering::Relaxed);
        gauges.bytes.store(self.shard.bytes() as u64, Ordering::Relaxed);
        gauges.needed_from.store(self.shard.sweep.needed_from, Ordering::Relaxed);
        gauges.paused.store(self.state.unapplied.is_some(), Ordering::Relaxed);
    }
}
