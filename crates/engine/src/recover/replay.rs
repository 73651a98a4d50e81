//! Applies the journal records that no state row covers.

use std::collections::HashMap;
use std::sync::Arc;

use plumbago_journal::Record;
use plumbago_model::{MetricConfig, MetricId};

use super::numbers::{HeadAddress, Numbers, is_number};
use super::{Recovered, Sources, StartError};
use crate::shard::Shard;
use crate::shard::creation::NewMetric;
use crate::shard::head_state::{LifeEvent, mark};
use crate::shard::restore::Replayed;
use crate::stats::Reject;

/// Replays the journal. Returns for each shard the metrics that are in the journal but not in the metadata
/// store.
pub(super) fn replay(
    sources: &Sources<'_>,
    shards: &mut [Shard],
    numbers: &mut Numbers,
    report: &mut Recovered,
) -> Result<Vec<Vec<NewMetric>>, StartError> {
    let creations = shards.iter().map(|_| Vec::new()).collect();
    // The exact segment of a record is not known here. Using the oldest one only keeps the journal longer.
    let segment = sources.journal.segments().iter().map(|s| s.number).min().unwrap_or(1);
    let mut replay =
        Replay { sources, shards, numbers, report, creations, segment, unexplained: HashMap::new() };
    sources.journal.replay(&mut |record| match record {
        Record::Creation { sequence, metric, name } => replay.creation(sequence, metric, name),
        Record::Point { sequence, metric, timestamp, value } => {
            replay.point(Replayed { sequence, metric, timestamp, value });
        }
        Record::Removal { sequence, metric } => replay.removal(sequence, metric),
    })?;
    Ok(replay.end())
}

struct Replay<'a> {
    sources: &'a Sources<'a>,
    shards: &'a mut [Shard],
    numbers: &'a mut Numbers,
    report: &'a mut Recovered,
    creations: Vec<Vec<NewMetric>>,
    /// The oldest segment of the journal.
    segment: u32,
    /// Points by metric number, while no state row and no creation has the number. A later removal record
    /// shows whose they are.
    unexplained: HashMap<u32, u64>,
}

impl Replay<'_> {
    fn creation(&mut self, sequence: u64, number: u32, name: &str) {
        if !is_number(&number) {
            return;
        }
        if let Some(((shard, at), covered)) = self.numbers.get(number) {
            let head = &mut self.shards[usize::from(shard)].heads[at];
            if head.hash == self.sources.router.hash(name) || sequence <= covered {
                return;
            }
            head.number = 0;
        }
        if let Some((place, covered)) = self.restored(name).filter(|(_, covered)| sequence <= *covered) {
            // The metric was deleted and created again after this record. Its new state row covers the
            // record.
            self.numbers.set(number, place, covered);
            return;
        }
        let covered = self.numbers.covered(&MetricId::of(name));
        let place = self.explain(name, number);
        let shard = &mut self.shards[usize::from(place.0)];
        shard.sequence = shard.sequence.max(sequence);
        if covered > 0 {
            // Points of the earlier metric may still be in the store.
            shard.heads[place.1].set(mark::MERGE);
        }
        self.numbers.set(number, place, covered);
    }

    fn point(&mut self, record: Replayed) {
        let Some((place, covered)) = self.numbers.get(record.number()) else {
            if self.numbers.orphan_covers(record.number(), record.sequence) {
                self.report.covered += 1;
                return;
            }
            self.numbers.retire(record.number());
            *self.unexplained.entry(record.number()).or_default() += 1;
            return;
        };
        if record.sequence <= covered {
            self.report.covered += 1;
            return;
        }
        self.report.replayed += 1;
        self.shards[usize::from(place.0)].replay(place.1, record, self.sources.now, self.segment);
    }

    fn removal(&mut self, sequence: u64, number: u32) {
        match self.numbers.get(number) {
            // The metric was written again later, so its state row covers the removal.
            Some((_, covered)) if sequence <= covered => {}
            Some(((shard, at), _)) => {
                self.numbers.retire(number);
                self.shards[usize::from(shard)].forgotten(at);
            }
            None if is_number(&number) => {
                self.numbers.retire(number);
                // These are points of a deleted metric. The metric was forgotten after all of its points had
                // been stored.
                self.report.covered += self.unexplained.remove(&number).unwrap_or(0);
            }
            None => {}
        }
    }

    /// Counts unexplained points, and drops metrics that were removed again.
    fn end(self) -> Vec<Vec<NewMetric>> {
        let points: u64 = self.unexplained.values().sum();
        self.report.unexplained = points;
        if let Some(shard) = self.shards.first_mut().filter(|_| points > 0) {
            shard.ledger.recovered += points;
            shard.ledger.rejected[Reject::Unexplained as usize] += points;
            tracing::warn!(
                points,
                metrics = self.unexplained.len(),
                "the journal has points of metrics that neither a creation record nor a state row names: they \
                 are rejected (reason \"unexplained\")"
            );
        }
        let mut creations = self.creations;
        for (shard, creations) in self.shards.iter_mut().zip(&mut creations) {
            creations.retain(|creation| !shard.is_gone(creation.at));
        }
        creations
    }

    /// The head of a metric that already has a number, and the journal sequence that the metric's state row
    /// covers.
    fn restored(&self, name: &str) -> Option<(HeadAddress, u64)> {
        let hash = self.sources.router.hash(name);
        let shard = &self.shards[self.sources.router.shard(&hash)];
        // Number 0 means that the head has no number, and nothing is found for it.
        self.numbers.get(shard.heads[shard.find(&hash)?].number)
    }

    /// Finds or adds the metric of a creation record.
    fn explain(&mut self, name: &str, number: u32) -> HeadAddress {
        let hash = self.sources.router.hash(name);
        let shard = self.sources.router.shard(&hash);
        let known = self.shards[shard].find(&hash);
        let at = known.unwrap_or_else(|| {
            let config: Arc<MetricConfig> = (self.sources.config_for)(name);
            let at = self.shards[shard].insert(hash, MetricId::of(name), number, &config, LifeEvent::Insert);
            self.shards[shard].enter_quotas(at, self.sources.quotas.places(name));
            let created_on = self.sources.now as u32;
            self.creations[shard].push(NewMetric { at, name: name.to_owned(), config, created_on });
            at
        });
        let head = &mut self.shards[shard].heads[at];
        head.number = number;
        if head.segment == 0 {
            head.segment = self.segment;
        }
        (shard as u16, at)
    }
}
