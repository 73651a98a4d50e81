//! Names that a store cannot hold.

use std::sync::Arc;

use crate::stats::Reject;

/// Why a store cannot hold a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRefusal {
    /// The name has too many components.
    TooDeep,
    /// The name, or a part of it, is too long.
    TooLong,
    /// The store reserves one of the name's components.
    Reserved,
}

/// Checks a name before a metric is created with it.
pub type NameCheck = Arc<dyn Fn(&str) -> Result<(), NameRefusal> + Send + Sync>;

impl From<NameRefusal> for Reject {
    fn from(refusal: NameRefusal) -> Self {
        match refusal {
            NameRefusal::TooDeep => Self::NameTooDeep,
            NameRefusal::TooLong => Self::NameTooLong,
            NameRefusal::Reserved => Self::NameReserved,
        }
    }
}
