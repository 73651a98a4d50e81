//! The points of each connection: every metric once a minute, in the same order each minute.

use std::ops::Range;

use super::names::Shape;
use super::protocol::Protocol;
use super::values::Walk;

/// Seconds between two points of a metric.
pub(crate) const STEP: u32 = 60;

/// Largest size of a chunk.
const CHUNK_BYTES: usize = 256 * 1024;

/// Everything that determines the points to send: the same workload gives the same bytes.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    /// The scheme of the names.
    pub(crate) shape: Shape,
    /// A text that is put in front of every name.
    pub(crate) prefix: String,
    /// The seed of the values; the same seed gives the same values.
    pub(crate) seed: u64,
    /// Unix time of the first point of each metric.
    pub(crate) start: u32,
    /// Number of points per metric, [`STEP`] seconds apart.
    pub(crate) points: u32,
    pub(crate) protocol: Protocol,
    /// Number of points of a request.
    pub(crate) batch: usize,
}

/// Complete lines, or the body of a request.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The text.
    pub(crate) bytes: Vec<u8>,
    /// Number of points.
    pub(crate) points: u64,
}

/// Generates the chunks of a range of metrics.
#[derive(Debug)]
pub(crate) struct Chunks {
    /// For each metric in turn, the texts before and after the two numbers of a point.
    texts: Vec<u8>,
    /// Where both texts of each metric end in `texts`.
    ends: Vec<[usize; 2]>,
    walks: Vec<Walk>,
    workload: Workload,
    minute: u32,
    metric: usize,
}

impl Chunks {
    /// Generates the points of these metrics.
    pub(crate) fn new(workload: Workload, metrics: Range<usize>) -> Self {
        let (mut texts, mut ends) = (Vec::new(), Vec::with_capacity(metrics.len()));
        let Workload { shape, protocol, .. } = workload;
        for number in metrics.clone() {
            protocol.write_head(&mut texts, shape, &workload.prefix, number);
            let head = texts.len();
            protocol.write_tail(&mut texts, shape, &workload.prefix, number);
            ends.push([head, texts.len()]);
        }
        let walks = metrics.map(|number| Walk::new(workload.seed, number)).collect();
        Self { texts, ends, walks, workload, minute: 0, metric: 0 }
    }

    fn point(&mut self, out: &mut Vec<u8>) {
        let start = self.metric.checked_sub(1).map_or(0, |before| self.ends[before][1]);
        let [head, end] = self.ends[self.metric];
        out.extend_from_slice(&self.texts[start..head]);
        let timestamp = self.workload.start + self.minute * STEP;
        let walk = &mut self.walks[self.metric];
        self.workload.protocol.write_numbers(out, timestamp, |out| walk.write(out));
        out.extend_from_slice(&self.texts[head..end]);
    }
}

impl Iterator for Chunks {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let mut chunk = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), points: 0 };
        let is_request = self.workload.protocol.path().is_some();
        let has_room = |chunk: &Chunk, batch: usize| match is_request {
            true => chunk.points < batch as u64,
            false => chunk.bytes.len() < CHUNK_BYTES - 512,
        };
        while self.minute < self.workload.points && has_room(&chunk, self.workload.batch) {
            if self.metric == self.ends.len() {
                self.metric = 0;
                self.minute += 1;
                continue;
            }
            if is_request {
                chunk.bytes.push(if chunk.points == 0 { b'[' } else { b',' });
            }
            self.point(&mut chunk.bytes);
            self.metric += 1;
            chunk.points += 1;
        }
        if is_request {
            chunk.bytes.push(b']');
        }
        (chunk.points > 0).then_some(chunk)
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
        let (prefix, protocol) = ("x.".to_owned(), Protocol::Line);
        Workload { shape: Shape::Hosts, prefix, seed: 3, start: 6000, points, protocol, batch: 7 }
    }

    #[test]
    fn every_metric_once_a_minute_in_one_order() {
        let mut seen: HashMap<String, Vec<u32>> = HashMap::new();
        let mut orders: Vec<Vec<String>> = vec![Vec::new(); 3];
        for share in shares(10_000, 3) {
            for chunk in Chunks::new(workload(3), share) {
                let text = String::from_utf8(chunk.bytes).unwrap();
                assert_eq!(text.lines().count() as u64, chunk.points);
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
    fn a_request_has_as_many_points_as_asked_for() {
        for (protocol, name) in [(Protocol::Datapoints, "name"), (Protocol::ApiPut, "metric")] {
            let chunks = Chunks::new(Workload { protocol, ..workload(2) }, 0..10);
            let sizes: Vec<u64> = chunks
                .map(|chunk| {
                    let body: Vec<serde_json::Value> = serde_json::from_slice(&chunk.bytes).unwrap();
                    assert!(body.iter().all(|point| point[name].is_string()));
                    assert_eq!(body.len() as u64, chunk.points);
                    chunk.points
                })
                .collect();
            assert_eq!(sizes, [7, 7, 6]);
        }
    }

    #[test]
    fn shares_cover_all_metrics() {
        assert_eq!(shares(10, 3), [0..3, 3..6, 6..10]);
        assert_eq!(shares(2, 5).len(), 2);
    }
}
