//! The endpoints of KairosDB and OpenTSDB.

mod body;
mod delete;
pub(super) mod read;
pub(super) mod shape;
mod write;

pub(crate) use delete::{delete, delete_metric};
pub(crate) use read::{kairos_health, listing, query, query_tags};
pub(crate) use write::{datapoints, put};
