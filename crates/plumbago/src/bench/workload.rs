//! The lines that one connection sends: every metric once a minute, in the same order each minute.

use std::ops::Range;

use super::names::{self, Shape};
use super::values::Walk;

/// Seconds between two points of a metric.
pub const STEP: u32 = 60;

/// Bytes that a chunk grows to.
const CHUNK_BYTES: usize = 256 * 1024;

/// What is sent.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What the names look like.
    pub shape: Shape,
    /// Goes in front of every name.
    pub prefix: String,
    /// The same seed gives the same values.
    pub seed: u64,
    /// The timestamp of the first point of each metric.
    pub start: u32,
    /// Points of each metric.
    pub points: u32,
}

/// Whole lines, ready to be sent.
#[derive(Debug)]
pub struct Chunk {
    /// The lines.
    pub bytes: Vec<u8>,
    /// How many.
    pub lines: u64,
}

/// The chunks of some metrics, made while one asks.
#[derive(Debug)]
pub struct Chunks {
    names: Vec<u8>,
    ends: Vec<usize>,
    walks: Vec<Walk>,
    plan: Plan,
    minute: u32,
    metric: usize,
}

impl Chunks {
    /// The lines of a range of metrics.
    pub fn new(plan: Plan, metrics: Range<usize>) -> Self {
        let (mut names, mut ends) = (Vec::new(), Vec::with_capacity(metrics.len()));
        for number in metrics.clone() {
            names::write(&mut names, plan.shape, &plan.prefix, number);
            ends.push(names.len());
        }
        let walks = metrics.map(|number| Walk::new(plan.seed, number)).collect();
        Self { names, ends, walks, plan, minute: 0, metric: 0 }
    }

    fn line(&mut self, out: &mut Vec<u8>) {
        let start = self.metric.checked_sub(1).map_or(0, |before| self.ends[before]);
        out.extend_from_slice(&self.names[start..self.ends[self.metric]]);
        out.push(b' ');
        self.walks[self.metric].write(out);
        out.push(b' ');
        let timestamp = self.plan.start + self.minute * STEP;
        out.extend_from_slice(itoa::Buffer::new().format(timestamp).as_bytes());
        out.push(b'\n');
    }
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let mut chunk = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), lines: 0 };
        while self.minute < self.plan.points && chunk.bytes.len() < CHUNK_BYTES - 512 {
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

/// The metrics of each connection: neighbours stay together.
pub fn shares(metrics: usize, connections: usize) -> Vec<Range<usize>> {
    let at = |i: usize| metrics * i / connections;
    (0..connections).map(|i| at(i)..at(i + 1)).filter(|share| !share.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn plan(points: u32) -> Plan {
        Plan { shape: Shape::Hosts, prefix: "x.".to_owned(), seed: 3, start: 6000, points }
    }

    #[test]
    fn every_metric_once_a_minute_in_one_order() {
        let mut seen: HashMap<String, Vec<u32>> = HashMap::new();
        let mut orders: Vec<Vec<String>> = vec![Vec::new(); 3];
        for share in shares(10_000, 3) {
            for chunk in Chunks::new(plan(3), share) {
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
