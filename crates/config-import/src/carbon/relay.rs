//! The destinations of carbon-relay and carbon-aggregator. Those that are this daemon itself are left out.

use std::net::IpAddr;

use super::{Instance, Key};
use crate::Program;
use crate::draft::{Draft, Value};
use crate::parse;

/// Reads an instance of a relay or an aggregator. `own_ports` are the ports of this daemon.
pub(super) fn read(instance: &Instance, own_ports: &[u16], draft: &mut Draft<'_>) {
    if instance.program == Program::Cache {
        return;
    }
    let others = destinations(instance, own_ports, draft);
    if !others.is_empty() {
        relay(instance, &others, draft);
    }
    if instance.program == Program::Aggregator {
        aggregator(instance, draft);
    }
}

/// The destinations that are other servers, as host and port.
fn destinations(instance: &Instance, own_ports: &[u16], draft: &mut Draft<'_>) -> Vec<(String, u16)> {
    let Some(key) = instance.text("DESTINATIONS") else { return Vec::new() };
    let mut others = Vec::new();
    for item in parse::items(&key.value) {
        match destination(item) {
            None => draft.error(key.at(), format!("{item:?} is not host:port:instance")),
            Some((host, port)) if own_ports.contains(&port) && is_this_machine(&host) => {
                let text =
                    format!("{} is this daemon now, so nothing is sent there", parse::joined(&host, port));
                draft.not_needed(key.at(), text);
            }
            Some(other) if others.contains(&other) => {}
            Some(other) => others.push(other),
        }
    }
    others
}

/// Parses `host:port` or `host:port:instance`. An IPv6 address is in brackets.
fn destination(item: &str) -> Option<(String, u16)> {
    let (host, rest) = match item.strip_prefix('[') {
        Some(rest) => rest.split_once("]:")?,
        None => item.split_once(':')?,
    };
    let port = rest.split(':').next().unwrap_or_default().parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn relay(instance: &Instance, others: &[(String, u16)], draft: &mut Draft<'_>) {
    let Some(key) = instance.text("DESTINATIONS") else { return };
    let method = instance.text("RELAY_METHOD").map_or("rules", |key| key.value.as_str());
    let all = parse::items(&key.value).count();
    if all > 1 && !["rules", "constant"].contains(&method) {
        let text = format!(
            "with {method} each point goes to some of the destinations; [relay] sends it to all of them, or by \
             relay-rules.conf"
        );
        return draft.no_equivalent(instance.text("RELAY_METHOD").map_or(key.at(), Key::at), text);
    }
    let Some(scheme) = scheme(instance, draft) else { return };
    let addresses: Vec<String> =
        others.iter().map(|(host, port)| format!("{scheme}://{}", parse::joined(host, *port))).collect();
    draft.add("relay.destinations", addresses, key.at());
    if let Some(ca) = instance.text("DESTINATION_SSL_CA").filter(|_| scheme.ends_with("tls")) {
        draft.text("relay.ca", &*ca.value, ca.at());
    }
    if method == "rules" && instance.program == Program::Relay {
        rules(instance, all > others.len(), draft);
    }
}

fn scheme(instance: &Instance, draft: &mut Draft<'_>) -> Option<String> {
    let protocol = match instance.text("DESTINATION_PROTOCOL") {
        None => "pickle",
        Some(key) if ["pickle", "line"].contains(&key.value.as_str()) => &key.value,
        Some(key) => {
            draft.no_equivalent(key.at(), format!("[relay] does not send {}; use line or pickle", key.value));
            return None;
        }
    };
    match instance.text("DESTINATION_TRANSPORT") {
        Some(key) if key.value == "ssl" => Some(format!("{protocol}+tls")),
        Some(key) if key.value != "none" => {
            draft.no_equivalent(key.at(), format!("there is no transport {}", key.value));
            None
        }
        _ => Some(protocol.to_owned()),
    }
}

fn rules(instance: &Instance, names_itself: bool, draft: &mut Draft<'_>) {
    let name = instance.text("RELAY_RULES").map_or("relay-rules.conf", |key| key.value.as_str());
    let path = instance.conf_dir(draft).join(name);
    let at = instance.text("RELAY_RULES").map_or(instance.at(), Key::at);
    if !draft.exists(&path) {
        let text = format!("{} does not exist, so every destination gets every point", path.display());
        return draft.todo(at, text);
    }
    draft.text("relay.rules", path.to_string_lossy(), at);
    if names_itself {
        let text = format!("remove the destinations that are this daemon itself from {}", path.display());
        draft.todo(at, text);
    }
}

fn aggregator(instance: &Instance, draft: &mut Draft<'_>) {
    let directory = instance.conf_dir(draft);
    for (name, file, key) in [
        ("AGGREGATION_RULES", "aggregation-rules.conf", "aggregation.rules"),
        ("REWRITE_RULES", "rewrite-rules.conf", "ingest.rewrite_rules"),
    ] {
        let entry = instance.text(name);
        let path = directory.join(entry.map_or(file, |key| key.value.as_str()));
        let at = entry.map_or(instance.at(), Key::at);
        if draft.exists(&path) {
            draft.text(key, path.to_string_lossy(), at);
        } else if entry.is_some() || name == "AGGREGATION_RULES" {
            draft.todo(at, format!("{} does not exist, so {key} is not set", path.display()));
        }
    }
    if draft.value("aggregation.rules").is_none() {
        return;
    }
    if let Some(key) = instance.text("FORWARD_ALL") {
        let forwards = instance.is_on("FORWARD_ALL", true, draft);
        draft.set("aggregation.forward_all", Value::Flag(forwards), key.at());
    }
    if let Some(key) = instance.text("MAX_AGGREGATION_INTERVALS") {
        match key.value.parse() {
            Ok(number @ 1..) => draft.set("aggregation.max_intervals", Value::Number(number), key.at()),
            _ => draft.error(key.at(), format!("{:?} is not a number above 0", key.value)),
        }
    }
    if let Some(key) = instance.text("WRITE_BACK_FREQUENCY") {
        draft.seconds("aggregation.write_back_frequency", &key.value, key.at());
    }
}
