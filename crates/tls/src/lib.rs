//! Loads the certificates of listeners and HTTP ports, and reloads them while the daemon runs; connects to servers with
//! TLS.
//!
//! Must not know: the protocol inside a connection, the configuration file. Start at [`Certificates`] and [`Client`].

mod client;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

pub use client::{CaError, Client};

/// Why a listener's certificates cannot be used. The texts name the settings `cert`, `key` and `client_ca`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// Only one of certificate and key is configured. The value is the setting that is configured.
    #[error("cert and key must be set together")]
    Half(&'static str),
    /// Client certificates are required, but TLS is off.
    #[error("client_ca needs cert and key to be set as well")]
    ClientCaAlone,
    /// A file cannot be read, or does not have the expected content.
    #[error("{file}: {problem}")]
    File {
        /// The setting that names it: `cert`, `key` or `client_ca`.
        setting: &'static str,
        /// The path.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The key does not belong to the certificate.
    #[error(
        "{key} is not the private key of the certificate in {cert}: use the two files that were made together"
    )]
    Mismatch {
        /// Path of the certificate.
        cert: String,
        /// Path of the key.
        key: String,
    },
    /// A certificate or key cannot be used, for example because of its algorithm.
    #[error("{file} cannot be used: {problem}")]
    Unusable {
        /// The setting that names the file: `cert` or `client_ca`.
        setting: &'static str,
        /// Path of the file.
        file: String,
        /// The TLS library's message.
        problem: String,
    },
}

impl TlsError {
    /// The setting that the user should check: `cert`, `key` or `client_ca`.
    pub fn setting(&self) -> &'static str {
        match self {
            Self::Half(setting) | Self::File { setting, .. } | Self::Unusable { setting, .. } => setting,
            Self::ClientCaAlone => "client_ca",
            Self::Mismatch { .. } => "key",
        }
    }
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
    /// [`TlsError`] if files are missing, unreadable, or do not belong together.
    pub fn load(files: &Files, tune: Tune) -> Result<Self, TlsError> {
        Ok(Self { tune, current: ArcSwapOption::new(files.load(tune)?) })
    }

    /// Reads the files again. On an error the certificates in use stay.
    ///
    /// # Errors
    /// The same as [`Certificates::load`].
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
    /// Reads the files and returns all their problems: empty if a listener can use them.
    pub fn problems(&self) -> Vec<TlsError> {
        let chains = [("cert", &self.cert), ("client_ca", &self.client_ca)];
        let mut problems: Vec<TlsError> = chains
            .into_iter()
            .filter_map(|(setting, file)| certificates(setting, named(file)?).err())
            .chain(named(&self.key).and_then(|file| private_key(file).err()))
            .collect();
        let whole = self.load(|_| ()).err();
        problems.extend(whole.filter(|error| !problems.contains(error)));
        problems
    }

    fn load(&self, tune: Tune) -> Result<Option<Arc<ServerConfig>>, TlsError> {
        let (cert, key) = match (named(&self.cert), named(&self.key)) {
            (Some(cert), Some(key)) => (cert, key),
            (None, None) if named(&self.client_ca).is_none() => return Ok(None),
            (None, None) => return Err(TlsError::ClientCaAlone),
            (Some(_), None) => return Err(TlsError::Half("cert")),
            (None, Some(_)) => return Err(TlsError::Half("key")),
        };
        let (chain, private) = (certificates("cert", cert)?, private_key(key)?);
        // If a process links two providers, rustls has no default, so this one is named.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("cert", cert, error))?;
        let builder = match named(&self.client_ca) {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates("client_ca", file)? {
                    roots.add(certificate).map_err(|error| unusable("client_ca", file, error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                let verifier = verifier.map_err(|error| unusable("client_ca", file, error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, private).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { cert: cert.display().to_string(), key: key.display().to_string() }
            }
            error => unusable("cert", cert, error),
        })?;
        tune(&mut config);
        Ok(Some(Arc::new(config)))
    }
}

fn named(file: &Path) -> Option<&Path> {
    (!file.as_os_str().is_empty()).then_some(file)
}

fn certificates(setting: &'static str, file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(unreadable(setting, file, pem::Error::NoItemsFound)),
        Err(error) => Err(unreadable(setting, file, error)),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| unreadable("key", file, error))
}

fn unreadable(setting: &'static str, file: &Path, error: pem::Error) -> TlsError {
    let problem = match error {
        pem::Error::Io(error) => format!("cannot be read: {error}"),
        pem::Error::NoItemsFound if setting == "key" => "contains no private key".to_owned(),
        pem::Error::NoItemsFound => "contains no certificate".to_owned(),
        error => format!("is not a valid PEM file: {error}"),
    };
    TlsError::File { setting, file: file.display().to_string(), problem }
}

fn unusable(setting: &'static str, file: &Path, error: impl ToString) -> TlsError {
    TlsError::Unusable { setting, file: file.display().to_string(), problem: error.to_string() }
}
