//! Access to the admin port, by `admin.token` or by the secret of the data directory.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use subtle::ConstantTimeEq;

use crate::error::plain;
use crate::peer_heads::HEADS_PATH;

/// The path that sets the clock of a process under test.
pub(super) const CLOCK_PATH: &str = "/admin/clock";

/// A secret in a file on this machine. Only those who can read the file know the secret.
#[derive(Debug, Clone)]
pub struct AdminSecret {
    /// The content of the file.
    pub value: String,
    /// The path of the file, for messages.
    pub file: PathBuf,
}

/// The credentials that a request can send.
#[derive(Debug)]
pub(crate) struct Access {
    /// `admin.token`; empty if there is none.
    token: String,
    secret: AdminSecret,
}

impl Access {
    pub(crate) fn new(token: &str, secret: AdminSecret) -> Self {
        Self { token: token.to_owned(), secret }
    }

    /// Whether a request must send the token or the secret. If there is a token, every request must. Otherwise only
    /// requests that change or stop something must, since other users of this machine can reach the port too. Two
    /// paths are exempt although they take a POST: reading the points in memory changes nothing, and the clock can be
    /// set only in a process that runs for a test.
    fn is_needed(&self, method: &Method, path: &str) -> bool {
        let reads = matches!(*method, Method::GET | Method::HEAD) || [HEADS_PATH, CLOCK_PATH].contains(&path);
        !self.token.is_empty() || !reads
    }

    /// Whether the request's headers contain the token or the secret.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().split_at_checked(7));
        let Some((scheme, given)) = given else { return false };
        let is = |known: &str| !known.is_empty() && bool::from(given.ct_eq(known.as_bytes()));
        scheme.eq_ignore_ascii_case(b"bearer ") && (is(&self.token) | is(&self.secret.value))
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
