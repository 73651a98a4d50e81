//! Who this data directory writes as: drawn once, and drawn anew for a copy of the directory, so that
//! two writers never take each other's rows for their own.

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
        let path = dir.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => match Self::parse(&text, &path) {
                Some(writer) if writer.identity.replica() == replica => return Ok(writer),
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
        let instance = Uuid::new_v4();
        let writer = Self { identity: Identity::draw(replica, Uuid::new_v4()), instance, path };
        let new = writer.path.with_extension("new");
        let mut file = fs::File::create(&new)?;
        // A copy of the file has another inode.
        let inode = file.metadata()?.ino();
        let (replica, id) = (writer.identity.replica(), writer.identity.writer());
        writeln!(file, "{HEADING}\nreplica {replica}\nwriter {id}\ninstance {instance}\ninode {inode}")?;
        file.sync_all()?;
        fs::rename(&new, &writer.path)?;
        if let Some(dir) = writer.path.parent() {
            fs::File::open(dir)?.sync_all()?;
        }
        Ok(writer)
    }

    fn parse(text: &str, path: &Path) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |key: &str| lines.next()?.strip_prefix(key)?.trim().parse::<String>().ok();
        value(HEADING)?;
        let replica = value("replica ")?.parse().ok()?;
        let writer = value("writer ")?.parse().ok()?;
        let instance = value("instance ")?.parse().ok()?;
        let inode: u64 = value("inode ")?.parse().ok()?;
        if fs::metadata(path).ok()?.ino() != inode {
            return None;
        }
        Some(Self { path: path.to_owned(), identity: Identity::new(replica, writer), instance })
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
}
