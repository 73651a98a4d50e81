//! Code shared by all fjall databases of this workspace: opening with our limits, the format file, repair of
//! a damaged log, free disk space, limits on unwritten rows, reading past damaged blocks, and one policy for
//! failed writes and syncs.
//!
//! Must not know: what the rows mean. Start at [`Host`].

mod batches;
mod bytes;
mod check;
mod damage;
mod deletion;
mod diagnosis;
mod error;
mod file_lock;
mod format;
mod hold;
mod host;
mod log;
mod manifest;
mod open;
pub mod pressure;
mod repair;
mod rescue;
pub mod space;

pub use check::Mended;
pub use damage::scan;
pub use deletion::delete_keyspaces;
pub use diagnosis::{damaged_files, damaged_in};
pub use error::{Access, Cause, HostError, cause_of, io_cause};
pub use file_lock::FileLock;
pub use hold::{HeldFile, hold, link_or_copy};
pub use host::{Contents, Host, Opening};
pub use open::{Opened, Settings, damaged_file, open, rows_in_order};
pub use repair::Repair;
pub use rescue::{RESCUED, RescueStep, rescue};
