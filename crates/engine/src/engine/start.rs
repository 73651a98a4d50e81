//! The start: from the checkpoint of a clean stop if it fits, otherwise from names, state rows and journal.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::Engine;
use crate::checkpoint::{self, CheckpointFile, Loaded};
use crate::recover::numbers::FreeNumbers;
use crate::recover::{self, Recovered, Sources, Start, StartError};
use crate::shard::Shard;

impl Engine {
    /// Loads metrics and points of earlier runs, then starts the worker threads.
    ///
    /// # Errors
    /// If the store or the journal cannot be read, if a thread cannot be started, or if the engine was
    /// started before.
    pub async fn start(&self) -> Result<Recovered, StartError> {
        let inner = &*self.0;
        let ends = std::mem::take(&mut *inner.ends.lock().unwrap_or_else(PoisonError::into_inner));
        if ends.is_empty() {
            return Err(StartError::Again);
        }
        let mut shards: Vec<Shard> = ends
            .iter()
            .map(|_| Shard::new(inner.parts.flush.layout(), self.limits(), inner.stats.clone()))
            .collect();
        let began = Instant::now();
        let loaded = self.load_checkpoint(&mut shards)?;
        let start = match &loaded {
            Some(loaded) => self.begin_from(loaded, &mut shards, began)?,
            None => self.recover(&mut shards).await?,
        };
        self.run(ends, shards, start.creations, start.numbers)?;
        if let Some(loaded) = loaded {
            self.note_numbers(loaded)?;
        }
        tokio::spawn(self.clone().housekeeping());
        Ok(start.report)
    }

    async fn recover(&self, shards: &mut [Shard]) -> Result<Start, StartError> {
        let inner = &*self.0;
        let sources = Sources {
            metadata: &inner.parts.metadata,
            flush: &*inner.parts.flush,
            journal: &inner.parts.journal,
            index: &inner.parts.index,
            router: inner.router,
            config_for: &inner.parts.config_for,
            quotas: &inner.parts.quotas,
            now: inner.parts.clock.now(),
        };
        let start = recover::recover(&sources, shards).await?;
        // From now on, new points would be missing from the checkpoint.
        if let Some(path) = &inner.parts.checkpoint {
            checkpoint::remove(path)?;
        }
        Ok(start)
    }

    /// Fills the shards and the index from the checkpoint. `None` if there is no checkpoint that fits.
    fn load_checkpoint(&self, shards: &mut [Shard]) -> Result<Option<Loaded>, StartError> {
        let inner = &*self.0;
        let found = inner.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(found) = found else { return Ok(None) };
        if let Some(why) = self.unfit(&found)? {
            tracing::info!("the checkpoint is not used: {why}");
            return Ok(None);
        }
        let path = found.path().to_owned();
        match checkpoint::load(found, shards, &inner.parts.index, inner.router, &inner.parts.quotas) {
            Ok(loaded) => Ok(Some(loaded)),
            Err((false, error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "the checkpoint is not used");
                Ok(None)
            }
            Err((true, error)) => {
                // The index and the quotas now contain a part of the checkpoint. The file is removed, so that
                // the next start does not use it.
                checkpoint::remove(&path)?;
                Err(error.into())
            }
        }
    }

    /// Removes a loaded checkpoint, because from now on new points would be missing from it.
    fn begin_from(&self, loaded: &Loaded, shards: &mut [Shard], began: Instant) -> Result<Start, StartError> {
        let parts = &self.0.parts;
        checkpoint::remove(loaded.file.path())?;
        parts.flush.take_held()?;
        let header = &loaded.file.header;
        parts.journal.start_at(header.sequence + 1);
        shards.iter_mut().for_each(Shard::export_counters);
        let report = Recovered {
            metrics: header.metrics(),
            from_checkpoint: true,
            names: loaded.names,
            load: began.elapsed(),
            ..Recovered::default()
        };
        let numbers = FreeNumbers::of(header.numbers.clone());
        Ok(Start { report, numbers, creations: shards.iter().map(|_| Vec::new()).collect() })
    }

    /// Writes the store's second copy of the metric numbers in the background. The checkpoint's file is
    /// already removed, but it is still open and can be read.
    fn note_numbers(&self, loaded: Loaded) -> Result<(), StartError> {
        let flush = Arc::clone(&self.0.parts.flush);
        self.spawn("numbers", move || {
            flush.note_numbers(loaded.numbered, &mut checkpoint::numbers(&loaded));
        })
    }

    /// Why the checkpoint does not fit the store and the journal; `None` if it does.
    fn unfit(&self, found: &CheckpointFile) -> Result<Option<&'static str>, StartError> {
        let parts = &self.0.parts;
        let why = if !parts.flush.capabilities().keeps_checkpoints {
            "the store has no record of it"
        } else if parts.flush.checkpoint()? != Some(found.header.stamp) {
            "the store was changed since"
        } else if parts.journal.segments() != found.header.segments {
            "the journal was changed since"
        } else if parts.flush.layout().raw_slots != found.header.block_slots {
            "the length of blocks has changed"
        } else {
            return Ok(None);
        };
        Ok(Some(why))
    }
}
