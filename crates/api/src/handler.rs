//! The endpoints of Graphite's API.

mod boards;
mod browse;
mod costs;
mod dashboard;
mod events;
mod expand;
mod explain;
mod find;
mod functions;
mod index_json;
mod info;
mod kairos;
mod metadata;
mod opentsdb;
mod page;
mod picture;
mod reading;
mod render;
mod render_format;
mod render_params;
mod rules;
mod search;
mod stages;
mod status;
mod tag_search;
mod tags;

use axum::extract::Request;

pub(crate) use browse::plumbago;
pub(crate) use costs::costs;
pub(crate) use dashboard::{composer, dashboard};
pub(crate) use events::events;
pub(crate) use expand::expand;
pub(crate) use find::find;
pub(crate) use functions::functions;
pub(crate) use index_json::index_json;
pub(crate) use info::{capabilities, info};
pub(crate) use kairos::{datapoints, delete, delete_metric, kairos_health, listing, put, query, query_tags};
pub(crate) use metadata::{get_metadata, set_metadata};
pub(crate) use opentsdb::{aggregators, filters, lookup, opentsdb_query, opentsdb_version, suggest};
pub(crate) use page::{Page, leads_to_page};
pub(crate) use render::render;
pub(crate) use rules::rules;
pub(crate) use status::status;
pub(crate) use tags::tags;

/// Returns the part of the request's path after `family`, without leading and trailing slashes.
fn below(request: &Request, family: &str) -> String {
    let path = request.uri().path();
    path.strip_prefix(family).unwrap_or(path).trim_matches('/').to_owned()
}
