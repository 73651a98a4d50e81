//! The parameters of a request, from its query string and from a form or message in its body.

use axum::extract::{FromRequest, Multipart, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};

use crate::carbonapi::Version;
use crate::config::Limits;
use crate::error::{ApiError, beyond, quoted};

/// Maximum number of parameters of a request. Real clients send far fewer.
const PAIRS_MAX: usize = 10_000;

/// The parameters of a request.
#[derive(Debug, Default, Clone)]
pub(crate) struct Params {
    /// Names and values: first those of the query string, then those of the form, each in the order of the
    /// request.
    pairs: Vec<(String, String)>,
    /// carbonapi's protobuf message; empty if the request has none.
    message: bytes::Bytes,
}

impl Params {
    /// Reads the query string, and a form (url-encoded or multipart) or a protobuf message in the body.
    pub(crate) async fn of(request: Request, limits: &Limits) -> Result<Self, ApiError> {
        let mut params = Self::default();
        params.add_encoded(request.uri().query().unwrap_or_default().as_bytes())?;
        params.add_accepted(request.headers())?;
        match form(request.method(), request.headers()) {
            _ if params.asks_by_message(request.headers()) => params.message = body(request, limits).await?,
            Form::None => {}
            Form::Encoded => params.add_encoded(&body(request, limits).await?)?,
            Form::Multipart => params.add_multipart(request, limits).await?,
        }
        Ok(params)
    }

    /// The last value of a name. A value in the form has precedence over one in the query string.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether the request has a parameter of this name, even without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All values of a name; if there are none, those of `name[]`, which is how PHP and jQuery write a list.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let of = |wanted: &str| -> Vec<&str> {
            self.pairs.iter().filter(|(key, _)| key == wanted).map(|(_, value)| value.as_str()).collect()
        };
        let plain = of(name);
        if plain.is_empty() { of(&format!("{name}[]")) } else { plain }
    }

    /// All names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a name as a whole number, or `default` if the name is absent. Fails for other texts.
    pub(crate) fn integer(&self, name: &str, default: i64) -> Result<i64, ApiError> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| ApiError::Invalid(format!("{name}={} is not a whole number", quoted(text)))),
        }
    }

    /// The value of a switch: a whole number, where 0 means off. Off if the name is absent.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, ApiError> {
        Ok(self.integer(name, 0)? != 0)
    }

    /// Whether the body is a protobuf message.
    pub(crate) fn has_message(&self) -> bool {
        !self.message.is_empty()
    }

    /// Decodes the protobuf message; `None` if the request has none.
    pub(crate) fn message<M: prost::Message + Default>(&self) -> Result<Option<M>, ApiError> {
        if self.message.is_empty() {
            return Ok(None);
        }
        let malformed = |error| ApiError::Invalid(format!("malformed protobuf message: {error}"));
        M::decode(self.message.clone()).map(Some).map_err(malformed)
    }

    /// Selects protocol 3 if the header `Accept` names it and there is no parameter `format`. carbonapi
    /// sometimes sends only the header.
    fn add_accepted(&mut self, headers: &HeaderMap) -> Result<(), ApiError> {
        let version = Version::V3;
        let is_accepted = headers.get(ACCEPT).is_some_and(|value| value == version.content_type());
        if is_accepted && !self.has("format") {
            self.push("format".to_owned(), "carbonapi_v3_pb".to_owned())?;
        }
        Ok(())
    }

    /// Whether to read the body as a protobuf message. In protocol 3, every body is such a message, even the
    /// body of a GET, unless its content type is that of a form.
    fn asks_by_message(&self, headers: &HeaderMap) -> bool {
        let is_third = self.get("format").and_then(Version::named) == Some(Version::V3);
        is_third && !matches!(form(&Method::GET, headers), Form::Encoded | Form::Multipart)
    }

    fn add_encoded(&mut self, bytes: &[u8]) -> Result<(), ApiError> {
        for (key, value) in form_urlencoded::parse(bytes) {
            self.push(key.into_owned(), value.into_owned())?;
        }
        Ok(())
    }

    async fn add_multipart(&mut self, request: Request, limits: &Limits) -> Result<(), ApiError> {
        let malformed = |error: axum::extract::multipart::MultipartError| {
            ApiError::Invalid(format!("malformed multipart form: {}", error.body_text()))
        };
        let (parts, stream) = request.into_parts();
        let body = body(Request::from_parts(parts.clone(), stream), limits).await?;
        let whole = Request::from_parts(parts, axum::body::Body::from(body));
        let mut form = Multipart::from_request(whole, &())
            .await
            .map_err(|error| ApiError::Invalid(format!("malformed multipart form: {}", error.body_text())))?;
        while let Some(field) = form.next_field().await.map_err(malformed)? {
            let name = field.name().unwrap_or_default().to_owned();
            let value = field.bytes().await.map_err(malformed)?;
            self.push(name, String::from_utf8_lossy(&value).into_owned())?;
        }
        Ok(())
    }

    fn push(&mut self, key: String, value: String) -> Result<(), ApiError> {
        if self.pairs.len() == PAIRS_MAX {
            return Err(ApiError::TooLarge(format!("more than {PAIRS_MAX} parameters")));
        }
        self.pairs.push((key, value));
        Ok(())
    }
}

enum Form {
    None,
    Encoded,
    Multipart,
}

/// The kind of form in the body. A POST without a content type counts as a url-encoded form, because scripts
/// often omit the header.
fn form(method: &Method, headers: &HeaderMap) -> Form {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-www-form-urlencoded" => Form::Encoded,
        "multipart/form-data" => Form::Multipart,
        "" if method == Method::POST => Form::Encoded,
        _ => Form::None,
    }
}

/// The first value of a parameter in the query string. For requests whose [`Params`] were not read.
pub(crate) fn query_value(request: &Request, name: &str) -> Option<String> {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let found = form_urlencoded::parse(query).find(|(key, _)| key == name);
    found.map(|(_, value)| value.into_owned())
}

/// Reads the whole body. Fails if it is larger than `api.limits.body`, or does not arrive within
/// half of `api.limits.request_time`, so that the rest of the time is left for the answer.
pub(crate) async fn body(request: Request, limits: &Limits) -> Result<bytes::Bytes, ApiError> {
    let reading = Limited::new(request.into_body(), limits.body.bytes()).collect();
    let limit = *limits.request_time / 2;
    match tokio::time::timeout(limit, reading).await {
        Err(_) => Err(ApiError::SlowBody(limit)),
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(beyond("bytes of the request's body", "body", limits.body.bytes()))
        }
        Ok(Err(error)) => Err(ApiError::Invalid(format!("the request's body could not be read: {error}"))),
    }
}
