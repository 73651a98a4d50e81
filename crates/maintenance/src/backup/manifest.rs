//! The manifest of a generation: its files, and where their contents are.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of the format.
pub const FORMAT: u32 = 1;

/// One state of a data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The version of the format.
    pub format: u32,
    /// The number of the generation. Later generations have larger numbers.
    pub number: u32,
    /// When the command began, in seconds since the epoch.
    pub began: i64,
    /// When the files were held, in seconds since the epoch.
    pub held: i64,
    /// The version of the program.
    pub version: String,
    /// The store: `embedded` or `cassandra`.
    pub store: String,
    /// The path of the data directory that was backed up.
    pub data_dir: PathBuf,
    /// Number of metrics, if it was known.
    pub metrics: Option<u64>,
    /// Number of bytes that the run wrote into the backup.
    pub copied_bytes: u64,
    /// Files that were already damaged in the data directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<String>,
    /// The files, by path.
    pub files: Vec<Entry>,
}

/// A file of a generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The path in the data directory.
    pub path: PathBuf,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 of its content in hexadecimal, which names the file in the backup.
    pub sha256: String,
    /// An identity by which the next backup recognises that the file has not changed; empty if the file must
    /// be read to find out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
}

impl Generation {
    /// The total length of all files, in bytes.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The manifest as text: the JSON object, and a line with the SHA-256 of it.
    pub fn to_text(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        let sum = hex(&Sha256::digest(json.as_bytes()));
        format!("{json}\n{sum}\n")
    }

    /// Reads a manifest. The error says what is wrong with it.
    ///
    /// # Errors
    /// If the manifest is damaged, or of a newer version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (json, sum) = text.trim_end().rsplit_once('\n').ok_or("it is cut off")?;
        if hex(&Sha256::digest(json.as_bytes())) != sum {
            return Err("it does not match its checksum".to_owned());
        }
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let version: Version = serde_json::from_str(json).map_err(|error| error.to_string())?;
        if version.format != FORMAT {
            return Err(format!("it has format {}, and this version reads format {FORMAT}", version.format));
        }
        let generation: Self = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let is_inside =
            |path: &PathBuf| path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        match generation.files.iter().find(|file| !is_inside(&file.path) || !is_sum(&file.sha256)) {
            Some(file) => {
                Err(format!("it names a file {} with an invalid path or checksum", file.path.display()))
            }
            None => Ok(generation),
        }
    }
}

/// Whether a text is a SHA-256 in hexadecimal.
fn is_sum(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(path: &str) -> Generation {
        let entry =
            Entry { path: path.into(), bytes: 3, sha256: hex(&Sha256::digest(b"abc")), identity: "1".into() };
        Generation { format: FORMAT, number: 7, files: vec![entry], ..Generation::default() }
    }

    #[test]
    fn a_manifest_is_read_back_or_refused() {
        let sound = generation("store/version");
        let text = sound.to_text();
        assert_eq!(Generation::parse(&text), Ok(sound));
        for at in 0..text.len() - 1 {
            let mut damaged = text.clone().into_bytes();
            damaged[at] ^= 1;
            assert!(Generation::parse(&String::from_utf8_lossy(&damaged)).is_err(), "byte {at}");
            assert!(Generation::parse(&text[..at]).is_err(), "{at} bytes");
        }
        for outside in ["../x", "/etc/passwd", "a/../../x"] {
            assert!(Generation::parse(&generation(outside).to_text()).is_err(), "{outside}");
        }
        let newer = Generation { format: 2, ..generation("a") };
        assert!(Generation::parse(&newer.to_text()).unwrap_err().contains("format 2"));
    }
}
