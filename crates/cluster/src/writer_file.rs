//! The file `writer-id`, which holds the writer id of a data directory.
//!
//! The id is drawn at random once. It is kept if the directory is moved on the same machine. In a copy of the
//! directory a new id is drawn, so that two daemons never write under the same id. The original may also send
//! the rows that are in the spool of the copy. These rows keep the former id, so that both daemons send
//! identical rows.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumbago_store::WriterIdentity;
use uuid::Uuid;

use crate::replace::replace;

const FILE: &str = "writer-id";
const HEADING: &str = "plumbago-writer 1";
/// No file has this inode, so the next start draws another writer id.
const NO_INODE: u64 = 0;

/// The writer id of a data directory, as saved in its file.
#[derive(Debug, Clone)]
pub struct WriterFile {
    path: PathBuf,
    identity: WriterIdentity,
    instance: Uuid,
    former: Option<FormerWriter>,
}

/// The writer ids of this daemon.
#[derive(Debug)]
pub(crate) struct OwnWriter {
    pub(crate) file: WriterFile,
    /// The ids were registered by this process, so rows may carry them.
    pub(crate) is_registered: bool,
}

/// The writer id that a data directory had before the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormerWriter {
    /// The replica and the writer id.
    pub identity: WriterIdentity,
    /// Rows up to this timestamp (microseconds since the epoch) carry this identity. Until
    /// [`WriterFile::set_former_until`] is called, all rows do.
    pub until_us: i64,
}

/// The value of `until_us` in a [`FormerWriter`] from the moment the present id was drawn until the spool is
/// opened.
const UNKNOWN_US: i64 = i64::MAX;

impl WriterFile {
    /// Whether `dir` has the file.
    pub fn exists(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// Reads the file in `dir`. Draws a new writer id if the file is missing, damaged, a copy, or was written
    /// for another replica id than `replica`.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn load(dir: &Path, replica: u8) -> io::Result<Self> {
        let path = std::path::absolute(dir)?.join(FILE);
        let saved = match read(&path) {
            Ok(text) => Saved::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::draw(path, replica, None),
            Err(error) => return Err(error),
        };
        match &saved {
            Some(saved) if saved.replica != replica => {}
            Some(saved) if saved.inode == fs::metadata(&path)?.ino() => return Ok(saved.writer(path)),
            Some(saved) if saved.was_moved(&path) => {
                tracing::info!(from = %saved.path.display(), "the data directory was moved; it keeps its writer id");
                let writer = saved.writer(path);
                writer.save()?;
                return Ok(writer);
            }
            _ => {}
        }
        tracing::warn!(
            file = %path.display(),
            "the file writer-id is damaged, is a copy, or belongs to another replica; choosing a new writer id"
        );
        let former = saved.map(|saved| FormerWriter { identity: saved.identity(), until_us: UNKNOWN_US });
        Self::draw(path, replica, former)
    }

    /// Adopts the file in `dir`, which came from a backup, as the file of this directory, so that its writer
    /// id and instance id stay in use. Returns what the file says, or `None` if there is none or it is
    /// damaged.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn adopt(dir: &Path) -> io::Result<Option<WriterIdentity>> {
        let path = std::path::absolute(dir)?.join(FILE);
        let text = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let Some(saved) = Saved::parse(&text).filter(|saved| saved.inode != NO_INODE) else {
            return Ok(None);
        };
        let writer = saved.writer(path);
        writer.save()?;
        Ok(Some(writer.identity))
    }

    /// Makes the next start draw another writer id, even if the original of the file in `dir` no longer
    /// exists.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn forget(dir: &Path) -> io::Result<()> {
        let path = dir.join(FILE);
        let text = match read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        match Saved::parse(&text) {
            // The file is not removed, because the rows in the spool keep the id in it.
            Some(saved) => saved.writer(path).save_for(NO_INODE, Path::new("")),
            None => fs::remove_file(path),
        }
    }

    /// The replica id and the writer ids of this data directory.
    pub fn identity(&self) -> WriterIdentity {
        self.identity
    }

    /// A random id that is different for each data directory, including copies of this one.
    pub fn instance(&self) -> Uuid {
        self.instance
    }

    /// The writer id of the rows from before the present id was drawn, if it is known.
    pub fn former(&self) -> Option<FormerWriter> {
        self.former
    }

    /// Sets which rows carry the former writer id: those up to `last_us` (microseconds since the epoch), the
    /// last timestamp of the spool. Call this before any row is committed. Later calls change nothing.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn set_former_until(&mut self, last_us: i64) -> io::Result<()> {
        match &mut self.former {
            Some(former) if former.until_us == UNKNOWN_US => former.until_us = last_us,
            _ => return Ok(()),
        }
        self.save()
    }

    /// Replaces the writer id. Used when the current one belongs to another instance.
    pub(crate) fn replace(&self, identity: WriterIdentity) -> io::Result<Self> {
        Self::make(self.path.clone(), identity, self.former)
    }

    fn draw(path: PathBuf, replica: u8, former: Option<FormerWriter>) -> io::Result<Self> {
        Self::make(path, WriterIdentity::new(replica, rand::random()), former)
    }

    /// Saves a writer id for a new instance and syncs it to disk, before any row can carry it.
    fn make(path: PathBuf, identity: WriterIdentity, former: Option<FormerWriter>) -> io::Result<Self> {
        let writer = Self { identity, instance: Uuid::new_v4(), path, former };
        writer.save()?;
        Ok(writer)
    }

    fn save(&self) -> io::Result<()> {
        // A copy of the file has another inode, so the inode shows whether this is the original.
        replace(&self.path, |file| self.write(file, file.metadata()?.ino(), &self.path))
    }

    /// Saves the file as if its path and inode were these.
    fn save_for(&self, inode: u64, path: &Path) -> io::Result<()> {
        replace(&self.path, |file| self.write(file, inode, path))
    }

    fn write(&self, mut file: &fs::File, inode: u64, path: &Path) -> io::Result<()> {
        let (replica, id, instance) = (self.identity.replica(), self.identity.first_id(), self.instance);
        writeln!(file, "{HEADING}\nreplica {replica}\nwriter {id}\ninstance {instance}\ninode {inode}")?;
        writeln!(file, "host {}\npath {}", machine(), path.display())?;
        let Some(FormerWriter { identity, until_us }) = self.former else { return Ok(()) };
        writeln!(file, "before {} {} {until_us}", identity.replica(), identity.first_id())
    }
}

/// Reads the file. Bytes that are not text are replaced, so that the file counts as damaged instead of
/// unreadable.
fn read(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Identifies this machine by its machine id and host name, if they are known.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    format!("{} {}", id.trim(), crate::host())
}

/// The contents of a `writer-id` file.
struct Saved {
    replica: u8,
    writer: u16,
    instance: Uuid,
    inode: u64,
    host: String,
    /// The path of the file at the time it was written.
    path: PathBuf,
    former: Option<FormerWriter>,
}

impl Saved {
    fn writer(&self, path: PathBuf) -> WriterFile {
        let (identity, instance) = (self.identity(), self.instance);
        WriterFile { path, identity, instance, former: self.former }
    }

    fn identity(&self) -> WriterIdentity {
        WriterIdentity::new(self.replica, self.writer)
    }

    /// Returns whether the file was moved to `to` from another path on this machine. If the original still
    /// exists or is on another machine, this is a copy, because a daemon may be using the original.
    fn was_moved(&self, to: &Path) -> bool {
        let there = fs::read_to_string(&self.path).ok().and_then(|text| Self::parse(&text));
        let is_gone = there.is_none_or(|other| other.instance != self.instance);
        is_gone && self.host == machine() && self.path != to && !self.path.as_os_str().is_empty()
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |key: &str| Some(lines.next()?.strip_prefix(key)?.trim().to_owned());
        value(HEADING)?;
        Some(Self {
            replica: value("replica ")?.parse().ok()?,
            writer: value("writer ")?.parse().ok()?,
            instance: value("instance ")?.parse().ok()?,
            inode: value("inode ")?.parse().ok()?,
            host: value("host ").unwrap_or_default(),
            path: value("path ").unwrap_or_default().into(),
            former: value("before ").and_then(|text| former(&text)),
        })
    }
}

fn former(text: &str) -> Option<FormerWriter> {
    let mut words = text.split(' ');
    let mut next = || words.next();
    let identity = WriterIdentity::new(next()?.parse().ok()?, next()?.parse().ok()?);
    Some(FormerWriter { identity, until_us: next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriterFile::load(dir.path(), 0).unwrap();
        let path = dir.path().join(FILE);
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 0x80;
        fs::write(&path, &bytes).unwrap();
        let second = WriterFile::load(dir.path(), 0).unwrap();
        assert!(first.instance != second.instance);
        fs::write(&path, [0xff; 9]).unwrap();
        assert!(WriterFile::adopt(dir.path()).unwrap().is_none());
    }

    #[test]
    fn a_writer_is_kept_and_a_copy_draws_another() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriterFile::load(dir.path(), 1).unwrap();
        let again = WriterFile::load(dir.path(), 1).unwrap();
        assert_eq!((first.identity, first.instance), (again.identity, again.instance));
        assert_eq!(first.identity.replica(), 1);

        let copy = tempfile::tempdir().unwrap();
        fs::copy(dir.path().join(FILE), copy.path().join(FILE)).unwrap();
        assert_ne!(WriterFile::load(copy.path(), 1).unwrap().instance, first.instance);

        fs::write(dir.path().join(FILE), "plumbago-wri").unwrap();
        assert_ne!(WriterFile::load(dir.path(), 1).unwrap().instance, first.instance);
        assert_eq!(WriterFile::load(dir.path(), 2).unwrap().identity.replica(), 2);
    }

    #[test]
    fn the_rows_of_a_copy_keep_the_writer_from_before() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriterFile::load(dir.path(), 1).unwrap();
        assert_eq!(first.former, None);
        let copy = tempfile::tempdir().unwrap();
        fs::copy(dir.path().join(FILE), copy.path().join(FILE)).unwrap();
        let former = |until_us| Some(FormerWriter { identity: first.identity, until_us });
        // Nothing changes if a process ends before it has opened the spool.
        assert_eq!(WriterFile::load(copy.path(), 1).unwrap().former, former(UNKNOWN_US));
        let mut second = WriterFile::load(copy.path(), 1).unwrap();
        second.set_former_until(7).unwrap();
        second.set_former_until(9).unwrap();
        let again = WriterFile::load(copy.path(), 1).unwrap();
        assert_eq!((again.instance, again.former), (second.instance, former(7)));
        assert_eq!(again.replace(WriterIdentity::new(1, 80)).unwrap().former, former(7));

        WriterFile::forget(dir.path()).unwrap();
        assert_eq!(WriterFile::load(dir.path(), 1).unwrap().former, former(UNKNOWN_US));
        let other_replica = WriterFile::load(dir.path(), 2).unwrap();
        assert_eq!(other_replica.former.unwrap().identity.replica(), 1);
    }

    #[test]
    fn a_restored_directory_keeps_its_writer_or_draws_another() {
        let place = tempfile::tempdir().unwrap();
        let [original, restored] = ["original", "restored"].map(|name| place.path().join(name));
        fs::create_dir(&original).unwrap();
        let first = WriterFile::load(&original, 1).unwrap();
        for is_same in [true, false] {
            fs::create_dir_all(&restored).unwrap();
            fs::copy(original.join(FILE), restored.join(FILE)).unwrap();
            if is_same {
                assert_eq!(WriterFile::adopt(&restored).unwrap(), Some(first.identity));
            } else {
                // The original is gone, as after a move. Without `forget` the copy would keep its id.
                fs::remove_file(original.join(FILE)).unwrap();
                WriterFile::forget(&restored).unwrap();
            }
            let writer = WriterFile::load(&restored, 1).unwrap();
            assert_eq!(writer.instance == first.instance, is_same);
        }
        WriterFile::forget(&restored).unwrap();
        assert_eq!(WriterFile::adopt(&restored).unwrap(), None);
    }

    #[test]
    fn a_directory_moved_to_another_disk_keeps_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriterFile::load(dir.path(), 0).unwrap();
        let place = tempfile::tempdir().unwrap();
        for name in ["second", "third"] {
            // `mv` between file systems does this: the inode changes and the original is removed.
            let next = place.path().join(name);
            fs::create_dir(&next).unwrap();
            let from = if name == "second" { dir.path().to_owned() } else { place.path().join("second") };
            fs::copy(from.join(FILE), next.join(FILE)).unwrap();
            fs::remove_file(from.join(FILE)).unwrap();
            assert_eq!(WriterFile::load(&next, 0).unwrap().instance, first.instance, "{name}");
        }
        // A backup was restored to the same path. It lacks what was written since then, so it counts as a
        // copy.
        let third = place.path().join("third");
        let text = fs::read_to_string(third.join(FILE)).unwrap();
        fs::rename(third.join(FILE), third.join("saved")).unwrap();
        fs::write(third.join(FILE), text).unwrap();
        assert_ne!(WriterFile::load(&third, 0).unwrap().instance, first.instance);
    }
}
