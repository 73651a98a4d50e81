//! `plumbago dev cassandra`, run as by a user.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};

use plumbago_cassandra_node::cql::Connection;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::binary;

/// A node that is stopped however the test ends.
struct Dev {
    directory: tempfile::TempDir,
    address: Ipv4Addr,
}

impl Dev {
    fn run(&self, more: &[&str]) -> Output {
        let mut command = Command::new(binary());
        command.args(["dev", "cassandra", "--heap-mib", "256", "--address", &self.address.to_string()]);
        command.arg("--directory").arg(self.data()).args(more).output().unwrap()
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("node")
    }

    fn connect(&self) -> Option<Connection> {
        Connection::open(SocketAddr::from((self.address, 9042)), None).ok()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        self.run(&["--stop"]);
    }
}

#[test]
fn releases_that_can_be_run_are_named() {
    let output = Command::new(binary()).args(["dev", "cassandra", "--release", "2.2"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("5.0, 4.1 or 3.11"), "{said}");
}

#[test]
fn a_node_for_people_is_started_found_and_stopped() {
    if counterpart::on_path("mvn").is_none() {
        return;
    }
    let [a, b]: [u8; 2] = rand::random();
    let dev = Dev { directory: tempfile::tempdir().unwrap(), address: Ipv4Addr::new(127, a.max(1), b, 9) };
    let first = dev.run(&[]);
    let said = String::from_utf8(first.stdout).unwrap();
    assert!(first.status.success(), "{said}{}", String::from_utf8_lossy(&first.stderr));
    assert!(said.contains(&format!("contact_points = [\"{}:9042\"]", dev.address)), "{said}");
    let mut cql = dev.connect().expect("it answers after the command has ended");
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    cql.query(&format!("CREATE KEYSPACE mine WITH replication = {replication}")).unwrap();

    // A second call finds the running node.
    assert_eq!(String::from_utf8(dev.run(&[]).stdout).unwrap(), said);

    assert_eq!(dev.run(&["--stop"]).stdout, b"stopped\n");
    assert!(dev.connect().is_none());
    assert_eq!(dev.run(&["--stop"]).stdout, b"not running\n");

    // After a stop and a start the node still has its data.
    assert!(dev.run(&[]).status.success());
    let keyspaces =
        dev.connect().unwrap().query("SELECT keyspace_name FROM system_schema.keyspaces").unwrap();
    assert!(keyspaces.texts().contains(&"mine".to_owned()));
}
