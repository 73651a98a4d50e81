//! Connections to destinations, plain or with TLS.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, ServerName};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::destination::Destination;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection is given up when what was sent is not acknowledged for this long.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(20);

/// A connection in both directions.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The file of `relay.ca` cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {reason}", path = path.display())]
pub struct TlsError {
    path: PathBuf,
    reason: String,
}

/// TLS settings of all destinations.
#[derive(Clone)]
pub(crate) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the authorities in a PEM file.
    pub(crate) fn load(ca: &Path) -> Result<Self, TlsError> {
        let failed = |reason: String| TlsError { path: ca.to_owned(), reason };
        let unreadable = |error| match error {
            pem::Error::Io(error) => failed(error.to_string()),
            error => failed(format!("it is no valid PEM file: {error}")),
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).map_err(unreadable)? {
            roots.add(certificate.map_err(unreadable)?).map_err(|error| failed(error.to_string()))?;
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
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

/// Connects to a destination. `tls` is used if the destination asks for it.
pub(crate) async fn connect(to: &Destination, tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let opened = timeout(CONNECT_TIMEOUT, open(to, tls)).await;
    opened.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 10 s")))
}

async fn open(to: &Destination, tls: Option<&Tls>) -> io::Result<Box<dyn Stream>> {
    let stream = TcpStream::connect((to.host.as_str(), to.port)).await?;
    stream.set_nodelay(true)?;
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(UNACKNOWLEDGED_MAX / 2))?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    match tls.filter(|_| to.tls) {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let name = ServerName::try_from(to.host.clone()).map_err(io::Error::other)?;
            Ok(Box::new(tls.0.connect(name, stream).await?))
        }
    }
}
