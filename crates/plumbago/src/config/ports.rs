//! Finds ports of this process that cannot be open at the same time, because their addresses overlap.

use std::net::{SocketAddr, ToSocketAddrs};

use super::Config;

/// A TCP port of the configuration.
struct Port<'a> {
    key: String,
    listen: &'a str,
    address: SocketAddr,
}

/// Finds the ports whose address another port has: the key of the setting, and what is wrong with it.
pub(super) fn problems(config: &Config) -> Vec<(String, String)> {
    let mut open: Vec<Port<'_>> = Vec::new();
    let mut found = Vec::new();
    for (key, listen) in listens(config) {
        // An address that cannot be resolved is reported by the section itself.
        let Some(address) = listen.to_socket_addrs().ok().and_then(|mut all| all.next()) else { continue };
        match open.iter().find(|other| overlap(address, other.address)) {
            Some(other) => found.push((key, describe(listen, address, other))),
            None => open.push(Port { key, listen, address }),
        }
    }
    found
}

fn listens(config: &Config) -> Vec<(String, &str)> {
    let ingest = config.ingest.tcp.iter();
    let ingest = ingest
        .map(|(protocol, section)| (format!("ingest.{}.listen", protocol.name), section.listen.as_str()));
    let others = [
        ("carbonlink.listen", config.carbonlink.listen.as_str()),
        ("api.listen", &config.api.listen),
        ("admin.listen", &config.admin.listen),
    ];
    ingest.chain(others.map(|(key, listen)| (key.to_owned(), listen))).collect()
}

fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || includes(a, b) || includes(b, a))
}

/// Whether `all` stands for every address of the machine, `one` among them. `[::]` includes IPv4, as Linux
/// does by default.
fn includes(all: SocketAddr, one: SocketAddr) -> bool {
    all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
}

fn describe(listen: &str, address: SocketAddr, other: &Port<'_>) -> String {
    if address.ip() == other.address.ip() {
        return format!("{listen} is taken by {}", other.key);
    }
    let is_wide = address.ip().is_unspecified();
    let (wide, narrow) = if is_wide { (listen, other.listen) } else { (other.listen, listen) };
    format!(
        "{listen} overlaps with {} of {}: {wide} means every address of this machine, so it includes {narrow}; use another port",
        other.listen, other.key
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(ports: [&str; 4]) -> Config {
        let mut config = Config::default();
        let [line, pickle, api, admin] = ports.map(str::to_owned);
        config.ingest.tcp.get_mut("line").unwrap().listen = line;
        config.ingest.tcp.get_mut("pickle").unwrap().listen = pickle;
        config.api.listen = api;
        config.admin.listen = admin;
        config
    }

    #[test]
    fn overlapping_addresses_are_found() {
        for (ports, expected) in [
            (["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"], None),
            (["127.0.0.1:1", "127.0.0.2:1", "[::1]:1", "10.0.0.1:1"], None),
            (["127.0.0.1:0", "0.0.0.0:0", "", ""], None),
            (["127.0.0.1:1", "127.0.0.1:1", "", ""], Some("ingest.pickle.listen")),
            (["127.0.0.1:1", "", "0.0.0.0:1", ""], Some("api.listen")),
            (["0.0.0.0:1", "", "", "127.0.0.1:1"], Some("admin.listen")),
            (["[::]:1", "127.0.0.1:1", "", ""], Some("ingest.pickle.listen")),
            (["[::1]:1", "", "", "[::]:1"], Some("admin.listen")),
            (["0.0.0.0:1", "", "", "[::1]:1"], None),
        ] {
            let found = problems(&config(ports));
            assert_eq!(found.first().map(|(key, _)| key.as_str()), expected, "{ports:?}");
        }
        let (_, message) = problems(&config(["0.0.0.0:1", "", "", "127.0.0.1:1"])).remove(0);
        assert!(
            message.starts_with("127.0.0.1:1 overlaps with 0.0.0.0:1 of ingest.line.listen"),
            "{message}"
        );
    }
}
