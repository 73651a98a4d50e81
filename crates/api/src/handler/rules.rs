//! `/plumbago/rules`: what the rules do with a name, and what edited storage rules would do with the metrics that
//! exist. The endpoint is open to those who may see the status, and changes nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::Method;
use plumbago_model::name::NAME_BYTES_MAX;
use serde_json::Value;

use super::status::{switched_off, unstored};
use crate::error::{AdminError, ApiError, aborted};
use crate::params;
use crate::state::Api;
use crate::status::{RuleTester, RuleTexts, TrialLimits};

/// Answers a request to `/plumbago/rules`. GET with `name` explains the name; GET without it shows the rules in
/// force. POST tries the texts in the body, `{"schemas": …, "aggregation": …}`.
pub(crate) async fn rules(api: Arc<Api>, request: Request) -> Response {
    let Some(status) = &api.status else { return switched_off() };
    if let Err(refused) = status.check(&request) {
        return *refused;
    }
    let answer = if request.method() == Method::POST {
        trial(&api, &*status.rules, request).await
    } else {
        explained(&*status.rules, params::query_value(&request, "name")).await
    };
    unstored(answer.map_or_else(IntoResponse::into_response, |answer| Json(answer).into_response()))
}

async fn explained(rules: &dyn RuleTester, name: Option<String>) -> Result<Value, ApiError> {
    match name {
        None => rules.in_force().await.map_err(api_error),
        Some(name) if name.len() > NAME_BYTES_MAX => {
            Err(ApiError::TooLarge(format!("name: longer than {NAME_BYTES_MAX} bytes")))
        }
        Some(name) => rules.explain(&name).await.map_err(api_error),
    }
}

async fn trial(api: &Api, rules: &dyn RuleTester, request: Request) -> Result<Value, ApiError> {
    let limits = api.limits();
    let body = params::body(request, &limits).await?;
    let texts: RuleTexts = serde_json::from_slice(&body).map_err(|error| {
        ApiError::Invalid(format!(
            "the body must be {{\"schemas\": text, \"aggregation\": text}}; one of the two may be missing: \
             {error}"
        ))
    })?;
    // This reads settings of all metrics, so it uses the same permits as sweeps over all names.
    let _turn = api.index_walks.acquire().await.map_err(|_| aborted())?;
    let limits = TrialLimits {
        metrics_max: u64::try_from(limits.find_visited).unwrap_or(u64::MAX),
        // Leaves time to send the answer, with what was tried so far, before the request times out.
        time: *limits.request_time / 2,
    };
    rules.try_texts(texts, limits).await.map_err(api_error)
}

pub(super) fn api_error(error: AdminError) -> ApiError {
    match error {
        AdminError::Unknown(text) => ApiError::Missing(text),
        AdminError::Invalid(text) => ApiError::Invalid(text),
        AdminError::Failed(text) => ApiError::Unavailable(text),
    }
}
