//! Encrypted listeners.

use std::path::PathBuf;
use std::sync::Arc;

use crate::support::{Daemon, config, section};
use plumbago_ingest::Config;
use plumbago_ingest::config::TlsConfig;
use plumbago_tests::wait::eventually;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/tls").join(name)
}

pub(crate) fn text(name: &str) -> String {
    file(name).to_str().unwrap().to_owned()
}

pub(crate) fn encrypted() -> Config {
    let mut config = config();
    section(&mut config, "line").tls =
        TlsConfig { cert: text("server.pem"), key: text("server.key"), client_ca: String::new() };
    config
}

/// A client that trusts the test authority, with or without a certificate of its own.
pub(crate) fn connector(with_certificate: bool) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let config = if with_certificate {
        let chain = vec![CertificateDer::from_pem_file(file("client.pem")).unwrap()];
        builder
            .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(file("client.key")).unwrap())
            .unwrap()
    } else {
        builder.with_no_client_auth()
    };
    Arc::new(config).into()
}

pub(crate) async fn send(daemon: &Daemon, with_certificate: bool, bytes: &[u8]) -> std::io::Result<()> {
    let stream = TcpStream::connect(daemon.line()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector(with_certificate).connect(name, stream).await?;
    stream.write_all(bytes).await?;
    stream.shutdown().await
}

fn handshakes_failed(daemon: &Daemon) -> bool {
    let failed = r#"plumbago_ingest_connections_closed_total{listener="line",cause="handshake"} 1"#;
    daemon.registry.prometheus().contains(failed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_come_over_tls_and_only_over_tls() {
    let daemon = Daemon::start(&encrypted());
    let lines = b"tls.metric 1 1700000000\n".repeat(20_000);
    send(&daemon, false, &lines).await.unwrap();
    eventually("the points to be accepted", || daemon.stats().accepted() == 20_000).await;
    daemon.send(daemon.line(), b"plain 1 1700000000\n");
    eventually("a failed handshake", || handshakes_failed(&daemon)).await;
    daemon.handle.reload(&encrypted()).unwrap();
    send(&daemon, false, b"after.reload 1 1700000000\n").await.unwrap();
    eventually("the points to be accepted", || daemon.stats().accepted() == 20_001).await;
    assert!(daemon.stop().await.points.iter().all(|(name, ..)| name != "plain"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_without_a_certificate_are_refused_when_one_is_asked_for() {
    let mut config = encrypted();
    section(&mut config, "line").tls.client_ca = text("ca.pem");
    let daemon = Daemon::start(&config);
    // In TLS 1.3 the client learns of the refusal only after it has sent something.
    let _ = send(&daemon, false, b"anonymous 1 1700000000\n").await;
    eventually("a failed handshake", || handshakes_failed(&daemon)).await;
    send(&daemon, true, b"known 1 1700000000\n").await.unwrap();
    eventually("a point to be accepted", || daemon.stats().accepted() == 1).await;
    assert_eq!(daemon.stop().await.points, [("known".into(), 1_700_000_000, 1.0)]);
}

#[test]
fn wrong_certificates_are_reported() {
    for (cert, key, client_ca, expected) in [
        ("server.pem", "", "", "ingest.line.tls.cert: cert and key must be set together"),
        ("", "", "ca.pem", "ingest.line.tls.client_ca: client_ca needs cert and key to be set as well"),
        ("server.key", "server.key", "", "server.key: contains no certificate"),
        ("server.pem", "missing.key", "", "missing.key: cannot be read: No such file"),
        ("server.pem", "client.key", "", "client.key is not the private key of the certificate in "),
    ] {
        let path = |name: &str| if name.is_empty() { String::new() } else { text(name) };
        let mut config = config();
        section(&mut config, "line").tls =
            TlsConfig { cert: path(cert), key: path(key), client_ca: path(client_ca) };
        let problems = config.problems();
        assert!(problems.len() == 1 && problems[0].contains(expected), "{expected}: {problems:?}");
    }
}
