//! How Java is called: what a release opens of Java's inside, and what makes small nodes start fast.

use std::path::Path;
use std::process::Command;

use crate::artifacts::Artifacts;
use crate::error::NodeError;
use crate::options::Options;
use crate::release::Release;

/// What Java has closed and Cassandra opens again. Java 11 has less closed, and takes the rest.
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

/// What 4.1 asks for beyond that, or has otherwise.
const FLAGS_4_1: [&str; 3] = [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "-XX:-UseBiasedLocking",
];

const FLAGS_5_0: [&str; 2] =
    ["-Dio.netty.allocator.useCacheForAllThreads=true", "-Dio.netty.allocator.maxOrder=11"];

const FLAGS: [&str; 15] = [
    "-Djdk.attach.allowAttachSelf=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dchronicle.analytics.disable=true", // a usage ping
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
    "-XX:+PerfDisableSharedMem",
    "-Xss256k",
    "-Dcassandra-foreground=yes",
    // No JMX: the property for it is absent, an empty one stops the start.
    // Shorter, and the nodes drop each other as strangers.
    "-Dcassandra.ring_delay_ms=2000",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.load_ring_state=false",
    "-Dcassandra.consistent.rangemovement=false",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-XX:+ExitOnOutOfMemoryError",
    "-ea",
];

/// Completes `command`, which is `java` or something that starts it.
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
        Release::V4_1 => command.args(FLAGS_4_1),
    };
    if options.quick {
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    } else {
        command.args(["-XX:+UseG1GC", "-XX:MaxGCPauseMillis=300"]);
    }
    command.args([
        format!("-Dlogback.configurationFile={}", at("logback.xml")),
        format!("-Dcassandra.config=file:{}", at("cassandra.yaml")),
        format!("-Dcassandra.storagedir={}", at("data")),
        format!("-Dcassandra.logdir={}", at("data")),
        format!("-Dcassandra.triggers_dir={}", at("triggers")),
    ]);
    command.args(&options.java);
    command.args(["-cp", &artifacts.class_path(), "org.apache.cassandra.service.CassandraDaemon"]);
    command.current_dir(directory).env("MALLOC_ARENA_MAX", "4").env_remove("JAVA_TOOL_OPTIONS");
    Ok(())
}
