//! What a new operator meets: wrong settings, a reload, the log of a start, commands on the wrong directory, and the
//! examples of the help texts.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plumbago_cassandra_node::server;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup, binary};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

/// A port of the loopback address on which nothing listens.
const NOBODY: &str = "127.0.0.1:1";

/// Runs the binary in `directory` without any setting of the environment but these.
fn plumbago(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = Command::new(binary());
    clear(&mut command);
    command.args(arguments).envs(variables.iter().copied()).current_dir(directory);
    said(&command.stdin(Stdio::null()).output().unwrap())
}

fn clear(command: &mut Command) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PLUMBAGO")) {
        command.env_remove(name);
    }
}

fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code(), text.concat())
}

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/ingest/testdata/tls").join(name)
}

/// `config check` and a start refuse the same configurations, with the same text and exit code 3, and create no file.
#[test]
fn a_check_sees_what_a_start_sees() {
    let [cert, key, wrong_key] = ["server.pem", "server.key", "client.key"].map(certificate);
    let pair = format!("cert = {cert:?}\nkey = {wrong_key:?}\n");
    let mismatch = "is not the private key of the certificate in";
    let cassandra = "[store]\nkind = \"cassandra\"\n[store.cassandra.tls]\nenabled = true\n";
    let cases = [
        (format!("[api.tls]\n{pair}"), "w.toml:3: error: api.tls.key: ", mismatch),
        (format!("[admin.tls]\n{pair}"), "w.toml:3: error: admin.tls.key: ", mismatch),
        (format!("[ingest.line.tls]\n{pair}"), "w.toml:3: error: ingest.line.tls.key: ", mismatch),
        (
            format!("{cassandra}ca = {cert:?}\n{pair}"),
            "w.toml:7: error: store.cassandra.tls.key: ",
            "private key",
        ),
        (format!("{cassandra}ca = {key:?}\n"), "w.toml:5: error: store.cassandra.tls.ca: ", "no certificate"),
        (format!("[cluster]\nca = {key:?}\n"), "w.toml:2: error: cluster.ca: ", "no certificate"),
        ("[api]\nlisten = \"0.0.0.0:2003\"\n".into(), "w.toml:2: error: api.listen: ", "ingest.line.listen"),
        (
            "data_dir = \"w.toml\"\n".into(),
            "w.toml:1: error: data_dir: ",
            "is a file; set data_dir to a directory",
        ),
        ("data_dir = \"w.toml/x\"\n".into(), "w.toml:1: error: data_dir: ", "w.toml"),
        (
            "[engine]\nmemory_max = \"200MiB\"\n[store.embedded]\ncache_bytes = \"190MiB\"\n".into(),
            "w.toml:2: error: engine.memory_max: ",
            "MiB or more, or lower those",
        ),
        ("[engine]\nshards = -1\n".into(), "w.toml:2: error: engine.shards: ", "0 or more, not -1"),
    ];
    for (text, start, part) in cases {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("w.toml"), &text).unwrap();
        let (checked, output) = plumbago(directory.path(), &["--config", "w.toml", "config", "check"], &[]);
        let has_line = output.lines().any(|line| line.starts_with(start) && line.contains(part));
        assert!(checked == Some(3) && has_line, "{text}\n{start}…{part}\n{checked:?} {output}");
        let (started, log) = plumbago(directory.path(), &["--config", "w.toml"], &[]);
        let has_line = log.lines().any(|line| line.contains(start) && line.contains(part));
        assert!(started == Some(3) && has_line, "{text}\n{started:?} {log}");
        assert_log(&log);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made");
    }
    let directory = tempfile::tempdir().unwrap();
    let (code, output) = plumbago(directory.path(), &["config", "check"], &[("PLUMBAGO_API_LISTEN", NOBODY)]);
    assert!(
        code == Some(3) && output.contains("write PLUMBAGO__API__LISTEN with two underscores"),
        "{output}"
    );
    let (code, output) = plumbago(directory.path(), &["config", "check"], &[("PLUMBAGO_PORTS", "x")]);
    assert!(code == Some(0) && output.contains("PLUMBAGO_PORTS: warning: sets nothing"), "{output}");
}

/// The daemon's user cannot write to the data directory. The check names this user, the owner of the directory, and
/// what to do.
#[test]
fn a_data_directory_of_another_user() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::copy(binary(), at("plumbago")).unwrap();
    std::fs::create_dir_all(at("data/store")).unwrap();
    std::fs::write(at("data/store/table"), "").unwrap();
    let run = |arguments: &[&str], data_dir: &str| {
        let mut command = Command::new(at("plumbago"));
        clear(&mut command);
        if nix::unistd::geteuid().is_root() {
            command.uid(65534).gid(65534);
        }
        command.env("PLUMBAGO__DATA_DIR", at(data_dir)).args(arguments).current_dir(directory.path());
        said(&command.output().unwrap())
    };
    let mode = |name: &str, mode: u32| {
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).unwrap();
    };
    mode("data", 0o555);
    mode("", 0o555);
    let (code, output) = run(&["config", "check"], "data");
    let parts = [
        "environment PLUMBAGO__DATA_DIR: error: data_dir: ",
        "cannot write to",
        "with mode 555",
        "chown -R ",
    ];
    assert!(code == Some(3) && parts.iter().all(|part| output.contains(part)), "{output}");
    let (code, log) = run(&[], "data");
    assert!(code == Some(3) && log.contains("cannot write to"), "{log}");
    let (code, output) = run(&["config", "check"], "new");
    assert!(
        code == Some(3) && output.contains("does not exist, and") && output.contains("install -d"),
        "{output}"
    );
    // The directory is right, but a file inside belongs to another user or is read-only.
    mode("data", 0o777);
    mode("data/store", 0o777);
    mode("data/store/table", 0o444);
    let (code, output) = run(&["config", "check"], "data");
    assert!(code == Some(3) && output.contains("data/store/table"), "{output}");
    mode("", 0o755);
}

fn assert_log(log: &str) {
    for line in log.lines() {
        let mut words = line.split_whitespace();
        let (time, level) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let has_time = time.len() == 27 && time.ends_with('Z') && time.starts_with("20");
        assert!(has_time && ["ERROR", "WARN", "INFO"].contains(&level), "not a log line: {line:?}\n{log}");
        assert!(!line.contains("Error(") && !line.contains("Report {"), "Rust's own output: {line}");
    }
}

fn ready(daemon: &Daemon) -> (u16, String) {
    let answer = http::get(daemon.admin(), "/readyz");
    (answer.status, answer.body)
}

/// A reload applies what it can and says what changed, what needs a restart and what was wrong.
#[test]
fn a_reload_says_what_it_did() {
    let mut setup = Setup::new();
    setup.unset("api.listen");
    let first = "[api]\nlisten = \"127.0.0.1:0\"\n[log]\nlevel = \"info\"\n";
    setup.file("plumbago.toml", first);
    let daemon = setup.start();
    let metric = |name: &str| daemon.counters().sum(name);
    assert_eq!(metric("plumbago_config_last_reload_successful"), 1);
    let since = metric("plumbago_config_last_reload_success_timestamp_seconds");
    assert!(since > 1_700_000_000);
    let reload = |text: &str, expected: &[&str]| {
        let before = daemon.log().len();
        setup.file("plumbago.toml", text);
        daemon.signal(Signal::SIGHUP);
        let new = || daemon.log()[before..].to_owned();
        wait_until("the reload", || new().lines().any(|line| line.contains(": reloaded ")));
        let said = new();
        for part in expected {
            assert!(said.contains(part), "{part}\n{said}");
        }
        said
    };
    let said = reload(first, &["nothing has changed"]);
    assert!(!said.contains("restart") && !said.contains("ERROR"), "{said}");
    let second = "[api]\nlisten = \"127.0.0.1:9\"\n[log]\nlevel = \"debug\"\n";
    reload(
        second,
        &[
            "WARN",
            "api.listen was changed to \"127.0.0.1:9\" and needs a restart; until then \"127.0.0.1:0\" stays in effect",
            "log.level is \"debug\" now; it was \"info\"",
            "1 applied, 1 need a restart",
        ],
    );
    // The message is repeated by each reload until the restart.
    reload(second, &["api.listen was changed", "0 applied, 1 need a restart"]);
    assert_eq!(ready(&daemon).0, 200);

    // A wrong value affects only its own setting. All other changes are applied.
    let wrong =
        "[log]\nlevel = \"info\"\n[ingest]\nblacklist = \"/nowhere/list\"\n[api]\nlisten = \"127.0.0.1:0\"\n";
    reload(wrong, &["plumbago.toml:4: error: ingest.blacklist: /nowhere/list", "log.level is \"info\" now"]);
    let (status, body) = ready(&daemon);
    assert!(status == 200 && body.contains("the last reload (SIGHUP) had an error: "), "{body}");
    assert!(body.contains("/nowhere/list") && body.contains("plumbago config check"), "{body}");
    let failed = |daemon: &Daemon| daemon.counters().with("plumbago_condition", "name=\"reload_failed\"");
    assert_eq!((failed(&daemon), metric("plumbago_config_last_reload_successful")), (1, 0));
    // A file that cannot be parsed changes nothing.
    reload(
        "[log\nlevel = \"debug\"\n",
        &["plumbago.toml:1: error: ", "0 applied, 0 need a restart, 1 error(s)"],
    );
    assert_eq!(failed(&daemon), 1);
    reload(first, &["nothing has changed"]);
    assert_eq!((failed(&daemon), metric("plumbago_config_last_reload_successful")), (0, 1));
    assert!(!ready(&daemon).1.contains("reload"), "{}", ready(&daemon).1);
    assert!(metric("plumbago_config_last_reload_success_timestamp_seconds") >= since);
    assert_log(&daemon.log());
    daemon.stop_well();
}

/// A broken file is reloaded while Cassandra cannot be reached. `/readyz` reports both, and
/// points are accepted. A good file ends the condition of the reload.
#[test]
fn a_broken_reload_while_cassandra_is_away() {
    let mut setup = Setup::new();
    setup.set("store.kind", "cassandra").set("store.cassandra.contact_points", NOBODY);
    setup.file("plumbago.toml", "[log]\nlevel = \"info\"\n");
    let daemon = setup.start();
    let lines = daemon.stdout().clone();
    let waiting = lines.iter().find(|line| line.starts_with("accepting points; not ready yet: "));
    assert!(waiting.is_some_and(|line| line.contains("Cassandra")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line == "ready"), "it is not ready: {lines:#?}");
    setup.file("plumbago.toml", "log = = \n");
    daemon.signal(Signal::SIGHUP);
    let both = |body: &str| body.contains("the last reload (SIGHUP) had an error") && body.contains(NOBODY);
    wait_until("both conditions", || both(&ready(&daemon).1));
    assert_eq!(ready(&daemon).0, 503);
    daemon.put(&[Point::new("taken.meanwhile", 1_700_000_000, 1.0)]);
    setup.file("plumbago.toml", "[log]\nlevel = \"info\"\n");
    daemon.signal(Signal::SIGHUP);
    wait_until("the good reload", || !ready(&daemon).1.contains("reload"));
    assert!(ready(&daemon).1.contains(NOBODY));
    let log = daemon.log();
    assert_log(&log);
    let away = log.lines().filter(|line| line.contains("Connection refused")).count();
    assert!(away <= 3, "each trouble is said once, not at every attempt:\n{log}");
    assert!(!log.contains("The pool is broken"), "{log}");
    daemon.stop();
}

/// The log tells somebody who does not know this daemon what runs, on which files, and what it found.
#[test]
fn the_log_tells_a_stranger() {
    let mut setup = Setup::new();
    setup.file("plumbago.toml", "[log]\nlevel = \"info\"\n");
    let run = |end: fn(Daemon)| {
        let daemon = setup.start();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        daemon.put(&["a.metric", "b.metric"].map(|name| Point::new(name, now, 1.0)));
        daemon.wait_names(2);
        let log = daemon.log();
        end(daemon);
        assert_log(&log);
        log
    };
    let stop: fn(Daemon) = |daemon| assert!(daemon.stop_well().output.contains("stopped cleanly"));
    let first = run(stop);
    let greeting = first.lines().next().unwrap();
    let path = |name: &str| setup.path().join(name).display().to_string();
    for part in [env!("CARGO_PKG_VERSION"), &path("plumbago.toml"), &path("data"), "store: embedded"] {
        assert!(greeting.contains(part), "{part}: {greeting}");
    }
    let empty = first.lines().find(|line| line.contains("this start begins without points"));
    assert!(empty.is_some_and(|line| line.contains(" WARN ")), "{first}");
    let second = run(|daemon| daemon.kill());
    assert!(second.contains("found 2 metrics; last stopped cleanly at 20"), "{second}");
    assert!(!second.contains("WARN"), "{second}");
    let third = run(stop);
    assert!(third.contains("found 2 metrics; the last run was not stopped cleanly: "), "{third}");
    // A verb on a directory at rest recovers it and closes it cleanly, like a daemon.
    run(|daemon| daemon.kill());
    assert!(setup.run(&["list"]).output.contains("a.metric"));
    let fifth = run(stop);
    assert!(fifth.contains("found 2 metrics; last stopped cleanly at 20"), "{fifth}");

    // A start that fails says why in the same form.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    setup.set("api.listen", &taken.local_addr().unwrap().to_string());
    let mut failed = setup.launch();
    wait_until("the end", || !failed.runs());
    let log = failed.log();
    let last = log.lines().last().unwrap();
    assert!(last.contains("ERROR") && last.contains("exit code 1: api.listen: cannot listen on"), "{last}");
    assert_log(&log);
}

/// The commands printed under "ready" work as written, with and without TLS and a prefix.
#[test]
fn the_hints_work_as_printed() {
    if counterpart::on_path("curl").is_none() || counterpart::on_path("openssl").is_none() {
        return;
    }
    for encrypted in [false, true] {
        let mut setup = Setup::new();
        setup.set("ingest.line.listen", "0.0.0.0:0").set("api.listen", "0.0.0.0:0");
        if encrypted {
            setup.set("api.url_prefix", "/graphite");
            for section in ["api", "ingest.line"] {
                setup.set(&format!("{section}.tls.cert"), certificate("server.pem").to_str().unwrap());
                setup.set(&format!("{section}.tls.key"), certificate("server.key").to_str().unwrap());
            }
        }
        let daemon = setup.start();
        let hint = |start: &str| {
            wait_until("the hint", || daemon.stdout().iter().any(|line| line.starts_with(start)));
            let lines = daemon.stdout().clone();
            lines.iter().find_map(|line| line.strip_prefix(start)).unwrap().trim().to_owned()
        };
        let shell = |line: &str| said(&Command::new("bash").args(["-c", line]).output().unwrap());
        let (code, output) = shell(&hint("Send a point:"));
        assert_eq!(code, Some(0), "{output}");
        let look = hint("Look at it:");
        wait_until("the point", || shell(&look).1.contains("[42.0,"));
        daemon.stop_well();
    }
}

/// A command on a directory without data creates none, and says so.
#[test]
fn a_mistyped_directory_stays_away() {
    let directory = tempfile::tempdir().unwrap();
    let cassandra = ("PLUMBAGO__STORE__KIND", "cassandra");
    let typo = ("PLUMBAGO__DATA_DIR", "typo");
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 6] = [
        (&["bench", "disk", "--data-dir", "typo"], &[]),
        (&["clean", "--dry-run"], &[typo]),
        (&["clean", "--dry-run"], &[typo, cassandra]),
        (&["repair", "--dry-run"], &[typo]),
        (&["repair", "windows", "--dry-run"], &[typo, cassandra]),
        (&["replay", "--since", "30m"], &[typo, cassandra]),
    ];
    for (arguments, variables) in cases {
        let (code, output) = plumbago(directory.path(), arguments, variables);
        assert_eq!(code, Some(4), "{arguments:?} {output}");
        let path = directory.path().join("typo").display().to_string();
        assert!(output.contains(&format!("{path} does not exist")), "{arguments:?} {output}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{arguments:?} made something");
    }
    // An empty directory has no data either.
    std::fs::create_dir(directory.path().join("typo")).unwrap();
    let (code, output) = plumbago(directory.path(), &["clean", "--dry-run"], &[typo]);
    assert!(code == Some(4) && output.contains("has no directory store"), "{output}");
    assert_eq!(std::fs::read_dir(directory.path().join("typo")).unwrap().count(), 0);

    for arguments in [&["replay", "--since", "5"][..], &["repair", "windows", "--from", "5"]] {
        let (code, output) = plumbago(directory.path(), arguments, &[cassandra]);
        assert!(code == Some(2) && output.contains("like 5m"), "{output}");
    }
}

/// Commands that need Cassandra report that it cannot be reached, instead of waiting for it.
#[test]
fn an_absent_cassandra_is_said() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("data")).unwrap();
    let variables =
        [("PLUMBAGO__STORE__KIND", "cassandra"), ("PLUMBAGO__STORE__CASSANDRA__CONTACT_POINTS", NOBODY)];
    for arguments in
        [&["schema"][..], &["syncdb", "--dry-run"], &["clean", "--dry-run"], &["repair", "--dry-run"]]
    {
        let (code, output) = plumbago(directory.path(), arguments, &variables);
        assert_eq!(code, Some(4), "{arguments:?} {output}");
        let parts = [NOBODY, "is Cassandra running there?", "store.cassandra.contact_points"];
        assert!(parts.iter().all(|part| output.contains(part)), "{arguments:?} {output}");
        assert_eq!(std::fs::read_dir(directory.path().join("data")).unwrap().count(), 0, "{arguments:?}");
    }
}

/// `schema` first says what the server has, then what is needed.
#[test]
fn schema_shows_the_server_first() {
    let Some(server) = server::for_tests() else { return };
    let mut setup = Setup::new();
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.keyspace", "operator_schema").set("store.cassandra.components", "4");
    setup.set("store.cassandra.indexes", "none");
    let drop = || {
        let mut cql = server.connect().unwrap();
        for name in ["operator_schema", "operator_schema_metadata"] {
            cql.query(&format!("DROP KEYSPACE IF EXISTS {name}")).unwrap();
        }
    };
    drop();
    let before = setup.run(&["schema", "--retention", "60s:1d"]).output;
    let has = before.find("Cassandra ").unwrap();
    assert!(
        before.starts_with("Cassandra ") && before[has..].contains("operator_schema: no such keyspace"),
        "{before}"
    );
    assert!(setup.run(&["syncdb", "--retention", "60s:1d"]).status.success());
    let after = setup.run(&["schema", "--retention", "60s:1d"]).output;
    drop();
    let (server_part, needed) = after.split_once("Needed for the storage rules:").unwrap();
    assert!(server_part.contains("operator_schema: SimpleStrategy, replication_factor 1"), "{after}");
    for table in ["datapoints_1440p_60s_0", "metrics_metadata"] {
        assert!(server_part.contains(table) && needed.contains(table), "{after}");
    }
}

/// The commands whose help is checked.
const HELPS: &[&[&str]] = &[
    &[],
    &["serve"],
    &["config"],
    &["config", "check"],
    &["config", "show"],
    &["config", "default"],
    &["config", "import"],
    &["syncdb"],
    &["schema"],
    &["clean"],
    &["repair"],
    &["repair", "windows"],
    &["replay"],
    &["list"],
    &["info"],
    &["read"],
    &["write"],
    &["du"],
    &["stats"],
    &["tags"],
    &["rules"],
    &["rules", "explain"],
    &["rules", "apply"],
    &["backup"],
    &["restore"],
    &["copy"],
    &["move"],
    &["delete"],
    &["diff"],
    &["replay-traffic"],
    &["test"],
    &["import-whisper"],
    &["import-kairosdb"],
    &["import-graphite"],
    &["import-store"],
    &["import-names"],
    &["import-events"],
    &["export-whisper"],
    &["bench"],
    &["bench", "load"],
    &["bench", "find"],
    &["bench", "render"],
    &["bench", "disk"],
    &["bench", "seeds"],
    &["dev"],
    &["dev", "cassandra"],
];

/// The examples of a help text: the lines that begin with a command, without their explanation.
fn examples(help: &str) -> Vec<String> {
    let of = |line: &str| {
        let line = line.strip_prefix("  ")?;
        let is_command =
            line.starts_with("plumbago ") || line == "plumbago" || line.starts_with("PLUMBAGO__");
        let command = line.split("   ").next().unwrap_or(line).trim();
        is_command.then(|| command.to_owned())
    };
    help.lines().skip_while(|line| *line != "Examples:").filter_map(of).collect()
}

/// The examples of every help text work as written. Those that start a daemon run until it is ready; those that would
/// download or measure for long are only parsed.
#[test]
fn the_examples_of_the_help_work() {
    let Some(server) = server::for_tests() else { return };
    let mut setup = Setup::new();
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.keyspace", "operator_help").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.components", "4");
    setup.unset("api.listen").unset("data_dir");
    let bin = setup.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(binary(), bin.join("plumbago")).unwrap();
    setup.file(
        "plumbago.toml",
        "storage_schemas = \"storage-schemas.conf\"\n[api]\nlisten = \"127.0.0.1:0\"\n",
    );
    setup.file("storage-schemas.conf", "[all]\npattern = .*\nretentions = 60s:1d,1h:30d\n");
    setup.file("obsolete.txt", "old.metric\n");
    std::fs::create_dir(setup.path().join("conf")).unwrap();
    setup.file("conf/carbon.conf", "[cache]\nLINE_RECEIVER_PORT = 2003\n");
    setup.file("conf/go-carbon.conf", "[tcp]\nlisten = \":2003\"\n");
    setup.file("conf/local_settings.py", "TIME_ZONE = 'Europe/Paris'\n");
    for tree in ["whisper", "whisper-a", "whisper-b"] {
        let path = setup.path().join(tree).join("servers/a");
        std::fs::create_dir_all(&path).unwrap();
        let Some(mut create) = counterpart::python_script("whisper-create.py") else { return };
        let made = create.arg(path.join("load.wsp")).arg("60s:1d").output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    let row = r#"{"name":"cpu","tags":{"host":"a"},"datapoints":[[1700000000000,1,"long"]]}"#;
    for file in ["export.txt", "export.txt.gz"] {
        setup.file(file, row);
    }
    setup.file("names.txt", "apps.shop.orders 60s:1d average 0.5\n");
    setup.file("namespaces.conf", "[web]\npattern = web\\.\n");
    setup.file("scan.txt", "sys.cpu 1700000000 1 host=a\n");
    let shell = |line: &str, kind: &str| {
        let mut command = Command::new("bash");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        clear(&mut command);
        command.envs(setup.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", path).env("PLUMBAGO__STORE__KIND", kind).current_dir(setup.path());
        let paths = [
            ("/etc/plumbago.toml", "plumbago.toml"),
            ("/etc/plumbago/old.toml", "old.toml"),
            ("0.0.0.0:8080", "0.0.0.0:0"),
            ("/opt/graphite/storage/whisper", "whisper"),
            ("/srv/", ""),
            ("/mnt/", ""),
            ("/var/lib/", ""),
            ("/tmp/whisper", "exported"),
            ("/opt/graphite/conf", "conf"),
            ("/etc/carbon", "conf"),
            ("/etc/graphite", "conf"),
            ("/etc/go-carbon", "conf"),
        ];
        let line = paths.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
        command.args(["-c", &line]);
        command
    };
    // An operator creates the tables before the daemons start.
    let (code, output) = said(&shell("plumbago syncdb", "cassandra").output().unwrap());
    assert_eq!(code, Some(0), "{output}");
    // A data directory with a spool for the commands on Cassandra, and with a store for the others.
    std::fs::create_dir(setup.path().join("data")).unwrap();
    let (code, output) = said(&shell("plumbago clean --dry-run", "cassandra").output().unwrap());
    assert_eq!(code, Some(0), "{output}");
    starts("the first start", shell("exec plumbago", "embedded"));
    for name in ["servers.a.cpu.user", "servers.a.load"] {
        let write = format!("plumbago write {name} 1");
        let (code, output) = said(&shell(&write, "embedded").output().unwrap());
        assert_eq!(code, Some(0), "{output}");
    }
    // Another store, for the command that reads one.
    setup.file("old.toml", "data_dir = \"old-data\"\n[api]\nlisten = \"127.0.0.1:0\"\n");
    starts("the other store", shell("exec plumbago --config old.toml", "embedded"));
    let write = "plumbago --config old.toml write web.a.load 1";
    let (code, output) = said(&shell(write, "embedded").output().unwrap());
    assert_eq!(code, Some(0), "{output}");
    let mut seen = Vec::new();
    for arguments in HELPS {
        let mut help = setup.command(arguments);
        let help = help.arg("--help").output().unwrap();
        assert!(help.status.success(), "{arguments:?}");
        for line in examples(&String::from_utf8_lossy(&help.stdout)) {
            if seen.contains(&line) {
                continue;
            }
            run_example(&line, &shell);
            seen.push(line);
        }
    }
    assert!(seen.len() >= 20, "{seen:#?}");
    for part in [
        "syncdb",
        "schema",
        "clean",
        "repair",
        "replay",
        "info",
        "delete",
        "bench find",
        "bench disk",
        "config check",
    ] {
        assert!(seen.iter().any(|line| line.contains(part)), "no example has {part}: {seen:#?}");
    }
    let mut cql = server.connect().unwrap();
    for name in ["operator_help", "operator_help_metadata"] {
        cql.query(&format!("DROP KEYSPACE IF EXISTS {name}")).unwrap();
    }
}

fn run_example(line: &str, shell: &dyn Fn(&str, &str) -> Command) {
    let has = |part: &str| line.contains(part);
    let of_servers = [
        "bench find",
        "bench render",
        "bench load --addr",
        "plumbago diff",
        "plumbago replay-traffic",
        "stats --carbon",
        "plumbago test",
        ".toml test",
        "--tagged-names http",
        "--keyspace kairosdb",
        "graphite.example",
    ];
    let needs_server = of_servers.iter().any(|part| has(part));
    let is_long = has("dev cassandra") || (has("bench load") && !has("--spawn")) || needs_server;
    let is_daemon =
        line == "plumbago" || line.ends_with(" plumbago") || has("--config") || line == "plumbago serve";
    if is_long {
        // `--help` at the end is answered only if everything before it can be parsed.
        let (code, output) = said(&shell(&format!("{line} --help"), "embedded").output().unwrap());
        assert!(code == Some(0) && output.contains("Usage:"), "{line}: {output}");
    } else if is_daemon {
        starts(line, shell(&format!("exec {}", line.replace("PLUMBAGO__", "env PLUMBAGO__")), "embedded"));
    } else {
        let line = line.replace("--metrics 1000000", "--metrics 1000");
        let on_cassandra =
            ["syncdb", "schema", "replay", "repair windows"].iter().any(|part| line.contains(part));
        let kind = if on_cassandra { "cassandra" } else { "embedded" };
        let (code, output) = said(&shell(&line, kind).output().unwrap());
        // `schema` ends with 5 while tables are missing, because it reports them. A new store cannot know which metrics were
        // unread for months.
        let is_true = code == Some(0)
            || has("schema") && code == Some(5)
            || has("--unread") && code == Some(2) && output.contains("are read for 0 days only");
        assert!(is_true, "{line}: {code:?} {output}");
    }
}

/// Starts a daemon, waits until it is ready and stops it.
fn starts(line: &str, mut command: Command) {
    let directory = tempfile::tempdir().unwrap();
    let (out, log) = (directory.path().join("out"), directory.path().join("log"));
    command.stdout(std::fs::File::create(&out).unwrap()).stderr(std::fs::File::create(&log).unwrap());
    let mut child = command.spawn().unwrap();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    wait_until("the example to be ready", || {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "{line}: {ended:?} {}", read(&log));
        read(&out).lines().any(|line| line == "ready")
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success(), "{line}: {}", read(&log));
}
