//! OpenTSDB's reads: queries, lists, and its description of itself.

mod find;
mod list;
mod query;

pub(crate) use list::{aggregators, filters, lookup, opentsdb_version, suggest};
pub(crate) use query::opentsdb_query;
