//! The certificate of a port.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::TlsConfig;
use crate::server::BindError;

/// What the handshakes of a port need, `None` when it is not encrypted.
pub(crate) fn server_config(config: &TlsConfig) -> Result<Option<Arc<ServerConfig>>, BindError> {
    if !config.is_on() {
        return Ok(None);
    }
    let failed = |path: &Path, reason: String| BindError::Tls { path: path.to_owned(), reason };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&config.cert)
        .and_then(Iterator::collect)
        .map_err(|error| failed(&config.cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(failed(&config.cert, "there is no certificate in it".to_owned()));
    }
    let key =
        PrivateKeyDer::from_pem_file(&config.key).map_err(|error| failed(&config.key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| failed(&config.cert, error.to_string()))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Arc::new(server)))
}
