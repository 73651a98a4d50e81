//! A blocking HTTP client over one kept-alive connection, without TLS.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ureq::http::Response;
use ureq::{Agent, RequestBuilder};

use crate::BenchError;

/// Largest answer that is read.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Longest wait for an answer. It matters only if the server hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client of one server. It connects with the first request, and reconnects when the server has closed the
/// connection.
#[derive(Debug)]
pub struct Client {
    address: String,
    /// The value of the header `Authorization`.
    authorization: Option<String>,
    agent: Agent,
}

/// An answer with any status.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status code.
    pub status: u16,
    /// The body, with the chunked transfer encoding removed.
    pub body: Vec<u8>,
}

impl Client {
    /// A client for `host:port`.
    pub fn new(address: &str) -> Self {
        Self::with_timeout(address, TIMEOUT)
    }

    /// A client for `host:port` that waits at most this long for an answer.
    pub fn with_timeout(address: &str, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections_per_host(1);
        Self { address: address.to_owned(), authorization: None, agent: config.build().new_agent() }
    }

    /// Sends this bearer token with every request; an empty token is not sent.
    #[must_use]
    pub fn with_token(self, token: &str) -> Self {
        Self { authorization: (!token.is_empty()).then(|| format!("Bearer {token}")), ..self }
    }

    /// Sends this user and password, as `NAME:PASSWORD`, with every request.
    #[must_use]
    pub fn with_user(self, user: &str) -> Self {
        Self { authorization: Some(format!("Basic {}", BASE64_STANDARD.encode(user))), ..self }
    }

    /// Requests a path with its query.
    ///
    /// # Errors
    /// [`BenchError::Request`] when no answer came. An answer with an error status is not an error here.
    pub fn get(&self, path: &str) -> Result<Answer, BenchError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.get(&url));
        read(url, request.call())
    }

    /// Posts to a path with its query, without a body.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post(&self, path: &str) -> Result<Answer, BenchError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.post(&url));
        read(url, request.send_empty())
    }

    /// Posts a JSON text to a path with its query.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post_json(&self, path: &str, json: &str) -> Result<Answer, BenchError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.post(&url)).header("Content-Type", "application/json");
        read(url, request.send(json))
    }

    /// Sends a POST with a body of this content type. `path` includes the query.
    ///
    /// # Errors
    /// As [`Client::get`].
    pub fn post_body(&self, path: &str, content_type: &str, body: &[u8]) -> Result<Answer, BenchError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.post(&url)).header("Content-Type", content_type);
        read(url, request.send(body))
    }

    /// Posts a JSON text and passes the lines of the answer to `each` as they arrive, without a limit on
    /// their number or on the time. Stops early when `each` returns `false`. An answer with a status other
    /// than 200 is returned as a whole.
    ///
    /// # Errors
    /// As [`Client::get`], also if the answer breaks off.
    pub fn post_for_lines(
        &self,
        path: &str,
        json: &str,
        each: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Answer, BenchError> {
        let url = self.url(path);
        let request = self.authorized(self.agent.post(&url)).header("Content-Type", "application/json");
        let request = request.config().timeout_global(None).build();
        let lines = |mut response: Response<ureq::Body>| -> Result<Answer, ureq::Error> {
            let status = response.status().as_u16();
            let mut body = Vec::new();
            if status != 200 {
                body = response.body_mut().read_to_vec()?;
                return Ok(Answer { status, body });
            }
            let reader = response.body_mut().with_config().limit(u64::MAX).reader();
            for line in BufReader::new(reader).lines() {
                if !each(&line?) {
                    break;
                }
            }
            Ok(Answer { status, body })
        };
        let result = request.send(json).and_then(lines);
        result.map_err(|source| BenchError::Request { url, source: Box::new(source) })
    }

    fn authorized<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(value) => request.header("Authorization", value.as_str()),
            None => request,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn read(url: String, response: Result<Response<ureq::Body>, ureq::Error>) -> Result<Answer, BenchError> {
    let body = |mut response: Response<ureq::Body>| {
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(BODY_BYTES_MAX).read_to_vec()?;
        Ok(Answer { status, body })
    };
    response.and_then(body).map_err(|source| BenchError::Request { url, source: Box::new(source) })
}

/// Percent-encodes a query value; `*` stays, so that globs remain readable in logs.
pub fn encode(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~*".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Serves one connection per list: each request on it gets the next answer.
    fn server(connections: Vec<Vec<&'static str>>) -> (String, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = move || {
            let mut requests = Vec::new();
            for answers in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for answer in answers {
                    let mut request = Vec::new();
                    let mut byte = [0];
                    while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                        request.push(byte[0]);
                    }
                    requests.push(String::from_utf8(request).unwrap());
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
            requests
        };
        (address, thread::spawn(serve))
    }

    #[test]
    fn bodies_by_length_chunked_and_until_the_end() {
        let (address, thread) = server(vec![vec![
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall",
        ]]);
        let client = Client::new(&address).with_token("secret");
        let answer = client.get("/a?b=c").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"abc".as_slice()));
        let answer = client.post("/d").unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (404, b"abcde".as_slice()));
        assert_eq!(client.get("/").unwrap().body, b"all");
        let user = Client::new(&address).with_user("ada:x").authorization;
        assert_eq!(user.as_deref(), Some("Basic YWRhOng="));
        let requests = thread.join().unwrap();
        assert!(requests[0].starts_with("GET /a?b=c HTTP/1.1\r\n"), "{}", requests[0]);
        assert!(requests[0].to_ascii_lowercase().contains("authorization: bearer secret\r\n"));
        assert!(requests[1].starts_with("POST /d HTTP/1.1\r\n"), "{}", requests[1]);
        assert!(requests[1].to_ascii_lowercase().contains("content-length: 0\r\n"));
    }

    #[test]
    fn connects_again_after_the_server_closed() {
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1";
        let (address, thread) = server(vec![vec![answer], vec![answer]]);
        let client = Client::new(&address);
        assert_eq!(client.get("/").unwrap().status, 200);
        // The first connection is closed before the second is accepted, so a request may still hit the end of
        // the first.
        let second = (0..100).find_map(|_| client.get("/").ok());
        assert_eq!(second.map(|answer| answer.status), Some(200));
        assert_eq!(thread.join().unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_http_is_an_error() {
        for text in
            ["", "SSH-2.0\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "HTTP/1.1 x\r\n\r\n"]
        {
            let (address, thread) = server(vec![vec![text]]);
            assert!(Client::new(&address).get("/").is_err(), "{text}");
            thread.join().unwrap();
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(encode("a.{b,c}*"), "a.%7Bb%2Cc%7D*");
    }
}
