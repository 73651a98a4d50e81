//! A certificate for a node, created with the `keytool` that comes with Java.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::NodeError;

/// The password of the key store. It need not be secret.
const PASSWORD: &str = "plumbago";

/// Creates `keystore.p12` and `certificate.pem` in the directory if they are missing.
pub(crate) fn make(java: &Path, directory: &Path, address: Ipv4Addr) -> Result<(), NodeError> {
    let (store, pem) = (directory.join("keystore.p12"), file(directory));
    if pem.exists() {
        return Ok(());
    }
    let name = format!("SAN=ip:{address}");
    let generate =
        ["-genkeypair", "-keyalg", "EC", "-dname", "CN=plumbago", "-validity", "3650", "-ext", &name];
    keytool(java, &store, &generate)?;
    keytool(java, &store, &["-exportcert", "-rfc", "-file", &pem.to_string_lossy()])
}

/// The path of the certificate. It is self-signed, so clients must be configured to trust it.
pub(crate) fn file(directory: &Path) -> PathBuf {
    directory.join("certificate.pem")
}

/// The TLS lines of `cassandra.yaml`. Unencrypted connections stay possible, because this crate uses them.
pub(crate) fn yaml(directory: &Path) -> String {
    let store = directory.join("keystore.p12");
    format!(
        "client_encryption_options:\n  enabled: true\n  optional: true\n  store_type: PKCS12\n  \
         keystore: {}\n  keystore_password: {PASSWORD}",
        store.display()
    )
}

fn keytool(java: &Path, store: &Path, arguments: &[&str]) -> Result<(), NodeError> {
    let output = Command::new(java.with_file_name("keytool"))
        .args(arguments)
        .args(["-alias", "node", "-storetype", "PKCS12", "-storepass", PASSWORD, "-keystore"])
        .arg(store)
        .stdin(Stdio::null())
        .output()
        .map_err(NodeError::io("starting keytool"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(NodeError::Missing(format!("a certificate: {}", String::from_utf8_lossy(&output.stdout))))
}
