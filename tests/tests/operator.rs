//! Situations of a new operator: wrong settings, a reload, the log of a start, commands on the wrong
//! directory, and the examples of the help texts.

mod examples;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use plumbago_cassandra_node::server;
use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup, binary};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

/// A port of the loopback address on which nothing listens.
const NOBODY: &str = "127.0.0.1:1";

/// Runs the binary in `directory` with only these settings in the environment.
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
    assert!(code == Some(0) && output.contains("PLUMBAGO_PORTS: warning: has no effect"), "{output}");
}

/// The daemon's user cannot write to the data directory. The check names this user, the owner of the
/// directory, and the remedy.
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

/// A reload applies what it can and reports what changed, what needs a restart and what was wrong.
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

/// For a reader who does not know this daemon, the log contains what runs, on which files, and what it found.
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
    // A command on a directory without a running daemon recovers the directory and closes it cleanly, like a
    // daemon.
    run(|daemon| daemon.kill());
    assert!(setup.run(&["list"]).output.contains("a.metric"));
    let fifth = run(stop);
    assert!(fifth.contains("found 2 metrics; last stopped cleanly at 20"), "{fifth}");

    // A start that fails logs the reason in the same form.
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

/// A command on a directory without data creates no data and reports that there are none.
#[test]
fn a_mistyped_directory_stays_away() {
    let directory = tempfile::tempdir().unwrap();
    let cassandra = ("PLUMBAGO__STORE__KIND", "cassandra");
    let typo = ("PLUMBAGO__DATA_DIR", "typo");
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);
    let cases: [Case<'_>; 12] = [
        (&["bench", "disk", "--data-dir", "typo"], &[]),
        (&["clean", "--dry-run"], &[typo]),
        (&["clean", "--dry-run"], &[typo, cassandra]),
        (&["repair", "--dry-run"], &[typo]),
        (&["list"], &[typo]),
        (&["info", "a"], &[typo]),
        (&["read", "a"], &[typo]),
        (&["du"], &[typo]),
        (&["stats"], &[typo]),
        (&["tags"], &[typo]),
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

/// The daemon may be unable to print: the reader of its pipe has ended, or the disk with its file is full.
#[test]
fn a_daemon_does_not_end_when_its_output_cannot_be_written() {
    let mut setup = Setup::new();
    let daemon = setup.start_for_commands();
    let admin = daemon.admin();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    daemon.put(&[Point::new("a.b", now.cast_signed(), 1.0)]);
    daemon.stop_well();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = setup.command(&["serve"]);
    command.stdin(Stdio::null()).stdout(full()).stderr(full());
    let mut running = Guarded::adopt(command.spawn().unwrap(), Path::new("/dev/null"));
    wait_until("the daemon to be ready", || {
        assert!(running.runs(), "it ended");
        http::try_request(admin, "GET", "/readyz", "", "").is_ok_and(|response| response.status == 200)
    });
    running.signal(Signal::SIGTERM);
    assert_eq!(running.wait().code(), Some(0));
    let log = setup.start_for_commands().log();
    assert!(log.contains("last stopped cleanly"), "{log}");
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

/// `schema` first prints what the server has, then what is needed.
#[test]
fn schema_shows_the_server_first() {
    let Some(server) = server::for_tests() else { return };
    let mut setup = Setup::new();
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.keyspace", "operator_schema").set("store.cassandra.components", "4");
    setup.set("store.cassandra.indexes", "none");
    server.drop_keyspaces("operator_schema").unwrap();
    let before = setup.run(&["schema", "--retention", "60s:1d"]).output;
    let has = before.find("Cassandra ").unwrap();
    assert!(
        before.starts_with("Cassandra ") && before[has..].contains("operator_schema: no such keyspace"),
        "{before}"
    );
    assert!(setup.run(&["syncdb", "--retention", "60s:1d"]).status.success());
    let after = setup.run(&["schema", "--retention", "60s:1d"]).output;
    server.clean_up("operator_schema").unwrap();
    let (server_part, needed) = after.split_once("Needed for the storage rules:").unwrap();
    assert!(server_part.contains("operator_schema: SimpleStrategy, replication_factor 1"), "{after}");
    for table in ["datapoints_1440p_60s_0", "metrics_metadata"] {
        assert!(server_part.contains(table) && needed.contains(table), "{after}");
    }
}
