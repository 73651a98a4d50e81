//! Copies one file, with its checksums.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::manifest::hex;
use super::{BackupError, Directory, HeldFile, io_error};

const CHUNK_BYTES: usize = 1 << 20;
/// Files of up to this many bytes are read in one piece.
pub(super) const SMALL_BYTES: u64 = 64 << 10;

/// Called for each part that was read or written; an error ends the copy.
pub(super) type OnBytes<'a> = &'a mut dyn FnMut(u64) -> Result<(), BackupError>;

/// The result of copying a file into a backup.
pub(super) struct Copied {
    pub(super) sha256: String,
    /// Whether the backup did not have this content yet.
    pub(super) is_new: bool,
    /// Whether the content does not have the checksum that it should have.
    pub(super) is_damaged: bool,
}

/// Copies a held file into the backup.
pub(super) fn copy_in(to: &Directory, file: &HeldFile, on_bytes: OnBytes<'_>) -> Result<Copied, BackupError> {
    let source = File::open(&file.at).map_err(io_error("read", &file.at))?;
    let mut sums = Sums::new(file.xxh3.is_some());
    if file.bytes <= SMALL_BYTES {
        let mut bytes = Vec::new();
        source.take(file.bytes).read_to_end(&mut bytes).map_err(io_error("read", &file.at))?;
        whole(file, bytes.len() as u64)?;
        sums.add(&bytes);
        let (sha256, is_damaged) = sums.finish(file);
        let is_new = !to.has(&sha256, file.bytes);
        if is_new {
            let write = || File::create(to.unfinished())?.write_all(&bytes);
            write().map_err(io_error("write", &to.unfinished()))?;
            finish(to, &sha256)?;
        }
        on_bytes(file.bytes)?;
        return Ok(Copied { sha256, is_new, is_damaged });
    }
    let unfinished = to.unfinished();
    let mut target = File::create(&unfinished).map_err(io_error("write", &unfinished))?;
    let read = copy(source, &mut target, file.bytes, &file.at, &unfinished, &mut sums, on_bytes)?;
    whole(file, read)?;
    let (sha256, is_damaged) = sums.finish(file);
    let is_new = !to.has(&sha256, file.bytes);
    if is_new {
        finish(to, &sha256)?;
    } else {
        fs::remove_file(&unfinished).map_err(io_error("remove", &unfinished))?;
    }
    Ok(Copied { sha256, is_new, is_damaged })
}

/// Syncs the written file and gives it its name.
fn finish(to: &Directory, sha256: &str) -> Result<(), BackupError> {
    let sync = || File::open(to.unfinished())?.sync_all();
    sync().map_err(io_error("sync", &to.unfinished()))?;
    to.finish(sha256).map_err(io_error("write", &to.object(sha256)))
}

/// The SHA-256 of a file of the backup, and its length.
pub(super) fn sum_of(path: &Path, on_bytes: OnBytes<'_>) -> Result<(String, u64), BackupError> {
    let source = File::open(path).map_err(io_error("read", path))?;
    let mut sums = Sums::new(false);
    let read = copy(source, &mut io::sink(), u64::MAX, path, path, &mut sums, on_bytes)?;
    Ok((hex(&sums.sha256.finalize()), read))
}

/// Copies a file of the backup to `to` and syncs it. Returns the SHA-256 of the bytes that were read.
pub(super) fn copy_out(from: &Path, to: &Path, on_bytes: OnBytes<'_>) -> Result<String, BackupError> {
    let source = File::open(from).map_err(io_error("read", from))?;
    let mut target = File::create(to).map_err(io_error("write", to))?;
    let mut sums = Sums::new(false);
    copy(source, &mut target, u64::MAX, from, to, &mut sums, on_bytes)?;
    target.sync_all().map_err(io_error("sync", to))?;
    Ok(hex(&sums.sha256.finalize()))
}

/// Copies up to `bytes_max` bytes and returns how many there were.
fn copy(
    mut source: File,
    target: &mut dyn Write,
    bytes_max: u64,
    from: &Path,
    to: &Path,
    sums: &mut Sums,
    on_bytes: OnBytes<'_>,
) -> Result<u64, BackupError> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while done < bytes_max {
        let most = (bytes_max - done).min(CHUNK_BYTES as u64) as usize;
        let len = match source.read(&mut chunk[..most]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            len => len.map_err(io_error("read", from))?,
        };
        if len == 0 {
            break;
        }
        sums.add(&chunk[..len]);
        target.write_all(&chunk[..len]).map_err(io_error("write", to))?;
        done += len as u64;
        on_bytes(len as u64)?;
    }
    Ok(done)
}

/// Fails if a held file has become shorter than it was when it was held.
fn whole(file: &HeldFile, read: u64) -> Result<(), BackupError> {
    if read == file.bytes {
        return Ok(());
    }
    let text = format!("it was cut to {read} of {} bytes; run the command again", file.bytes);
    Err(io_error("read", &file.name)(io::Error::other(text)))
}

struct Sums {
    sha256: Sha256,
    xxh3: Option<Xxh3>,
}

impl Sums {
    fn new(with_xxh3: bool) -> Self {
        Self { sha256: Sha256::new(), xxh3: with_xxh3.then(Xxh3::new) }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(xxh3) = &mut self.xxh3 {
            xxh3.update(bytes);
        }
    }

    /// The SHA-256, and whether the content is damaged.
    fn finish(self, file: &HeldFile) -> (String, bool) {
        let found = self.xxh3.map(|xxh3| xxh3.digest128());
        (hex(&self.sha256.finalize()), found != file.xxh3)
    }
}
