//! Connections to the admin port of another daemon.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

/// The file of `cluster.ca` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {reason}", path = path.display())]
pub struct TlsError {
    path: PathBuf,
    reason: String,
}

/// TLS settings for connections to encrypted admin ports.
#[derive(Clone)]
pub(super) struct Tls {
    connector: TlsConnector,
    ca: PathBuf,
}

/// Makes TLS settings that trust the authorities in a PEM file.
pub(super) fn tls(ca: &Path) -> Result<Tls, TlsError> {
    let failed = |reason: String| TlsError { path: ca.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    let unreadable = |error| match error {
        pem::Error::Io(error) => failed(error.to_string()),
        error => failed(format!("it is no valid PEM file: {error}")),
    };
    for certificate in CertificateDer::pem_file_iter(ca).map_err(unreadable)? {
        let certificate = certificate.map_err(unreadable)?;
        roots.add(certificate).map_err(|error| failed(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("it contains no certificate in PEM format".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Tls { connector: TlsConnector::from(Arc::new(config)), ca: ca.to_owned() })
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
        let name = server_name(address)?;
        self.connector.connect(name, stream).await.map_err(|error| {
            let why = format!("TLS with cluster.ca = {} failed: {error}", self.ca.display());
            io::Error::new(error.kind(), why)
        })
    }
}

fn server_name(address: &str) -> io::Result<ServerName<'static>> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(io::Error::other)
}
