//! Answers that are written while the client reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// What is handed to the connection at a time: enough to make the calls of the kernel rare, little
/// enough to stay in the processor's cache.
const CHUNK_BYTES: usize = 128 << 10;

/// Room beyond a chunk, so that its last piece rarely makes the buffer grow.
const PIECE_BYTES: usize = 32 << 10;

/// Writes an answer in pieces of a few kilobytes.
pub(crate) trait Pieces: Send + Unpin + 'static {
    /// Appends the next piece; false when it was the last.
    fn next(&mut self, out: &mut Vec<u8>) -> bool;
}

/// The body of an answer: whole when it fits into one chunk, else streamed as it is read. Nothing
/// is written for a client that has gone away.
pub(crate) fn body(mut pieces: impl Pieces) -> Body {
    let mut first = Vec::with_capacity(4 << 10);
    if !fill(&mut pieces, &mut first) {
        return Body::from(first);
    }
    Body::new(Streamed { first: Some(first), pieces: Some(pieces) })
}

/// Appends pieces up to the size of a chunk; false when there are no more.
fn fill(pieces: &mut impl Pieces, chunk: &mut Vec<u8>) -> bool {
    while chunk.len() < CHUNK_BYTES {
        if !pieces.next(chunk) {
            return false;
        }
    }
    true
}

struct Streamed<P> {
    first: Option<Vec<u8>>,
    pieces: Option<P>,
}

impl<P: Pieces> HttpBody for Streamed<P> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let chunk = match (this.first.take(), &mut this.pieces) {
            (Some(first), _) => first,
            (None, None) => return Poll::Ready(None),
            (None, Some(pieces)) => {
                let mut chunk = Vec::with_capacity(CHUNK_BYTES + PIECE_BYTES);
                if !fill(pieces, &mut chunk) {
                    this.pieces = None;
                }
                if chunk.is_empty() {
                    return Poll::Ready(None);
                }
                chunk
            }
        };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(chunk)))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.pieces.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
