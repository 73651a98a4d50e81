//! Imports files as operators have them, and checks the result for every line.
#![allow(clippy::unwrap_used)]

use plumbago_config_import::{File, Format, Import, Program, RemarkKind, import, to_toml};

const CARBON: &str = "\
[cache]
DATABASE = biggraphite
STORAGE_DIR = /srv/graphite
LINE_RECEIVER_INTERFACE = 127.0.0.1
MAX_CREATES_PER_MINUTE = 100
USE_WHITELIST = True
MAX_CACHE_SIZE = 2000000
USE_FLOW_CONTROL = False
LOG_UPDATES = False
CARBON_METRIC_INTERVAL = 10
NO_SUCH = 1
BG_CASSANDRA_KEYSPACE = metrics
BG_CASSANDRA_CONTACT_POINTS = 10.0.0.1, fe80::1
BG_CASSANDRA_CONTACT_POINTS_METADATA = 10.0.1.1
BG_CASSANDRA_PORT = 9142
BG_CASSANDRA_PASSWORD = a\"b\\c
BG_CASSANDRA_TIMEOUT = 2.5
BG_CASSANDRA_DATA_WRITE_CONSISTENCY = local_quorum
BG_CASSANDRA_META_READ_CONSISTENCY = SOMETIMES
BG_CASSANDRA_READ_ON_SAMPLING_RATE = 0.05
BG_CASSANDRA_WRITER = 5
[cache:b]
LINE_RECEIVER_PORT = 2103
PICKLE_RECEIVER_PORT = 2104
CACHE_QUERY_PORT = 7102
ENABLE_UDP_LISTENER = yes
[relay]
LINE_RECEIVER_PORT = 2013
PICKLE_RECEIVER_PORT = 0
RELAY_METHOD = rules
DESTINATIONS = 127.0.0.1:2004:a, 127.0.0.1:2104:b, [::1]:2104:b, 10.9.9.9:2004:a
[aggregator]
LINE_RECEIVER_PORT = 2023
AGGREGATION_RULES = agg.conf
FORWARD_ALL = False
DESTINATIONS = 127.0.0.1:2004:a
[nonsense]
A = 1
";

fn read(path: &str, text: &str, programs: &[Program]) -> Import {
    let file = File { path: path.to_owned(), text: text.to_owned(), format: None };
    import(&[file], programs, &|path| !path.ends_with("blacklist.conf"))
}

/// A setting as it appears in the TOML file.
fn setting(import: &Import, key: &str) -> Option<String> {
    let found = import.settings.iter().find(|setting| setting.key == key)?;
    Some(serde_json::to_string(&found.value).unwrap())
}

fn assert_settings(import: &Import, expected: &[(&str, &str)]) {
    for (key, value) in expected {
        assert_eq!(setting(import, key).as_deref(), Some(*value), "{key}\n{}", to_toml(import));
    }
}

fn remark<'a>(import: &'a Import, kind: RemarkKind, key: &str) -> Option<&'a str> {
    let found = import.remarks.iter().find(|remark| remark.kind == kind && remark.from.key == key);
    found.map(|remark| remark.text.as_str())
}

#[test]
fn all_sections_of_carbon_become_one_daemon() {
    let import = read("/etc/carbon/carbon.conf", CARBON, &Program::ALL);
    assert_settings(
        &import,
        &[
            ("storage_schemas", "\"/etc/carbon/storage-schemas.conf\""),
            ("ingest.whitelist", "\"/etc/carbon/whitelist.conf\""),
            (
                "ingest.line.listen",
                "[\"127.0.0.1:2003\",\"127.0.0.1:2103\",\"0.0.0.0:2013\",\"0.0.0.0:2023\"]",
            ),
            ("ingest.pickle.listen", "[\"0.0.0.0:2004\",\"0.0.0.0:2104\"]"),
            ("ingest.udp.listen", "[\"0.0.0.0:2003\"]"),
            ("carbonlink.listen", "\"0.0.0.0:7002\""),
            // Both instances have this limit, so it is added up.
            ("engine.max_creates_per_minute", "200"),
            ("self_metrics.interval", "\"10s\""),
            ("store.kind", "\"cassandra\""),
            ("store.cassandra.keyspace", "\"metrics\""),
            ("store.cassandra.contact_points", "[\"10.0.0.1:9142\",\"[fe80::1]:9142\"]"),
            ("store.cassandra.metadata.contact_points", "[\"10.0.1.1:9142\"]"),
            ("store.cassandra.metadata.password", "\"a\\\"b\\\\c\""),
            ("store.cassandra.request_timeout", "\"2500ms\""),
            ("store.cassandra.consistency.write", "\"LOCAL_QUORUM\""),
            ("store.cassandra.read_on_sampling", "20"),
            ("relay.destinations", "[\"pickle://10.9.9.9:2004\"]"),
            ("relay.rules", "\"/etc/carbon/relay-rules.conf\""),
            ("aggregation.rules", "\"/etc/carbon/agg.conf\""),
            ("aggregation.forward_all", "false"),
        ],
    );
    assert_eq!(setting(&import, "ingest.blacklist"), None);
    for (kind, key) in [
        (RemarkKind::Error, "cache.BG_CASSANDRA_META_READ_CONSISTENCY"),
        (RemarkKind::Todo, "cache.MAX_CACHE_SIZE"),
        (RemarkKind::Todo, "cache:b.CACHE_QUERY_PORT"),
        (RemarkKind::NoEquivalent, "cache.USE_FLOW_CONTROL"),
        (RemarkKind::NoEquivalent, "cache.NO_SUCH"),
        (RemarkKind::NoEquivalent, "nonsense"),
        (RemarkKind::NotNeeded, "cache.LOG_UPDATES"),
        (RemarkKind::NotNeeded, "cache.BG_CASSANDRA_WRITER"),
        (RemarkKind::NotNeeded, "aggregator.DESTINATIONS"),
    ] {
        assert!(remark(&import, kind, key).is_some(), "{kind:?} {key}: {:#?}", import.remarks);
    }
    let itself = remark(&import, RemarkKind::Todo, "relay").unwrap();
    assert!(itself.contains("remove the destinations"), "{itself}");
    let line = import.remarks.iter().find(|remark| remark.from.key == "cache.NO_SUCH").unwrap().from.line;
    assert_eq!(CARBON.lines().nth(line - 1), Some("NO_SUCH = 1"));
}

/// Every key of the file appears in the result, as a setting or as a remark.
#[test]
fn no_line_is_dropped_in_silence() {
    let import = read("/etc/carbon/carbon.conf", CARBON, &Program::ALL);
    // Keys that need no remark: a receiver that is off, a method, or a switch that only affects other keys.
    let silent = ["PICKLE_RECEIVER_PORT = 0", "RELAY_METHOD = rules", "[cache]", "[cache:b]", "[aggregator]"];
    for (index, line) in CARBON.lines().enumerate().filter(|(_, line)| !silent.contains(line)) {
        let in_settings = import.settings.iter().flat_map(|setting| &setting.from);
        let in_remarks = import.remarks.iter().map(|remark| &remark.from);
        let is_there = in_settings.chain(in_remarks).any(|origin| origin.line == index + 1);
        let reads_with_its_port = line.contains("_INTERFACE") || line.starts_with("BG_CASSANDRA_PORT");
        let belongs_to = ["[relay]", "A = 1"].contains(&line) || reads_with_its_port;
        assert!(is_there || belongs_to, "line {}: {line}\n{}", index + 1, to_toml(&import));
    }
}

#[test]
fn programs_that_do_not_run_are_left_out() {
    let import = read("/etc/carbon/carbon.conf", CARBON, &[Program::Cache]);
    assert_settings(&import, &[("ingest.line.listen", "[\"127.0.0.1:2003\",\"127.0.0.1:2103\"]")]);
    assert_eq!(setting(&import, "relay.destinations"), None);
    assert_eq!(setting(&import, "aggregation.rules"), None);
    assert!(remark(&import, RemarkKind::NotNeeded, "relay").is_some());
}

/// Points that consistent hashing would send to one of several servers are sent to none of them.
#[test]
fn consistent_hashing_is_not_imitated() {
    let text =
        "[relay]\nRELAY_METHOD = consistent-hashing\nDESTINATIONS = 10.0.0.1:2004:a, 10.0.0.2:2004:b\n";
    let import = read("carbon.conf", text, &Program::ALL);
    assert_eq!(setting(&import, "relay.destinations"), None);
    assert!(remark(&import, RemarkKind::NoEquivalent, "relay.RELAY_METHOD").is_some());
    let one = "[relay]\nRELAY_METHOD = consistent-hashing\nDESTINATIONS = 10.0.0.1:2004:a\nDESTINATION_PROTOCOL=line\n\
               DESTINATION_TRANSPORT = ssl\nDESTINATION_SSL_CA = /ca.pem\n";
    let import = read("carbon.conf", one, &Program::ALL);
    assert_settings(
        &import,
        &[("relay.destinations", "[\"line+tls://10.0.0.1:2004\"]"), ("relay.ca", "\"/ca.pem\"")],
    );
}

const GO_CARBON: &str = "\
[common]
graph-prefix = \"stats.agents.{host}\"
metric-interval = \"1m30s\"
[whisper]
data-dir = \"/var/lib/graphite/whisper\"
schemas-file = \"storage-schemas.conf\"
max-creates-per-second = 10
hard-max-creates-per-second = true
compressed = true
quotas-file = \"/etc/go-carbon/quotas.conf\"
workers = 8
[tcp]
listen = \":2003\"
[udp]
enabled = false
[pickle]
listen = \"127.0.0.1:2004\"
max-message-size = 67108864
[receiver.more]
protocol = \"tcp\"
listen = \":2013\"
[receiver.broker]
protocol = \"kafka\"
[receiver.web]
protocol = \"http\"
listen = \":2007\"
[carbonlink]
listen = \"127.0.0.1:7002\"
read-timeout = \"30s\"
[carbonserver]
enabled = true
listen = \"127.0.0.1:8080\"
[future]
a = 1
[[logging]]
level = \"warn\"
";

#[test]
fn go_carbon_becomes_one_daemon() {
    let import = read("/etc/go-carbon/go-carbon.conf", GO_CARBON, &Program::ALL);
    assert_settings(
        &import,
        &[
            ("self_metrics.prefix", "\"stats\""),
            ("self_metrics.interval", "\"90s\""),
            ("storage_schemas", "\"/etc/go-carbon/storage-schemas.conf\""),
            ("engine.max_creates_per_minute", "600"),
            ("ingest.udp.listen", "\"\""),
            ("ingest.pickle.listen", "[\"127.0.0.1:2004\"]"),
            ("ingest.pickle.frame_bytes_max", "\"64MiB\""),
            ("ingest.http.listen", "[\"0.0.0.0:2007\"]"),
            ("carbonlink.listen", "\"127.0.0.1:7002\""),
            ("carbonlink.idle_timeout", "\"30s\""),
            ("api.listen", "\"127.0.0.1:8080\""),
            ("log.level", "\"warn\""),
        ],
    );
    for (kind, key) in [
        (RemarkKind::Todo, "whisper.data-dir"),
        (RemarkKind::Todo, "whisper.quotas-file"),
        (RemarkKind::NoEquivalent, "whisper.compressed"),
        (RemarkKind::NotNeeded, "whisper.workers"),
        (RemarkKind::NoEquivalent, "receiver.broker.protocol"),
        (RemarkKind::NoEquivalent, "future"),
    ] {
        assert!(remark(&import, kind, key).is_some(), "{kind:?} {key}: {:#?}", import.remarks);
    }
}

#[test]
fn what_cannot_be_taken_over_is_said() {
    let text = "[tcp]\nlisten = \":2003\"\nenabled = true\ncompression = \"zstd\"\n";
    let go_carbon = read("/etc/go-carbon/go-carbon.conf", text, &Program::ALL);
    let why = remark(&go_carbon, RemarkKind::NoEquivalent, "tcp.compression").unwrap();
    assert!(why.contains("let the senders use"), "{why}");

    let text = "[cache]\nUSE_WHITELIST = True\nBG_CASSANDRA_CONTACT_POINTS = \"a\", b:9142, c, ::1\n";
    let file = File { path: "/etc/carbon/carbon.conf".to_owned(), text: text.to_owned(), format: None };
    let carbon = import(&[file], &Program::ALL, &|_| false);
    let why = remark(&carbon, RemarkKind::Todo, "cache.USE_WHITELIST").unwrap();
    assert!(why.contains("no whitelist.conf"), "{why}");
    assert_settings(&carbon, &[("store.cassandra.contact_points", "[\"c:9042\",\"[::1]:9042\"]")]);
    let errors = carbon.remarks.iter().filter(|remark| remark.kind == RemarkKind::Error);
    assert_eq!(errors.count(), 2, "{}", to_toml(&carbon));
}

/// Carbon's limit of 0 means no creations, while ours means no limit.
#[test]
fn a_limit_of_no_creations_is_kept() {
    for (path, text, expected) in [
        ("carbon.conf", "[cache]\nMAX_CREATES_PER_MINUTE = 0\n", Some("\"none\"")),
        (
            "carbon.conf",
            "[cache]\nMAX_CREATES_PER_MINUTE = 0\n[cache:b]\nMAX_CREATES_PER_MINUTE = 5\n",
            Some("5"),
        ),
        ("carbon.conf", "[cache]\nMAX_CREATES_PER_MINUTE = inf\n", Some("0")),
        ("carbon.conf", "[cache]\nMAX_CREATES_PER_MINUTE = -1\n", None),
        (
            "go.conf",
            "[whisper]\nmax-creates-per-second = 0\nhard-max-creates-per-second = true\n",
            Some("\"none\""),
        ),
        ("go.conf", "[whisper]\nmax-creates-per-second = 0\n", None),
    ] {
        let import = read(path, text, &Program::ALL);
        assert_eq!(setting(&import, "engine.max_creates_per_minute").as_deref(), expected, "{text}");
    }
}

#[test]
fn settings_of_graphite_web_are_read_and_not_run() {
    let text = "\
import os
raise SystemExit(os.system('touch /tmp/was-run'))
TIME_ZONE = 'Europe/Paris'
URL_PREFIX = 'graphite/'
MEMCACHE_HOSTS = [os.environ['CACHE']]
STORAGE_FINDERS = (
    'biggraphite.plugins.graphite.Finder',
)
BG_CASSANDRA_KEYSPACE = \"metrics\"
BG_CASSANDRA_SSL_ENABLE = False
BG_CASSANDRA_USERNAME = os.environ['USER']
if os.path.exists('/srv'):
    BG_CASSANDRA_WRITER = 5
";
    let import = read("local_settings.py", text, &Program::ALL);
    assert_settings(
        &import,
        &[
            ("api.time_zone", "\"Europe/Paris\""),
            ("api.url_prefix", "\"/graphite\""),
            ("store.kind", "\"cassandra\""),
            ("store.cassandra.keyspace", "\"metrics\""),
            ("store.cassandra.tls.enabled", "false"),
        ],
    );
    assert!(remark(&import, RemarkKind::Todo, "BG_CASSANDRA_USERNAME").unwrap().contains("by hand"));
    assert!(remark(&import, RemarkKind::Todo, "BG_CASSANDRA_WRITER").unwrap().contains("under a condition"));
    assert!(remark(&import, RemarkKind::NotNeeded, "MEMCACHE_HOSTS").is_some());
}

/// If two files disagree, the first one is used, and a remark names the second.
#[test]
fn files_that_disagree_are_named() {
    let file = |path: &str, text: &str, format| File { path: path.into(), text: text.into(), format };
    let files = [
        file("carbon.conf", "[cache]\nBG_CASSANDRA_KEYSPACE = one\n", Some(Format::Carbon)),
        file("local_settings.py", "BG_CASSANDRA_KEYSPACE = 'two'\n", None),
    ];
    let import = import(&files, &Program::ALL, &|_| false);
    assert_settings(&import, &[("store.cassandra.keyspace", "\"one\"")]);
    let text = remark(&import, RemarkKind::Todo, "BG_CASSANDRA_KEYSPACE").unwrap();
    assert!(text.contains("carbon.conf line 2"), "{text}");
}

#[test]
fn broken_files_are_errors_with_lines() {
    for (path, text, line) in [
        ("carbon.conf", "A = 1\n[cache]\n", 1),
        ("carbon.conf", "[cache]\nLINE_RECEIVER_PORT = many\n", 2),
        ("carbon.conf", "[cache]\nLINE_RECEIVER_INTERFACE = graphite.example\n", 2),
        ("go.conf", "[tcp]\nlisten = \n", 2),
        ("go.conf", "[tcp]\nlisten = \"2003\"\n", 2),
        ("go.conf", "[pickle]\nlisten = 2004\n", 2),
        ("go.conf", "[receiver.a]\nprotocol = \"udp\"\nenabled = \"yes\"\n", 3),
    ] {
        let import = read(path, text, &Program::ALL);
        let errors: Vec<_> = import.remarks.iter().filter(|r| r.kind == RemarkKind::Error).collect();
        assert!(errors.iter().any(|error| error.from.line == line), "{text:?}: {:#?}", import.remarks);
    }
}

/// No text from an imported file can break out of its place in the TOML file.
#[test]
fn the_result_is_always_toml() {
    let text = "[cache]\nBG_CASSANDRA_KEYSPACE = a\"\\\u{7f}b\nCARBON_METRIC_PREFIX = x\n\ty\n[odd\u{1}name]\nA = 1\n";
    let import = read("a\nb\"/carbon.conf", text, &Program::ALL);
    let toml = to_toml(&import);
    let parsed = toml::de::DeTable::parse(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    let table = |name: &str| parsed.get_ref()[name].get_ref().as_table().unwrap();
    assert_eq!(table("self_metrics")["prefix"].get_ref().as_str(), Some("x\ny"));
    let cassandra = table("store")["cassandra"].get_ref().as_table().unwrap();
    assert_eq!(cassandra["keyspace"].get_ref().as_str(), Some("a\"\\\u{7f}b"));
}
