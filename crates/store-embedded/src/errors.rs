//! Converts errors of fjall and of its host into errors of a store.

use plumbago_fjall_host::{Access, Cause, HostError, cause_of};
use plumbago_store::{ErrorKind, StoreError};

/// The store error for a failed write.
pub(crate) fn write_error(operation: impl Into<String>, error: fjall::Error) -> StoreError {
    StoreError::with(kind(cause_of(&error, Access::Write)), operation, error)
}

/// The store error for a failed read of rows. [`ErrorKind::Corrupt`] means that rows are lost: they are
/// damaged, or on a part of the disk that can no longer be read.
pub(crate) fn read_error(operation: impl Into<String>, error: fjall::Error) -> StoreError {
    StoreError::with(kind(cause_of(&error, Access::Read)), operation, error)
}

/// The store error for an error of the database's host.
pub(crate) fn host_error(error: HostError) -> StoreError {
    let (kind, action) = match &error {
        HostError::Locked { .. } | HostError::Unavailable { .. } => (ErrorKind::Unavailable, "open"),
        HostError::Broken { .. } | HostError::SyncFailed { .. } => (ErrorKind::Unavailable, "write to"),
        HostError::Format { .. } => (ErrorKind::Invalid, "open"),
        HostError::Corrupt { .. } => (ErrorKind::Corrupt, "open"),
        HostError::Behind => (ErrorKind::Overloaded, "write to"),
        HostError::Closed { .. } => (ErrorKind::Closed, "use"),
        HostError::Lost { .. } => (ErrorKind::Internal, "write to"),
        HostError::Failed { source, .. } => match source.downcast_ref::<fjall::Error>() {
            Some(cause) => (kind(cause_of(cause, Access::Write)), "use"),
            None => (ErrorKind::Invalid, "open"),
        },
    };
    StoreError::with(kind, format!("{action} the store: {error}"), error)
}

fn kind(cause: Cause) -> ErrorKind {
    match cause {
        Cause::Damaged => ErrorKind::Corrupt,
        Cause::Unavailable => ErrorKind::Unavailable,
        Cause::Forbidden => ErrorKind::Invalid,
        Cause::Internal => ErrorKind::Internal,
    }
}
