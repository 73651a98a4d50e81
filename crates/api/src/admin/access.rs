//! Which requests to the admin port need the operator's credentials.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};

use crate::access::Access;
use crate::error::plain;
use crate::peer_heads::HEADS_PATH;

/// The path that sets the clock of a process under test.
pub(super) const CLOCK_PATH: &str = "/admin/clock";

impl Access {
    /// Whether a request must send the token or the secret. If there is a token, every request must. Otherwise only
    /// requests that change or stop something must, since other users of this machine can reach the port too. Two
    /// paths are exempt although they take a POST: reading the points in memory changes nothing, and the clock can be
    /// set only in a process that runs for a test.
    fn is_needed(&self, method: &Method, path: &str) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD) || [HEADS_PATH, CLOCK_PATH].contains(&path);
        !self.token.is_empty() || !reads
    }

    fn refusal(&self) -> Response {
        let text = if self.token.is_empty() {
            let file = self.secret.file.display();
            format!(
                "a request that changes or stops something needs a bearer token: the value of admin.token, \
                 or while that is not set, the content of {file}, which the owner of the data directory can \
                 read: curl -X POST -H \"Authorization: Bearer $(cat {file})\" …\n"
            )
        } else {
            "this request needs the header Authorization with admin.token as its bearer token\n".to_owned()
        };
        let mut response = plain(StatusCode::UNAUTHORIZED, text);
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        response
    }
}

/// Refuses requests that lack the credentials they need (status 401).
pub(super) async fn check(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    if access.is_needed(request.method(), request.uri().path()) && !access.is_known(request.headers()) {
        return access.refusal();
    }
    next.run(request).await
}
