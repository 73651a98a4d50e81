//! The self-metrics of the process itself, by the names that Prometheus' client libraries use.

use std::fmt::Write as _;
use std::fs;

use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::{SysconfVar, sysconf};
use plumbago_telemetry::Registry;
use plumbago_telemetry::process::cpu_seconds;

/// Adds the self-metrics of the process and of the build to `registry`.
pub(super) fn register(registry: &Registry) {
    registry.add_text(text);
}

/// The resident memory of the process in bytes; 0 if the system does not report it.
pub(super) fn resident_bytes() -> u64 {
    Process::read().map_or(0, |process| process.resident as u64)
}

fn text() -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    let mut add = |name: &str, kind: &str, help: &str, labels: &str, value: f64| {
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{labels} {value}\n\n");
    };
    let build = format!("{{version=\"{version}\"}}");
    add("plumbago_build_info", "gauge", "1; the label is the version of the program", &build, 1.0);
    let Some(process) = Process::read() else { return text };
    for (name, kind, help, value) in [
        (
            "process_cpu_seconds_total",
            "counter",
            "CPU time of the process in user and system mode, in seconds",
            cpu_seconds(),
        ),
        (
            "process_start_time_seconds",
            "gauge",
            "time at which the process started, in seconds since the epoch",
            process.started,
        ),
        (
            "process_resident_memory_bytes",
            "gauge",
            "memory of the process that is in RAM, in bytes",
            process.resident,
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "address space of the process, in bytes",
            process.virtual_bytes,
        ),
        ("process_open_fds", "gauge", "open file descriptors", process.files),
        ("process_max_fds", "gauge", "limit on open file descriptors", process.files_max),
    ] {
        add(name, kind, help, "", value);
    }
    text
}

struct Process {
    started: f64,
    resident: f64,
    virtual_bytes: f64,
    files: f64,
    files_max: f64,
}

impl Process {
    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The second field, the command name, may contain blanks, so fields are counted from its closing bracket.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |at: usize| fields.get(at)?.parse::<f64>().ok();
        let system = |variable| sysconf(variable).ok().flatten().map(|value| value as f64);
        let (ticks, page) = (system(SysconfVar::CLK_TCK)?, system(SysconfVar::PAGE_SIZE)?);
        Some(Self {
            started: boot_time()? + field(19)? / ticks,
            virtual_bytes: field(20)?,
            resident: field(21)? * page,
            files: fs::read_dir("/proc/self/fd").ok()?.count() as f64,
            files_max: getrlimit(Resource::RLIMIT_NOFILE).ok()?.0 as f64,
        })
    }
}

/// When the machine was started, in seconds since the epoch.
fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_this_process() {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let process = Process::read().unwrap();
        assert!(process.started <= now + 1.0, "{} {now}", process.started);
        assert!(process.resident > 1e6 && process.resident <= process.virtual_bytes);
        assert!(process.files >= 3.0 && process.files < process.files_max);
        let registry = Registry::new();
        register(&registry);
        let text = registry.prometheus();
        for name in
            ["process_cpu_seconds_total", "process_start_time_seconds", "plumbago_build_info{version="]
        {
            assert!(text.lines().any(|line| line.starts_with(name)), "{name}:\n{text}");
        }
    }
}
