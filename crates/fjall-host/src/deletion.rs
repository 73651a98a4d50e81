//! Deletes keyspaces in such a way that a start can distinguish an interrupted deletion from damage.
//!
//! fjall removes a keyspace from its list. When the last handle is dropped, it deletes first `current` and
//! then the rest of the directory. After a kill between these steps, the directory looks as if its `current`
//! had been lost. So the ids are first written to the file `deleting`, and the next start removes the rest of
//! these keyspaces.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use fjall::{Database, Keyspace};

use crate::HostError;
use crate::manifest::current_path;

const FILE: &str = "deleting";

/// Deletes keyspaces of the database in `dir`. Their files are removed when the last handle is dropped.
///
/// # Errors
/// If the disk fails. The keyspaces that were not deleted yet stay.
pub fn delete_keyspaces(dir: &Path, database: &Database, doomed: Vec<Keyspace>) -> fjall::Result<()> {
    note(dir, &doomed)?;
    doomed.into_iter().try_for_each(|keyspace| database.delete_keyspace(keyspace))
}

fn note(dir: &Path, doomed: &[Keyspace]) -> io::Result<()> {
    let text: String = doomed.iter().map(|keyspace| format!("{}\n", keyspace.id())).collect();
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join(FILE))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    File::open(dir)?.sync_all()
}

/// Removes the rest of the keyspaces that a killed process was deleting. Call this before fjall opens the
/// database.
///
/// # Errors
///
/// [`HostError::Failed`] if a file cannot be read or removed.
pub(crate) fn finish(dir: &Path) -> Result<(), HostError> {
    let file = dir.join(FILE);
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        // The file is damaged. The check of the keyspaces finds the keyspaces that the file named.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(HostError::failed(format!("read {}", file.display()), error)),
    };
    // If a power cut shortened a line, it would name another keyspace, so only complete lines count.
    let whole = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse::<u64>().ok());
    for id in whole {
        let keyspace = dir.join("keyspaces").join(id.to_string());
        // If `current` exists, removing has not begun. fjall itself removes a keyspace that is not on its list.
        if keyspace.is_dir() && !current_path(&keyspace).exists() {
            remove(fs::remove_dir_all(&keyspace), &keyspace)?;
        }
    }
    remove(fs::remove_file(&file), &file)
}

fn remove(removed: io::Result<()>, path: &Path) -> Result<(), HostError> {
    removed.map_err(|error| HostError::failed(format!("remove {}", path.display()), error))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use fjall::KeyspaceCreateOptions;

    use super::*;
    use crate::open::{Settings, open};

    fn database(dir: &Path) -> Database {
        let settings =
            Settings { dir: dir.to_owned(), format: "test 1", cache_bytes: 1 << 20, log_bytes_max: 64 << 20 };
        open(&settings).unwrap().database
    }

    fn filled(database: &Database, name: &str) -> Keyspace {
        let keyspace = database.keyspace(name, KeyspaceCreateOptions::default).unwrap();
        for n in 0..100_u32 {
            keyspace.insert(n.to_be_bytes(), "value").unwrap();
        }
        keyspace.rotate_memtable_and_wait().unwrap();
        keyspace
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (path, place) = entry.map(|entry| (entry.path(), to.join(entry.file_name()))).unwrap();
            if path.is_dir() { copy(&path, &place) } else { fs::copy(&path, &place).map(|_| ()).unwrap() }
        }
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    /// Removes the files of a keyspace one by one, as fjall does, and starts after each removal.
    #[test]
    fn a_kill_during_a_deletion_is_no_damage() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("database");
        let opened = database(&dir);
        let (doomed, kept) = (filled(&opened, "doomed"), filled(&opened, "kept"));
        let id = doomed.id().to_string();
        delete_keyspaces(&dir, &opened, vec![doomed.clone()]).unwrap();
        let mut left = files(&dir.join("keyspaces").join(&id));
        left.sort_by_key(|path| !path.ends_with("current"));
        for removed in 0..=left.len() {
            let copied = place.path().join(format!("killed-{removed}"));
            copy(&dir, &copied);
            for path in &left[..removed] {
                fs::remove_file(copied.join(path.strip_prefix(&dir).unwrap())).unwrap();
            }
            let again = database(&copied);
            let rows =
                |name: &str| again.keyspace(name, KeyspaceCreateOptions::default).unwrap().iter().count();
            assert_eq!((rows("kept"), rows("doomed")), (100, 0), "{removed} files removed");
            assert!(!copied.join(FILE).exists());
        }
        drop(kept);
    }

    #[test]
    fn keyspaces_whose_removal_has_not_begun_stay() {
        let place = tempfile::tempdir().unwrap();
        let opened = database(place.path());
        let kept = filled(&opened, "kept");
        note(place.path(), std::slice::from_ref(&kept)).unwrap();
        fs::write(place.path().join(FILE), format!("{}\nx\n7", kept.id())).unwrap();
        drop((kept, opened));
        let opened = database(place.path());
        assert_eq!(opened.keyspace("kept", KeyspaceCreateOptions::default).unwrap().iter().count(), 100);
    }
}
