//! The border to the driver: every request to a server goes through [`Session`].
//!
//! The driver's own session is a tree of more than a thousand types, and its functions are generic over the values of
//! a statement. A future that holds it makes the compiler prove for each method anew that the whole tree may be shared
//! between threads, and each type of values makes it compile the driver's functions once more. Behind a trait object
//! both happen once. The price is one allocation for each request.

use std::fmt::Debug;
use std::sync::Arc;

use futures::future::BoxFuture;
use scylla::client::execution_profile::ExecutionProfileHandle;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::ClusterState;
use scylla::errors::{ExecutionError, MetadataError, NewSessionError, PrepareError};
use scylla::response::query_result::QueryResult;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::serialize::SerializationError;
use scylla::serialize::batch::{BatchValues, BatchValuesIterator};
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;
use scylla::statement::Statement;
use scylla::statement::batch::Batch;
use scylla::statement::prepared::PreparedStatement;

/// The values of a statement.
pub(crate) type Values<'a> = &'a (dyn SerializeRow + Sync);

/// The answer to a request.
type Answer<'a, T> = BoxFuture<'a, Result<T, ExecutionError>>;

/// What this crate uses of the driver's session. The methods are those of the driver with the same names.
///
/// The futures have one lifetime and no other bounds, which lets the compiler reuse what it has proven of them.
pub(crate) trait Session: Debug + Send + Sync {
    fn prepare<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<PreparedStatement, PrepareError>>;

    fn query_unpaged<'a>(&'a self, statement: Statement, values: Values<'a>) -> Answer<'a, QueryResult>;

    fn execute_unpaged<'a>(
        &'a self,
        statement: &'a PreparedStatement,
        values: Values<'a>,
    ) -> Answer<'a, QueryResult>;

    fn execute_single_page<'a>(
        &'a self,
        statement: &'a PreparedStatement,
        values: Values<'a>,
        state: PagingState,
    ) -> Answer<'a, (QueryResult, PagingStateResponse)>;

    fn batch<'a>(&'a self, batch: &'a Batch, rows: &'a dyn BatchRows) -> Answer<'a, QueryResult>;

    fn refresh_metadata(&self) -> BoxFuture<'_, Result<(), MetadataError>>;

    fn get_cluster_state(&self) -> Arc<ClusterState>;

    fn get_default_execution_profile_handle(&self) -> &ExecutionProfileHandle;
}

/// Opens a session. After a change of the schema it does not read the keyspaces again by itself, so that it can be done once
/// for many changes.
pub(crate) fn open(builder: SessionBuilder) -> BoxFuture<'static, Result<Arc<dyn Session>, NewSessionError>> {
    let builder = builder.refresh_metadata_on_auto_schema_agreement(false);
    Box::pin(async move { Ok(Arc::new(builder.build().await?) as Arc<dyn Session>) })
}

impl Session for scylla::client::session::Session {
    fn prepare<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<PreparedStatement, PrepareError>> {
        Box::pin(self.prepare(text))
    }

    fn query_unpaged<'a>(&'a self, statement: Statement, values: Values<'a>) -> Answer<'a, QueryResult> {
        Box::pin(self.query_unpaged(statement, values))
    }

    fn execute_unpaged<'a>(
        &'a self,
        statement: &'a PreparedStatement,
        values: Values<'a>,
    ) -> Answer<'a, QueryResult> {
        Box::pin(self.execute_unpaged(statement, values))
    }

    fn execute_single_page<'a>(
        &'a self,
        statement: &'a PreparedStatement,
        values: Values<'a>,
        state: PagingState,
    ) -> Answer<'a, (QueryResult, PagingStateResponse)> {
        Box::pin(self.execute_single_page(statement, values, state))
    }

    fn batch<'a>(&'a self, batch: &'a Batch, rows: &'a dyn BatchRows) -> Answer<'a, QueryResult> {
        Box::pin(self.batch(batch, rows))
    }

    fn refresh_metadata(&self) -> BoxFuture<'_, Result<(), MetadataError>> {
        Box::pin(self.refresh_metadata())
    }

    fn get_cluster_state(&self) -> Arc<ClusterState> {
        self.get_cluster_state()
    }

    fn get_default_execution_profile_handle(&self) -> &ExecutionProfileHandle {
        self.get_default_execution_profile_handle()
    }
}

/// The rows of a batch, one for each of its statements, all of which are prepared.
pub(crate) trait BatchRows: Sync {
    /// The number of rows.
    fn count(&self) -> usize;

    /// Writes the values of the row at a position; `None` if there are fewer rows.
    fn serialize(
        &self,
        at: usize,
        types: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Option<Result<(), SerializationError>>;
}

impl<const N: usize> BatchRows for [Values<'_>; N] {
    fn count(&self) -> usize {
        N
    }

    fn serialize(
        &self,
        at: usize,
        types: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Option<Result<(), SerializationError>> {
        self.get(at).map(|row| row.serialize(types, writer))
    }
}

impl BatchValues for dyn BatchRows + '_ {
    type BatchValuesIter<'r>
        = RowsFrom<'r>
    where
        Self: 'r;

    fn batch_values_iter(&self) -> RowsFrom<'_> {
        RowsFrom { rows: self, next: 0 }
    }
}

/// The rows from a position on.
pub(crate) struct RowsFrom<'a> {
    rows: &'a dyn BatchRows,
    next: usize,
}

impl<'a> BatchValuesIterator<'a> for RowsFrom<'a> {
    fn serialize_next(
        &mut self,
        types: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Option<Result<(), SerializationError>> {
        let written = self.rows.serialize(self.next, types, writer)?;
        self.next += 1;
        Some(written)
    }

    /// The driver asks this only for statements that are not prepared.
    fn is_empty_next(&mut self) -> Option<bool> {
        self.skip_next().map(|()| false)
    }

    fn skip_next(&mut self) -> Option<()> {
        (self.next < self.rows.count()).then(|| self.next += 1)
    }

    fn count(self) -> usize {
        self.rows.count().saturating_sub(self.next)
    }
}
