//! Requests that are repeated while the server is overloaded.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, HOST, HeaderValue, LOCATION, RETRY_AFTER,
};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use plumbago_maintenance::graphite::{SourceError, SourceServer};
use plumbago_tls::Client as Tls;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use crate::address::Address;

/// Longest wait for an answer. A slower server counts as failed.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum number of idle connections that are kept.
const IDLE_MAX: usize = 64;
/// Number of tries of a request that may succeed later.
const TRIES: u32 = 9;
/// Number of tries of a request that fails because of an error in the server. It is smaller, because the
/// request itself may be the cause.
const TRIES_OF_FAULTS: u32 = 3;
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Maximum number of characters of an error text that are shown.
const SHOWN: usize = 200;
/// Where operating systems keep the certificate authorities that they trust.
const AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

type Sender = SendRequest<Empty<Bytes>>;

/// A server, and connections to it.
pub(crate) struct Server {
    address: Address,
    user: Option<HeaderValue>,
    tls: Option<Tls>,
    idle: Mutex<Vec<Sender>>,
}

/// An answer with status 200, or with another status that the caller accepts.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Why one try failed.
struct Failed {
    error: SourceError,
    tries: u32,
    /// How long the server asks the client to wait, if it does.
    pause: Option<Duration>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Prepares requests to a server. Reads the files of the user and the authorities.
    ///
    /// # Errors
    /// The error says what is wrong with the address, the user or the authorities.
    pub(crate) fn new(server: &SourceServer) -> Result<Self, String> {
        let address = Address::parse(&server.url)?;
        let tls = match address.is_tls {
            false => None,
            true => {
                Some(Tls::trusting(&authorities(server.ca.as_deref())?).map_err(|error| error.to_string())?)
            }
        };
        let user = server.user_file.as_deref().map(user).transpose()?;
        Ok(Self { address, user, tls, idle: Mutex::default() })
    }

    /// Requests a path with its query. Besides 200, the statuses in `accepted` count as answers. The body of the
    /// answer may have at most `limit` bytes.
    pub(crate) async fn get(
        &self,
        path: &str,
        accepted: &[u16],
        limit: usize,
    ) -> Result<Answer, SourceError> {
        let mut pause = PAUSE_FIRST;
        for try_number in 1.. {
            let failed = match tokio::time::timeout(TIMEOUT, self.attempt(path, accepted, limit)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(failed)) => failed,
                Err(_) => self.away(&format!("no answer within {} s", TIMEOUT.as_secs())),
            };
            if try_number >= failed.tries {
                return Err(failed.error);
            }
            tracing::debug!(error = %failed.error, try_number, "a request to a Graphite server failed; asking again");
            tokio::time::sleep(failed.pause.unwrap_or(pause).min(PAUSE_MAX)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        Err(self.away("no answer").error)
    }

    async fn attempt(&self, path: &str, accepted: &[u16], limit: usize) -> Result<Answer, Failed> {
        let (response, sender) = self.response(path).await.map_err(|error| self.away(&error.to_string()))?;
        let status = response.status().as_u16();
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let pause = header(RETRY_AFTER).and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let target = header(LOCATION).map(str::to_owned);
        let is_gzip = header(CONTENT_ENCODING).is_some_and(|coding| coding.eq_ignore_ascii_case("gzip"));
        let body = self.body(response, is_gzip, limit).await?;
        self.keep(sender);
        if status == 200 || accepted.contains(&status) {
            return Ok(Answer { status, body });
        }
        let text = String::from_utf8_lossy(&body).split_whitespace().collect::<Vec<_>>().join(" ");
        let text: String = target.map(|to| format!("see {to}")).unwrap_or(text).chars().take(SHOWN).collect();
        let text = format!("{} answered {status}: {text}", self.address.authority());
        Err(match status {
            408 | 425 | 429 | 502..=504 => Failed { error: SourceError::Away(text), tries: TRIES, pause },
            500..=599 => Failed { error: SourceError::Refused(text), tries: TRIES_OF_FAULTS, pause },
            // Other requests would be refused too.
            401 | 403 => Failed { error: SourceError::Away(text), tries: 1, pause },
            _ => Failed { error: SourceError::Refused(text), tries: 1, pause },
        })
    }

    async fn body(
        &self,
        response: Response<Incoming>,
        is_gzip: bool,
        limit: usize,
    ) -> Result<Vec<u8>, Failed> {
        let too_large = || Failed {
            error: SourceError::TooLarge(format!(
                "the answer of {} has more than {limit} bytes",
                self.address.authority()
            )),
            tries: 1,
            pause: None,
        };
        let bytes = match Limited::new(response.into_body(), limit).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
            Err(error) => return Err(self.away(&error.to_string())),
        };
        if !is_gzip {
            return Ok(bytes.to_vec());
        }
        let mut body = Vec::new();
        let read = MultiGzDecoder::new(&bytes[..]).take(limit as u64 + 1).read_to_end(&mut body);
        match read {
            Ok(_) if body.len() > limit => Err(too_large()),
            Ok(_) => Ok(body),
            Err(error) => Err(self.away(&format!("its gzip is damaged: {error}"))),
        }
    }

    /// Sends a request over a connection that is idle, or a new one.
    async fn response(&self, path: &str) -> io::Result<(Response<Incoming>, Sender)> {
        // The server may have closed idle connections. If none of them works, a new one is opened.
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_ok()
                && let Ok(response) = sender.send_request(self.request(path)?).await
            {
                return Ok((response, sender));
            }
        }
        let mut sender = self.connect().await?;
        let response = sender.send_request(self.request(path)?).await.map_err(io::Error::other)?;
        Ok((response, sender))
    }

    async fn connect(&self) -> io::Result<Sender> {
        let stream = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        stream.set_nodelay(true)?;
        let stream = match &self.tls {
            None => Either::Left(stream),
            Some(tls) => Either::Right(tls.connect(&self.address.host, stream).await?),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        // The task ends when the sender is dropped or the server closes the connection.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn request(&self, path: &str) -> io::Result<Request<Empty<Bytes>>> {
        let mut request = Request::get(format!("{}{path}", self.address.path))
            .header(HOST, self.address.authority())
            .header(ACCEPT_ENCODING, "gzip");
        if let Some(user) = &self.user {
            request = request.header(AUTHORIZATION, user);
        }
        request.body(Empty::new()).map_err(io::Error::other)
    }

    fn away(&self, why: &str) -> Failed {
        let text = format!("cannot send a request to {}: {why}", self.address.authority());
        Failed { error: SourceError::Away(text), tries: TRIES, pause: None }
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn keep(&self, sender: Sender) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
    }
}

/// The file with the authorities to trust: the named one, or the first that the system has.
fn authorities(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(file) = named {
        return Ok(file.to_owned());
    }
    let found = AUTHORITIES.iter().map(Path::new).find(|file| file.exists());
    found
        .map(Path::to_owned)
        .ok_or_else(|| "this system has no list of authorities; name a file with --ca".to_owned())
}

/// The header with the user that is in a file.
fn user(file: &Path) -> Result<HeaderValue, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let encoded = format!("Basic {}", BASE64_STANDARD.encode(text.trim_end_matches(['\r', '\n'])));
    let mut value = HeaderValue::try_from(encoded).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}
