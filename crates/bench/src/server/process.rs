//! Processor time and memory of a process (from `/proc`), and disk use of a directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Clock ticks per second in `/proc`; 100 on every Linux.
const TICKS: f64 = 100.0;

/// Memory of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    /// Resident set size now.
    pub(crate) resident_bytes: u64,
    /// Largest resident set size so far.
    pub(crate) peak_bytes: u64,
}

/// Processor seconds (user and system) that a process has used.
pub(crate) fn cpu_seconds(pid: u32) -> io::Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The command name may contain blanks and brackets; the numeric fields follow its last bracket.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let tick = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok());
    match (tick(11), tick(12)) {
        (Some(user), Some(system)) => Ok((user + system) / TICKS),
        _ => Err(io::Error::other(format!("/proc/{pid}/stat has no times"))),
    }
}

/// Processor seconds that this process has used; NaN if `/proc` cannot be read.
pub(crate) fn own_cpu_seconds() -> f64 {
    cpu_seconds(std::process::id()).unwrap_or(f64::NAN)
}

/// The memory of a process, from `/proc/<pid>/status`.
pub(crate) fn memory(pid: u32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
    };
    let resident_bytes = field("VmRSS:").unwrap_or(0);
    Ok(Memory { resident_bytes, peak_bytes: field("VmHWM:").unwrap_or(0) })
}

/// The bytes that a file, or a directory with everything in it, occupies on the disk. Entries that cannot be
/// read count as 0.
pub(crate) fn disk_bytes(path: &Path) -> u64 {
    let Ok(metadata) = fs::symlink_metadata(path) else { return 0 };
    let own = metadata.blocks() * 512;
    match fs::read_dir(path) {
        Ok(entries) => own + entries.flatten().map(|e| disk_bytes(&e.path())).sum::<u64>(),
        Err(_) => own,
    }
}

/// The disk use of each entry of a directory, sorted by name.
pub(crate) fn disk_bytes_by_entry(path: &Path) -> Vec<(String, u64)> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let mut sizes: Vec<_> = entries
        .flatten()
        .map(|e| (e.file_name().to_string_lossy().into_owned(), disk_bytes(&e.path())))
        .collect();
    sizes.sort();
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory_and_time() {
        let pid = std::process::id();
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        assert!(memory(pid).unwrap().resident_bytes > 0);
        assert!(cpu_seconds(u32::MAX).is_err());
    }

    #[test]
    fn a_directory_takes_what_its_files_take() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        fs::write(directory.path().join("a/b"), vec![7; 100_000]).unwrap();
        assert!(disk_bytes(directory.path()) >= 100_000);
        assert_eq!(disk_bytes_by_entry(directory.path()).len(), 1);
    }
}
