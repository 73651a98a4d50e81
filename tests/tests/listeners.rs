//! Listeners with several addresses, compressed streams, and points by HTTP POST.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::senders::{SECONDS, connect, now, relayed, wait_for_points};
use flate2::write::GzEncoder;
use nix::sys::signal::Signal;
use plumbago_tests::capture::own_address;
use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::{Point, lines};
use plumbago_tests::wait::{HANG, wait_until};
use serde_json::{Value, json};

/// How far compressed bombs and incomplete streams may increase the memory of the daemon.
const GROWTH_BYTES: u64 = 200 << 20;

/// Compresses lines as carbon-c-relay does, with the same calls of zlib and liblz4 as its `server.c`: pieces of at
/// most 32 KiB, each flushed, without an end of the stream. The connection stays open.
const SENDER: &str = r#"
import ctypes, signal, socket, sys, zlib
transport, port, path = sys.argv[1:]
stream = socket.create_connection(("127.0.0.1", int(port)))
data = open(path, "rb").read()
pieces = [data[i:i + 32768] for i in range(0, len(data), 32768)]
if transport == "gzip":
    deflate = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, 15 + 16, 8, zlib.Z_DEFAULT_STRATEGY)
    for piece in pieces:
        stream.sendall(deflate.compress(piece) + deflate.flush(zlib.Z_PARTIAL_FLUSH))
else:
    lz4 = ctypes.CDLL("liblz4.so.1")
    lz4.LZ4F_compressFrameBound.restype = lz4.LZ4F_compressFrame.restype = ctypes.c_size_t
    lz4.LZ4F_compressFrameBound.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
    lz4.LZ4F_compressFrame.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
    room = lz4.LZ4F_compressFrameBound(32768, None)
    for piece in pieces:
        frame = ctypes.create_string_buffer(room)
        length = lz4.LZ4F_compressFrame(frame, room, piece, len(piece), None)
        stream.sendall(frame.raw[:length])
signal.pause()
"#;

#[test]
fn streams_of_zlib_and_liblz4() {
    let Some(python) = counterpart::python() else { return };
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).start();
    for transport in ["gzip", "lz4"] {
        let has_library =
            || Command::new(&python).args(["-c", "import ctypes; ctypes.CDLL('liblz4.so.1')"]).output();
        if transport == "lz4" && !has_library().unwrap().status.success() {
            return counterpart::skip("liblz4.so.1").unwrap_or_default();
        }
        let points = relayed(transport);
        let file = setup.file("lines", &lines(&points));
        let mut command = Command::new(&python);
        command.args(["-c", SENDER, transport, &daemon.line().port().to_string()]).arg(file);
        let mut sender = Guarded::start(command, &setup.path().join("sender.log"));
        wait_for_points(&daemon, &points);
        assert!(sender.runs(), "{}", sender.output());
    }
    assert_eq!(daemon.ledger().rejected, 0);
    daemon.stop_well();
}

/// carbon-c-relay with every transport that it was compiled with. Debian's package has none of the compressed
/// transports. `PLUMBAGO_TEST_CARBON_C_RELAY` may name a program that has them.
#[test]
fn carbon_c_relay_with_its_transports() {
    let given = std::env::var_os("PLUMBAGO_TEST_CARBON_C_RELAY").map(PathBuf::from);
    let relay =
        || given.as_ref().map(Command::new).or_else(|| Some(counterpart::debian("carbon-c-relay")?.0));
    let Some(mut version) = relay() else { return };
    let version = String::from_utf8(version.arg("-v").output().unwrap().stdout).unwrap();
    let supported =
        version.lines().find_map(|line| line.strip_prefix("enabled support for: ")).unwrap_or_default();
    for transport in ["gzip", "lz4", "snappy"] {
        if !supported.split_whitespace().any(|other| other == transport) {
            println!("this carbon-c-relay cannot send {transport}: {version}");
            continue;
        }
        let mut setup = Setup::new();
        if transport == "snappy" {
            setup.set("ingest.line.compression", "snappy");
        }
        let daemon = setup.schemas(SECONDS).start();
        let address = own_address();
        let configuration = setup.file(
            "relay.conf",
            &format!(
                "listen type linemode {address} proto tcp;\ncluster plumbago forward {} proto tcp transport {transport};\nmatch * send to plumbago stop;\n",
                daemon.line()
            ),
        );
        let mut command = relay().unwrap();
        command.arg("-f").arg(configuration).args(["-H", "tests"]);
        let mut relay = Guarded::start(command, &setup.path().join("relay.log"));
        let points = relayed(transport);
        let (first, later) = points.split_at(2);
        let mut connection = connect(address, &mut relay);
        connection.write_all(lines(first).as_bytes()).unwrap();
        wait_for_points(&daemon, first);
        connection.write_all(lines(later).as_bytes()).unwrap();
        wait_for_points(&daemon, &points);
        relay.signal(Signal::SIGTERM);
        relay.wait();
        wait_until("the connection to end", || {
            daemon.counters().sum("plumbago_ingest_active_connections") == 0
        });
        assert_eq!(daemon.ledger().rejected, 0, "{transport}");
        daemon.stop_well();
    }
}

#[test]
fn several_addresses_are_printed_checked_and_need_a_restart() {
    let mut setup = Setup::new();
    setup.schemas(SECONDS).unset("ingest.line.listen").set("ingest.udp.listen", "127.0.0.1:0, 127.0.0.1:0");
    let file = |listen: &str| format!("[ingest.line]\nlisten = {listen}\n");
    setup.file("plumbago.toml", &file("[\"127.0.0.1:0\", \"127.0.0.2:0\"]"));
    let daemon = setup.start();
    let addresses = |title: &str| -> Vec<String> {
        let start = format!("listening {title} ");
        daemon.stdout().iter().filter_map(|line| Some(line.strip_prefix(&start)?.to_owned())).collect()
    };
    assert_eq!((addresses("line tcp").len(), addresses("line udp").len()), (2, 2));
    for (n, address) in addresses("line tcp").iter().enumerate() {
        let point = Point::new(format!("address{n}"), now(), 1.0);
        TcpStream::connect(address).unwrap().write_all(lines([&point]).as_bytes()).unwrap();
        wait_for_points(&daemon, &[point]);
    }
    setup.file("plumbago.toml", &file("[\"127.0.0.1:1\", \"127.0.0.2:1\"]"));
    daemon.signal(Signal::SIGHUP);
    let said = "ingest.line.listen was changed to [\"127.0.0.1:1\",\"127.0.0.2:1\"] and needs a restart";
    wait_until("the log to name the change", || daemon.log().contains(said));
    daemon.stop_well();

    let shown = setup.run(&["config", "show"]).output;
    assert!(shown.contains("listen = [\"127.0.0.1:1\",\"127.0.0.2:1\"]"), "{shown}");
    setup.file("plumbago.toml", &file("[\"127.0.0.1:1\", \"there\", \"127.0.0.1:1\"]"));
    let checked = setup.run(&["config", "check"]);
    assert_eq!(checked.status.code(), Some(3), "{}", checked.output);
    for text in ["\"there\" is not an address", "127.0.0.1:1 is listed twice"] {
        assert!(checked.output.contains(text), "{}", checked.output);
    }
}

/// Posts points with Python's standard library: real pickles, `gzip`, `urllib`.
const POSTS: &str = r#"
import gzip, json, pickle, sys, urllib.request, urllib.error
url, now = "http://127.0.0.1:" + sys.argv[1] + "/", int(sys.argv[2])
def post(body, **headers):
    names = {"kind": "Content-Type", "coding": "Content-Encoding"}
    request = urllib.request.Request(url, body, {names[k]: v for k, v in headers.items()})
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        answer = error
    return [answer.status, json.loads(answer.read())]
points = [("posted.pickle%d" % i, (now, i / 8)) for i in range(500)]
lines = "".join("posted.gzip%d %r %d\n" % (i, i / 8, now) for i in range(500)).encode()
print(json.dumps([
    post(pickle.dumps(points, 2), kind="application/python-pickle"),
    post(pickle.dumps(points, 4), kind="application/python-pickle"),
    post(gzip.compress(lines), coding="gzip"),
    post(lines.replace(b"gzip", b"plain") + b"one bad line\nposted.last 1 %d" % now),
    post(gzip.compress(b"x" * (5 << 20)), coding="gzip"),
    post(b"\0" * (5 << 20)),
    post(b"no pickle", kind="application/python-pickle"),
]))
"#;

#[test]
fn posts_of_python() {
    let Some(python) = counterpart::python() else { return };
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).set("ingest.http.listen", "127.0.0.1:0").start();
    let now = now();
    let port = daemon.address("points http").port().to_string();
    let output = Command::new(python).args(["-c", POSTS, &port, &now.to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<(u16, Value)> = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text} {}", String::from_utf8_lossy(&output.stderr)));
    let counts: Vec<_> = answers
        .iter()
        .map(|(status, answer)| (*status, answer["accepted"].as_u64(), answer["refused"].as_u64()))
        .collect();
    let expected =
        [(200, 500, 0), (200, 500, 0), (200, 500, 0), (200, 501, 1), (413, 0, 1), (413, 0, 1), (400, 0, 1)];
    assert_eq!(counts, expected.map(|(status, accepted, refused)| (status, Some(accepted), Some(refused))));
    assert_eq!(answers[3].1["reasons"], json!({"value": 1}));
    let point = |name: &str, i: usize| Point::new(format!("posted.{name}{i}"), now, i as f64 / 8.0);
    let points: Vec<_> =
        ["pickle", "gzip", "plain"].iter().flat_map(|name| [point(name, 0), point(name, 499)]).collect();
    wait_for_points(&daemon, &points);
    assert_eq!(http::get(daemon.address("points http"), "/").body, "OK\n");
    let ledger = daemon.ledger_at(2001 + 4);
    assert_eq!(ledger.rejected, 4);
    daemon.stop_well();
}

#[test]
fn hostile_streams_and_requests_harm_nobody() {
    let mut setup = Setup::new();
    let daemon = setup.schemas(SECONDS).set("ingest.http.listen", "127.0.0.1:0").start();
    let before = daemon.memory("VmRSS");
    let (mut good, over) = (daemon.sender(), Arc::new(AtomicBool::new(false)));
    let sender = {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            let mut sent = 0;
            while !over.load(Ordering::SeqCst) {
                good.send(&[Point::new("good", now(), 1.0)]);
                sent += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            sent
        })
    };
    let bomb = bomb();
    let mut open = Vec::new();
    for round in 0..20 {
        for bytes in [
            &bomb[..],
            b"\x1f\x8bgarbage",
            b"\x04\x22\x4d\x18garbage, and more of it",
            b"\xff\x06\0\0sNaPpY\0\xff\xff\xff",
            b"\x04\x22\x4d\x18\x60\x70\x73\xff\xff\x3f\x80half a block of 4 MiB",
            &bomb[..1000],
        ] {
            send(&daemon, "line tcp", bytes);
        }
        let post = |headers: &str, body: &[u8]| {
            let length = body.len();
            let head = format!(
                "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
            );
            send(&daemon, "points http", &[head.as_bytes(), body].concat());
        };
        post("Content-Encoding: gzip\r\n", &bomb);
        post("Content-Type: application/python-pickle\r\n", &b"]2a".repeat(1000));
        send(&daemon, "points http", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
        send(&daemon, "points http", b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzzz");
        send(&daemon, "points http", b"not HTTP at all\r\n\r\n");
        // Slow senders: half of the headers, half a body, half a block.
        for (listener, bytes) in [
            ("points http", &b"POST / HTT"[..]),
            ("points http", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nslow"),
            ("line tcp", b"\x1f\x8b\x08"),
            ("line tcp", b"\x04\x22\x4d\x18\x60\x40\x82\x00\x80\0\0"),
        ] {
            let mut stream = TcpStream::connect(daemon.address(listener)).unwrap();
            stream.write_all(bytes).unwrap();
            open.push(stream);
        }
        let ready = http::get(daemon.admin(), "/readyz");
        assert_eq!(ready.status, 200, "round {round}: {}", ready.body);
    }
    over.store(true, Ordering::SeqCst);
    let sent: u64 = sender.join().unwrap();
    wait_until("the points of the good sender", || daemon.ledger().received >= sent);
    let after = daemon.memory("VmHWM");
    println!("memory {} MiB before, at most {} MiB", before >> 20, after >> 20);
    assert!(after < before + GROWTH_BYTES, "{after} bytes of memory, {before} before");
    let ledger: Value = serde_json::from_str(&http::get(daemon.admin(), "/admin/ledger").body).unwrap();
    assert_eq!(ledger["missing"].as_i64(), Some(0), "{ledger}");
    for reason in ["damaged", "amplified", "half_frame", "frame", "frame_too_large", "request"] {
        assert!(ledger["rejected_by_reason"][reason].as_u64() > Some(0), "{reason}: {ledger}");
    }
    assert!(!daemon.log().contains("panicked"), "{}", daemon.log());
    daemon.stop_well();
    drop(open);
}

/// A line of 200 MiB, compressed to about a thousandth.
fn bomb() -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..200 {
        gzip.write_all(&piece).unwrap();
    }
    gzip.finish().unwrap()
}

/// Sends bytes and waits until the daemon has handled them.
fn send(daemon: &Daemon, listener: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(daemon.address(listener)).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    // The daemon may close the connection early.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}
