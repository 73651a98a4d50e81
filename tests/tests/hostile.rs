//! Bad input of every kind. It is refused with a clear message, counted by reason, and takes bounded memory,
//! while another client is served normally.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use plumbago_tests::daemon::{Daemon, Ended, Setup};
use plumbago_tests::http;
use plumbago_tests::send::{Point, frame};
use plumbago_tests::wait::{HANG, wait_until};
use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::Value;

const NOW: i64 = 1_700_000_000;
const SECONDS: &str = "[all]\npattern = .*\nretentions = 1s:1d\n";
/// How far bad input may increase the memory of the daemon. A single bomb would need several times more.
const GROWTH_BYTES: u64 = 300 << 20;

#[test]
fn wrong_configuration_is_refused_with_all_problems_at_once() {
    let mut setup = Setup::new();
    setup.schemas("[good]\npattern = ^good\nretentions = 60s:1d\n[bad]\npattern = ((\nretentions = 60s:1d\n[worse]\npattern = x\nretentions = 60s:never\n");
    setup.aggregation("[odd]\npattern = .*\nxFilesFactor = 7\naggregationMethod = mode\n");
    setup.set("ingest.line.listen", "nowhere").set("journal.sync", "soon").set("engine.sards", "2");
    for arguments in [&["serve"][..], &["config", "check"]] {
        let ended = setup.run(arguments);
        assert_eq!(ended.status.code(), Some(3), "{arguments:?}: {}", ended.output);
        for wanted in [
            "storage-schemas.conf",
            "((",
            "never",
            "storage-aggregation.conf",
            "mode",
            "nowhere",
            "soon",
            "sards",
        ] {
            assert!(ended.output.to_lowercase().contains(wanted), "no {wanted:?} in:\n{}", ended.output);
        }
        assert!(!ended.output.contains("panicked"), "{}", ended.output);
    }
    assert!(!setup.data().exists(), "nothing is created for a wrong configuration");
}

#[test]
fn hostile_clients_harm_nobody() {
    more_files();
    let mut setup = Setup::new();
    setup.schemas(SECONDS).clock(NOW);
    let daemon = setup.start();
    let before = memory(&daemon, "VmRSS");
    let over = Arc::new(AtomicBool::new(false));
    let good = good_client(&daemon, Arc::clone(&over));

    let mut idle = Vec::new();
    for _ in 0..400 {
        for address in [daemon.line(), daemon.address("pickle tcp"), daemon.address("protobuf tcp")] {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"a.b").unwrap();
            idle.push(stream);
        }
    }
    garbage(&daemon);
    long_lines(&daemon);
    bombs(&daemon);
    assert!(daemon.counters().sum("plumbago_ingest_active_connections") > 1000, "the idle ones are kept");
    drop(idle);
    http_garbage(&daemon);

    over.store(true, Ordering::SeqCst);
    let points = good.join().unwrap();
    all_there(&daemon, &points);
    let after = memory(&daemon, "VmHWM");
    println!("memory {} MiB before, at most {} MiB", before >> 20, after >> 20);
    assert!(after < before + GROWTH_BYTES, "{after} bytes of memory, {before} before");

    let ledger: Value = serde_json::from_str(&http::get(daemon.admin(), "/admin/ledger").body).unwrap();
    assert_eq!(ledger["missing"].as_i64(), Some(0), "{ledger}");
    let reasons = [
        "fields",
        "encoding",
        "line_too_long",
        "half_line",
        "frame",
        "frame_too_large",
        "half_frame",
        "item",
    ];
    for reason in reasons {
        assert!(ledger["rejected_by_reason"][reason].as_u64() > Some(0), "{reason}: {ledger}");
    }
    let log = daemon.log();
    assert!(!log.contains("panicked"), "{log}");
    assert!(
        log.lines().count() < 500,
        "bad input is logged at a bounded rate: {} lines",
        log.lines().count()
    );
    daemon.stop_well();
}

/// Sends good points while other clients send bad input.
fn good_client(daemon: &Daemon, over: Arc<AtomicBool>) -> std::thread::JoinHandle<Vec<Point>> {
    let (mut sender, mut pickle) =
        (daemon.sender(), TcpStream::connect(daemon.address("pickle tcp")).unwrap());
    std::thread::spawn(move || {
        let mut sent = Vec::new();
        for second in 0..80_000 {
            let points: Vec<_> = (0..20)
                .map(|m| Point::new(format!("good.m{m}"), NOW - second, (second * m) as f64))
                .collect();
            sender.send(&points);
            sent.extend(points);
            let point = Point::new("good.pickle", NOW - second, second as f64);
            let text = format!("(l(S'{}'\n(I{}\nF{}\ntta.", point.name, point.timestamp, point.value);
            pickle.write_all(&frame(text.as_bytes())).unwrap();
            sent.push(point);
            if over.load(Ordering::SeqCst) && second > 100 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        sent
    })
}

fn all_there(daemon: &Daemon, points: &[Point]) {
    let oldest = points.iter().map(|p| p.timestamp).min().unwrap();
    let mut left = 0;
    wait_until("all points of the good client", || {
        let series = daemon.render("good.*", oldest - 1, NOW, NOW);
        let known: std::collections::HashMap<_, _> =
            series.iter().map(|s| (s.name.as_str(), s.known())).collect();
        left = points
            .iter()
            .filter(|p| known.get(p.name.as_str()).and_then(|k| k.get(&p.timestamp)) != Some(&p.value))
            .count();
        left == 0
    });
}

fn garbage(daemon: &Daemon) {
    let mut random = StdRng::seed_from_u64(1);
    for listener in ["line tcp", "pickle tcp", "protobuf tcp"] {
        for _ in 0..50 {
            let mut bytes = vec![0; random.random_range(1..20_000)];
            random.fill_bytes(&mut bytes);
            send(daemon, listener, &bytes);
        }
    }
    send(
        daemon,
        "line tcp",
        b"\xff\xfe.name 1 1700000000\n\x00\x01 1 1700000000\none two three\nlonely\n\n\r\n",
    );
    send(daemon, "line tcp", b"half.a.line 1 17000");
    send(daemon, "line tcp", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    for length in [0, 1, 100, 60_000] {
        let mut bytes = vec![0; length];
        random.fill_bytes(&mut bytes);
        udp.send_to(&bytes, daemon.address("line udp")).unwrap();
    }
}

/// A line of 64 MiB, followed by a good line on the same connection.
fn long_lines(daemon: &Daemon) {
    let mut sender = daemon.sender();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        sender.try_bytes(&chunk).unwrap();
    }
    sender.try_bytes(format!("\nlong.after 1 {NOW}\n").as_bytes()).unwrap();
    wait_until("the line after the long one", || daemon.names().contains(&"long.after".to_owned()));
}

/// Pickles that would fill the memory, exhaust the stack, or run code in an unsafe decoder.
fn bombs(daemon: &Daemon) {
    let repeated = |start: &str, text: &str, times: usize, end: &str| {
        [start, &text.repeat(times), end].concat().into_bytes()
    };
    let bombs = [
        repeated("]", "2a", 26, "."),
        repeated("]", "2a", 200, "."),
        repeated("", "]", 20_000, &("a".repeat(19_999) + ".")),
        repeated("", "(", 20_000, &("t".repeat(20_000) + ".")),
        repeated("", "(", 200_000, "."),
        b"cos\nsystem\n(S'true'\ntR.".to_vec(),
        b"\x80\x02]\x8b\xff\xff\xff\x7f1.".to_vec(),
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.".to_vec(),
        b"(l(S'odd'\n(I1\nNtta(S'fine.pickle'\n(I1700000000\nF2\ntta.".to_vec(),
        b"".to_vec(),
    ];
    for bomb in bombs.iter().cycle().take(100) {
        send(daemon, "pickle tcp", &frame(bomb));
    }
    for listener in ["pickle tcp", "protobuf tcp"] {
        send(daemon, listener, &[0xff, 0xff, 0xff, 0xff, 1, 2, 3]);
        send(daemon, listener, &[0, 0, 1, 0, 1, 2, 3]);
    }
    wait_until("the good item beside an odd one", || daemon.names().contains(&"fine.pickle".to_owned()));
}

fn http_garbage(daemon: &Daemon) {
    let mut random = StdRng::seed_from_u64(2);
    for address in [daemon.api(), daemon.admin()] {
        for _ in 0..30 {
            let mut bytes = vec![0; random.random_range(1..5000)];
            random.fill_bytes(&mut bytes);
            let mut stream = TcpStream::connect(address).unwrap();
            let _ = stream.write_all(&bytes);
        }
    }
    let brackets = "(".repeat(3000);
    let stars = "*.".repeat(3000);
    for target in [brackets.as_str(), &stars, "{a,{b,{c", "f(", "\u{0}", "a[", "a}b"] {
        let path = http::url("/render", &[("target", target), ("format", "json")]);
        let status = http::get(daemon.api(), &path).status;
        assert!(status == 200 || (400..500).contains(&status), "{status} for {target:.20}");
    }
    for path in ["/render?from=soon&target=a", "/metrics/find", "/nothing", "/admin/clock?now=x"] {
        let answer = http::get(daemon.api(), path);
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
    }
}

/// Sends bytes and waits until the daemon has handled them.
fn send(daemon: &Daemon, listener: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(daemon.address(listener)).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    // The daemon may close the connection early.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut [0]);
}

#[test]
fn a_data_directory_has_one_daemon() {
    let setup = Setup::new();
    let first = setup.start();
    let ended = setup.run(&["serve"]);
    assert!(!ended.status.success() && ended.status.code().is_some(), "{:?}", ended.status);
    assert!(ended.output.contains(setup.data().to_str().unwrap()), "{}", ended.output);
    assert!(!ended.output.contains("panicked"), "{}", ended.output);
    first.put(&[Point::new("still.here", now(), 1.0)]);
    first.stop_well();
}

#[test]
fn a_newer_format_is_refused() {
    for part in ["store", "journal"] {
        let setup = Setup::new();
        setup.start().stop_well();
        let path = setup.data().join(part).join("plumbago-format");
        let text = std::fs::read_to_string(&path).unwrap();
        let (name, _) = text.trim().rsplit_once(' ').unwrap();
        std::fs::write(&path, format!("{name} 99\n")).unwrap();
        let ended = setup.run(&["serve"]);
        assert!(ended.status.code().is_some_and(|c| c != 0), "{part}: {:?} {}", ended.status, ended.output);
        assert!(ended.output.contains(path.to_str().unwrap()), "{part}: {}", ended.output);
        assert!(ended.output.contains("99") && !ended.output.contains("panicked"), "{}", ended.output);
    }
}

/// Damages one file after another. The daemon either starts and answers, or names the data directory and exits.
#[test]
fn damaged_files_are_named() {
    let (setup, whole) = stored();
    let mut report = String::new();
    for file in choose(files_of(&setup.data())) {
        for cut in [false, true] {
            restore(&setup, &whole);
            damage(&file, cut);
            let outcome = outcome(&setup);
            let name = file.strip_prefix(setup.data()).unwrap().display();
            report += &format!("{name} cut {cut}: {outcome:?}\n");
            assert!(outcome.is_clear(), "{report}");
        }
    }
    println!("{report}");
}

/// Rows that are committed but not in a table yet exist only in the store's log.
#[test]
fn a_damaged_log_of_the_store_is_said() {
    let (setup, whole) = stored();
    for cut in [false, true] {
        restore(&setup, &whole);
        damage(&setup.data().join("store/0.jnl"), cut);
        let outcome = outcome(&setup);
        println!("cut {cut}: {outcome:?}");
        assert!(outcome.is_clear() && !outcome.is_silent_loss(), "{outcome:?}");
    }
}

const POINTS: usize = 9000;

/// A setup with points in its store, and a copy of its data directory.
fn stored() -> (Setup, PathBuf) {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 10s:1h,1m:1d\n");
    for round in 1..=3 {
        // Several starts, so that tables are written and logs are rotated.
        let start = NOW - 1800 + (round - 1) * 600;
        let daemon = setup.clock(start + 600).start();
        let mut sender = daemon.sender();
        for i in 0..60 {
            let point = |m| Point::new(format!("damaged.m{m}"), start + i * 10, (i * m) as f64);
            sender.send(&(0..50).map(point).collect::<Vec<_>>());
        }
        daemon.ledger_at(3000);
        daemon.flush();
        if round == 3 {
            wait_until("all points", || points(&daemon) == POINTS);
        }
        daemon.stop_well();
    }
    let whole = setup.path().join("whole");
    copy(&setup.data(), &whole);
    (setup, whole)
}

fn restore(setup: &Setup, whole: &Path) {
    std::fs::remove_dir_all(setup.data()).unwrap();
    copy(whole, &setup.data());
}

fn points(daemon: &Daemon) -> usize {
    let series = daemon.render("damaged.*", NOW - 3600, NOW, NOW);
    series.iter().map(|s| s.known().len()).sum()
}

/// One file of each kind, and every table.
fn choose(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.sort();
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    files.retain(|file| {
        let parent = file.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        let name = file.file_name().unwrap().to_string_lossy().trim_matches(char::is_numeric).to_owned();
        let store = file.components().any(|c| c.as_os_str() == "store");
        let kind = if parent == "tables" { "table".to_owned() } else { name };
        let count = seen.entry(format!("{kind} {store}")).or_default();
        *count += 1;
        *count <= if kind == "table" { 6 } else { 1 }
    });
    files
}

/// The result of a start with a damaged file.
#[derive(Debug)]
enum Outcome {
    Started { points: usize, code: Option<i32>, said: Vec<String>, panicked: bool },
    Refused { code: Option<i32>, named: bool, said: String },
}

impl Outcome {
    /// Whether the daemon started and stopped successfully, or exited with a message that names the
    /// directory.
    fn is_clear(&self) -> bool {
        match self {
            Self::Started { code, panicked, .. } => *code == Some(0) && !panicked,
            // A panic of the database is caught, so the exit code is not that of a panic.
            Self::Refused { code, named, said } => {
                code.is_some_and(|c| c != 0 && c != 101) && *named && !said.is_empty()
            }
        }
    }

    fn is_silent_loss(&self) -> bool {
        matches!(self, Self::Started { points, said, .. } if *points < POINTS && said.is_empty())
    }
}

fn outcome(setup: &Setup) -> Outcome {
    let mut daemon = setup.launch();
    let mut ready = false;
    wait_until("the daemon to be ready or to end", || {
        ready = daemon.stdout().iter().any(|l| l.trim() == "ready" || l.starts_with("accepting points"));
        ready || !daemon.runs()
    });
    if ready {
        let points = points(&daemon);
        let Ended { status, output } = daemon.stop();
        let said = output.lines().filter(|l| l.contains("ERROR") || l.contains("WARN"));
        let said = said.map(str::to_owned).collect();
        return Outcome::Started { points, code: status.code(), said, panicked: output.contains("panicked") };
    }
    let Ended { status, output } = daemon.wait();
    // Every start logs which directory it uses; the refusal must contain it too.
    let mut errors = output.lines().filter(|line| line.contains("ERROR"));
    let named = errors.any(|line| line.contains(setup.data().to_str().unwrap()));
    Outcome::Refused { code: status.code(), named, said: output.trim().to_owned() }
}

fn damage(file: &Path, cut: bool) {
    let mut bytes = std::fs::read(file).unwrap();
    // Logs are preallocated: the used part is followed by zeros.
    let length = bytes.iter().rposition(|b| *b != 0).map_or(0, |at| at + 1);
    if cut {
        bytes.truncate(length / 2);
    } else {
        let middle = length / 2;
        bytes[middle..length.min(middle + 64)].iter_mut().for_each(|b| *b ^= 0x5a);
    }
    std::fs::write(file, bytes).unwrap();
}

fn copy(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success());
}

/// All files that are not empty.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    list(directory, &mut files);
    files.retain(|file| std::fs::metadata(file).unwrap().len() > 0);
    files
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { list(&path, files) } else { files.push(path) }
    }
}

/// A value of /proc/…/status in bytes.
fn memory(daemon: &Daemon, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = status.lines().find(|l| l.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Raises the limit on open files, to allow more than a thousand connections, for the test and for the
/// daemon.
fn more_files() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(16_384), hard).unwrap();
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs().cast_signed()
}
