//! Memory of the machine and memory use of this process.

/// The machine's memory in bytes, or the memory limit of the control group if that is lower; 0 if unknown.
pub(crate) fn memory_bytes() -> u64 {
    let machine = field("/proc/meminfo", "MemTotal:").unwrap_or(0);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    match group.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(limit) if limit < machine || machine == 0 => limit,
        _ => machine,
    }
}

/// Memory use of this process in bytes (its resident set size); 0 if unknown.
pub(crate) fn used_bytes() -> u64 {
    field("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// Makes jemalloc return unused memory to the system from a background thread. Without that thread it
/// returns memory only during later allocator calls, and after a burst of work there may be no such calls.
/// Does nothing in a build without jemalloc.
pub(crate) fn return_unused_memory() {
    #[cfg(feature = "jemalloc")]
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::warn!(%error, "cannot start the background thread of the allocator; unused memory is returned to the system late");
    }
}

/// Finds the line `name  number kB` in a file under `/proc` and returns the number in bytes. `name` includes
/// the colon.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_takes_less_than_the_machine_has() {
        assert!(used_bytes() > 1 << 20);
        assert!(used_bytes() < memory_bytes());
    }
}
