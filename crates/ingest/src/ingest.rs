//! All listeners together.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use plumbago_model::Clock;
use plumbago_telemetry::Registry;
use plumbago_tls::{Certificates, TlsError};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::config::{Config, TlsConfig, resolve};
use crate::listener::{Shared, tcp, udp};
use crate::protocol::line::Lines;
use crate::protocol::pickle::Pickle;
use crate::protocol::protobuf::Protobuf;
use crate::protocol::{Framed, Protocol};
use crate::relabel::{Rules, RulesError};
use crate::sink::PointSink;
use crate::stats::{Listener, Stats};

/// The listeners, bound and not yet reading.
pub struct Ingest {
    tcp: Vec<tcp::Bound>,
    udp: Option<udp::Bound>,
    shared: Arc<Shared>,
    handle: Handle,
}

/// Where the listeners listen; `None` is switched off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The line protocol on TCP.
    pub line: Option<SocketAddr>,
    /// The line protocol on UDP.
    pub udp: Option<SocketAddr>,
    /// Pickle on TCP.
    pub pickle: Option<SocketAddr>,
    /// Protobuf on TCP.
    pub protobuf: Option<SocketAddr>,
}

/// A hand on running listeners. Cloning shares them.
#[derive(Debug, Clone)]
pub struct Handle {
    addresses: Addresses,
    stats: Arc<Stats>,
    rules: Rules,
    certificates: Arc<Vec<(Listener, Arc<Certificates>)>>,
}

/// Why the listeners cannot be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address means nothing.
    #[error("ingest.{listener}.listen: {problem}")]
    Address {
        /// The listener.
        listener: Listener,
        /// What is wrong with it.
        problem: String,
    },
    /// The address cannot be had.
    #[error("ingest.{listener}.listen: cannot bind {address}: {source}; {}", advice(.source))]
    Bind {
        /// The listener.
        listener: Listener,
        /// The address.
        address: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error("ingest.{listener}.tls: {source}")]
    Tls {
        /// The listener.
        listener: Listener,
        /// What is wrong with them.
        source: TlsError,
    },
}

/// What was wrong at a reload; it stays as it was, everything else was renewed.
#[derive(Debug, thiserror::Error)]
pub struct ReloadError {
    /// Of the lists and rewrite rules.
    pub rules: Option<RulesError>,
    /// Of the certificates.
    pub tls: Vec<(Listener, TlsError)>,
}

impl fmt::Display for ReloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = self.rules.iter().map(ToString::to_string);
        let tls = self.tls.iter().map(|(listener, error)| format!("ingest.{listener}.tls: {error}"));
        f.write_str(&rules.chain(tls).collect::<Vec<_>>().join("\n"))
    }
}

fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => {
            "stop the program that holds it, choose another port, or set listen = \"\" to do without"
        }
        io::ErrorKind::PermissionDenied => "choose a port above 1023, or allow this program lower ones",
        io::ErrorKind::AddrNotAvailable => "choose an address of this machine, or 0.0.0.0 for all of them",
        _ => "choose another address, or set listen = \"\" to do without",
    }
}

impl Ingest {
    /// Binds every listener that is not switched off. Nothing is read before [`Ingest::run`], so that
    /// senders can already connect while the rest of the process starts.
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
        let tcp: Vec<_> = [line(config)?, pickle(config)?, protobuf(config)?].into_iter().flatten().collect();
        let udp = bind_udp(config, registry)?;
        let certificates =
            tcp.iter().map(|bound| (bound.listener, Arc::clone(&bound.certificates))).collect();
        let addresses = addresses(&tcp, udp.as_ref());
        let handle = Handle { addresses, stats, rules, certificates: Arc::new(certificates) };
        Ok(Self { tcp, udp, shared: Arc::new(shared), handle })
    }

    /// Where the listeners listen, with the ports that the kernel chose for port 0.
    pub fn addresses(&self) -> Addresses {
        self.handle.addresses
    }

    /// A hand on the listeners, to keep while they run.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Reads until `shutdown`, then accepts no more, pushes what the kernel has already taken from the
    /// senders, and returns when the sink has all of it.
    pub async fn run(self, shutdown: CancellationToken) {
        let mut listeners = JoinSet::new();
        for bound in self.tcp {
            let (shared, stop) = (Arc::clone(&self.shared), shutdown.clone());
            let listener = bound.listener;
            listeners.spawn(async move { (listener, tcp::run(bound, shared, stop).await) });
        }
        if let Some(bound) = self.udp {
            let (shared, stop) = (Arc::clone(&self.shared), shutdown.clone());
            listeners.spawn(async move { (Listener::Udp, udp::run(bound, shared, stop).await) });
        }
        while let Some(ended) = listeners.join_next().await {
            match ended {
                Ok((listener, Ok(()))) => info!(listener = listener.label(), "listener stopped"),
                Ok((listener, Err(error))) => error!(listener = listener.label(), %error, "listener failed"),
                Err(error) => error!(%error, "listener failed"),
            }
        }
    }
}

impl Handle {
    /// Where the listeners listen.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What they count.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Reads the lists, rewrite rules and certificates that the settings name now. What is wrong stays as
    /// it was.
    pub fn reload(&self, config: &Config) -> Result<(), ReloadError> {
        let rules = self.rules.reload(config).err();
        let reload = |(listener, one): &(Listener, Arc<Certificates>)| {
            let tls = match listener {
                Listener::Line => &config.line.tls,
                Listener::Pickle => &config.pickle.tls,
                Listener::Protobuf => &config.protobuf.tls,
                Listener::Udp => return None,
            };
            Some((*listener, one.reload(&tls.files()).err()?))
        };
        let tls: Vec<_> = self.certificates.iter().filter_map(reload).collect();
        if rules.is_none() && tls.is_empty() { Ok(()) } else { Err(ReloadError { rules, tls }) }
    }
}

fn line(config: &Config) -> Result<Option<tcp::Bound>, BindError> {
    let section = &config.line;
    let line_bytes_max = length(section.line_bytes_max);
    let options = (section.connections_max, section.idle_timeout, &section.tls);
    bind_tcp(Listener::Line, &section.listen, options, move || Box::new(Lines::new(line_bytes_max)))
}

fn pickle(config: &Config) -> Result<Option<tcp::Bound>, BindError> {
    let section = &config.pickle;
    let frame_bytes_max = length(section.frame_bytes_max);
    let options = (section.connections_max, section.idle_timeout, &section.tls);
    bind_tcp(Listener::Pickle, &section.listen, options, move || {
        Box::new(Framed::new(Pickle, frame_bytes_max))
    })
}

fn protobuf(config: &Config) -> Result<Option<tcp::Bound>, BindError> {
    let section = &config.protobuf;
    let frame_bytes_max = length(section.frame_bytes_max);
    let options = (section.connections_max, section.idle_timeout, &section.tls);
    let protocol = move || -> Box<dyn Protocol> { Box::new(Framed::new(Protobuf, frame_bytes_max)) };
    bind_tcp(Listener::Protobuf, &section.listen, options, protocol)
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn address(listener: Listener, listen: &str) -> Result<Option<SocketAddr>, BindError> {
    if listen.is_empty() {
        return Ok(None);
    }
    resolve(listen).map(Some).map_err(|problem| BindError::Address { listener, problem })
}

fn bind_tcp(
    listener: Listener,
    listen: &str,
    (connections_max, idle_timeout, tls): (usize, Duration, &TlsConfig),
    protocol: impl Fn() -> Box<dyn Protocol> + Send + Sync + 'static,
) -> Result<Option<tcp::Bound>, BindError> {
    let Some(address) = address(listener, listen)? else { return Ok(None) };
    let certificates = tls.load().map_err(|source| BindError::Tls { listener, source })?;
    let socket = tcp::bind(address).map_err(|source| BindError::Bind { listener, address, source })?;
    Ok(Some(tcp::Bound {
        listener,
        socket,
        connections_max,
        idle_timeout: (!idle_timeout.is_zero()).then_some(idle_timeout),
        certificates: Arc::new(certificates),
        protocol: Box::new(protocol),
    }))
}

fn bind_udp(config: &Config, registry: &Registry) -> Result<Option<udp::Bound>, BindError> {
    let listener = Listener::Udp;
    let Some(address) = address(listener, &config.udp.listen)? else { return Ok(None) };
    let socket = udp::bind(address, length(config.udp.receive_buffer_bytes))
        .map_err(|source| BindError::Bind { listener, address, source })?;
    let kernel_drops = registry.counter(
        "plumbago_ingest_udp_kernel_drops_total",
        "Datagrams that the kernel dropped before they were read",
        &[],
    );
    let line_bytes_max = length(config.udp.line_bytes_max);
    Ok(Some(udp::Bound { socket, line_bytes_max, kernel_drops }))
}

fn addresses(tcp: &[tcp::Bound], udp: Option<&udp::Bound>) -> Addresses {
    let of = |listener| {
        tcp.iter().find(|bound| bound.listener == listener).and_then(|bound| bound.socket.local_addr().ok())
    };
    Addresses {
        line: of(Listener::Line),
        udp: udp.and_then(|bound| bound.socket.local_addr().ok()),
        pickle: of(Listener::Pickle),
        protobuf: of(Listener::Protobuf),
    }
}
