//! Writes the configuration files of a node, with only the settings that a server needs.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use crate::error::NodeError;
use crate::options::{CommitlogSync, Options};
use crate::release::Release;
use crate::{certificate, java};

/// Makes Cassandra log to its standard output, which is redirected to the log file. Flushes, compactions and changes of
/// files are most of what it would write.
const LOGBACK: &str = r#"<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} %-5level %logger{0} %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
  <logger name="org.apache.cassandra" level="INFO"/>
  <logger name="org.apache.cassandra.db" level="WARN"/>
  <logger name="org.apache.cassandra.index" level="WARN"/>
  <logger name="org.apache.cassandra.io" level="WARN"/>
</configuration>
"#;

/// The file that states the data centre of a node. It is written only if data centres are configured.
pub(crate) const RACK: &str = "cassandra-rackdc.properties";

/// The directory for temporary files of a node.
pub(crate) const TEMPORARY: &str = "tmp";

/// A node's position in its cluster.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) address: Ipv4Addr,
    pub(crate) seed: Ipv4Addr,
    pub(crate) number: usize,
    pub(crate) of: usize,
}

impl Place {
    /// The node's token. Tokens divide the ring equally, so that nodes need not negotiate them.
    fn token(&self) -> i64 {
        let step = (1_i128 << 64) / self.of as i128;
        (i128::from(i64::MIN) + step * self.number as i128) as i64
    }

    fn datacenter<'a>(&self, options: &'a Options) -> Option<&'a str> {
        options.datacenters.iter().cycle().nth(self.number).map(String::as_str)
    }
}

/// Writes the configuration files of a node to `directory`.
pub(crate) fn write(directory: &Path, place: &Place, options: &Options) -> Result<(), NodeError> {
    let put = |name: &str, content: &str| {
        let path = directory.join(name);
        fs::write(&path, content).map_err(NodeError::io(format!("writing {}", path.display())))
    };
    for name in ["triggers", "data", TEMPORARY] {
        crate::cache::make(directory.join(name))?;
    }
    put("logback.xml", LOGBACK)?;
    if let Some(datacenter) = place.datacenter(options) {
        put(RACK, &format!("dc={datacenter}\nrack=rack1\n"))?;
    }
    let mut yaml = yaml(place, options);
    if options.tls {
        certificate::make(&java::find(options.release)?, directory, place.address)?;
        yaml += &(certificate::yaml(directory) + "\n");
    }
    put("cassandra.yaml", &yaml)
}

fn yaml(place: &Place, options: &Options) -> String {
    let snitch = if options.datacenters.is_empty() { "SimpleSnitch" } else { "GossipingPropertyFileSnitch" };
    let mut lines = vec![
        "cluster_name: plumbago".to_owned(),
        "partitioner: org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
        format!("endpoint_snitch: {snitch}"),
        "seed_provider:".to_owned(),
        "  - class_name: org.apache.cassandra.locator.SimpleSeedProvider".to_owned(),
        format!("    parameters: [{{seeds: \"{}\"}}]", place.seed),
        format!("listen_address: {}", place.address),
        format!("rpc_address: {}", place.address),
        "start_native_transport: true".to_owned(),
        "num_tokens: 1".to_owned(),
        format!("initial_token: \"{}\"", place.token()),
        "auto_bootstrap: false".to_owned(),
        "auto_snapshot: false".to_owned(),
        "disk_access_mode: standard".to_owned(),
    ];
    lines.extend(match options.release {
        Release::V3_11 => sizes_and_times_3_11(options),
        Release::V4_1 | Release::V5_0 => sizes_and_times(options),
    });
    if options.release == Release::V5_0 {
        let compatibility = if options.expiry_before_2038 { "CASSANDRA_4" } else { "NONE" };
        lines.push(format!("storage_compatibility_mode: {compatibility}"));
    }
    if options.authentication {
        lines.push("authenticator: PasswordAuthenticator\nauthorizer: CassandraAuthorizer".to_owned());
    }
    lines.extend(options.more.iter().cloned());
    lines.join("\n") + "\n"
}

/// Small caches, because several nodes share a machine, and long timeouts, because tests run beside
/// compilers.
fn sizes_and_times(options: &Options) -> Vec<String> {
    vec![
        "commitlog_segment_size: 8MiB".to_owned(),
        "memtable_offheap_space: 32MiB".to_owned(),
        format!("memtable_heap_space: {}MiB", options.heap_mib / 8),
        "file_cache_size: 16MiB".to_owned(),
        "key_cache_size: 0MiB".to_owned(),
        "native_transport_max_request_data_in_flight: 64MiB".to_owned(),
        "native_transport_max_request_data_in_flight_per_ip: 64MiB".to_owned(),
        "read_request_timeout: 20s".to_owned(),
        "range_request_timeout: 30s".to_owned(),
        "write_request_timeout: 20s".to_owned(),
        "request_timeout: 30s".to_owned(),
        format!("sasi_indexes_enabled: {}", options.sasi),
        match options.commitlog_sync {
            CommitlogSync::Batch => "commitlog_sync: batch".to_owned(),
            CommitlogSync::Periodic => "commitlog_sync: periodic\ncommitlog_sync_period: 10000ms".to_owned(),
        },
    ]
}

/// The settings of `sizes_and_times` under the names of 3.11, where the names include the unit.
fn sizes_and_times_3_11(options: &Options) -> Vec<String> {
    vec![
        "commitlog_segment_size_in_mb: 8".to_owned(),
        "memtable_offheap_space_in_mb: 32".to_owned(),
        format!("memtable_heap_space_in_mb: {}", options.heap_mib / 8),
        "file_cache_size_in_mb: 16".to_owned(),
        "key_cache_size_in_mb: 0".to_owned(),
        "native_transport_max_concurrent_requests_in_bytes: 67108864".to_owned(),
        "native_transport_max_concurrent_requests_in_bytes_per_ip: 67108864".to_owned(),
        "read_request_timeout_in_ms: 20000".to_owned(),
        "range_request_timeout_in_ms: 30000".to_owned(),
        "write_request_timeout_in_ms: 20000".to_owned(),
        "request_timeout_in_ms: 30000".to_owned(),
        format!("enable_sasi_indexes: {}", options.sasi),
        match options.commitlog_sync {
            CommitlogSync::Batch => "commitlog_sync: batch\ncommitlog_sync_batch_window_in_ms: 2".to_owned(),
            CommitlogSync::Periodic => {
                "commitlog_sync: periodic\ncommitlog_sync_period_in_ms: 10000".to_owned()
            }
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_cut_into_equal_parts() {
        let local = Ipv4Addr::LOCALHOST;
        let tokens = [0, 1, 2].map(|number| Place { address: local, seed: local, number, of: 3 }.token());
        assert_eq!(tokens, [i64::MIN, -3_074_457_345_618_258_603, 3_074_457_345_618_258_602]);
    }
}
