//! The listeners over real sockets, with a sink that collects the points.

use std::io::Write;
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Daemon, NOW, config, frame, listener, section};
use plumbago_ingest::{Config, Ingest, Reject, Rules};
use plumbago_model::ManualClock;
use plumbago_telemetry::Registry;
use plumbago_tests::wait::eventually;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_listener_takes_its_protocol() {
    let daemon = Daemon::start(&config());
    daemon.send(daemon.line(), b"a.b 1 1700000000\r\na..c;y=1;x=2 2.5 -1\n");
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.send_to(b"udp.a 3 1700000001\nudp.b 4 1700000002", daemon.address("udp")).unwrap();
    daemon.send(daemon.pickle(), &frame(b"(l(S'pickled'\n(L1700000003L\nS'5.5'\ntta."));
    let message = b"\x0a\x16\x0a\x03p.b\x12\x0f\x08\x80\xe2\xcf\xaa\x06\x11\0\0\0\0\0\0\xf8\x3f";
    daemon.send(daemon.protobuf(), &frame(message));
    eventually("6 points to be accepted", || daemon.stats().accepted() == 6).await;
    let stats = daemon.stop().await;
    assert_eq!(
        stats.points,
        [
            ("a.b".into(), 1_700_000_000, 1.0),
            ("a.c;x=2;y=1".into(), NOW, 2.5),
            ("p.b".into(), 1_700_000_000, 1.5),
            ("pickled".into(), 1_700_000_003, 5.5),
            ("udp.a".into(), 1_700_000_001, 3.0),
            ("udp.b".into(), 1_700_000_002, 4.0),
        ]
    );
    for (name, received) in [("line", 2), ("udp", 2), ("pickle", 1), ("protobuf", 1)] {
        assert_eq!(stats.stats().of(listener(name)).received(), received, "{name}");
    }
}

/// On a single thread, the listener cannot accept anything before the stop.
#[tokio::test]
async fn senders_that_nobody_has_accepted_yet_are_read_at_the_end() {
    let daemon = Daemon::start(&config());
    for n in 0..20 {
        let mut sender = TcpStream::connect(daemon.line()).unwrap();
        writeln!(sender, "waits.{n} 1 1700000000").unwrap();
    }
    assert_eq!(daemon.stop().await.points.len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_senders_and_idle_ones_do_not_touch_a_good_one() {
    let daemon = Daemon::start(&config());
    let mut left_open = Vec::new();
    for i in 0..1000 {
        let mut idle =
            TcpStream::connect([daemon.line(), daemon.pickle(), daemon.protobuf()][i % 3]).unwrap();
        // Some send nothing, some stop in the middle of a line or of a frame.
        if i % 2 == 0 {
            idle.write_all(if i % 3 == 0 { b"half.a.line 1 17" } else { b"\0\x0f\xff\xffhalf a frame" })
                .unwrap();
        }
        left_open.push(idle);
    }
    let address = daemon.line();
    let good = std::thread::spawn(move || {
        let mut good = TcpStream::connect(address).unwrap();
        for i in 0..20_000 {
            good.write_all(format!("good.metric{} {i} 1700000000\n", i % 10).as_bytes()).unwrap();
        }
    });
    let garbage: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let lines = garbage.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
    for _ in 0..5 {
        daemon.send(daemon.line(), &garbage);
        daemon.send(daemon.pickle(), &frame(&garbage));
        daemon.send(daemon.pickle(), b"GET / HTTP/1.1\r\n\r\n");
        daemon.send(daemon.protobuf(), &frame(&garbage));
    }
    good.join().unwrap();
    eventually("the points to be accepted", || {
        daemon.stats().accepted() >= 20_000 && daemon.stats().rejected() >= 5 * lines as u64 + 15
    })
    .await;
    eventually("the connections to open", || daemon.stats().active_connections() == 1000).await;
    drop(left_open);
    eventually("the connections to end", || daemon.stats().active_connections() == 0).await;
    let stats = daemon.stop().await;
    let good = stats.points.iter().filter(|(name, ..)| name.starts_with("good.metric")).count();
    assert_eq!(good, 20_000);
    let stats = stats.stats();
    assert_eq!(stats.of(listener("line")).rejected_for(Reject::HalfLine), 167 + 5);
    assert_eq!(stats.of(listener("pickle")).rejected_for(Reject::FrameTooLarge), 5);
    assert_eq!(stats.of(listener("pickle")).rejected_for(Reject::Frame), 5);
    assert_eq!(stats.received(), stats.accepted() + stats.rejected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_is_behind_stops_tcp_and_drops_datagrams() {
    let daemon = Daemon::start(&config());
    daemon.sink.hold();
    let line = b"held.metric 1 1700000000\n".repeat(1000);
    let mut sender = TcpStream::connect(daemon.line()).unwrap();
    sender.write_all(&line).unwrap();
    eventually("a push to wait for the sink", || daemon.sink.waiting.load(Ordering::Relaxed) == 1).await;
    // Nothing reads from the connection now: the kernel's buffers fill up, and then a write fails.
    sender.set_nonblocking(true).unwrap();
    let mut written = line.len();
    while let Ok(more) = sender.write(&line[written % line.len()..]) {
        written += more;
        assert!(written < 10_000 * line.len(), "the sender is not made to wait");
    }
    let written = written / 25;
    assert!(daemon.stats().received() < 500_000, "{}", daemon.stats().received());
    assert_eq!(daemon.stats().accepted(), 0);

    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.send_to(b"udp.a 3 1700000001\nudp.b 4 1700000002", daemon.address("udp")).unwrap();
    eventually("two dropped points", || daemon.stats().rejected_for(Reject::Overflow) == 2).await;

    daemon.sink.release();
    drop(sender);
    eventually("the points to be accepted and the connections to end", || {
        daemon.stats().accepted() >= written as u64 && daemon.stats().active_connections() == 0
    })
    .await;
    let stats = daemon.stop().await;
    assert!(stats.points.len() >= written);
    assert_eq!(stats.stats().received(), stats.stats().accepted() + stats.stats().rejected());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_takes_what_the_kernel_has_taken() {
    let daemon = Daemon::start(&config());
    let mut senders = Vec::new();
    for i in 0..20 {
        let mut sender = TcpStream::connect(daemon.line()).unwrap();
        sender.write_all(b"first 0 1700000000\n").unwrap();
        senders.push((i, sender));
    }
    eventually("20 points to be accepted", || daemon.stats().accepted() == 20).await;
    for (i, sender) in &mut senders {
        sender.write_all(format!("last.metric{i} 1 1700000000\nhalf").as_bytes()).unwrap();
    }
    let stats = daemon.stop().await;
    assert_eq!(stats.points.iter().filter(|(name, ..)| name.starts_with("last")).count(), 20);
    assert_eq!(stats.stats().rejected_for(Reject::HalfLine), 20);
    assert_eq!(stats.stats().active_connections(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_loses_nothing_that_waits_for_the_sink() {
    let daemon = Daemon::start(&config());
    daemon.sink.hold();
    // There are more connections than batches that may wait for the sink. Each sends two pieces.
    let mut senders = Vec::new();
    for i in 0..100 {
        let mut sender = TcpStream::connect(daemon.line()).unwrap();
        sender.write_all(format!("first{i} 1 1700000000\n").as_bytes()).unwrap();
        senders.push(sender);
    }
    eventually("64 points to be received", || daemon.stats().received() == 64).await;
    for (i, sender) in senders.iter_mut().enumerate() {
        sender.write_all(format!("second{i} 1 1700000000\n").as_bytes()).unwrap();
    }
    eventually("the connections to open", || daemon.stats().active_connections() == 100).await;
    let (sink, address) = (Arc::clone(&daemon.sink), daemon.line());
    let (stopped, ()) = tokio::join!(daemon.stop(), async {
        eventually("the listener to close", || TcpStream::connect(address).is_err()).await;
        sink.release();
    });
    assert_eq!(stopped.points.len(), 200);
    assert_eq!(stopped.stats().accepted(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_give_way_and_no_one_else() {
    let mut config = config();
    section(&mut config, "line").connections_max = 3;
    let daemon = Daemon::start(&config);
    let mut open: Vec<_> = (0..3).map(|_| TcpStream::connect(daemon.line()).unwrap()).collect();
    open[0].write_all(b"a 1 1700000000\n").unwrap();
    eventually("a point to be accepted and the connections to open", || {
        daemon.stats().accepted() == 1 && daemon.stats().active_connections() == 3
    })
    .await;
    // The fourth connection has to wait, and so does its point.
    let mut fourth = TcpStream::connect(daemon.line()).unwrap();
    fourth.write_all(b"fourth 1 1700000000\n").unwrap();
    daemon.clock.advance(50);
    open[0].write_all(b"b 1 1700000000\n").unwrap();
    eventually("2 points to be accepted", || daemon.stats().accepted() == 2).await;
    daemon.clock.advance(11);
    eventually("3 points to be accepted", || daemon.stats().accepted() == 3).await;
    open[0].write_all(b"c 1 1700000000\n").unwrap();
    eventually("4 points to be accepted", || daemon.stats().accepted() == 4).await;
    let text = daemon.registry.prometheus();
    let evicted = r#"plumbago_ingest_connections_closed_total{listener="line",cause="evicted"} 1"#;
    assert!(text.contains(evicted), "{text}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_are_closed_when_asked_for() {
    let mut config = config();
    section(&mut config, "line").idle_timeout = Duration::from_millis(200);
    let daemon = Daemon::start(&config);
    let _idle = TcpStream::connect(daemon.line()).unwrap();
    eventually("the connection", || daemon.stats().of(listener("line")).connections() == 1).await;
    eventually("the connections to end", || daemon.stats().active_connections() == 0).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_and_rules_change_under_open_connections() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rewrite-rules.conf");
    std::fs::write(&file, "[pre]\n^old\\. = new.\n").unwrap();
    let config = Config { rewrite_rules: file.to_str().unwrap().into(), ..config() };
    let daemon = Daemon::start(&config);
    let mut sender = TcpStream::connect(daemon.line()).unwrap();
    sender.write_all(b"old.a 1 1700000000\n").unwrap();
    eventually("a point to be accepted", || daemon.stats().accepted() == 1).await;
    std::fs::write(&file, "[pre]\n( = x\n").unwrap();
    let error = daemon.handle.reload(&config).unwrap_err().to_string();
    assert!(error.contains("rewrite-rules.conf:2: "), "{error}");
    sender.write_all(b"old.b 1 1700000000\n").unwrap();
    eventually("2 points to be accepted", || daemon.stats().accepted() == 2).await;
    std::fs::write(&file, "[pre]\n^old\\. = newer.\n").unwrap();
    daemon.handle.reload(&config).unwrap();
    sender.write_all(b"old.c 1 1700000000\n").unwrap();
    eventually("3 points to be accepted", || daemon.stats().accepted() == 3).await;
    let names: Vec<_> = daemon.stop().await.points.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["new.a", "new.b", "newer.c"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_frames_share_a_bounded_memory() {
    let mut config = config();
    config.frame_memory_bytes = 2 << 20;
    let daemon = Daemon::start(&config);
    // A list of 1500 items in one frame of about 100 kB, sent in two halves.
    let item = |i: usize| format!("(S'{}.{i}'\n(I1700000000\nI1\ntta", "n".repeat(40));
    let large = frame(format!("(l{}.", (0..1500).map(item).collect::<String>()).as_bytes());
    let mut senders: Vec<_> = (0..10).map(|_| TcpStream::connect(daemon.pickle()).unwrap()).collect();
    for (half, read) in [(&large[..90_000], 10 * 90_000), (&large[90_000..], 10 * large.len())] {
        for sender in &mut senders {
            sender.write_all(half).unwrap();
        }
        let bytes = || daemon.registry.value("plumbago_ingest_bytes_total");
        eventually("the bytes to be read", || bytes() == Some(read as f64)).await;
    }
    eventually("the points to be accepted", || daemon.stats().accepted() == 15_000).await;
    let stats = daemon.stop().await;
    assert_eq!(stats.stats().rejected(), 0);
}

#[tokio::test]
async fn an_address_in_use_is_reported() {
    let daemon = Daemon::start(&config());
    let mut config = config();
    section(&mut config, "pickle").listen = daemon.line().to_string().into();
    let (sink, clock) = (Arc::clone(&daemon.sink), Arc::new(ManualClock::at(0)));
    let rules = Rules::load(config.rule_files()).unwrap();
    let error = Ingest::bind(&config, rules, sink, clock, &Registry::new()).err().unwrap().to_string();
    assert!(error.starts_with(&format!("ingest.pickle.listen: cannot bind {}", daemon.line())), "{error}");
    assert!(error.contains("stop the program that uses it"), "{error}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listeners_can_be_switched_off() {
    let mut config = config();
    config.udp.listen = "".into();
    section(&mut config, "protobuf").listen = "".into();
    let daemon = Daemon::start(&config);
    assert_eq!(["udp", "protobuf"].map(|name| daemon.addresses.of(listener(name))), [None, None]);
    // A sender may shut down its side of the connection. Its points are still accepted.
    let mut sender = TcpStream::connect(daemon.line()).unwrap();
    sender.write_all(b"a 1 1700000000\n").unwrap();
    sender.shutdown(Shutdown::Write).unwrap();
    eventually("a point to be accepted and the connections to end", || {
        daemon.stats().accepted() == 1 && daemon.stats().active_connections() == 0
    })
    .await;
    assert_eq!(daemon.sink.pushes.load(Ordering::Relaxed), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_has_several_addresses() {
    let mut config = config();
    for name in ["line", "pickle"] {
        section(&mut config, name).listen = "127.0.0.1:0, 127.0.0.1:0, 127.0.0.2:0".into();
        section(&mut config, name).connections_max = 2;
    }
    config.udp.listen = "127.0.0.1:0, 127.0.0.2:0".into();
    let daemon = Daemon::start(&config);
    let of = |name: &str| {
        let found = daemon.addresses.iter().filter(|(other, _)| *other == listener(name));
        found.map(|(_, address)| address).collect::<Vec<_>>()
    };
    assert_eq!(["line", "pickle", "udp", "protobuf"].map(|name| of(name).len()), [3, 3, 2, 1]);
    assert_eq!(of("line")[0], daemon.line());
    for (n, address) in of("line").into_iter().enumerate() {
        daemon.send(address, format!("line.{n} 1 1700000000\n").as_bytes());
        eventually("the connection to end", || daemon.stats().active_connections() == 0).await;
    }
    for address in of("pickle") {
        daemon.send(address, &frame(b"(l(S'pickled'\n(L1700000003L\nS'5.5'\ntta."));
        eventually("the connection to end", || daemon.stats().active_connections() == 0).await;
    }
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    for address in of("udp") {
        datagrams.send_to(b"udp.a 3 1700000001", address).unwrap();
    }
    eventually("8 points to be accepted", || daemon.stats().accepted() == 8).await;

    // The limit on connections holds for all addresses together.
    let mut open =
        of("line").into_iter().map(|address| TcpStream::connect(address).unwrap()).collect::<Vec<_>>();
    for (n, stream) in open.iter_mut().enumerate() {
        writeln!(stream, "limited.{n} 1 1700000000").unwrap();
    }
    eventually("two of three points to be accepted", || daemon.stats().accepted() == 10).await;
    open.clear();
    eventually("the third point to be accepted", || daemon.stats().accepted() == 11).await;
    let stopped = daemon.stop().await;
    assert_eq!(stopped.stats().of(listener("udp")).received(), 2);
    assert_eq!(stopped.points.iter().filter(|(name, ..)| name.starts_with("limited")).count(), 3);
}

#[tokio::test]
async fn each_address_in_use_is_reported_by_its_own_text() {
    let daemon = Daemon::start(&config());
    let mut config = config();
    section(&mut config, "line").listen = format!("127.0.0.1:0, {}", daemon.line()).into();
    let (sink, clock) = (Arc::clone(&daemon.sink), Arc::new(ManualClock::at(0)));
    let rules = Rules::load(config.rule_files()).unwrap();
    let error = Ingest::bind(&config, rules, sink, clock, &Registry::new()).err().unwrap().to_string();
    assert!(error.starts_with(&format!("ingest.line.listen: cannot bind {}", daemon.line())), "{error}");
    daemon.stop().await;
}
