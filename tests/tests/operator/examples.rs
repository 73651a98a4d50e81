//! The examples of the help texts.

use std::path::Path;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use plumbago_cassandra_node::server;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Setup, binary};
use plumbago_tests::wait::wait_until;

use super::{clear, plumbago, said};

/// The commands whose help texts are tested.
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
    &["repair", "store"],
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

/// Every command has examples and an output for programs, and every command that changes something has a dry
/// run.
#[test]
fn every_command_has_what_programs_and_strangers_need() {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for arguments in HELPS {
        let help = [*arguments, &["--help"][..]].concat();
        let (code, help) = plumbago(directory.path(), &help, &[]);
        assert_eq!(code, Some(0), "{arguments:?}");
        // A group of commands has no action of its own, except `repair`.
        let is_group = help.contains("\nCommands:") && *arguments != ["repair"];
        if is_group {
            continue;
        }
        seen += 1;
        assert!(help.contains("\nExamples:"), "{arguments:?} has no examples");
        // The exceptions are a daemon, a command that prints a settings file, and a server that runs until
        // Ctrl-C.
        let is_no_answer = matches!(*arguments, ["serve"] | ["config", "default"] | ["dev", "cassandra"]);
        assert!(is_no_answer || help.contains("--json"), "{arguments:?} has no --json");
        let changes = matches!(
            *arguments,
            ["syncdb" | "clean" | "replay" | "write" | "copy" | "move" | "delete" | "backup" | "restore"]
                | ["repair", ..]
                | ["rules", "apply"]
        ) || arguments
            .first()
            .is_some_and(|name| name.starts_with("import-") || name.starts_with("export-"));
        assert!(!changes || help.contains("--dry-run"), "{arguments:?} has no --dry-run");
        // Commands that run statements, write one point, or let the daemon send rows have no option for a rate.
        let is_paced =
            matches!(*arguments, ["syncdb" | "replay" | "write"]) || *arguments == ["repair", "store"];
        let reads_many = matches!(*arguments, ["list" | "info" | "read" | "du" | "stats"]);
        assert!(
            !(changes || reads_many) || is_paced || help.contains("--rate"),
            "{arguments:?} has no --rate"
        );
    }
    assert!(seen > 35, "{seen} commands");
}

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
    server.clean_up("operator_help").unwrap();
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
        // `--help` at the end prints the help only if everything before it can be parsed.
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
        // `schema` exits with 5 while tables are missing, because it reports them. A new store cannot know
        // which metrics were unread for months.
        let is_true = code == Some(0)
            || has("schema") && code == Some(5)
            || has("--unread") && code == Some(2) && output.contains("for 0 days only");
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
