//! The routes of Graphite's API.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Method, StatusCode};
use plumbago_telemetry::Registry;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};
use tower_http::cors::{AllowHeaders, Any, CorsLayer};

use crate::config::Config;
use crate::error::{ApiError, missing, plain, wrong_method};
use crate::handler::{self, Page};
use crate::limits::LiveLimits;
use crate::meter::Meter;
use crate::protocol::Protocol;
use crate::state::{Api, Handles};
use crate::users::{self, Gate, LiveUsers};

/// The version of Graphite that `/version` reports. Grafana chooses features by it.
const GRAPHITE_VERSION: &str = "1.1.10\n";

/// Smallest body that is compressed, in bytes.
const GZIP_ABOVE_BYTES: u16 = 4096;

/// Builds the routes.
pub(crate) fn api_router(config: &Config, limits: LiveLimits, users: LiveUsers, handles: &Handles) -> Router {
    let api = Arc::new(Api::new(config, limits, users.clone(), handles));
    let registry = &handles.registry;
    let mut router = Router::new();
    for (paths, name) in [
        (&["/render"][..], "render"),
        (&["/metrics", "/metrics/find"], "find"),
        (&["/metrics/expand"], "expand"),
        (&["/metrics/index.json"], "index"),
        (&["/metrics/get-metadata"], "get-metadata"),
        (&["/metrics/set-metadata"], "set-metadata"),
        (&["/functions", "/functions/{name}"], "functions"),
        (&["/version"], "version"),
        (&["/info"], "info"),
        (&["/_internal/capabilities"], "capabilities"),
        (&["/api/put"], "put"),
        (&["/api/query"], "opentsdb-query"),
        (&["/api/suggest"], "suggest"),
        (&["/api/search/lookup"], "lookup"),
        (&["/api/aggregators"], "aggregators"),
        (&["/api/config/filters"], "filters"),
        (&["/api/version"], "opentsdb-version"),
    ] {
        router = with_paths(router, paths, endpoint(name, &api, registry));
    }
    for name in ["tags", "events", "dashboard", "composer", "plumbago"] {
        let methods = endpoint(name, &api, registry);
        for path in [format!("/{name}"), format!("/{name}/"), format!("/{name}/{{*call}}")] {
            router = router.route(&path, methods.clone());
        }
    }
    // Load balancers and people try this page first.
    let page = Arc::new(Page::new(config.page.enabled));
    let root = |prefix: Option<String>| {
        let page = Arc::clone(&page);
        methods(&api, Meter::new(registry, "root"), move |_, request| {
            Arc::clone(&page).root(request, prefix.clone())
        })
    };
    let last = config.url_prefix.rsplit('/').next().unwrap_or_default().to_owned();
    let without_slash = Some(last).filter(|last| !last.is_empty());
    router = router.route("/", root(without_slash));
    let files = {
        let page = Arc::clone(&page);
        methods(&api, Meter::new(registry, "page"), move |_, request| Arc::clone(&page).file(request))
    };
    router = router.route("/page/{file}", files);
    router = router.fallback(missing);
    if !config.cors_allowed_origins.is_empty() {
        router = router.layer(cors(&config.cors_allowed_origins, config));
    }
    router = router.merge(kairosdb(config, &api, registry));
    // Without CORS headers, so that no other site can read these paths.
    for (path, name) in
        [("/plumbago/status", "status"), ("/plumbago/rules", "rules"), ("/plumbago/costs", "costs")]
    {
        router = with_paths(router, &[path], endpoint(name, &api, registry));
    }
    if config.gzip {
        router = router.layer(CompressionLayer::new().compress_when(compressible()));
    }
    let router = if config.url_prefix.is_empty() {
        router
    } else {
        // Nesting serves the root of `router` only without the last slash.
        let with_slash = format!("{}/", config.url_prefix);
        Router::new().nest(&config.url_prefix, router).route(&with_slash, root(None)).fallback(missing)
    };
    let gate = Gate { users, url_prefix: config.url_prefix.as_str().into() };
    router.layer(from_fn_with_state(gate, users::check))
}

/// The routes of KairosDB's API. Pages of any site may use them, as in KairosDB, unless `api.cors_allowed_origins`
/// names sites. Deletions are never open to pages of any site.
fn kairosdb(config: &Config, api: &Arc<Api>, registry: &Registry) -> Router {
    let mut open = Router::new();
    for (paths, name) in [
        (&["/api/v1/datapoints"][..], "datapoints"),
        (&["/api/v1/datapoints/query"], "query"),
        (&["/api/v1/datapoints/query/tags"], "query-tags"),
        (&["/api/v1/health/status", "/api/v1/health/check"], "kairosdb-health"),
        (&["/api/v1/metricnames", "/api/v1/tagnames", "/api/v1/tagvalues", "/api/v1/version"], "kairosdb"),
    ] {
        open = with_paths(open, paths, endpoint(name, api, registry));
    }
    let mut deletes = Router::new();
    deletes = with_paths(deletes, &["/api/v1/datapoints/delete"], endpoint("delete", api, registry));
    deletes = with_paths(deletes, &["/api/v1/metric/{name}"], endpoint("delete-metric", api, registry));
    let origins = &config.cors_allowed_origins;
    if origins.is_empty() {
        return open.route_layer(cors(&["*".to_owned()], config).max_age(PREFLIGHT_AGE)).merge(deletes);
    }
    let with_delete = cors(origins, config).allow_methods([Method::POST, Method::DELETE]);
    open.route_layer(cors(origins, config)).merge(deletes.route_layer(with_delete))
}

/// Adds the paths, each with and without a slash at its end.
fn with_paths(mut router: Router, paths: &[&str], methods: MethodRouter) -> Router {
    for path in paths {
        router = router.route(path, methods.clone()).route(&format!("{path}/"), methods.clone());
    }
    router
}

fn endpoint(name: &str, api: &Arc<Api>, registry: &Registry) -> MethodRouter {
    let meter = Meter::new(registry, name);
    match name {
        "render" => methods(api, meter, handler::render),
        "find" => methods(api, meter, handler::find),
        "expand" => methods(api, meter, handler::expand),
        "index" => methods(api, meter, handler::index_json),
        "get-metadata" => methods(api, meter, handler::get_metadata),
        "set-metadata" => methods(api, meter, handler::set_metadata),
        "tags" => methods(api, meter, handler::tags),
        "functions" => methods(api, meter, handler::functions),
        "info" => methods(api, meter, handler::info),
        "capabilities" => methods(api, meter, handler::capabilities),
        "events" => methods(api, meter, handler::events),
        "dashboard" => methods(api, meter, handler::dashboard),
        "composer" => methods(api, meter, handler::composer),
        "datapoints" => spoken(Protocol::Kairos, api, meter, handler::datapoints),
        "query" => spoken(Protocol::Kairos, api, meter, handler::query),
        "delete" => spoken(Protocol::Kairos, api, meter, handler::delete),
        "delete-metric" => {
            let delete = (MethodFilter::DELETE, "DELETE, OPTIONS");
            methods_of(delete, Some(Protocol::Kairos), api, meter, handler::delete_metric)
        }
        "query-tags" => spoken(Protocol::Kairos, api, meter, handler::query_tags),
        "kairosdb" => spoken(Protocol::Kairos, api, meter, handler::listing),
        "kairosdb-health" => spoken(Protocol::Kairos, api, meter, handler::kairos_health),
        "put" => spoken(Protocol::OpenTsdb, api, meter, handler::put),
        "opentsdb-query" => spoken(Protocol::OpenTsdb, api, meter, handler::opentsdb_query),
        "suggest" => spoken(Protocol::OpenTsdb, api, meter, handler::suggest),
        "lookup" => spoken(Protocol::OpenTsdb, api, meter, handler::lookup),
        "aggregators" => spoken(Protocol::OpenTsdb, api, meter, handler::aggregators),
        "filters" => spoken(Protocol::OpenTsdb, api, meter, handler::filters),
        "opentsdb-version" => spoken(Protocol::OpenTsdb, api, meter, handler::opentsdb_version),
        "plumbago" => methods(api, meter, handler::plumbago),
        "status" => methods(api, meter, handler::status),
        "rules" => methods(api, meter, handler::rules),
        "costs" => methods(api, meter, handler::costs),
        _ => methods(api, meter, |_, _| async { plain(StatusCode::OK, GRAPHITE_VERSION) }),
    }
}

/// Routes GET, HEAD and POST to the handler, applies `api.limits.request_time`, and counts the requests.
fn methods<H, F>(api: &Arc<Api>, meter: Meter, handler: H) -> MethodRouter
where
    H: Fn(Arc<Api>, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    methods_of((MethodFilter::GET.or(MethodFilter::POST), ALLOWED), None, api, meter, handler)
}

/// Like [`methods`], but answers errors in the form that the clients of the protocol know.
fn spoken<H, F>(protocol: Protocol, api: &Arc<Api>, meter: Meter, handler: H) -> MethodRouter
where
    H: Fn(Arc<Api>, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    methods_of((MethodFilter::GET.or(MethodFilter::POST), ALLOWED), Some(protocol), api, meter, handler)
}

/// Like [`methods`], for these methods, with their names as the header `Allow` lists them.
fn methods_of<H, F>(
    (filter, allowed): (MethodFilter, &'static str),
    protocol: Option<Protocol>,
    api: &Arc<Api>,
    meter: Meter,
    handler: H,
) -> MethodRouter
where
    H: Fn(Arc<Api>, Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let api = Arc::clone(api);
    let answer = move |request: Request| {
        let (api, meter, handler) = (Arc::clone(&api), meter.clone(), handler.clone());
        async move {
            let limit = api.limits().request_time;
            let answer = async {
                match tokio::time::timeout(*limit, handler(api, request)).await {
                    Ok(response) => response,
                    Err(_) => match protocol {
                        Some(protocol) => protocol.error(ApiError::TooSlow(limit)),
                        None => ApiError::TooSlow(limit).into_response(),
                    },
                }
            };
            meter.measure(answer).await
        }
    };
    let others = move |method: Method| async move {
        match protocol {
            Some(protocol) => protocol.wrong_method(allowed),
            None => wrong_method(&method, allowed),
        }
    };
    on(filter, answer).options(async move || options(allowed)).fallback(others)
}

const ALLOWED: &str = "GET, HEAD, POST, OPTIONS";

/// How long a browser may cache the answer to a preflight request to KairosDB's paths. KairosDB sends the same value.
const PREFLIGHT_AGE: Duration = Duration::from_secs(86_400);

fn options(allowed: &'static str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

fn compressible() -> impl Predicate {
    SizeAbove::new(u64::from(GZIP_ABOVE_BYTES))
}

fn cors(origins: &[String], config: &Config) -> CorsLayer {
    // In CORS, "*" does not include the header Authorization.
    let has_users = !config.users.file.as_os_str().is_empty();
    let headers = if has_users { AllowHeaders::mirror_request() } else { Any.into() };
    let layer = CorsLayer::new().allow_methods([Method::GET, Method::POST]).allow_headers(headers);
    if origins.iter().any(|origin| origin == "*") {
        return layer.allow_origin(Any);
    }
    layer.allow_origin(origins.iter().filter_map(|origin| origin.parse().ok()).collect::<Vec<HeaderValue>>())
}
