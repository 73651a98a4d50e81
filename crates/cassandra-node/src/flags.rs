//! The arguments of `java`: access to the Java internals that a release needs, and options for a fast start.

use std::path::Path;
use std::process::Command;

use crate::archive;
use crate::artifacts::Artifacts;
use crate::error::NodeError;
use crate::options::Options;
use crate::release::Release;
use crate::settings::{RACK, TEMPORARY};

/// Packages that Cassandra uses and that Java does not export by default. Java 11 exports some of them and
/// accepts these options anyway.
const EXPORTS: [&str; 8] = [
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];
const OPENS: [&str; 14] = [
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.util",
    "java.base/java.nio",
];

/// Options that the releases on Java 11 need.
const FLAGS_JAVA_11: [&str; 3] = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "-XX:-UseBiasedLocking",
];

/// Java 11 has no archive of verified classes ([`archive`]). A start without verification takes 0.4 s to 0.5 s less.
const UNVERIFIED: &str = "-XX:-BytecodeVerificationRemote";

const FLAGS_5_0: [&str; 2] =
    ["-Dio.netty.allocator.useCacheForAllThreads=true", "-Dio.netty.allocator.maxOrder=11"];

const FLAGS: [&str; 17] = [
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dchronicle.analytics.disable=true", // reports usage to its makers
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
    "-XX:+PerfDisableSharedMem",
    "-Xss256k",
    "-Dcassandra-foreground=yes",
    // JMX is off because its property is not set. An empty value would make the start fail. With a ring delay
    // below two seconds, nodes remove each other from the ring as unknown.
    "-Dcassandra.ring_delay_ms=2000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.load_ring_state=false",
    "-Dcassandra.consistent.rangemovement=false",
    "-Dcassandra.superuser_setup_delay_ms=0",
    // At each start a node measures how much memory a row of a memtable takes, with 100,000 rows by default.
    "-Dcassandra.memtable_row_overhead_computation_step=1000",
    // Each start hashes the password of the default role, by default in a quarter of a second.
    "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
    "-XX:+ExitOnOutOfMemoryError",
    "-ea",
];

/// Options for [`Options::quick`]. A thread reads the clock for timeouts every two milliseconds by default, which takes
/// half of the processor time of a node at rest.
const FLAGS_QUICK: [&str; 3] =
    ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dcassandra.approximate_time_precision_ms=20"];

/// Options for [`Options::stays_up`]: the first concerns the tables with the schema, the second the others of the
/// keyspace `system`.
const FLAGS_STAYS_UP: [&str; 2] =
    ["-Dcassandra.test.flush_local_schema_changes=false", "-Dcassandra.unsafesystem=true"];

/// Adds the arguments to `command`, which runs `java` directly or through another program.
pub(crate) fn arguments(
    command: &mut Command,
    directory: &Path,
    artifacts: &Artifacts,
    options: &Options,
) -> Result<(), NodeError> {
    let at = |name: &str| directory.join(name).display().to_string();
    command.arg(format!("-javaagent:{}", artifacts.jar("jamm")?.display()));
    command.args([format!("-Xms{0}m", options.heap_mib), format!("-Xmx{0}m", options.heap_mib)]);
    command.args(EXPORTS.map(|package| format!("--add-exports={package}=ALL-UNNAMED")));
    command.args(OPENS.map(|package| format!("--add-opens={package}=ALL-UNNAMED")));
    command.args(FLAGS);
    match options.release {
        Release::V5_0 => command.args(FLAGS_5_0),
        Release::V4_1 | Release::V3_11 => command.args(FLAGS_JAVA_11),
    };
    if options.quick {
        command.args(FLAGS_QUICK);
        if options.release != Release::V5_0 {
            command.arg(UNVERIFIED);
        }
        command.args(artifacts.classes().map(archive::use_by).unwrap_or_default());
    } else {
        command.args(["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=300"]);
    }
    if options.stays_up {
        command.args(FLAGS_STAYS_UP);
    }
    command.args([
        format!("-Dlogback.configurationFile={}", at("logback.xml")),
        format!("-Dcassandra.config=file:{}", at("cassandra.yaml")),
        format!("-Dcassandra.storagedir={}", at("data")),
        format!("-Dcassandra.logdir={}", at("data")),
        format!("-Dcassandra.triggers_dir={}", at("triggers")),
        // Java unpacks native libraries into it, and does not remove them when it is killed.
        format!("-Djava.io.tmpdir={}", at(TEMPORARY)),
    ]);
    if !options.datacenters.is_empty() {
        command.arg(format!("-D{RACK}=file:{}", at(RACK)));
    }
    command.args(&options.java);
    command.args(["-cp", &artifacts.class_path(), "org.apache.cassandra.service.CassandraDaemon"]);
    command.current_dir(directory).env("MALLOC_ARENA_MAX", "4").env_remove("JAVA_TOOL_OPTIONS");
    Ok(())
}
