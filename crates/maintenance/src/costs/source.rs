//! The rows of metrics, page by page.

use plumbago_model::has_glob;
use plumbago_store::{MetricRow, Share};

use crate::select::{NameBatches, Which};
use crate::verb::{VerbError, Work};

/// Number of rows in one page of a scan.
const PAGE: usize = 1000;

/// Where rows come from.
#[derive(Debug)]
pub(super) enum Source {
    /// All rows of the store, in the order of the store, starting at a position.
    Scan { position: Option<Vec<u8>>, is_done: bool },
    /// The rows of names that are found.
    Found(NameBatches),
}

impl Source {
    /// The metrics below a directory; "" means all metrics, including tagged series. A scan also returns
    /// other metrics, which [`is_below`] recognises.
    pub(super) fn new(work: &Work, under: &str) -> Self {
        // A directory name with characters of globs would match other directories too.
        if under.is_empty() || has_glob(under) {
            return Self::Scan { position: None, is_done: false };
        }
        Self::Found(work.names.find(&Which::glob(&format!("{under}.**"))))
    }

    /// The next rows; `None` if there are no more.
    pub(super) async fn next(&mut self, work: &Work) -> Result<Option<Vec<MetricRow>>, VerbError> {
        match self {
            Self::Scan { is_done: true, .. } => Ok(None),
            Self::Scan { position, is_done } => {
                let page = work.stores.rows.scan_rows(Share::ALL, position.take(), PAGE).await?;
                *is_done = page.next.is_none();
                *position = page.next;
                Ok(Some(page.rows))
            }
            Self::Found(found) => {
                let Some(names) = found.recv().await else { return Ok(None) };
                let names = names?;
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let rows = work.stores.rows.look_up_rows(&names).await?;
                Ok(Some(rows.into_iter().flatten().collect()))
            }
        }
    }
}

/// Whether a metric is below a directory, "" for all metrics. Tagged series are in no directory.
pub(super) fn is_below(name: &str, under: &str) -> bool {
    under.is_empty()
        || name.strip_prefix(under).is_some_and(|rest| rest.starts_with('.') && !rest.contains(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_what_is_below_it() {
        assert!(is_below("a", "") && is_below("a;b=c", ""));
        assert!(is_below("a.b.c", "a") && is_below("a.b.c", "a.b"));
        assert!(!is_below("a", "a") && !is_below("ab.c", "a") && !is_below("a.b;x=y", "a"));
    }
}
