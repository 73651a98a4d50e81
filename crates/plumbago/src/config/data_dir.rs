//! Checks that the daemon can use its data directory, without changing anything.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{Statvfs, statvfs};
use nix::unistd::{AccessFlags, Group, Uid, User, eaccess, geteuid};
use plumbago_maintenance::backup::restore::RESTORING;
use plumbago_model::ByteSize;

use super::{Config, StoreKind};

/// Maximum number of files and directories inside the data directory that are checked.
const LOOKED_AT: usize = 10_000;

/// Returns why this process cannot use `dir` as its data directory, and the remedy; `None` if it can. A directory
/// that does not exist can be used if it can be made.
pub fn problem(dir: &Path) -> Option<String> {
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            Some(format!("{} is a file; set data_dir to a directory, or move the file away", dir.display()))
        }
        Ok(_) if dir.join(RESTORING).exists() => Some(format!(
            "{} is not restored completely; run `plumbago restore` again with the same options",
            dir.display()
        )),
        Ok(_) => unwritable(dir).or_else(|| inside(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => missing(dir),
        Err(error) => Some(format!("{} cannot be used by {}: {error}", dir.display(), me())),
    }
}

/// Finds settings that demand more free space than the disk of the data directory has now. Returns the key of
/// each, and the consequence. Such a daemon starts, but stores no points.
pub fn short_of_space(config: &Config) -> Vec<(&'static str, String)> {
    let dir = shown(&config.data_dir);
    // A directory that does not exist yet will be on the disk of its nearest existing parent.
    let Some(free) = dir.ancestors().find_map(|dir| statvfs(dir).ok()).map(|disk| free_bytes(&disk)) else {
        return Vec::new();
    };
    let of_store = match config.store.kind {
        StoreKind::Embedded => ("store.embedded.min_free_bytes", config.store.embedded.min_free_bytes.0),
        StoreKind::Cassandra => ("spool.min_free_bytes", config.spool.min_free_bytes),
    };
    let limits = [("journal.min_free_bytes", config.journal.min_free_bytes), of_store].into_iter();
    let short = limits.filter(|(_, least)| free < *least);
    short
        .map(|(key, least)| {
            let message = format!(
                "{} must stay free on the disk of {}, but only {} are free; make room, or no points are stored",
                ByteSize(least),
                dir.display(),
                ByteSize(free >> 20 << 20)
            );
            (key, message)
        })
        .collect()
}

fn free_bytes(disk: &Statvfs) -> u64 {
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    let (blocks, bytes) = (disk.blocks_available() as u64, disk.fragment_size() as u64);
    blocks.saturating_mul(bytes)
}

/// Names the user of this process: `user "plumbago" (uid 998)`.
pub fn me() -> String {
    user(geteuid())
}

fn user(uid: Uid) -> String {
    match User::from_uid(uid) {
        Ok(Some(user)) => format!("user {:?} (uid {uid})", user.name),
        _ => format!("the user with uid {uid}"),
    }
}

/// The directory does not exist, so its nearest existing parent must allow this process to create it.
fn missing(dir: &Path) -> Option<String> {
    if let Ok(target) = std::fs::read_link(dir) {
        return Some(format!(
            "{} is a link to {}, which does not exist; is its disk mounted?",
            dir.display(),
            target.display()
        ));
    }
    let absolute = std::path::absolute(dir).ok()?;
    let parent = absolute.ancestors().skip(1).find(|parent| parent.exists())?;
    if !parent.is_dir() {
        return Some(format!("{} cannot be created, because {} is a file", dir.display(), parent.display()));
    }
    let Refusal { why, is_ownership } = refusal(parent)?;
    let advice = match is_ownership {
        true => format!("create it as root: install -d -o {} {}", geteuid(), absolute.display()),
        false => MOUNT.to_owned(),
    };
    Some(format!(
        "{} does not exist, and {} cannot create it in {}: {why}; {advice}",
        dir.display(),
        me(),
        parent.display()
    ))
}

fn unwritable(path: &Path) -> Option<String> {
    let Refusal { why, is_ownership } = refusal(path)?;
    let advice = match is_ownership {
        true => {
            format!("run `chown -R {} {}` as root, or run the daemon as the owner", geteuid(), path.display())
        }
        false => MOUNT.to_owned(),
    };
    Some(format!("{} cannot write to {}: {why}; {advice}", me(), path.display()))
}

/// Finds a file or directory inside `dir` that belongs to another user, for example after somebody started
/// the daemon as root.
fn inside(dir: &Path) -> Option<String> {
    let mut left = vec![dir.to_path_buf()];
    let mut looked_at = 0;
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            looked_at += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            if kind.as_ref().is_ok_and(|kind| kind.is_symlink()) || looked_at > LOOKED_AT {
                continue;
            }
            if path.file_name().is_some_and(|name| name == "lost+found") {
                continue;
            }
            if refusal(&path).is_some() {
                let first = unwritable(&path)?;
                let all = format!("`chown -R {} {}`", geteuid(), path.display());
                return Some(first.replace(&all, &format!("`chown -R {} {}`", geteuid(), dir.display())));
            }
            if kind.is_ok_and(|kind| kind.is_dir()) {
                left.push(path);
            }
        }
    }
    None
}

/// What to do if the directory cannot be written, whoever owns it.
const MOUNT: &str = "mount its disk for writing (a service of systemd can write only to the directories that its unit names), or \
                     set data_dir to another directory";

/// Why this process may not write to a file or directory.
struct Refusal {
    why: String,
    /// Whether another owner or mode would help.
    is_ownership: bool,
}

/// Why this process may not write to a file or directory; `None` if it may.
fn refusal(path: &Path) -> Option<Refusal> {
    let found = std::fs::metadata(path).ok()?;
    let mut wanted = AccessFlags::W_OK | AccessFlags::R_OK;
    if found.is_dir() {
        wanted |= AccessFlags::X_OK;
    }
    match eaccess(path, wanted) {
        Ok(()) => None,
        Err(nix::errno::Errno::EACCES) => Some(Refusal { why: owned_by(&found), is_ownership: true }),
        Err(error) => Some(Refusal { why: error.desc().to_owned(), is_ownership: false }),
    }
}

fn owned_by(found: &Metadata) -> String {
    let group = Group::from_gid(found.gid().into()).ok().flatten();
    let group = group.map_or_else(|| found.gid().to_string(), |group| group.name);
    let owner = user(Uid::from_raw(found.uid()));
    format!("it belongs to {owner}, group {group}, with mode {:o}", found.mode() & 0o7777)
}

/// The files that show that a data directory has been used.
const MARKS: [&str; 3] = ["journal", "store", "spool"];

/// Returns whether a daemon has used `dir` as its data directory.
pub fn is_used(dir: &Path) -> bool {
    MARKS.iter().any(|name| dir.join(name).is_dir())
}

/// Returns `dir` as an absolute path, for messages, because a relative path means nothing without the working
/// directory.
pub fn shown(dir: &Path) -> PathBuf {
    std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_is_a_directory_or_can_be_made() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        assert_eq!(problem(parent.path()), None);
        assert_eq!(problem(&at("new/deep")), None);
        assert!(!at("new").exists(), "a check makes nothing");
        std::fs::write(at("file"), "").unwrap();
        assert!(problem(&at("file")).unwrap().contains("is a file; set data_dir"));
        let under = problem(&at("file/data")).unwrap();
        assert!(under.contains("file"), "{under}");
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        assert!(problem(&at("link")).unwrap().contains("is its disk mounted?"));
        assert!(!is_used(parent.path()));
        std::fs::create_dir(at("journal")).unwrap();
        assert!(is_used(parent.path()));
    }

    #[test]
    fn the_owner_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let text = owned_by(&std::fs::metadata(directory.path()).unwrap());
        assert!(text.contains(&format!("(uid {})", geteuid())) && text.contains("with mode "), "{text}");
    }
}
