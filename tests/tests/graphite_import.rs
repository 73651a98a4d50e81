//! Imports from other Graphite servers: the history, the names and the events of the real graphite-web on whisper
//! files, and of a Plumbago.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use plumbago_cassandra_node::server;
use plumbago_tests::biggraphite::{BigGraphite, ONE};
use plumbago_tests::child::Guarded;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::graphite_web::GraphiteWeb;
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use plumbago_tests::whisper_files::{Slot, WhisperFiles};
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_123;
const HOUR: i64 = 3600;
const DAY: i64 = 86_400;
/// The import does not request this many seconds at the oldest end of each stage.
const MARGIN: i64 = 60;

/// Runs an import and returns its report.
fn import(setup: &Setup, command: &str, arguments: &[&str]) -> Value {
    let ended = setup.run(&[&[command, "--json"], arguments].concat());
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{}", ended.output))).unwrap()
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// The series that a daemon shows for a glob, by name.
fn shown(daemon: &Daemon, glob: &str, seconds: i64) -> BTreeMap<String, Vec<Slot>> {
    let series = daemon.render(glob, NOW - seconds, NOW, NOW);
    series.into_iter().map(|series| (series.name, series.slots)).collect()
}

/// The rules that have the retentions of the files of [`WhisperFiles::make`].
fn rules_of(retentions: &[Vec<(i64, i64)>]) -> String {
    let section = |(kind, archives): (usize, &Vec<(i64, i64)>)| {
        let stages: Vec<String> =
            archives.iter().map(|(step, slots)| format!("{step}s:{}s", step * slots)).collect();
        format!("[k{kind}]\npattern = ^gen\\.k{kind}\\.\nretentions = {}\n", stages.join(","))
    };
    retentions.iter().enumerate().map(section).collect()
}

/// graphite-web on files of all kinds, and a setup with rules of their retentions.
fn whisper_source(setup: &mut Setup, count: usize) -> Option<(GraphiteWeb, WhisperSource)> {
    let storage = setup.path().join("graphite");
    std::fs::create_dir_all(&storage).unwrap();
    let mut whisper = WhisperFiles::start(setup.path())?;
    let root = storage.join("whisper");
    let retentions = whisper.make(&root, count, 7, NOW);
    setup.clock(NOW).schemas(&rules_of(&retentions));
    let web = GraphiteWeb::start(&storage)?;
    Some((web, WhisperSource { whisper, root, retentions }))
}

struct WhisperSource {
    whisper: WhisperFiles,
    root: PathBuf,
    retentions: Vec<Vec<(i64, i64)>>,
}

impl WhisperSource {
    /// Compares each stage of a daemon with the archive as whisper-fetch shows it, bit for bit. Returns the
    /// number of slots.
    fn compare(&mut self, daemon: &Daemon, names: &[String]) -> usize {
        let paths: Vec<PathBuf> =
            names.iter().map(|name| self.root.join(name.replace('.', "/") + ".wsp")).collect();
        let theirs = self.whisper.fetch(&paths, NOW);
        let mut compared = 0;
        for (kind, archives) in self.retentions.iter().enumerate() {
            for (index, (step, slots)) in archives.iter().enumerate() {
                let retention = step * slots;
                let ours = shown(daemon, &format!("gen.k{kind}.*"), retention);
                let of_kind = names.iter().zip(&theirs);
                for (name, archives) in of_kind.filter(|(name, _)| name.starts_with(&format!("gen.k{kind}.")))
                {
                    let theirs = &archives[index].1;
                    let Some(ours) = ours.get(name) else {
                        assert!(
                            archives.iter().all(|(_, slots)| slots.iter().all(|(_, v)| v.is_none())),
                            "{name}"
                        );
                        continue;
                    };
                    assert_eq!(ours.len(), theirs.len(), "{name} {step}");
                    // The answer lacks the newest windows. They are computed from raw points, and the
                    // xFilesFactor of the rules decides whether they are shown, because an answer does not
                    // contain the xFilesFactor of the file.
                    let last_known =
                        theirs.iter().rev().find(|(_, value)| value.is_some()).map(|(at, _)| *at);
                    for (ours, theirs) in ours.iter().zip(theirs) {
                        let is_folded = index > 0 && last_known.is_none_or(|last| theirs.0 > last);
                        let is_open = index > 0 && theirs.0 == NOW / step * step;
                        let is_old = ours.0 <= NOW - retention + MARGIN + step;
                        let is_same =
                            ours.0 == theirs.0 && ours.1.map(f64::to_bits) == theirs.1.map(f64::to_bits);
                        assert!(
                            is_same || is_open || is_old || is_folded,
                            "{name} {step}: {ours:?}, whisper {theirs:?}"
                        );
                    }
                    compared += theirs.len();
                }
            }
        }
        compared
    }
}

#[test]
fn graphite_webs_stages_are_ours() {
    let mut setup = Setup::new();
    let Some((web, mut source)) = whisper_source(&mut setup, 60) else { return };
    let dry = import(&setup, "import-graphite", &["--dry-run", &url(web.address())]);
    let report = import(&setup, "import-graphite", &[&url(web.address())]);
    println!("{report}");
    assert_eq!((&report["metrics"], &report["skipped"]), (&json!(60), &json!({})), "{report}");
    assert_eq!(report["other_steps"], json!({}), "{report}");
    assert_eq!((&dry["dry_run"], &dry["created"]), (&json!(true), &report["created"]), "{dry}");
    let daemon = setup.start_for_commands();
    let names = daemon.names();
    assert_eq!(json!(names.len()), report["created"]);
    let compared = source.compare(&daemon, &names);
    println!("{compared} slots compared");
    assert!(compared > 10_000, "{compared}");

    // A second import, by the daemon, changes nothing.
    let again = import(&setup, "import-graphite", &["--query", "gen.k0.*", &url(web.address()), "gen.k1.*"]);
    assert_eq!((&again["created"], &again["skipped"]), (&json!(0), &json!({})), "{again}");
    assert!(again["metrics"].as_u64().unwrap() < 60, "{again}");
    source.compare(&daemon, &names);
    daemon.stop_well();
}

/// The rules of the destination differ from the archives of the source. Archives that fit are imported, finer
/// ones are aggregated first, and all others are reported.
#[test]
fn other_steps_are_folded_or_named() {
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 60s:6h,1h:30d\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    let storage = setup.path().join("graphite");
    std::fs::create_dir_all(&storage).unwrap();
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let Some(web) = GraphiteWeb::start(&storage) else { return };
    let points: Vec<(i64, f64)> = (1..2000).map(|i| ((NOW / 300 - i) * 300, 1.0)).collect();
    // An archive with a step of five minutes for a week.
    whisper.write(&storage.join("whisper/coarse/a.wsp"), &[(300, 2016)], "sum", NOW, &points);
    let url = url(web.address());
    let report = import(&setup, "import-graphite", &["--dry-run", &url]);
    assert_eq!(report["skipped"], json!({"no_stage": 1}), "{report}");
    let report = import(&setup, "import-graphite", &["--retentions", "300s:7d", &url]);
    assert_eq!((&report["created"], &report["skipped"]), (&json!(1), &json!({})), "{report}");
    assert!(report["other_steps"].to_string().contains("folded into the stage of 3600s"), "{report}");
    let daemon = setup.start();
    let hours = shown(&daemon, "coarse.a", 5 * DAY)["coarse.a"].clone();
    let known: Vec<f64> = hours.iter().filter_map(|(_, value)| *value).collect();
    assert!(known.len() > 100 && known[..known.len() - 1].iter().all(|value| *value == 12.0), "{hours:?}");
    daemon.stop_well();
}

/// A setup that keeps minutes for a day and hours for a month.
fn by_minutes() -> Setup {
    folded_by("average")
}

/// As [`by_minutes`], with this method.
pub(crate) fn folded_by(method: &str) -> Setup {
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 60s:1d,1h:30d\n");
    setup.aggregation(&format!("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = {method}\n"));
    setup
}

/// A Plumbago with points in both stages. Its clock stands still.
fn plumbago_source(names: &[String]) -> (Setup, Daemon) {
    source_folded_by("average", names)
}

/// As [`plumbago_source`], with this method.
pub(crate) fn source_folded_by(method: &str, names: &[String]) -> (Setup, Daemon) {
    let setup = folded_by(method);
    let daemon = setup.start();
    for name in names {
        let old = (1..200).map(|i| NOW / HOUR * HOUR - 2 * DAY - i * HOUR);
        let times = old.rev().chain((1..1200).rev().map(|i| (NOW / 60 - i) * 60));
        let points: Vec<Point> =
            times.map(|time| Point::new(name, time, (time % 9973) as f64 / 7.0)).collect();
        daemon.put(&points);
    }
    daemon.wait_names(names.iter().filter(|name| !name.contains(';')).count());
    daemon.flush();
    (setup, daemon)
}

/// Checks that both stages equal those of the source. Sums reveal points that are missing or were counted
/// twice.
pub(crate) fn assert_stages_equal(daemon: &Daemon, source: &Daemon, count: usize) {
    for seconds in [DAY - HOUR, 29 * DAY] {
        let (ours, theirs) =
            (shown(daemon, "servers.*.load", seconds), shown(source, "servers.*.load", seconds));
        assert_eq!(theirs.len(), count);
        assert_eq!(ours, theirs, "{seconds}");
        assert!(theirs.values().all(|slots| slots.iter().filter(|(_, value)| value.is_some()).count() > 100));
    }
}

#[test]
fn a_plumbago_gives_exactly_what_it_has() {
    let names: Vec<String> = (0..30).map(|i| format!("servers.a{i}.load")).collect();
    let (_kept, source) = plumbago_source(&names);
    let mut setup = by_minutes();
    let daemon = setup.start_for_commands();
    let report = import(&setup, "import-graphite", &[&url(source.api()), "servers.**"]);
    println!("{report}");
    assert_eq!((&report["created"], &report["skipped"]), (&json!(30), &json!({})), "{report}");
    daemon.wait_names(30);
    assert_stages_equal(&daemon, &source, 30);
    // A point that the destination already has stays, unless `--overwrite` is given.
    let name = names[0].as_str();
    let time = NOW / 60 * 60 - 600;
    source.put(&[Point::new(name, time, 77.0)]);
    let at = |daemon: &Daemon| shown(daemon, name, HOUR)[name].iter().find(|slot| slot.0 == time).unwrap().1;
    import(&setup, "import-graphite", &[&url(source.api()), name]);
    assert_ne!(at(&daemon), Some(77.0));
    import(&setup, "import-graphite", &["--overwrite", &url(source.api()), name]);
    assert_eq!(at(&daemon), Some(77.0));
    daemon.stop_well();
    source.stop_well();
}

#[test]
fn tagged_series_are_imported_when_asked_for() {
    let names = ["disk.used;dc=a;host=b", "disk.used;dc=c;host=d", "plain.name"].map(str::to_owned);
    let (_kept, source) = plumbago_source(&names);
    let setup = by_minutes();
    let report = import(
        &setup,
        "import-graphite",
        &["--tags", "name=disk.used", "--tags", "dc=a", &url(source.api())],
    );
    assert_eq!((&report["metrics"], &report["created"]), (&json!(1), &json!(1)), "{report}");
    let list = setup.run_well(&["list", "--tag", "name=disk.used"]);
    assert!(list.contains("disk.used;dc=a;host=b"), "{list}");
    source.stop_well();
}

/// An import that was killed continues with the remaining metrics, and all have their points exactly once.
#[test]
fn a_killed_import_goes_on() {
    let mut setup = Setup::new();
    let Some((web, mut source)) = whisper_source(&mut setup, 200) else { return };
    let list = setup.data().join("maintenance/import-graphite.list");
    let url = url(web.address());
    let mut command = setup.command(&["import-graphite", "--workers", "1", "--rate", "20", &url]);
    let mut importing = command.stdout(Stdio::null()).spawn().unwrap();
    wait_until("the first metrics to be stored", || {
        std::fs::read_to_string(&list).is_ok_and(|text| text.lines().count() > 2)
    });
    importing.kill().unwrap();
    importing.wait().unwrap();
    let report = import(&setup, "import-graphite", &[&url]);
    println!("{report}");
    assert_eq!((&report["metrics"], &report["skipped"]), (&json!(200), &json!({})), "{report}");
    let before = report["stored_before"].as_u64().unwrap();
    assert!(before > 0 && before < 200, "{report}");
    assert!(!list.exists());
    let daemon = setup.start();
    let names = daemon.names();
    source.compare(&daemon, &names);
    daemon.stop_well();
}

/// A daemon does the import. The command is killed, then the daemon, then both again. A job continues without its
/// command, and the same command continues after the daemon's end.
#[test]
fn killed_commands_and_daemons_lose_nothing() {
    let names: Vec<String> = (0..200).map(|i| format!("servers.a{i}.load")).collect();
    let (_kept, source) = source_folded_by("sum", &names);
    let mut setup = folded_by("sum");
    let list = setup.data().join("maintenance/import-graphite.list");
    let listed = || std::fs::read_to_string(&list).map_or(0, |text| text.matches(".load").count());
    let url = url(source.api());
    let arguments = ["import-graphite", "--json", "--workers", "1", "--rate", "1", &url, "servers.**"];
    for round in 0..2 {
        let daemon = setup.start_for_commands();
        let before = listed();
        let mut command = Guarded::start(setup.command(&arguments), &setup.path().join("killed.log"));
        wait_until("metrics to be stored", || {
            assert!(command.runs(), "round {round}: {}", command.output());
            listed() > before
        });
        command.signal(Signal::SIGKILL);
        command.wait();
        // The job is still running, so the same command has to wait for its end.
        let second = setup.run(&arguments);
        assert_eq!(second.status.code(), Some(4), "{}", second.output);
        assert!(second.output.contains("import-graphite is running already"), "{}", second.output);
        let before = listed();
        wait_until("the job to store more metrics", || listed() > before);
        daemon.kill();
    }
    let daemon = setup.start_for_commands();
    let report = import(&setup, "import-graphite", &["--workers", "1", &url, "servers.**"]);
    assert_eq!((&report["metrics"], &report["skipped"]), (&json!(200), &json!({})), "{report}");
    let stored_before = report["stored_before"].as_u64().unwrap();
    assert!((60..200).contains(&stored_before), "{report}");
    assert!(!list.exists());
    daemon.wait_names(200);
    assert_stages_equal(&daemon, &source, 200);
    // Points that were stored twice, because the command was killed after storing them but before recording
    // this, are counted once. Points of other runs are not counted.
    let again = import(&setup, "import-graphite", &[&url, "servers.**"]);
    assert_eq!((&again["created"], &again["stored_before"]), (&json!(0), &json!(0)), "{again}");
    assert_stages_equal(&daemon, &source, 200);
    daemon.stop_well();
    source.stop_well();
}

#[test]
fn servers_that_cannot_be_asked_are_said() {
    let setup = Setup::new();
    for (arguments, part) in [
        (&["graphite.example"][..], "is not an address"),
        (&["http://a:b"], "is not a port"),
        (&["--user", "me", "http://127.0.0.1:1"], "no password"),
        (&["--retentions", "60", "http://127.0.0.1:1"], "--retentions"),
        (&["--from", "1700000000", "--until", "1600000000", "http://127.0.0.1:1"], "--from"),
    ] {
        let ended = setup.run(&[&["import-graphite"], arguments].concat());
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {}", ended.output);
        assert!(ended.output.contains(part), "{arguments:?}: {}", ended.output);
    }
}

#[test]
fn names_of_a_list_become_metrics() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 10s:1h\n");
    let list = setup.file(
        "names.txt",
        "# name retention method factor\na.b 60s:1d,1h:30d sum 0.25\na.c\t1440*60s:720*3600s\tmaximum\na.d\n\n\
         a.b 60s:1d,1h:30d sum 0.25\nbad 60s\n",
    );
    let list = list.to_str().unwrap();
    let dry = import(&setup, "import-names", &["--dry-run", list]);
    assert_eq!((&dry["created"], &dry["dry_run"]), (&json!(3), &json!(true)), "{dry}");
    assert!(!setup.data().join("journal").exists(), "a dry run creates no data directory");
    let report = import(&setup, "import-names", &[list]);
    assert_eq!(
        (&report["names"], &report["created"], &report["known"]),
        (&json!(4), &json!(3), &json!(1)),
        "{report}"
    );
    assert_eq!(report["skipped"], json!({"unreadable_line": 1}), "{report}");
    let daemon = setup.start_for_commands();
    daemon.wait_names(3);
    let info = setup.run_well(&["info", "a.c"]);
    assert!(info.contains("max") && (info.contains("30d") || info.contains("2592000s")), "{info}");
    let others = setup.file("others.txt", "a.b 60s:1d,1h:30d sum 0.25\na.c 60s:2d max\na.e\na.e 60s:1d\n");
    let report = import(&setup, "import-names", &["--rate", "1000", others.to_str().unwrap()]);
    let counts = ["created", "known", "other_settings"].map(|key| report[key].clone());
    assert_eq!(counts, [json!(1), json!(3), json!(2)], "{report}");
    let examples = report["examples"]["other_settings"].to_string();
    assert!(examples.contains("a.c: it has") && examples.contains("a.e: an earlier line"), "{report}");
    let nowhere = setup.path().join("missing/list");
    let ended = setup.run(&["import-names", list, "--skipped", nowhere.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.output);
    daemon.wait_names(4);
    // A metric that was created from a list accepts points like any other.
    daemon.put(&[Point::new("a.e", seconds_now(), 5.0)]);
    daemon.stop_well();
}

fn seconds_now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs() as i64
}

/// BigGraphite reads the metrics that were created from a list in its tables.
#[test]
fn biggraphite_knows_the_metrics_of_a_list() {
    const KEYSPACE: &str = "names_import";
    let Some(server) = server::for_tests() else { return };
    let Some(mut biggraphite) = BigGraphite::start(server.socket(), KEYSPACE, 4) else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1d,1h:30d\n");
    setup.on_cassandra(&server.contact_point(), KEYSPACE);
    let list =
        setup.file("names.txt", "a.b 1440*60s:720*3600s total 0.5\na.c 60s:1d,1h:30d last\nd 7s:70s\n");
    let report = import(&setup, "import-names", &[list.to_str().unwrap()]);
    assert_eq!((&report["created"], &report["skipped"]), (&json!(2), &json!({"tables": 1})), "{report}");
    biggraphite.open(ONE, 0, None);
    let known = biggraphite.get(ONE, &["a.b", "a.c"]);
    for (known, method) in known.iter().zip(["total", "last"]) {
        let known = known.as_ref().unwrap();
        assert_eq!((known.retention.as_str(), known.aggregator.as_str()), ("1440*60s:720*3600s", method));
    }
    drop(biggraphite);
    server.clean_up(KEYSPACE).unwrap();
}

fn events(address: SocketAddr) -> Value {
    let answer = http::get(address, "/events/get_data?from=0&until=4102444800");
    let mut events: Value = serde_json::from_str(&answer.body).unwrap();
    for event in events.as_array_mut().unwrap() {
        event.as_object_mut().unwrap().remove("id");
    }
    events
}

#[test]
fn events_are_added_once() {
    let mut setup = Setup::new();
    let storage = setup.path().join("graphite");
    std::fs::create_dir_all(&storage).unwrap();
    let Some(web) = GraphiteWeb::start(&storage) else { return };
    let post = |address: SocketAddr, body: &Value| {
        assert_eq!(http::request(address, "POST", "/events/", "", &body.to_string()).status, 200);
    };
    let both = json!({"what": "both", "tags": ["web"], "when": NOW - 50, "data": "v1"});
    for body in [
        json!({"what": "restart", "tags": "web db", "when": NOW - 30}),
        json!({"what": "deploy", "tags": ["prod"], "when": NOW - 60, "data": "a\nb \"\u{e9}\""}),
        both.clone(),
    ] {
        post(web.address(), &body);
    }
    let daemon = setup.start_for_commands();
    post(daemon.api(), &both);
    let url = url(web.address());
    let dry = import(&setup, "import-events", &["--dry-run", &url]);
    assert_eq!((&dry["added"], &dry["known"]), (&json!(2), &json!(1)), "{dry}");
    for added in [2, 0] {
        let report = import(&setup, "import-events", &[&url]);
        assert_eq!((&report["events"], &report["added"]), (&json!(3), &json!(added)), "{report}");
    }
    assert_eq!(events(daemon.api()), events(web.address()));
    // Events of a Plumbago, imported into a data directory at rest.
    let other = Setup::new();
    for added in [3, 0] {
        let began = Instant::now();
        let url = format!("http://{}", daemon.api());
        let report = import(&other, "import-events", &["--rate", "2", &url]);
        assert_eq!((&report["events"], &report["added"]), (&json!(3), &json!(added)), "{report}");
        assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    }
    let ours = other.start();
    assert_eq!(events(ours.api()), events(daemon.api()));
    ours.stop_well();
    daemon.stop_well();
}
