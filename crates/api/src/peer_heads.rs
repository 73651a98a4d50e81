//! What other daemons on the same store ask of this one.

use std::fmt::Debug;

use async_trait::async_trait;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::StatusCode;

use crate::admin::{AdminError, AdminHandles};
use crate::error::plain;

/// Of the question: tens of thousands of names.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Tells others what this process has accepted and not written yet.
#[async_trait]
pub trait PeerHeads: Send + Sync + Debug {
    /// Answers a message of another daemon.
    async fn unsent(&self, message: &[u8]) -> Result<Vec<u8>, AdminError>;
}

/// Answers a request to `/admin/heads`.
pub(crate) async fn heads(State(handles): State<AdminHandles>, message: Bytes) -> Response {
    match handles.heads.unsent(&message).await {
        Ok(answer) => answer.into_response(),
        Err(error) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}
