//! Who may see the status: clients on this machine, and those who know the admin token or the secret.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::{HOST, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use plumbago_telemetry::Registry;

use super::{CostSource, RuleTester, StatusHandles, StatusSource};
use crate::access::Access;
use crate::admin::guard::{is_this_machine, name_of_host, of_other_site};
use crate::client::Client;
use crate::config::{PageConfig, StatusAccess};
use crate::error::plain;

/// Headers that a proxy adds. If a request has one, its client is not the peer of the connection.
const OF_PROXIES: [&str; 4] = ["forwarded", "via", "x-forwarded-for", "x-real-ip"];

/// The parts of the process that the endpoints of the status use, and their settings.
#[derive(Debug)]
pub(crate) struct Status {
    pub(crate) source: Arc<dyn StatusSource>,
    pub(crate) rules: Arc<dyn RuleTester>,
    pub(crate) costs: Arc<dyn CostSource>,
    access: Access,
    pub(crate) registry: Registry,
    is_open_here: bool,
    /// The permitted values of `Host`, in lower case.
    hosts: Vec<String>,
}

impl Status {
    /// `None` if the status is switched off, or the process has none.
    pub(crate) fn new(
        config: &PageConfig,
        handles: Option<&StatusHandles>,
        registry: &Registry,
    ) -> Option<Self> {
        let handles = handles.filter(|_| config.status != StatusAccess::Off)?;
        Some(Self {
            source: Arc::clone(&handles.source),
            rules: Arc::clone(&handles.rules),
            costs: Arc::clone(&handles.costs),
            access: Access::new(&handles.token, handles.secret.clone()),
            registry: registry.clone(),
            is_open_here: config.status == StatusAccess::Auto,
            hosts: config.hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
        })
    }

    /// Checks that the client of the request may see the status. The error is the answer to send.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Box<Response>> {
        let headers = request.headers();
        if let Some(problem) = of_other_site(request.method(), headers) {
            return Err(Box::new(plain(StatusCode::FORBIDDEN, format!("{problem}\n"))));
        }
        let is_from_here = self.is_open_here && self.is_from_here(request.extensions().get(), headers);
        if !is_from_here && !self.access.is_known(headers) {
            return Err(Box::new(refusal()));
        }
        Ok(())
    }

    /// Whether the request comes from this machine and its `Host` names this machine. A page of another site can make
    /// its own name resolve to this machine (DNS rebinding), but then `Host` contains that name.
    fn is_from_here(&self, client: Option<&Client>, headers: &HeaderMap) -> bool {
        let is_near = client.is_some_and(|Client(address)| address.ip().to_canonical().is_loopback());
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let is_named = is_this_machine(host) || self.hosts.contains(&name_of_host(host));
        is_near && is_named && !OF_PROXIES.iter().any(|name| headers.contains_key(*name))
    }
}

fn refusal() -> Response {
    let text = "the status, the rules and the costs are shown only to browsers on the daemon's machine, and \
                to requests whose header Authorization has admin.token (or the content of the file \
                admin-secret in the data directory) as its bearer token\n";
    let mut response = plain(StatusCode::UNAUTHORIZED, text);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::{Value, json};

    use super::*;
    use crate::access::AdminSecret;
    use crate::error::AdminError;
    use crate::status::{CostQuestion, RuleTexts, TrialLimits};

    #[derive(Debug)]
    struct Empty;

    #[plumbago_boxed_futures::boxed_futures]
    impl RuleTester for Empty {
        async fn in_force(&self) -> Result<Value, AdminError> {
            Ok(json!({}))
        }

        async fn explain(&self, _: &str) -> Result<Value, AdminError> {
            Ok(json!({}))
        }

        async fn try_texts(&self, _: RuleTexts, _: TrialLimits) -> Result<Value, AdminError> {
            Ok(json!({}))
        }
    }

    #[plumbago_boxed_futures::boxed_futures]
    impl CostSource for Empty {
        async fn costs(&self, _: CostQuestion, _: TrialLimits) -> Result<Value, AdminError> {
            Ok(json!({}))
        }
    }

    #[plumbago_boxed_futures::boxed_futures]
    impl StatusSource for Empty {
        async fn status(&self) -> Result<Value, AdminError> {
            Ok(json!({}))
        }
    }

    fn handles(secret: &str) -> StatusHandles {
        let secret = AdminSecret { value: secret.to_owned(), file: PathBuf::new() };
        StatusHandles {
            source: Arc::new(Empty),
            rules: Arc::new(Empty),
            costs: Arc::new(Empty),
            token: String::new(),
            secret,
        }
    }

    fn status() -> Status {
        let config = PageConfig { hosts: vec!["Graphite.example".to_owned()], ..PageConfig::default() };
        Status::new(&config, Some(&handles("secret")), &Registry::new()).unwrap()
    }

    fn is_from_here(client: Option<&str>, headers: &[(&'static str, &str)]) -> bool {
        let client = client.map(|address| Client(address.parse().unwrap()));
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        status().is_from_here(client.as_ref(), &headers.collect())
    }

    #[test]
    fn only_this_machine_by_its_own_names() {
        let here = Some("127.0.0.1:50000");
        for host in
            ["127.0.0.1:8080", "localhost", "[::1]:8080", "graphite.example:8080", "GRAPHITE.example."]
        {
            assert!(is_from_here(here, &[("host", host)]), "{host}");
        }
        assert!(is_from_here(Some("[::ffff:127.0.0.1]:50000"), &[("host", "localhost")]));
        assert!(!is_from_here(here, &[("host", "evil.example")]), "a name that was rebound");
        assert!(!is_from_here(here, &[]), "no name");
        assert!(!is_from_here(Some("10.0.0.7:50000"), &[("host", "10.0.0.1:8080")]));
        assert!(!is_from_here(None, &[("host", "localhost")]), "a connection of another port");
        for header in OF_PROXIES {
            assert!(!is_from_here(here, &[("host", "localhost"), (header, "10.0.0.7")]), "{header}");
        }
    }

    #[test]
    fn it_can_be_switched_off() {
        let off = PageConfig { status: StatusAccess::Off, ..PageConfig::default() };
        assert!(Status::new(&off, Some(&handles("")), &Registry::new()).is_none());
        assert!(Status::new(&PageConfig::default(), None, &Registry::new()).is_none());
    }
}
