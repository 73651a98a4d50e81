//! Finds metrics at a limited rate, so that questions about many of them leave the store to others.

use std::sync::Arc;

use plumbago_boxed_futures::boxed_futures;
use tokio::sync::{Mutex, mpsc};

use crate::rate::Rate;
use crate::select::{BiggestTags, FoundNode, MetricNames, NameBatches, Which};
use crate::verb_error::VerbError;

/// Finds metrics as another [`MetricNames`] does, but all searches together get at most a given number of
/// metrics per second.
#[derive(Debug)]
pub(crate) struct PacedNames {
    names: Arc<dyn MetricNames>,
    rate: Arc<Mutex<Rate>>,
}

impl PacedNames {
    pub(crate) fn new(names: Arc<dyn MetricNames>, per_second: u32) -> Self {
        Self { names, rate: Arc::new(Mutex::new(Rate::new(per_second))) }
    }
}

#[boxed_futures]
impl MetricNames for PacedNames {
    fn find(&self, which: &Which) -> NameBatches {
        let (mut found, rate) = (self.names.find(which), Arc::clone(&self.rate));
        let (batches, paced) = mpsc::channel(1);
        tokio::spawn(async move {
            while let Some(batch) = found.recv().await {
                let names = match batch {
                    Ok(names) => names,
                    Err(error) => {
                        // An error of the channel means that the reader has closed it.
                        let _ = batches.send(Err(error)).await;
                        return;
                    }
                };
                let step = rate.lock().await.step(names.len()).max(1);
                for some in names.chunks(step) {
                    rate.lock().await.take(some.len()).await;
                    if batches.send(Ok(some.to_vec())).await.is_err() {
                        return;
                    }
                }
            }
        });
        paced
    }

    async fn nodes(&self, glob: &str, limit: usize) -> Result<Vec<FoundNode>, VerbError> {
        self.names.nodes(glob, limit).await
    }

    async fn tags(&self, tag: Option<&str>, limit: usize) -> Result<Vec<(String, u64)>, VerbError> {
        self.names.tags(tag, limit).await
    }

    async fn biggest_tags(&self, tag: Option<&str>, limit: usize) -> Result<BiggestTags, VerbError> {
        self.names.biggest_tags(tag, limit).await
    }
}
