//! The TLS files of a listener.

use std::path::PathBuf;

use plumbago_tls::{Certificates, Files, TlsError};
use serde::Deserialize;

/// TLS of a listener. Off while `cert` and `key` are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the certificate and its chain.
    pub cert: String,
    /// PEM file with the private key.
    pub key: String,
    /// PEM file with authorities, one of which must have signed the certificate of a client. Empty accepts
    /// clients without a certificate.
    pub client_ca: String,
}

impl TlsConfig {
    /// Whether the listener uses TLS.
    pub fn is_on(&self) -> bool {
        !self.cert.is_empty() || !self.key.is_empty()
    }

    /// The paths of the files.
    pub fn files(&self) -> Files {
        let [cert, key, client_ca] = [&self.cert, &self.key, &self.client_ca].map(PathBuf::from);
        Files { cert, key, client_ca }
    }

    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Certificates, TlsError> {
        // No session tickets, because senders never read. If a sender closes a connection with an unread
        // ticket, its kernel resets the connection, which discards points in flight.
        Certificates::load(&self.files(), |config| config.send_tls13_tickets = 0)
    }
}
