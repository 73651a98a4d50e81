//! The traits that every store implements: one for points, one for metadata, both in batches. Errors have
//! kinds that determine how the caller reacts. Further traits are for a store behind a spool ([`remote`]) and
//! for one that several daemons share ([`shared`]); [`merge`] is the one merge of their rows. The crate also
//! has a store in memory and the conformance suite that every store must pass.
//!
//! A store keeps *slots*: finished values of a stage. Writing a slot again replaces it, so every write may be
//! repeated. Start at [`points::PointStore`] and [`metadata::MetadataStore`].
//!
//! It must not depend on CQL, fjall, sockets or downsampling.

pub mod capabilities;
pub mod copy;
pub mod correct;
pub mod count;
pub mod deletion;
pub mod directories;
pub mod error;
pub mod events;
pub mod fetch;
pub mod flush;
pub mod history;
pub mod kairos;
pub mod layer;
pub mod memory;
pub mod merge;
pub mod metadata;
pub mod peers;
pub mod points;
pub mod remote;
pub mod settings;
pub mod shared;
pub mod shown;
pub mod sizes;
#[cfg(feature = "testsuite")]
pub mod testsuite;
pub mod windows;
pub mod writer;

pub use capabilities::{Capabilities, Store};
pub use copy::{CopyOptions, CopyReport, MetricCopier, MetricCopy};
pub use count::RowCount;
pub use deletion::{RangeDeleter, RangeReport, TimeRange};
pub use directories::{
    DirectoryPage, DirectoryStore, MetricRow, RowPage, RowProblem, RowStore, Share, directories_above,
};
pub use error::{ErrorKind, StoreError};
pub use events::{EventFilter, EventQuestion, PeerEvent};
pub use fetch::{FetchError, FetchRequest, KnownSlot, KnownSlots, Provenance, SeriesSource};
pub use flush::{FlushBatch, FlushStore, StateRow};
pub use history::{History, HistoryOptions, HistoryReport, HistorySink, HistoryStage, StoredMetric};
pub use kairos::{KairosCells, KairosConnector, KairosPage, KairosTables, KairosUnit};
pub use merge::{OtherReplica, ReplicaWindow, SlotWindow, WindowRow, WriterRow};
pub use metadata::{MetaEntry, MetaPage, MetadataStore, MetricMeta, ReadNotes};
pub use peers::{PeerAnswer, Peers, PendingRows, pending_by_range};
pub use points::{
    BlockLayout, Column, OtherWriters, PeerRows, PointStore, ReadRequest, Run, SlotRange, WriteBatch,
    WriteLimits, joined,
};
pub use remote::{RemotePoints, WriteRefusal};
pub use settings::{Creation, MetricCreator, SettingsChange, SettingsChanger, SettingsReport};
pub use shared::{
    ChangeFeed, Changes, KeyspaceState, Lease, NodeStart, SchemaNeeds, SchemaStatus, SharedFeatures,
    SharedStore,
};
pub use shown::ShownSlots;
pub use sizes::StageSizes;
pub use windows::{SharedWindows, SlotRow};
pub use writer::WriterIdentity;
