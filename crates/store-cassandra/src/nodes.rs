//! Finds out when a node was started again, from a number that each node has for its current start. A node that was
//! started again may have lost rows that it had confirmed, so they have to be sent again. A node that was only
//! unreachable or hung still has them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use plumbago_store::NodeStart;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;
use uuid::Uuid;

use crate::driver::Session;

/// Pause between two checks of the connections.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pause between two requests to a node.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Timeout of a request to a node. Requests to other nodes do not wait for it.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of nodes that a message names.
const NAMED_MAX: usize = 10;

/// What is known about a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    /// The number of the node's current start, which grows with each start, and the time when the request
    /// that read it was sent.
    start: Option<(i64, Instant)>,
    /// Whether the connection was lost after that request.
    was_lost: bool,
    /// When the last request was sent.
    asked: Option<Instant>,
}

/// What the answer of a node shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Nothing new.
    Same,
    /// The node was out of reach, and was not restarted.
    Reconnected,
    /// The node was restarted.
    Restarted,
}

/// The last known starts of the nodes of a cluster.
#[derive(Debug)]
pub(crate) struct Starts {
    seen: Mutex<HashMap<Uuid, Seen>>,
    /// The first number of a node that does not number its starts. No earlier process has used it, so a start of the
    /// daemon counts as a restart of these nodes: they may have been restarted while it was not running.
    unnumbered: i64,
}

impl Starts {
    /// No node is known yet. `now_ms` is in milliseconds since the epoch.
    pub(crate) fn new(now_ms: i64) -> Self {
        Self { seen: Mutex::default(), unnumbered: now_ms }
    }

    /// Returns the start of each known node. The ages are those at the time of this call.
    pub(crate) fn list(&self) -> Vec<NodeStart> {
        let list = |(node, seen): (&Uuid, &Seen)| NodeStart {
            node: *node,
            start: seen.start.map(|(number, _)| number),
            age: seen.start.map_or(Duration::ZERO, |(_, asked)| asked.elapsed()),
        };
        self.lock().iter().map(list).collect()
    }

    /// Forgets nodes that are no longer known, and adds new ones. Returns the nodes to ask now.
    fn due(&self, connected: &HashMap<Uuid, bool>, asking: &HashSet<Uuid>, now: Instant) -> Vec<Uuid> {
        let mut all = self.lock();
        all.retain(|node, _| connected.contains_key(node));
        let mut due = Vec::new();
        for (node, is_connected) in connected {
            let seen = all.entry(*node).or_default();
            if !is_connected {
                seen.was_lost = true;
                // Ask the node at once when it is back.
                seen.asked = None;
            } else if !asking.contains(node)
                && seen.asked.is_none_or(|asked| now.duration_since(asked) >= ASK_EVERY)
            {
                seen.asked = Some(now);
                due.push(*node);
            }
        }
        due
    }

    /// Notes the answer to a request that was sent at `asked`. If the server does not number its starts, each
    /// lost connection counts as a restart.
    fn note(&self, node: Uuid, number: Option<i32>, asked: Instant) -> Finding {
        let mut all = self.lock();
        let Some(seen) = all.get_mut(&node) else { return Finding::Same };
        let was_lost = std::mem::take(&mut seen.was_lost);
        let before = seen.start.map(|(number, _)| number);
        let unnumbered = || before.map_or(self.unnumbered, |before| before + i64::from(was_lost));
        let number = number.map_or_else(unnumbered, i64::from);
        seen.start = Some((number, asked));
        match before {
            Some(before) if before == number => {
                if was_lost {
                    Finding::Reconnected
                } else {
                    Finding::Same
                }
            }
            Some(_) => Finding::Restarted,
            None => Finding::Same,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Uuid, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the nodes until the future is dropped, all of them concurrently. Calls `restarted` for each node that
/// was started again since the last answer, and calls `looked` in each round with the known nodes.
pub(crate) async fn watch(
    session: &dyn Session,
    starts: &Starts,
    restarted: impl Fn(),
    looked: impl Fn(&[Arc<Node>]),
) {
    let mut answers = FuturesUnordered::new();
    let mut asking = HashSet::new();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            Some((node, asked, number)) = answers.next() => {
                let node: Arc<Node> = node;
                asking.remove(&node.host_id);
                let Some(number) = number else { continue };
                match starts.note(node.host_id, number, asked) {
                    Finding::Same => {}
                    Finding::Reconnected => {
                        tracing::info!(node = %node.address, "a node can be reached again, without a restart");
                    }
                    Finding::Restarted => {
                        tracing::info!(node = %node.address, "a node was restarted");
                        restarted();
                    }
                }
            }
            _ = look.tick() => {
                let state = session.get_cluster_state();
                let nodes = state.get_nodes_info();
                let connected: HashMap<Uuid, bool> =
                    nodes.iter().map(|node| (node.host_id, node.is_connected())).collect();
                looked(nodes);
                let now = Instant::now();
                for due in starts.due(&connected, &asking, now) {
                    let Some(node) = nodes.iter().find(|node| node.host_id == due).cloned() else { continue };
                    asking.insert(due);
                    answers.push(async move {
                        let number = tokio::time::timeout(ASK_TIMEOUT, start_of(session, &node)).await;
                        (node, now, number.ok().flatten())
                    });
                }
            }
        }
    }
}

/// Which nodes are not connected, as text for operators; `None` if all are connected or none is. Only nodes
/// of the local data centre `datacenter` count; if it is empty, all nodes count.
pub(crate) fn missing(nodes: &[Arc<Node>], datacenter: &str, role: &str) -> Option<String> {
    let is_used = |node: &&Arc<Node>| datacenter.is_empty() || node.datacenter.as_deref() == Some(datacenter);
    let used: Vec<(String, bool)> =
        nodes.iter().filter(is_used).map(|node| (node.address.to_string(), node.is_connected())).collect();
    named(&used, role)
}

/// Like `missing`, for addresses with the information whether each is connected.
fn named(nodes: &[(String, bool)], role: &str) -> Option<String> {
    let mut away: Vec<&str> =
        nodes.iter().filter(|(_, up)| !up).map(|(address, _)| address.as_str()).collect();
    let (count, all) = (away.len(), nodes.len());
    if count == 0 || count == all {
        return None;
    }
    away.sort_unstable();
    away.truncate(NAMED_MAX);
    let others = if count > NAMED_MAX { ", and others" } else { "" };
    let named = away.join(", ");
    Some(format!("{count} of {all} nodes of the cluster of {role} cannot be reached: {named}{others}"))
}

/// The gossip generation of the node, which is new with each start; the inner `None` if the server has none.
/// The outer `None` if the query fails, or if another node answers at this address.
async fn start_of(session: &dyn Session, node: &Arc<Node>) -> Option<Option<i32>> {
    let mut statement =
        Statement::new("SELECT host_id, gossip_generation FROM system.local WHERE key = 'local'");
    let itself = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
    let usual = session.get_default_execution_profile_handle().pointee_to_builder();
    let profile = usual.load_balancing_policy(itself).build().into_handle();
    statement.set_execution_profile_handle(Some(profile));
    let rows = session.query_unpaged(statement, &()).await.ok()?.into_rows_result().ok()?;
    let (host_id, number) = rows.first_row::<(Uuid, Option<i32>)>().ok()?;
    (host_id == node.host_id).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Uuid = Uuid::from_u128(1);
    const OTHER: Uuid = Uuid::from_u128(2);

    #[test]
    fn the_nodes_that_are_missing_are_named() {
        let node = |address: &str, is_connected| (address.to_owned(), is_connected);
        let (up, down) = (node("10.0.0.1:9042", true), node("10.0.0.2:9042", false));
        let said = named(&[up.clone(), down.clone(), up.clone()], "points").unwrap();
        assert_eq!(said, "1 of 3 nodes of the cluster of points cannot be reached: 10.0.0.2:9042");
        assert_eq!(named(std::slice::from_ref(&up), "points"), None);
        assert_eq!(
            named(std::slice::from_ref(&down), "points"),
            None,
            "all are missing, which is said otherwise"
        );
        let mut many = vec![down; NAMED_MAX + 1];
        many.push(up);
        assert!(named(&many, "names").unwrap().ends_with(", and others"));
    }

    #[test]
    fn a_restart_is_seen_without_a_lost_connection() {
        let (starts, now) = (Starts::new(1_700_000_000_000), Instant::now());
        let none = HashSet::new();
        assert_eq!(starts.due(&HashMap::from([(NODE, true)]), &none, now), [NODE]);
        assert_eq!(starts.note(NODE, Some(7), now), Finding::Same);
        assert_eq!(starts.note(NODE, Some(7), now), Finding::Same);
        assert_eq!(starts.note(NODE, Some(8), now), Finding::Restarted);
        starts.due(&HashMap::from([(NODE, false)]), &none, now);
        assert_eq!(starts.note(NODE, Some(8), now), Finding::Reconnected);
        assert_eq!(starts.list()[0].start, Some(8));
    }

    #[test]
    fn without_numbers_a_lost_connection_counts_as_a_restart() {
        let (starts, now) = (Starts::new(1_700_000_000_000), Instant::now());
        starts.due(&HashMap::from([(NODE, true)]), &HashSet::new(), now);
        assert_eq!(starts.note(NODE, None, now), Finding::Same);
        assert_eq!(starts.note(NODE, None, now), Finding::Same);
        starts.due(&HashMap::from([(NODE, false)]), &HashSet::new(), now);
        assert_eq!(starts.note(NODE, None, now), Finding::Restarted);
        assert_eq!(starts.note(NODE, None, now), Finding::Same);
        // Nobody has seen whether the node was restarted between two processes of the daemon.
        let next = Starts::new(1_700_000_060_000);
        next.due(&HashMap::from([(NODE, true)]), &HashSet::new(), now);
        next.note(NODE, None, now);
        assert_ne!(next.list()[0].start, starts.list()[0].start);
    }

    #[test]
    fn nodes_are_asked_side_by_side() {
        let (starts, now) = (Starts::new(1_700_000_000_000), Instant::now());
        let both = HashMap::from([(NODE, true), (OTHER, true)]);
        assert_eq!(starts.due(&both, &HashSet::new(), now).len(), 2);
        // One node hangs: the other one is asked again after the pause.
        let asking = HashSet::from([OTHER]);
        assert!(starts.due(&both, &asking, now).is_empty());
        assert_eq!(starts.due(&both, &asking, now + ASK_EVERY), [NODE]);
        // A node that comes back is asked at once.
        starts.due(&HashMap::from([(NODE, false), (OTHER, true)]), &asking, now + ASK_EVERY);
        assert_eq!(starts.due(&both, &asking, now + ASK_EVERY), [NODE]);
        // A node with an unknown start is listed as such, and a node that has left is not listed.
        assert!(starts.due(&HashMap::from([(OTHER, true)]), &asking, now).is_empty());
        let list = starts.list();
        assert_eq!((list.len(), list[0].node, list[0].start), (1, OTHER, None));
    }
}
