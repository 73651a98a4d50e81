//! The threads of a shard and the queues between them: the worker, which owns the shard, and its two
//! flushers. Also the task that creates metrics for all shards.

pub(crate) mod create;
mod flush_all;
pub(crate) mod flusher;
mod flushing;
mod run;
mod stop;

pub(crate) use run::{Progress, ShardWorker};
