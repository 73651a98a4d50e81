//! An HTTP port: accepts connections, limits their number, and drains them on shutdown.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use plumbago_telemetry::{Registry, Throttle};
use plumbago_tls::{Certificates, TlsError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Access;
use crate::admin::{AdminHandles, admin_router};
use crate::client::Client;
use crate::config::{AdminConfig, Config, PortLimits, TlsConfig};
use crate::limits::LiveLimits;
use crate::meter::ConnectionMeter;
use crate::places::{Place, Places};
use crate::router::api_router;
use crate::state::Handles;
use crate::users::{LiveUsers, UsersError};

/// How long a client may take to complete the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection is closed if sent bytes stay unacknowledged, or the client reads none of them, for this long.
const STALLED: Duration = Duration::from_secs(60);

/// Pause after a failed accept. It avoids a busy loop while, for example, file descriptors are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be bound.
    #[error("cannot listen on {listen}: {cause}; {}", advice(.cause))]
    Listen {
        /// The configured address and port.
        listen: String,
        /// The error of the operating system. It is part of the message.
        cause: io::Error,
    },
    /// The certificate or key cannot be used.
    #[error("tls: {0}")]
    Tls(#[from] TlsError),
    /// The file of users cannot be used.
    #[error("users.file: {0}")]
    Users(#[from] UsersError),
}

/// What the user can do if an address cannot be opened.
fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "stop the program that uses this port, or set another port",
        io::ErrorKind::PermissionDenied => "set a port above 1023, or allow this program to open lower ones",
        io::ErrorKind::AddrNotAvailable => "set an address of this machine, or 0.0.0.0 for all of them",
        _ => "set another address",
    }
}

/// An open port with its routes.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    users: Option<LiveUsers>,
    shared: Arc<Shared>,
}

/// Serves connections that another listener accepted, with the routes and limits of this port.
#[derive(Debug, Clone)]
pub struct Door(Arc<Shared>);

impl Door {
    /// Waits until the port is being served, then serves the connection until it ends. After `stop`, or once the port
    /// stops, requests in progress are completed.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send, stop: &CancellationToken) {
        let shared = &self.0;
        if stop.run_until_cancelled(shared.started.cancelled()).await.is_none() {
            return;
        }
        shared.meter.accepted.add(1);
        let Some(place) = shared.places.take(shared.limits.get().connections) else {
            return shared.meter.refused.add(1);
        };
        shared.count_open();
        tokio::select! {
            () = shared.serve(stream, None, &place, stop) => {}
            () = place.given_away() => shared.meter.idle.add(1),
        }
        drop(place);
        shared.count_open();
    }
}

/// The limits of a port's connections.
#[derive(Debug, Clone)]
enum CurrentLimits {
    Fixed(PortLimits),
    Live(LiveLimits),
}

impl CurrentLimits {
    fn get(&self) -> PortLimits {
        match self {
            Self::Fixed(limits) => limits.clone(),
            Self::Live(limits) => limits.load().of_port(),
        }
    }
}

impl Server {
    /// Opens the port of Graphite's API. Returns `None` if `config.listen` is empty.
    ///
    /// # Errors
    ///
    /// `BindError::Listen` if the address cannot be bound, `BindError::Tls` if certificate or key cannot be
    /// used, `BindError::Users` if the file of users cannot.
    pub async fn bind(config: &Config, handles: &Handles) -> Result<Option<Self>, BindError> {
        let limits = LiveLimits::new(config.limits.clone());
        let access = handles.status.as_ref().map(|status| Access::new(&status.token, status.secret.clone()));
        let users = LiveUsers::new(&config.users, access, &handles.registry)?;
        let router = api_router(config, limits.clone(), users.clone(), handles);
        let limits = CurrentLimits::Live(limits);
        let server =
            Self::open("api", &config.listen, &config.tls, limits, router, &handles.registry).await?;
        Ok(server.map(|server| Self { users: Some(users), ..server }))
    }

    /// Opens the port for operators. Returns `None` if `config.listen` is empty.
    ///
    /// # Errors
    ///
    /// `BindError::Listen` if the address cannot be bound, `BindError::Tls` if certificate or key cannot be
    /// used.
    pub async fn bind_admin(config: &AdminConfig, handles: &AdminHandles) -> Result<Option<Self>, BindError> {
        let router = admin_router(config, handles);
        let limits = CurrentLimits::Fixed(config.limits.clone());
        Self::open("admin", &config.listen, &config.tls, limits, router, &handles.registry).await
    }

    async fn open(
        port: &'static str,
        listen: &str,
        tls: &TlsConfig,
        limits: CurrentLimits,
        router: Router,
        registry: &Registry,
    ) -> Result<Option<Self>, BindError> {
        if listen.is_empty() {
            return Ok(None);
        }
        let certificates = Arc::new(tls.load()?);
        let failed = |cause| BindError::Listen { listen: listen.to_owned(), cause };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared {
            port,
            router,
            certificates,
            places: Places::new(),
            limits,
            meter: ConnectionMeter::new(registry, port),
            started: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            abort: CancellationToken::new(),
        });
        Ok(Some(Self { listener, address, users: None, shared }))
    }

    /// Returns a handle that serves connections of other listeners like those of this port.
    pub fn door(&self) -> Door {
        Door(Arc::clone(&self.shared))
    }

    /// The bound address, with the port that the system chose if the configuration says 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificates. They can be reloaded while the port is open.
    pub fn certificates(&self) -> Arc<Certificates> {
        Arc::clone(&self.shared.certificates)
    }

    /// The limits of the API port, which can be changed while it is open. `None` for the port of operators.
    pub fn limits(&self) -> Option<LiveLimits> {
        match &self.shared.limits {
            CurrentLimits::Fixed(_) => None,
            CurrentLimits::Live(limits) => Some(limits.clone()),
        }
    }

    /// The users of the API port, whose file can be read again while it is open. `None` for the port of operators.
    pub fn users(&self) -> Option<LiveUsers> {
        self.users.clone()
    }

    /// Serves until `shutdown` is cancelled. Then accepts no more connections, waits for requests in progress
    /// for at most `limits.drain`, and closes the connections that are left.
    pub async fn run(self, shutdown: CancellationToken) {
        let connections = TaskTracker::new();
        let Self { address, listener, shared, .. } = self;
        shared.started.cancel();
        let throttle = Throttle::new(10_000);
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if throttle.pass(now_ms()).is_some() {
                        tracing::warn!(%error, %address, "cannot accept connections; raise the limit of open files or lower limits.connections of this port");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match shared.places.take(shared.limits.get().connections) {
                Some(place) => drop(connections.spawn(Arc::clone(&shared).connection(stream, place))),
                None => shared.refuse(&stream),
            }
        }
        drop(listener);
        shared.shutdown.cancel();
        connections.close();
        let drain = shared.limits.get().drain;
        if tokio::time::timeout(*drain, connections.wait()).await.is_err() {
            shared.abort.cancel();
            connections.wait().await;
        }
    }
}

fn now_ms() -> i64 {
    use plumbago_model::Clock as _;
    plumbago_model::SystemClock.now_ms()
}

/// State that all connections of a port share.
#[derive(Debug)]
struct Shared {
    /// The section of the port in the configuration: "api" or "admin".
    port: &'static str,
    router: Router,
    certificates: Arc<Certificates>,
    places: Places,
    limits: CurrentLimits,
    meter: ConnectionMeter,
    /// Cancelled once the port is being served.
    started: CancellationToken,
    shutdown: CancellationToken,
    abort: CancellationToken,
}

impl Shared {
    async fn connection(self: Arc<Self>, stream: TcpStream, place: Place) {
        self.meter.accepted.add(1);
        self.count_open();
        // A failure is harmless: the option only tunes the connection.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(STALLED));
        tokio::select! {
            () = self.serve_any(stream, &place) => {}
            () = place.given_away() => self.meter.idle.add(1),
        }
        drop(place);
        self.count_open();
    }

    fn count_open(&self) {
        self.meter.open.set(self.places.taken() as f64);
    }

    async fn serve_any(&self, stream: TcpStream, place: &Place) {
        let client = stream.peer_addr().ok().map(Client);
        match self.certificates.acceptor() {
            None => self.serve(stream, client, place, &self.shutdown).await,
            Some(acceptor) => match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.serve(stream, client, place, &self.shutdown).await,
                _ => self.meter.failed.add(1),
            },
        }
    }

    /// Serves requests until the client disconnects or takes longer than `limits.idle` for a request head, or
    /// until the port or `stop` ends the connection. In the last case requests in progress are completed,
    /// unless `abort` is cancelled.
    async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send,
        client: Option<Client>,
        place: &Place,
        stop: &CancellationToken,
    ) {
        let routes = TowerToHyperService::new(self.router.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            if let Some(client) = client {
                request.extensions_mut().insert(client);
            }
            let (busy, answer) = (place.busy(), routes.call(request));
            async move {
                let response: Response = answer.await?;
                Ok::<_, Infallible>(response.map(|body| busy.until_the_end_of(body)))
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(*self.limits.get().idle)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        // An error here means that the client broke the connection. `Meter` counts the requests.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.shutdown.cancelled() => connection.as_mut().graceful_shutdown(),
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection => {}
            () = self.abort.cancelled() => {}
        }
    }

    /// Answers 503 to a connection over the limit, without waiting for the client. An encrypted connection is
    /// closed without an answer.
    fn refuse(&self, stream: &TcpStream) {
        self.meter.refused.add(1);
        if self.certificates.acceptor().is_none() {
            let text = format!("too many connections ({}.limits.connections)\n", self.port);
            let length = text.len();
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\
                 content-length: {length}\r\n\r\n{text}"
            );
            let _ = stream.try_write(answer.as_bytes());
        }
    }
}
