//! Certificates of listeners and ports, and their reload.
//!
//! Must not know: what is spoken over a connection, configuration. Start at [`Certificates`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Why the certificates of a listener cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// One of certificate and key is missing.
    #[error("cert and key are needed both")]
    Half,
    /// Client certificates are asked for without TLS.
    #[error("client_ca needs cert and key too")]
    ClientCaAlone,
    /// A file that is missing or holds nothing of the kind.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// Certificate and key do not belong together, or are of a kind that is not served.
    #[error("{0}")]
    Unusable(String),
}

/// The files of one listener, as they are configured; an empty name is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// The certificate and its chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities that must have signed a client's certificate.
    pub client_ca: PathBuf,
}

/// What a protocol wants of its handshakes.
pub type Tune = fn(&mut ServerConfig);

/// The certificates of one listener; those of new connections change with a reload.
#[derive(Debug)]
pub struct Certificates {
    tune: Tune,
    current: ArcSwapOption<ServerConfig>,
}

impl Certificates {
    /// What the files hold; nothing when none is named.
    pub fn load(files: &Files, tune: Tune) -> Result<Self, TlsError> {
        Ok(Self { tune, current: ArcSwapOption::new(files.load(tune)?) })
    }

    /// Reads these files; when they are wrong, what was read before stays.
    pub fn reload(&self, files: &Files) -> Result<(), TlsError> {
        self.current.store(files.load(self.tune)?);
        Ok(())
    }

    /// `None` on a listener without TLS.
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
        // The provider is named, since a process with two of them has no default.
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
        Ok(_) => Err(file_error(file, "holds no certificate")),
        Err(error) => Err(file_error(file, error)),
    }
}

fn file_error(file: &Path, problem: impl ToString) -> TlsError {
    TlsError::File { file: file.display().to_string(), problem: problem.to_string() }
}

fn unusable(error: impl ToString) -> TlsError {
    TlsError::Unusable(error.to_string())
}
