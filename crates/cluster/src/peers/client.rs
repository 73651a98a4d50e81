//! Sends requests to all peers at once. Waits no longer than `cluster.timeout` for any of them.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use plumbago_boxed_futures::boxed_futures;
use plumbago_store::{EventQuestion, FetchRequest, PeerAnswer, PeerEvent, Peers};
use plumbago_telemetry::Registry;

use super::config::Config;
use super::connect;
use super::peer::{Peer, Read};
use super::trouble::Kind;
use super::wire;
use plumbago_tls::CaError;

/// Requests pending rows and events from the peers of this daemon.
pub struct Client {
    peers: Vec<Peer>,
    path: String,
    timeout: Duration,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.peers.iter().map(|peer| &peer.address)).finish()
    }
}

impl Client {
    /// Makes a client for the peers in `config`. `path` is the URL path that requests are posted to. `token`
    /// is the token of this daemon's admin port, which is sent if `config` has none.
    ///
    /// # Errors
    /// If the file `cluster.ca` cannot be read or has no valid certificate.
    pub fn new(config: &Config, path: &str, token: &str, registry: &Registry) -> Result<Self, CaError> {
        let tls = match config.ca.as_os_str().is_empty() {
            true => None,
            false => Some(connect::tls(&config.ca)?),
        };
        let token = if config.token.is_empty() { token } else { &config.token };
        let peers = config.peers.iter().map(|address| Peer::new(address, token, tls.clone(), registry));
        Ok(Self { peers: peers.collect(), path: path.to_owned(), timeout: config.timeout.0 })
    }

    /// Returns whether there are no peers.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns a message for each peer whose last request failed, for operators.
    pub fn troubles(&self) -> Vec<String> {
        self.peers.iter().flat_map(Peer::troubles).collect()
    }

    /// Returns the events that all peers have. A peer that fails, does not answer in time, or does not know
    /// requests for events is left out. If this daemon is among its own peers, its own events are included.
    pub async fn events(&self, question: &EventQuestion) -> Vec<PeerEvent> {
        let message = wire::events_request(question);
        self.ask_all(Kind::Events, message, wire::read_events_answer).await.into_iter().flatten().collect()
    }

    /// Sends a message to all peers and returns the answers of the peers that answered.
    async fn ask_all<T>(&self, kind: Kind, message: Vec<u8>, read: Read<T>) -> Vec<T> {
        let body = Bytes::from(message);
        let asked =
            self.peers.iter().map(|peer| peer.ask((kind, read), (self.path.as_str(), &body), self.timeout));
        join_all(asked).await.into_iter().flatten().collect()
    }
}

#[boxed_futures]
impl Peers for Client {
    async fn pending(&self, request: &FetchRequest) -> Vec<PeerAnswer> {
        self.ask_all(Kind::Points, wire::request(request), wire::read_answer).await
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use plumbago_model::Period;
    use plumbago_store::EventFilter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A peer that answers each request on a connection with the result of `answer`, which gets the message.
    async fn peer(answer: fn(&[u8]) -> Result<Vec<u8>, String>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut bytes = Vec::new();
                    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
                        let Some(message) = message(&bytes) else { continue };
                        let (status, body) = match answer(&message) {
                            Ok(body) => ("200 OK", body),
                            Err(why) => ("503 Service Unavailable", why.into_bytes()),
                        };
                        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
                        stream.write_all(&[head.into_bytes(), body].concat()).await.unwrap();
                        bytes.clear();
                    }
                });
            }
        });
        address
    }

    /// The body of a request; `None` until it is complete.
    fn message(bytes: &[u8]) -> Option<Vec<u8>> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        (bytes.len() >= end + length).then(|| bytes[end..end + length].to_vec())
    }

    fn client(peers: &[SocketAddr], registry: &Registry) -> Client {
        let peers = peers.iter().map(SocketAddr::to_string).collect();
        let config = Config { peers, timeout: Period::seconds(60), ..Config::default() };
        Client::new(&config, "/admin/heads", "", registry).unwrap()
    }

    fn points() -> FetchRequest {
        FetchRequest { names: vec!["a".into()], from: 1, until: 2, now: 3, slots_max: usize::MAX }
    }

    fn all() -> EventQuestion {
        EventQuestion::Selected(EventFilter { until: i64::MAX, ..EventFilter::default() })
    }

    fn points_of_writer_8(message: &[u8]) -> Result<Vec<u8>, String> {
        wire::read_request(message).map_err(|error| error.to_string())?;
        let answer = PeerAnswer { replica: 0, writer: 8, series: Vec::new() };
        wire::answer(&answer).map_err(|error| error.to_string())
    }

    fn event_1(message: &[u8]) -> Result<Vec<u8>, String> {
        match wire::read_asked(message).map_err(|error| error.to_string())? {
            wire::Asked::Events(_) => {
                let event = PeerEvent { id: 1, what: "deploy".to_owned(), ..PeerEvent::default() };
                wire::events_answer(&[event]).map_err(|error| error.to_string())
            }
            wire::Asked::Points(_) => points_of_writer_8(message),
        }
    }

    /// A peer whose version knows only requests for points still answers those.
    #[tokio::test]
    async fn an_older_peer_has_no_events() {
        let registry = Registry::new();
        let (older, newer) = (peer(points_of_writer_8).await, peer(event_1).await);
        let client = client(&[older, newer], &registry);
        for _ in 0..3 {
            assert_eq!(client.pending(&points()).await.len(), 2);
            let events = client.events(&all()).await;
            assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [1]);
        }
        let troubles = client.troubles();
        assert_eq!(troubles.len(), 1);
        let start = format!("peer {older}: 503 Service Unavailable: the message is damaged");
        assert!(troubles[0].starts_with(&start), "{troubles:?}");
        assert!(troubles[0].ends_with("its events are missing in answers"), "{troubles:?}");
        let value = |peer: SocketAddr, name: &str| {
            let (name, peer) = (format!("plumbago_peer_{name}"), peer.to_string());
            let mut samples = registry.samples().into_iter();
            let found = samples.find(|s| s.name == name && s.labels.iter().any(|(_, label)| *label == peer));
            found.unwrap().value
        };
        assert_eq!(value(older, "up"), 1.0);
        assert_eq!(value(older, "requests_total"), 6.0);
        assert_eq!(value(older, "failed_requests_total"), 3.0);
        assert_eq!(value(newer, "failed_requests_total"), 0.0);
    }

    #[tokio::test]
    async fn a_peer_that_is_away_is_left_out() {
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let client = client(&[gone, peer(event_1).await], &Registry::new());
        assert_eq!(client.events(&all()).await.len(), 1);
        let troubles = client.troubles();
        assert_eq!(troubles.len(), 1);
        assert!(troubles[0].ends_with("its newest points and its events are missing in answers"));
    }

    /// An answer in a version that cannot be read here.
    #[tokio::test]
    async fn an_answer_of_another_version_is_left_out() {
        let client = client(&[peer(|_| Ok(b"PEA9".to_vec())).await], &Registry::new());
        assert!(client.events(&all()).await.is_empty());
        assert!(client.troubles()[0].contains("of another protocol version"), "{:?}", client.troubles());
    }
}
