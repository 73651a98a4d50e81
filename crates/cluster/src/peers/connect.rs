//! Connections to the admin port of another daemon.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use plumbago_tls::{CaError, Client};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// TLS settings for connections to encrypted admin ports.
#[derive(Clone)]
pub(super) struct Tls {
    client: Client,
    ca: PathBuf,
}

/// Makes TLS settings that trust the certificate authorities in a PEM file.
pub(super) fn tls(ca: &Path) -> Result<Tls, CaError> {
    Ok(Tls { client: Client::trusting(ca)?, ca: ca.to_owned() })
}

/// Connects to `host:port`, with TLS if settings for it are given.
pub(super) async fn connect(address: &str, tls: Option<&Tls>) -> io::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = match tls {
        None => Either::Left(stream),
        Some(tls) => Either::Right(tls.shake_hands(address, stream).await?),
    };
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // The task ends when the sender is dropped or the peer closes the connection.
    tokio::spawn(connection);
    Ok(sender)
}

impl Tls {
    async fn shake_hands(&self, address: &str, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.client.connect(host(address), stream).await.map_err(|error| {
            let why = format!("TLS with cluster.ca = {} failed: {error}", self.ca.display());
            io::Error::new(error.kind(), why)
        })
    }
}

/// The host of `host:port`; an IPv6 address without its brackets.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
