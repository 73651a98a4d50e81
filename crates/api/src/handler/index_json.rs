//! `/metrics/index.json`: every name, streamed during a sweep over the index.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::search;
use crate::error::ApiError;
use crate::format::json::{list, push_string};
use crate::format::wrap::Wrapping;
use crate::params::Params;
use crate::state::Api;

/// Size of names in a chunk, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Answers a request to `/metrics/index.json`.
pub(crate) async fn index_json(api: Arc<Api>, request: Request) -> Response {
    answer(api, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(api: Arc<Api>, request: Request) -> Result<Response, ApiError> {
    let params = Params::of(request, &api.limits()).await?;
    let wrapping = Wrapping::of(&params)?;
    if api.finder.is_some() {
        let names = search::leaves(&api, "**").await?;
        return Ok(wrapping.json(list("[", names.into_iter(), "]", |out, name| push_string(out, &name))));
    }
    let (kind, wrapping) = wrapping.head();
    let permit = Arc::clone(&api.index_walks)
        .acquire_owned()
        .await
        .map_err(|_| ApiError::Unavailable("the server is stopping".to_owned()))?;
    let (chunks, body) = mpsc::channel(2);
    tokio::task::spawn_blocking(move || walk(&api, wrapping.as_deref(), &chunks, permit));
    Ok(crate::format::wrap::answer(kind, Body::new(Chunks(body))))
}

/// Sends the JSON list of all names through a channel, in chunks. Blocks while the client does not read.
fn walk(api: &Api, called: Option<&str>, chunks: &mpsc::Sender<Bytes>, _permit: OwnedSemaphorePermit) {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES + (4 << 10));
    if let Some(name) = called {
        chunk.extend_from_slice(name.as_bytes());
        chunk.push(b'(');
    }
    chunk.push(b'[');
    let (mut is_first, mut is_gone) = (true, false);
    api.index.for_each(&mut |name| {
        if is_gone {
            return;
        }
        if !std::mem::replace(&mut is_first, false) {
            chunk.push(b',');
        }
        push_string(&mut chunk, name);
        if chunk.len() >= CHUNK_BYTES {
            let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_BYTES + (4 << 10)));
            is_gone = chunks.blocking_send(Bytes::from(full)).is_err();
        }
    });
    chunk.push(b']');
    if called.is_some() {
        chunk.push(b')');
    }
    if !is_gone {
        let _ = chunks.blocking_send(Bytes::from(chunk));
    }
}

/// A response body that receives its chunks from a channel.
struct Chunks(mpsc::Receiver<Bytes>);

impl HttpBody for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}
