//! The TCP listeners.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use plumbago_telemetry::Throttle;
use plumbago_tls::Certificates;
use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use super::connection::Connection;
use super::first_byte::Begun;
use super::peers::{Peers, Place};
use super::{Shared, http};
use crate::protocol::{Compression, Talk};
use crate::stats::{Closed, Listener, ListenerStats};

const BACKLOG: i32 = 1024;

/// A client that has not finished its TLS handshake after this time is disconnected.
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
    /// One socket for each address.
    pub(crate) sockets: Vec<StdListener>,
    pub(crate) connections_max: usize,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) talk: Talk,
    pub(crate) message_bytes_max: usize,
    pub(crate) compression: Compression,
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
pub(crate) async fn run(mut bound: Bound, shared: Arc<Shared>, stop: CancellationToken) -> io::Result<()> {
    let sockets = std::mem::take(&mut bound.sockets);
    let (peers, tasks) = (Peers::new(bound.connections_max), TaskTracker::new());
    let door = Arc::new(Door { bound, peers, tasks, shared, stop });
    let mut accepting = JoinSet::new();
    for socket in sockets {
        accepting.spawn(Arc::clone(&door).accept_all(socket));
    }
    let mut outcome = Ok(());
    while let Some(ended) = accepting.join_next().await {
        outcome = outcome.and(ended.map_err(io::Error::other).flatten());
    }
    door.tasks.close();
    door.tasks.wait().await;
    outcome
}

/// What the sockets of one listener share.
struct Door {
    bound: Bound,
    peers: Arc<Peers>,
    /// The connections, and the requests that arrived on them.
    tasks: TaskTracker,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

impl Door {
    async fn accept_all(self: Arc<Self>, socket: StdListener) -> io::Result<()> {
        let socket = TcpListener::from_std(socket)?;
        while let Some((stream, origin)) =
            accept(&socket, self.bound.listener, &self.shared, &self.stop).await
        {
            self.take(stream, origin).await;
        }
        for (stream, origin) in waiting(socket)? {
            self.take(stream, origin).await;
        }
        Ok(())
    }

    /// Waits for a slot, then serves the connection in a task of its own.
    async fn take(self: &Arc<Self>, stream: TcpStream, origin: SocketAddr) {
        let stats = self.shared.stats.of(self.bound.listener);
        stats.opened();
        let Some(place) = self.peers.enter(&self.stop, || self.shared.clock.now_ms()).await else {
            return stats.closed(Closed::Shutdown);
        };
        let door = Arc::clone(self);
        self.tasks.spawn(async move {
            let stats = door.shared.stats.of(door.bound.listener);
            stats.closed(Client { door: &door, origin, place: &place, stats }.serve(stream).await);
        });
    }
}

/// Closes the socket and returns the connections that the kernel has established but that were not accepted
/// yet. Their senders may already have sent data.
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
    door: &'a Door,
    origin: SocketAddr,
    place: &'a Place,
    stats: &'a ListenerStats,
}

impl Client<'_> {
    async fn serve(self, stream: TcpStream) -> Closed {
        // Keepalive is optional: without it the connection still carries points.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&KEEPALIVE);
        let Some(acceptor) = self.door.bound.certificates.acceptor() else {
            return self.talk(stream).await;
        };
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream));
        let stream = tokio::select! {
            stream = handshake => stream,
            () = self.place.stopped() => return self.place.cause(),
        };
        match stream {
            Ok(Ok(stream)) => self.talk(stream).await,
            Ok(Err(_)) | Err(_) => Closed::Handshake,
        }
    }

    /// Waits for the first bytes of a connection.
    async fn begin<S: AsyncRead + Unpin>(&self, stream: S) -> Result<Begun<S>, Closed> {
        let pause = self.door.bound.idle_timeout.unwrap_or(Duration::MAX);
        match tokio::time::timeout(pause, Begun::wait(stream)).await {
            Err(_) => Err(Closed::Idle),
            Ok(Ok(Some(stream))) => Ok(stream),
            Ok(Ok(None)) => Err(Closed::End),
            Ok(Err(_)) => Err(Closed::Error),
        }
    }

    async fn talk(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Closed {
        let Self { door, origin, place, stats } = &self;
        let (origin, place, stats) = (*origin, *place, *stats);
        let Bound { listener, idle_timeout, talk, message_bytes_max, compression, .. } = door.bound;
        match talk {
            Talk::Stream(connect) => {
                let protocol = connect(message_bytes_max, compression);
                Connection::new(stream, protocol, origin, idle_timeout, place, &door.shared, stats)
                    .run()
                    .await
            }
            Talk::LinesOrHttp(connect) => {
                let begun = tokio::select! {
                    begun = self.begin(stream) => begun,
                    () = place.stopped() => return place.cause(),
                };
                let stream = match begun {
                    Ok(stream) => stream,
                    Err(cause) => return cause,
                };
                if stream.is_http() {
                    let Some(server) = door.shared.http.get() else { return Closed::Refused };
                    server.serve(Box::new(stream), place.token()).await;
                    return Closed::End;
                }
                let protocol = connect(message_bytes_max, compression);
                Connection::new(stream, protocol, origin, idle_timeout, place, &door.shared, stats)
                    .run()
                    .await
            }
            Talk::Http => {
                let requests = http::Requests {
                    listener,
                    origin,
                    body_bytes_max: message_bytes_max,
                    pause_max: idle_timeout.unwrap_or(http::PAUSE_MAX),
                    stop: place.token(),
                    tasks: door.tasks.clone(),
                    shared: Arc::clone(&door.shared),
                };
                http::serve(stream, Arc::new(requests), place).await
            }
        }
    }
}
