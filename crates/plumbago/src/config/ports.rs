//! Finds ports of this process whose addresses overlap, so that they cannot be open at the same time; addresses that
//! cannot be opened on this machine; and destinations of the relay that are ports of this process.

use std::io::{Error, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};

use plumbago_relay::Destination;

use super::{Config, me};

/// Only privileged programs may open ports below this one, unless the system is set otherwise.
const FIRST_FREE_PORT: u16 = 1024;

/// A port of the configuration.
struct Port<'a> {
    key: String,
    listen: &'a str,
    address: SocketAddr,
    is_udp: bool,
}

/// Finds the ports whose address another port already uses, and relays to this process. Returns the key of
/// each setting, and the problem.
pub(super) fn problems(config: &Config) -> Vec<(String, String)> {
    let ports = ports(config);
    let mut open: Vec<&Port<'_>> = Vec::new();
    let mut found = Vec::new();
    for port in &ports {
        match open.iter().find(|other| other.is_udp == port.is_udp && overlap(port.address, other.address)) {
            Some(other) => found.push((port.key.clone(), describe(port, other))),
            None => open.push(port),
        }
    }
    found.extend(loops(config, &ports));
    found
}

/// All ports. An address that cannot be resolved is reported by the section itself.
fn ports(config: &Config) -> Vec<Port<'_>> {
    let resolved = listens(config).into_iter().filter_map(|(key, listen, is_udp)| {
        let address = listen.to_socket_addrs().ok()?.next()?;
        Some(Port { key, listen, address, is_udp })
    });
    resolved.collect()
}

/// Finds addresses that cannot be opened on this machine now. Returns the key of each setting, and the
/// problem. These are warnings, because the network may not be up yet. It is not checked whether another
/// program uses the port, because that may be the running daemon.
pub(super) fn unusable(config: &Config) -> Vec<(String, String)> {
    let ports = listens(config).into_iter();
    ports.filter_map(|(key, listen, is_udp)| Some((key, why_unusable(listen, is_udp)?))).collect()
}

fn why_unusable(listen: &str, is_udp: bool) -> Option<String> {
    const THEN: &str = "until then the daemon does not start";
    if listen.is_empty() {
        return None;
    }
    let address = match listen.to_socket_addrs() {
        Ok(mut found) => found.next()?,
        // A text that is not an address is reported by the check of its section.
        Err(error) if error.kind() == ErrorKind::InvalidInput => return None,
        Err(error) => {
            return Some(format!(
                "cannot find the address of {listen}: {error}; correct the name or the resolver; {THEN}"
            ));
        }
    };
    // Opening any free port at this address shows whether the address is one of this machine.
    let is_privileged = (1..FIRST_FREE_PORT).contains(&address.port());
    let mut probe = address;
    probe.set_port(if is_privileged { address.port() } else { 0 });
    let error = open(probe, is_udp).err()?;
    match error.kind() {
        ErrorKind::AddrInUse => None,
        ErrorKind::AddrNotAvailable => Some(format!(
            "{} is not an address of this machine now; set one that is, or 0.0.0.0 for all of them; {THEN}",
            address.ip()
        )),
        ErrorKind::PermissionDenied => Some(format!(
            "{} may not open port {}; choose a port above {}, or allow the daemon to open it \
             (AmbientCapabilities=CAP_NET_BIND_SERVICE in a unit of systemd)",
            me(),
            address.port(),
            FIRST_FREE_PORT - 1
        )),
        _ => Some(format!("{listen} cannot be opened: {error}; set another address; {THEN}")),
    }
}

fn open(address: SocketAddr, is_udp: bool) -> Result<(), Error> {
    if is_udp { UdpSocket::bind(address).map(drop) } else { TcpListener::bind(address).map(drop) }
}

/// Finds destinations of the relay that are listeners of this process. Every point would come back and be
/// sent again, without end. Names other than `localhost` are not looked up.
fn loops(config: &Config, ports: &[Port<'_>]) -> Vec<(String, String)> {
    let listeners = || ports.iter().filter(|port| !port.is_udp && port.key.starts_with("ingest."));
    let mut found = Vec::new();
    for destination in config.relay.destinations.iter().filter_map(|text| text.parse::<Destination>().ok()) {
        let addresses = addresses_of(&destination);
        let own = listeners().find(|port| addresses.iter().any(|to| reaches(*to, port.address)));
        if let Some(Port { key, address: listener, .. }) = own {
            let text = format!(
                "{destination} is {listener} of {key}, so every point would come back and be sent again without end; \
                 remove it"
            );
            found.push(("relay.destinations".to_owned(), text));
        }
    }
    found
}

/// The addresses of a destination that are known without asking DNS.
fn addresses_of(destination: &Destination) -> Vec<SocketAddr> {
    let hosts = match destination.host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) if destination.host.eq_ignore_ascii_case("localhost") => {
            vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
        }
        Err(_) => Vec::new(),
    };
    hosts.into_iter().map(|host| SocketAddr::new(host, destination.port)).collect()
}

fn reaches(to: SocketAddr, listener: SocketAddr) -> bool {
    let is_here = || to.ip().is_loopback() || UdpSocket::bind((to.ip(), 0)).is_ok();
    let is_same = to.ip() == listener.ip() || includes(listener, to) && is_here();
    to.port() == listener.port() && is_same
}

/// Each listening address with its key, and whether it is a UDP address.
fn listens(config: &Config) -> Vec<(String, &str, bool)> {
    let udp = ("ingest.udp.listen".to_owned(), &config.ingest.udp.listen, true);
    let tcp = config.ingest.tcp.iter();
    let tcp =
        tcp.map(|(protocol, section)| (format!("ingest.{}.listen", protocol.name), &section.listen, false));
    let ingest = std::iter::once(udp)
        .chain(tcp)
        .flat_map(|(key, listen, is_udp)| listen.iter().map(move |address| (key.clone(), address, is_udp)));
    let others = [
        ("carbonlink.listen", config.carbonlink.listen.as_str()),
        ("api.listen", &config.api.listen),
        ("admin.listen", &config.admin.listen),
    ];
    ingest.chain(others.map(|(key, listen)| (key.to_owned(), listen, false))).collect()
}

/// Whether only one of the two addresses can be open.
pub(crate) fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || includes(a, b) || includes(b, a))
}

/// Whether `all` means every address of the machine, including `one`. `[::]` includes IPv4, as Linux does by
/// default.
pub(crate) fn includes(all: SocketAddr, one: SocketAddr) -> bool {
    all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
}

fn describe(port: &Port<'_>, other: &Port<'_>) -> String {
    let (listen, address) = (port.listen, port.address);
    if address.ip() == other.address.ip() {
        return match port.key == other.key {
            true => format!("{listen} is listed twice"),
            false => format!("{listen} is taken by {}; use another port for one of the two", other.key),
        };
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
        config.ingest.tcp.get_mut("line").unwrap().listen = line.into();
        config.ingest.tcp.get_mut("pickle").unwrap().listen = pickle.into();
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
            (["127.0.0.1:1, 127.0.0.1:2", "127.0.0.1:3,127.0.0.1:2", "", ""], Some("ingest.pickle.listen")),
            (["127.0.0.1:1,127.0.0.1:2,0.0.0.0:1", "", "", ""], Some("ingest.line.listen")),
            (["127.0.0.1:1,127.0.0.1:2", "", "127.0.0.1:2", ""], Some("api.listen")),
        ] {
            let found = problems(&config(ports));
            assert_eq!(found.first().map(|(key, _)| key.as_str()), expected, "{ports:?}");
        }
        let (_, message) = problems(&config(["0.0.0.0:1", "", "", "127.0.0.1:1"])).remove(0);
        assert!(
            message.starts_with("127.0.0.1:1 overlaps with 0.0.0.0:1 of ingest.line.listen"),
            "{message}"
        );
        let twice = problems(&config(["127.0.0.1:1, 127.0.0.1:1", "", "", ""]));
        assert_eq!(twice, [("ingest.line.listen".to_owned(), "127.0.0.1:1 is listed twice".to_owned())]);
    }

    #[test]
    fn addresses_of_other_machines_are_found() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let used = taken.local_addr().unwrap().to_string();
        assert_eq!(unusable(&config([&used, "127.0.0.1:0", "", "no address"])), []);
        // Addresses for documentation (RFC 5737) belong to no machine.
        let mut config = config(["127.0.0.1:0, 192.0.2.1:2003", "", "", ""]);
        config.ingest.udp.listen = "192.0.2.1:2003".into();
        let found = unusable(&config);
        let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["ingest.udp.listen", "ingest.line.listen"]);
        assert!(found[1].1.starts_with("192.0.2.1 is not an address of this machine now"), "{found:?}");
    }

    #[test]
    fn a_relay_to_this_process_is_found() {
        let mut config = config(["0.0.0.0:2003", "127.0.0.1:2004", "", ""]);
        for (destination, is_loop) in [
            ("line://127.0.0.1:2003", true),
            ("line://localhost:2003", true),
            ("pickle://127.0.0.1:2004", true),
            ("pickle://127.0.0.2:2004", false),
            ("line://127.0.0.1:2103", false),
            ("line://192.0.2.1:2003", false),
            ("line://carbon.example:2003", false),
        ] {
            config.relay.destinations = vec![destination.to_owned()];
            let found = problems(&config);
            assert_eq!(found.iter().any(|(key, _)| key == "relay.destinations"), is_loop, "{destination}");
        }
    }

    #[test]
    fn datagrams_have_ports_of_their_own() {
        let mut config = config(["127.0.0.1:1", "", "", ""]);
        config.ingest.udp.listen = "127.0.0.1:1, 127.0.0.1:2".into();
        assert_eq!(problems(&config), []);
        config.ingest.udp.listen = "127.0.0.1:1, 0.0.0.0:1".into();
        assert_eq!(problems(&config)[0].0, "ingest.udp.listen");
    }
}
