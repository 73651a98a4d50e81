//! Writes points. Rows of the same partition share a request; many requests are in flight at once.

mod plan;
mod ranges;
mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use futures::StreamExt;
use plumbago_model::Clock;
use plumbago_store::{ErrorKind, StoreError, WriteBatch, WriteRefusal, WriterIdentity};
use plumbago_telemetry::Throttle;
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::config::Config;
use crate::driver::Session;
use crate::error;
use crate::layout::Table;
use crate::prepared::{TableStatements, Tables};
use crate::server_clock::ServerClock;
use crate::stats::Stats;
use crate::writers::SharedIdentity;

use plan::{Planner, Request};
use ranges::Ranges;

/// If more requests of a batch than this fail, the rest of the batch is not sent.
const FAILURES_MAX: u32 = 3;

/// Writes points with a timestamp that the caller chooses.
#[derive(Debug)]
pub struct PointWriter {
    tables: Arc<Tables>,
    config: Config,
    identity: SharedIdentity,
    clock: Arc<dyn Clock>,
    server_clock: ServerClock,
    stats: Stats,
    in_flight: Semaphore,
    ranges: Ranges,
    last_timestamp_us: AtomicI64,
    throttle: Throttle,
}

impl PointWriter {
    pub(crate) fn new(
        tables: Arc<Tables>,
        config: &Config,
        identity: SharedIdentity,
        (clock, server_clock): (Arc<dyn Clock>, ServerClock),
        stats: Stats,
    ) -> Self {
        Self {
            tables,
            config: config.clone(),
            identity,
            clock,
            server_clock,
            stats,
            in_flight: Semaphore::new(config.concurrency as usize),
            ranges: Ranges::default(),
            last_timestamp_us: AtomicI64::new(0),
            throttle: Throttle::new(10_000),
        }
    }

    /// Writes all runs of a batch with `timestamp_us` (microseconds since the epoch). Of two writes to a
    /// slot, the one with the later timestamp wins, in whatever order they arrive, so a batch can be repeated
    /// at any time. Returns when every row is confirmed.
    ///
    /// # Errors
    /// The error of the request, if any row was not confirmed. If a table is missing or has the wrong form,
    /// the rows of the other tables are still written, and the error is `Unavailable` with the table's name.
    pub async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), StoreError> {
        self.write_as(self.identity(), batch, timestamp_us).await
    }

    /// Like [`PointWriter::write_at`], with the rows of another writer.
    ///
    /// # Errors
    /// As [`PointWriter::write_at`].
    pub async fn write_as(
        &self,
        writer: WriterIdentity,
        batch: &WriteBatch,
        timestamp_us: i64,
    ) -> Result<(), StoreError> {
        let other = Some(writer).filter(|writer| *writer != self.identity());
        let written = self.write_runs_as(other, batch, timestamp_us, &[]).await;
        written.map(|_| ()).map_err(|mut refusal| {
            if refusal.error.kind == ErrorKind::Invalid {
                refusal.error.kind = ErrorKind::Unavailable;
            }
            refusal.error
        })
    }

    /// Like [`PointWriter::write_at`], for callers that repeat only the runs that failed.
    ///
    /// # Errors
    /// The error of a request with the indexes of all runs that were not confirmed completely. Its kind is
    /// `Invalid` if tables that cannot be written are the only problem.
    pub async fn write_runs_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), WriteRefusal> {
        self.write_for(batch, timestamp_us, &[]).await.map(|_| ())
    }

    /// Like [`PointWriter::write_runs_at`], but writes only rows that are kept on one of these nodes, given by their
    /// host ids; all rows if no node is given. Returns the number of rows. If nodes are given, all replicas of a row
    /// have to confirm it, unless one of them is not connected. The reason: for a while after the return of a node the
    /// others still consider it down, and a quorum would confirm rows that the node never gets.
    ///
    /// Rows that are older than the present writer id carry the former one
    /// ([`CassandraStore::set_former_writer`]).
    ///
    /// [`CassandraStore::set_former_writer`]: crate::CassandraStore::set_former_writer
    ///
    /// # Errors
    /// As [`PointWriter::write_runs_at`].
    pub async fn write_for(
        &self,
        batch: &WriteBatch,
        timestamp_us: i64,
        nodes: &[Uuid],
    ) -> Result<u64, WriteRefusal> {
        self.write_runs_as(self.identity.former_at(timestamp_us), batch, timestamp_us, nodes).await
    }

    /// Counts the rows of a batch by the nodes that keep them, given by their host ids, and writes nothing. A
    /// row counts for each of its replicas, and not at all if they are not known.
    ///
    /// # Errors
    /// If there is no connection.
    pub async fn rows_by_node(&self, batch: &WriteBatch) -> Result<BTreeMap<Uuid, u64>, StoreError> {
        let now = self.server_clock.limit(self.clock.now());
        let requests = Planner::new(&self.config, self.identity(), now).plan(batch).requests;
        let mut rows = BTreeMap::new();
        if requests.is_empty() {
            return Ok(rows);
        }
        let session = self.tables.session().await?;
        for request in &requests {
            let Ok(statements) = self.tables.get_to_write(request.table).await else { continue };
            let Some((hosts, _)) = ranges::hosts(&*session, &statements, request) else { continue };
            for host in hosts.iter() {
                *rows.entry(*host).or_default() += request.rows.len() as u64;
            }
        }
        Ok(rows)
    }

    /// Writes runs with the identity of this daemon unless `other` names another one.
    async fn write_runs_as(
        &self,
        other: Option<WriterIdentity>,
        batch: &WriteBatch,
        timestamp_us: i64,
        nodes: &[Uuid],
    ) -> Result<u64, WriteRefusal> {
        let everything =
            |error| WriteRefusal { error, runs: (0..batch.runs.len()).collect(), is_known_down: false };
        let writer = other.unwrap_or_else(|| self.identity());
        // The id is compared once more: meanwhile it may have been lost, and another one registered in its place.
        let is_valid = || self.identity.is_valid(self.clock.now_ms()) && writer == self.identity();
        if other.is_none() && !is_valid() {
            let why =
                "the registration of the writer id was not renewed for a day, or another daemon has the id";
            return Err(everything(StoreError::with(ErrorKind::Unavailable, "write points", why)));
        }
        let now = self.server_clock.limit(self.clock.now());
        let mut plan = Planner::new(&self.config, writer, now).plan(batch);
        self.stats.expired.add(plan.expired);
        if plan.requests.is_empty() {
            return Ok(0);
        }
        let session = self.tables.session().await.map_err(everything)?;
        if !nodes.is_empty() {
            self.keep_requests_of(&*session, &mut plan.requests, nodes).await;
        }
        let rows = plan.requests.iter().map(|request| request.rows.len() as u64).sum();
        // The runs of each request; `None` once the request is confirmed. Requests that are never sent keep
        // their runs.
        let mut open: Vec<Option<Vec<u32>>> = plan.requests.iter().map(|r| Some(r.runs.clone())).collect();
        let mut answers = futures::stream::iter(plan.requests.into_iter().enumerate())
            .map(|(n, request)| {
                let session = &*session;
                async move { (n, self.send(session, request, timestamp_us).await) }
            })
            .buffer_unordered(self.config.concurrency as usize);
        let (mut failure, mut failures, mut known_down) = (None, 0, None);
        while let Some((n, answer)) = answers.next().await {
            let error = match answer {
                Ok(()) => {
                    open[n] = None;
                    continue;
                }
                Err(Failure::KnownDown(error)) => {
                    known_down = Some(error);
                    continue;
                }
                Err(Failure::Request(error)) => error,
            };
            // If one table is refused, others may still work. If the server does not answer, they do not.
            failures += u32::from(error.kind != ErrorKind::Invalid);
            if failure.is_none() || error.kind != ErrorKind::Invalid {
                failure = Some(error);
            }
            if failures > FAILURES_MAX {
                break;
            }
        }
        let is_known_down = failure.is_none() && has_connected_node(&*session);
        let Some(error) = failure.or(known_down) else { return Ok(rows) };
        if error.kind == ErrorKind::Invalid {
            self.report_refusal(&error);
        }
        let runs: BTreeSet<usize> = open.into_iter().flatten().flatten().map(|run| run as usize).collect();
        Err(WriteRefusal { error, runs: runs.into_iter().collect(), is_known_down })
    }

    /// The next timestamp for [`PointWriter::write_at`], in microseconds since the epoch: the current time,
    /// but always later than the last timestamp.
    pub fn next_timestamp_us(&self) -> i64 {
        let now = self.clock.now_ms() * 1000;
        let next = |last: i64| now.max(last + 1);
        let last = self.last_timestamp_us.update(Ordering::Relaxed, Ordering::Relaxed, next);
        next(last)
    }

    /// The writer identity under which rows are written.
    pub fn identity(&self) -> WriterIdentity {
        self.identity.get()
    }

    /// Tables that currently cannot be written, each with the reason.
    pub fn refused_tables(&self) -> Vec<(Table, String)> {
        self.tables.refused()
    }

    /// Keeps only the requests whose partition is on one of the nodes, and those for which this is not known. All of
    /// their replicas have to confirm them where possible.
    async fn keep_requests_of(&self, session: &dyn Session, requests: &mut Vec<Request>, nodes: &[Uuid]) {
        let mut kept = Vec::with_capacity(requests.len());
        for mut request in requests.drain(..) {
            let hosts = match self.tables.get_to_write(request.table).await {
                Ok(statements) => ranges::hosts(session, &statements, &request),
                Err(_) => None,
            };
            request.is_for_all = hosts.as_ref().is_some_and(|(_, all_connected)| *all_connected);
            if hosts.is_none_or(|(hosts, _)| hosts.iter().any(|host| nodes.contains(host))) {
                kept.push(request);
            }
        }
        *requests = kept;
    }

    async fn send(&self, session: &dyn Session, request: Request, timestamp_us: i64) -> Result<(), Failure> {
        let statements = self.tables.get_to_write(request.table).await?;
        let datacenter = &statements.datacenter;
        let target = self.ranges.target(session, &statements, &request, datacenter);
        if target.as_ref().is_some_and(|target| !self.ranges.admits(target, Instant::now())) {
            let operation = format!("write to {}", request.table.name());
            let why = "too few replicas of a token range are up for the consistency level of the writes";
            return Err(Failure::KnownDown(StoreError::with(ErrorKind::Unavailable, operation, why)));
        }
        // The semaphore is never closed, so this does not fail.
        let _permit =
            self.in_flight.acquire().await.map_err(|_| StoreError::new(ErrorKind::Closed, "write points"))?;
        let rows = request.rows.len() as u64;
        self.stats.write_requests.add(1);
        match execute(session, &statements, &request, timestamp_us).await {
            Ok(()) => {
                self.stats.rows_written.add(rows);
                self.tables.wrote(request.table);
                if let Some(target) = target {
                    self.ranges.succeeded(&target);
                }
                Ok(())
            }
            Err(error) => {
                self.stats.failed_requests.add(1);
                let is_denied = error::is_denied(&error);
                let mut error = error::request(format!("write to {}", request.table.name()), error);
                let why = error.source.as_ref().map_or_else(String::new, ToString::to_string);
                if is_denied {
                    self.tables.deny(request.table, &why);
                    // This kind makes the sender defer the rows of this table only, as for a missing table.
                    error.kind = ErrorKind::Invalid;
                } else if error::is_invalid(&error) {
                    self.tables.forget(request.table, &why);
                }
                // Too few replicas are up for the level ALL, but they may be enough for the usual level of writes.
                if !request.is_for_all && matches!(error.kind, ErrorKind::Unavailable | ErrorKind::Timeout) {
                    self.ranges.failed(session, &statements, &request, datacenter);
                }
                Err(error.into())
            }
        }
    }

    fn report_refusal(&self, error: &StoreError) {
        self.stats.tables_refused.add(1);
        if let Some(suppressed) = self.throttle.pass(self.clock.now_ms()) {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(
                error,
                suppressed,
                "a table cannot be written; its points are kept, and the write is retried"
            );
        }
    }
}

/// Why a request was not confirmed.
#[derive(Debug)]
enum Failure {
    /// It was not sent: its token range is known to be down.
    KnownDown(StoreError),
    /// It failed.
    Request(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Request(error)
    }
}

fn has_connected_node(session: &dyn Session) -> bool {
    session.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected())
}

/// Sends a request. All its rows have the same partition key, so the server applies a batch of them as one
/// mutation.
async fn execute(
    session: &dyn Session,
    statements: &TableStatements,
    request: &Request,
    timestamp_us: i64,
) -> Result<(), scylla::errors::ExecutionError> {
    let statement = |late: bool| if late { &statements.insert_late } else { &statements.insert };
    let consistency = if request.is_for_all { Consistency::All } else { statements.write_consistency };
    if let [row] = request.rows.as_slice() {
        let mut statement = statement(row.ttl.is_some()).clone();
        statement.set_timestamp(Some(timestamp_us));
        statement.set_consistency(consistency);
        return session.execute_unpaged(&statement, &request.bind(row)).await.map(|_| ());
    }
    let all = request
        .rows
        .iter()
        .map(|row| BatchStatement::PreparedStatement(statement(row.ttl.is_some()).clone()));
    let mut batch = Batch::new_with_statements(BatchType::Unlogged, all.collect());
    batch.set_timestamp(Some(timestamp_us));
    batch.set_consistency(consistency);
    batch.set_is_idempotent(true);
    session.batch(&batch, request).await.map(|_| ())
}
