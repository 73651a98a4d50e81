//! Who this data directory writes as: drawn once, kept when the directory is moved on its machine, and
//! drawn anew for a copy of it, so that two writers never take each other's rows for their own.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumbago_store_cassandra::Identity;
use uuid::Uuid;

const FILE: &str = "writer-id";
const HEADING: &str = "plumbago-writer 1";

/// The writer of a data directory.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    path: PathBuf,
    pub(super) identity: Identity,
    /// Tells this directory from a copy of it.
    pub(super) instance: Uuid,
}

impl Writer {
    /// Reads the file, or draws a writer where it is missing, torn, copied or of another replica.
    pub(super) fn load(dir: &Path, replica: u8) -> io::Result<Self> {
        let path = std::path::absolute(dir)?.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match Kept::parse(&text).filter(|kept| kept.replica == replica) {
                Some(kept) if kept.inode == fs::metadata(&path)?.ino() => return Ok(kept.writer(path)),
                Some(kept) if kept.was_moved(&path) => {
                    tracing::info!(from = %kept.path.display(), "the data directory was moved: its writer id is kept");
                    let writer = kept.writer(path);
                    writer.keep()?;
                    return Ok(writer);
                }
                _ => tracing::warn!(
                    file = %path.display(),
                    "the writer id is damaged, of another replica, or a copy: a new one is drawn"
                ),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Self::draw(path, replica)
    }

    /// Another writer, when the first is taken.
    pub(super) fn draw_again(&self) -> io::Result<Self> {
        Self::draw(self.path.clone(), self.identity.replica())
    }

    /// Draws a writer and keeps it; the disk has it before a row can be written.
    fn draw(path: PathBuf, replica: u8) -> io::Result<Self> {
        let writer =
            Self { identity: Identity::draw(replica, Uuid::new_v4()), instance: Uuid::new_v4(), path };
        writer.keep()?;
        Ok(writer)
    }

    fn keep(&self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = fs::File::create(&new)?;
        // A copy of the file has another inode.
        let inode = file.metadata()?.ino();
        let (replica, id, instance) = (self.identity.replica(), self.identity.writer(), self.instance);
        writeln!(file, "{HEADING}\nreplica {replica}\nwriter {id}\ninstance {instance}\ninode {inode}")?;
        writeln!(file, "host {}\npath {}", host(), self.path.display())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        if let Some(dir) = self.path.parent() {
            fs::File::open(dir)?.sync_all()?;
        }
        Ok(())
    }
}

/// This machine, as far as that can be told.
fn host() -> String {
    let id = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let name =
        nix::unistd::gethostname().map_or_else(|_| String::new(), |h| h.to_string_lossy().into_owned());
    format!("{} {name}", id.trim())
}

/// What the file says.
struct Kept {
    replica: u8,
    writer: u16,
    instance: Uuid,
    inode: u64,
    host: String,
    /// Where the file was when it was written.
    path: PathBuf,
}

impl Kept {
    fn writer(&self, path: PathBuf) -> Writer {
        Writer { path, identity: Identity::new(self.replica, self.writer), instance: self.instance }
    }

    /// True when the file came from another place on this machine, where it is no more. On another
    /// machine, or beside the copy, the original may still be at work.
    fn was_moved(&self, to: &Path) -> bool {
        let there = fs::read_to_string(&self.path).ok().and_then(|text| Self::parse(&text));
        let is_gone = there.is_none_or(|other| other.instance != self.instance);
        is_gone && self.host == host() && self.path != to && !self.path.as_os_str().is_empty()
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
    fn a_writer_is_kept_and_a_copy_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let first = Writer::load(dir.path(), 1).unwrap();
        let again = Writer::load(dir.path(), 1).unwrap();
        assert_eq!((first.identity, first.instance), (again.identity, again.instance));
        assert_eq!(first.identity.replica(), 1);

        let copy = tempfile::tempdir().unwrap();
        fs::copy(dir.path().join(FILE), copy.path().join(FILE)).unwrap();
        assert_ne!(Writer::load(copy.path(), 1).unwrap().instance, first.instance);

        fs::write(dir.path().join(FILE), "plumbago-wri").unwrap();
        assert_ne!(Writer::load(dir.path(), 1).unwrap().instance, first.instance);
        assert_eq!(Writer::load(dir.path(), 2).unwrap().identity.replica(), 2);
    }

    #[test]
    fn a_directory_moved_to_another_disk_keeps_its_writer() {
        let dir = tempfile::tempdir().unwrap();
        let first = Writer::load(dir.path(), 0).unwrap();
        let place = tempfile::tempdir().unwrap();
        for name in ["second", "third"] {
            // As `mv` does it between file systems: another inode, and the original is gone.
            let next = place.path().join(name);
            fs::create_dir(&next).unwrap();
            let from = if name == "second" { dir.path().to_owned() } else { place.path().join("second") };
            fs::copy(from.join(FILE), next.join(FILE)).unwrap();
            fs::remove_file(from.join(FILE)).unwrap();
            assert_eq!(Writer::load(&next, 0).unwrap().instance, first.instance, "{name}");
        }
        // Put back from a copy at its own place: what was written since is not in it.
        let third = place.path().join("third");
        let text = fs::read_to_string(third.join(FILE)).unwrap();
        fs::rename(third.join(FILE), third.join("kept")).unwrap();
        fs::write(third.join(FILE), text).unwrap();
        assert_ne!(Writer::load(&third, 0).unwrap().instance, first.instance);
    }
}
