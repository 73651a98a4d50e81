//! Room on the disk.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that the files below `dir` occupy; holes do not count, and neither does what vanishes
/// during the walk.
pub(crate) fn used_by(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?, entry.path())))
        .map(|(metadata, path)| if metadata.is_dir() { used_by(&path) } else { metadata.blocks() * 512 })
        .sum()
}

/// Bytes that this process may still write to the disk of `dir`; `None` when nobody says.
pub(crate) fn free_at(dir: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(dir).ok()?;
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Some(disk.blocks_available() as u64 * disk.fragment_size() as u64)
}

/// How large the disk of `dir` is; `None` when nobody says.
pub(crate) fn size_at(dir: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(dir).ok()?;
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Some(disk.blocks() as u64 * disk.fragment_size() as u64)
}
