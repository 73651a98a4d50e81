//! Addresses of an imported configuration that cannot all be open in one process.

use std::net::SocketAddr;

use plumbago_config_import::{Import, Origin, Remark, RemarkKind, Setting, Value};

use crate::config::ports::{includes, overlap};

/// An address that a setting opens.
struct Listen {
    key: String,
    address: SocketAddr,
    from: Origin,
}

/// Leaves out each address that another one of the same listener includes. Adds a remark for each address that
/// overlaps with one of another listener, because only one of the two can be open.
pub(super) fn settle(import: &mut Import) {
    let mut remarks = Vec::new();
    import.settings.iter_mut().for_each(|setting| leave_out(setting, &mut remarks));
    let mut open: Vec<Listen> = Vec::new();
    for listen in import.settings.iter().flat_map(listens) {
        let is_udp = |key: &str| key == "ingest.udp.listen";
        let overlaps = |other: &&Listen| {
            other.key != listen.key
                && is_udp(&other.key) == is_udp(&listen.key)
                && overlap(other.address, listen.address)
        };
        if let Some(other) = open.iter().find(overlaps) {
            let text = format!(
                "{} of {} overlaps with {} of {}, and only one of the two can be open; use another port",
                listen.address, listen.key, other.address, other.key
            );
            remarks.push(Remark { kind: RemarkKind::Todo, from: listen.from.clone(), text });
        }
        open.push(listen);
    }
    import.remarks.extend(remarks);
}

/// Removes the addresses of a list that another one of the list includes.
fn leave_out(setting: &mut Setting, remarks: &mut Vec<Remark>) {
    let (all, Some(from)) = (listens(setting), setting.from.last().cloned()) else { return };
    let Value::List(list) = &mut setting.value else { return };
    for Listen { address, .. } in &all {
        let is_wider = |other: &&Listen| {
            let wide = other.address;
            wide.port() == address.port() && wide.ip() != address.ip() && includes(wide, *address)
        };
        let Some(wide) = all.iter().find(is_wider) else { continue };
        list.retain(|text| text.parse::<SocketAddr>() != Ok(*address));
        let text =
            format!("{address} is left out, because {} of the same listener includes it", wide.address);
        remarks.push(Remark { kind: RemarkKind::NotNeeded, from: from.clone(), text });
    }
}

/// The addresses of a setting, if it opens any.
fn listens(setting: &Setting) -> Vec<Listen> {
    let texts: &[String] = match &setting.value {
        _ if !setting.key.ends_with(".listen") => &[],
        Value::List(list) => list.as_slice(),
        Value::Text(text) => std::slice::from_ref(text),
        Value::Number(_) | Value::Flag(_) => &[],
    };
    let listen = |text: &String| {
        let (address, from) = (text.parse::<SocketAddr>().ok()?, setting.from.last()?.clone());
        Some(Listen { key: setting.key.clone(), address, from })
    };
    texts.iter().filter_map(listen).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(key: &str, value: Value) -> Setting {
        let from = vec![Origin { file: "carbon.conf".to_owned(), line: 2, key: "cache".to_owned() }];
        Setting { key: key.to_owned(), value, from }
    }

    #[test]
    fn only_addresses_that_can_be_open_together_are_left() {
        let list = ["0.0.0.0:1", "[::]:1", "127.0.0.1:1", "127.0.0.1:2"].map(str::to_owned).to_vec();
        let mut import = Import {
            settings: vec![
                setting("ingest.line.listen", Value::List(list)),
                setting("ingest.udp.listen", Value::Text("0.0.0.0:1".to_owned())),
                setting("api.listen", Value::Text("0.0.0.0:2".to_owned())),
            ],
            remarks: Vec::new(),
        };
        settle(&mut import);
        let left = ["[::]:1", "127.0.0.1:2"].map(str::to_owned).to_vec();
        assert_eq!(import.settings[0].value, Value::List(left));
        let todo: Vec<&Remark> = import.remarks.iter().filter(|it| it.kind == RemarkKind::Todo).collect();
        let [todo] = todo[..] else { panic!("{:?}", import.remarks) };
        assert!(
            todo.text.starts_with("0.0.0.0:2 of api.listen overlaps with 127.0.0.1:2 of"),
            "{}",
            todo.text
        );
    }
}
