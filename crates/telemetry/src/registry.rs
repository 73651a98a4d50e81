//! Counters and gauges, and their text for Prometheus.

use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{Key, Label, Level, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

/// A number that only grows. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The total.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down. Cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicU64>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    /// The value.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

enum Cell {
    Counter(Counter, metrics::Counter),
    Gauge(Gauge, metrics::Gauge),
}

struct Entry {
    name: String,
    labels: Vec<(String, String)>,
    cell: Cell,
}

/// All self-metrics of one process. Two of them in one process do not share anything.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    entries: Mutex<Vec<Entry>>,
}

impl Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registry")
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

static METADATA: Metadata<'static> = Metadata::new("plumbago", Level::INFO, None);

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        Self { inner: Arc::new(Inner { recorder, handle, entries: Mutex::new(Vec::new()) }) }
    }

    /// Registers a counter, or gives the one that has this name and these labels.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Counter {
        let mut entries = self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Cell::Counter(counter, _)) = find(&entries, name, labels) {
            return counter.clone();
        }
        let key = self.describe(name, help, labels, false);
        let counter = Counter::default();
        let exported = self.inner.recorder.register_counter(&key, &METADATA);
        entries.push(entry(name, labels, Cell::Counter(counter.clone(), exported)));
        counter
    }

    /// Registers a gauge, or gives the one that has this name and these labels.
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Gauge {
        let mut entries = self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Cell::Gauge(gauge, _)) = find(&entries, name, labels) {
            return gauge.clone();
        }
        let key = self.describe(name, help, labels, true);
        let gauge = Gauge::default();
        let exported = self.inner.recorder.register_gauge(&key, &METADATA);
        entries.push(entry(name, labels, Cell::Gauge(gauge.clone(), exported)));
        gauge
    }

    /// The value of a counter or gauge, summed over all label sets; `None` when it does not exist.
    pub fn value(&self, name: &str) -> Option<f64> {
        let entries = self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        for entry in entries.iter().filter(|e| e.name == name) {
            let value = match &entry.cell {
                Cell::Counter(counter, _) => counter.get() as f64,
                Cell::Gauge(gauge, _) => gauge.get(),
            };
            found = Some(found.unwrap_or(0.0) + value);
        }
        found
    }

    /// The text that Prometheus scrapes.
    pub fn prometheus(&self) -> String {
        {
            let entries = self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in entries.iter() {
                match &entry.cell {
                    Cell::Counter(counter, exported) => exported.absolute(counter.get()),
                    Cell::Gauge(gauge, exported) => exported.set(gauge.get()),
                }
            }
        }
        self.inner.handle.run_upkeep();
        self.inner.handle.render()
    }

    fn describe(&self, name: &str, help: &str, labels: &[(&str, &str)], gauge: bool) -> Key {
        let shared = SharedString::from(name.to_owned());
        let help = SharedString::from(help.to_owned());
        if gauge {
            self.inner.recorder.describe_gauge(shared.clone().into(), None::<Unit>, help);
        } else {
            self.inner.recorder.describe_counter(shared.clone().into(), None::<Unit>, help);
        }
        let labels: Vec<Label> =
            labels.iter().map(|(k, v)| Label::new((*k).to_owned(), (*v).to_owned())).collect();
        Key::from_parts(name.to_owned(), labels)
    }
}

fn entry(name: &str, labels: &[(&str, &str)], cell: Cell) -> Entry {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Entry { name: name.to_owned(), labels, cell }
}

fn find<'a>(entries: &'a [Entry], name: &str, labels: &[(&str, &str)]) -> Option<&'a Cell> {
    entries
        .iter()
        .find(|e| {
            e.name == name
                && e.labels.len() == labels.len()
                && e.labels.iter().zip(labels).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
        })
        .map(|e| &e.cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_shows_what_was_counted() {
        let registry = Registry::new();
        let rejected = registry.counter("plumbago_rejected_total", "points refused", &[("reason", "nan")]);
        rejected.add(3);
        registry.counter("plumbago_rejected_total", "points refused", &[("reason", "nan")]).add(2);
        registry.gauge("plumbago_held", "points in heads", &[]).set(7.0);
        let text = registry.prometheus();
        assert!(text.contains("plumbago_rejected_total{reason=\"nan\"} 5"), "{text}");
        assert!(text.contains("plumbago_held 7"), "{text}");
        assert_eq!(registry.value("plumbago_rejected_total"), Some(5.0));
    }
}
