//! `/plumbago/costs`: the biggest directories and tags, the newest metrics, and those that are not written or read.
//! The endpoint is open to those who may see the status, and changes nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use plumbago_model::name::NAME_BYTES_MAX;

use super::browse::amount;
use super::rules::api_error;
use super::status::{switched_off, unstored};
use crate::error::{ApiError, aborted};
use crate::params::Params;
use crate::state::Api;
use crate::status::{CostQuestion, CostSource, TrialLimits};

/// The largest number of days that a request may ask for: ten years, because retentions are seldom longer.
const DAYS_MAX: usize = 3660;
/// The largest depth that a request may ask for. Names seldom have so many components.
const DEPTH_MAX: usize = 64;
/// Maximum number of rows of each list.
const LIMIT_MAX: usize = 200;

/// Answers a request to `/plumbago/costs?days=N&depth=D&under=DIR&limit=K&tag=TAG`.
pub(crate) async fn costs(api: Arc<Api>, request: Request) -> Response {
    let Some(status) = &api.status else { return switched_off() };
    if let Err(refused) = status.check(&request) {
        return *refused;
    }
    let answer = found(&api, &*status.costs, request).await;
    unstored(answer.unwrap_or_else(IntoResponse::into_response))
}

async fn found(api: &Api, costs: &dyn CostSource, request: Request) -> Result<Response, ApiError> {
    let limits = api.limits();
    let question = question(&Params::of(request, &limits).await?)?;
    // This reads the rows of all metrics, so it uses the same permits as sweeps over all names.
    let _turn = api.index_walks.acquire().await.map_err(|_| aborted())?;
    let limits = TrialLimits {
        metrics_max: u64::try_from(limits.find_visited).unwrap_or(u64::MAX),
        // Leaves time to send the answer, with what was counted so far, before the request times out.
        time: *limits.request_time / 2,
    };
    let answer = costs.costs(question, limits).await.map_err(api_error)?;
    Ok(Json(answer).into_response())
}

fn question(params: &Params) -> Result<CostQuestion, ApiError> {
    let text = |name: &str| match params.get(name).unwrap_or_default() {
        text if text.len() > NAME_BYTES_MAX => {
            Err(ApiError::TooLarge(format!("{name}: longer than {NAME_BYTES_MAX} bytes")))
        }
        text => Ok(text.to_owned()),
    };
    let days = within(params, "days", 90, DAYS_MAX)?;
    Ok(CostQuestion {
        days: u32::try_from(days).unwrap_or(u32::MAX),
        depth: within(params, "depth", 1, DEPTH_MAX)?,
        under: text("under")?.trim_matches('.').to_owned(),
        limit: within(params, "limit", 20, LIMIT_MAX)?,
        tag: Some(text("tag")?).filter(|tag| !tag.is_empty()),
    })
}

/// The value of a parameter, a number from 1 to `most`.
fn within(params: &Params, name: &str, default: usize, most: usize) -> Result<usize, ApiError> {
    match amount(params, name, default)? {
        number if (1..=most).contains(&number) => Ok(number),
        number => Err(ApiError::Invalid(format!("{name}={number}: must be between 1 and {most}"))),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::config::Limits;

    async fn asked(query: &str) -> Result<CostQuestion, ApiError> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = format!("/plumbago/costs?{query}").parse().unwrap();
        question(&Params::of(request, &Limits::default()).await?)
    }

    #[tokio::test]
    async fn questions_have_defaults_and_limits() {
        let plain = CostQuestion { days: 90, depth: 1, under: String::new(), limit: 20, tag: None };
        assert_eq!(asked("").await.unwrap(), plain);
        let found = asked("days=30&depth=2&under=.a.b.&limit=5&tag=host").await.unwrap();
        let all = CostQuestion {
            days: 30,
            depth: 2,
            under: "a.b".to_owned(),
            limit: 5,
            tag: Some("host".to_owned()),
        };
        assert_eq!(found, all);
        for wrong in
            ["days=0", "days=4000", "days=x", "depth=0", "depth=65", "limit=0", "limit=201", "limit=-1"]
        {
            assert!(matches!(asked(wrong).await, Err(ApiError::Invalid(_))), "{wrong}");
        }
        let long = format!("under={}", "a".repeat(NAME_BYTES_MAX + 1));
        assert!(matches!(asked(&long).await, Err(ApiError::TooLarge(_))));
    }
}
