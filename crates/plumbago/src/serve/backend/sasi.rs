//! Finds names through Cassandra's SASI indexes, for daemons that load no names (`index.mode = "sasi"`).

use plumbago_api::{FinderError, NameFinder};
use plumbago_boxed_futures::boxed_futures;
use plumbago_index::{FindLimits, Node};
use plumbago_model::{Pattern, has_glob, sanitize};
use plumbago_store_cassandra::CassandraStore;
use plumbago_store_cassandra::find::{FindError, Limits, Want};

/// Finds names through the SASI indexes of this store.
#[derive(Debug)]
pub(super) struct Sasi(pub(super) CassandraStore);

#[boxed_futures]
impl NameFinder for Sasi {
    async fn find(
        &self,
        query: &str,
        leaves_only: bool,
        limits: &FindLimits,
    ) -> Result<Vec<Node>, FinderError> {
        let Some(pattern) = pattern(query)? else { return Ok(Vec::new()) };
        let want = if leaves_only { Want::Metrics } else { Want::Nodes };
        let limits =
            Limits { results_max: limits.results_max, rows_max: limits.visited_max, ..Limits::default() };
        let nodes = self.0.find(&pattern, want, limits).await.map_err(|error| match error {
            FindError::TooManyResults(_) | FindError::TooManyRows(_) => {
                FinderError::TooLarge(error.to_string())
            }
            FindError::NoIndex(why) => FinderError::Unavailable(why),
            FindError::Store(error) => unavailable(&error),
        })?;
        let node = |node: plumbago_store_cassandra::find::Node| Node {
            path: node.path,
            leaf: node.leaf,
            branch: node.branch,
        };
        Ok(nodes.into_iter().map(node).collect())
    }
}

/// Parses a query. A query without a glob is made canonical, as the index in memory does; `None` if it is not
/// a valid name.
fn pattern(query: &str) -> Result<Option<Pattern>, FinderError> {
    let name = match has_glob(query) {
        true => query.into(),
        false => match sanitize(query) {
            Ok(name) => name,
            Err(_) => return Ok(None),
        },
    };
    Pattern::parse(&name).map(Some).map_err(|error| FinderError::TooLarge(error.to_string()))
}

fn unavailable(error: &plumbago_store::StoreError) -> FinderError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    FinderError::Unavailable(format!("{error}{cause}"))
}
