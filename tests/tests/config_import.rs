//! Real configurations are imported. The result passes `config check`, and a daemon starts with it.

use std::path::Path;

use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Setup, binary};
use std::process::Command;

fn plumbago(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(binary()).args(arguments).current_dir(directory).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// carbon's own example files, as its package installs them.
#[test]
fn carbons_examples_become_a_configuration_that_is_correct() {
    let Some(python) = counterpart::python() else { return };
    let examples = python.parent().unwrap().parent().unwrap().join("conf");
    let setup = Setup::new();
    let conf = setup.path().join("conf");
    std::fs::create_dir(&conf).unwrap();
    for entry in std::fs::read_dir(&examples).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(plain) = name.strip_suffix(".example") else { continue };
        std::fs::copy(examples.join(&name), conf.join(plain)).unwrap();
    }
    let arguments = ["config", "import", "--output", "imported.toml", "conf/carbon.conf"];
    let (code, output) = plumbago(setup.path(), &arguments);
    assert_eq!(code, Some(0), "{output}");
    let (code, output) = plumbago(setup.path(), &["--config", "imported.toml", "config", "check"]);
    assert_eq!(code, Some(0), "{output}");
    let text = std::fs::read_to_string(setup.path().join("imported.toml")).unwrap();
    for part in
        ["storage-schemas.conf", "aggregation-rules.conf", "0.0.0.0:2013", "max_creates_per_minute = 50"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // An existing file is never overwritten.
    let (code, output) = plumbago(setup.path(), &arguments);
    assert!(code == Some(2) && output.contains("imported.toml"), "{code:?} {output}");
}

/// Every key that an import can produce is one that the daemon knows.
#[test]
fn all_keys_of_an_import_are_known() {
    let setup = Setup::new();
    for name in ["storage-schemas.conf", "whitelist.conf", "rewrite-rules.conf", "aggregation-rules.conf"] {
        setup.file(name, "");
    }
    setup.file("storage-schemas.conf", "[all]\npattern = .*\nretentions = 60s:1d\n");
    setup.file(
        "carbon.conf",
        "[cache]\nUSE_WHITELIST = True\nENABLE_UDP_LISTENER = True\nMAX_RECEIVER_CONNECTIONS = 50\n\
         METRIC_CLIENT_IDLE_TIMEOUT = 60\nPICKLE_RECEIVER_MAX_LENGTH = 2097152\nMAX_CREATES_PER_MINUTE = 50\n\
         CARBON_METRIC_PREFIX = stats\nPROTOBUF_RECEIVER_PORT = 2005\n\
         BG_CASSANDRA_KEYSPACE = metrics\nBG_CASSANDRA_CONTACT_POINTS = 127.0.0.9\n\
         BG_CASSANDRA_CONTACT_POINTS_METADATA = 127.0.0.8\nBG_CASSANDRA_USERNAME = u\nBG_CASSANDRA_PASSWORD = p\n\
         BG_CASSANDRA_TIMEOUT = 2.5\nBG_CASSANDRA_REPLICA = 1\nBG_CASSANDRA_UPDATED_ON_TTL_SEC = 259200\n\
         BG_CASSANDRA_READ_ON_SAMPLING_RATE = 0.1\nBG_CASSANDRA_MAX_METRICS_PER_PATTERN = 5000\n\
         BG_CASSANDRA_DATA_WRITE_CONSISTENCY = ONE\nBG_CASSANDRA_META_READ_CONSISTENCY = ONE\nBG_LOGLEVEL = WARNING\n\
         [relay]\nRELAY_METHOD = constant\nDESTINATIONS = 127.0.0.7:2004:a\n\
         [aggregator]\nMAX_AGGREGATION_INTERVALS = 3\nWRITE_BACK_FREQUENCY = 5\nFORWARD_ALL = False\n",
    );
    setup.file(
        "go-carbon.conf",
        "[common]\nmetric-interval = \"30s\"\n[carbonserver]\nenabled = true\nlisten = \":8080\"\nread-timeout = \"60s\"\n\
         write-timeout = \"30s\"\n[carbonlink]\nlisten = \":7002\"\nread-timeout = \"30s\"\n\
         [receiver.web]\nprotocol = \"http\"\nlisten = \":2007\"\nmax-message-size = 65536\n",
    );
    setup.file(
        "local_settings.py",
        "TIME_ZONE = 'Europe/Paris'\nURL_PREFIX = 'g'\nDEFAULT_CACHE_DURATION = 60\n",
    );
    for (files, settings_min) in
        [(&["carbon.conf", "local_settings.py"][..], 28), (&["go-carbon.conf"][..], 7)]
    {
        let (code, toml) = plumbago(setup.path(), &[&["config", "import"], files].concat());
        assert_eq!(code, Some(0), "{toml}");
        let settings = toml.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')).count();
        assert!(settings >= settings_min, "{settings}: {toml}");
        std::fs::write(setup.path().join("imported.toml"), &toml).unwrap();
        let (code, output) = plumbago(setup.path(), &["--config", "imported.toml", "config", "check"]);
        assert_eq!(code, Some(0), "{output}\n{toml}");
    }
}
