use std::collections::HashSet;

use super::*;

fn load_text(text: &str, variables: &[(&str, &str)]) -> Result<Loaded, Problems> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("plumbago.toml");
    std::fs::write(&file, text).unwrap();
    load_from(Some(file), variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
}

/// Loads a configuration that has errors. Returns each problem as `place key message`.
fn problems(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let problems = load_text(text, variables).unwrap_err();
    let place = |place: &Place| match place {
        Place::File(path, line) => format!("{}:{line}", path.file_name().unwrap().to_string_lossy()),
        other => other.to_string(),
    };
    problems.iter().map(|p| format!("{} {} {}", place(&p.place), p.key, p.message)).collect()
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let loaded = load_text(DEFAULT_TOML, &[]).unwrap();
    assert_eq!(format!("{:?}", loaded.config), format!("{:?}", Config::default()));
    let nothing = load_from(None, layers::Environment::new()).unwrap();
    assert_eq!(format!("{:?}", nothing.config), format!("{:?}", Config::default()));
}

/// The keys that a section accepts, taken from serde's message about an unknown one.
fn known_keys(path: &str) -> HashSet<String> {
    let mut root = serde_json::json!({});
    let mut table = &mut root;
    for key in path.split('.').filter(|k| !k.is_empty()) {
        table[key] = serde_json::json!({});
        table = &mut table[key];
    }
    table["no such key"] = Value::from(0);
    let message = serde_json::from_value::<Config>(root).unwrap_err().to_string();
    message.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

fn assert_complete(path: &str, documented: &Value) {
    let table = documented.as_object().unwrap();
    assert_eq!(table.keys().cloned().collect::<HashSet<_>>(), known_keys(path), "[{path}]");
    for (key, inner) in table.iter().filter(|(_, v)| v.is_object()) {
        assert_complete(if path.is_empty() { key.clone() } else { format!("{path}.{key}") }.as_str(), inner);
    }
}

#[test]
fn every_key_is_documented() {
    assert_complete("", keys::all_keys());
    let mut commented = false;
    for line in DEFAULT_TOML.lines() {
        let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line);
        if line.starts_with("# ") {
            commented = true;
        } else if key.contains(" = ") {
            assert!(commented, "no comment before {line}");
            commented = false;
        }
    }
}

#[test]
fn optional_keys_have_examples_that_are_valid() {
    let text: String = DEFAULT_TOML
        .lines()
        .map(|l| {
            l.strip_prefix('#').filter(|r| !r.starts_with(' ') && !r.is_empty()).unwrap_or(l).to_owned()
                + "\n"
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("all.toml");
    std::fs::write(&file, text).unwrap();
    let mut problems = Problems::default();
    let layers = layers::read(Some(&file), layers::Environment::new(), &mut problems);
    let set = strict::typed(&layers, &mut problems);
    strict::build(&set, &layers, &mut problems);
    assert_eq!(problems.to_string(), "");
}

#[test]
fn every_problem_is_found_at_once() {
    let text = "data_dir = 7\n[log]\nlevel = \"loud\"\ncolour = true\n[journal]\nsync = 1\nsegment = \"5\"\n[extra]\na = 1\n";
    let found =
        problems(text, &[("PLUMBAGO__JOURNAL__MIN_FREE_BYTES", "much"), ("PLUMBAGO__STORE__KIND", "sqlite")]);
    let starts = [
        "plumbago.toml:1 data_dir must be a text, like \"data\", not 7",
        "plumbago.toml:3 log.level \"loud\" is not a log level",
        "plumbago.toml:4 log.colour there is no such key",
        "plumbago.toml:6 journal.sync must have a unit and quotes, like \"1s\"; 1 has none",
        "plumbago.toml:7 journal.segment \"5\" is not a period",
        "plumbago.toml:8 extra there is no such key",
        "environment PLUMBAGO__JOURNAL__MIN_FREE_BYTES journal.min_free_bytes \"much\" is not a size",
        "environment PLUMBAGO__STORE__KIND store.kind must be \"embedded\" or \"cassandra\", not \"sqlite\"",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}\n{start}");
    }
}

#[test]
fn the_environment_overrides_the_file_and_keeps_texts_as_they_are() {
    let loaded = load_text(
        "data_dir = \"a\"\n",
        &[("PLUMBAGO__DATA_DIR", "0012"), ("PLUMBAGO__JOURNAL__SYNC", "off")],
    );
    let config = loaded.unwrap().config;
    assert_eq!(config.data_dir, Path::new("0012"));
    assert_eq!(config.journal.sync, plumbago_journal::SyncPolicy::Off);
}

#[test]
fn a_misspelt_variable_is_named() {
    let found = problems("", &[("PLUMBAGO__JOURNAL__SINC", "1s")]);
    assert_eq!(found.len(), 1);
    let said = "environment PLUMBAGO__JOURNAL__SINC journal.sinc there is no such key; did you mean \
                PLUMBAGO__JOURNAL__SYNC?";
    assert!(found[0].starts_with(said), "{}", found[0]);
}

#[test]
fn renamed_settings_are_refused_with_their_new_names() {
    let text = "[spool]\ngather = \"5s\"\n[sender]\npatience = \"1m\"\nparked_every = \"1m\"\n";
    let found = problems(text, &[]);
    let starts = [
        "plumbago.toml:2 spool.gather is called spool.linger now",
        "plumbago.toml:4 sender.patience is called sender.defer_after now",
        "plumbago.toml:5 sender.parked_every is called sender.retry_deferred_every now",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    assert!(found.iter().zip(starts).all(|(found, start)| found.starts_with(start)), "{found:#?}");
}

#[test]
fn a_file_that_cannot_be_read_or_parsed() {
    let missing =
        load_from(Some(PathBuf::from("/nonexistent.toml")), layers::Environment::new()).unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent.toml: error: "), "{missing}");
    let found = problems("a = 1\nb = = 2\n", &[]);
    assert!(found[0].starts_with("plumbago.toml:2 "), "{found:?}");
}

#[test]
fn problems_of_the_rules_are_problems_of_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("storage-schemas.conf");
    std::fs::write(&rules, "[a]\npattern = (\nretentions = 60s:1d\n[b]\npattern = b\n").unwrap();
    let found =
        problems(&format!("storage_schemas = {:?}\nstorage_aggregation = \"none.conf\"\n", rules), &[]);
    assert_eq!(found.len(), 3, "{found:#?}");
    for start in [
        "plumbago.toml:2 storage_aggregation none.conf cannot be read: No such file",
        "storage-schemas.conf:2 [a] pattern \"(\": ",
        "storage-schemas.conf:4 [b] no retentions",
    ] {
        assert!(found.iter().any(|text| text.starts_with(start)), "{start}\n{found:#?}");
    }
}

#[test]
fn the_effective_settings_read_back() {
    let loaded = load_text("[journal]\nsync = \"100ms\"\n", &[("PLUMBAGO__DATA_DIR", "x")]).unwrap();
    let shown = effective(&loaded.set);
    assert!(shown.contains("data_dir = \"x\"\n") && shown.contains("sync = \"100ms\"\n"), "{shown}");
    assert_eq!(format!("{:?}", load_text(&shown, &[]).unwrap().config), format!("{:?}", loaded.config));
}

#[test]
fn problems_of_the_sections_point_to_where_they_are_set() {
    let text =
        "[api]\nlisten = \"127.0.0.1:2004\"\ntime_zone = \"Rome\"\n[admin]\nlisten = \"0.0.0.0:8081\"\n";
    let found = problems(text, &[("PLUMBAGO__INGEST__LINE__CONNECTIONS_MAX", "0")]);
    let starts = [
        "plumbago.toml:2 api.listen 127.0.0.1:2004 is taken by ingest.pickle.listen",
        "plumbago.toml:3 api.time_zone no time zone is called \"Rome\"",
        "plumbago.toml:4 admin.token needed because",
        "environment PLUMBAGO__INGEST__LINE__CONNECTIONS_MAX ingest.line.connections_max 0 is not between",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}\n{start}");
    }
}

#[test]
fn self_metrics_have_names_that_can_be_found() {
    for prefix in ["", "car bon", "carbon.", "a..b", "a;b=c"] {
        let found = problems(&format!("[self_metrics]\nprefix = \"{prefix}\"\n"), &[]);
        assert!(
            found.len() == 1
                && found[0].contains("plumbago.toml:2 self_metrics.prefix")
                && found[0].contains("must be a name like"),
            "{found:?}"
        );
    }
    for fine in ["prefix = \"dc1.carbon\"", "prefix = \"\"\ninterval = \"0s\""] {
        load_text(&format!("[self_metrics]\n{fine}\n"), &[]).unwrap();
    }
}

#[test]
fn a_listener_takes_one_address_or_several() {
    let listen = |text: &str, variables: &[(&str, &str)]| {
        let loaded = load_text(text, variables).unwrap();
        let shown = effective(&loaded.set);
        let line = |config: &Config| {
            config.ingest.tcp.get("line").unwrap().listen.iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(line(&load_text(&shown, &[]).unwrap().config), line(&loaded.config), "{shown}");
        line(&loaded.config)
    };
    let two = ["127.0.0.1:2003", "[::1]:2013"];
    assert_eq!(listen("", &[]), two[..1]);
    assert_eq!(listen("[ingest.line]\nlisten = \"\"\n", &[]), two[..0]);
    assert_eq!(listen("[ingest.line]\nlisten = [\"127.0.0.1:2003\", \"[::1]:2013\"]\n", &[]), two);
    let variable = "PLUMBAGO__INGEST__LINE__LISTEN";
    assert_eq!(listen("[ingest.line]\nlisten = []\n", &[(variable, "127.0.0.1:2003, [::1]:2013")]), two);

    let text = "[ingest.line]\nlisten = [\"127.0.0.1:1\", \"here\", \"127.0.0.1:2\", \"127.0.0.1:1\"]\n[ingest.pickle]\nlisten = [2004]\n[ingest.udp]\nlisten = 2003\n[api]\nlisten = [\"127.0.0.1:2\"]\n";
    let found = problems(text, &[]);
    let starts = [
        "plumbago.toml:2 ingest.line.listen \"here\" is not an address",
        "plumbago.toml:2 ingest.line.listen 127.0.0.1:1 is listed twice",
        "plumbago.toml:4 ingest.pickle.listen must be a list of texts in quotes",
        "plumbago.toml:6 ingest.udp.listen must be a text, like \"127.0.0.1:2003\", not 2003, or a list",
        "plumbago.toml:8 api.listen must be a text",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}\n{start}");
    }
}

#[test]
fn numbers_are_said_as_the_user_wrote_them() {
    let text = "[engine]\nshards = -1\nmax_creates_per_minute = 1e6\n[api.limits]\ntargets = \"ten\"\n\n[ingest.line]\nconnections_max = -4\n[store.cassandra]\nreplica = -1\n[engine2]\n";
    let found = problems(text, &[("PLUMBAGO__API__LIMITS__SERIES", "many")]);
    for line in [
        "plumbago.toml:2 engine.shards must be a whole number of 0 or more, not -1",
        "plumbago.toml:3 engine.max_creates_per_minute must be a whole number, like 0, not 1000000.0, or \"none\"",
        "plumbago.toml:5 api.limits.targets must be a whole number, like 1000, not \"ten\"",
        "environment PLUMBAGO__API__LIMITS__SERIES api.limits.series must be a whole number, like 100000, not \"many\"",
        "plumbago.toml:8 ingest.line.connections_max must be a whole number of 0 or more, not -4",
        "plumbago.toml:10 store.cassandra.replica replica is a number from 0 to 3",
    ] {
        assert!(found.iter().any(|text| text.starts_with(line)), "{line}\n{found:#?}");
    }
    assert!(!found.iter().any(|text| text.contains("usize")), "{found:#?}");
    let grouped = load_text("", &[("PLUMBAGO__API__LIMITS__SERIES", "1_000")]).unwrap();
    assert_eq!(grouped.config.api.limits.series, 1000);
}

#[test]
fn missing_files_are_all_named_with_the_lines_that_name_them() {
    let text = "storage_schemas = \"/nowhere/s.conf\"\n[ingest]\nblacklist = \"/nowhere/black\"\nwhitelist = \"/nowhere/white\"\n[ingest.line.tls]\ncert = \"/nowhere/c.pem\"\nkey = \"/nowhere/k.pem\"\n[api.tls]\ncert = \"/nowhere/ac.pem\"\nkey = \"/nowhere/ak.pem\"\n[store]\nkind = \"cassandra\"\n[store.cassandra.tls]\nenabled = true\nca = \"/nowhere/ca.pem\"\n[cluster]\nca = \"/nowhere/peers.pem\"\n";
    let found = problems(text, &[]);
    for (line, key, file) in [
        (1, "storage_schemas", "s.conf"),
        (3, "ingest.blacklist", "black"),
        (4, "ingest.whitelist", "white"),
        (6, "ingest.line.tls.cert", "c.pem"),
        (7, "ingest.line.tls.key", "k.pem"),
        (9, "api.tls.cert", "ac.pem"),
        (10, "api.tls.key", "ak.pem"),
        (15, "store.cassandra.tls.ca", "ca.pem"),
        (17, "cluster.ca", "peers.pem"),
    ] {
        let start = format!("plumbago.toml:{line} {key} ");
        let said = found
            .iter()
            .find(|text| text.starts_with(&start))
            .unwrap_or_else(|| panic!("{start}: {found:#?}"));
        assert!(said.contains(&format!("/nowhere/{file}")) && said.contains("No such file"), "{said}");
    }
    assert_eq!(found.len(), 9, "{found:#?}");
}
