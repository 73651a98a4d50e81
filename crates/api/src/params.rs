//! The parameters of a request: its query string and, after it, its form.

use axum::extract::{FromRequest, Multipart, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::Method;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap};

use crate::config::Limits;
use crate::error::{ApiError, beyond, quoted};
use crate::format::protobuf::Version;

/// More parameters than any client sends.
const PAIRS_MAX: usize = 10_000;

/// Names and values in the order in which they came.
#[derive(Debug, Default, Clone)]
pub(crate) struct Params {
    pairs: Vec<(String, String)>,
    /// carbonapi's protobuf message in the body.
    message: bytes::Bytes,
}

impl Params {
    /// Reads the query string and a form in the body, url-encoded or multipart.
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

    /// The last value of a name: a form wins over the query string.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// True when the name was sent, whatever its value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// All values of a name, or else of `name[]`, the spelling of PHP and jQuery.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let of = |wanted: &str| -> Vec<&str> {
            self.pairs.iter().filter(|(key, _)| key == wanted).map(|(_, value)| value.as_str()).collect()
        };
        let plain = of(name);
        if plain.is_empty() { of(&format!("{name}[]")) } else { plain }
    }

    /// Names and values.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A whole number; absent is `default`, anything else an error.
    pub(crate) fn integer(&self, name: &str, default: i64) -> Result<i64, ApiError> {
        match self.get(name) {
            None => Ok(default),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|_| ApiError::Invalid(format!("{name}={} is no whole number", quoted(text)))),
        }
    }

    /// A switch: a whole number, on when it is not zero.
    pub(crate) fn switch(&self, name: &str) -> Result<bool, ApiError> {
        Ok(self.integer(name, 0)? != 0)
    }

    /// True when the request asks by a message in its body.
    pub(crate) fn has_message(&self) -> bool {
        !self.message.is_empty()
    }

    /// The protobuf message in the body, if that is how the request asks.
    pub(crate) fn message<M: prost::Message + Default>(&self) -> Result<Option<M>, ApiError> {
        if self.message.is_empty() {
            return Ok(None);
        }
        let malformed = |error| ApiError::Invalid(format!("malformed protobuf message: {error}"));
        M::decode(self.message.clone()).map(Some).map_err(malformed)
    }

    /// carbonapi names the third protocol in `Accept` too, and sometimes only there.
    fn add_accepted(&mut self, headers: &HeaderMap) -> Result<(), ApiError> {
        let version = Version::V3;
        let is_accepted = headers.get(ACCEPT).is_some_and(|value| value == version.content_type());
        if is_accepted && !self.has("format") {
            self.push("format".to_owned(), "carbonapi_v3_pb".to_owned())?;
        }
        Ok(())
    }

    /// True when the body is a message: in the third protocol it is, of a GET too, unless it says that
    /// it is a form.
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

/// A POST without a content type is taken for a url-encoded form, as curl and scripts send it.
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

/// The whole body.
pub(crate) async fn body(request: Request, limits: &Limits) -> Result<bytes::Bytes, ApiError> {
    match Limited::new(request.into_body(), limits.body.bytes()).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(beyond("bytes of the request's body", "body", limits.body.bytes()))
        }
        Err(error) => Err(ApiError::Invalid(format!("the request's body could not be read: {error}"))),
    }
}
