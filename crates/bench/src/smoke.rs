//! Sends one point by a protocol, and waits until Graphite's API finds and reads it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use crate::BenchError;
use crate::http::{Client, encode};

/// Pause between two requests to the API.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The protocol by which a point is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A line over TCP.
    Line,
    /// A line in a datagram.
    Udp,
    /// A pickle over TCP.
    Pickle,
    /// Carbon's protobuf message over TCP.
    Protobuf,
    /// A line in the body of an HTTP POST.
    Http,
}

/// The point to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// The name of its metric. It may contain only characters that need no encoding.
    pub name: String,
    /// Seconds since the epoch.
    pub timestamp: u32,
    /// The value to send, which the answer must have.
    pub value: f64,
}

/// The times until the point appeared, in seconds since it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Times {
    /// Seconds until `/metrics/find` returned the name.
    pub found: f64,
    /// Seconds until `/render` returned the value.
    pub read: f64,
}

/// Sends the point to a listener and waits until the API at `api` returns it.
///
/// # Errors
///
/// If the point cannot be sent, or the API does not answer or does not return the point within `patience`.
pub fn check(
    way: Way,
    listener: SocketAddr,
    api: &Client,
    probe: &Probe,
    patience: Duration,
) -> Result<Times, BenchError> {
    let sent = Instant::now();
    send(way, listener, probe).map_err(BenchError::io(format!("send to {listener}")))?;
    let seconds = patience.as_secs();
    let wait = |what: &'static str, is_there: &dyn Fn() -> Result<bool, BenchError>| {
        while !is_there()? {
            if sent.elapsed() > patience {
                return Err(BenchError::Timeout { what, seconds });
            }
            thread::sleep(PAUSE);
        }
        Ok(sent.elapsed().as_secs_f64())
    };
    let found = wait("for /metrics/find to have the name", &|| is_found(api, probe))?;
    let read = wait("for /render to have the value", &|| is_read(api, probe))?;
    Ok(Times { found, read })
}

fn send(way: Way, listener: SocketAddr, probe: &Probe) -> std::io::Result<()> {
    let bytes = bytes(way, probe);
    if way == Way::Udp {
        let any = if listener.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        UdpSocket::bind(any)?.send_to(&bytes, listener)?;
        return Ok(());
    }
    let mut stream = TcpStream::connect_timeout(&listener, CONNECT_TIMEOUT)?;
    stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    stream.write_all(&bytes)?;
    if way == Way::Http {
        // If the connection closed before the answer, the server could regard it as broken.
        stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
        stream.read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

fn bytes(way: Way, Probe { name, timestamp, value }: &Probe) -> Vec<u8> {
    match way {
        Way::Line | Way::Udp => format!("{name} {value} {timestamp}\n").into_bytes(),
        Way::Http => {
            let line = format!("{name} {value} {timestamp}\n");
            let head = "POST / HTTP/1.1\r\nHost: plumbago\r\nConnection: close\r\nContent-Length:";
            format!("{head} {}\r\n\r\n{line}", line.len()).into_bytes()
        }
        Way::Pickle => {
            // Pickle protocol 0, which is text: a list with one tuple (name, (timestamp, value)).
            framed(format!("(lp0\n(V{name}\np1\n(I{timestamp}\nF{value:?}\ntp2\ntp3\na.").as_bytes())
        }
        Way::Protobuf => {
            let mut point = vec![0x08];
            varint(u64::from(*timestamp), &mut point);
            point.push(0x11);
            point.extend_from_slice(&value.to_le_bytes());
            let mut metric = Vec::new();
            field(1, name.as_bytes(), &mut metric);
            field(2, &point, &mut metric);
            let mut payload = Vec::new();
            field(1, &metric, &mut payload);
            framed(&payload)
        }
    }
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

/// A bytes field of a protobuf message.
fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn is_found(api: &Client, probe: &Probe) -> Result<bool, BenchError> {
    let found = ask(api, &format!("/metrics/find?format=treejson&query={}", encode(&probe.name)))?;
    Ok(found.as_array().is_some_and(|nodes| !nodes.is_empty()))
}

fn is_read(api: &Client, probe: &Probe) -> Result<bool, BenchError> {
    // A slot may last an hour. Its timestamp is its start, which is before the point.
    let (from, until) = (probe.timestamp.saturating_sub(3600), probe.timestamp.saturating_add(1));
    let query =
        format!("/render?format=json&noCache=1&target={}&from={from}&until={until}", encode(&probe.name));
    let answer = ask(api, &query)?;
    let points = answer.as_array().into_iter().flatten().filter_map(|series| series["datapoints"].as_array());
    Ok(points.flatten().any(|point| point[0].as_f64() == Some(probe.value)))
}

fn ask(api: &Client, query: &str) -> Result<Value, BenchError> {
    let answer = api.get(query)?;
    let text = String::from_utf8_lossy(&answer.body);
    let refused = || BenchError::Refused {
        query: query.to_owned(),
        status: answer.status,
        body: text.chars().take(200).collect(),
    };
    if answer.status != 200 {
        return Err(refused());
    }
    serde_json::from_str(&text).map_err(|_| refused())
}
