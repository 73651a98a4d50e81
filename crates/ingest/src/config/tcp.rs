//! The sections of the protocols on TCP, one for each entry of [`protocol::TCP`].

use std::fmt;
use std::time::Duration;

use plumbago_model::units::{ByteSize, Period};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::listen::Listen;
use super::tls::TlsConfig;
use crate::protocol::{self, Compression, TcpProtocol};

/// The section `[ingest.<name>]` of one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpConfig {
    /// Addresses and ports. An empty list switches the listener off. reload: no
    pub listen: Listen,
    /// Longest message in bytes. The key is `line_bytes_max`, `frame_bytes_max` or `body_bytes_max`, depending on
    /// the protocol. A longer line is skipped and counted. A longer frame closes its connection. A longer body is
    /// refused. reload: no
    pub message_bytes_max: u64,
    /// Whether streams may be compressed, for protocols that allow it. reload: no
    pub compression: Compression,
    /// Largest number of open connections. Beyond it, new connections wait until another one ends. To make room, a
    /// connection that has been silent for a minute is closed. reload: no
    pub connections_max: usize,
    /// A connection that is silent for this long is closed. Zero means never. reload: no
    pub idle_timeout: Duration,
    /// TLS. reload: yes, the files
    pub tls: TlsConfig,
}

impl TcpConfig {
    fn of(protocol: &TcpProtocol) -> Self {
        Self {
            listen: protocol.listen.into(),
            message_bytes_max: protocol.limit.default,
            compression: Compression::default(),
            connections_max: 4096,
            idle_timeout: Duration::ZERO,
            tls: TlsConfig::default(),
        }
    }
}

/// The sections of all protocols, in the order of [`protocol::TCP`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSections(Vec<TcpConfig>);

impl TcpSections {
    /// Each protocol with its section.
    pub fn iter(&self) -> impl Iterator<Item = (&'static TcpProtocol, &TcpConfig)> {
        protocol::TCP.iter().zip(&self.0)
    }

    /// The section of a protocol. `None` if there is no protocol of this name.
    pub fn get(&self, name: &str) -> Option<&TcpConfig> {
        self.0.get(at(name)?)
    }

    /// A protocol with its section, to be changed. `None` if there is no protocol of this name.
    pub(super) fn entry(&mut self, name: &str) -> Option<(&'static TcpProtocol, &mut TcpConfig)> {
        let at = at(name)?;
        Some((protocol::TCP.get(at)?, self.0.get_mut(at)?))
    }

    /// Like [`Self::get`], to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut TcpConfig> {
        self.0.get_mut(at(name)?)
    }
}

impl Default for TcpSections {
    fn default() -> Self {
        Self(protocol::TCP.iter().map(TcpConfig::of).collect())
    }
}

fn at(name: &str) -> Option<usize> {
    protocol::TCP.iter().position(|protocol| protocol.name == name)
}

/// Reads the section of one protocol.
pub(super) struct Section(pub(super) &'static TcpProtocol);

impl<'de> DeserializeSeed<'de> for Section {
    type Value = TcpConfig;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TcpConfig, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Section {
    type Value = TcpConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the section [ingest.{}]", self.0.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TcpConfig, A::Error> {
        let mut config = TcpConfig::of(self.0);
        let limit = self.0.limit.key;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "listen" => config.listen = map.next_value()?,
                "connections_max" => config.connections_max = map.next_value()?,
                "idle_timeout" => config.idle_timeout = map.next_value::<Period>()?.0,
                "tls" => config.tls = map.next_value()?,
                key if key == limit => config.message_bytes_max = map.next_value::<ByteSize>()?.0,
                "compression" if self.0.is_compressible => config.compression = map.next_value()?,
                key => {
                    let known = ["listen", limit, "connections_max", "idle_timeout", "tls"];
                    let compression = self.0.is_compressible.then_some("compression");
                    return Err(unknown(key, known.into_iter().chain(compression)));
                }
            }
        }
        Ok(config)
    }
}

/// The message that serde has for an unknown key. Its own function accepts only a constant list of keys.
pub(super) fn unknown<E: Error>(key: &str, known: impl IntoIterator<Item = &'static str>) -> E {
    let known: Vec<String> = known.into_iter().map(|key| format!("`{key}`")).collect();
    E::custom(format_args!("unknown field `{key}`, expected one of {}", known.join(", ")))
}
