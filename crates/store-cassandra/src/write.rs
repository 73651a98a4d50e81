//! Writing points: rows of one partition go in one request, many requests at once.

mod plan;
mod row;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::StreamExt;
use plumbago_model::Clock;
use plumbago_store::{ErrorKind, StoreError, WriteBatch};
use plumbago_telemetry::Throttle;
use scylla::client::session::Session;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use tokio::sync::Semaphore;

use crate::config::Config;
use crate::error;
use crate::layout::Table;
use crate::prepared::{TableStatements, Tables};
use crate::stats::Stats;
use crate::writers::{Identity, SharedIdentity};

use plan::{Planner, Request};

/// Failed requests after which the rest of a batch is not sent.
const FAILURES_MAX: u32 = 3;

/// A write of which not everything was confirmed.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub error: StoreError,
    /// The places in the batch of the runs that were not confirmed.
    pub runs: Vec<usize>,
}

/// Writes rows under a client timestamp.
#[derive(Debug)]
pub struct PointWriter {
    tables: Arc<Tables>,
    config: Config,
    identity: SharedIdentity,
    clock: Arc<dyn Clock>,
    stats: Stats,
    in_flight: Semaphore,
    last_timestamp_us: AtomicI64,
    throttle: Throttle,
}

impl PointWriter {
    pub(crate) fn new(
        tables: Arc<Tables>,
        config: &Config,
        identity: SharedIdentity,
        clock: Arc<dyn Clock>,
        stats: Stats,
    ) -> Self {
        Self {
            tables,
            config: config.clone(),
            identity,
            clock,
            stats,
            in_flight: Semaphore::new(config.concurrency as usize),
            last_timestamp_us: AtomicI64::new(0),
            throttle: Throttle::new(10_000),
        }
    }

    /// Writes whole runs as of `timestamp_us` (microseconds since the epoch). Of two writes of a slot
    /// the one with the later timestamp stays, whichever comes last, so a batch may be sent again at
    /// any time. Returns when every row is confirmed.
    ///
    /// Rows of a table that is missing or has the wrong form are put off: the others are written, and
    /// the answer is `Unavailable` with the table's name.
    ///
    /// Counts of coarse stages are read with their sign ([`crate::late::to_batch`]).
    pub async fn write_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), StoreError> {
        self.write_runs_at(batch, timestamp_us).await.map_err(|mut refusal| {
            if refusal.error.kind == ErrorKind::Invalid {
                refusal.error.kind = ErrorKind::Unavailable;
            }
            refusal.error
        })
    }

    /// [`PointWriter::write_at`], for callers that send again only what was refused. A table that
    /// cannot be written is an error of the kind `Invalid` here, unless something else failed too.
    pub async fn write_runs_at(&self, batch: &WriteBatch, timestamp_us: i64) -> Result<(), Refusal> {
        let identity = self.identity();
        let plan = Planner::new(&self.config, identity, self.clock.now()).plan(batch);
        self.stats.expired.add(plan.expired);
        if plan.requests.is_empty() {
            return Ok(());
        }
        let everything = |error| Refusal { error, runs: (0..batch.runs.len()).collect() };
        let session = self.tables.session().await.map_err(everything)?;
        // Runs of requests that were not confirmed, also because they were not sent.
        let mut open: Vec<Option<Vec<u32>>> = plan.requests.iter().map(|r| Some(r.runs.clone())).collect();
        let mut answers = futures::stream::iter(plan.requests.into_iter().enumerate())
            .map(|(n, request)| {
                let session = &session;
                async move { (n, self.send(session, request, timestamp_us).await) }
            })
            .buffer_unordered(self.config.concurrency as usize);
        let (mut failure, mut failures) = (None, 0);
        while let Some((n, answer)) = answers.next().await {
            let Err(error) = answer else {
                open[n] = None;
                continue;
            };
            // A table's refusal says nothing of the others; a server's silence does.
            failures += u32::from(error.kind != ErrorKind::Invalid);
            if failure.is_none() || error.kind != ErrorKind::Invalid {
                failure = Some(error);
            }
            if failures > FAILURES_MAX {
                break;
            }
        }
        let Some(error) = failure else { return Ok(()) };
        if error.kind == ErrorKind::Invalid {
            self.report_refusal(&error);
        }
        let runs: BTreeSet<usize> = open.into_iter().flatten().flatten().map(|run| run as usize).collect();
        Err(Refusal { error, runs: runs.into_iter().collect() })
    }

    /// The next timestamp for [`PointWriter::write_at`]: now, or a little later than the one before.
    pub fn next_timestamp_us(&self) -> i64 {
        let now = self.clock.now_ms() * 1000;
        let next = |last: i64| now.max(last + 1);
        let last = self.last_timestamp_us.update(Ordering::Relaxed, Ordering::Relaxed, next);
        next(last)
    }

    /// Who writes.
    pub fn identity(&self) -> Identity {
        self.identity.get()
    }

    /// Tables that could not be written lately, each with the reason.
    pub fn refused_tables(&self) -> Vec<(Table, String)> {
        self.tables.refused()
    }

    async fn send(&self, session: &Session, request: Request, timestamp_us: i64) -> Result<(), StoreError> {
        // Closing the semaphore is nobody's doing.
        let _permit =
            self.in_flight.acquire().await.map_err(|_| StoreError::new(ErrorKind::Closed, "write points"))?;
        let statements = self.tables.get_to_write(request.table).await?;
        let rows = request.rows.len() as u64;
        self.stats.write_requests.add(1);
        match execute(session, &statements, &request, timestamp_us).await {
            Ok(()) => {
                self.stats.rows_written.add(rows);
                Ok(())
            }
            Err(error) => {
                self.stats.failed_requests.add(1);
                let error = error::request(format!("write to {}", request.table.name()), error);
                if error::is_invalid(&error) {
                    let why = error.source.as_ref().map_or_else(String::new, ToString::to_string);
                    self.tables.forget(request.table, &why);
                }
                Err(error)
            }
        }
    }

    fn report_refusal(&self, error: &StoreError) {
        self.stats.tables_refused.add(1);
        if let Some(held_back) = self.throttle.pass(self.clock.now_ms()) {
            let error: &(dyn std::error::Error + 'static) = error;
            tracing::error!(error, held_back, "points wait: their table cannot be written");
        }
    }
}

/// All rows of a request have the partition key in common, so a batch is one mutation for the server.
async fn execute(
    session: &Session,
    statements: &TableStatements,
    request: &Request,
    timestamp_us: i64,
) -> Result<(), scylla::errors::ExecutionError> {
    let statement = |late: bool| if late { &statements.insert_late } else { &statements.insert };
    if let [row] = request.rows.as_slice() {
        let mut statement = statement(row.ttl.is_some()).clone();
        statement.set_timestamp(Some(timestamp_us));
        return session.execute_unpaged(&statement, request.bind(row)).await.map(|_| ());
    }
    let all = request
        .rows
        .iter()
        .map(|row| BatchStatement::PreparedStatement(statement(row.ttl.is_some()).clone()));
    let mut batch = Batch::new_with_statements(BatchType::Unlogged, all.collect());
    batch.set_timestamp(Some(timestamp_us));
    batch.set_consistency(statements.write_consistency);
    batch.set_is_idempotent(true);
    let rows: Vec<row::Bound<'_>> = request.rows.iter().map(|row| request.bind(row)).collect();
    session.batch(&batch, &rows).await.map(|_| ())
}
