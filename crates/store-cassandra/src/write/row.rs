//! A row to write, and how it is serialised: in the order of the bind markers of the insert statement. The column types
//! were checked when the statement was prepared.

use plumbago_model::MetricId;
use scylla::serialize::SerializationError;
use scylla::serialize::row::{RowSerializationContext, SerializeRow};
use scylla::serialize::writers::RowWriter;

/// A row without its partition key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Row {
    pub(crate) offset: i16,
    /// The value of the column `shard` ([`crate::layout::writer_key`]); only used for coarse stages.
    pub(crate) writer_key: i16,
    pub(crate) value: f64,
    /// The number of points that the value was computed from; only used for coarse stages.
    pub(crate) count: i16,
    /// TTL in seconds; `None` for the table's default.
    pub(crate) ttl: Option<i32>,
}

/// A row with its partition key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound<'a> {
    pub(crate) id: &'a MetricId,
    pub(crate) start_ms: i64,
    pub(crate) coarse: bool,
    pub(crate) row: &'a Row,
}

impl SerializeRow for Bound<'_> {
    fn serialize(
        &self,
        _types: &RowSerializationContext<'_>,
        writer: &mut RowWriter<'_>,
    ) -> Result<(), SerializationError> {
        let mut put = |bytes: &[u8]| match writer.make_cell_writer().set_value(bytes) {
            Ok(_) => Ok(()),
            Err(error) => Err(SerializationError::new(error)),
        };
        let row = self.row;
        put(&self.id.0)?;
        put(&self.start_ms.to_be_bytes())?;
        put(&row.offset.to_be_bytes())?;
        if self.coarse {
            put(&row.writer_key.to_be_bytes())?;
        }
        put(&row.value.to_be_bytes())?;
        if self.coarse {
            put(&row.count.to_be_bytes())?;
        }
        match row.ttl {
            Some(seconds) => put(&seconds.to_be_bytes()),
            None => Ok(()),
        }
    }

    fn is_empty(&self) -> bool {
        false
    }
}
