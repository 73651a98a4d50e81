//! Finds metrics for verbs: in the index, or through the store if the names are not loaded.

use std::sync::Arc;

use plumbago_api::NameFinder;
use plumbago_boxed_futures::boxed_futures;
use plumbago_index::{FindLimits, Index, TagExpression};
use plumbago_maintenance::select::{
    BiggestTags, FoundNode, MetricNames, NAMES_IN_BATCH, NameBatches, TagSize, Which,
};
use plumbago_maintenance::verb::VerbError;
use plumbago_model::sanitize;
use tokio::sync::mpsc;

/// Batches that may wait for the consumer of a search.
const BATCHES: usize = 4;
/// A search of an operator has no limits except those of the machine.
const NO_LIMITS: FindLimits = FindLimits { results_max: usize::MAX, visited_max: usize::MAX };

type Batches = mpsc::Sender<Result<Vec<String>, VerbError>>;

/// The names of this process.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) index: Arc<Index>,
    pub(super) finder: Option<Arc<dyn NameFinder>>,
}

#[boxed_futures]
impl MetricNames for Names {
    fn find(&self, which: &Which) -> NameBatches {
        let (sender, receiver) = mpsc::channel(BATCHES);
        let (index, which) = (Arc::clone(&self.index), which.clone());
        match &self.finder {
            Some(finder) => {
                tokio::spawn(ask_finder(Arc::clone(finder), which, sender));
            }
            None => {
                tokio::task::spawn_blocking(move || {
                    if let Err(error) = search(&index, which, &sender) {
                        let _ = sender.blocking_send(Err(error));
                    }
                });
            }
        }
        receiver
    }

    async fn nodes(&self, glob: &str, limit: usize) -> Result<Vec<FoundNode>, VerbError> {
        let limits = FindLimits { results_max: limit, ..NO_LIMITS };
        let nodes = match &self.finder {
            Some(finder) => finder.find(glob, false, &limits).await.map_err(|error| invalid(&error))?,
            None => {
                let (index, glob) = (Arc::clone(&self.index), glob.to_owned());
                let found = tokio::task::spawn_blocking(move || index.find(&glob, &limits)).await;
                found.map_err(|error| failed(&error))?.map_err(|error| invalid(&error))?
            }
        };
        let node = |node: plumbago_index::Node| FoundNode {
            path: node.path,
            is_metric: node.leaf,
            is_directory: node.branch,
        };
        Ok(nodes.into_iter().map(node).collect())
    }

    async fn tags(&self, tag: Option<&str>, limit: usize) -> Result<Vec<(String, u64)>, VerbError> {
        if self.finder.is_some() {
            return Err(VerbError::Failed("tags need index.mode = \"memory\"".to_owned()));
        }
        let found = match tag {
            None => self.index.list_tags(None, limit),
            Some(tag) => {
                let values = self.index.list_values(tag, None, limit);
                values.map(|found| found.map_or_else(Vec::new, |(_, values)| values))
            }
        };
        let found = found.map_err(|error| failed(&error))?;
        Ok(found.into_iter().map(|tag| (tag.text, tag.series)).collect())
    }

    async fn biggest_tags(&self, tag: Option<&str>, limit: usize) -> Result<BiggestTags, VerbError> {
        if self.finder.is_some() {
            return Err(VerbError::Failed("tags need index.mode = \"memory\"".to_owned()));
        }
        let (index, tag) = (Arc::clone(&self.index), tag.map(str::to_owned));
        let found = tokio::task::spawn_blocking(move || index.biggest_tags(tag.as_deref(), limit)).await;
        let found = found.map_err(|error| failed(&error))?;
        let size =
            |tag: plumbago_index::TagSize| TagSize { text: tag.text, series: tag.series, values: tag.values };
        Ok(BiggestTags { biggest: found.biggest.into_iter().map(size).collect(), total: found.total })
    }
}

fn invalid(error: &dyn std::fmt::Display) -> VerbError {
    VerbError::Invalid(error.to_string())
}

fn failed(error: &dyn std::fmt::Display) -> VerbError {
    VerbError::Failed(error.to_string())
}

/// Sends the names of a selection in batches. Ends when the receiver has been dropped.
fn search(index: &Index, which: Which, batches: &Batches) -> Result<(), VerbError> {
    if let Some(glob) = which.glob {
        let mut batch = Vec::new();
        let found = index.leaves_each(&glob, &NO_LIMITS, &mut |name| {
            batch.push(name.to_owned());
            if batch.len() == NAMES_IN_BATCH {
                let _ = batches.blocking_send(Ok(std::mem::take(&mut batch)));
            }
        });
        let _ = batches.blocking_send(Ok(batch));
        return found.map_err(|error| invalid(&error));
    }
    let names: Vec<String> = match which.names {
        Some(names) => {
            let names: std::collections::BTreeSet<String> =
                names.iter().filter_map(|name| Some(sanitize(name).ok()?.into_owned())).collect();
            names.into_iter().filter(|name| index.contains(name)).collect()
        }
        None => {
            let expressions =
                which.tags.iter().map(|text| TagExpression::parse(text)).collect::<Result<Vec<_>, _>>();
            let expressions = expressions.map_err(|error| invalid(&error))?;
            let mut visit = |names: Vec<String>| send(&names, batches);
            return index.series_each(&expressions, &NO_LIMITS, &mut visit).map_err(|error| invalid(&error));
        }
    };
    send(&names, batches);
    Ok(())
}

/// Sends names in batches. Returns whether the receiver still exists.
fn send(names: &[String], batches: &Batches) -> bool {
    names.chunks(NAMES_IN_BATCH).all(|names| batches.blocking_send(Ok(names.to_vec())).is_ok())
}

/// Sends the metrics that the store finds.
async fn ask_finder(finder: Arc<dyn NameFinder>, which: Which, batches: Batches) {
    let limits = FindLimits { results_max: 10_000_000, visited_max: 50_000_000 };
    if !which.tags.is_empty() {
        let _ = batches.send(Err(VerbError::Invalid("tags need index.mode = \"memory\"".to_owned()))).await;
        return;
    }
    let queries = which.glob.into_iter().chain(which.names.unwrap_or_default());
    for query in queries {
        let found = finder.find(&query, true, &limits).await.map_err(|error| invalid(&error));
        let nodes = match found {
            Ok(nodes) => nodes,
            Err(error) => {
                let _ = batches.send(Err(error)).await;
                return;
            }
        };
        for nodes in nodes.chunks(NAMES_IN_BATCH) {
            let names = nodes.iter().map(|node| node.path.clone()).collect();
            if batches.send(Ok(names)).await.is_err() {
                return;
            }
        }
    }
}
