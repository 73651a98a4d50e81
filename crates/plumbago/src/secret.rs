//! The secret of a data directory: a file that only its owner can read. Requests to the admin port that
//! change or stop something must send it (or `admin.token`), so that other users of the machine cannot make
//! such requests.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use uuid::Uuid;

use crate::config::Config;

/// Shortest secret that is accepted from a file. A shorter one means that the file was cut off.
const LENGTH_MIN: usize = 32;

/// The file with the secret.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("admin-secret")
}

/// Returns the secret. Makes a new one if the file is missing or damaged. If other users can read the file, removes
/// their permission.
pub(crate) fn load_or_create(data_dir: &Path) -> anyhow::Result<String> {
    let path = path(data_dir);
    let failed = || format!("cannot read or create the secret of the admin port, {}", path.display());
    match read(&path) {
        Ok(Some(secret)) => {
            fs::set_permissions(&path, Permissions::from_mode(0o600)).with_context(failed)?;
            return Ok(secret);
        }
        Ok(None) => fs::remove_file(&path).with_context(failed)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(failed),
    }
    let secret = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).with_context(failed)?;
    writeln!(file, "{secret}").with_context(failed)?;
    Ok(secret)
}

/// The token that a command sends to the admin port: `admin.token`, or the secret of the data directory.
pub(crate) fn for_requests(config: &Config) -> anyhow::Result<String> {
    if !config.admin.token.is_empty() {
        return Ok(config.admin.token.clone());
    }
    let path = path(&config.data_dir);
    let found = read(&path).with_context(|| {
        format!(
            "cannot read {}; run this command as the user of the daemon, or set admin.token",
            path.display()
        )
    })?;
    found.with_context(|| {
        format!("{} is incomplete; the daemon replaces it at its next start", path.display())
    })
}

/// The content of the file; `None` if it is incomplete or damaged.
fn read(path: &Path) -> io::Result<Option<String>> {
    let bytes = fs::read(path)?;
    let secret = bytes.trim_ascii();
    let is_whole = secret.len() >= LENGTH_MIN && secret.iter().all(u8::is_ascii_hexdigit);
    Ok(is_whole.then(|| String::from_utf8_lossy(secret).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let secret = load_or_create(dir.path()).unwrap();
        assert!(secret.len() >= LENGTH_MIN);
        let file = path(dir.path());
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(load_or_create(dir.path()).unwrap(), secret);
        assert_eq!(mode(), 0o600);
        for damaged in [&secret.as_bytes()[..8], &[0; 64], &[0xff; 64]] {
            fs::write(&file, damaged).unwrap();
            let next = load_or_create(dir.path()).unwrap();
            assert!(next != secret && next.len() >= LENGTH_MIN && next.is_ascii());
        }
    }
}
