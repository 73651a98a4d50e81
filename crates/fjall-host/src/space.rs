//! Used and free disk space.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Number of bytes that the files below `dir` occupy on the disk. Holes in files do not count. Files that are
/// removed during the call are ignored.
pub fn used_by(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.metadata().ok()?, entry.path())))
        .map(|(metadata, path)| if metadata.is_dir() { used_by(&path) } else { metadata.blocks() * 512 })
        .sum()
}

/// Number of bytes that this process can still write to the disk of `dir`. `None` if the system does not report it.
pub fn free_at(dir: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(dir).ok()?;
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Some(disk.blocks_available() as u64 * disk.fragment_size() as u64)
}

/// Size of the disk of `dir` in bytes. `None` if the system does not report it.
pub fn size_at(dir: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(dir).ok()?;
    // The types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Some(disk.blocks() as u64 * disk.fragment_size() as u64)
}
