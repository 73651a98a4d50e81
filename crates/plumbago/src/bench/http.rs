//! A blocking HTTP/1.1 client over one kept-alive connection: enough to time requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Largest answer that is read.
const BODY_BYTES_MAX: usize = 1 << 30;
/// Longest wait for an answer: a guard against a server that hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A connection to one server.
#[derive(Debug)]
pub struct Client {
    address: String,
    /// Bearer token; empty for none.
    token: String,
    connection: Option<BufReader<TcpStream>>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// A client that connects with the first request.
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), token: String::new(), connection: None }
    }

    /// Shows this bearer token with every request.
    pub fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }
    }

    /// Asks for a path with its query; connects again once when the server closed the connection in
    /// between.
    pub fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.request("GET", path)
    }

    /// Tells a path with its query, without a body.
    pub fn post(&mut self, path: &str) -> io::Result<Answer> {
        self.request("POST", path)
    }

    fn request(&mut self, method: &str, path: &str) -> io::Result<Answer> {
        let fresh = self.connection.is_none();
        match self.try_request(method, path) {
            Err(_) if !fresh => {
                self.connection = None;
                self.try_request(method, path)
            }
            result => result,
        }
    }

    fn try_request(&mut self, method: &str, path: &str) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.address)?,
        };
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        if !self.token.is_empty() {
            request.push_str(&format!("Authorization: Bearer {}\r\n", self.token));
        }
        if method == "POST" {
            request.push_str("Content-Length: 0\r\n");
        }
        request.push_str("\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        let (answer, keep) = read_answer(&mut connection)?;
        if keep {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

fn connect(address: &str) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(BufReader::with_capacity(256 * 1024, stream))
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

fn read_answer(reader: &mut impl BufRead) -> io::Result<(Answer, bool)> {
    let first = read_line(reader)?;
    let status = first.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or_else(|| invalid(&first))?;
    let (mut framing, mut keep) = (Framing::UntilClose, true);
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(&line))?;
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", length) => {
                framing = Framing::Length(length.parse().map_err(|_| invalid(&line))?);
            }
            ("transfer-encoding", "chunked") => framing = Framing::Chunked,
            ("connection", value) if value.eq_ignore_ascii_case("close") => keep = false,
            _ => {}
        }
    }
    let body = read_body(reader, framing)?;
    Ok((Answer { status, body }, keep && !matches!(framing, Framing::UntilClose)))
}

fn read_body(reader: &mut impl BufRead, framing: Framing) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => read_exactly(reader, length, &mut body)?,
        Framing::UntilClose => {
            reader.take(BODY_BYTES_MAX as u64).read_to_end(&mut body)?;
        }
        Framing::Chunked => loop {
            let line = read_line(reader)?;
            let size = line.split(';').next().unwrap_or_default();
            let size = usize::from_str_radix(size.trim(), 16).map_err(|_| invalid(&line))?;
            read_exactly(reader, size, &mut body)?;
            let end = read_line(reader)?;
            if !end.is_empty() {
                return Err(invalid(&end));
            }
            if size == 0 {
                break;
            }
        },
    }
    Ok(body)
}

fn read_exactly(reader: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    if length > BODY_BYTES_MAX - body.len() {
        return Err(io::Error::other("answer too large"));
    }
    let read = reader.take(length as u64).read_to_end(body)?;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if reader.take(64 * 1024).read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn invalid(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP: {line:?}"))
}

/// Percent-encodes a query value.
pub fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~*".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Answer, bool) {
        read_answer(&mut text.as_bytes()).unwrap()
    }

    #[test]
    fn the_three_framings() {
        let (answer, keep) = read("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcxx");
        assert_eq!((answer.status, answer.body.as_slice(), keep), (200, b"abc".as_slice(), true));
        let (answer, keep) = read(
            "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
        );
        assert_eq!((answer.status, answer.body.as_slice(), keep), (404, b"abcde".as_slice(), true));
        let (answer, keep) = read("HTTP/1.0 200 OK\r\n\r\nall");
        assert_eq!((answer.body.as_slice(), keep), (b"all".as_slice(), false));
    }

    #[test]
    fn what_is_no_answer() {
        for text in
            ["", "SSH-2.0\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "HTTP/1.1 x\r\n\r\n"]
        {
            assert!(read_answer(&mut text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encode("a.{b,c}*"), "a.%7Bb%2Cc%7D*");
    }
}
