//! `/tags`: lists tags, values and series; adds and removes series.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::Method;
use percent_encoding::percent_decode_str;
use plumbago_index::{TagFilter, TagText};

use super::below;
use super::tag_search::{aside, expressions, search, series};
use crate::error::{ApiError, json_error, quoted, wrong_method};
use crate::format::json::{list, push_string};
use crate::format::wrap::{self, Wrapping};
use crate::params::Params;
use crate::state::Api;
use crate::stream::Pieces;

/// How many tags or values autocompletion returns if the request has no `limit`.
const OFFERED: usize = 100;

/// Answers a request to `/tags` or a path below it.
pub(crate) async fn tags(api: Arc<Api>, request: Request) -> Response {
    let path = below(&request, "/tags");
    let writes = matches!(path.as_str(), "tagSeries" | "tagMultiSeries" | "delSeries");
    let reads_only = !matches!(path.as_str(), "findSeries" | "autoComplete/tags" | "autoComplete/values");
    let is_post = request.method() == Method::POST;
    if is_post != writes && (writes || reads_only) {
        let allowed = if writes { "POST, OPTIONS" } else { "GET, HEAD, OPTIONS" };
        return wrong_method(request.method(), allowed);
    }
    if writes && !api.tag_writes {
        return failed(&ApiError::Forbidden("this server does not tag or untag series (api.tag_writes)"));
    }
    if writes && let Err(error) = api.users.refuse_write(&request) {
        return failed(&error);
    }
    answer(&api, &path, request).await.unwrap_or_else(|error| failed(&error))
}

async fn answer(api: &Arc<Api>, path: &str, request: Request) -> Result<Response, ApiError> {
    api.check_tags()?;
    let params = Params::of(request, &api.limits()).await?;
    let wrapping = Wrapping::of(&params)?;
    match path {
        "" => all(api, &params, wrapping).await,
        "findSeries" => find_series(api, &params, wrapping).await,
        "autoComplete/tags" => complete_tags(api, &params, wrapping).await,
        "autoComplete/values" => complete_values(api, &params, wrapping).await,
        "tagSeries" => tag_series(api, &params, wrapping).await,
        "tagMultiSeries" => tag_many(api, &params, wrapping).await,
        "delSeries" => untag(api, &params, wrapping).await,
        tag => one(api, &percent_decode_str(tag).decode_utf8_lossy(), &params, wrapping).await,
    }
}

async fn all(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let (filter, limit) = (filter(params)?, limit(params, usize::MAX)?);
    let tags = aside(api, move |index, _| index.list_tags(filter.as_ref(), limit)).await?;
    Ok(wrapping.json(list("[", tags.into_iter(), "]", push_tag)))
}

async fn one(api: &Arc<Api>, tag: &str, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let (filter, limit, tag) = (filter(params)?, limit(params, usize::MAX)?, tag.to_owned());
    let found = aside(api, move |index, _| index.list_values(&tag, filter.as_ref(), limit)).await?;
    let Some((tag, values)) = found else {
        return Ok(wrap::answer("application/json", Body::from("null")));
    };
    let mut head = Some(tag);
    let write = move |out: &mut Vec<u8>, value: TagText| push_value(out, &value);
    let open = move |out: &mut Vec<u8>| {
        if let Some(tag) = head.take() {
            push_tag(out, tag);
            out.pop();
            out.extend_from_slice(b",\"values\":[");
        }
    };
    Ok(wrapping.json(Headed { open, items: list("", values.into_iter(), "]}", write) }))
}

async fn find_series(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let texts = params.all("expr");
    if texts.is_empty() {
        return Err(ApiError::Invalid("no tag expressions specified".to_owned()));
    }
    Ok(strings(wrapping, series(api, &texts).await?))
}

async fn complete_tags(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let expressions = expressions(&params.all("expr"))?;
    let prefix = params.get("tagPrefix").unwrap_or_default().to_owned();
    let limit = limit(params, OFFERED)?;
    let find = move |index: &plumbago_index::Index, limits: &_| {
        index.complete_tags(&expressions, &prefix, limit, limits)
    };
    Ok(strings(wrapping, search(api, find).await?))
}

async fn complete_values(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let no_tag = || ApiError::Invalid("no tag specified".to_owned());
    let tag = params.get("tag").filter(|tag| !tag.is_empty()).ok_or_else(no_tag)?.to_owned();
    let expressions = expressions(&params.all("expr"))?;
    let prefix = params.get("valuePrefix").unwrap_or_default().to_owned();
    let limit = limit(params, OFFERED)?;
    let find = move |index: &plumbago_index::Index, limits: &_| {
        index.complete_values(&expressions, &tag, &prefix, limit, limits)
    };
    Ok(strings(wrapping, search(api, find).await?))
}

async fn tag_series(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let path = params.get("path").filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| ApiError::Invalid("no path specified".to_owned()))?;
    let names = api.tagging.tag(&[path]).await?;
    let mut text = Vec::new();
    push_string(&mut text, names.first().map(String::as_str).unwrap_or_default());
    let (kind, _) = wrapping.head();
    Ok(wrap::answer(kind, Body::from(text)))
}

async fn tag_many(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let paths = params.all("path");
    if paths.is_empty() {
        return Err(ApiError::Invalid("no paths specified".to_owned()));
    }
    Ok(strings(wrapping, api.tagging.tag(&paths).await?))
}

async fn untag(api: &Arc<Api>, params: &Params, wrapping: Wrapping) -> Result<Response, ApiError> {
    let paths = params.all("path");
    if paths.is_empty() {
        return Err(ApiError::Invalid("no path specified".to_owned()));
    }
    api.tagging.untag(&paths).await?;
    let (kind, _) = wrapping.head();
    Ok(wrap::answer(kind, Body::from("true")))
}

/// The regular expression `filter`, which listed tags or values must match.
fn filter(params: &Params) -> Result<Option<TagFilter>, ApiError> {
    let text = params.get("filter").filter(|text| !text.is_empty());
    Ok(text.map(TagFilter::new).transpose()?)
}

/// The largest number of results. A negative `limit` means all.
fn limit(params: &Params, default: usize) -> Result<usize, ApiError> {
    match params.get("limit").filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => match text.trim().parse::<i64>() {
            Ok(limit) => Ok(usize::try_from(limit).unwrap_or(usize::MAX)),
            Err(_) => Err(ApiError::Invalid(format!("limit={} is not a whole number", quoted(text)))),
        },
    }
}

fn strings(wrapping: Wrapping, texts: Vec<String>) -> Response {
    wrapping.json(list("[", texts.into_iter(), "]", |out, text| push_string(out, &text)))
}

fn push_tag(out: &mut Vec<u8>, tag: TagText) {
    out.extend_from_slice(format!("{{\"id\":{},\"tag\":", tag.id + 1).as_bytes());
    push_string(out, &tag.text);
    out.push(b'}');
}

fn push_value(out: &mut Vec<u8>, value: &TagText) {
    out.extend_from_slice(
        format!("{{\"count\":{},\"id\":{},\"value\":", value.series, value.id + 1).as_bytes(),
    );
    push_string(out, &value.text);
    out.push(b'}');
}

/// A list that follows other text. `open` is called before every piece; it must write its text only once.
struct Headed<O, P> {
    open: O,
    items: P,
}

impl<O: FnMut(&mut Vec<u8>) + Send + Unpin + 'static, P: Pieces> Pieces for Headed<O, P> {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        (self.open)(out);
        self.items.next(out)
    }
}

/// An error in the form of Graphite's tag endpoints.
fn failed(error: &ApiError) -> Response {
    json_error(error.status(), &error.to_string())
}
