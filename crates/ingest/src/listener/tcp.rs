//! The TCP listeners.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use plumbago_telemetry::Throttle;
use plumbago_tls::Certificates;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::Shared;
use super::connection::Connection;
use super::peers::{Peers, Place};
use crate::protocol::{Protocol, TcpProtocol};
use crate::stats::{Closed, Listener, ListenerStats};

const BACKLOG: i32 = 1024;

/// A client that has not finished its TLS handshake by then is disconnected.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept. The usual cause is a lack of file descriptors, which would make the next
/// accept fail at once.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// As in carbon: a sender whose machine has disappeared is noticed after about a minute.
pub(crate) const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(10))
    .with_interval(Duration::from_secs(30))
    .with_retries(2);

/// A bound listener that is not accepting yet.
pub(crate) struct Bound {
    pub(crate) listener: Listener,
    pub(crate) socket: StdListener,
    pub(crate) connections_max: usize,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) protocol: TcpProtocol,
    pub(crate) message_bytes_max: usize,
}

/// Binds an address and listens.
pub(crate) fn bind(address: SocketAddr) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Without this option a restarted daemon could not bind until old connections have timed out.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until `stop`. Returns once all connections have ended and their points are pushed.
pub(crate) async fn run(bound: Bound, shared: Arc<Shared>, stop: CancellationToken) -> io::Result<()> {
    let Bound { listener, socket, connections_max, idle_timeout, certificates, .. } = bound;
    let socket = TcpListener::from_std(socket)?;
    let peers = Peers::new(connections_max);
    let tasks = TaskTracker::new();
    let stats = shared.stats.of(listener);
    let take = async |stream: TcpStream, origin| {
        stats.opened();
        let Some(place) = peers.enter(&stop, || shared.clock.now_ms()).await else {
            return stats.closed(Closed::Shutdown);
        };
        let shared = Arc::clone(&shared);
        let protocol = (bound.protocol.connect)(bound.message_bytes_max);
        let acceptor = certificates.acceptor();
        tasks.spawn(async move {
            let stats = shared.stats.of(listener);
            let client = Client { protocol, origin, idle_timeout, place: &place, shared: &shared, stats };
            stats.closed(client.serve(stream, acceptor).await);
        });
    };
    while let Some((stream, origin)) = accept(&socket, listener, &shared, &stop).await {
        take(stream, origin).await;
    }
    for (stream, origin) in waiting(socket)? {
        take(stream, origin).await;
    }
    tasks.close();
    tasks.wait().await;
    Ok(())
}

/// Closes the socket and returns the connections that the kernel has established but that were not
/// accepted yet. Their senders may have written already.
fn waiting(socket: TcpListener) -> io::Result<Vec<(TcpStream, SocketAddr)>> {
    let socket = socket.into_std()?;
    let mut accepted = Vec::new();
    while accepted.len() < BACKLOG as usize
        && let Ok((stream, origin)) = socket.accept()
    {
        stream.set_nonblocking(true)?;
        accepted.push((TcpStream::from_std(stream)?, origin));
    }
    Ok(accepted)
}

/// The next connection. `None` at shutdown.
async fn accept(
    socket: &TcpListener,
    listener: Listener,
    shared: &Shared,
    stop: &CancellationToken,
) -> Option<(TcpStream, SocketAddr)> {
    static FAILED: Throttle = Throttle::new(10_000);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            accepted = socket.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => return Some(accepted),
            Err(error) => {
                if FAILED.pass(shared.clock.now_ms()).is_some() {
                    warn!(listener = listener.label(), %error, "cannot accept connections; raise the limit of open files or lower connections_max");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Client<'a> {
    protocol: Box<dyn Protocol>,
    origin: SocketAddr,
    idle_timeout: Option<Duration>,
    place: &'a Place,
    shared: &'a Shared,
    stats: &'a ListenerStats,
}

impl Client<'_> {
    async fn serve(self, stream: TcpStream, acceptor: Option<TlsAcceptor>) -> Closed {
        // Keepalive is optional: without it the connection still carries points.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
        let Some(acceptor) = acceptor else {
            return self.read(stream).await;
        };
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = self.place.stopped() => return self.place.cause(),
        };
        match stream {
            Ok(Ok(stream)) => self.read(stream).await,
            Ok(Err(_)) | Err(_) => Closed::Handshake,
        }
    }

    async fn read(self, stream: impl tokio::io::AsyncRead + Unpin) -> Closed {
        let Self { protocol, origin, idle_timeout, place, shared, stats } = self;
        Connection::new(stream, protocol, origin, idle_timeout, place, shared, stats).run().await
    }
}
