//! Damaged files: in every kind of file of a data directory, a bit is flipped, or bytes are cut, deleted or
//! zeroed, at a random position. The daemon then starts and reports what is missing, or exits with a message
//! that contains the file and the remedy. It is never silent, never hangs, and never shows wrong values.
//!
//! `PLUMBAGO_DAMAGE_CASES` sets the number of cases, `PLUMBAGO_SEED` the seed, and `PLUMBAGO_DAMAGE_CASE` runs one case
//! only. An ordinary run has each kind of file with each damage at least once.

mod files;
mod full_disk;
mod queues;
mod spool;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use plumbago_tests::counters::{JOURNAL_WRITTEN, Ledger};
use plumbago_tests::daemon::{Daemon, Ended, Setup};
use plumbago_tests::http;
use plumbago_tests::rounds::number;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_for, wait_until};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::files::{HARMS, Harm, copy, files, harm, kind};

const START: i64 = 1_763_900_040;
/// Minimum number of cases in an ordinary run.
const CASES: usize = 200;
/// Number of daemons that run at the same time.
const WORKERS: usize = 3;
/// The log may name a damaged file in at most this many lines.
const LINES_MAX: usize = 3;

/// The points that were sent: values by name and slot.
type Model = BTreeMap<String, BTreeMap<i64, f64>>;

/// A data directory as a killed or stopped process left it.
struct Base {
    name: &'static str,
    directory: PathBuf,
    /// The files, relative to the directory, by kind.
    kinds: BTreeMap<String, Vec<PathBuf>>,
}

struct Case<'a> {
    number: usize,
    base: &'a Base,
    /// Relative to the data directory.
    file: PathBuf,
    harm: Harm,
    /// The position of the damage, as a fraction of the file's length.
    place: f64,
}

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.schemas("[fast]\npattern = ^fast\nretentions = 10s:1d,60s:7d\n[all]\npattern = .*\nretentions = 60s:1d,10m:30d\n");
    setup.aggregation("[sum]\npattern = \\.sum$\nxFilesFactor = 0\naggregationMethod = sum\n");
    setup.set("journal.segment", "1m").set("journal.sync", "100ms").clock(START);
    setup
}

fn names(count: usize) -> Vec<String> {
    let group = |i| ["web", "db", "cache"][i % 3];
    let plain = (0..count).map(|i| match i % 10 {
        0 => format!("servers.{}.host{i}.requests.sum", group(i)),
        1 => format!("fast.{}.host{i}", group(i)),
        _ => format!("servers.{}.host{i}.cpu.load", group(i)),
    });
    plain.collect()
}

/// Sends a point to each metric at each of these minutes, and waits until the journal has them.
fn send(daemon: &Daemon, model: &mut Model, names: &[String], minutes: std::ops::Range<i64>) {
    for minute in minutes {
        let time = START + 60 * minute;
        daemon.set_clock(time);
        let points: Vec<Point> = (0..)
            .zip(names)
            .map(|(i, name)| Point::new(name, time, (i * 7 % 1009 + minute * 13) as f64))
            .collect();
        daemon.put(&points);
        for point in points {
            model.entry(point.name).or_default().insert(time, point.value);
        }
    }
    wait_until("the journal to have all points", || {
        daemon.counters().sum(JOURNAL_WRITTEN) >= Ledger::of(&daemon.counters()).received
    });
    daemon.wait_names(model.len());
}

/// Waits until the journal has synced each of its files at least once. A file that was never synced may be gone after a
/// crash, so nobody can tell that it was deleted.
fn wait_synced(journal: &Path) {
    let is_listed = |list: &str, name: &str| {
        let end = |line: &str| line.strip_prefix(name)?.trim().parse::<u64>().ok();
        list.lines().filter_map(end).any(|end| end > 0)
    };
    wait_until("all files of the journal to be synced", || {
        let list = fs::read_to_string(journal.join("files")).unwrap_or_default();
        let names = files(journal).into_iter().map(|file| file.to_string_lossy().into_owned());
        names.filter(|name| name.ends_with(".log")).all(|name| is_listed(&list, &name))
    });
}

/// The last minute that was sent.
const END: i64 = START + 60 * 99;

/// Two data directories with the same points: one after a clean stop, one after `kill -9`. Some points are in
/// blocks, some in state rows, and in the second one some only in the journals of two processes.
fn fill(into: &Path) -> (Model, Vec<Base>) {
    let setup = setup();
    let mut model = Model::new();
    let all = names(120);
    let daemon = setup.start();
    send(&daemon, &mut model, &all[..96], 0..70);
    daemon.flush();
    daemon.stop_well();
    let daemon = setup.start();
    send(&daemon, &mut model, &all[..108], 70..85);
    wait_synced(&setup.data().join("journal"));
    daemon.kill();
    let daemon = setup.start();
    send(&daemon, &mut model, &all, 85..100);
    wait_synced(&setup.data().join("journal"));
    daemon.kill();
    (model, bases(&setup, into))
}

/// Copies of the data directory of a daemon that was killed: as it is, and after a start and a clean stop.
fn bases(setup: &Setup, into: &Path) -> Vec<Base> {
    let crashed = into.join("crashed");
    copy(&setup.data(), &crashed);
    setup.start().stop_well();
    let clean = into.join("clean");
    copy(&setup.data(), &clean);
    vec![Base::of("crashed", crashed), Base::of("clean", clean)]
}

impl Base {
    fn of(name: &'static str, directory: PathBuf) -> Self {
        let mut kinds: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in files(&directory) {
            // An empty file has nothing to damage, and deleting a lock is no damage.
            if fs::metadata(directory.join(&file)).unwrap().len() > 0 {
                kinds.entry(kind(&file)).or_default().push(file);
            }
        }
        Self { name, directory, kinds }
    }
}

/// The outcome of a start.
enum Outcome {
    /// The start succeeded. The fields are the numbers of points and names that are missing.
    Ready {
        points: usize,
        names: usize,
    },
    Refused,
}

impl Case<'_> {
    fn title(&self) -> String {
        let Self { number, base, file, harm, place } = self;
        format!("case {number}: {}: {harm:?} {} at {place:.4}", base.name, file.display())
    }

    /// Whether the damage looks like an unfinished write at the end of a log. A crash leaves the same traces,
    /// so a line in the log is enough, and no condition is needed.
    fn is_like_a_crash(&self) -> bool {
        let is_log = self.file.extension().is_some_and(|extension| extension == "log" || extension == "jnl");
        is_log && self.base.name == "crashed" && matches!(self.harm, Harm::Cut | Harm::Zero)
    }

    fn run(&self, setup: &Setup, model: &Model) -> Result<Outcome, String> {
        self.prepare(&setup.data());
        self.check_start(setup, model, false)
    }

    /// Makes a damaged data directory.
    fn prepare(&self, data: &Path) {
        let _ = fs::remove_dir_all(data);
        copy(&self.base.directory, data);
        harm(&data.join(&self.file), self.harm, self.place);
    }

    /// Starts the daemon and waits until it is ready or has ended. Returns whether it is ready.
    fn launch(&self, setup: &Setup) -> (Daemon, bool) {
        let mut daemon = setup.launch();
        let is_ready = wait_for(&self.title(), || {
            let is_ready = daemon.stdout().iter().any(|line| line == "ready");
            (is_ready || !daemon.runs()).then_some(is_ready)
        });
        (daemon, is_ready)
    }

    /// Checks the first start. `is_said`: whether an earlier start, which failed, has already reported the
    /// damage.
    fn check_start(&self, setup: &Setup, model: &Model, is_said: bool) -> Result<Outcome, String> {
        let data = setup.data();
        let before = files(&data);
        let (daemon, is_ready) = self.launch(setup);
        if !is_ready {
            self.check_refusal(&daemon.wait(), &data, &before)?;
            self.check_repair(setup, model)?;
            return Ok(Outcome::Refused);
        }
        let result = if is_said { Ok(()) } else { self.check_ready(&daemon, model) };
        let log = daemon.log();
        result.map_err(|problem| format!("{problem}\n{}", tail(&log)))?;
        let (points, names) = missing(&daemon, model)?;
        let ended = daemon.stop();
        if !ended.status.success() {
            return Err(format!("the stop failed: {:?}\n{}", ended.status, tail(&ended.output)));
        }
        self.check_next_start(setup, model, (points, names))?;
        Ok(Outcome::Ready { points, names })
    }

    /// Whether the output names the file. A manifest and `current` check each other, so the message may name
    /// either.
    fn is_named(&self, output: &str) -> bool {
        let file = self.file.to_string_lossy();
        let (keyspace, name) = file.rsplit_once('/').unwrap_or(("", &file));
        let is_pair = name == "current" || name.starts_with('v');
        output.contains(&*file) || is_pair && output.contains(keyspace)
    }

    /// Checks that the message contains the file and the remedy, and that no other file was changed.
    fn check_refusal(&self, ended: &Ended, data: &Path, before: &[PathBuf]) -> Result<(), String> {
        let Ended { status, output } = ended;
        let problem = |what: &str| Err(format!("{what}: {status:?}\n{}", tail(output)));
        let file = self.file.to_string_lossy().into_owned();
        // In this file a changed digit looks like another version.
        let is_format = file.ends_with("plumbago-format");
        if status.code() != Some(5) && !(is_format && status.code() == Some(4)) {
            return problem("the exit code is not 5");
        }
        if output.contains("internal error") {
            return problem("a damaged file is no internal error");
        }
        if !self.is_named(output) {
            return problem("the message does not name the file");
        }
        if !["restore", "repair", "Restore", "move "].iter().any(|word| output.contains(word)) {
            return problem("the message does not say what to do");
        }
        let left: BTreeSet<PathBuf> = files(data).into_iter().collect();
        // Manifests that are not current are removed when a keyspace is opened.
        let is_manifest =
            |file: &Path| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('v'));
        let gone: Vec<&PathBuf> =
            before.iter().filter(|file| !left.contains(*file) && !is_manifest(file)).collect();
        if gone.is_empty() { Ok(()) } else { problem(&format!("these files were deleted: {gone:?}")) }
    }

    /// `repair store --dry-run` names the file and changes nothing; after `repair store` the daemon starts
    /// and stores points, unless a backup is the only remedy.
    fn check_repair(&self, setup: &Setup, model: &Model) -> Result<(), String> {
        if self.file.ends_with("plumbago-format") {
            return Ok(());
        }
        let contents = || -> Vec<_> {
            files(&setup.data()).into_iter().map(|f| fs::read(setup.data().join(f)).unwrap()).collect()
        };
        let before = contents();
        let shown = setup.run(&["repair", "store", "--dry-run"]);
        if shown.status.code() != Some(5) || contents() != before {
            return Err(format!("repair store --dry-run: {:?}\n{}", shown.status, tail(&shown.output)));
        }
        let is_backup_needed = self.file.starts_with("store/keyspaces/0");
        let done = setup.run(&["repair", "store"]);
        if is_backup_needed {
            return Ok(());
        }
        if !done.status.success() {
            return Err(format!("repair store: {:?}\n{}", done.status, tail(&done.output)));
        }
        println!("{}: repaired: {}", self.title(), done.output.lines().next().unwrap_or_default());
        self.check_next_start(setup, model, (usize::MAX, usize::MAX))
    }

    /// Checks that the log, `/readyz` and the counters report what is missing.
    fn check_ready(&self, daemon: &Daemon, model: &Model) -> Result<(), String> {
        let (points, names) = missing(daemon, model)?;
        let ledger = http::get(daemon.admin(), "/admin/ledger").body;
        let balance = Ledger::parse(&ledger).ok_or_else(|| format!("no ledger: {ledger}"))?;
        if !balance.balances() {
            return Err(format!("the ledger does not balance: {ledger}"));
        }
        if points == 0 && names == 0 {
            return Ok(());
        }
        let file = self.file.to_string_lossy().into_owned();
        let lost = format!("{points} points and {names} names are missing");
        let log = daemon.log();
        let lines = log.lines().filter(|line| line.contains(&file)).count();
        if self.is_like_a_crash() {
            // If the file was cut exactly between two frames, nothing shows the damage.
            return if lines > 0 || self.harm == Harm::Cut {
                Ok(())
            } else {
                Err(format!("{lost}: no line of the log"))
            };
        }
        wait_until(&format!("{}: {lost}: a condition", self.title()), || {
            daemon.counters().with("plumbago_condition", "name=\"damaged_data\"") == 1
        });
        let log = daemon.log();
        let lines = log.lines().filter(|line| line.contains(&file)).count();
        if !(1..=LINES_MAX).contains(&lines) {
            return Err(format!("{lost}: {lines} lines of the log name the file"));
        }
        let ready = http::get(daemon.admin(), "/readyz").body;
        if !ready.contains("damaged data") || !ready.contains(&file) {
            return Err(format!("{lost}: /readyz says {ready}"));
        }
        Ok(())
    }

    /// A second start loses nothing more, and new points are stored.
    fn check_next_start(&self, setup: &Setup, model: &Model, before: (usize, usize)) -> Result<(), String> {
        let (daemon, is_ready) = self.launch(setup);
        if !is_ready {
            return Err(format!("the second start failed\n{}", tail(&daemon.wait().output)));
        }
        let after = missing(&daemon, model)?;
        if before.0 == usize::MAX {
            println!("{}: missing after the repair: {after:?}", self.title());
        }
        if after.0 > before.0 || after.1 > before.1 {
            return Err(format!(
                "missing at the first start {before:?}, at the second {after:?}\n{}",
                tail(&daemon.log())
            ));
        }
        daemon.set_clock(END + 60);
        let points: Vec<Point> = model.keys().map(|name| Point::new(name, END + 60, 4.5)).collect();
        daemon.put(&points);
        daemon.flush();
        let found = daemon.render("*.*.*", END, END + 60, END + 60).len();
        let ended = daemon.stop();
        if found == 0 || !ended.status.success() {
            return Err(format!(
                "after the second start: {found} series, {:?}\n{}",
                ended.status,
                tail(&ended.output)
            ));
        }
        Ok(())
    }
}

/// `clean --dry-run` on damaged data names the file, does not change it, and exits with 5; on undamaged data
/// it exits with 0.
fn check_clean(base: &Base) {
    let setup = setup();
    copy(&base.directory, &setup.data());
    let ended = setup.run(&["clean", "--dry-run"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.output);
    let tables =
        files(&setup.data()).into_iter().filter(|file| file.parent().is_some_and(|p| p.ends_with("tables")));
    let tables = tables.filter(|file| !file.starts_with("store/keyspaces/0"));
    let largest = tables.max_by_key(|file| fs::metadata(setup.data().join(file)).unwrap().len()).unwrap();
    harm(&setup.data().join(&largest), Harm::Flip, 0.1);
    let ended = setup.run(&["clean", "--dry-run"]);
    assert_eq!(ended.status.code(), Some(5), "{}", ended.output);
    assert!(ended.output.contains(largest.to_str().unwrap()), "{}", ended.output);
}

/// How many points and names of the model are missing. Wrong values are an error.
fn missing(daemon: &Daemon, model: &Model) -> Result<(usize, usize), String> {
    daemon.set_clock(END);
    let known: BTreeSet<String> = daemon.names().into_iter().collect();
    let names = model.keys().filter(|name| !known.contains(*name)).count();
    if let Some(other) = known.iter().find(|name| !model.contains_key(*name)) {
        return Err(format!("{other} was never sent"));
    }
    let mut found: BTreeMap<String, BTreeMap<i64, f64>> = BTreeMap::new();
    for target in ["*.*.*", "*.*.*.*", "*.*.*.*.*"] {
        for series in daemon.render(target, START - 60, END, END) {
            found.insert(series.name.clone(), series.known());
        }
    }
    let mut points = 0;
    for (name, sent) in model {
        let stored = found.remove(name).unwrap_or_default();
        points += sent.iter().filter(|(time, _)| !stored.contains_key(time)).count();
        for (time, value) in &stored {
            match sent.get(time) {
                Some(right) if right == value => {}
                other => return Err(format!("{name} has {value} at {time} instead of {other:?}")),
            }
        }
    }
    Ok((points, names))
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(25).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// All combinations of a kind of file and a kind of damage.
fn combinations(bases: &[Base]) -> Vec<(&Base, &Vec<PathBuf>, Harm)> {
    let kinds = bases.iter().flat_map(|base| base.kinds.values().map(move |files| (base, files)));
    kinds.flat_map(|(base, files)| HARMS.map(|harm| (base, files, harm))).collect()
}

/// Damages every kind of file in every way in turn, at places from the seed.
fn cases<'a>(bases: &'a [Base], count: usize, seed: u64) -> Vec<Case<'a>> {
    let mut random = StdRng::seed_from_u64(seed);
    let combinations = combinations(bases);
    // A run with fewer cases does not reach all combinations: each seed selects others.
    let first = random.random_range(0..combinations.len());
    let step = (combinations.len() / count.max(1)).max(1);
    (0..count)
        .map(|number| {
            let (base, files, harm) = combinations[(first + number * step) % combinations.len()];
            let file = files[random.random_range(0..files.len())].clone();
            Case { number, base, file, harm, place: random.random_range(0.0..1.0) }
        })
        .collect()
}

fn seed() -> u64 {
    number("PLUMBAGO_SEED").unwrap_or(20_261_124)
}

#[test]
fn damage_is_said_and_survived() {
    let seed = seed();
    let directory = tempfile::tempdir().unwrap();
    let (model, bases) = fill(directory.path());
    let ordinary = CASES.max(combinations(&bases).len());
    let count = number("PLUMBAGO_DAMAGE_CASES").unwrap_or(ordinary);
    for base in &bases {
        println!("{}: {:?}", base.name, base.kinds.keys().collect::<Vec<_>>());
    }
    check_clean(&bases[1]);
    let cases = cases(&bases, count, seed);
    println!("{count} cases, seed {seed} (PLUMBAGO_DAMAGE_CASES, PLUMBAGO_SEED)");
    let only: Option<usize> = number("PLUMBAGO_DAMAGE_CASE");
    let next = AtomicUsize::new(0);
    let (failed, refused, lossy) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let setup = setup();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if only.is_some_and(|only| only != case.number) {
                        continue;
                    }
                    match case.run(&setup, &model) {
                        Ok(Outcome::Refused) => {
                            println!("{}: refused", case.title());
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(Outcome::Ready { points: 0, names: 0 }) => {}
                        Ok(Outcome::Ready { points, names }) => {
                            println!(
                                "{}: {points} points and {names} names are lost, and said",
                                case.title()
                            );
                            lossy.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(problem) => {
                            let problem = format!("{}: {problem}", case.title());
                            println!("FAILED {problem}");
                            failed.lock().unwrap().push(problem);
                        }
                    }
                }
            });
        }
    });
    println!(
        "{count} cases: {} refused, {} with a loss that was said",
        refused.into_inner(),
        lossy.into_inner()
    );
    let failed = failed.into_inner().unwrap();
    let first: Vec<&str> = failed.iter().filter_map(|problem| problem.lines().next()).collect();
    assert!(failed.is_empty(), "{} of {count} cases failed:\n{}", failed.len(), first.join("\n"));
}
