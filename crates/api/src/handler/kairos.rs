//! The endpoints of KairosDB and OpenTSDB.

pub(super) mod body;
mod delete;
mod read;
pub(super) mod reading;
mod write;

pub(crate) use delete::{delete, delete_metric};
pub(crate) use read::{kairos_health, listing, query, query_tags};
pub(crate) use write::{datapoints, put};
