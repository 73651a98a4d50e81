//! Finds whisper files, and the names of their metrics.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use plumbago_model::tags::canonical;

use super::names::{TaggedNames, Why};

/// Largest depth of nested directories.
const DEPTH_MAX: usize = 256;
/// The error number for a cycle of links.
const ELOOP: i32 = 40;

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// When the file was changed, in nanoseconds since the epoch.
    pub(super) changed: i128,
}

/// The files of one metric, in the order of the paths on the command line.
#[derive(Debug, Clone)]
pub(super) struct Metric {
    pub(super) name: String,
    pub(super) files: Vec<FoundFile>,
}

impl Metric {
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The metrics, sorted by name.
    pub(super) metrics: Vec<Metric>,
    /// The number of whisper files, including those with a problem.
    pub(super) files: u64,
    pub(super) problems: Vec<(PathBuf, Why)>,
}

/// The walk through one tree.
struct Walk<'a> {
    prefix: &'a str,
    tagged: &'a TaggedNames,
    root: &'a Path,
    /// Device and inode of each directory from the root of the tree to the present one.
    above: Vec<(u64, u64)>,
    /// Device and inode of all directories visited so far.
    seen: HashSet<(u64, u64)>,
    /// The names found in this tree.
    names: HashSet<String>,
    found: &'a mut Found,
    metrics: &'a mut BTreeMap<String, Vec<FoundFile>>,
}

impl Found {
    /// Searches files and trees.
    pub(super) fn look(paths: &[PathBuf], prefix: &str, tagged: &TaggedNames) -> Self {
        let (mut found, mut metrics) = (Self::default(), BTreeMap::new());
        for root in paths {
            let mut walk = Walk {
                prefix,
                tagged,
                root,
                above: Vec::new(),
                seen: HashSet::new(),
                names: HashSet::new(),
                found: &mut found,
                metrics: &mut metrics,
            };
            walk.visit(root, true);
        }
        found.metrics = metrics.into_iter().map(|(name, files)| Metric { name, files }).collect();
        found
    }
}

impl Walk<'_> {
    fn problem(&mut self, path: &Path, reason: &'static str, text: impl Into<String>) {
        self.found.problems.push((path.to_owned(), (reason, text.into())));
    }

    fn visit(&mut self, path: &Path, is_root: bool) {
        let is_whisper = path.extension().is_some_and(|extension| extension == "wsp");
        // This follows links.
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.raw_os_error() == Some(ELOOP) => {
                return self.problem(path, "link_loop", "it is a link to itself");
            }
            Err(error) => return self.problem(path, "unreadable", error.to_string()),
        };
        let name = path.file_name().map(OsStr::as_encoded_bytes).unwrap_or_default();
        let is_hidden = !is_root && name.starts_with(b".");
        if is_hidden && (metadata.is_dir() || is_whisper) {
            let text = "its name begins with a dot, and carbon makes no such files; to import it, name it on the command line";
            self.problem(path, "hidden", text);
        } else if metadata.is_dir() {
            self.directory(path, (metadata.dev(), metadata.ino()));
        } else if metadata.is_file() && (is_whisper || is_root) {
            self.file(path, &metadata);
        } else if is_whisper {
            self.problem(path, "unreadable", "it is neither a file nor a directory");
        }
    }

    fn directory(&mut self, path: &Path, id: (u64, u64)) {
        if self.above.contains(&id) {
            return self.problem(path, "link_loop", "it is a link to a directory above it");
        }
        if !self.seen.insert(id) {
            return self.problem(path, "seen", "it was visited already, by another path");
        }
        if self.above.len() == DEPTH_MAX {
            return self.problem(path, "too_deep", format!("it is more than {DEPTH_MAX} directories deep"));
        }
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.problem(path, "unreadable", error.to_string()),
        };
        self.above.push(id);
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(error) => self.problem(path, "unreadable", error.to_string()),
            }
        }
        paths.sort_unstable();
        paths.iter().for_each(|path| self.visit(path, false));
        self.above.pop();
    }

    fn file(&mut self, path: &Path, metadata: &fs::Metadata) {
        self.found.files += 1;
        let name = match self.name(path) {
            Ok(name) => name,
            Err((reason, text)) => return self.problem(path, reason, text),
        };
        if !self.names.insert(name.clone()) {
            let text = format!(
                "the metric {name} has another file in this tree; this file only fills the gaps of that one"
            );
            self.problem(path, "same_name", text);
        }
        let changed = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let file = FoundFile { path: path.to_owned(), bytes: metadata.len(), changed };
        self.metrics.entry(name).or_default().push(file);
    }

    /// The name of the metric of a file, from the place of the file in the tree.
    fn name(&self, path: &Path) -> Result<String, Why> {
        let inside = path.strip_prefix(self.root).ok().filter(|inside| !inside.as_os_str().is_empty());
        let inside = inside.or_else(|| path.file_name().map(Path::new)).unwrap_or(path);
        let not_text = || ("name", "its name is not UTF-8".to_owned());
        let inside = inside.with_extension("");
        let text = inside.to_str().ok_or_else(not_text)?;
        let name = match text.split('/').next() {
            Some("_tagged") => self.tagged.name_of(text.rsplit('/').next().unwrap_or_default())?,
            _ => text.replace('/', "."),
        };
        let whole = if self.prefix.is_empty() { name } else { format!("{}.{name}", self.prefix) };
        canonical(&whole)
            .map_err(|error| ("name", format!("{whole:?} cannot be the name of a metric: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &Found) -> Vec<&str> {
        found.metrics.iter().map(|metric| metric.name.as_str()).collect()
    }

    #[test]
    fn names_are_those_that_points_get() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["a;c=1;b=2.wsp", "a;.wsp", "a;b=.wsp", "d..e.wsp"] {
            fs::write(dir.path().join(file), b"x").unwrap();
        }
        let found = Found::look(&[dir.path().to_owned()], "", &TaggedNames::default());
        assert_eq!(names(&found), ["a;b=2;c=1", "d.e"]);
        let reasons: Vec<&str> = found.problems.iter().map(|(_, (reason, _))| *reason).collect();
        assert_eq!(reasons, ["name", "name"]);
    }

    #[test]
    fn hidden_files_are_taken_only_if_they_are_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".snapshot")).unwrap();
        for file in [".snapshot/a.wsp", ".b.wsp", ".notes", "web.example/c.wsp"] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let found = Found::look(&[dir.path().to_owned()], "", &TaggedNames::default());
        assert_eq!(names(&found), ["web.example.c"]);
        let reasons: Vec<&str> = found.problems.iter().map(|(_, (reason, _))| *reason).collect();
        assert_eq!(reasons, ["hidden", "hidden"]);
        let found = Found::look(&[dir.path().join(".snapshot")], "", &TaggedNames::default());
        assert_eq!((names(&found), found.problems.len()), (vec!["a"], 0));
    }
}
