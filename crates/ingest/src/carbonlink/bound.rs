//! The port: binds its address and accepts connections.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use plumbago_model::Clock;
use plumbago_telemetry::{Registry, Throttle};
use plumbago_tls::{Certificates, TlsError};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use super::connection::{Connection, Shared};
use super::{Cache, Config};
use crate::config::resolve;
use crate::ingest::advice;
use crate::listener::peers::{Peers, Place};
use crate::listener::tcp::{self, ACCEPT_PAUSE, HANDSHAKE_TIMEOUT, KEEPALIVE};
use crate::stats::Closed;

/// How long a stop waits for replies to be sent.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The carbonlink port, bound but not accepting yet. Clients can already connect.
pub struct Carbonlink {
    socket: StdListener,
    address: SocketAddr,
    connections_max: usize,
    certificates: Arc<Certificates>,
    shared: Arc<Shared>,
}

/// Why the port could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The setting `listen` is not an address.
    #[error("carbonlink.listen: {0}")]
    Address(String),
    /// The system refused to bind the address.
    #[error("carbonlink.listen: cannot bind {address}: {source}; {}", advice(.source))]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The TLS files cannot be used.
    #[error("carbonlink.tls: {0}")]
    Tls(#[from] TlsError),
}

impl Carbonlink {
    /// Binds the port. `None` if it is off.
    ///
    /// # Errors
    /// If the address is invalid or in use, or the TLS files cannot be used.
    pub fn bind(
        config: &Config,
        cache: Arc<dyn Cache>,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Option<Self>, BindError> {
        if !config.is_on() {
            return Ok(None);
        }
        let address = resolve(&config.listen).map_err(BindError::Address)?;
        // No session tickets, as on the listeners: a ticket that the client has not read would reset the
        // closed connection.
        let certificates = Certificates::load(&config.tls.files(), |tls| tls.send_tls13_tickets = 0)?;
        let bind = |source| BindError::Bind { address, source };
        let socket = tcp::bind(address).map_err(bind)?;
        Ok(Some(Self {
            address: socket.local_addr().map_err(bind)?,
            socket,
            connections_max: config.connections_max,
            certificates: Arc::new(certificates),
            shared: Arc::new(Shared::new(config, cache, clock, registry)),
        }))
    }

    /// The bound address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificates, which can be read again.
    pub fn certificates(&self) -> Arc<Certificates> {
        Arc::clone(&self.certificates)
    }

    /// Answers requests until `stop`. Returns once the requests in progress have their replies, or after five
    /// seconds.
    pub async fn run(self, stop: CancellationToken) {
        let socket = match TcpListener::from_std(self.socket) {
            Ok(socket) => socket,
            Err(error) => {
                return error!(%error, "the carbonlink port failed; restart the daemon to use it again");
            }
        };
        let (peers, tasks, shared) = (Peers::new(self.connections_max), TaskTracker::new(), self.shared);
        while let Some((stream, origin)) = accept(&socket, &shared, &stop).await {
            shared.stats.opened();
            let Some(place) = peers.enter(&stop, || shared.clock.now_ms()).await else {
                shared.stats.closed(Closed::Shutdown);
                break;
            };
            let (shared, acceptor) = (Arc::clone(&shared), self.certificates.acceptor());
            tasks.spawn(async move {
                let cause = serve(stream, acceptor, origin, &place, &shared).await;
                shared.stats.closed(cause);
            });
        }
        tasks.close();
        let _ = tokio::time::timeout(DRAIN_TIME, tasks.wait()).await;
    }
}

/// The next connection. `None` at shutdown.
async fn accept(
    socket: &TcpListener,
    shared: &Shared,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    static FAILED: Throttle = Throttle::new(10_000);
    loop {
        match stop.run_until_cancelled(socket.accept()).await? {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                if FAILED.pass(shared.clock.now_ms()).is_some() {
                    warn!(%error, "cannot accept connections on the carbonlink port; raise the limit of open files or lower carbonlink.connections_max");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    origin: SocketAddr,
    place: &Place,
    shared: &Shared,
) -> Closed {
    // Both options may fail. In that case dead connections are noticed later, or replies are slower.
    let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else {
        return Connection::new(stream, origin, place, shared).run().await;
    };
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let stream = tokio::select! {
        stream = handshake => stream,
        () = place.stopped() => return place.cause(),
    };
    match stream {
        Ok(Ok(stream)) => Connection::new(stream, origin, place, shared).run().await,
        Ok(Err(_)) | Err(_) => Closed::Handshake,
    }
}
