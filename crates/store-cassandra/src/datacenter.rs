//! Which data centre is the local one.

use std::collections::BTreeSet;
use std::net::IpAddr;

use scylla::cluster::metadata::Strategy;
use tokio::net::lookup_host;

use crate::driver::Session;

const DEFAULT_PORT: u16 = 9042;

/// The addresses of contact points, in their order. Those that cannot be resolved are left out.
pub(crate) async fn addresses(contact_points: &[String]) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for point in contact_points {
        match lookup_host(point).await {
            Ok(addresses) => found.extend(addresses.map(|address| address.ip())),
            Err(_) => {
                let addresses = lookup_host((point.as_str(), DEFAULT_PORT)).await;
                found.extend(addresses.into_iter().flatten().map(|address| address.ip()));
            }
        }
    }
    found
}

/// The data centres of these nodes, in the order of `addresses`.
pub(crate) fn of_addresses(session: &dyn Session, addresses: &[IpAddr]) -> Vec<String> {
    let state = session.get_cluster_state();
    let of = |address: &IpAddr| {
        let node = state.get_nodes_info().iter().find(|node| node.address.ip() == *address);
        node.and_then(|node| node.datacenter.clone())
    };
    addresses.iter().filter_map(of).collect()
}

/// The data centres that have nodes.
pub(crate) fn of_nodes(session: &dyn Session) -> BTreeSet<String> {
    let state = session.get_cluster_state();
    state.get_nodes_info().iter().filter_map(|node| node.datacenter.clone()).collect()
}

/// The data centres that a keyspace names for its replicas; empty if its strategy names none.
pub(crate) fn of_replicas(strategy: &Strategy) -> BTreeSet<String> {
    let Strategy::NetworkTopologyStrategy { datacenter_repfactors } = strategy else {
        return BTreeSet::new();
    };
    let with_replicas = datacenter_repfactors.iter().filter(|(_, factor)| **factor > 0);
    with_replicas.map(|(name, _)| name.clone()).collect()
}

/// Chooses a data centre if the settings name none. `replicas` contains the data centres with replicas of
/// each keyspace. If there are several, chooses the first one of the contact points that has replicas of all
/// keyspaces. `None` if there is no such data centre, or if none has to be chosen.
pub(crate) fn choose(replicas: &[BTreeSet<String>], contact_points: &[String]) -> Option<String> {
    let has_all = |datacenter: &&String| replicas.iter().all(|of| of.is_empty() || of.contains(*datacenter));
    contact_points.iter().find(has_all).filter(|_| are_several(replicas)).cloned()
}

/// Whether a keyspace has replicas in several data centres.
pub(crate) fn are_several(replicas: &[BTreeSet<String>]) -> bool {
    replicas.iter().any(|of| of.len() > 1)
}

/// The names of all data centres with replicas, for messages.
pub(crate) fn list(replicas: &[BTreeSet<String>]) -> String {
    let all: BTreeSet<&str> = replicas.iter().flatten().map(String::as_str).collect();
    all.into_iter().collect::<Vec<_>>().join(", ")
}

/// The reason why a data centre in the settings cannot be used; `None` if it can be used.
pub(crate) fn unknown(datacenter: &str, key: &str, nodes: &BTreeSet<String>) -> Option<String> {
    (!datacenter.is_empty() && !nodes.is_empty() && !nodes.contains(datacenter)).then(|| {
        let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
        format!(
            "{key} is {datacenter:?}, but no node is in such a data centre; there are: {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_data_centre_of_the_contact_points_is_taken_if_there_are_several() {
        let contacts = |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).into()).collect() };
        let choose = |replicas: &[&[&str]], points| {
            choose(&replicas.iter().map(|of| set(of)).collect::<Vec<_>>(), &contacts(points))
        };
        assert_eq!(choose(&[&["a", "b"]], &["b", "a"]).as_deref(), Some("b"));
        assert_eq!(choose(&[&["a", "b"], &[]], &["c", "a"]).as_deref(), Some("a"), "c has no replicas");
        assert_eq!(
            choose(&[&["a", "b"], &["b"]], &["a", "b"]).as_deref(),
            Some("b"),
            "not of both keyspaces"
        );
        assert_eq!(choose(&[&["a", "b"]], &["c"]), None);
        assert_eq!(choose(&[&["a"]], &["a"]), None, "the driver prefers replicas anyway");
        assert_eq!(choose(&[], &["a", "b"]), None);
    }

    #[test]
    fn only_strategies_with_data_centres_name_some() {
        let factors = [("a", 3), ("gone", 0), ("b", 1)];
        let datacenter_repfactors = factors.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let named = Strategy::NetworkTopologyStrategy { datacenter_repfactors };
        assert_eq!(of_replicas(&named), set(&["a", "b"]));
        assert_eq!(of_replicas(&Strategy::SimpleStrategy { replication_factor: 3 }), set(&[]));
    }

    #[test]
    fn an_unknown_data_centre_is_told_which_there_are() {
        let unknown = |name| unknown(name, "store.cassandra.datacenter", &set(&["east", "west"]));
        assert_eq!(unknown(""), None);
        assert_eq!(unknown("west"), None);
        assert_eq!(
            unknown("wset").as_deref(),
            Some(
                "store.cassandra.datacenter is \"wset\", but no node is in such a data centre; there are: east, west"
            )
        );
    }
}
