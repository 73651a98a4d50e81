//! Fills shards and index from a checkpoint. There is a thread for each shard, and one for the index.

use std::sync::Arc;

use plumbago_index::Index;
use plumbago_model::{MetricConfig, MetricId};

use super::CheckpointError::{self, Damaged};
use super::file::{CheckpointFile, Group};
use super::names::Names;
use crate::quotas::Quotas;
use crate::router::{NameHash, Router};
use crate::shard::Shard;
use crate::shard::record::HeadRecord;

/// Number of metrics handled together, so that their cache misses overlap.
const ABREAST: usize = 64;

/// A checkpoint that was loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) file: CheckpointFile,
    groups: Vec<Group>,
    /// The number of metrics that have a number in the journal.
    pub(crate) numbered: usize,
    /// Time until the index was complete.
    pub(crate) names: std::time::Duration,
}

/// Checks the whole file, then fills the shards and the index.
///
/// # Errors
/// If the file cannot be read or is damaged. The first element of the error says whether something had been
/// filled by then.
pub(crate) fn load(
    file: CheckpointFile,
    shards: &mut [Shard],
    index: &Index,
    router: Router,
    quotas: &Quotas,
) -> Result<Loaded, (bool, CheckpointError)> {
    let began = std::time::Instant::now();
    let groups = file.verify().map_err(|error| (false, error))?;
    let loaded: Result<_, CheckpointError> = std::thread::scope(|scope| {
        let (file, groups) = (&file, &groups[..]);
        let names = scope.spawn(move || load_names(file, groups, index).map(|()| began.elapsed()));
        let threads: Vec<_> = shards
            .iter_mut()
            .enumerate()
            .map(|(number, shard)| {
                let loading = Loading { file, number, router, quotas };
                scope.spawn(move || loading.load(groups, shard))
            })
            .collect();
        let mut numbered = 0;
        for thread in threads {
            numbered += thread.join().map_err(|_| Damaged("loading it failed"))??;
        }
        Ok((numbered, names.join().map_err(|_| Damaged("loading it failed"))??))
    });
    let (numbered, names) = loaded.map_err(|error| (true, error))?;
    Ok(Loaded { file, groups, numbered, names })
}

fn load_names(file: &CheckpointFile, groups: &[Group], index: &Index) -> Result<(), CheckpointError> {
    let (mut bytes, mut names) = (Vec::new(), Names::default());
    for group in groups {
        file.read_part(group, 0, &mut bytes)?;
        names.read(&bytes, group.metrics).ok_or(Damaged("its names"))?;
        index.load(names.iter());
    }
    Ok(())
}

struct Loading<'a> {
    file: &'a CheckpointFile,
    /// The number of the shard.
    number: usize,
    router: Router,
    quotas: &'a Quotas,
}

impl Loading<'_> {
    /// Returns how many metrics have a number in the journal.
    fn load(&self, groups: &[Group], shard: &mut Shard) -> Result<usize, CheckpointError> {
        let header = &self.file.header;
        let wanted = header.shards.get(self.number).ok_or(Damaged("its header"))?;
        let coarse = coarse(&header.configs);
        shard.reserve(wanted.metrics as usize);
        let (mut bytes, mut names) = (Vec::new(), Names::default());
        let mut numbered = 0;
        for group in groups {
            self.file.read_part(group, 0, &mut bytes)?;
            names.read(&bytes, group.metrics).ok_or(Damaged("its names"))?;
            self.file.read_part(group, self.number + 1, &mut bytes)?;
            let taken = self.load_group(&names, &bytes, &coarse, shard);
            numbered += taken.ok_or(Damaged("a group of metrics"))?;
        }
        if shard.metrics() as u64 != wanted.metrics {
            return Err(Damaged("it does not have all metrics of a shard"));
        }
        shard.end_load(wanted.held, header.sequence);
        Ok(numbered)
    }

    fn load_group(&self, names: &Names, bytes: &[u8], coarse: &[usize], shard: &mut Shard) -> Option<usize> {
        let header = &self.file.header;
        let hashed = names.iter().map(|name| (self.router.hash(name), name));
        let mine: Vec<(NameHash, &str)> =
            hashed.filter(|(hash, _)| self.router.shard(hash) == self.number).collect();
        let (mut rest, mut numbered) = (bytes, 0);
        // Read once: taking the lock for each name would keep the cache misses from overlapping.
        let has_quotas = self.quotas.has_rules();
        for names in mine.chunks(ABREAST) {
            names.iter().for_each(|(hash, _)| shard.warm_entry(hash));
            for (hash, name) in names {
                let record = HeadRecord::take(&mut rest, coarse)?;
                let at = shard.take_record(*hash, &record, &header.configs[record.config], header.segment)?;
                if has_quotas {
                    shard.enter_quotas(at, self.quotas.places(name));
                }
                numbered += usize::from(record.number != 0);
            }
        }
        rest.is_empty().then_some(numbered)
    }
}

/// The number of coarse stages of each [`MetricConfig`].
fn coarse(configs: &[Arc<MetricConfig>]) -> Vec<usize> {
    configs.iter().map(|config| config.retention.stages().len() - 1).collect()
}

/// Visits the numbers that metrics have in the journal. Stops at a part that cannot be read, because the file
/// may have been removed since it was loaded.
pub(crate) fn numbers(loaded: &Loaded) -> impl Iterator<Item = (u32, MetricId)> + '_ {
    let coarse = coarse(&loaded.file.header.configs);
    let shards = loaded.file.header.shards.len();
    let parts = loaded.groups.iter().flat_map(move |group| (1..=shards).map(move |part| (group, part)));
    let mut bytes = Vec::new();
    let in_part = move |(group, part)| {
        let mut found = Vec::new();
        loaded.file.read_part(group, part, &mut bytes).ok()?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let record = HeadRecord::take(&mut rest, &coarse)?;
            found.push((record.number, record.id));
        }
        Some(found)
    };
    parts.map_while(in_part).flatten().filter(|(number, _)| *number != 0)
}
