//! graphite-web's pages `/dashboard` and `/composer`. No dashboards are saved, so lists of them are empty. Browsers
//! are redirected to the page at `/`. Other clients that request `/composer` are redirected to its graph at
//! `/render`.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{below, leads_to_page};
use crate::error::plain;
use crate::format::wrap;
use crate::state::Api;

/// Answers a request to `/dashboard` or a path below it.
pub(crate) async fn dashboard(api: Arc<Api>, request: Request) -> Response {
    let path = below(&request, "/dashboard");
    let name = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match path.split('/').collect::<Vec<_>>()[..] {
        ["find"] => json(&json!({"dashboards": []})),
        ["find_template"] => json(&json!({"templates": []})),
        ["load", dashboard] => unknown("Dashboard", &name(dashboard)),
        ["load" | "load_template", template, _] => unknown("Template", &name(template)),
        _ => leads_to_page(api.has_page, &request).unwrap_or_else(|| {
            plain(
                StatusCode::NOT_FOUND,
                "this server keeps no dashboards; use Grafana with this address as its data source\n",
            )
        }),
    }
}

/// Answers a request to `/composer` by a redirect to the graph that its parameters describe.
pub(crate) async fn composer(api: Arc<Api>, request: Request) -> Response {
    if let Some(page) = leads_to_page(api.has_page, &request) {
        return page;
    }
    let is_graph = request.uri().path().trim_end_matches('/') == "/composer";
    let query = request.uri().query().unwrap_or_default();
    let location = HeaderValue::from_str(&format!("{}/render?{query}", api.url_prefix));
    match location {
        Ok(location) if is_graph && query.contains("target") => {
            let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
            response.headers_mut().insert(LOCATION, location);
            response
        }
        _ => plain(StatusCode::NOT_FOUND, "there is no composer here; /render draws graphs\n"),
    }
}

/// An error as graphite-web sends it: a JSON object with status 200.
fn unknown(kind: &str, name: &str) -> Response {
    json(&json!({"error": format!("{kind} '{name}' does not exist. ")}))
}

fn json(value: &Value) -> Response {
    wrap::answer("application/json", value.to_string().into())
}
