//! TLS for the connections to the nodes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumbago_store::{ErrorKind, StoreError};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;

use crate::loose::switch;

/// Encryption of the connections to one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// Connect with TLS.
    #[serde(deserialize_with = "switch")]
    pub enabled: bool,
    /// PEM file with the certificate authorities that sign the nodes' certificates.
    pub ca: PathBuf,
    /// PEM file with this client's certificate and its chain; empty for none.
    pub cert: PathBuf,
    /// PEM file with the private key of that certificate.
    pub key: PathBuf,
}

/// A setting of TLS that cannot be used.
#[derive(Debug)]
pub(crate) struct TlsProblem {
    /// The setting: `ca`, `cert` or `key`.
    pub(crate) setting: &'static str,
    /// What is wrong, with the path of the file.
    pub(crate) text: String,
}

/// The TLS configuration for the driver; `None` if connections are not encrypted. Fails with `Invalid` if a
/// file cannot be used.
pub(crate) fn client_config(tls: &Tls) -> Result<Option<Arc<ClientConfig>>, StoreError> {
    let config = build(tls).map(|config| config.map(Arc::new));
    config.map_err(|TlsProblem { setting, text }| {
        StoreError::with(ErrorKind::Invalid, format!("use TLS to the nodes, tls.{setting}"), text)
    })
}

/// Reads the files and returns all their problems. Empty without TLS.
pub(crate) fn problems(tls: &Tls) -> Vec<TlsProblem> {
    if !tls.enabled {
        return Vec::new();
    }
    let mut found = Vec::new();
    found.extend(certificates("ca", &tls.ca).err());
    if !tls.cert.as_os_str().is_empty() && !tls.key.as_os_str().is_empty() {
        found.extend(certificates("cert", &tls.cert).err());
        found.extend(private_key(&tls.key).err());
    }
    if found.is_empty() {
        found.extend(build(tls).err());
    }
    found
}

fn build(tls: &Tls) -> Result<Option<ClientConfig>, TlsProblem> {
    if !tls.enabled {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates("ca", &tls.ca)? {
        roots.add(certificate).map_err(|error| refused("ca", &tls.ca, error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused("ca", &tls.ca, error))?
        .with_root_certificates(roots);
    if tls.cert.as_os_str().is_empty() {
        return Ok(Some(builder.with_no_client_auth()));
    }
    let (chain, key) = (certificates("cert", &tls.cert)?, private_key(&tls.key)?);
    let config = builder.with_client_auth_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let cert = tls.cert.display();
            refused("key", &tls.key, format!("it is not the private key of the certificate in {cert}"))
        }
        error => refused("cert", &tls.cert, error),
    })?;
    Ok(Some(config))
}

fn certificates(setting: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsProblem> {
    if path.as_os_str().is_empty() {
        let text = "needed: a PEM file with the authorities that sign the nodes' certificates".to_owned();
        return Err(TlsProblem { setting, text });
    }
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match all {
        Ok(all) if all.is_empty() => Err(refused(setting, path, "it contains no certificate in PEM format")),
        Ok(all) => Ok(all),
        Err(pem::Error::Io(error)) => Err(refused(setting, path, error)),
        Err(error) => Err(refused(setting, path, format!("it is not a valid PEM file: {error}"))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsProblem> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        pem::Error::Io(error) => refused("key", path, error),
        pem::Error::NoItemsFound => refused("key", path, "it contains no private key in PEM format"),
        error => refused("key", path, format!("it is not a valid PEM file: {error}")),
    })
}

fn refused(setting: &'static str, path: &Path, error: impl std::fmt::Display) -> TlsProblem {
    TlsProblem { setting, text: format!("cannot use {}: {error}", path.display()) }
}
