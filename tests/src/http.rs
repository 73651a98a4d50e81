//! A small blocking HTTP client that uses one connection per request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::wait::HANG;

/// A response.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// Names, in lower case, and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The body as text.
    pub body: String,
    /// The body as bytes.
    pub bytes: Vec<u8>,
}

impl Response {
    /// The first value of a header. `name` is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

/// Sends a GET request. Panics if there is no response.
pub fn get(address: SocketAddr, path: &str) -> Response {
    request(address, "GET", path, "", "")
}

/// Sends a POST request with a form. Panics if there is no response.
pub fn post(address: SocketAddr, path: &str, form: &str) -> Response {
    request(address, "POST", path, "Content-Type: application/x-www-form-urlencoded\r\n", form)
}

/// Sends a POST request with JSON. Returns the status and the JSON of the answer; null if the answer is not JSON.
pub fn post_json(address: SocketAddr, path: &str, body: &Value) -> (u16, Value) {
    let answer = request(address, "POST", path, "", &body.to_string());
    (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::Null))
}

/// Sends a POST request with any bytes. `headers` are complete lines. Panics if there is no response.
pub fn post_bytes(address: SocketAddr, path: &str, headers: &str, body: &[u8]) -> Response {
    try_bytes(address, "POST", path, headers, body)
        .unwrap_or_else(|error| panic!("POST {path} of {address}: {error}"))
}

/// Sends any request. `headers` are complete lines. Panics if there is no response.
pub fn request(address: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Response {
    try_request(address, method, path, headers, body)
        .unwrap_or_else(|error| panic!("{method} {path} of {address}: {error}"))
}

/// Sends any request, like [`request`], but may get no response.
///
/// # Errors
/// If the connection fails, or the response is not complete HTTP.
pub fn try_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> std::io::Result<Response> {
    try_bytes(address, method, path, headers, body.as_bytes())
}

fn try_bytes(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &[u8],
) -> std::io::Result<Response> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HANG))?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    stream.write_all(head.as_bytes())?;
    // A server that refuses a request may answer before it has read the whole body.
    let _ = stream.write_all(body);
    read_response(&mut stream)
}

/// Reads a response until it has the length that it states, or the connection closes.
///
/// # Errors
/// If reading fails, or the response is not complete HTTP.
pub fn read_response(stream: &mut impl Read) -> std::io::Result<Response> {
    let broken = |what: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_owned());
    let mut bytes = read_whole(stream)?;
    let at = find(&bytes, b"\r\n\r\n").ok_or_else(|| broken("no end of headers"))?;
    let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|l| l.split(' ').nth(1))
        .and_then(|s| s.parse().ok())
        .ok_or_else(|| broken("no status"))?;
    let headers: Vec<_> = lines
        .filter_map(|l| l.split_once(':'))
        .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
        .collect();
    let mut body = bytes.split_off(at + 4);
    if headers.iter().any(|(n, v)| n == "transfer-encoding" && v == "chunked") {
        body = unchunk(&body).ok_or_else(|| broken("a chunk is cut off"))?;
    }
    Ok(Response { status, headers, body: String::from_utf8_lossy(&body).into_owned(), bytes: body })
}

/// Some servers ignore `Connection: close`: chromedriver expects its client to close the connection.
fn read_whole(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = vec![0; 64 << 10];
    loop {
        let read = stream.read(&mut part)?;
        bytes.extend_from_slice(&part[..read]);
        if read == 0 || stated_end(&bytes).is_some_and(|end| bytes.len() >= end) {
            return Ok(bytes);
        }
    }
}

/// The position at which a response ends according to its `Content-Length`. `None` if the headers are
/// incomplete or do not contain it.
fn stated_end(bytes: &[u8]) -> Option<usize> {
    let at = find(bytes, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..at]).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok())?;
    at.checked_add(4)?.checked_add(length)
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let at = find(bytes, b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..at]).ok()?.trim(), 16).ok()?;
        bytes = &bytes[at + 2..];
        if length == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..length)?);
        bytes = bytes.get(length + 2..)?;
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Escapes a text for a query string.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, KEPT).to_string()
}

/// Builds `path?name=value&…`.
pub fn url(path: &str, parameters: &[(&str, &str)]) -> String {
    let query: Vec<String> = parameters.iter().map(|(n, v)| format!("{n}={}", encode(v))).collect();
    format!("{path}?{}", query.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        let mut answer: &[u8] =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(read_response(&mut answer).unwrap().body, "abcde");
    }

    #[test]
    fn query_strings_are_escaped() {
        assert_eq!(url("/render", &[("target", "a.{b,c}")]), "/render?target=a.%7Bb%2Cc%7D");
    }
}
