//! Token ranges that cannot be written now, because too few of their replicas are up for the level of the
//! writes. Their rows are refused at once instead of waiting for a timeout. From time to time one request is
//! nevertheless sent as a probe.

use std::time::{Duration, Instant};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use scylla::statement::Consistency;
use uuid::Uuid;

use super::plan::Request;
use crate::driver::Session;
use crate::prepared::TableStatements;

/// How often a range that cannot be written is probed.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// A range counts as dead after this many failures without a success between them.
const FAILURES_MAX: u32 = 8;
/// Maximum number of ranges that are remembered. When it is exceeded, all are forgotten.
const RANGES_MAX: usize = 10_000;

/// The host ids of a range's replicas, in ascending order. Ranges with the same replicas fail together.
type Hosts = Box<[Uuid]>;

/// A replica, as the driver sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replica {
    host: Uuid,
    datacenter: Option<String>,
    is_connected: bool,
}

/// What is known about a range that failed or has too few connected replicas.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Failures since the last success.
    failures: u32,
    /// Whether a request succeeded although too few replicas are connected: then another node can reach them.
    is_reached: bool,
    probe_at: Instant,
}

/// The replicas of one request.
#[derive(Debug)]
pub(super) struct Target {
    hosts: Hosts,
    is_connected: bool,
}

/// The ranges that failed recently or have too few connected replicas.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    known: DashMap<Hosts, Known>,
}

impl Ranges {
    /// The replicas of a request, if a range may be dead. While all nodes are connected and nothing failed
    /// recently, it returns `None` without looking at the request.
    pub(super) fn target(
        &self,
        session: &dyn Session,
        statements: &TableStatements,
        request: &Request,
        datacenter: &str,
    ) -> Option<Target> {
        let state = session.get_cluster_state();
        let all_connected = || state.get_nodes_info().iter().all(|node| node.is_connected());
        if self.known.is_empty() && all_connected() {
            return None;
        }
        target(session, statements, request, datacenter)
    }

    /// Whether to send a request to these replicas: they are not known to be dead, or it is time for a probe.
    pub(super) fn admits(&self, target: &Target, now: Instant) -> bool {
        if !target.is_connected && !self.known.contains_key(&target.hosts) {
            self.make_room();
        }
        let mut known = match self.known.entry(target.hosts.clone()) {
            Entry::Occupied(known) => known.into_ref(),
            Entry::Vacant(_) if target.is_connected => return true,
            Entry::Vacant(place) => place.insert(Known { failures: 0, is_reached: false, probe_at: now }),
        };
        let is_reachable = target.is_connected || known.is_reached;
        if is_reachable && known.failures < FAILURES_MAX {
            return true;
        }
        let is_probe = now >= known.probe_at;
        if is_probe {
            known.probe_at = now + PROBE_EVERY;
        }
        is_probe
    }

    /// Records that a request to these replicas succeeded.
    pub(super) fn succeeded(&self, target: &Target) {
        if target.is_connected {
            self.known.remove(&target.hosts);
        } else if let Some(mut known) = self.known.get_mut(&target.hosts) {
            known.failures = 0;
            known.is_reached = true;
        }
    }

    /// Records that a request failed because its replicas did not answer.
    pub(super) fn failed(
        &self,
        session: &dyn Session,
        statements: &TableStatements,
        request: &Request,
        datacenter: &str,
    ) {
        if let Some(target) = target(session, statements, request, datacenter) {
            self.note_failure(&target, Instant::now());
        }
    }

    fn note_failure(&self, target: &Target, now: Instant) {
        self.make_room();
        let first = Known { failures: 0, is_reached: false, probe_at: now + PROBE_EVERY };
        let mut known = self.known.entry(target.hosts.clone()).or_insert(first);
        known.failures = known.failures.saturating_add(1);
        known.is_reached = false;
    }

    fn make_room(&self) {
        if self.known.len() >= RANGES_MAX {
            self.known.clear();
        }
    }
}

/// The host ids of the replicas of a request, in ascending order, and whether all of them are connected. `None` if
/// the driver does not know them.
pub(super) fn hosts(
    session: &dyn Session,
    statements: &TableStatements,
    request: &Request,
) -> Option<(Hosts, bool)> {
    let replicas = replicas(session, statements, request)?;
    let all_connected = replicas.iter().all(|replica| replica.is_connected);
    Some((hosts_of(&replicas), all_connected))
}

/// The replicas of a request; `None` if the driver does not know them.
fn target(
    session: &dyn Session,
    statements: &TableStatements,
    request: &Request,
    datacenter: &str,
) -> Option<Target> {
    let replicas = replicas(session, statements, request)?;
    let is_connected = are_enough(&replicas, statements.write_consistency, datacenter);
    Some(Target { hosts: hosts_of(&replicas), is_connected })
}

fn hosts_of(replicas: &[Replica]) -> Hosts {
    let mut hosts: Vec<Uuid> = replicas.iter().map(|replica| replica.host).collect();
    hosts.sort_unstable();
    hosts.into()
}

fn replicas(session: &dyn Session, statements: &TableStatements, request: &Request) -> Option<Vec<Replica>> {
    let row = request.rows.first()?;
    // The key is the same for all rows; the statement for late rows has one more value.
    let insert = if row.ttl.is_some() { &statements.insert_late } else { &statements.insert };
    let token = insert.calculate_token(&request.bind(row)).ok()??;
    let table = insert.get_table_spec()?;
    let state = session.get_cluster_state();
    let endpoints = state.get_token_endpoints(table.ks_name(), table.table_name(), token);
    let replicas: Vec<Replica> = endpoints
        .iter()
        .map(|(node, _)| Replica {
            host: node.host_id,
            datacenter: node.datacenter.clone(),
            is_connected: node.is_connected(),
        })
        .collect();
    (!replicas.is_empty()).then_some(replicas)
}

/// Whether enough of these replicas are connected for a level. `datacenter` is the local one; if it is empty
/// or has no replica, any data centre may be the local one.
fn are_enough(replicas: &[Replica], level: Consistency, datacenter: &str) -> bool {
    // Replicas and connected replicas, of all data centres or of one.
    let count = |of: Option<&Option<String>>| {
        let these = || replicas.iter().filter(|replica| of.is_none_or(|dc| replica.datacenter == *dc));
        (these().count(), these().filter(|replica| replica.is_connected).count())
    };
    let has_quorum = |(all, up): (usize, usize)| up > all / 2;
    let (all, up) = count(None);
    let is_local = |replica: &&Replica| replica.datacenter.as_deref() == Some(datacenter);
    let knows_local = replicas.iter().any(|replica| is_local(&replica));
    let mut local = replicas.iter().filter(|replica| !knows_local || is_local(replica));
    let mut each = replicas.iter().map(|replica| &replica.datacenter);
    match level {
        Consistency::Any => true,
        Consistency::Two => up >= 2,
        Consistency::Three => up >= 3,
        Consistency::All => up == all,
        Consistency::Quorum => has_quorum((all, up)),
        Consistency::LocalQuorum => local.any(|replica| has_quorum(count(Some(&replica.datacenter)))),
        Consistency::EachQuorum => each.all(|datacenter| has_quorum(count(Some(datacenter)))),
        Consistency::LocalOne => local.any(|replica| replica.is_connected),
        _ => up >= 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(host: u128, datacenter: &str, is_connected: bool) -> Replica {
        Replica { host: Uuid::from_u128(host), datacenter: Some(datacenter.to_owned()), is_connected }
    }

    fn target(is_connected: bool) -> Target {
        Target { hosts: [Uuid::from_u128(1)].into(), is_connected }
    }

    #[test]
    fn the_level_decides_how_many_replicas_are_enough() {
        use Consistency::{All, EachQuorum, LocalOne, LocalQuorum, One, Quorum, Two};
        let one_of_three = [replica(1, "a", true), replica(2, "a", false), replica(3, "a", false)];
        let enough = |level| are_enough(&one_of_three, level, "");
        assert!(enough(One) && enough(LocalOne));
        assert!(!enough(Two) && !enough(Quorum) && !enough(LocalQuorum) && !enough(All));
        let two_centres = [
            replica(1, "a", true),
            replica(2, "a", true),
            replica(3, "a", false),
            replica(4, "b", false),
            replica(5, "b", false),
            replica(6, "b", true),
        ];
        let enough = |level, local| are_enough(&two_centres, level, local);
        assert!(enough(LocalQuorum, "a") && !enough(LocalQuorum, "b"));
        assert!(enough(LocalQuorum, "") && enough(LocalQuorum, "unknown"));
        assert!(!enough(Quorum, "a") && !enough(EachQuorum, "a"));
    }

    #[test]
    fn a_range_without_replicas_is_probed_now_and_then() {
        let (ranges, start) = (Ranges::default(), Instant::now());
        let away = target(false);
        assert!(ranges.admits(&away, start), "the first request is a probe");
        assert!(!ranges.admits(&away, start));
        assert!(!ranges.admits(&away, start + PROBE_EVERY / 2));
        assert!(ranges.admits(&away, start + PROBE_EVERY));
        assert!(!ranges.admits(&away, start + PROBE_EVERY));
        // The replicas can be reached through other nodes.
        ranges.succeeded(&away);
        assert!(ranges.admits(&away, start + PROBE_EVERY));
        ranges.note_failure(&away, start);
        assert!(!ranges.admits(&away, start + PROBE_EVERY));
        assert!(ranges.admits(&target(true), start), "connected again");
    }

    #[test]
    fn a_range_that_fails_is_dead_until_a_probe_succeeds() {
        let (ranges, start) = (Ranges::default(), Instant::now());
        let there = target(true);
        for _ in 0..FAILURES_MAX {
            assert!(ranges.admits(&there, start));
            ranges.note_failure(&there, start);
        }
        assert!(!ranges.admits(&there, start));
        assert!(ranges.admits(&there, start + PROBE_EVERY));
        assert!(!ranges.admits(&there, start + PROBE_EVERY));
        ranges.succeeded(&there);
        assert!(ranges.admits(&there, start + PROBE_EVERY) && ranges.known.is_empty());
    }
}
