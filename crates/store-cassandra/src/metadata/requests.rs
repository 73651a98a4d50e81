//! Runs statements on the tables for names, each with the right consistency level.

use std::sync::Arc;

use plumbago_store::StoreError;
use scylla::deserialize::row::DeserializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;

use super::NameStore;
use crate::consistency::consistency;
use crate::driver::{Session, Values};
use crate::error;

impl NameStore {
    /// Runs a statement on the tables for names, with the consistency level of writes.
    pub(crate) async fn run(
        &self,
        operation: &str,
        text: String,
        values: Values<'_>,
    ) -> Result<(), StoreError> {
        let session = self.cluster.session().await?;
        self.execute(&*session, operation, text, values).await
    }

    pub(crate) async fn execute(
        &self,
        session: &dyn Session,
        operation: &str,
        text: String,
        values: Values<'_>,
    ) -> Result<(), StoreError> {
        self.execute_at(session, operation, text, values, None).await
    }

    pub(crate) async fn execute_at(
        &self,
        session: &dyn Session,
        operation: &str,
        text: String,
        values: Values<'_>,
        timestamp_us: Option<i64>,
    ) -> Result<(), StoreError> {
        let mut statement = (*self.statements.get(session, text, self.level(session, true)).await?).clone();
        statement.set_timestamp(timestamp_us);
        self.stats.metadata_requests.add(1);
        let result = session.execute_unpaged(&statement, values).await;
        result.map(|_| ()).map_err(|error| self.failed(operation, error))
    }

    /// Reads all rows of a query in one page, with the consistency level of reads.
    pub(crate) async fn rows<R>(
        &self,
        operation: &str,
        text: String,
        values: Values<'_>,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        self.rows_at(operation, text, values, false).await
    }

    /// Like [`NameStore::rows`]. Set `for_write` if the result decides on a write: it is then read with the
    /// consistency level of writes.
    pub(crate) async fn rows_at<R>(
        &self,
        operation: &str,
        text: String,
        values: Values<'_>,
        for_write: bool,
    ) -> Result<Vec<R>, StoreError>
    where
        R: for<'f> DeserializeRow<'f, 'f>,
    {
        let session = self.cluster.session().await?;
        let statement = self.statement(&*session, text, for_write).await?;
        self.stats.metadata_requests.add(1);
        let result = session.execute_unpaged(&statement, values).await;
        let rows = result
            .map_err(|error| self.failed(operation, error))?
            .into_rows_result()
            .map_err(|error| error::answer(operation, error))?;
        let rows = rows.rows::<R>().map_err(|error| error::answer(operation, error))?;
        rows.collect::<Result<_, _>>().map_err(|error| error::answer(operation, error))
    }

    pub(crate) async fn statement(
        &self,
        session: &dyn Session,
        text: String,
        for_write: bool,
    ) -> Result<Arc<PreparedStatement>, StoreError> {
        self.statements.get(session, text, self.level(session, for_write)).await
    }

    /// The consistency level for the tables for names.
    pub(crate) fn level(&self, session: &dyn Session, for_write: bool) -> Consistency {
        let levels = &self.config.consistency;
        let level = if for_write { levels.metadata_write } else { levels.metadata_read };
        consistency(level, session, &self.config.metadata_keyspace(), &self.cluster.datacenter())
    }

    /// Counts a failed request and converts its error.
    pub(crate) fn failed(&self, operation: &str, error: scylla::errors::ExecutionError) -> StoreError {
        self.stats.failed_requests.add(1);
        error::request(operation, error)
    }
}
