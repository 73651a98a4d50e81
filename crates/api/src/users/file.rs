//! The file of users: lines `name:hash` as `htpasswd -B` writes them, with bcrypt hashes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use bcrypt::HashParts;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

/// The largest cost of a bcrypt hash. With a larger one, a comparison takes more than a few seconds of
/// processor time.
const COST_MAX: u32 = 16;
/// Maximum number of correct passwords that are remembered, so that they need not be compared again.
const SEEN_MAX: usize = 4096;
/// The hash that is compared for a name that does not exist, so that the answer takes as long as for an
/// existing name.
const NOBODY: &str = "$2y$10$vGAgXogYcTAfryTCnZJz6eZM7togQH3PN71/AfopM957VBeXmTxU6";

/// Why a file of users cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", .file.display())]
    Read {
        /// The path of the file.
        file: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A line cannot be used.
    #[error("{}, line {line}: {problem}", .file.display())]
    Line {
        /// The path of the file.
        file: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The problem of the line.
        problem: &'static str,
    },
    /// The file names nobody.
    #[error("{} has no users; add one with: htpasswd -B {} NAME", .file.display(), .file.display())]
    Empty {
        /// The path of the file.
        file: PathBuf,
    },
}

/// The users in a file.
pub(super) struct Users {
    hashes: HashMap<String, String>,
    /// Digests of the names and passwords that were correct.
    seen: Cache<[u8; 32], ()>,
    /// Salts the digests, so that precomputed tables cannot be used against them.
    salt: [u8; 16],
}

impl Users {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, a line has no bcrypt hash, or there is no user.
    pub(super) fn read(file: &Path) -> Result<Self, UsersError> {
        let text =
            fs::read_to_string(file).map_err(|source| UsersError::Read { file: file.to_owned(), source })?;
        let mut hashes = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem| UsersError::Line { file: file.to_owned(), line: at + 1, problem };
            let (name, hash) = user(line).map_err(wrong)?;
            if hashes.insert(name.to_owned(), hash.to_owned()).is_some() {
                return Err(wrong("this name is already in the file"));
            }
        }
        if hashes.is_empty() {
            return Err(UsersError::Empty { file: file.to_owned() });
        }
        Ok(Self { hashes, seen: Cache::new(SEEN_MAX), salt: rand::random() })
    }

    /// Whether this password was correct before.
    pub(super) fn has_seen(&self, name: &str, password: &str) -> bool {
        self.seen.get(&self.digest(name, password)).is_some()
    }

    /// Whether a password matches the hash of the user. The comparison takes from some milliseconds to
    /// seconds.
    pub(super) fn is_user(&self, name: &str, password: &str) -> bool {
        let known = self.hashes.get(name);
        let hash = known.map_or(NOBODY, String::as_str);
        let is_right = bcrypt::verify(password, hash).unwrap_or(false) && known.is_some();
        if is_right {
            self.seen.insert(self.digest(name, password), ());
        }
        is_right
    }

    fn digest(&self, name: &str, password: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.salt);
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update(password);
        digest.finalize().into()
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").field("names", &self.hashes.keys()).finish_non_exhaustive()
    }
}

/// The name and the hash in a line.
fn user(line: &str) -> Result<(&str, &str), &'static str> {
    let (name, hash) = line.split_once(':').ok_or("not of the form name:hash")?;
    if name.is_empty() {
        return Err("the name is empty");
    }
    let parts: HashParts =
        hash.parse().map_err(|_| "the hash is not a bcrypt hash; set the password again with htpasswd -B")?;
    if parts.get_cost() > COST_MAX {
        return Err("the cost of the hash is above 16: each comparison would take many seconds");
    }
    Ok((name, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn right_passwords_are_known_and_others_are_not() {
        let hash = |password: &str| {
            bcrypt::hash_with_salt(password, 4, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY)
        };
        let text = format!("# people\nada:{}\n\nbob:{}\r\n", hash("secret"), hash(""));
        let file = file(&text);
        let users = Users::read(file.path()).unwrap();
        for (name, password, expected) in [
            ("ada", "secret", true),
            ("ada", "Secret", false),
            ("ada", "", false),
            ("bob", "", true),
            ("bob", "secret", false),
            ("Ada", "secret", false),
            ("", "", false),
        ] {
            assert!(!users.has_seen(name, password));
            assert_eq!(users.is_user(name, password), expected, "{name} {password}");
            assert_eq!(users.has_seen(name, password), expected, "{name} {password}");
        }
        assert!(!users.has_seen("adas", "ecret"));
    }

    #[test]
    fn nobody_has_a_hash_of_the_right_form() {
        assert!(NOBODY.parse::<HashParts>().is_ok());
        assert!(!bcrypt::verify("", NOBODY).unwrap());
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        let good = "ada:$2y$05$FY4YekFAsbeFE5rTQQbVpe0g1C0k3Lk8ysOxg2g7j6sS5nQn3kO1e\n";
        for (line, expected) in [
            ("ada", "not of the form name:hash"),
            (":x", "the name is empty"),
            ("eve:$apr1$xxxxxxxx$yyyyyyyyyyyyyyyyyyyyyy", "htpasswd -B"),
            ("eve:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "htpasswd -B"),
            ("eve:plain", "htpasswd -B"),
            ("eve:$2y$31$FY4YekFAsbeFE5rTQQbVpe0g1C0k3Lk8ysOxg2g7j6sS5nQn3kO1e", "above 16"),
            (good.trim(), "is already in the file"),
        ] {
            let file = file(&format!("{good}{line}\n"));
            let error = Users::read(file.path()).unwrap_err().to_string();
            assert!(error.contains("line 2") && error.contains(expected), "{line}: {error}");
        }
        let error = Users::read(file("# nobody\n").path()).unwrap_err();
        assert!(matches!(error, UsersError::Empty { .. }));
        assert!(matches!(Users::read(Path::new("/does/not/exist")), Err(UsersError::Read { .. })));
    }
}
