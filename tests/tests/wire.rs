//! Sends bytes to the daemon and to carbon's own receivers: lines, datagrams, and pickles of every protocol
//! version of Python. The daemon must accept the same points.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};

use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::oracle::Oracle;
use plumbago_tests::send::Point;
use plumbago_tests::wait::{wait_ok, wait_until};

const NOW: i64 = 1_700_000_000;

/// The id of an agreed difference, and the points that Plumbago accepts instead of carbon's.
type Differs<'a> = Option<(&'static str, &'a [(&'a str, i64, f64)])>;

/// The bytes of one connection, in which `N` stands for a unique name.
type Row = (&'static str, Differs<'static>);

const T: i64 = 1_699_999_990;

const LINES: &[Row] = &[
    ("N.a 1 1699999990\nN.b 2.5 1699999991\n", None),
    ("N.a 1 1699999990\r\nN.b 2.5 1699999991\r\n", None),
    ("  N.a\t1 \t 1699999990  \n", None),
    ("\n\n \n\r\nN.a 1 1699999990\n\n", None),
    ("N.a 1 1699999990.999\nN.b 1 1.69999999e9\n", None),
    ("N.a +1e3 1699999990\nN.b .5 1699999990\nN.c 5. 1699999990\nN.d -1.5E-3 +1699999990\n", None),
    ("N.a 1 -1\nN.b 2 -1.9\nN.c 3 -1.0\n", None),
    ("N.a nan 1699999990\nN.b -nan 1699999990\nN.c NaN 1699999990\nN.d 4 1699999990\n", None),
    ("N.a 0x10 1699999990\nN.b 1,5 1699999990\nN.c N/A 1699999990\nN.d 4 1699999990\n", None),
    ("N.a 1\nN.b\nN.c 1 1699999990 extra\nN.d 4 1699999990\n", None),
    ("N.a 1 1699999990\nN.b 2 1699999990", None),
    ("N.a 1 1699999990\nN.a 2 1699999990\nN.a 3 1699999989\n", None),
    ("N.a 0.1 1699999990\nN.b 9007199254740993 1699999990\nN.c 1e-320 1699999990\n", None),
    ("N..a 1 1699999990\n.N.b. 2 1699999990\n", None),
    ("N.m\u{fc}nchen 1 1699999990\nN.\u{65e5}\u{672c} 2 1699999990\n", None),
    ("N.[a] 1 1699999990\nN.* 2 1699999990\nN.a/b 3 1699999990\nN.a%20b 4 1699999990\n", None),
    ("N.a;y=2;x=1 1 1699999990\nN.b{y=\"2\",x=\"1\"} 2 1699999990\n", None),
    ("N.a;x 1 1699999990\nN.b 2 1699999990\n", Some(("line.bad-tags", &[("N.b", T, 2.0)]))),
    ("N\0a 1 1699999990\nN.b 1\0 1699999990\nN.c 3 1699999990\n", Some(("line.control", &[("N.c", T, 3.0)]))),
    ("N.a 1_000 1699999990\nN.b 2 1699999990\n", Some(("line.control", &[("N.b", T, 2.0)]))),
    ("N.a\u{a0}1\u{a0}1699999990\nN.b 2 1699999990\n", Some(("line.control", &[("N.b", T, 2.0)]))),
    ("N.a 1 nan\nN.b 2 1699999990\n", Some(("line.bad-time", &[("N.b", T, 2.0)]))),
    ("N.a 1 inf\nN.b 2 1699999990\n", Some(("line.bad-time", &[("N.b", T, 2.0)]))),
];

#[test]
fn lines_mean_what_they_mean_to_carbon() {
    let Some(mut wire) = Wire::start("line.") else { return };
    for (index, (text, differs)) in LINES.iter().enumerate() {
        let name = format!("line{index}");
        let bytes = text.replace('N', &name).into_bytes();
        wire.send_line(&bytes, bytes.len());
        wire.expect("line", &name, &bytes, *differs);
        // The same bytes one by one, with another name.
        let name = format!("drip{index}");
        let bytes = text.replace('N', &name).into_bytes();
        wire.send_line(&bytes, 1);
        wire.expect("line", &name, &bytes, *differs);
        let name = format!("gram{index}");
        let bytes = text.replace('N', &name).into_bytes();
        wire.send_datagram(&bytes);
        wire.expect("udp", &name, &bytes, *differs);
    }
    let bytes = b"return.a 1 1699999990\rreturn.b 2 1699999990\nreturn.c 3 1699999990\n";
    wire.send_line(bytes, bytes.len());
    wire.expect("line", "return", bytes, None);
    wire.send_datagram(bytes);
    wire.expect("udp", "return", bytes, Some(("line.lone-return", &[("return.c", T, 3.0)])));
    let bytes = b"utf8.a 1 1699999990\nutf8.\xff.b 2 1699999990\nutf8.c 3 1699999990\n";
    wire.send_line(bytes, bytes.len());
    wire.expect(
        "line",
        "utf8",
        bytes,
        Some(("line.invalid-utf8", &[("utf8.a", T, 1.0), ("utf8.c", T, 3.0)])),
    );
    let long = format!("long.a 1 1699999990\n{} 2 1699999990\nlong.c 3 1699999990\n", "x".repeat(20_000));
    wire.send_line(long.as_bytes(), 1000);
    wire.expect(
        "line",
        "long",
        long.as_bytes(),
        Some(("line.long-line", &[("long.a", T, 1.0), ("long.c", T, 3.0)])),
    );
    wire.settle();
}

#[test]
fn pickles_mean_what_they_mean_to_carbon() {
    let Some(mut wire) = Wire::start("pickle.") else { return };
    let frames = wire.oracle.pickles();
    assert!(frames.len() > 90, "{frames:?}");
    let mut stream = TcpStream::connect(wire.daemon.address("pickle tcp")).unwrap();
    for (index, (_, frame)) in frames.iter().enumerate() {
        // All frames over one connection. Some are sent in small pieces, which split the length and the body.
        for piece in frame.chunks(if index % 3 == 0 { 3 } else { frame.len() }) {
            stream.write_all(piece).unwrap();
        }
        let carbons = wire.oracle.parse("pickle", frame);
        wire.keep(carbons);
    }
    wire.settle();
}

/// The daemon, carbon, and the points expected in the daemon.
struct Wire {
    _setup: Setup,
    daemon: Daemon,
    oracle: Oracle,
    agreed: Differences,
    wanted: BTreeMap<String, BTreeMap<i64, f64>>,
}

impl Wire {
    fn start(differences: &str) -> Option<Self> {
        let mut oracle = Oracle::start()?;
        oracle.set_clock(NOW);
        let mut setup = Setup::new();
        let daemon = setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n").clock(NOW).start();
        let agreed = Differences::listed(differences);
        Some(Self { _setup: setup, daemon, oracle, agreed, wanted: BTreeMap::new() })
    }

    fn send_line(&self, bytes: &[u8], piece: usize) {
        let mut stream = TcpStream::connect(self.daemon.line()).unwrap();
        stream.set_nodelay(true).unwrap();
        for piece in bytes.chunks(piece) {
            stream.write_all(piece).unwrap();
        }
    }

    fn send_datagram(&self, bytes: &[u8]) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(bytes, self.daemon.address("line udp")).unwrap();
    }

    /// Records the points that carbon accepts from these bytes, or the agreed ones instead.
    fn expect(&mut self, kind: &str, name: &str, bytes: &[u8], differs: Differs) {
        let carbons = self.oracle.parse(kind, bytes);
        let Some((id, instead)) = differs else { return self.keep(carbons) };
        let ours: Vec<Point> =
            instead.iter().map(|(n, t, v)| Point::new(n.replace('N', name), *t, *v)).collect();
        if ours != carbons {
            self.agreed.seen(id);
        }
        self.keep(ours);
    }

    /// The last point of a slot wins. Empty components are removed, as in whisper's directories.
    fn keep(&mut self, points: impl IntoIterator<Item = Point>) {
        for point in points {
            let (path, tags) = point.name.split_once(';').map_or((&*point.name, None), |(p, t)| (p, Some(t)));
            let folded: Vec<&str> = path.split('.').filter(|c| !c.is_empty()).collect();
            let name = folded.join(".") + &tags.map(|t| format!(";{t}")).unwrap_or_default();
            self.wanted.entry(name).or_default().insert(point.timestamp, point.value);
        }
    }

    /// Waits until the daemon has the expected names and points. Fails if it has further names or points.
    fn settle(self) {
        // Series with tags are not in the tree.
        let wanted: Vec<&String> = self.wanted.keys().filter(|n| !n.contains(';')).collect();
        wait_ok("the names", || {
            let names = self.daemon.names();
            let missing: Vec<_> = wanted.iter().filter(|n| !names.contains(n)).take(20).collect();
            let more: Vec<_> = names.iter().filter(|n| !self.wanted.contains_key(*n)).take(20).collect();
            let agrees = missing.is_empty() && more.is_empty();
            if agrees { Ok(()) } else { Err(format!("missing {missing:?}\nunwanted {more:?}")) }
        });
        for (name, slots) in &self.wanted {
            // A name may contain characters that are special in a target.
            let target = match name.rsplit_once('.') {
                Some((parent, _)) if !name.contains(';') => format!("{parent}.*"),
                _ => name.clone(),
            };
            let mut known = BTreeMap::new();
            wait_until(&format!("the points of {name}"), || {
                let series = self.daemon.render(&target, NOW - 3600, NOW, NOW);
                known = series.iter().find(|s| s.name == *name).map(|s| s.known()).unwrap_or_default();
                !known.is_empty()
            });
            let bits = |slots: &BTreeMap<i64, f64>| -> Vec<(i64, u64)> {
                slots.iter().map(|(t, v)| (*t, v.to_bits())).collect()
            };
            assert_eq!(bits(&known), bits(slots), "{name}: {known:?} instead of {slots:?}");
        }
        self.daemon.stop_well();
        self.agreed.assert_all_seen();
    }
}
