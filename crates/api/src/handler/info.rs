//! `/info`: retention and aggregation of metrics. `/_internal/capabilities`: what this server offers
//! carbonapi.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use plumbago_model::MetricConfig;
use prost::Message;
use serde_json::{Value, json};

use crate::carbonapi::Version;
use crate::error::{ApiError, beyond, plain, quoted};
use crate::format::protobuf::{
    CapabilityResponse, InfoResponse, MultiGlobRequest, MultiInfoResponse, Retention,
};
use crate::format::wrap::{self, Wrapping};
use crate::params::Params;
use crate::state::Api;

/// Answers a request to `/info`.
pub(crate) async fn info(api: Arc<Api>, request: Request) -> Response {
    answer(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

/// Answers a request to `/_internal/capabilities`.
pub(crate) async fn capabilities(api: Arc<Api>, request: Request) -> Response {
    offered(&api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(api: &Api, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let version = version(&params)?;
    let wrapping = Wrapping::of(&params)?;
    // The request for names has the same protobuf fields as the request for globs.
    let message = params.message::<MultiGlobRequest>()?.map(|message| message.metrics);
    let named = || params.all("target").into_iter().map(str::to_owned).collect();
    let names: Vec<String> = message.unwrap_or_else(named);
    if names.is_empty() {
        return Err(ApiError::Invalid("the parameter target is missing".to_owned()));
    }
    if names.len() > api.limits().targets {
        return Err(beyond("targets", "targets", api.limits().targets));
    }
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let configs =
        api.metadata.configs(&asked).await.map_err(|error| ApiError::Unavailable(error.to_string()))?;
    let mut infos = Vec::with_capacity(names.len());
    for (name, config) in names.iter().zip(configs) {
        let Some(config) = config else {
            let text = format!("there is no metric {}\n", quoted(name));
            return Ok(plain(StatusCode::NOT_FOUND, text));
        };
        infos.push(described(name, &config));
    }
    Ok(match version {
        None => {
            let shown: Vec<Value> = infos.iter().map(shown).collect();
            wrapping.whole(&json!({"metrics": shown}).to_string())
        }
        Some(Version::V2) => message_of(Version::V2, &infos.swap_remove(0)),
        Some(Version::V3) => message_of(Version::V3, &MultiInfoResponse { metrics: infos }),
    })
}

async fn offered(api: &Api, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let (version, wrapping) = (version(&params)?, Wrapping::of(&params)?);
    let offered = CapabilityResponse {
        supported_protocols: ["carbonapi_v3_pb", "carbonapi_v2_pb", "graphite-web-pickle", "msgpack"]
            .map(str::to_owned)
            .to_vec(),
        name: "plumbago".to_owned(),
        like_splitted_requests: true,
        ..CapabilityResponse::default()
    };
    Ok(match version {
        Some(_) => message_of(Version::V3, &offered),
        None => wrapping.whole(
            &json!({
                "supportedProtocols": offered.supported_protocols,
                "name": offered.name,
                "highPrecisionTimestamps": offered.high_precision_timestamps,
                "supportFilteringFunctions": offered.support_filtering_functions,
                "likeSplittedRequests": offered.like_splitted_requests,
                "supportStreaming": offered.support_streaming,
            })
            .to_string(),
        ),
    })
}

/// The protobuf protocol of the response; `None` for JSON.
fn version(params: &Params) -> Result<Option<Version>, ApiError> {
    let known = "json, carbonapi_v2_pb (protobuf), carbonapi_v3_pb";
    match params.get("format") {
        None | Some("" | "json") => Ok(None),
        Some(other) => Version::named(other).map(Some).ok_or_else(|| {
            ApiError::Invalid(format!("format={} is not available; use {known}", quoted(other)))
        }),
    }
}

fn described(name: &str, config: &MetricConfig) -> InfoResponse {
    let method = config.aggregation.to_string();
    // carbonserver writes aggregation methods with a capital letter.
    let capital = method[..1].to_ascii_uppercase() + &method[1..];
    let retentions = config.retention.stages().iter().map(|stage| Retention {
        seconds_per_point: i64::from(stage.resolution),
        number_of_points: i64::from(stage.points),
    });
    InfoResponse {
        name: name.to_owned(),
        aggregation_method: capital,
        max_retention: i64::try_from(config.retention.duration()).unwrap_or(i64::MAX),
        x_files_factor: config.x_files_factor as f32,
        retentions: retentions.collect(),
    }
}

fn shown(info: &InfoResponse) -> Value {
    let retention = |retention: &Retention| {
        json!({
            "secondsPerPoint": retention.seconds_per_point,
            "numberOfPoints": retention.number_of_points,
        })
    };
    json!({
        "name": info.name,
        "consolidationFunc": info.aggregation_method,
        "maxRetention": info.max_retention,
        "xFilesFactor": info.x_files_factor,
        "retentions": info.retentions.iter().map(retention).collect::<Vec<_>>(),
    })
}

fn message_of(version: Version, message: &impl Message) -> Response {
    wrap::answer(version.content_type(), Body::from(message.encode_to_vec()))
}
