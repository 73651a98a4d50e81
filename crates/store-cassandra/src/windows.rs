//! `CassandraStore` as a store whose windows can be repaired.

use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{SharedWindows, SlotRange, SlotRow, StoreError, WriteBatch, WriterIdentity};

use crate::store::CassandraStore;

#[boxed_futures]
impl SharedWindows for CassandraStore {
    fn identity(&self) -> WriterIdentity {
        self.identity.get()
    }

    async fn read_rows(&self, ranges: &[SlotRange]) -> Result<Vec<Vec<SlotRow>>, StoreError> {
        self.reader.read_rows(ranges).await
    }

    async fn write_as(&self, writer: WriterIdentity, batch: &WriteBatch) -> Result<(), StoreError> {
        self.writer().write_as(writer, batch, self.writer().next_timestamp_us()).await
    }
}
