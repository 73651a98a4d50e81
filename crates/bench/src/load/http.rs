//! Sends points in requests on one connection that stays open.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// Largest head of an answer, and largest part of a body that is read for an error message, in bytes.
const ANSWER_MAX: u64 = 1 << 16;

/// A connection to an HTTP server.
#[derive(Debug)]
pub(super) struct Requests<'a> {
    stream: BufReader<TcpStream>,
    address: &'a str,
    path: &'a str,
}

impl<'a> Requests<'a> {
    pub(super) fn new(stream: TcpStream, address: &'a str, path: &'a str) -> Self {
        Self { stream: BufReader::new(stream), address, path }
    }

    /// Sends a body and waits for the answer.
    ///
    /// # Errors
    /// If the connection fails or the server refuses the body.
    pub(super) fn post(&mut self, body: &[u8]) -> io::Result<()> {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.path,
            self.address,
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        self.answer()
    }

    fn answer(&mut self) -> io::Result<()> {
        let mut head = (&mut self.stream).take(ANSWER_MAX);
        let (mut status, mut length) = (String::new(), 0);
        head.read_line(&mut status)?;
        loop {
            let mut line = String::new();
            if head.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = Vec::new();
        (&mut self.stream).take(length.min(ANSWER_MAX)).read_to_end(&mut body)?;
        match status.split(' ').nth(1) {
            Some(code) if code.starts_with('2') => Ok(()),
            _ => Err(io::Error::other(format!(
                "{} answered {}: {}",
                self.path,
                status.trim_end(),
                String::from_utf8_lossy(&body).trim_end()
            ))),
        }
    }
}
