//! OpenTSDB on a standalone HBase.
//!
//! `tests/install.sh` downloads the jars of both and compiles the program that creates the tables, which
//! needs `javac`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plumbago_cassandra_node::cache::{self, RunDirectory};
use plumbago_cassandra_node::{NodeError, java, process, server};

use crate::POM;
use crate::java_server::{self, JavaServer, Launch};

/// The program that creates the tables.
const TABLES: &str = include_str!("../Tables.java");

/// The area of the cache.
const AREA: &str = "opentsdb";

/// A running OpenTSDB. Both processes are killed and their files removed when it is dropped.
#[derive(Debug)]
pub struct OpenTsdb {
    daemon: JavaServer,
    _hbase: JavaServer,
    http: SocketAddr,
}

impl OpenTsdb {
    /// Starts HBase and OpenTSDB and waits until OpenTSDB answers.
    ///
    /// # Errors
    ///
    /// [`NodeError::Missing`] if Java 17 or the files that `tests/install.sh` downloads are missing,
    /// [`NodeError::Start`] if it does not answer, [`NodeError::Io`] for files and processes.
    pub fn start() -> Result<Self, NodeError> {
        let home = installed()?;
        let [zookeeper, master, region, http] = java_server::free_ports()?;
        let directory = RunDirectory::make_in(&home)?;
        let path = directory.path().to_owned();
        java_server::write(&path, "hbase-site.xml", &hbase_site(&path, zookeeper, master, region))?;
        java_server::write(&path, "log4j.properties", LOG4J)?;
        let launch = Launch {
            area: AREA,
            java: &JAVA,
            class_path: &[path.clone(), home.join("hbase/*")],
            class: "org.apache.hadoop.hbase.master.HMaster",
            arguments: &["start"],
        };
        let hbase = JavaServer::start(directory, launch)?;
        make_tables(&path, &home)?;
        let directory = RunDirectory::make_in(&home)?;
        let path = directory.path().to_owned();
        java_server::write(&path, "opentsdb.conf", &opentsdb_conf(&path, zookeeper, http)?)?;
        java_server::write(&path, "logback.xml", LOGBACK)?;
        let configuration = format!("--config={}", path.join("opentsdb.conf").display());
        let launch = Launch {
            area: AREA,
            java: &JAVA,
            class_path: &[path, home.join("opentsdb/*")],
            class: "net.opentsdb.tools.TSDMain",
            arguments: &[&configuration],
        };
        let mut daemon = JavaServer::start(directory, launch)?;
        daemon.wait_answer(http, "/api/version")?;
        Ok(Self { daemon, _hbase: hbase, http })
    }

    /// The address of its HTTP API.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The text that OpenTSDB has logged.
    pub fn log(&self) -> String {
        self.daemon.log()
    }
}

/// An OpenTSDB for one test. `None` if the machine lacks something; the test is then recorded as skipped.
///
/// # Panics
///
/// If OpenTSDB does not start for another reason, or for any reason if `CI=true`.
pub fn for_test() -> Option<OpenTsdb> {
    let started = OpenTsdb::start();
    server::provided(started.as_ref()).is_some().then_some(started.ok()).flatten()
}

/// The directory with `opentsdb`, `hbase` and `tables` of the pinned versions.
fn installed() -> Result<PathBuf, NodeError> {
    let home = cache::area(AREA)?;
    let sources = [("pom.xml", POM), ("Tables.java", TABLES)];
    let is_same = |(name, wanted): (&str, &str)| {
        std::fs::read_to_string(home.join("sources").join(name)).is_ok_and(|found| found == wanted)
    };
    match sources.into_iter().all(is_same) {
        true => Ok(home),
        false => Err(NodeError::Missing("OpenTSDB and HBase (tests/install.sh)".to_owned())),
    }
}

fn make_tables(directory: &Path, home: &Path) -> Result<(), NodeError> {
    let class_path = [directory.to_owned(), home.join("tables"), home.join("hbase/*")];
    let paths: Vec<_> = class_path.iter().map(|path| path.to_string_lossy()).collect();
    let mut command = process::tied(&java::version("17")?);
    command.args(java_server::temporary(directory)?).args(JAVA);
    command.arg("-cp").arg(paths.join(":")).arg("Tables");
    let ended = command.current_dir(directory).output();
    let ended = ended.map_err(NodeError::io("making OpenTSDB's tables"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    Err(NodeError::io("making OpenTSDB's tables")(std::io::Error::other(said)))
}

/// Arguments of Java for short runs, where a fast start matters more than speed afterwards. HBase needs the opened
/// packages.
const JAVA: [&str; 14] = [
    "-Xmx384m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.net.preferIPv4Stack=true",
    "-Duser.timezone=UTC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
];

const LOG4J: &str = "log4j.rootLogger=WARN,out\n\
    log4j.appender.out=org.apache.log4j.ConsoleAppender\n\
    log4j.appender.out.layout=org.apache.log4j.SimpleLayout\n";

const LOGBACK: &str = "<configuration><appender name=\"OUT\" class=\"ch.qos.logback.core.ConsoleAppender\">\
    <encoder><pattern>%d %level %logger: %msg%n</pattern></encoder></appender>\
    <root level=\"WARN\"><appender-ref ref=\"OUT\"/></root></configuration>\n";

fn hbase_site(directory: &Path, zookeeper: SocketAddr, master: SocketAddr, region: SocketAddr) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    let settings = [
        ("hbase.rootdir", format!("file://{}", at("hbase"))),
        ("hbase.tmp.dir", at("tmp")),
        ("hbase.cluster.distributed", "false".to_owned()),
        ("hbase.unsafe.stream.capability.enforce", "false".to_owned()),
        ("hbase.wal.provider", "filesystem".to_owned()),
        ("hbase.zookeeper.quorum", "127.0.0.1".to_owned()),
        ("hbase.zookeeper.property.dataDir", at("zookeeper")),
        ("hbase.zookeeper.property.clientPort", zookeeper.port().to_string()),
        ("hbase.zookeeper.property.clientPortAddress", "127.0.0.1".to_owned()),
        ("hbase.localcluster.assign.random.ports", "false".to_owned()),
        ("hbase.master.port", master.port().to_string()),
        ("hbase.master.info.port", "-1".to_owned()),
        ("hbase.master.hostname", "localhost".to_owned()),
        ("hbase.master.ipc.address", "127.0.0.1".to_owned()),
        ("hbase.regionserver.port", region.port().to_string()),
        ("hbase.regionserver.info.port", "-1".to_owned()),
        ("hbase.regionserver.hostname", "localhost".to_owned()),
        ("hbase.regionserver.ipc.address", "127.0.0.1".to_owned()),
    ];
    let property = |(name, value): (&str, String)| {
        format!("<property><name>{name}</name><value>{value}</value></property>\n")
    };
    format!("<configuration>\n{}</configuration>\n", settings.map(property).concat())
}

fn opentsdb_conf(directory: &Path, zookeeper: SocketAddr, http: SocketAddr) -> Result<String, NodeError> {
    let (pages, kept) = (cache::make(directory.join("static"))?, cache::make(directory.join("cache"))?);
    Ok(format!(
        "tsd.network.port = {}\ntsd.network.bind = 127.0.0.1\ntsd.http.staticroot = {}\n\
         tsd.http.cachedir = {}\ntsd.core.auto_create_metrics = true\n\
         tsd.storage.hbase.zk_quorum = 127.0.0.1:{}\ntsd.http.request.enable_chunked = true\n\
         tsd.http.request.max_chunk = 16777216\ntsd.storage.fix_duplicates = true\n",
        http.port(),
        pages.display(),
        kept.display(),
        zookeeper.port()
    ))
}
