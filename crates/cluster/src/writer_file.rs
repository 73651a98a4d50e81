//! The file `writer-id`, which holds the writer id of a data directory.
//!
//! The id is drawn at random once. It is kept if the directory is moved on the same machine. In a copy of the
//! directory a new id is drawn, so that two daemons never write under the same id.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumbago_store::WriterIdentity;
use uuid::Uuid;

use crate::replace::replace;

const FILE: &str = "writer-id";
const HEADING: &str = "plumbago-writer 1";

/// The writer id of a data directory, as saved in its file.
#[derive(Debug, Clone)]
pub struct WriterFile {
    path: PathBuf,
    identity: WriterIdentity,
    instance: Uuid,
}

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
        match fs::read_to_string(&path) {
            Ok(text) => match Saved::parse(&text).filter(|saved| saved.replica == replica) {
                Some(saved) if saved.inode == fs::metadata(&path)?.ino() => return Ok(saved.writer(path)),
                Some(saved) if saved.was_moved(&path) => {
                    tracing::info!(from = %saved.path.display(), "the data directory was moved; it keeps its writer id");
                    let writer = saved.writer(path);
                    writer.save()?;
                    return Ok(writer);
                }
                _ => tracing::warn!(
                    file = %path.display(),
                    "the file writer-id is damaged, is a copy, or belongs to another replica; choosing a new writer id"
                ),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Self::draw(path, replica)
    }

    /// Makes the file in `dir`, which came from a backup, the file of this directory: it keeps its writer id and
    /// instance id. Returns what the file says, or `None` if there is none or it is damaged.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn adopt(dir: &Path) -> io::Result<Option<WriterIdentity>> {
        let path = std::path::absolute(dir)?.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let Some(saved) = Saved::parse(&text) else { return Ok(None) };
        let writer = saved.writer(path);
        writer.save()?;
        Ok(Some(writer.identity))
    }

    /// Removes the file in `dir`: the next start draws another writer id, wherever the original is.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn forget(dir: &Path) -> io::Result<()> {
        match fs::remove_file(dir.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
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

    /// Replaces the writer id, for use when the current one belongs to another instance.
    pub(crate) fn replace(&self, identity: WriterIdentity) -> io::Result<Self> {
        Self::make(self.path.clone(), identity)
    }

    fn draw(path: PathBuf, replica: u8) -> io::Result<Self> {
        Self::make(path, WriterIdentity::new(replica, rand::random()))
    }

    /// Saves a writer id for a new instance and syncs it to disk, before any row can carry it.
    fn make(path: PathBuf, identity: WriterIdentity) -> io::Result<Self> {
        let writer = Self { identity, instance: Uuid::new_v4(), path };
        writer.save()?;
        Ok(writer)
    }

    fn save(&self) -> io::Result<()> {
        replace(&self.path, |file| {
            // The inode tells this file from a copy of it, which has another one.
            let inode = file.metadata()?.ino();
            let (replica, id, instance) = (self.identity.replica(), self.identity.first_id(), self.instance);
            writeln!(file, "{HEADING}\nreplica {replica}\nwriter {id}\ninstance {instance}\ninode {inode}")?;
            writeln!(file, "host {}\npath {}", machine(), self.path.display())
        })
    }
}

/// Identifies this machine by its machine id and host name, as far as they are known.
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
}

impl Saved {
    fn writer(&self, path: PathBuf) -> WriterFile {
        WriterFile { path, identity: WriterIdentity::new(self.replica, self.writer), instance: self.instance }
    }

    /// Returns whether the file was moved to `to` from another path on this machine. It was not if the
    /// original still exists or is on another machine: then a daemon may be using the original.
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
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A backup was restored to the same path. It lacks what was written since, so it counts as a copy.
        let third = place.path().join("third");
        let text = fs::read_to_string(third.join(FILE)).unwrap();
        fs::rename(third.join(FILE), third.join("saved")).unwrap();
        fs::write(third.join(FILE), text).unwrap();
        assert_ne!(WriterFile::load(&third, 0).unwrap().instance, first.instance);
    }
}
