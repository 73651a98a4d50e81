//! Response bodies that are written while the client reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Size of a chunk in bytes: large enough to make system calls rare, but few enough to stay in the
/// processor's cache.
const CHUNK_BYTES: usize = 128 << 10;

/// Spare capacity after a chunk, so that its last piece rarely makes the buffer grow.
const PIECE_BYTES: usize = 32 << 10;

/// Writes a response in pieces of a few kilobytes.
pub(crate) trait Pieces: Send + Unpin + 'static {
    /// Appends the next piece. Returns `false` after the last one.
    fn next(&mut self, out: &mut Vec<u8>) -> bool;
}

/// The body of a response: complete if it fits into one chunk, else streamed while the client reads. The
/// rest is not produced if the client disconnects.
pub(crate) fn body(mut pieces: impl Pieces) -> Body {
    let mut first = Vec::with_capacity(4 << 10);
    if !fill(&mut pieces, &mut first) {
        return Body::from(first);
    }
    Body::new(Streamed { first: Some(first), pieces: Some(pieces) })
}

/// Appends pieces up to the size of a chunk. Returns `false` if there are no more.
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
