//! Users of the API port: Basic authentication with a file of Apache's htpasswd.
//!
//! `file` reads the file and compares passwords. This module decides which requests must come from a user: all, or
//! only those that change something. The check runs before the routes and notes its result in the request. A
//! handler that changes something calls [`LiveUsers::refuse_write`].

mod config;
mod file;

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode};
use plumbago_telemetry::{Counter, Registry, Throttle};
use tokio::sync::Semaphore;

use crate::access::Access;
use crate::error::ApiError;
use crate::protocol::error_of_path;

pub use self::config::{RequiredFor, UsersConfig};
use self::file::Users;
pub use self::file::UsersError;

/// Maximum number of passwords that are being compared or wait for it. Comparing takes a processor some
/// milliseconds.
const WAITING_MAX: usize = 32;
/// Time between two log lines about wrong passwords, in milliseconds.
const LOG_EVERY_MS: i64 = 60_000;

/// The users, and which requests must come from one. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveUsers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// `None` if everybody may use the port.
    users: ArcSwapOption<Users>,
    required_for: RequiredFor,
    /// The admin token and the secret of the data directory, which are accepted in place of a password.
    admin: Option<Access>,
    waiting: Semaphore,
    comparing: Semaphore,
    refused: Counter,
    throttle: Throttle,
}

/// Who sent a request, as an extension of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    User,
    Unknown,
}

impl LiveUsers {
    /// Reads the file of users, if there is one.
    ///
    /// # Errors
    /// If the file cannot be read or used.
    pub(crate) fn new(
        config: &UsersConfig,
        admin: Option<Access>,
        registry: &Registry,
    ) -> Result<Self, UsersError> {
        let users = Self::everybody(config.required_for, admin, registry);
        users.reload(&config.file)?;
        Ok(users)
    }

    /// Lets everybody use the port until a file of users is read.
    pub(crate) fn everybody(required_for: RequiredFor, admin: Option<Access>, registry: &Registry) -> Self {
        Self(Arc::new(Inner {
            users: ArcSwapOption::new(None),
            required_for,
            admin,
            waiting: Semaphore::new(WAITING_MAX),
            comparing: Semaphore::new(1),
            refused: registry.counter(
                "plumbago_api_unauthorized_total",
                "requests refused because they had no valid user name and password",
                &[],
            ),
            throttle: Throttle::new(LOG_EVERY_MS),
        }))
    }

    /// Reads the file again. An empty path lets everybody use the port.
    ///
    /// # Errors
    /// If the file cannot be read or used. The old users stay in effect then.
    pub fn reload(&self, file: &Path) -> Result<(), UsersError> {
        self.0.users.store(read(file)?);
        Ok(())
    }

    /// Refuses a request that changes something, unless a known user sent it.
    pub(crate) fn refuse_write(&self, request: &Request) -> Result<(), ApiError> {
        let is_open = self.0.users.load().is_none();
        if is_open || request.extensions().get() == Some(&Caller::User) {
            return Ok(());
        }
        self.note_refusal(request);
        Err(ApiError::Unauthorized)
    }

    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let Some(users) = self.0.users.load_full() else { return Ok(Caller::Unknown) };
        if self.0.admin.as_ref().is_some_and(|access| access.is_known(headers)) {
            return Ok(Caller::User);
        }
        let Some((name, password)) = credentials(headers) else { return Ok(Caller::Unknown) };
        if users.has_seen(&name, &password) {
            return Ok(Caller::User);
        }
        let busy = |_| ApiError::Busy("too many passwords are being checked; try again".to_owned());
        let _waiting = self.0.waiting.try_acquire().map_err(busy)?;
        let _comparing = self.0.comparing.acquire().await;
        let compared = tokio::task::spawn_blocking(move || users.is_user(&name, &password)).await;
        Ok(if compared.unwrap_or(false) { Caller::User } else { Caller::Unknown })
    }

    fn note_refusal(&self, request: &Request) {
        self.0.refused.add(1);
        let (method, path) = (request.method(), request.uri().path());
        let Some(unsaid) = self.0.throttle.pass_now() else { return };
        let unsaid = match unsaid {
            0 => String::new(),
            more => format!("; {more} more requests were refused since the last such line"),
        };
        tracing::warn!(
            "{method} {path} was refused: no valid user name and password (api.users.file){unsaid}"
        );
    }
}

/// What [`check`] needs.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    pub(crate) users: LiveUsers,
    /// `api.url_prefix`.
    pub(crate) url_prefix: Arc<str>,
}

/// Checks who sends a request, and refuses it if it must come from a user (status 401). OPTIONS is always let
/// through: browsers send preflight requests without a password. Refusals have the form of the path's protocol.
pub(crate) async fn check(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let users = &gate.users;
    if users.0.users.load().is_none() {
        return next.run(request).await;
    }
    let caller = match users.caller(request.headers()).await {
        Ok(caller) => caller,
        Err(busy) => return error_of_path(busy, request.uri().path(), &gate.url_prefix),
    };
    let is_needed = users.0.required_for == RequiredFor::All && request.method() != Method::OPTIONS;
    if is_needed && caller == Caller::Unknown {
        users.note_refusal(&request);
        let path = request.uri().path();
        return challenge(error_of_path(ApiError::Unauthorized, path, &gate.url_prefix));
    }
    request.extensions_mut().insert(caller);
    challenge(next.run(request).await)
}

/// Adds the header that asks for authentication to a response with status 401, unless it has one already.
fn challenge(mut response: Response) -> Response {
    if response.status() == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"Plumbago\", charset=\"UTF-8\"");
        response.headers_mut().entry(WWW_AUTHENTICATE).or_insert(basic);
    }
    response
}

/// Name and password, if the request has them (RFC 7617).
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, rest) = headers.get(AUTHORIZATION)?.as_bytes().split_at_checked(6)?;
    let decoded = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (name, password) = text.split_once(':')?;
    scheme.eq_ignore_ascii_case(b"basic ").then(|| (name.to_owned(), password.to_owned()))
}

fn read(file: &Path) -> Result<Option<Arc<Users>>, UsersError> {
    if file.as_os_str().is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(Users::read(file)?)))
}

/// The problem of the file of users; `None` if there is none.
pub(crate) fn problem(file: &Path) -> Option<UsersError> {
    read(file).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<(String, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        credentials(&headers)
    }

    #[test]
    fn credentials_are_read_as_the_rfc_says() {
        let expected = Some(("Aladdin".to_owned(), "open sesame".to_owned()));
        assert_eq!(of("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), expected);
        assert_eq!(of("bAsIc  QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), expected);
        let with_colon = format!("Basic {}", BASE64_STANDARD.encode("a:b:c"));
        assert_eq!(of(&with_colon), Some(("a".to_owned(), "b:c".to_owned())));
        for wrong in ["", "Basic", "Basic !", "Basic QWxhZGRpbg==", "Bearer QWxhZGRpbjpvcGVuIHNlc2FtZQ=="] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
