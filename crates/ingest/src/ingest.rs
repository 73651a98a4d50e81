//! Binds and runs all listeners.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use plumbago_model::Clock;
use plumbago_telemetry::Registry;
use plumbago_tls::{Certificates, TlsError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::config::{Config, Listen, TcpConfig, resolve};
use crate::http_server::HttpServer;
use crate::listener::{Shared, tcp, udp};
use crate::protocol::TcpProtocol;
use crate::relabel::{Rules, RulesError};
use crate::sink::PointSink;
use crate::stats::{Listener, Stats};
use crate::writes::Writes;

/// All listeners, bound but not reading yet.
pub struct Ingest {
    tcp: Vec<tcp::Bound>,
    udp: Vec<udp::Bound>,
    shared: Arc<Shared>,
    writes: Writes,
    handle: Handle,
}

/// The bound addresses. A listener that is off has none, others have one or more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses(Vec<(Listener, SocketAddr)>);

impl Addresses {
    /// The first address of a listener, with the port that the kernel chose for port 0. `None` if it is off.
    pub fn of(&self, listener: Listener) -> Option<SocketAddr> {
        self.iter().find(|(other, _)| *other == listener).map(|(_, address)| address)
    }

    /// The listeners that are on, once for each of their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (Listener, SocketAddr)> {
        self.0.iter().copied()
    }
}

/// Access to running listeners. Clones refer to the same listeners.
#[derive(Debug, Clone)]
pub struct Handle {
    addresses: Addresses,
    stats: Arc<Stats>,
    rules: Rules,
    certificates: Arc<Vec<(Listener, Arc<Certificates>)>>,
}

/// Why a listener could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The setting `listen` is not an address.
    #[error("ingest.{listener}.listen: {problem}")]
    Address {
        /// The listener.
        listener: Listener,
        /// The problem of the address.
        problem: String,
    },
    /// The operating system refused to bind the address.
    #[error("ingest.{listener}.listen: cannot bind {address}: {source}; {}", advice(.source))]
    Bind {
        /// The listener.
        listener: Listener,
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The TLS files cannot be used.
    #[error("ingest.{listener}.tls: {source}")]
    Tls {
        /// The listener.
        listener: Listener,
        /// Which file, and what is wrong with it.
        source: TlsError,
    },
}

/// The problems of a reload. Files with a problem stay as they were; the others have been reloaded.
#[derive(Debug, thiserror::Error)]
pub struct ReloadError {
    /// Problems of the lists and rewrite rules.
    pub rules: Option<RulesError>,
    /// Problems of TLS files, with their listener.
    pub tls: Vec<(Listener, TlsError)>,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(ToString::to_string);
        let tls = self.tls.iter();
        let tls = tls.map(|(listener, error)| format!("ingest.{listener}.tls.{}: {error}", error.setting()));
        f.write_str(&rules.chain(tls).collect::<Vec<_>>().join("\n"))
    }
}

pub(crate) fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "stop the program that uses it, choose another port, or set listen = \"\" to switch the listener off"
        }
        io::ErrorKind::PermissionDenied => {
            "choose a port above 1023, or allow this program to bind lower ports"
        }
        io::ErrorKind::AddrNotAvailable => "choose an address of this machine, or 0.0.0.0 for all of them",
        _ => "choose another address, or set listen = \"\" to switch the listener off",
    }
}

impl Ingest {
    /// Binds every listener that is on. Nothing is read before [`Ingest::run`], but senders can already
    /// connect while the rest of the process starts.
    ///
    /// # Errors
    /// The first listener whose address is invalid or in use, or whose TLS files cannot be used.
    pub fn bind(
        config: &Config,
        rules: Rules,
        sink: Arc<dyn PointSink>,
        clock: Arc<dyn Clock>,
        registry: &Registry,
    ) -> Result<Self, BindError> {
        let stats = Arc::new(Stats::new(registry));
        let shared = Shared::new(
            sink,
            clock,
            rules.clone(),
            config.names(),
            Arc::clone(&stats),
            config.frame_memory_bytes,
        );
        let tcp = Listener::over_tcp()
            .zip(config.tcp.iter())
            .map(|(listener, (protocol, section))| bind_tcp(listener, *protocol, section));
        let tcp: Vec<_> = tcp.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let udp = bind_udp(config, registry)?;
        let certificates =
            tcp.iter().map(|bound| (bound.listener, Arc::clone(&bound.certificates))).collect();
        let addresses = addresses(&tcp, &udp);
        let handle = Handle { addresses, stats, rules, certificates: Arc::new(certificates) };
        let shared = Arc::new(shared);
        let writes = Writes::new(Arc::clone(&shared));
        Ok(Self { tcp, udp, shared, writes, handle })
    }

    /// The bound addresses, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> &Addresses {
        &self.handle.addresses
    }

    /// Sets the server for HTTP connections on the port of OpenTSDB's lines. Without one these connections are
    /// closed.
    pub fn serve_http_by(&self, server: impl HttpServer + 'static) {
        self.shared.http.set(Box::new(server));
    }

    /// Returns access for points that arrive in requests to the API's port.
    pub fn writes(&self) -> Writes {
        self.writes.clone()
    }

    /// Access to the listeners while they run.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Reads until `shutdown`. Then it stops accepting connections, reads the bytes that the kernel has
    /// already received, and returns once the sink has accepted all of their points.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut listeners = JoinSet::new();
        let (writes, stop) = (self.writes, shutdown.clone());
        listeners.spawn(async move {
            stop.cancelled().await;
            writes.close().await;
            (Listener::API, Ok(()))
        });
        for bound in self.tcp {
            let (shared, stop) = (Arc::clone(&self.shared), shutdown.clone());
            let listener = bound.listener;
            listeners.spawn(async move { (listener, tcp::run(bound, shared, stop).await) });
        }
        for bound in self.udp {
            let (shared, stop) = (Arc::clone(&self.shared), shutdown.clone());
            listeners.spawn(async move { (Listener::UDP, udp::run(bound, shared, stop).await) });
        }
        while let Some(ended) = listeners.join_next().await {
            match ended {
                Ok((listener, Ok(()))) => info!(listener = listener.label(), "listener stopped"),
                Ok((listener, Err(error))) => {
                    error!(listener = listener.label(), %error, "a listener failed; restart the daemon to use it again");
                }
                Err(error) => error!(%error, "a listener failed; restart the daemon to use it again"),
            }
        }
    }
}

impl Handle {
    /// The bound addresses.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The counters of the listeners.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Reloads the lists, rewrite rules and certificates.
    ///
    /// # Errors
    /// All problems. Files with a problem stay as they were; the others are reloaded.
    pub fn reload(&self, config: &Config) -> Result<(), ReloadError> {
        let rules = self.rules.reload(config.rule_files()).err();
        let reload = |(listener, one): &(Listener, Arc<Certificates>)| {
            let section = config.tcp.get(listener.label())?;
            Some((*listener, one.reload(&section.tls.files()).err()?))
        };
        let tls: Vec<_> = self.certificates.iter().filter_map(reload).collect();
        if rules.is_none() && tls.is_empty() { Ok(()) } else { Err(ReloadError { rules, tls }) }
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Binds each address of a listener.
fn bind_all<S>(
    listener: Listener,
    listen: &Listen,
    bind: impl Fn(SocketAddr) -> io::Result<S>,
) -> Result<Vec<S>, BindError> {
    let bind = |text| {
        let address = resolve(text).map_err(|problem| BindError::Address { listener, problem })?;
        bind(address).map_err(|source| BindError::Bind { listener, address, source })
    };
    listen.iter().map(bind).collect()
}

fn bind_tcp(
    listener: Listener,
    protocol: TcpProtocol,
    section: &TcpConfig,
) -> Result<Option<tcp::Bound>, BindError> {
    if section.listen.is_off() {
        return Ok(None);
    }
    let certificates = section.tls.load().map_err(|source| BindError::Tls { listener, source })?;
    Ok(Some(tcp::Bound {
        listener,
        sockets: bind_all(listener, &section.listen, tcp::bind)?,
        connections_max: section.connections_max,
        idle_timeout: (!section.idle_timeout.is_zero()).then_some(section.idle_timeout),
        certificates: Arc::new(certificates),
        talk: protocol.talk,
        message_bytes_max: length(section.message_bytes_max),
        compression: section.compression,
    }))
}

fn bind_udp(config: &Config, registry: &Registry) -> Result<Vec<udp::Bound>, BindError> {
    let bind = |address| udp::bind(address, length(config.udp.receive_buffer_bytes));
    let sockets = bind_all(Listener::UDP, &config.udp.listen, bind)?;
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    let kernel_drops = registry.counter(
        "plumbago_ingest_udp_kernel_drops_total",
        "Datagrams that the kernel dropped before they were read",
        &[],
    );
    let line_bytes_max = length(config.udp.line_bytes_max);
    let bound = |socket| udp::Bound { socket, line_bytes_max, kernel_drops: kernel_drops.clone() };
    Ok(sockets.into_iter().map(bound).collect())
}

fn addresses(tcp: &[tcp::Bound], udp: &[udp::Bound]) -> Addresses {
    let tcp = tcp.iter().flat_map(|bound| bound.sockets.iter().map(|s| (bound.listener, s.local_addr())));
    let udp = udp.iter().map(|bound| (Listener::UDP, bound.socket.local_addr()));
    Addresses(tcp.chain(udp).filter_map(|(listener, address)| Some((listener, address.ok()?))).collect())
}
