//! The file `names-scan`: how far this daemon has read the names of the shared store and their changes, and which
//! metrics it has recorded as written. A start continues there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const FILE: &str = "names-scan";
const HEADING: &str = "plumbago-names-scan 1";

/// The content of the file. Times are in seconds since the epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The part of all names that is read next, and the number of parts; 0 parts if that is not known.
    pub(crate) part: (u32, u32),
    /// Every change announced before this time has been applied. `None` if the time is not known.
    pub(crate) read_until: Option<i64>,
    /// When a change was last found that no daemon had announced.
    pub(crate) unannounced: Option<i64>,
    /// The start of the pass that records which metrics are written, and its position in the copy of the
    /// names (empty at the beginning).
    pub(crate) touched: Option<(i64, Vec<u8>)>,
}

/// The file `names-scan` of a data directory.
#[derive(Debug, Clone)]
pub struct ScanFile {
    path: PathBuf,
    pub(crate) progress: Progress,
}

impl ScanFile {
    /// Reads the file in `dir`. If it is missing or damaged, nothing is known, and all names are read.
    pub fn load(dir: &Path) -> Self {
        let path = dir.join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        Self { path, progress: parse(&text).unwrap_or_default() }
    }

    /// Replaces the file. It need not survive a power cut: with an old file, more names are read again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn save(&self) -> io::Result<()> {
        let Progress { part: (index, of), read_until, unannounced, touched } = &self.progress;
        let time = |time: Option<i64>| time.map_or_else(|| "never".to_owned(), |time| time.to_string());
        let (read, unannounced) = (time(*read_until), time(*unannounced));
        let touched =
            touched.as_ref().map_or_else(|| "never".to_owned(), |(at, name)| format!("{at} {}", hex(name)));
        let text = format!(
            "{HEADING}\npart {index} {of}\nread {read}\nunannounced {unannounced}\ntouched {touched}\nend\n"
        );
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.path)
    }
}

/// Encodes bytes as hexadecimal digits, because a name may contain any characters.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn parse(text: &str) -> Option<Progress> {
    let mut lines = text.lines();
    let mut value = |key: &str| lines.next()?.strip_prefix(key);
    value(HEADING)?;
    let (index, of) = value("part ")?.split_once(' ')?;
    let part = (index.parse().ok()?, of.parse().ok()?);
    let time = |text: &str| if text == "never" { Some(None) } else { Some(Some(text.parse().ok()?)) };
    let (read_until, unannounced) = (time(value("read ")?)?, time(value("unannounced ")?)?);
    let touched = match value("touched ")? {
        "never" => None,
        text => {
            let (at, name) = text.split_once(' ')?;
            Some((at.parse().ok()?, bytes(name)?))
        }
    };
    value("end")?;
    (part.0 < part.1 || part == (0, 0)).then_some(Progress { part, read_until, unannounced, touched })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_back_and_damage_means_nothing_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ScanFile::load(dir.path());
        assert_eq!(file.progress, Progress::default());
        for (unannounced, touched) in [(None, None), (Some(5), Some((7, "a.é\n".into())))] {
            file.progress = Progress { part: (3, 24), read_until: Some(1_760_000_000), unannounced, touched };
            file.save().unwrap();
            assert_eq!(ScanFile::load(dir.path()).progress, file.progress);
        }
        let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
        for damaged in
            [&text[..text.len() - 5], &text.replace("part 3", "part 24"), &text.replace('1', "x"), ""]
        {
            fs::write(dir.path().join(FILE), damaged).unwrap();
            assert_eq!(ScanFile::load(dir.path()).progress, Progress::default(), "{damaged:?}");
        }
    }
}
