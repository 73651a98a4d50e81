//! All instruments of a process, and their text for Prometheus.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::damage::DamageList;
use crate::instrument::{BUCKETS_SECONDS, Counter, Gauge, Histogram};

/// All self-metrics of one process. Clones share them; two registries made by [`Registry::new`] share nothing.
#[derive(Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

struct Inner {
    recorder: PrometheusRecorder,
    exporter: PrometheusHandle,
    entries: Mutex<Vec<Entry>>,
    texts: Mutex<Vec<Box<dyn Fn() -> String + Send>>>,
    damage: DamageList,
}

struct Entry {
    name: String,
    labels: Vec<(String, String)>,
    instrument: Instrument,
}

enum Instrument {
    Counter(Counter, metrics::Counter),
    Gauge(Gauge, metrics::Gauge),
    Histogram(Histogram),
}

/// A counter or gauge with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The name in Prometheus' format.
    pub name: String,
    /// Names and values of its labels.
    pub labels: Vec<(String, String)>,
    /// The value at the time of the call.
    pub value: f64,
}

static METADATA: Metadata<'static> = Metadata::new("plumbago", Level::INFO, None);

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        // Only an empty list of buckets would be refused.
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS_SECONDS).unwrap_or_default();
        let recorder = builder.build_recorder();
        let exporter = recorder.handle();
        let (entries, texts, damage) = (Mutex::default(), Mutex::default(), DamageList::default());
        Self { inner: Arc::new(Inner { recorder, exporter, entries, texts, damage }) }
    }

    /// Makes an empty registry that shares the list of damage ([`crate::Damage`]) with this one.
    pub fn apart(&self) -> Self {
        let mut registry = Self::new();
        if let Some(inner) = Arc::get_mut(&mut registry.inner) {
            inner.damage = self.damage_list();
        }
        registry
    }

    pub(crate) fn damage_list(&self) -> DamageList {
        self.inner.damage.clone()
    }

    /// Registers a counter, or returns the one that has this name and these labels. `help` is shown by
    /// Prometheus; the first text given for a name is used.
    pub fn counter(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Counter {
        let mut entries = self.entries();
        if let Some(Instrument::Counter(counter, _)) = find(&entries, name, labels) {
            return counter.clone();
        }
        let recorder = &self.inner.recorder;
        recorder.describe_counter(key_name(name), None, help.to_owned().into());
        let exported = recorder.register_counter(&key(name, labels), &METADATA);
        let counter = Counter::default();
        entries.push(entry(name, labels, Instrument::Counter(counter.clone(), exported)));
        counter
    }

    /// Registers a gauge, or returns the one that has this name and these labels.
    pub fn gauge(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Gauge {
        let mut entries = self.entries();
        if let Some(Instrument::Gauge(gauge, _)) = find(&entries, name, labels) {
            return gauge.clone();
        }
        let recorder = &self.inner.recorder;
        recorder.describe_gauge(key_name(name), None, help.to_owned().into());
        let exported = recorder.register_gauge(&key(name, labels), &METADATA);
        let gauge = Gauge::default();
        entries.push(entry(name, labels, Instrument::Gauge(gauge.clone(), exported)));
        gauge
    }

    /// Registers a histogram of durations, or returns the one that has this name and these labels. Its name
    /// should end in `_seconds`, the unit that it is exported in.
    pub fn histogram(&self, name: &str, help: &str, labels: &[(&str, &str)]) -> Histogram {
        let mut entries = self.entries();
        if let Some(Instrument::Histogram(histogram)) = find(&entries, name, labels) {
            return histogram.clone();
        }
        let recorder = &self.inner.recorder;
        recorder.describe_histogram(key_name(name), None, help.to_owned().into());
        let exported = recorder.register_histogram(&key(name, labels), &METADATA);
        let histogram = Histogram::new(exported, self.inner.exporter.clone());
        entries.push(entry(name, labels, Instrument::Histogram(histogram.clone())));
        histogram
    }

    /// The value of a counter or gauge, or the number of durations in a histogram, summed over all label sets;
    /// `None` if nothing is registered under this name.
    pub fn value(&self, name: &str) -> Option<f64> {
        let entries = self.entries();
        let values = entries.iter().filter(|entry| entry.name == name).map(|entry| match &entry.instrument {
            Instrument::Counter(counter, _) => counter.get() as f64,
            Instrument::Gauge(gauge, _) => gauge.get(),
            Instrument::Histogram(histogram) => histogram.count() as f64,
        });
        values.reduce(|sum, value| sum + value)
    }

    /// The sum of the durations in a histogram, in seconds, over all label sets; `None` if no histogram is registered
    /// under this name.
    pub fn seconds(&self, name: &str) -> Option<f64> {
        let entries = self.entries();
        let sums =
            entries.iter().filter(|entry| entry.name == name).filter_map(|entry| match &entry.instrument {
                Instrument::Histogram(histogram) => Some(histogram.total().as_secs_f64()),
                Instrument::Counter(..) | Instrument::Gauge(..) => None,
            });
        sums.reduce(|sum, value| sum + value)
    }

    /// The value of the counter or gauge with this name and this label; `None` if there is none.
    pub fn labelled(&self, name: &str, label: (&str, &str)) -> Option<f64> {
        let samples = self.samples();
        let has = |sample: &&Sample| {
            sample.name == name
                && sample.labels.iter().any(|(key, value)| (key.as_str(), value.as_str()) == label)
        };
        samples.iter().find(has).map(|sample| sample.value)
    }

    /// All counters and gauges with their values, ordered by name.
    pub fn samples(&self) -> Vec<Sample> {
        let sample = |entry: &Entry| {
            let value = match &entry.instrument {
                Instrument::Counter(counter, _) => counter.get() as f64,
                Instrument::Gauge(gauge, _) => gauge.get(),
                Instrument::Histogram(_) => return None,
            };
            Some(Sample { name: entry.name.clone(), labels: entry.labels.clone(), value })
        };
        let mut samples: Vec<Sample> = self.entries().iter().filter_map(sample).collect();
        samples.sort_by(|a, b| (&a.name, &a.labels).cmp(&(&b.name, &b.labels)));
        samples
    }

    /// All instruments in Prometheus' text format.
    pub fn prometheus(&self) -> String {
        for entry in self.entries().iter() {
            match &entry.instrument {
                Instrument::Counter(counter, exported) => exported.absolute(counter.get()),
                Instrument::Gauge(gauge, exported) => exported.set(gauge.get()),
                Instrument::Histogram(_) => {}
            }
        }
        self.inner.exporter.run_upkeep();
        let mut text = self.inner.exporter.render();
        let texts = self.inner.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().for_each(|more| text.push_str(&more()));
        text
    }

    /// Adds what `text` returns to each export. It must be in Prometheus' text format, with names that are not
    /// registered here.
    pub fn add_text(&self, text: impl Fn() -> String + Send + 'static) {
        self.inner.texts.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(text));
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.inner.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

fn key_name(name: &str) -> KeyName {
    SharedString::from(name.to_owned()).into()
}

fn key(name: &str, labels: &[(&str, &str)]) -> Key {
    let labels: Vec<Label> =
        labels.iter().map(|(k, v)| Label::new((*k).to_owned(), (*v).to_owned())).collect();
    Key::from_parts(name.to_owned(), labels)
}

fn entry(name: &str, labels: &[(&str, &str)], instrument: Instrument) -> Entry {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Entry { name: name.to_owned(), labels, instrument }
}

fn find<'a>(entries: &'a [Entry], name: &str, labels: &[(&str, &str)]) -> Option<&'a Instrument> {
    let same_labels = |entry: &&Entry| {
        entry.labels.len() == labels.len()
            && entry.labels.iter().zip(labels).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
    };
    entries.iter().filter(|entry| entry.name == name).find(same_labels).map(|entry| &entry.instrument)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
        assert_eq!(registry.value("plumbago_unknown"), None);
        assert_eq!(registry.labelled("plumbago_rejected_total", ("reason", "nan")), Some(5.0));
        assert_eq!(registry.labelled("plumbago_rejected_total", ("reason", "old")), None);
    }

    #[test]
    fn durations_are_sorted_into_buckets() {
        let registry = Registry::new();
        let labels = [("phase", "find")];
        let histogram = registry.histogram("plumbago_call_seconds", "time of a call", &labels);
        for millis in [2, 20, 20, 2000] {
            histogram.record(Duration::from_millis(millis));
        }
        registry.histogram("plumbago_call_seconds", "time of a call", &labels).record(Duration::from_secs(1));
        let text = registry.prometheus();
        for line in [
            "# TYPE plumbago_call_seconds histogram",
            "plumbago_call_seconds_bucket{phase=\"find\",le=\"0.001\"} 0",
            "plumbago_call_seconds_bucket{phase=\"find\",le=\"0.003\"} 1",
            "plumbago_call_seconds_bucket{phase=\"find\",le=\"0.03\"} 3",
            "plumbago_call_seconds_bucket{phase=\"find\",le=\"+Inf\"} 5",
            "plumbago_call_seconds_count{phase=\"find\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
        assert_eq!(registry.value("plumbago_call_seconds"), Some(5.0));
        assert_eq!(registry.seconds("plumbago_call_seconds"), Some(3.042));
        assert_eq!(registry.seconds("plumbago_unknown"), None);
    }

    #[test]
    fn nothing_is_lost_between_two_scrapes() {
        let registry = Registry::new();
        let histogram = registry.histogram("plumbago_call_seconds", "time of a call", &[]);
        for _ in 0..5000 {
            histogram.record(Duration::from_millis(5));
        }
        assert!(registry.prometheus().contains("plumbago_call_seconds_count 5000"));
        histogram.record(Duration::from_millis(5));
        assert!(registry.prometheus().contains("plumbago_call_seconds_count 5001"));
    }
}
