//! The contract of every store: points and metadata apart, in batches, with error kinds chosen by
//! what the caller does next. Beside it the memory store and the conformance suite.
//!
//! Must not know: CQL, fjall, sockets, downsampling. A store keeps *slots*: whole, finished values
//! of a stage. Writing a slot again replaces it, so every write may be repeated. Start at
//! [`points::PointStore`] and [`metadata::MetadataStore`].

pub mod directories;
pub mod error;
pub mod flush;
pub mod layer;
pub mod memory;
pub mod metadata;
pub mod points;
#[cfg(feature = "testsuite")]
pub mod testsuite;

pub use directories::{
    DirectoryPage, DirectoryStore, MetricRow, RowPage, RowProblem, RowStore, Share, directories_above,
};
pub use error::{ErrorKind, StoreError};
pub use flush::{FlushBatch, FlushStore, StateRow};
pub use metadata::{MetaEntry, MetaPage, MetadataStore, MetricMeta};
pub use points::{
    Appetite, BlockLayout, Column, Others, PeerRows, PointStore, ReadRequest, Run, SlotRange, WriteBatch,
};
