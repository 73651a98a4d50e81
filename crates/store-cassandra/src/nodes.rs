//! Watching the nodes: one that was started anew may have lost what it had confirmed; one that was only
//! out of reach, or hung, has it still.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::Statement;
use uuid::Uuid;

/// How often the state of the nodes is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// What was seen of a node.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    up: bool,
    /// A number that grows with each start of the node, once it could be asked.
    start: Option<i32>,
}

/// Looks at the nodes for ever. `returned` hears of each that may have lost something, `counted` how many
/// are known and how many of them connected.
pub(crate) async fn watch(session: &Session, returned: impl Fn(), counted: impl Fn(usize, usize)) {
    let mut known: HashMap<Uuid, Seen> = HashMap::new();
    loop {
        let state = session.get_cluster_state();
        let nodes = state.get_nodes_info();
        for node in nodes {
            let before = known.get(&node.host_id).copied();
            let now = look(session, node, before.unwrap_or_default()).await;
            known.insert(node.host_id, now);
            if !now.up || before.is_none_or(|before| before.up) {
                continue;
            }
            if is_same_start(before, now) {
                tracing::info!(node = %node.address, "a node is in reach again; it was not restarted");
            } else {
                tracing::info!(node = %node.address, "a node has returned");
                returned();
            }
        }
        counted(nodes.len(), nodes.iter().filter(|node| node.is_connected()).count());
        tokio::time::sleep(EVERY).await;
    }
}

async fn look(session: &Session, node: &Arc<Node>, before: Seen) -> Seen {
    match (before.up, node.is_connected()) {
        (_, false) => Seen { up: false, ..before },
        (true, true) => before,
        (false, true) => Seen { up: true, start: start_of(session, node).await },
    }
}

/// Whoever cannot be asked counts as started anew: sending something again harms nobody.
fn is_same_start(before: Option<Seen>, now: Seen) -> bool {
    now.start.is_some() && before.and_then(|before| before.start) == now.start
}

/// Which start of the node this is, as gossip numbers them.
async fn start_of(session: &Session, node: &Arc<Node>) -> Option<i32> {
    let mut statement = Statement::new("SELECT gossip_generation FROM system.local WHERE key = 'local'");
    let itself = SingleTargetLoadBalancingPolicy::new(NodeIdentifier::Node(Arc::clone(node)), None);
    let usual = session.get_default_execution_profile_handle().pointee_to_builder();
    let profile = usual.load_balancing_policy(itself).build().into_handle();
    statement.set_execution_profile_handle(Some(profile));
    let rows = session.query_unpaged(statement, ()).await.ok()?.into_rows_result().ok()?;
    rows.first_row::<(Option<i32>,)>().ok()?.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_be_asked_counts_as_started_anew() {
        let seen = |start| Seen { up: true, start };
        assert!(is_same_start(Some(seen(Some(7))), seen(Some(7))));
        assert!(!is_same_start(Some(seen(Some(7))), seen(Some(8))));
        assert!(!is_same_start(Some(seen(None)), seen(None)));
        assert!(!is_same_start(Some(seen(Some(7))), seen(None)));
        assert!(!is_same_start(None, seen(Some(7))));
    }
}
