//! TLS for the connections to the nodes.

use std::path::Path;
use std::sync::Arc;

use plumbago_store::{ErrorKind, StoreError};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::Tls;

/// The TLS configuration; `None` if connections are not encrypted. Fails with `Invalid` if a file cannot be
/// used.
pub(crate) fn client_config(tls: &Tls) -> Result<Option<Arc<ClientConfig>>, StoreError> {
    if !tls.enabled {
        return Ok(None);
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        roots.add(certificate).map_err(|error| refused(&tls.ca, error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&tls.ca, error))?
        .with_root_certificates(roots);
    let config = if tls.cert.as_os_str().is_empty() {
        builder.with_no_client_auth()
    } else {
        let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| refused(&tls.key, error))?;
        builder
            .with_client_auth_cert(certificates(&tls.cert)?, key)
            .map_err(|error| refused(&tls.cert, error))?
    };
    Ok(Some(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let all: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| refused(path, error))?;
    if all.is_empty() {
        return Err(refused(path, "there is no certificate in it"));
    }
    Ok(all)
}

fn refused(path: &Path, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::with(ErrorKind::Invalid, format!("use {} for TLS", path.display()), error)
}
