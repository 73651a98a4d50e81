//! Metric names that look like those of real installations. A number always gives the same name.

use std::io::Write;

/// A scheme of metric names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Two thirds host metrics (25 per host), one third application metrics; 5–8 components, about 50 bytes.
    Mixed,
    /// `dc1.rack12.host0123.cpu.3.user`: 100 metrics per host, 50 racks in each of 4 data centres.
    Hosts,
}

const REGIONS: [&str; 8] = [
    "eu-west-1",
    "eu-west-2",
    "eu-central-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "ap-south-1",
    "ap-east-1",
];

const ROLES: [&str; 5] = ["frontend", "backend", "db", "cache", "worker"];

/// The metrics of one host under [`Shape::Mixed`].
const HOST_METRICS: [&str; 25] = [
    "cpu.total.user",
    "cpu.total.system",
    "cpu.total.iowait",
    "cpu.total.idle",
    "load.shortterm",
    "load.midterm",
    "load.longterm",
    "memory.used",
    "memory.free",
    "memory.cached",
    "memory.buffered",
    "disk.sda.read_bytes",
    "disk.sda.write_bytes",
    "disk.sda.io_time",
    "disk.sdb.read_bytes",
    "disk.sdb.write_bytes",
    "network.eth0.octets.rx",
    "network.eth0.octets.tx",
    "network.eth0.errors.rx",
    "network.eth0.errors.tx",
    "df.root.percent.used",
    "df.root.inodes.used",
    "processes.running",
    "processes.blocked",
    "uptime",
];

const SERVICES: [&str; 6] = ["checkout", "search", "gc", "login", "pricing", "inventory"];
const APP_METRICS: [&str; 5] = ["http.count", "http.p50", "http.p95", "http.p99", "http.errors"];

const CPU_MODES: [&str; 8] = ["user", "system", "idle", "iowait", "nice", "irq", "softirq", "steal"];
/// The metrics of one host under [`Shape::Hosts`], in addition to 8 × 8 `cpu` metrics: 27 names have six
/// components, 9 have five.
const HOSTS_REST: [&str; 36] = [
    "disk.sda.read",
    "disk.sda.write",
    "disk.sda.time",
    "disk.sdb.read",
    "disk.sdb.write",
    "disk.sdb.time",
    "disk.sdc.read",
    "disk.sdc.write",
    "disk.sdc.time",
    "net.eth0.rx",
    "net.eth0.tx",
    "net.eth0.err",
    "net.eth1.rx",
    "net.eth1.tx",
    "net.eth1.err",
    "df.root.used",
    "df.root.free",
    "df.var.used",
    "df.var.free",
    "df.home.used",
    "df.home.free",
    "tcp.open.active",
    "tcp.open.passive",
    "tcp.segs.in",
    "tcp.segs.out",
    "vm.page.in",
    "vm.page.out",
    "load.1m",
    "load.5m",
    "load.15m",
    "mem.used",
    "mem.free",
    "mem.cached",
    "mem.buffered",
    "mem.swap_used",
    "mem.swap_free",
];

const HOSTS_DCS: usize = 4;
const HOSTS_RACKS: usize = 50;

/// Appends the name of metric `number`, after `prefix`.
pub(crate) fn write(out: &mut Vec<u8>, shape: Shape, prefix: &str, number: usize) {
    out.extend_from_slice(prefix.as_bytes());
    match shape {
        Shape::Mixed if number % 3 == 2 => app(out, number / 3),
        Shape::Mixed => host(out, number / 3 * 2 + number % 3),
        Shape::Hosts => rack_host(out, number),
    }
}

/// A metric with tags.
#[derive(Debug)]
pub(crate) struct Tagged {
    pub(crate) metric: String,
    pub(crate) tags: [(&'static str, String); 3],
}

/// The name of metric `number` with tags for its first components; `prefix` is put in front of the rest.
pub(crate) fn tagged(shape: Shape, prefix: &str, number: usize) -> Tagged {
    let mut name = Vec::new();
    write(&mut name, shape, "", number);
    let name = String::from_utf8_lossy(&name);
    let (kind, keys) = match shape {
        Shape::Hosts => ("", ["dc", "rack", "host"]),
        Shape::Mixed if name.starts_with("apps.") => ("apps.", ["app", "service", "endpoint"]),
        Shape::Mixed => ("servers.", ["region", "role", "host"]),
    };
    let mut parts = name[kind.len()..].splitn(keys.len() + 1, '.');
    let tags = keys.map(|key| (key, parts.next().unwrap_or_default().to_owned()));
    Tagged { metric: format!("{prefix}{}", parts.next().unwrap_or_default()), tags }
}

/// `write!` without its `Result`: writing to a vector cannot fail.
fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

fn host(out: &mut Vec<u8>, number: usize) {
    let (host, metric) = (number / HOST_METRICS.len(), HOST_METRICS[number % HOST_METRICS.len()]);
    let role = ROLES[host / REGIONS.len() % ROLES.len()];
    let region = REGIONS[host % REGIONS.len()];
    let index = host / (REGIONS.len() * ROLES.len());
    push(out, format_args!("servers.{region}.{role}.{role}-{index:05}.{metric}"));
}

fn app(out: &mut Vec<u8>, number: usize) {
    let (rest, metric) = (number / APP_METRICS.len(), APP_METRICS[number % APP_METRICS.len()]);
    let (rest, endpoint) = (rest / 20, rest % 20);
    let (app, service) = (rest / SERVICES.len(), SERVICES[rest % SERVICES.len()]);
    push(out, format_args!("apps.app{app:04}.{service}.endpoint{endpoint:02}.{metric}"));
}

fn rack_host(out: &mut Vec<u8>, number: usize) {
    let (host, metric) = (number / 100, number % 100);
    let (dc, rack) = (host % HOSTS_DCS + 1, host / HOSTS_DCS % HOSTS_RACKS);
    push(out, format_args!("dc{dc}.rack{rack:02}.host{host:04}."));
    match metric.checked_sub(64) {
        Some(rest) => push(out, format_args!("{}", HOSTS_REST[rest])),
        None => push(out, format_args!("cpu.{}.{}", metric / 8, CPU_MODES[metric % 8])),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn names(shape: Shape, count: usize) -> HashSet<String> {
        let name = |number| {
            let mut out = Vec::new();
            write(&mut out, shape, "", number);
            String::from_utf8(out).unwrap()
        };
        (0..count).map(name).collect()
    }

    #[test]
    fn names_are_distinct_and_of_the_promised_length() {
        for (shape, mean) in [(Shape::Mixed, 45..55), (Shape::Hosts, 28..36)] {
            let names = names(shape, 100_000);
            assert_eq!(names.len(), 100_000);
            let bytes: usize = names.iter().map(String::len).sum();
            assert!(mean.contains(&(bytes / 100_000)), "{shape:?}: {}", bytes / 100_000);
        }
    }

    #[test]
    fn the_globs_of_the_published_figures_find_as_many() {
        let names = names(Shape::Hosts, 100_000);
        let count = |test: &dyn Fn(&[&str]) -> bool| {
            names.iter().filter(|n| test(&n.split('.').collect::<Vec<_>>())).count()
        };
        assert_eq!(count(&|c| c.len() == 5 && c[3..] == ["load", "1m"]), 1000);
        assert_eq!(count(&|c| c.len() == 6 && c[0] == "dc1"), 22_750);
        assert_eq!(count(&|c| c.len() == 6 && c[1] == "rack07" && c[3] == "cpu" && c[5] == "user"), 160);
    }
}
