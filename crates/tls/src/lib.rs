//! Loads the certificates of listeners and HTTP ports, and reloads them while the daemon runs.
//!
//! Must not know: the protocol inside a connection, the configuration file. Start at [`Certificates`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Why a listener's certificates cannot be used. The texts name the settings `cert`, `key` and `client_ca`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// Only one of certificate and key is configured.
    #[error("cert and key must be set together")]
    Half,
    /// Client certificates are required, but TLS is off.
    #[error("client_ca needs cert and key to be set as well")]
    ClientCaAlone,
    /// A file cannot be read, or does not contain what it should.
    #[error("{file}: {problem}")]
    File {
        /// Its path.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Certificate and key do not match, or use an unsupported algorithm. Holds the TLS library's message.
    #[error("{0}")]
    Unusable(String),
}

/// The PEM files of one listener. An empty path means that none is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// The certificate, followed by its chain.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The authorities that client certificates must be signed by; if empty, clients need no certificate.
    pub client_ca: PathBuf,
}

/// Adjusts the TLS configuration to a protocol, for example by setting ALPN names.
pub type Tune = fn(&mut ServerConfig);

/// The certificates of one listener. A reload affects new connections only.
#[derive(Debug)]
pub struct Certificates {
    tune: Tune,
    current: ArcSwapOption<ServerConfig>,
}

impl Certificates {
    /// Reads the files. If none is configured, the listener works without TLS.
    ///
    /// # Errors
    /// [`TlsError`] if files are missing, unreadable, or do not fit together.
    pub fn load(files: &Files, tune: Tune) -> Result<Self, TlsError> {
        Ok(Self { tune, current: ArcSwapOption::new(files.load(tune)?) })
    }

    /// Reads the files again. On an error the certificates in use stay.
    ///
    /// # Errors
    /// As [`Certificates::load`].
    pub fn reload(&self, files: &Files) -> Result<(), TlsError> {
        self.current.store(files.load(self.tune)?);
        Ok(())
    }

    /// Performs the handshake of a new connection; `None` on a listener without TLS.
    pub fn acceptor(&self) -> Option<TlsAcceptor> {
        self.current.load_full().map(TlsAcceptor::from)
    }
}

impl Files {
    fn load(&self, tune: Tune) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        let (cert, key) = match (named(&self.cert), named(&self.key)) {
            (Some(cert), Some(key)) => (cert, key),
            (None, None) if named(&self.client_ca).is_none() => return Ok(None),
            (None, None) => return Err(TlsError::ClientCaAlone),
            _ => return Err(TlsError::Half),
        };
        let chain = certificates(cert)?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| file_error(key, error))?;
        // rustls has no default provider if a process links two, so this one is named.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?;
        let builder = match named(&self.client_ca) {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots.add(certificate).map_err(unusable)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.map_err(unusable)?)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
        tune(&mut config);
        Ok(Some(Arc::new(config)))
    }
}

fn named(file: &Path) -> Option<&Path> {
    (!file.as_os_str().is_empty()).then_some(file)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(file_error(file, "contains no certificate")),
        Err(error) => Err(file_error(file, error)),
    }
}

fn file_error(file: &Path, problem: impl ToString) -> TlsError {
    TlsError::File { file: file.display().to_string(), problem: problem.to_string() }
}

fn unusable(error: impl ToString) -> TlsError {
    TlsError::Unusable(error.to_string())
}
