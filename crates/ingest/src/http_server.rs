//! The server for HTTP connections that arrive on a port for lines.

use std::fmt::Debug;
use std::sync::OnceLock;

use plumbago_boxed_futures::boxed_futures;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Serves connections of HTTP. The binary implements it with the API's port.
#[boxed_futures]
pub trait HttpServer: Send + Sync + Debug {
    /// Serves a connection until it ends. After `stop` requests in progress are completed.
    async fn serve(&self, stream: Box<dyn Stream>, stop: CancellationToken);
}

/// The server, which is set later.
#[derive(Debug, Default)]
pub(crate) struct Slot(OnceLock<Box<dyn HttpServer>>);

impl Slot {
    pub(crate) fn set(&self, server: Box<dyn HttpServer>) {
        // The server is set once, at the start. A second call would set the same server.
        let _ = self.0.set(server);
    }

    /// `None` if the API's port is off.
    pub(crate) fn get(&self) -> Option<&dyn HttpServer> {
        self.0.get().map(Box::as_ref)
    }
}
