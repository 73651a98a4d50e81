//! `/functions`: descriptions of the functions, for editors of targets such as Grafana's.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use plumbago_render::describe::{Constant, Description, Parameter, functions as all, pies};
use serde_json::{Map, Value, json};

use crate::error::{ApiError, json_error};
use crate::format::wrap::Wrapping;
use crate::params::Params;
use crate::state::Api;

/// Represents infinity, which JSON cannot express, until the text is complete. It is then replaced by 1e9999,
/// a number too large for a float, as in Graphite.
const INFINITY: &str = "\u{1}";

/// Answers a request to `/functions` or `/functions/name`.
pub(crate) async fn functions(api: Arc<Api>, request: Request) -> Response {
    answer(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(api: &Api, request: Request) -> Result<Response, ApiError> {
    let path = request.uri().path().trim_end_matches('/').to_owned();
    let params = Params::of(request, &api.limits()).await?;
    let known = if params.get("type") == Some("pie") { pies() } else { all() };
    let (_, name) = path.rsplit_once('/').unwrap_or_default();
    let value = if name == "functions" {
        listed(&known, &params)
    } else {
        match known.iter().find(|function| function.name == name) {
            Some(function) => described(function),
            None => return Ok(json_error(StatusCode::NOT_FOUND, &format!("Function not found: {name}"))),
        }
    };
    let wrapping = Wrapping::of(&params)?;
    let text = value.to_string().replace("\"\\u0001\"", "1e9999");
    Ok(wrapping.whole(&text))
}

/// The functions by name, or with `grouped` by group and name. `group` selects the functions of one group.
fn listed(known: &[Description], params: &Params) -> Value {
    let group = params.get("group");
    let is_grouped =
        matches!(params.get("grouped").map(str::to_ascii_lowercase).as_deref(), Some("1" | "true"));
    let wanted = known.iter().filter(|function| group.is_none_or(|group| group == function.group));
    if !is_grouped {
        return Value::Object(
            wanted.map(|function| (function.name.to_owned(), described(function))).collect(),
        );
    }
    let mut groups: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for function in wanted {
        groups.entry(function.group).or_default().insert(function.name.to_owned(), described(function));
    }
    json!(groups)
}

fn described(function: &Description) -> Value {
    json!({
        "name": function.name,
        "function": function.function,
        "description": function.description,
        "module": function.module,
        "group": function.group,
        "params": function.params.iter().map(parameter).collect::<Vec<_>>(),
    })
}

/// A parameter as JSON. Fields that are false or empty are omitted, as in Graphite.
fn parameter(param: &Parameter) -> Value {
    let mut shown = json!({ "name": param.name, "type": param.kind });
    if param.is_required {
        shown["required"] = json!(true);
    }
    if let Some(default) = param.default {
        shown["default"] = constant(default);
    }
    if param.is_multiple {
        shown["multiple"] = json!(true);
    }
    if !param.options.is_empty() {
        shown["options"] = json!(param.options);
    }
    if !param.suggestions.is_empty() {
        shown["suggestions"] = param.suggestions.iter().copied().map(constant).collect();
    }
    shown
}

fn constant(constant: Constant) -> Value {
    match constant {
        Constant::Boolean(flag) => json!(flag),
        Constant::Integer(number) => json!(number),
        Constant::Float(number) if number.is_infinite() => json!(INFINITY),
        Constant::Float(number) => json!(number),
        Constant::Text(text) => json!(text),
    }
}
