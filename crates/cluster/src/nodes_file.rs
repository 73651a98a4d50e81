//! The file `nodes`: the last known start time of each server. A start time is recorded only after the rows that
//! the server may have lost by then are pending again. In this way a restart is found even if this daemon did
//! not run at that time.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumbago_store::NodeStart;
use tokio::time::Instant;
use uuid::Uuid;

use crate::replace::replace;

const FILE: &str = "nodes";
const HEADING: &str = "plumbago-nodes 1";
/// A server that was not listed for this long has left the cluster.
const LEFT_AFTER: Duration = Duration::from_secs(600);

/// The known start times of servers, as saved in the file of a data directory.
#[derive(Debug)]
pub struct NodesFile {
    path: PathBuf,
    starts: BTreeMap<Uuid, i64>,
    is_saved: bool,
    /// Servers that are not listed at present, each with the time since when it is missing.
    unlisted: HashMap<Uuid, Instant>,
}

impl NodesFile {
    /// Reads the file in `dir`. If it is missing or cannot be read, no server is known. In that case all
    /// retained rows are sent again once, because any server may have been restarted since they were
    /// acknowledged.
    pub fn load(dir: &Path) -> Self {
        let path = dir.join(FILE);
        let starts = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).ok_or_else(|| "it is damaged".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.to_string()),
        };
        let is_saved = starts.is_ok();
        let starts = starts.unwrap_or_else(|why| {
            tracing::warn!(
                file = %path.display(), why,
                "the file that says when each server was started cannot be read, so rows of the last minutes are sent to \
                 all servers again; nothing is lost"
            );
            BTreeMap::new()
        });
        Self { path, starts, is_saved, unlisted: HashMap::new() }
    }

    /// The servers that are new or whose start time differs from the known one, each with its start time.
    /// Servers that have not answered yet are left out.
    pub(crate) fn news(&self, listed: &[NodeStart]) -> Vec<(Uuid, i64)> {
        let starts = listed.iter().filter_map(|node| Some((node.node, node.start?)));
        starts.filter(|(node, start)| self.starts.get(node) != Some(start)).collect()
    }

    /// Whether one of these servers was known with another start time, which means that it was restarted.
    pub(crate) fn has_restart(&self, news: &[(Uuid, i64)]) -> bool {
        news.iter().any(|(node, start)| self.starts.get(node).is_some_and(|known| known != start))
    }

    /// Notes start times as known. Call this only after the rows that these servers may have lost were queued
    /// to be sent again.
    pub(crate) fn note(&mut self, news: &[(Uuid, i64)]) {
        self.is_saved &= news.is_empty();
        self.starts.extend(news.iter().copied());
    }

    /// Returns the age of the oldest answer if all servers have answered and all their start times are known.
    /// Forgets servers that have left the cluster.
    pub(crate) fn settled(&mut self, listed: &[NodeStart]) -> Option<Duration> {
        if listed.is_empty() {
            return None;
        }
        let now = Instant::now();
        self.unlisted.retain(|node, _| listed.iter().all(|listed| listed.node != *node));
        for node in self.starts.keys().filter(|node| listed.iter().all(|listed| listed.node != **node)) {
            self.unlisted.entry(*node).or_insert(now);
        }
        for (node, since) in &self.unlisted {
            if now.duration_since(*since) >= LEFT_AFTER && self.starts.remove(node).is_some() {
                self.is_saved = false;
            }
        }
        self.unlisted.retain(|node, _| self.starts.contains_key(node));
        let is_known =
            |node: &NodeStart| node.start.is_some() && self.starts.get(&node.node) == node.start.as_ref();
        let all = self.unlisted.is_empty() && listed.iter().all(is_known);
        listed.iter().map(|node| node.age).max().filter(|_| all)
    }

    /// Writes the file if something has changed. The file is replaced as a whole and synced.
    ///
    /// # Errors
    ///
    /// If the file cannot be written. The old file stays, and the next call tries again.
    pub(crate) fn save(&mut self) -> io::Result<()> {
        if self.is_saved {
            return Ok(());
        }
        let mut text = format!("{HEADING}\n");
        for (node, start) in &self.starts {
            let _ = writeln!(text, "node {node} {start}");
        }
        let _ = writeln!(text, "end {}", self.starts.len());
        replace(&self.path, |file| file.write_all(text.as_bytes()))?;
        self.is_saved = true;
        Ok(())
    }
}

fn parse(text: &str) -> Option<BTreeMap<Uuid, i64>> {
    let mut lines = text.lines();
    if lines.next()? != HEADING {
        return None;
    }
    let mut starts = BTreeMap::new();
    loop {
        let line = lines.next()?;
        if let Some(count) = line.strip_prefix("end ") {
            return (count.parse() == Ok(starts.len())).then_some(starts);
        }
        let (node, start) = line.strip_prefix("node ")?.split_once(' ')?;
        starts.insert(node.parse().ok()?, start.parse().ok()?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    fn listed(node: Uuid, start: Option<i64>, seconds: u64) -> NodeStart {
        NodeStart { node, start, age: Duration::from_secs(seconds) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_is_known_after_a_restart_of_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = NodesFile::load(dir.path());
        let nodes = [listed(A, Some(7), 1), listed(B, None, 0)];
        assert_eq!(file.news(&nodes), [(A, 7)]);
        assert_eq!(file.settled(&nodes), None);
        file.note(&[(A, 7)]);
        assert_eq!((file.news(&nodes), file.settled(&nodes)), (vec![], None));
        let nodes = [listed(A, Some(7), 1), listed(B, Some(9), 4)];
        file.note(&file.news(&nodes));
        assert_eq!(file.settled(&nodes), Some(Duration::from_secs(4)));
        file.save().unwrap();

        let mut file = NodesFile::load(dir.path());
        assert_eq!(file.news(&nodes), []);
        let nodes = [listed(A, Some(8), 1), listed(B, Some(9), 4)];
        assert_eq!((file.news(&nodes), file.settled(&nodes)), (vec![(A, 8)], None));
        // A start time that was recorded but not saved is new again after a restart of the daemon.
        file.note(&[(A, 8)]);
        assert_eq!(NodesFile::load(dir.path()).news(&nodes), [(A, 8)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_left_is_forgotten_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = NodesFile::load(dir.path());
        file.note(&[(A, 7), (B, 9)]);
        let nodes = [listed(A, Some(7), 0)];
        assert_eq!(file.settled(&nodes), None);
        tokio::time::advance(LEFT_AFTER).await;
        assert_eq!(file.settled(&[]), None);
        assert_eq!(file.settled(&nodes), Some(Duration::ZERO));
        file.save().unwrap();
        assert_eq!(NodesFile::load(dir.path()).starts, BTreeMap::from([(A, 7)]));
    }

    #[test]
    fn a_damaged_file_knows_no_server() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = NodesFile::load(dir.path());
        file.note(&[(A, 7), (B, 9)]);
        file.save().unwrap();
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(NodesFile::load(dir.path()).starts.len(), 2);
        for cut in 0..text.len() - 1 {
            fs::write(dir.path().join(FILE), &text[..cut]).unwrap();
            assert_eq!(NodesFile::load(dir.path()).starts.len(), 0, "{cut}");
        }
        fs::write(dir.path().join(FILE), [0xff, 0xfe]).unwrap();
        assert_eq!(NodesFile::load(dir.path()).starts.len(), 0);
    }
}
