//! Imports whisper files that Python's whisper made, and exports them again. `/render` and the exported files
//! must show the same as whisper-fetch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plumbago_cassandra_node::server;
use plumbago_tests::daemon::{Daemon, Ended, Setup};
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use plumbago_tests::whisper_files::{Slot, WhisperFiles};
use serde_json::{Value, json};

pub(crate) const NOW: i64 = 1_700_000_123;

/// The step and the slots of each archive of a file.
pub(crate) type Archives = Vec<(i64, Vec<Slot>)>;

/// All whisper files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "wsp") {
            found.push(path);
        }
    }
    found.sort();
    found
}

pub(crate) fn name_of(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().with_extension("").to_str().unwrap().replace('/', ".")
}

/// Compares slots bit for bit. `excused` returns whether a slot may differ.
fn compare(what: &str, ours: &[Slot], theirs: &[Slot], excused: impl Fn(&Slot, &Slot) -> bool) {
    let is_same = |a: &Slot, b: &Slot| a.0 == b.0 && a.1.map(f64::to_bits) == b.1.map(f64::to_bits);
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let wrong: Vec<(&Slot, &Slot)> =
        ours.iter().zip(theirs).filter(|(a, b)| !is_same(a, b) && !excused(a, b)).collect();
    assert!(
        wrong.is_empty(),
        "{what}: {} slots differ; ours, whisper's: {:?}",
        wrong.len(),
        &wrong[..wrong.len().min(5)]
    );
}

/// The series that the daemon shows for a glob, by name.
pub(crate) fn rendered(daemon: &Daemon, glob: &str, retention: i64, now: i64) -> BTreeMap<String, Vec<Slot>> {
    let series = daemon.render(glob, now - retention, now, now);
    series.into_iter().map(|series| (series.name, series.slots)).collect()
}

pub(crate) fn import(setup: &Setup, arguments: &[&str]) -> Value {
    let ended = setup.run(&[&["import-whisper", "--json"], arguments].concat());
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("{}", ended.output))).unwrap()
}

fn assert_succeeds(ended: &Ended) {
    assert!(ended.status.success(), "{:?}\n{}", ended.status, ended.output);
}

/// Whether a slot is the window that is open at `NOW`. Our value is computed from all known slots. Whisper's
/// value lacks slots of the finer archive that had too few known slots themselves; also, the float in a
/// file's header is slightly above 0.3.
fn is_open_window(step: i64, index: usize) -> impl Fn(&Slot, &Slot) -> bool {
    move |_, theirs| theirs.0 == NOW / step * step && (index > 1 || index > 0 && theirs.1.is_none())
}

/// Compares `/render` with the output of whisper-fetch for files of [`WhisperFiles::make`]. Returns the
/// number of slots.
pub(crate) fn compare_rendered(
    daemon: &Daemon,
    root: &Path,
    retentions: &[Vec<(i64, i64)>],
    paths: &[PathBuf],
    theirs: &[Archives],
) -> usize {
    let mut ours: Vec<BTreeMap<String, Vec<Slot>>> = Vec::new();
    for (kind, archives) in retentions.iter().enumerate() {
        let glob = format!("gen.k{kind}.*");
        ours.extend(archives.iter().map(|(step, points)| rendered(daemon, &glob, step * points, NOW)));
    }
    let first = |kind: usize| retentions[..kind].iter().map(Vec::len).sum::<usize>();
    let mut compared = 0;
    for (path, archives) in paths.iter().zip(theirs) {
        let name = name_of(root, path);
        let kind: usize = name.split('.').nth(1).unwrap()[1..].parse().unwrap();
        for (index, (step, slots)) in archives.iter().enumerate() {
            let what = format!("{name} archive {index}");
            let ours = &ours[first(kind) + index];
            let ours = ours.get(&name).unwrap_or_else(|| panic!("{what} is not rendered"));
            compare(&what, ours, slots, is_open_window(*step, index));
            compared += slots.len();
        }
    }
    compared
}

/// The results of [`round_trip`].
pub(crate) struct RoundTrip {
    /// The report of the first import.
    pub(crate) report: Value,
    /// The directory of the files.
    pub(crate) root: PathBuf,
    /// The archives of the files, by kind.
    pub(crate) retentions: Vec<Vec<(i64, i64)>>,
    pub(crate) paths: Vec<PathBuf>,
    /// The archives of each file, as whisper-fetch shows them.
    pub(crate) theirs: Vec<Archives>,
    /// Number of slots that were compared after the import.
    pub(crate) compared: usize,
}

/// Makes files, imports and renders them, exports the metrics and imports the exported files. Each time the
/// results must equal the output of whisper-fetch.
pub(crate) fn round_trip(setup: &Setup, whisper: &mut WhisperFiles, count: usize) -> RoundTrip {
    let root = setup.path().join("whisper");
    let retentions = whisper.make(&root, count, 1, NOW);
    let report = import(setup, &[root.to_str().unwrap()]);
    println!("{count} files: {report}");
    assert_eq!((&report["files"], &report["created"]), (&json!(count), &json!(count)), "{report}");
    assert_eq!(report["skipped"], json!({}), "{report}");

    let paths = files(&root);
    let theirs = whisper.fetch(&paths, NOW);
    let daemon = setup.start();
    let compared = compare_rendered(&daemon, &root, &retentions, &paths, &theirs);
    println!("{compared} slots compared");
    daemon.stop_well();

    let exported = setup.path().join("exported");
    assert_succeeds(&setup.run(&["export-whisper", exported.to_str().unwrap(), "gen.**"]));
    let again: Vec<PathBuf> =
        paths.iter().map(|path| exported.join(path.strip_prefix(&root).unwrap())).collect();
    for ((path, archives), before) in again.iter().zip(whisper.fetch(&again, NOW)).zip(&theirs) {
        for (index, ((step, ours), (_, theirs))) in archives.iter().zip(before).enumerate() {
            let what = format!("{} archive {index}", path.display());
            compare(&what, ours, theirs, is_open_window(*step, index));
        }
    }

    let second = import(setup, &[root.to_str().unwrap()]);
    assert_eq!((&second["unchanged"], &second["metrics"]), (&json!(count), &json!(0)), "{second}");
    let again = import(setup, &["--again", root.to_str().unwrap()]);
    assert_eq!(
        again["stored"].as_u64().unwrap() + again["kept"].as_u64().unwrap(),
        report["stored"].as_u64().unwrap(),
        "{again}"
    );
    RoundTrip { report, root, retentions, paths, theirs, compared }
}

#[test]
fn imported_and_exported_files_show_what_whisper_shows() {
    let mut setup = Setup::new();
    setup.clock(NOW);
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let count = number("PLUMBAGO_TEST_WHISPER_FILES").unwrap_or(200);
    round_trip(&setup, &mut whisper, count);
}

/// Points after the import complete the windows that were open during the import.
#[test]
fn live_points_complete_imported_windows() {
    let archives = [(10, 360), (60, 240), (600, 200)];
    for method in ["average", "sum", "max", "min", "last"] {
        let mut setup = Setup::new();
        setup.clock(NOW);
        setup.schemas("[all]\npattern = .*\nretentions = 10s:1h,60s:4h,600s:120000s\n");
        setup
            .aggregation(&format!("[all]\npattern = .*\nxFilesFactor = 0.5\naggregationMethod = {method}\n"));
        let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
        let root = setup.path().join("whisper");
        let point = |time: i64| (time, (time % 977) as f64 / 4.0);
        let points =
            |from: i64, until: i64| (from / 10..until / 10).map(|slot| point(slot * 10)).collect::<Vec<_>>();
        // The daemon also gets the last points before the import, and the points after it.
        let (begin, live, end) = (NOW - 3500, NOW - 250, NOW + 1500);
        let daemon = setup.start();
        send(&daemon, &points(live, NOW));
        daemon.stop_well();
        let path = root.join("a/b.wsp");
        whisper.write(&path, &archives, method, NOW, &points(begin, NOW));
        whisper.write(&root.join("a/new.wsp"), &archives, method, NOW, &points(begin, NOW));
        let report = import(&setup, &[root.to_str().unwrap()]);
        assert_eq!((&report["created"], &report["skipped"]), (&json!(1), &json!({})), "{report}");
        let daemon = setup.start();
        let mut sent = daemon.ledger().received;
        for time in (NOW..end).step_by(100) {
            let part = points(time, (time + 100).min(end));
            daemon.set_clock(part.last().unwrap().0);
            for name in ["a.b", "a.new"] {
                daemon.sender().send(&part.iter().map(|(t, v)| Point::new(name, *t, *v)).collect::<Vec<_>>());
            }
            sent += 2 * part.len() as u64;
            daemon.applied_at(sent);
            if time % 3 == 0 {
                daemon.flush();
            }
        }
        daemon.set_clock(end);
        let all = setup.path().join("all.wsp");
        for time in (begin..end).step_by(100) {
            whisper.write(
                &all,
                &archives,
                method,
                (time + 100).min(end),
                &points(time, (time + 100).min(end)),
            );
        }
        let theirs = whisper.fetch(&[all], end);
        for (index, (step, slots)) in theirs[0].iter().enumerate() {
            let retention = archives[index].0 * archives[index].1;
            for name in ["a.b", "a.new"] {
                let ours = &rendered(&daemon, name, retention, end)[name];
                compare(
                    &format!("{method} {name} archive {index} of {step} s"),
                    ours,
                    slots,
                    |ours, theirs| {
                        // Sums may differ by rounding, because of another order of addition.
                        let (Some(a), Some(b)) = (ours.1, theirs.1) else { return false };
                        (a - b).abs() <= 1e-9 * b.abs()
                    },
                );
            }
        }
        daemon.stop_well();
    }
}

fn send(daemon: &Daemon, points: &[(i64, f64)]) {
    daemon.put(&points.iter().map(|(t, v)| Point::new("a.b", *t, *v)).collect::<Vec<_>>());
}

#[test]
fn files_that_cannot_be_imported_are_counted_and_named() {
    let mut setup = Setup::new();
    setup.clock(NOW);
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let root = setup.path().join("whisper");
    let good = root.join("good/one.wsp");
    whisper.write(&good, &[(10, 60)], "sum", NOW, &[(NOW - 20, 1.5)]);
    let bytes = std::fs::read(&good).unwrap();
    let put = |name: &str, bytes: &[u8]| std::fs::write(root.join("good").join(name), bytes).unwrap();
    put("empty.wsp", b"");
    put("short.wsp", &bytes[..bytes.len() - 7]);
    put("long.wsp", &[&bytes[..], b"tail"].concat());
    put("text.wsp", b"this is a text and no whisper file at all\n");
    put("compressed.wsp", b"whisper_compressed\x01\x00\x00");
    put("wei\u{df} blank.wsp", &bytes);
    put("notes.txt", b"ignored");
    put(".hidden.wsp", &bytes);
    std::fs::create_dir(root.join(".snapshot")).unwrap();
    std::fs::write(root.join(".snapshot/old.wsp"), &bytes).unwrap();
    let name = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"bad\xff.wsp");
    std::fs::write(root.join(name), &bytes).unwrap();
    std::os::unix::fs::symlink(&root, root.join("good/loop")).unwrap();
    std::os::unix::fs::symlink(root.join("self.wsp"), root.join("self.wsp")).unwrap();
    std::fs::write(root.join("good..one.wsp"), &bytes).unwrap();
    let tagged = "disk.used;dc=a;host=b";
    let hashed = whisper.hashed_path(tagged);
    std::fs::create_dir_all(root.join(&hashed).parent().unwrap()).unwrap();
    std::fs::write(root.join(&hashed), &bytes).unwrap();

    let list = setup.path().join("skipped.txt");
    let arguments = [root.to_str().unwrap(), "--skipped", list.to_str().unwrap()];
    let dry = import(&setup, &[&["--dry-run"], &arguments[..]].concat());
    assert_eq!((&dry["dry_run"], &dry["created"]), (&json!(true), &json!(1)), "{dry}");
    assert!(!setup.data().join("journal").exists(), "a dry run creates no data directory");
    let report = import(&setup, &arguments);
    let expected = json!({
        "compressed": 1, "empty": 1, "hidden": 2, "link_loop": 2, "name": 2, "not_whisper": 1, "oversized": 1, "same_name": 1,
        "tagged": 1, "truncated": 1
    });
    assert_eq!(report["skipped"], expected, "{report}");
    assert_eq!(report["created"], json!(1), "{report}");
    let listed = std::fs::read_to_string(&list).unwrap();
    assert_eq!(listed.lines().count(), 13, "{listed}");
    for text in ["short.wsp\tit is cut off", "go-carbon's compressed format", "bad\\xFF.wsp"] {
        assert!(listed.contains(text), "{text}: {listed}");
    }

    let names = setup.file("names.txt", &format!("some.other;a=b\n{tagged}\n"));
    let root = root.to_str().unwrap();
    let report = import(&setup, &["--dry-run", "--tagged-names", names.to_str().unwrap(), root]);
    assert_eq!((&report["created"], &report["skipped"]["tagged"]), (&json!(1), &Value::Null), "{report}");
    // Any server with Graphite's tag API knows the names.
    let mut other = Setup::new();
    let web = other.clock(NOW).start();
    web.put(&[Point::new(tagged, NOW, 1.0)]);
    wait_until("the series to be tagged", || web.get("/tags/findSeries?expr=host%3Db").body.contains(tagged));
    let report = import(&setup, &["--tagged-names", &format!("http://{}/tags", web.api()), root]);
    assert_eq!((&report["created"], &report["skipped"]["tagged"]), (&json!(1), &Value::Null), "{report}");
    web.stop_well();
    let daemon = setup.start();
    let slots = &rendered(&daemon, "seriesByTag('host=b')", 600, NOW)[tagged];
    assert_eq!(slots.iter().filter_map(|slot| slot.1).collect::<Vec<f64>>(), [1.5]);
    daemon.stop_well();

    // The series is exported again, under the file name that carbon uses without hashes.
    let exported = setup.path().join("exported");
    assert_succeeds(&setup.run(&["export-whisper", exported.to_str().unwrap(), "--tag", "host=b"]));
    let file = exported.join(&hashed).with_file_name("disk_DOT_used;dc=a;host=b.wsp");
    let shown = whisper.fetch(&[file], NOW);
    let values = shown[0].iter().flat_map(|(_, slots)| slots.iter().filter_map(|slot| slot.1));
    assert_eq!(values.collect::<Vec<f64>>(), [1.5]);
}

#[test]
fn several_trees_of_a_metric_are_merged_and_changed_files_come_again() {
    let mut setup = Setup::new();
    setup.clock(NOW);
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let archives = [(10, 360), (60, 240)];
    let (one, two) = (setup.path().join("one"), setup.path().join("two"));
    let slot = |back: i64| NOW / 60 * 60 - back;
    whisper.write(&one.join("a/m.wsp"), &archives, "sum", NOW, &[(slot(300), 1.0), (slot(280), 3.0)]);
    whisper.write(&two.join("a/m.wsp"), &archives, "sum", NOW, &[(slot(300), 9.0), (slot(290), 2.0)]);
    let trees = [one.to_str().unwrap(), two.to_str().unwrap()];
    let report = import(&setup, &[&["--prefix", "dc1"], &trees[..]].concat());
    assert_eq!((&report["files"], &report["metrics"]), (&json!(2), &json!(1)), "{report}");
    let known = |setup: &Setup| {
        let daemon = setup.start();
        let slots = rendered(&daemon, "dc1.a.m", 3600, NOW)["dc1.a.m"].clone();
        daemon.stop_well();
        slots.into_iter().filter_map(|(time, value)| Some((time, value?))).collect::<Vec<_>>()
    };
    assert_eq!(known(&setup), [(slot(300), 1.0), (slot(290), 2.0), (slot(280), 3.0)]);

    whisper.write(&one.join("a/m.wsp"), &archives, "sum", NOW, &[(slot(300), 7.0), (slot(100), 4.0)]);
    let report = import(&setup, &[&["--prefix", "dc1"], &trees[..]].concat());
    assert_eq!((&report["metrics"], &report["unchanged"]), (&json!(1), &json!(0)), "{report}");
    assert_eq!(known(&setup), [(slot(300), 1.0), (slot(290), 2.0), (slot(280), 3.0), (slot(100), 4.0)]);
    let report = import(&setup, &[&["--prefix", "dc1", "--overwrite"], &trees[..]].concat());
    assert_eq!(report["metrics"], json!(1), "{report}");
    assert_eq!(known(&setup)[0], (slot(300), 7.0));
}

/// A running daemon also gets carbon's points while the files are imported. Each point is counted once.
#[test]
fn a_running_daemon_imports_beside_live_points() {
    let archives = [(10, 360), (60, 240), (600, 200)];
    let mut setup = Setup::new();
    setup.clock(NOW);
    setup.schemas("[all]\npattern = .*\nretentions = 10s:1h,60s:4h,600s:120000s\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = sum\n");
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let root = setup.path().join("whisper");
    let metrics: Vec<String> = (0..40).map(|i| format!("live.m{i}")).collect();
    let points = |from: i64, until: i64| {
        (from / 10..until / 10).map(|slot| (slot * 10, 1.0 + (slot % 7) as f64)).collect::<Vec<_>>()
    };
    let path = |name: &str| root.join(name.replace('.', "/") + ".wsp");
    for name in &metrics {
        whisper.write(&path(name), &archives, "sum", NOW, &points(NOW - 3000, NOW));
    }
    let daemon = setup.start();
    setup.set("admin.listen", &daemon.admin().to_string());
    let sent = std::cell::Cell::new(0);
    let live = |from: i64, until: i64| {
        for (time, value) in points(from, until) {
            daemon.set_clock(time.max(NOW));
            let all: Vec<Point> = metrics.iter().map(|name| Point::new(name, time, value)).collect();
            daemon.sender().send(&all);
            sent.set(sent.get() + all.len() as u64);
        }
    };
    // From here on both get the points: half of them before the first import, the others during it.
    live(NOW - 700, NOW);
    let end = NOW + 900;
    let mut command = setup.command(&["import-whisper", "--json", "--workers", "2", root.to_str().unwrap()]);
    let importing = std::thread::spawn(move || command.output().unwrap());
    live(NOW, NOW + 450);
    let output = importing.join().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((&report["metrics"], &report["skipped"]), (&json!(40), &json!({})), "{report}");
    live(NOW + 450, end);
    for name in &metrics {
        whisper.write(&path(name), &archives, "sum", end, &points(NOW, end));
    }
    let report = import(&setup, &[root.to_str().unwrap()]);
    assert_eq!((&report["metrics"], &report["unchanged"]), (&json!(40), &json!(0)), "{report}");
    daemon.set_clock(end);
    let whole = setup.path().join("whole.wsp");
    for time in (NOW - 3000..end).step_by(60) {
        let until = (time + 60).min(end);
        whisper.write(&whole, &archives, "sum", until, &points(time, until));
    }
    let theirs = whisper.fetch(&[whole], end);
    for flushes in 0..2 {
        for (index, (step, slots)) in theirs[0].iter().enumerate() {
            let retention = archives[index].0 * archives[index].1;
            for (name, ours) in rendered(&daemon, "live.*", retention, end) {
                compare(
                    &format!("{name} archive {index}, {flushes} flushes"),
                    &ours,
                    slots,
                    |ours, theirs| {
                        // Whisper hides windows with few known slots, because of the factor 0.5.
                        theirs.1.is_none() && ours.0 < NOW - 2400 || ours.0 == end / step * step
                    },
                );
            }
        }
        daemon.flush();
    }
    let ledger = daemon.ledger();
    assert!(ledger.balances(), "{ledger:?}");
    daemon.stop_well();
}

/// After a kill, an import has stored only whole metrics. The same command continues with the others.
#[test]
fn a_killed_import_goes_on() {
    let mut setup = Setup::new();
    setup.clock(NOW);
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let root = setup.path().join("whisper");
    let retentions = whisper.make(&root, 300, 3, NOW);
    let list = setup.data().join("maintenance/import-whisper.list");
    let mut command = setup.command(&["import-whisper", "--workers", "1", root.to_str().unwrap()]);
    let mut importing = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until("the first files to be stored", || {
        std::fs::read_to_string(&list).is_ok_and(|text| text.lines().count() > 2)
    });
    importing.kill().unwrap();
    importing.wait().unwrap();
    let report = import(&setup, &[root.to_str().unwrap()]);
    println!("{report}");
    let sum = report["unchanged"].as_u64().unwrap() + report["metrics"].as_u64().unwrap();
    assert_eq!((sum, &report["skipped"]), (300, &json!({})), "{report}");
    assert!(report["unchanged"].as_u64().unwrap() > 0, "{report}");
    let paths = files(&root);
    let theirs = whisper.fetch(&paths, NOW);
    let daemon = setup.start();
    compare_rendered(&daemon, &root, &retentions, &paths, &theirs);
    daemon.stop_well();
}

/// On Cassandra, too, `/render` shows what whisper shows. The tables for a file's retention must exist.
#[test]
fn cassandra_shows_what_whisper_shows() {
    const KEYSPACE: &str = "whisper_import";
    let Some(server) = server::for_tests() else { return };
    server.drop_keyspaces(KEYSPACE).unwrap();
    let mut setup = Setup::new();
    setup.clock(NOW).set("store.kind", "cassandra").set("store.cassandra.keyspace", KEYSPACE);
    setup.set("store.cassandra.contact_points", &server.contact_point());
    setup.set("store.cassandra.components", "4").set("store.cassandra.indexes", "none");
    setup.set("store.cassandra.request_timeout", "60s");
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let root = setup.path().join("whisper");
    let retentions = whisper.make(&root, 40, 2, NOW);
    assert_succeeds(&setup.run(&["syncdb"]));
    let report = import(&setup, &[root.to_str().unwrap()]);
    assert_eq!((&report["skipped"]["tables"], &report["stored"]), (&json!(40), &json!(0)), "{report}");
    assert!(report.to_string().contains("plumbago syncdb --retention"), "{report}");
    for archives in &retentions {
        let text: Vec<String> =
            archives.iter().map(|(step, points)| format!("{step}s:{}s", step * points)).collect();
        assert_succeeds(&setup.run(&["syncdb", "--retention", &text.join(",")]));
    }
    let report = import(&setup, &[root.to_str().unwrap()]);
    assert_eq!((&report["created"], &report["skipped"]), (&json!(40), &json!({})), "{report}");
    println!("{report}");
    let paths = files(&root);
    let theirs = whisper.fetch(&paths, NOW);
    let daemon = setup.start();
    setup.set("admin.listen", &daemon.admin().to_string());
    compare_rendered(&daemon, &root, &retentions, &paths, &theirs);
    // A second import, by the daemon, counts nothing twice.
    let again = import(&setup, &["--again", root.to_str().unwrap()]);
    assert_eq!((&again["created"], &again["skipped"]), (&json!(0), &json!({})), "{again}");
    compare_rendered(&daemon, &root, &retentions, &paths, &theirs);
    daemon.stop_well();
    server.clean_up(KEYSPACE).unwrap();
}
