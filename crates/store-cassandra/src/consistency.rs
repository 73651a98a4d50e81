//! How many replicas have to answer: converts the consistency levels of the settings to those of the driver.

use scylla::cluster::metadata::Strategy;
use scylla::statement::Consistency;

use crate::config::Level;
use crate::driver::Session;

/// The driver's consistency level for a setting. `Auto` depends on the number of replicas of the keyspace.
pub(crate) fn consistency(
    level: Level,
    session: &dyn Session,
    keyspace: &str,
    datacenter: &str,
) -> Consistency {
    match level {
        Level::Auto => automatic(replicas(session, keyspace, datacenter)),
        Level::LocalOne => Consistency::LocalOne,
        Level::Any => Consistency::Any,
        Level::One => Consistency::One,
        Level::Two => Consistency::Two,
        Level::Three => Consistency::Three,
        Level::Quorum => Consistency::Quorum,
        Level::All => Consistency::All,
        Level::LocalQuorum => Consistency::LocalQuorum,
        Level::EachQuorum => Consistency::EachQuorum,
    }
}

/// The level for a number of replicas. If the driver does not know the keyspace, for example when nodes do not answer
/// at the start, the level is `LOCAL_QUORUM`, which is safe for any number: a row that only one of three replicas
/// confirmed could be lost with that replica.
fn automatic(replicas: Option<usize>) -> Consistency {
    match replicas {
        Some(0..=2) => Consistency::LocalOne,
        Some(_) | None => Consistency::LocalQuorum,
    }
}

/// The consistency level of a read whose result decides on a write. It is the level of the writes, so that
/// the read sees every confirmed row, or the level of reads if that involves more replicas.
pub(crate) fn decisive(write: Consistency, read: Consistency) -> Consistency {
    let rank = |level| match level {
        Consistency::Any | Consistency::LocalOne => 0,
        Consistency::One => 1,
        Consistency::Two => 2,
        Consistency::LocalQuorum => 3,
        Consistency::Three => 4,
        Consistency::Quorum => 5,
        Consistency::EachQuorum => 6,
        _ => 7,
    };
    let level = if rank(read) > rank(write) { read } else { write };
    // There is no level ANY for reads.
    if level == Consistency::Any { Consistency::LocalOne } else { level }
}

/// The number of replicas of a keyspace; `None` while the driver does not know the keyspace.
fn replicas(session: &dyn Session, keyspace: &str, datacenter: &str) -> Option<usize> {
    let state = session.get_cluster_state();
    Some(match &state.get_keyspace(keyspace)?.strategy {
        Strategy::SimpleStrategy { replication_factor } => *replication_factor,
        Strategy::NetworkTopologyStrategy { datacenter_repfactors } => datacenter_repfactors
            .get(datacenter)
            .or_else(|| datacenter_repfactors.values().min())
            .copied()
            .unwrap_or(1),
        _ => 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_keyspace_is_written_as_safely_as_one_with_three_replicas() {
        use Consistency::{LocalOne, LocalQuorum};
        assert_eq!(automatic(None), LocalQuorum);
        let levels = [1, 2, 3, 5].map(|replicas| automatic(Some(replicas)));
        assert_eq!(levels, [LocalOne, LocalOne, LocalQuorum, LocalQuorum]);
    }

    #[test]
    fn a_read_that_decides_asks_at_least_as_many_as_a_write() {
        use Consistency::{All, Any, LocalOne, LocalQuorum, Quorum};
        for (write, read, wanted) in [
            (LocalQuorum, LocalOne, LocalQuorum),
            (LocalOne, LocalOne, LocalOne),
            (Any, Any, LocalOne),
            (LocalQuorum, Quorum, Quorum),
            (All, LocalQuorum, All),
        ] {
            assert_eq!(decisive(write, read), wanted, "{write} {read}");
        }
    }
}
