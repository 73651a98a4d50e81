//! The lines of each connection: every metric once a minute, in the same order each minute.

use std::ops::Range;

use super::names::{self, Shape};
use super::values::Walk;

/// Seconds between two points of a metric.
pub(crate) const STEP: u32 = 60;

/// Largest size of a chunk.
const CHUNK_BYTES: usize = 256 * 1024;

/// The points to send, in every detail: the same workload gives the same lines.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    /// The scheme of the names.
    pub(crate) shape: Shape,
    /// Put in front of every name.
    pub(crate) prefix: String,
    /// The same seed gives the same values.
    pub(crate) seed: u64,
    /// Unix time of the first point of each metric.
    pub(crate) start: u32,
    /// Points per metric, [`STEP`] seconds apart.
    pub(crate) points: u32,
}

/// Complete lines, ready to be sent.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The lines as text.
    pub(crate) bytes: Vec<u8>,
    /// Number of lines, and so of points.
    pub(crate) lines: u64,
}

/// Generates the chunks of a range of metrics.
#[derive(Debug)]
pub(crate) struct Chunks {
    names: Vec<u8>,
    ends: Vec<usize>,
    walks: Vec<Walk>,
    workload: Workload,
    minute: u32,
    metric: usize,
}

impl Chunks {
    /// Generates the lines of these metrics.
    pub(crate) fn new(workload: Workload, metrics: Range<usize>) -> Self {
        let (mut names, mut ends) = (Vec::new(), Vec::with_capacity(metrics.len()));
        for number in metrics.clone() {
            names::write(&mut names, workload.shape, &workload.prefix, number);
            ends.push(names.len());
        }
        let walks = metrics.map(|number| Walk::new(workload.seed, number)).collect();
        Self { names, ends, walks, workload, minute: 0, metric: 0 }
    }

    fn line(&mut self, out: &mut Vec<u8>) {
        let start = self.metric.checked_sub(1).map_or(0, |before| self.ends[before]);
        out.extend_from_slice(&self.names[start..self.ends[self.metric]]);
        out.push(b' ');
        self.walks[self.metric].write(out);
        out.push(b' ');
        let timestamp = self.workload.start + self.minute * STEP;
        out.extend_from_slice(itoa::Buffer::new().format(timestamp).as_bytes());
        out.push(b'\n');
    }
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let mut chunk = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), lines: 0 };
        while self.minute < self.workload.points && chunk.bytes.len() < CHUNK_BYTES - 512 {
            if self.metric == self.ends.len() {
                self.metric = 0;
                self.minute += 1;
                continue;
            }
            self.line(&mut chunk.bytes);
            self.metric += 1;
            chunk.lines += 1;
        }
        (chunk.lines > 0).then_some(chunk)
    }
}

/// Divides the metrics evenly among the connections, as ranges of consecutive numbers.
pub(crate) fn shares(metrics: usize, connections: usize) -> Vec<Range<usize>> {
    let at = |i: usize| metrics * i / connections;
    (0..connections).map(|i| at(i)..at(i + 1)).filter(|share| !share.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn workload(points: u32) -> Workload {
        Workload { shape: Shape::Hosts, prefix: "x.".to_owned(), seed: 3, start: 6000, points }
    }

    #[test]
    fn every_metric_once_a_minute_in_one_order() {
        let mut seen: HashMap<String, Vec<u32>> = HashMap::new();
        let mut orders: Vec<Vec<String>> = vec![Vec::new(); 3];
        for share in shares(10_000, 3) {
            for chunk in Chunks::new(workload(3), share) {
                let text = String::from_utf8(chunk.bytes).unwrap();
                assert_eq!(text.lines().count() as u64, chunk.lines);
                for line in text.lines() {
                    let mut fields = line.split(' ');
                    let (name, _, time) = (fields.next().unwrap(), fields.next(), fields.next().unwrap());
                    let time: u32 = time.parse().unwrap();
                    orders[((time - 6000) / 60) as usize].push(name.to_owned());
                    seen.entry(name.to_owned()).or_default().push(time);
                }
            }
        }
        assert_eq!(seen.len(), 10_000);
        assert!(seen.values().all(|times| *times == [6000, 6060, 6120]));
        assert_eq!(orders[0], orders[1]);
    }

    #[test]
    fn shares_cover_all_metrics() {
        assert_eq!(shares(10, 3), [0..3, 3..6, 6..10]);
        assert_eq!(shares(2, 5).len(), 2);
    }
}
