//! Recording of a response while it is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::{Kept, Store, Ticket};

/// A body that passes its chunks on, records them, and puts the whole body into the cache at the end.
pub(super) struct Recorded {
    body: Body,
    /// `None` once the response is in the cache, has failed or has turned out to be too large.
    recording: Option<Recording>,
}

struct Recording {
    /// The response without its body.
    kept: Kept,
    ticket: Ticket,
    /// When the response was computed, in seconds since the epoch.
    since: i64,
    chunks: Vec<Bytes>,
    /// The number of bytes of all chunks, which are reserved in the store.
    bytes: usize,
    store: Arc<Store>,
}

impl Recorded {
    pub(super) fn new(body: Body, kept: Kept, ticket: Ticket, since: i64, store: Arc<Store>) -> Self {
        let recording = Recording { kept, ticket, since, chunks: Vec::new(), bytes: 0, store };
        let mut recorded = Self { body, recording: Some(recording) };
        recorded.end_if_over();
        recorded
    }

    /// Puts the response into the cache if its body has ended.
    fn end_if_over(&mut self) {
        if self.body.is_end_stream()
            && let Some(recording) = self.recording.take()
        {
            recording.keep();
        }
    }
}

impl Recording {
    /// Records a chunk. Returns `false` if the response becomes too large to be kept.
    fn add(&mut self, chunk: &Bytes) -> bool {
        let fits = self.store.reserve(self.bytes, chunk.len());
        if fits {
            self.bytes += chunk.len();
            self.chunks.push(chunk.clone());
        }
        fits
    }

    fn keep(mut self) {
        let body = match &mut self.chunks[..] {
            [one] => std::mem::take(one),
            chunks => {
                let mut all = BytesMut::with_capacity(self.bytes);
                chunks.iter().for_each(|chunk| all.extend_from_slice(chunk));
                all.freeze()
            }
        };
        let kept = Kept { body, ..self.kept.clone() };
        // `insert` releases the reservation.
        self.bytes = 0;
        self.store.insert(std::mem::take(&mut self.ticket.key), kept, self.since, self.ticket.seconds);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.store.release(self.bytes);
    }
}

impl HttpBody for Recorded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let Some(chunk) = frame.data_ref()
                    && !self.recording.as_mut().is_none_or(|recording| recording.add(chunk))
                {
                    self.recording = None;
                }
                self.end_if_over();
            }
            Some(Err(_)) => self.recording = None,
            None => {
                if let Some(recording) = self.recording.take() {
                    recording.keep();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
