//! The self-metrics of the index.

use plumbago_telemetry::{Counter, Gauge, Registry};

#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) names: Gauge,
    pub(crate) tagged: Gauge,
    pub(crate) directories: Gauge,
    pub(crate) components: Gauge,
    pub(crate) memory_bytes: Gauge,
    pub(crate) finds: Counter,
    pub(crate) visited: Counter,
    pub(crate) refused_pattern: Counter,
    pub(crate) refused_results: Counter,
    pub(crate) refused_visits: Counter,
    pub(crate) refused_names: Counter,
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let gauge = |name: &str, help: &str| registry.gauge(name, help, &[]);
        let counter = |name: &str, help: &str| registry.counter(name, help, &[]);
        let refused = |reason: &str| {
            let help = "finds refused because of a limit";
            registry.counter("plumbago_index_finds_refused_total", help, &[("reason", reason)])
        };
        Self {
            names: gauge("plumbago_index_names", "metrics in the index, without tagged series"),
            tagged: gauge("plumbago_index_tagged", "tagged series in the index"),
            directories: gauge("plumbago_index_directories", "directories in the index"),
            components: gauge("plumbago_index_components", "different components in the index"),
            memory_bytes: gauge("plumbago_index_memory_bytes", "memory that the index holds"),
            finds: counter("plumbago_index_finds_total", "globs looked up"),
            visited: counter("plumbago_index_visited_total", "nodes visited by globs"),
            refused_pattern: refused("pattern"),
            refused_results: refused("results"),
            refused_visits: refused("visits"),
            refused_names: counter(
                "plumbago_index_names_refused_total",
                "strings refused because they are not metric names",
            ),
        }
    }
}
