//! Entry points for fuzzers. They must return for any bytes, without a panic and without a status of 500.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use plumbago_boxed_futures::boxed_futures;
use plumbago_index::Index;
use plumbago_model::{ManualClock, Series};
use plumbago_store::{FetchError, FetchRequest, Provenance, SeriesSource};
use plumbago_telemetry::Registry;

use crate::admin::NoConditions;
use crate::config::{Config, Limits};
use crate::events::EventLog;
use crate::handler;
use crate::limits::LiveLimits;
use crate::metadata::NoMetadata;
use crate::points::NoWriter;
use crate::state::{Api, Handles};
use crate::tagging::NoTagging;
use crate::users::{LiveUsers, RequiredFor};

/// A source in which every metric has a few points.
#[derive(Debug)]
struct Few;

#[boxed_futures]
impl SeriesSource for Few {
    async fn fetch(&self, request: &FetchRequest) -> Result<Vec<Series>, FetchError> {
        let series = |name: &Arc<str>| Series {
            name: Arc::clone(name),
            start: 1_700_000_040,
            step: 60,
            values: vec![1.0, f64::NAN, f64::INFINITY, -0.5],
        };
        Ok(request.names.iter().map(series).collect())
    }

    async fn explain(&self, _: &FetchRequest) -> Result<Vec<Provenance>, FetchError> {
        Ok(Vec::new())
    }
}

/// Posts a form to the endpoints that parse parameters, and returns the status code of each response.
pub fn forms(bytes: &[u8]) -> Vec<u16> {
    let registry = Registry::new();
    let index = Arc::new(Index::new(&registry));
    index.insert(["a.b", "a.c", "a.b.c", "\u{fc}.x", "cpu;dc=a"]);
    let handles = Handles {
        index,
        finder: None,
        activity: None,
        source: Arc::new(Few),
        tagging: Arc::new(NoTagging),
        writer: Arc::new(NoWriter),
        readiness: Arc::new(NoConditions),
        metadata: Arc::new(NoMetadata),
        events: Arc::new(EventLog::off()),
        clock: Arc::new(ManualClock::at(1_700_000_100)),
        registry,
        answers: Default::default(),
        status: None,
    };
    let limits = Limits { body: plumbago_model::ByteSize(1 << 16), ..Limits::default() };
    let users = LiveUsers::everybody(RequiredFor::All, None, &handles.registry);
    let api = Arc::new(Api::new(&Config::default(), LiveLimits::new(limits), users, &handles));
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return Vec::new();
    };
    runtime.block_on(async {
        let api = || Arc::clone(&api);
        vec![
            finish(handler::render(api(), request(bytes)).await).await,
            finish(handler::find(api(), request(bytes)).await).await,
            finish(handler::expand(api(), request(bytes)).await).await,
            finish(handler::index_json(api(), request(bytes)).await).await,
            finish(handler::tags(api(), tag_request("findSeries", bytes)).await).await,
            finish(handler::tags(api(), tag_request("autoComplete/tags", bytes)).await).await,
            finish(handler::tags(api(), tag_request("autoComplete/values", bytes)).await).await,
        ]
    })
}

/// A POST request with the form. The form counts as multipart if it begins with the boundary `--X`.
fn request(bytes: &[u8]) -> Request {
    let mut request = Request::new(Body::from(bytes.to_vec()));
    *request.method_mut() = Method::POST;
    let is_multipart = bytes.starts_with(b"--X");
    let kind =
        if is_multipart { "multipart/form-data; boundary=X" } else { "application/x-www-form-urlencoded" };
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    request
}

fn tag_request(call: &str, bytes: &[u8]) -> Request {
    let mut request = request(bytes);
    *request.uri_mut() = format!("/tags/{call}").parse().unwrap_or_default();
    request
}

/// Reads a body to its end, because errors may occur only then. Returns the status code.
async fn finish(response: Response) -> u16 {
    let status = response.status().as_u16();
    let _ = response.into_body().collect().await;
    status
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(form: &[u8]) -> Result<(), TestCaseError> {
        for status in forms(form) {
            prop_assert!(matches!(status, 200 | 400 | 413), "{status}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_form_is_answered(form: Vec<u8>) {
            check(&form)?;
        }

        #[test]
        fn forms_with_the_right_names_are_answered(
            format in "json|csv|raw|pickle|msgpack|dygraph|rickshaw|protobuf|carbonapi_v3_pb|png|svg|treejson|completer|nodelist|",
            text in "[ab.*?{}\\[\\],()|\"'=0-9;$é-]{0,20}",
            time in "[-+]?[0-9]{0,6}(s|min|h|noon|:)?",
            number in "-?[0-9]{0,20}",
            expression in "(dc|name|a)(=|!=|=~|!=~)[ab.*?{}\\[\\],()|\"'=0-9;$é^+\\\\-]{0,20}",
        ) {
            let mut form = form_urlencoded::Serializer::new(String::new());
            for (name, value) in [
                ("target", &text), ("target", &format!("seriesByTag('{expression}')")), ("query", &text), ("from", &time), ("until", &time), ("format", &format),
                ("maxDataPoints", &number), ("position", &number), ("now", &time), ("xFilesFactor", &number),
                ("expr", &expression), ("tag", &text), ("tagPrefix", &text), ("limit", &number),
                ("template[1]", &text), ("jsonp", &text), ("pretty", &number), ("wildcards", &number), ("width", &number), ("yMin", &number),
                ("areaMode", &text), ("title", &text), ("graphType", &text), ("colorList", &text),
            ] {
                if !value.is_empty() {
                    form.append_pair(name, value);
                }
            }
            check(form.finish().as_bytes())?;
            check(format!("target={text}&query={text}&format={format}").as_bytes())?;
        }
    }

    #[test]
    fn broken_multipart_forms_are_answered() {
        let field = b"--X\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\na.*\r\n--X--\r\n";
        for length in 0..field.len() {
            assert!(forms(&field[..length]).iter().all(|status| matches!(status, 200 | 400)));
        }
    }
}
