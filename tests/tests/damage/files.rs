//! Lists, copies and damages the files of a data directory.

use std::fs;
use std::path::{Path, PathBuf};

use plumbago_tests::rounds::is_long;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Harm {
    Flip,
    Cut,
    Delete,
    Zero,
}

pub(super) const HARMS: [Harm; 4] = [Harm::Flip, Harm::Cut, Harm::Delete, Harm::Zero];

/// The kind of a file: its path without numbers. With `PLUMBAGO_LONG` the number of the keyspace is part of it.
pub(super) fn kind(file: &Path) -> String {
    let parts: Vec<String> = file
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .scan(String::new(), |before, part| {
            let is_keyspace = is_long() && before == "keyspaces";
            *before = part.clone();
            Some(if is_keyspace { part } else { part.replace(|c: char| c.is_ascii_digit(), "") })
        })
        .collect();
    parts.join("/")
}

/// All files of a directory, relative to it, sorted.
pub(super) fn files(directory: &Path) -> Vec<PathBuf> {
    fn list(root: &Path, at: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                list(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_owned());
            }
        }
    }
    let mut found = Vec::new();
    list(directory, directory, &mut found);
    found.sort();
    found
}

/// Copies a directory. Zeros at the ends of files become holes, because most of a log is reserved space.
pub(super) fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        write(&target, &fs::read(from.join(&file)).unwrap());
    }
}

/// Writes a file. Zeros at its end become a hole.
fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, &bytes[..data_len(bytes)]).unwrap();
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(bytes.len() as u64).unwrap();
}

/// The length without the zeros at the end. Whole blocks are compared first: a look at each byte of a log takes long.
fn data_len(mut bytes: &[u8]) -> usize {
    static ZEROS: [u8; 4096] = [0; 4096];
    while let Some(before) = bytes.strip_suffix(&ZEROS) {
        bytes = before;
    }
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Damages a file at the position `place`, as a fraction of the length of its data.
pub(super) fn harm(path: &Path, harm: Harm, place: f64) {
    let mut bytes = fs::read(path).unwrap();
    let len = data_len(&bytes).max(1);
    let at = ((len as f64 * place) as usize).min(len - 1);
    match harm {
        Harm::Delete => return fs::remove_file(path).unwrap(),
        Harm::Flip => bytes[at] ^= 1 << (at % 8),
        Harm::Cut => bytes.truncate(at),
        Harm::Zero => {
            let end = (at + 512).min(len);
            bytes[at..end].fill(0);
        }
    }
    write(path, &bytes);
}
