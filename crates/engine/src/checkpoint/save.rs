//! Writes a checkpoint. One thread lists the names, several encode groups of metrics, and one writes them in order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use plumbago_index::Index;

use super::file::{self, Group, HEADER, TITLE, put_frame};
use super::{CheckpointError, Header, names};
use crate::router::{NameHash, Router};
use crate::shard::{BATCH, Shard};

/// Number of metrics in a group.
const GROUP_METRICS: usize = if cfg!(test) { 7 } else { 4096 };
/// Number of groups queued for a thread.
const QUEUE: usize = 2;
/// Largest number of threads that encode.
const ENCODERS_MAX: usize = 8;
/// After this many bytes, the written bytes are sent to the disk, so that the sync at the end has little left
/// to do.
const SYNC_BYTES: usize = 32 << 20;

/// The content of a checkpoint.
pub(crate) struct Content<'a> {
    pub(crate) header: &'a Header,
    pub(crate) index: &'a Index,
    pub(crate) router: Router,
    pub(crate) shards: &'a [Shard],
    /// For each shard: the positions in the header of the settings of its layouts.
    pub(crate) configs: &'a [Vec<u32>],
}

/// What a finished checkpoint contains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Saved {
    pub(crate) metrics: u64,
    pub(crate) bytes: u64,
}

/// Some names in the order of the index.
#[derive(Default)]
struct Chunk {
    text: String,
    ends: Vec<usize>,
}

/// A frame, and the metrics in it.
struct Encoded {
    frame: Vec<u8>,
    metrics: u64,
}

/// Writes a checkpoint under a temporary name and renames it once it is on the disk.
///
/// # Errors
///
/// If the file system fails, or if the index and the shards do not have the same metrics. In these cases
/// there is no checkpoint.
pub(crate) fn save(path: &Path, content: &Content<'_>) -> Result<Saved, CheckpointError> {
    let new = file::unfinished(path);
    let saved = write(&new, content).and_then(|saved| {
        let named = fs::rename(&new, path).and_then(|()| file::sync_dir(path));
        named.map(|()| saved).map_err(|error| CheckpointError::File("name", error))
    });
    if saved.is_err() {
        let _ = fs::remove_file(&new);
    }
    saved
}

fn write(path: &Path, content: &Content<'_>) -> Result<Saved, CheckpointError> {
    let mut options = OpenOptions::new();
    // The file contains the seed of the hash of names, which senders must not know.
    options.write(true).create(true).truncate(true).mode(0o600);
    let file = options.open(path).map_err(|error| CheckpointError::File("create", error))?;
    let encoders = std::thread::available_parallelism().map_or(1, usize::from).min(ENCODERS_MAX);
    let saved = std::thread::scope(|scope| {
        let (mut chunks, mut frames) = (Vec::new(), Vec::new());
        for _ in 0..encoders {
            let (chunk, queued) = sync_channel(QUEUE);
            let (encoded, frame) = sync_channel(QUEUE);
            scope.spawn(move || encode_all(content, &queued, &encoded));
            chunks.push(chunk);
            frames.push(frame);
        }
        let writing = scope.spawn(|| write_all(&file, content.header, frames));
        send_names(content.index, chunks);
        writing.join().unwrap_or_else(|_| Err(io::Error::other("the writing thread failed")))
    });
    let saved = saved.map_err(|error| CheckpointError::File("write", error))?;
    let metrics = content.header.metrics();
    if saved.metrics != metrics {
        return Err(CheckpointError::Names { names: saved.metrics, metrics });
    }
    Ok(saved)
}

/// Passes all names to the encoders in turn.
fn send_names(index: &Index, encoders: Vec<SyncSender<Chunk>>) {
    let mut turns = encoders.iter().cycle();
    let mut chunk = Chunk::default();
    let mut send = |chunk: Chunk| {
        // Sending fails only if the encoder has ended, which means that writing has failed.
        let _ = turns.next().map(|encoder| encoder.send(chunk));
    };
    let mut add = |name: &str| {
        chunk.text.push_str(name);
        chunk.ends.push(chunk.text.len());
        if chunk.ends.len() == GROUP_METRICS {
            send(std::mem::take(&mut chunk));
        }
    };
    index.for_each(&mut add);
    index.for_each_tagged(&mut add);
    if !chunk.ends.is_empty() {
        send(chunk);
    }
}

fn encode_all(content: &Content<'_>, chunks: &Receiver<Chunk>, frames: &SyncSender<Encoded>) {
    let mut encoder = Encoder {
        content,
        names: Vec::new(),
        hashes: vec![Vec::new(); content.shards.len()],
        parts: vec![Vec::new(); content.shards.len()],
    };
    for chunk in chunks {
        if frames.send(encoder.encode(&chunk)).is_err() {
            return;
        }
    }
}

struct Encoder<'a> {
    content: &'a Content<'a>,
    names: Vec<u8>,
    hashes: Vec<Vec<NameHash>>,
    parts: Vec<Vec<u8>>,
}

impl Encoder<'_> {
    fn encode(&mut self, chunk: &Chunk) -> Encoded {
        self.names.clear();
        self.hashes.iter_mut().for_each(Vec::clear);
        let (router, mut start, mut last) = (self.content.router, 0, &b""[..]);
        for end in &chunk.ends {
            let name = &chunk.text.as_bytes()[start..*end];
            names::put(&mut self.names, last, name);
            let hash = router.hash_bytes(name);
            self.hashes[router.shard(&hash)].push(hash);
            (start, last) = (*end, name);
        }
        let metrics = self.encode_heads();
        let lens = std::iter::once(self.names.len()).chain(self.parts.iter().map(Vec::len));
        let head = Group::head(chunk.ends.len(), lens);
        let mut parts = vec![&head[..], &self.names];
        parts.extend(self.parts.iter().map(Vec::as_slice));
        let mut frame = Vec::new();
        put_frame(&mut frame, &parts);
        Encoded { frame, metrics }
    }

    /// Encodes the heads of the names. Returns how many of the names have a head.
    fn encode_heads(&mut self) -> u64 {
        let Content { header, shards, configs, .. } = *self.content;
        let mut metrics = 0;
        let of_shards = shards.iter().zip(configs).zip(&self.hashes).zip(&mut self.parts);
        for (((shard, configs), hashes), part) in of_shards {
            part.clear();
            for hashes in hashes.chunks(BATCH) {
                let mut found = [u32::MAX; BATCH];
                shard.heads_of(hashes, &mut found);
                for at in found.iter().take(hashes.len()).filter(|at| **at != u32::MAX) {
                    shard.put_record(*at, configs, header.segment, part);
                    metrics += 1;
                }
            }
        }
        metrics
    }
}

/// Writes all frames, in the order of the names.
fn write_all(file: &File, header: &Header, frames: Vec<Receiver<Encoded>>) -> io::Result<Saved> {
    std::thread::scope(|scope| {
        let (written, syncs) = sync_channel::<()>(1);
        let syncing = scope.spawn(move || syncs.iter().try_for_each(|()| file.sync_data()));
        let mut file = file;
        let mut first = TITLE.to_vec();
        put_frame(&mut first, &[&[HEADER], &header.encode()]);
        file.write_all(&first)?;
        let mut saved = Saved { metrics: 0, bytes: first.len() as u64 };
        let mut unsynced = first.len();
        for receiver in frames.iter().cycle() {
            let Ok(Encoded { frame, metrics }) = receiver.recv() else { break };
            file.write_all(&frame)?;
            saved.metrics += metrics;
            saved.bytes += frame.len() as u64;
            unsynced += frame.len();
            if unsynced >= SYNC_BYTES && !matches!(written.try_send(()), Err(TrySendError::Full(()))) {
                unsynced = 0;
            }
        }
        let mut last = Vec::new();
        put_frame(&mut last, &[&file::end(saved.metrics)]);
        file.write_all(&last)?;
        saved.bytes += last.len() as u64;
        drop(written);
        syncing.join().unwrap_or_else(|_| Err(io::Error::other("the syncing thread failed")))?;
        file.sync_data()?;
        Ok(saved)
    })
}
