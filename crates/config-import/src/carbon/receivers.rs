//! The ports of all instances. One daemon listens on all of them.

use super::{Instance, Key};
use crate::Program;
use crate::draft::{At, Draft, Value};
use crate::parse;

/// A receiver: its keys, carbon's default port, and the default port here.
struct Receiver {
    interface: &'static str,
    port: &'static str,
    /// The key that switches the receiver on, if it is off by default.
    switch: &'static str,
    default: u16,
    key: &'static str,
}

const LINE: Receiver = Receiver {
    interface: "LINE_RECEIVER_INTERFACE",
    port: "LINE_RECEIVER_PORT",
    switch: "",
    default: 2003,
    key: "ingest.line.listen",
};
const UDP: Receiver = Receiver {
    interface: "UDP_RECEIVER_INTERFACE",
    port: "UDP_RECEIVER_PORT",
    switch: "ENABLE_UDP_LISTENER",
    default: 2003,
    key: "ingest.udp.listen",
};
const PICKLE: Receiver = Receiver {
    interface: "PICKLE_RECEIVER_INTERFACE",
    port: "PICKLE_RECEIVER_PORT",
    switch: "",
    default: 2004,
    key: "ingest.pickle.listen",
};
const PROTOBUF: Receiver = Receiver {
    interface: "PROTOBUF_RECEIVER_INTERFACE",
    port: "PROTOBUF_RECEIVER_PORT",
    switch: "",
    default: 0,
    key: "ingest.protobuf.listen",
};
const QUERY: Receiver = Receiver {
    interface: "CACHE_QUERY_INTERFACE",
    port: "CACHE_QUERY_PORT",
    switch: "",
    default: 7002,
    key: "carbonlink.listen",
};

/// Sets the addresses. Returns the ports of this daemon, through which relays reach it.
pub(super) fn read(instances: &[Instance], draft: &mut Draft<'_>) -> Vec<u16> {
    let mut ports = Vec::new();
    for instance in instances {
        for receiver in [&LINE, &PICKLE, &PROTOBUF] {
            ports.extend(listen(instance, receiver, draft));
        }
        if instance.is_on(UDP.switch, false, draft) {
            listen(instance, &UDP, draft);
        }
        if instance.program == Program::Cache {
            query_port(instance, draft);
        }
    }
    // Unlike Plumbago's, carbon's other listeners are off by default.
    if let Some(first) = instances.first()
        && draft.list(UDP.key).is_empty()
    {
        draft.text(UDP.key, "", first.key(UDP.switch).map_or(first.at(), Key::at));
    }
    for key in [LINE.key, PICKLE.key] {
        if !instances.is_empty() && draft.list(key).is_empty() {
            draft.text(key, "", instances[0].at());
        }
    }
    ports
}

/// Adds an address. Returns its port, unless the listener is off or its address is not valid.
fn listen(instance: &Instance, receiver: &Receiver, draft: &mut Draft<'_>) -> Option<u16> {
    let (address, port, at) = address(instance, receiver, draft)?;
    draft.add(receiver.key, [address], at);
    Some(port)
}

fn address<'a>(
    instance: &'a Instance,
    receiver: &Receiver,
    draft: &mut Draft<'_>,
) -> Option<(String, u16, At<'a>)> {
    let (interface, port) = (instance.text(receiver.interface), instance.text(receiver.port));
    let at = port.or(interface).or(instance.text(receiver.switch)).map_or(instance.at(), Key::at);
    let number = match port {
        None => receiver.default,
        Some(key) => match key.value.parse::<u16>() {
            Ok(number) => number,
            Err(_) => {
                draft.error(key.at(), format!("{:?} is not a port", key.value));
                return None;
            }
        },
    };
    if number == 0 {
        return None;
    }
    match parse::listen(interface.map_or("", |key| &key.value), number) {
        Ok(address) => Some((address, number, at)),
        Err(problem) => {
            draft.error(interface.map_or(at, Key::at), problem);
            None
        }
    }
}

/// Sets the port for carbonlink. graphite-web asks each instance for its own metrics. One port answers for
/// all of them.
fn query_port(instance: &Instance, draft: &mut Draft<'_>) {
    let Some((address, _, at)) = address(instance, &QUERY, draft) else { return };
    match draft.value(QUERY.key) {
        None => draft.text(QUERY.key, address, at),
        Some(Value::Text(known)) if *known != address => {
            let text = format!(
                "one query port answers for all metrics: {known}; name only that one in graphite-web's \
                 CARBONLINK_HOSTS"
            );
            draft.todo(at, text);
        }
        Some(_) => {}
    }
}
