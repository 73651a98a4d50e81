//! The question `du`: the size of the points of metrics in the store, by directory.

use plumbago_boxed_futures::boxed_futures;
use plumbago_model::{MetricId, Stage, escaped};
use serde::{Deserialize, Serialize};

use super::is_zero;
use crate::question::{Question, Rows};
use crate::quotas::DirectoryQuota;
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Largest number of directories and metrics in one answer.
const NODES_MAX: usize = 100_000;
/// The size of a point in Cassandra's tables, in bytes, as BigGraphite estimates it.
pub(crate) const POINT_BYTES: u64 = 24;
/// Largest number of components in a glob that finds the names below a directory, because globs have a limit. The
/// names that it finds are compared with the whole directory.
const COMPONENTS_MAX: usize = 100;
/// The directory above all others.
const ROOT: &str = "/";

/// Measures the metrics and directories that match a glob.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Du {
    /// The metrics and directories; `/` for all metrics.
    pub glob: String,
    /// Maximum number of metrics per second; 0 for no limit.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rate: u32,
}

/// The size of a metric, or of everything below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The metric or the directory.
    pub path: String,
    /// The number of metrics.
    pub metrics: u64,
    /// The size of their points in bytes.
    pub bytes: u64,
    /// Whether the bytes are not measured, but computed for full stages.
    pub estimated: bool,
    /// The quota that applies to the directory, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<DirectoryQuota>,
}

#[boxed_futures]
impl Question for Du {
    const NAME: &'static str = "du";
    type Row = Size;

    fn rate(&self) -> u32 {
        self.rate
    }

    async fn answer(&self, work: &Work, rows: &Rows<Size>) -> Result<(), VerbError> {
        work.progress.begin("metrics measured", None);
        if self.glob == ROOT {
            return rows.send(below(work, ROOT).await?).await;
        }
        for node in work.names.nodes(&self.glob, NODES_MAX).await? {
            let mut size = match node.is_directory {
                true => below(work, &node.path).await?,
                false => Size::none(work, &node.path),
            };
            if node.is_metric {
                let itself = Which { names: Some(vec![node.path.clone()]), ..Which::default() };
                add(work, &itself, |_| true, &mut size).await?;
            }
            rows.send(size).await?;
        }
        Ok(())
    }
}

impl Size {
    fn none(work: &Work, path: &str) -> Self {
        let (metrics, bytes, estimated) = (0, 0, work.sizes.is_none());
        Self { path: path.to_owned(), metrics, bytes, estimated, quota: work.quotas.of(path) }
    }
}

/// Measures what is below a directory, without tagged series; `/` stands for all metrics, tagged ones too.
///
/// # Errors
/// If the store cannot be read.
pub async fn below(work: &Work, directory: &str) -> Result<Size, VerbError> {
    let mut size = Size::none(work, directory);
    if directory != ROOT {
        let is_below = |name: &str| name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('.'));
        add(work, &Which::glob(&glob_of(directory)), is_below, &mut size).await?;
        return Ok(size);
    }
    add(work, &Which::glob("**"), |_| true, &mut size).await?;
    match add(work, &Which::tagged(), |_| true, &mut size).await {
        // Without names in memory, nothing is found by tags.
        Ok(()) | Err(VerbError::Invalid(_)) => Ok(size),
        Err(error) => Err(error),
    }
}

/// A glob that matches everything below a directory. Characters of globs in the directory stand for themselves.
fn glob_of(directory: &str) -> String {
    let components: Vec<&str> = directory.split('.').take(COMPONENTS_MAX).collect();
    format!("{}.**", escaped(&components.join(".")))
}

/// Adds those of the selected metrics that count.
async fn add(
    work: &Work,
    which: &Which,
    counts: impl Fn(&str) -> bool,
    size: &mut Size,
) -> Result<(), VerbError> {
    let mut found = work.names.find(which);
    while let Some(names) = found.recv().await {
        let names = names?;
        let names: Vec<&str> = names.iter().map(String::as_str).filter(|name| counts(name)).collect();
        let known = work.stores.metadata.get(&names).await?;
        let stages: Vec<(MetricId, Vec<Stage>)> =
            known.iter().flatten().map(|meta| (meta.id(), meta.config.retention.stages().to_vec())).collect();
        size.metrics += names.len() as u64;
        size.bytes += match &work.sizes {
            Some(sizes) => sizes.sizes(&stages).await?.into_iter().flatten().sum::<u64>(),
            None => stages.iter().flat_map(|(_, stages)| stages).map(|stage| full(*stage)).sum(),
        };
        work.progress.add(names.len() as u64);
    }
    Ok(())
}

fn full(stage: Stage) -> u64 {
    u64::from(stage.points) * POINT_BYTES
}
