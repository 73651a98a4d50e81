//! How much memory there is and how much the process takes.

use tikv_jemalloc_ctl::background_thread;

/// Bytes of memory of the machine, or of the limit the process was given; 0 when unknown.
pub(crate) fn total_bytes() -> u64 {
    let machine = field("/proc/meminfo", "MemTotal:").unwrap_or(0);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    match group.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(limit) if limit < machine => limit,
        _ => machine,
    }
}

/// Bytes of memory that the process takes.
pub(crate) fn used_bytes() -> u64 {
    field("/proc/self/status", "VmRSS:").unwrap_or(0)
}

/// Has the allocator give memory back to the system also where nobody allocates any more: by itself it
/// does so on the way of later calls only, and after a burst there are none.
pub(crate) fn give_back_unused() {
    if let Err(error) = background_thread::write(true) {
        tracing::warn!(%error, "memory that is not needed any more goes back to the system late");
    }
}

/// A line `name  number kB`.
fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}
