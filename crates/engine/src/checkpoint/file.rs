//! The file of a checkpoint: a title, followed by frames with checksums. The first frame is the header, the
//! last one contains the number of metrics, and each frame between them contains a group of metrics.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::{CheckpointError, Header};
use crate::bytes::{take, take_u32};

/// The name and the version of the format.
pub(super) const TITLE: &[u8] = b"plumbago-checkpoint 1\n";
/// The length and the CRC-32 of a frame's body precede the body.
pub(super) const FRAME_HEAD: usize = 8;
/// The body of a frame begins with its kind.
pub(super) const HEADER: u8 = b'h';
pub(super) const GROUP: u8 = b'g';
pub(super) const END: u8 = b'e';

use CheckpointError::Damaged;

/// An open checkpoint whose header has been read.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    path: PathBuf,
    file: File,
    len: u64,
    /// Byte offset of the first group.
    groups_at: u64,
    pub(crate) header: Header,
}

/// Where a group of metrics is in the file.
#[derive(Debug)]
pub(super) struct Group {
    /// Number of metrics.
    pub(super) metrics: usize,
    /// Byte offset and length of the names, then of the part of each shard.
    parts: Vec<(u64, u32)>,
}

/// A frame in the file.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Byte offset of the body in the file.
    at: u64,
    len: u32,
    crc: u32,
}

impl CheckpointFile {
    /// Opens the file; `None` if there is none.
    ///
    /// # Errors
    /// If the file cannot be read, or is not a checkpoint of this version.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, CheckpointError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CheckpointError::File("open", error)),
        };
        let len = file.metadata().map_err(|error| CheckpointError::File("open", error))?.len();
        let mut title = [0; TITLE.len()];
        let read = file.read_exact_at(&mut title, 0);
        if read.is_err() || title != TITLE {
            return Err(Damaged("it does not have the title of this version"));
        }
        let first = frame_at(&file, len, TITLE.len() as u64)?;
        let mut body = Vec::new();
        read_body(&file, first, &mut body)?;
        let header = body.split_first().filter(|(kind, _)| **kind == HEADER);
        let header = header.and_then(|(_, header)| Header::decode(header)).ok_or(Damaged("its header"))?;
        Ok(Some(Self { path: path.to_owned(), file, len, groups_at: first.end(), header }))
    }

    /// Checks that the file is complete: every checksum, and the number of metrics. Returns the positions of
    /// the groups.
    ///
    /// # Errors
    ///
    /// If the file is not complete, or cannot be read.
    pub(super) fn verify(&self) -> Result<Vec<Group>, CheckpointError> {
        let mut frames = Vec::new();
        let mut at = self.groups_at;
        while at < self.len {
            let frame = frame_at(&self.file, self.len, at)?;
            at = frame.end();
            frames.push(frame);
        }
        let end = frames.pop().ok_or(Damaged("it has no end"))?;
        let mut body = Vec::new();
        read_body(&self.file, end, &mut body)?;
        let metrics = body.split_first().filter(|(kind, _)| **kind == END);
        let metrics = metrics.and_then(|(_, rest)| rest.try_into().ok()).map(u64::from_le_bytes);
        let metrics = metrics.ok_or(Damaged("it has no end"))?;
        let groups = self.check_groups(&frames)?;
        let found: u64 = groups.iter().map(|group| group.metrics as u64).sum();
        if found != metrics || found != self.header.metrics() {
            return Err(Damaged("it does not have all metrics"));
        }
        Ok(groups)
    }

    /// Checks the frames of groups in several threads.
    fn check_groups(&self, frames: &[Frame]) -> Result<Vec<Group>, CheckpointError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let share = frames.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let check = |frames| move || self.check_some(frames);
            let checks: Vec<_> = frames.chunks(share).map(|frames| scope.spawn(check(frames))).collect();
            let mut groups = Vec::with_capacity(frames.len());
            for check in checks {
                groups.extend(check.join().map_err(|_| Damaged("checking it failed"))??);
            }
            Ok(groups)
        })
    }

    fn check_some(&self, frames: &[Frame]) -> Result<Vec<Group>, CheckpointError> {
        let mut body = Vec::new();
        let check = |frame: &Frame| {
            read_body(&self.file, *frame, &mut body)?;
            Group::parse(&body, frame.at, self.header.shards.len()).ok_or(Damaged("a group of metrics"))
        };
        frames.iter().map(check).collect()
    }

    /// Reads a part of a group: part 0 has the names, the following parts belong to the shards.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub(super) fn read_part(
        &self,
        group: &Group,
        part: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), CheckpointError> {
        let (at, len) = *group.parts.get(part).ok_or(Damaged("a group of metrics"))?;
        bytes.resize(len as usize, 0);
        self.file.read_exact_at(bytes, at).map_err(|error| CheckpointError::File("read", error))
    }

    /// The path under which the file was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes a checkpoint permanently, so that not even a power cut brings it back. If there is none, this is not
/// an error.
///
/// # Errors
/// If the file system fails.
pub(crate) fn remove(path: &Path) -> Result<(), CheckpointError> {
    let failed = |error| CheckpointError::File("remove", error);
    let _ = fs::remove_file(unfinished(path));
    match fs::remove_file(path) {
        Ok(()) => sync_dir(path).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// The path of a checkpoint while it is being written.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    path.with_extension("new")
}

/// Syncs the directory of a file, so that changes of its entries survive a power cut.
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if dir != Path::new("") => File::open(dir)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

impl Frame {
    fn end(&self) -> u64 {
        self.at + u64::from(self.len)
    }
}

fn frame_at(file: &File, file_len: u64, at: u64) -> Result<Frame, CheckpointError> {
    let mut head = [0; FRAME_HEAD];
    let fits = |end: u64| end <= file_len;
    if !fits(at + FRAME_HEAD as u64) {
        return Err(Damaged("it is cut off"));
    }
    file.read_exact_at(&mut head, at).map_err(|error| CheckpointError::File("read", error))?;
    let mut rest = &head[..];
    let (Some(len), Some(crc)) = (take_u32(&mut rest), take_u32(&mut rest)) else {
        return Err(Damaged("a frame"));
    };
    let frame = Frame { at: at + FRAME_HEAD as u64, len, crc };
    if fits(frame.end()) { Ok(frame) } else { Err(Damaged("it is cut off")) }
}

/// Reads the body of a frame and checks its checksum.
fn read_body(file: &File, frame: Frame, body: &mut Vec<u8>) -> Result<(), CheckpointError> {
    body.resize(frame.len as usize, 0);
    file.read_exact_at(body, frame.at).map_err(|error| CheckpointError::File("read", error))?;
    if crc32fast::hash(body) == frame.crc { Ok(()) } else { Err(Damaged("a checksum is wrong")) }
}

/// Appends a frame with this body.
pub(super) fn put_frame(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let start = out.len();
    out.reserve(FRAME_HEAD + len);
    out.extend_from_slice(&(len as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    let crc = crc32fast::hash(&out[start + FRAME_HEAD..]);
    out[start + 4..start + FRAME_HEAD].copy_from_slice(&crc.to_le_bytes());
}

impl Group {
    /// The first bytes of a group's body. `parts` contains the length of the names and of each shard's part.
    pub(super) fn head(metrics: usize, parts: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut out = vec![GROUP];
        out.extend_from_slice(&(metrics as u32).to_le_bytes());
        parts.for_each(|len| out.extend_from_slice(&(len as u32).to_le_bytes()));
        out
    }

    /// Parses the body of a group. `body_at` is the byte offset of the body in the file.
    fn parse(body: &[u8], body_at: u64, shards: usize) -> Option<Self> {
        let mut rest = body;
        let [GROUP] = take::<1>(&mut rest)? else { return None };
        let metrics = take_u32(&mut rest)? as usize;
        let lens = (0..=shards).map(|_| take_u32(&mut rest)).collect::<Option<Vec<u32>>>()?;
        let mut at = body_at + (body.len() - rest.len()) as u64;
        let mut parts = Vec::with_capacity(lens.len());
        for len in lens {
            parts.push((at, len));
            at += u64::from(len);
        }
        (at == body_at + body.len() as u64).then_some(Self { metrics, parts })
    }
}

/// The body of the last frame.
pub(super) fn end(metrics: u64) -> Vec<u8> {
    let mut body = vec![END];
    body.extend_from_slice(&metrics.to_le_bytes());
    body
}
