//! Reads the body of a request within limits of size, memory and time, and decompresses it.

use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::lease::Lease;
use crate::protocol::Gzip;
use crate::reject::Reject;

/// How long the rest of a body may take once the process is stopping.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How much of a refused body is read, and for how long.
const DISCARD_BYTES: usize = 64 << 20;
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// How a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
}

impl Coding {
    /// The coding that the headers announce. `None` if it is an unknown coding, or several.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut found = Self::Identity;
        for value in headers.get_all(CONTENT_ENCODING) {
            found = match value.to_str().ok()?.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => found,
                "gzip" | "x-gzip" if found == Self::Identity => Self::Gzip,
                _ => return None,
            };
        }
        Some(found)
    }
}

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    TooLarge,
    Damaged(Cow<'static, str>),
    /// The connection ended, or the chunks of the body are malformed.
    Broken,
    Slow,
    Stopping,
    NoMemory,
}

impl Fault {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Damaged(_) | Self::Broken => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Stopping | Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    pub(super) fn reason(&self) -> Reject {
        match self {
            Self::TooLarge => Reject::FrameTooLarge,
            Self::Damaged(_) => Reject::Damaged,
            Self::Broken | Self::Slow | Self::Stopping => Reject::HalfFrame,
            Self::NoMemory => Reject::Memory,
        }
    }

    /// Whether the client may still be sending and could read an answer.
    pub(super) fn leaves_a_rest(&self) -> bool {
        matches!(self, Self::TooLarge | Self::Damaged(_) | Self::NoMemory)
    }

    pub(super) fn text(&self) -> Cow<'static, str> {
        match self {
            Self::TooLarge => "the body is larger than ingest.http.body_bytes_max".into(),
            Self::Damaged(what) => what.clone(),
            Self::Broken => "the body cannot be read".into(),
            Self::Slow => "the body did not arrive in time".into(),
            Self::Stopping => "the daemon is stopping".into(),
            Self::NoMemory => "there is no memory for the body now".into(),
        }
    }
}

/// The body of a request, as far as it was read.
pub(super) struct Reader<'a> {
    gzip: Option<Gzip>,
    bytes_max: usize,
    lease: Lease<'a>,
    /// Number of bytes received, compressed or not.
    pub(super) received: usize,
    /// The content.
    pub(super) bytes: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// A reader of at most `bytes_max` bytes, as received and as decompressed.
    pub(super) fn new(coding: Coding, bytes_max: usize, lease: Lease<'a>) -> Self {
        let gzip = (coding == Coding::Gzip).then(Gzip::new);
        Self { gzip, bytes_max, lease, received: 0, bytes: Vec::new() }
    }

    /// Reads the body to its end. A pause of the client may last up to `pause_max`.
    pub(super) async fn read(
        &mut self,
        body: &mut Incoming,
        pause_max: Duration,
        stop: &CancellationToken,
    ) -> Result<(), Fault> {
        if body.size_hint().lower() > self.bytes_max as u64 {
            return Err(Fault::TooLarge);
        }
        let mut overdue = pin!(overdue(stop));
        loop {
            let frame = tokio::select! {
                biased;
                frame = timeout(pause_max, body.frame()) => frame.map_err(|_| Fault::Slow)?,
                () = &mut overdue => return Err(Fault::Stopping),
            };
            match frame {
                None => return self.end(),
                Some(Err(_)) => return Err(Fault::Broken),
                Some(Ok(frame)) => self.add(frame.into_data().unwrap_or_default()).await?,
            }
        }
    }

    async fn add(&mut self, chunk: Bytes) -> Result<(), Fault> {
        self.received += chunk.len();
        if self.received > self.bytes_max {
            return Err(Fault::TooLarge);
        }
        let (bytes, bytes_max) = (&mut self.bytes, self.bytes_max);
        match &mut self.gzip {
            None => bytes.extend_from_slice(&chunk),
            Some(gzip) => {
                let take = |part: &[u8]| {
                    bytes.extend_from_slice(part);
                    bytes.len() <= bytes_max
                };
                gzip.each(&chunk, take).map_err(|damage| Fault::Damaged(damage.what))?;
            }
        }
        if self.bytes.len() > self.bytes_max {
            return Err(Fault::TooLarge);
        }
        if self.lease.resize(self.bytes.capacity()).await { Ok(()) } else { Err(Fault::NoMemory) }
    }

    fn end(&self) -> Result<(), Fault> {
        let is_whole = self.gzip.as_ref().is_none_or(|gzip| gzip.is_complete() && self.received > 0);
        if is_whole { Ok(()) } else { Err(Fault::Damaged("the gzip stream has no end".into())) }
    }
}

/// Reads the rest of a body that was refused, within limits. Otherwise a client that is still sending could
/// not read the answer, because its connection would be reset.
pub(super) async fn discard(body: &mut Incoming) {
    let discard = async {
        let mut left = DISCARD_BYTES;
        while let Some(Ok(frame)) = body.frame().await
            && let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len))
        {
            left = rest;
        }
    };
    // After this, the answer is sent in any case.
    let _ = timeout(DISCARD_TIME, discard).await;
}

/// Waits until the process has been stopping for [`STOP_GRACE`].
async fn overdue(stop: &CancellationToken) {
    stop.cancelled().await;
    sleep(STOP_GRACE).await;
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_coding_is_none_or_gzip() {
        for (values, coding) in [
            (&[][..], Some(Coding::Identity)),
            (&["identity"], Some(Coding::Identity)),
            (&["GZip"], Some(Coding::Gzip)),
            (&["x-gzip", "identity"], Some(Coding::Gzip)),
            (&["deflate"], None),
            (&["gzip, gzip"], None),
            (&["gzip", "gzip"], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(Coding::of(&headers), coding, "{values:?}");
        }
    }
}
