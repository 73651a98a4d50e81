//! Where points are sent: `protocol://host:port`.

use std::fmt::{self, Display};
use std::str::FromStr;

/// How points are written on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Lines of text, `name value timestamp`.
    Line,
    /// Carbon's pickles, each with its length before it.
    Pickle,
}

/// A server that gets points.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// The protocol of the connection.
    pub protocol: Protocol,
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// Name or address of the host, without brackets.
    pub host: String,
    /// The port; never 0.
    pub port: u16,
}

/// The text is not a destination.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a destination; write protocol://host:port, like \"line://10.0.0.2:2003\" or \
     \"pickle://10.0.0.2:2004\", with TLS \"line+tls://…\" or \"pickle+tls://…\""
)]
pub struct DestinationError(String);

impl Destination {
    /// `host:port`. It is unique among the destinations of a relay, and identifies a destination in rules and
    /// metrics.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Name of the directory of its queue.
    pub(crate) fn directory(&self) -> String {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
        let host: String = self.host.chars().map(safe).collect();
        format!("{host}_{}", self.port)
    }
}

impl Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Line => "line",
            Protocol::Pickle => "pickle",
        };
        let tls = if self.tls { "+tls" } else { "" };
        write!(f, "{protocol}{tls}://{}", self.address())
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        parse(text).ok_or_else(|| DestinationError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Destination> {
    let (scheme, address) = text.split_once("://")?;
    let (protocol, tls) = match scheme.split_once('+') {
        Some((protocol, "tls")) => (protocol, true),
        Some(_) => return None,
        None => (scheme, false),
    };
    let protocol = match protocol {
        "line" => Protocol::Line,
        "pickle" => Protocol::Pickle,
        _ => return None,
    };
    let (host, port) = split(address)?;
    Some(Destination { protocol, tls, host: host.to_owned(), port })
}

/// Splits `host:port` or `[address]:port`.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty() && host.chars().all(is_host)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_and_written() {
        for (text, address, directory) in [
            ("line://10.0.0.2:2003", "10.0.0.2:2003", "10.0.0.2_2003"),
            ("pickle://carbon-b.example:2004", "carbon-b.example:2004", "carbon-b.example_2004"),
            ("line+tls://[::1]:2003", "[::1]:2003", "__1_2003"),
            ("pickle+tls://h:1", "h:1", "h_1"),
        ] {
            let destination: Destination = text.parse().unwrap();
            assert_eq!(destination.to_string(), text);
            assert_eq!(destination.address(), address);
            assert_eq!(destination.directory(), directory);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "h:1",
            "line://",
            "line://h",
            "line://h:0",
            "line://h:x",
            "line://:1",
            "udp://h:1",
            "line+ssl://h:1",
            "line://::1:1",
            "line://[::1:1",
            "line://a/../b:1",
            "line://h:65536",
        ] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
    }
}
