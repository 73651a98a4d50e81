//! Encrypted connections to servers, with certificate authorities that an operator names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The file with the certificate authorities cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {path}: {reason}", path = path.display())]
pub struct CaError {
    path: PathBuf,
    reason: String,
}

/// TLS settings for connections to servers.
#[derive(Clone)]
pub struct Client(TlsConnector);

impl Client {
    /// Makes a client that trusts the authorities in a PEM file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or contains no usable certificate.
    pub fn trusting(ca: &Path) -> Result<Self, CaError> {
        let failed = |reason: String| CaError { path: ca.to_owned(), reason };
        let unreadable = |error| match error {
            pem::Error::Io(error) => failed(error.to_string()),
            error => failed(format!("it is not a valid PEM file: {error}")),
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(ca).map_err(unreadable)? {
            roots.add(certificate.map_err(unreadable)?).map_err(|error| failed(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(failed("it contains no certificate in PEM format".to_owned()));
        }
        // If a process links two providers, rustls has no default, so this one is named.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Performs the handshake with a server whose certificate must be for `host`, a name or an IP address
    /// without brackets.
    ///
    /// # Errors
    /// If `host` is neither a name nor an address, or the handshake fails.
    pub async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}
