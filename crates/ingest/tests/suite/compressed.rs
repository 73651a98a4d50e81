//! Compressed streams over real sockets.

use std::io::Write;
use std::net::TcpStream;

use crate::support::{Daemon, config, listener, section};
use crate::tls;
use flate2::write::GzEncoder;
use plumbago_ingest::Reject;
use plumbago_ingest::protocol::Compression;
use plumbago_tests::wait::eventually;

fn lines(name: &str, count: usize) -> String {
    (0..count).map(|i| format!("{name}.metric{i} {i} 1700000000\n")).collect()
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut frame = lz4_flex::frame::FrameEncoder::new(Vec::new());
    frame.write_all(bytes).unwrap();
    frame.finish().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_port_takes_plain_and_compressed_lines() {
    let daemon = Daemon::start(&config());
    daemon.send(daemon.line(), lines("plain", 1000).as_bytes());
    let mut gzip = GzEncoder::new(TcpStream::connect(daemon.line()).unwrap(), flate2::Compression::fast());
    gzip.write_all(lines("gzip", 1000).as_bytes()).unwrap();
    gzip.flush().unwrap();
    let mut frames = TcpStream::connect(daemon.line()).unwrap();
    frames.write_all(&lz4(lines("lz4", 1000).as_bytes())).unwrap();
    let mut framed = snap::write::FrameEncoder::new(TcpStream::connect(daemon.line()).unwrap());
    framed.write_all(lines("snappy", 1000).as_bytes()).unwrap();
    framed.flush().unwrap();
    eventually("the points to be accepted, while the streams are open", || daemon.stats().accepted() == 4000)
        .await;
    frames.write_all(&lz4(b"later 1 1700000000\n")).unwrap();
    eventually("a second frame", || daemon.stats().accepted() == 4001).await;
    drop((gzip, frames, framed));
    eventually("the connections to end", || daemon.stats().active_connections() == 0).await;
    let stopped = daemon.stop().await;
    assert_eq!(stopped.stats().rejected(), 0);
    for name in ["plain.", "gzip.", "lz4.", "snappy."] {
        assert_eq!(stopped.points.iter().filter(|(other, ..)| other.starts_with(name)).count(), 1000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bare_snappy_when_it_is_announced() {
    let mut config = config();
    section(&mut config, "line").compression = Compression::Snappy;
    let daemon = Daemon::start(&config);
    let block = |text: &str| snap::raw::Encoder::new().compress_vec(text.as_bytes()).unwrap();
    let mut sender = TcpStream::connect(daemon.line()).unwrap();
    for at in 0..3 {
        sender.write_all(&block(&lines("bare", 100 + at))).unwrap();
    }
    eventually("the points to be accepted", || daemon.stats().accepted() == 303).await;
    // Plain lines are not snappy.
    daemon.send(daemon.line(), b"plain 1 1700000000\n");
    eventually("a refusal", || daemon.stats().rejected_for(Reject::HalfFrame) == 1).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_stream_inside_tls() {
    let daemon = Daemon::start(&tls::encrypted());
    tls::send(&daemon, false, &lz4(lines("tls", 20_000).as_bytes())).await.unwrap();
    eventually("the points to be accepted", || daemon.stats().accepted() == 20_000).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_and_bombs_close_their_connection_only() {
    let daemon = Daemon::start(&config());
    let mut good = TcpStream::connect(daemon.line()).unwrap();
    good.write_all(b"good.a 1 1700000000\n").unwrap();
    let mut damaged = lz4(lines("damaged", 10).as_bytes());
    damaged.extend(b"garbage");
    daemon.send(daemon.line(), &damaged);
    let mut bomb = GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b'x'; 100 << 20]).unwrap();
    daemon.send(daemon.line(), &bomb.finish().unwrap());
    daemon.send(daemon.line(), &lz4(lines("half", 10_000).as_bytes())[..5000]);
    eventually("the refusals", || {
        let count = |reason| daemon.stats().rejected_for(reason);
        [Reject::Damaged, Reject::Amplified, Reject::HalfFrame].map(count) == [1, 1, 1]
    })
    .await;
    good.write_all(b"good.b 1 1700000000\n").unwrap();
    eventually("12 points to be accepted", || daemon.stats().accepted() == 12).await;
    let text = daemon.registry.prometheus();
    let closed = r#"plumbago_ingest_connections_closed_total{listener="line",cause="refused"} 2"#;
    assert!(text.contains(closed), "{text}");
    let stopped = daemon.stop().await;
    assert_eq!(stopped.stats().received(), stopped.stats().accepted() + stopped.stats().rejected());
    assert_eq!(stopped.stats().of(listener("line")).connections(), 4);
}
