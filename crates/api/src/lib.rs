//! The HTTP APIs of Graphite, KairosDB and OpenTSDB over the index and the engine, and the admin port.
//!
//! Nothing here may depend on a particular store (CQL, fjall) or on the command line. Responses are written
//! piece by piece while the client reads, so that a large one is never complete in memory. Start at
//! [`server::Server`] (a port) and `router` (its endpoints). Each format is one file in `format`. `handler`
//! has the endpoints; `handler/explain` says why a graph looks as it does, even if `cache` kept the answer
//! (`handler/explain/kept.rs`). `state` is what all endpoints share. `events` keeps events and finds those of
//! other daemons; `users` decides who may do what, and `status` who may see the daemon's status.

mod access;
mod activity;
mod admin;
#[doc(hidden)]
pub mod bench;
mod blocking;
mod cache;
mod carbonapi;
mod client;
pub mod config;
mod error;
mod events;
mod fault;
mod finder;
mod format;
pub mod fuzzing;
mod handler;
mod limits;
mod memory;
mod metadata;
mod meter;
mod params;
mod peer_heads;
mod places;
mod points;
mod protocol;
mod router;
pub mod server;
mod state;
mod status;
mod stream;
mod tagging;
mod users;

pub use access::AdminSecret;
pub use activity::{Activity, FindRange};
pub use admin::{AdminActions, AdminHandles, MaintenanceRequest, NoConditions, Readiness};
pub use cache::KeptAnswers;
pub use config::{AdminConfig, CacheConfig, Config, Limits, PageConfig, PortLimits, StatusAccess, TlsConfig};
pub use error::AdminError;
pub use events::{AddedEvents, EventLog, EventPeers, NewEvent};
pub use finder::{FinderError, NameFinder};
pub use limits::LiveLimits;
pub use metadata::{Metadata, MetadataError, NoMetadata};
pub use peer_heads::{HEADS_PATH, PeerHeads};
pub use plumbago_tls::{Certificates, TlsError};
pub use points::{BodyFault, NoWriter, NotTaken, PointWriter};
pub use server::{BindError, Door, Server};
pub use state::Handles;
pub use status::{CostQuestion, CostSource, RuleTester, RuleTexts, StatusHandles, StatusSource, TrialLimits};
pub use tagging::{NoTagging, Tagging, TaggingError};
pub use users::{LiveUsers, RequiredFor, UsersConfig, UsersError};
