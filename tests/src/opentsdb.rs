//! The real OpenTSDB on a standalone HBase, which judges the answers of our queries.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use plumbago_kairosdb_node::java_server::free_ports;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::child::Guarded;
use crate::counterpart;
use crate::http;
use crate::wait::wait_for;

/// Packages of Java that HBase reaches into.
const OPENS: [&str; 9] = [
    "java.lang",
    "java.nio",
    "java.io",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.lang.reflect",
    "java.net",
    "sun.nio.ch",
];

/// For short runs: a fast start counts, not the speed afterwards.
const FLAGS: [&str; 3] = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"];

/// A running OpenTSDB. Both processes are killed and their files removed when it is dropped.
#[derive(Debug)]
pub struct OpenTsdb {
    address: SocketAddr,
    daemon: Guarded,
    _hbase: Guarded,
    _directory: TempDir,
}

impl OpenTsdb {
    /// Starts both and waits until queries are answered. `None`, and a recorded skip, if they are not installed.
    pub fn start() -> Option<Self> {
        let home = counterpart::opentsdb()?;
        let directory = tempfile::Builder::new().prefix("plumbago-opentsdb-").tempdir().unwrap();
        let [zookeeper, master, region, port] = free_ports().unwrap().map(|address| address.port());
        let path = directory.path().to_owned();
        std::fs::write(path.join("hbase-site.xml"), hbase_site(&path, zookeeper, master, region)).unwrap();
        std::fs::write(path.join("log4j.properties"), LOG4J).unwrap();
        let mut command = java(&path, &[path.clone(), home.join("hbase/*")]);
        command.args(["org.apache.hadoop.hbase.master.HMaster", "start"]);
        let hbase = Guarded::start(command, &path.join("hbase.log"));
        let mut command = java(&path, &[path.clone(), home.join("tables"), home.join("hbase/*")]);
        command.arg("Tables");
        let mut tables = Guarded::start(command, &path.join("tables.log"));
        let made = tables.wait();
        assert!(made.success(), "HBase has no tables:\n{}\n{}", tables.output(), hbase.output());

        let configuration = directory.path().join("opentsdb.conf");
        std::fs::write(&configuration, opentsdb_conf(&path, zookeeper, port)).unwrap();
        std::fs::write(path.join("logback.xml"), LOGBACK).unwrap();
        let mut command = java(&path, &[path.clone(), home.join("opentsdb/*")]);
        command.arg("net.opentsdb.tools.TSDMain").arg(format!("--config={}", configuration.display()));
        let daemon = Guarded::start(command, &path.join("opentsdb.log"));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut started = Self { address, daemon, _hbase: hbase, _directory: directory };
        started.wait();
        Some(started)
    }

    fn wait(&mut self) {
        wait_for("OpenTSDB to answer", || {
            assert!(self.daemon.runs(), "OpenTSDB ended:\n{}", self.daemon.output());
            http::try_request(self.address, "GET", "/api/version", "", "").ok()
        });
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives ids to names in this order. OpenTSDB sorts series by the ids of their tags.
    pub fn assign(&self, kind: &str, names: &[&str]) {
        for name in names {
            let (status, answer) = self.post("/api/uid/assign", &json!({ kind: [name] }));
            assert_eq!(status, 200, "{answer}");
        }
    }

    /// Sends a request with a body of JSON, and returns status and answer.
    pub fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let answer = http::request(self.address, "POST", path, "", &body.to_string());
        (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::String(answer.body)))
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.daemon.output()
    }
}

const LOG4J: &str = "log4j.rootLogger=WARN,out\n\
    log4j.appender.out=org.apache.log4j.ConsoleAppender\n\
    log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n";

const LOGBACK: &str = "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\">\
    <encoder><pattern>%d %level %logger: %msg%n</pattern></encoder></appender>\
    <root level=\"WARN\"><appender-ref ref=\"OUT\"/></root></configuration>\n";

fn java(directory: &Path, class_path: &[PathBuf]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--", "java", "-Xmx384m"]).args(FLAGS);
    for package in OPENS {
        command.args(["--add-opens", &format!("java.base/{package}=ALL-UNNAMED")]);
    }
    let class_path: Vec<_> = class_path.iter().map(|path| path.to_string_lossy()).collect();
    command.args(["-cp", &class_path.join(":")]).current_dir(directory);
    command.env("TZ", "UTC").env("MALLOC_ARENA_MAX", "4").env_remove("JAVA_TOOL_OPTIONS");
    command
}

fn hbase_site(directory: &Path, zookeeper: u16, master: u16, region: u16) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    let settings = [
        ("hbase.rootdir", format!("file://{}", at("hbase"))),
        ("hbase.tmp.dir", at("tmp")),
        ("hbase.cluster.distributed", "false".to_owned()),
        ("hbase.unsafe.stream.capability.enforce", "false".to_owned()),
        ("hbase.wal.provider", "filesystem".to_owned()),
        ("hbase.zookeeper.quorum", "127.0.0.1".to_owned()),
        ("hbase.zookeeper.property.dataDir", at("zookeeper")),
        ("hbase.zookeeper.property.clientPort", zookeeper.to_string()),
        ("hbase.zookeeper.property.clientPortAddress", "127.0.0.1".to_owned()),
        ("hbase.localcluster.assign.random.ports", "false".to_owned()),
        ("hbase.master.port", master.to_string()),
        ("hbase.master.info.port", "-1".to_owned()),
        ("hbase.master.hostname", "localhost".to_owned()),
        ("hbase.master.ipc.address", "127.0.0.1".to_owned()),
        ("hbase.regionserver.port", region.to_string()),
        ("hbase.regionserver.info.port", "-1".to_owned()),
        ("hbase.regionserver.hostname", "localhost".to_owned()),
        ("hbase.regionserver.ipc.address", "127.0.0.1".to_owned()),
    ];
    let property = |(name, value): (&str, String)| {
        format!("<property><name>{name}</name><value>{value}</value></property>\n")
    };
    format!("<configuration>\n{}</configuration>\n", settings.map(property).concat())
}

fn opentsdb_conf(directory: &Path, zookeeper: u16, port: u16) -> String {
    let at = |name: &str| {
        let path = directory.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path.display().to_string()
    };
    format!(
        "tsd.network.port = {port}\ntsd.network.bind = 127.0.0.1\ntsd.http.staticroot = {}\n\
         tsd.http.cachedir = {}\ntsd.core.auto_create_metrics = true\n\
         tsd.storage.hbase.zk_quorum = 127.0.0.1:{zookeeper}\ntsd.http.request.enable_chunked = true\n\
         tsd.http.request.max_chunk = 16777216\ntsd.storage.fix_duplicates = true\n",
        at("static"),
        at("cache")
    )
}
