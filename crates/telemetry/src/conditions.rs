//! Conditions: states of the process that an operator should know about, such as "new metrics are refused".
//! One list serves the health page, the log and the gauge `plumbago_condition`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use crate::{Gauge, Registry};

/// One condition that holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Short and stable, for programs: `memory`, `create_limited`.
    pub name: &'static str,
    /// What happens, which setting decides it, and what to do.
    pub text: String,
    /// When it began.
    pub since: SystemTime,
}

/// All conditions that hold now. Cloning shares the list.
#[derive(Debug, Clone)]
pub struct Conditions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    held: Mutex<BTreeMap<&'static str, Held>>,
}

#[derive(Debug)]
struct Held {
    condition: Condition,
    began: Instant,
    gauge: Gauge,
}

impl Conditions {
    /// An empty list that shows its conditions in `registry`.
    pub fn new(registry: &Registry) -> Self {
        Self(Arc::new(Inner { registry: registry.clone(), held: Mutex::default() }))
    }

    /// States that a condition holds. Logs one warning when it begins. While it holds, a further call replaces
    /// its text and logs nothing.
    pub fn begin(&self, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        match self.held().entry(name) {
            Entry::Occupied(mut held) => held.get_mut().condition.text = text,
            Entry::Vacant(free) => {
                tracing::warn!(condition = name, "{text}");
                let help = "1 while the condition of this name holds; /readyz has its text";
                let gauge = self.0.registry.gauge("plumbago_condition", help, &[("name", name)]);
                gauge.set(1.0);
                let condition = Condition { name, text, since: SystemTime::now() };
                free.insert(Held { condition, began: Instant::now(), gauge });
            }
        }
    }

    /// States that a condition does not hold, or no longer. Logs one line when it ends.
    pub fn end(&self, name: &'static str) {
        if let Some(held) = self.held().remove(name) {
            held.gauge.set(0.0);
            let seconds = held.began.elapsed().as_secs();
            tracing::info!(condition = name, seconds, "ended: {}", held.condition.text);
        }
    }

    /// Whether a condition holds.
    pub fn contains(&self, name: &str) -> bool {
        self.held().contains_key(name)
    }

    /// The conditions that hold now, by name.
    pub fn list(&self) -> Vec<Condition> {
        self.held().values().map(|held| held.condition.clone()).collect()
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<&'static str, Held>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_from_its_begin_to_its_end() {
        let registry = Registry::new();
        let conditions = Conditions::new(&registry);
        assert!(conditions.list().is_empty());
        conditions.begin("memory", "90 of 100 bytes");
        let since = conditions.list()[0].since;
        conditions.begin("memory", "95 of 100 bytes");
        let held = conditions.list();
        assert_eq!((held.len(), held[0].text.as_str(), held[0].since), (1, "95 of 100 bytes", since));
        assert_eq!(registry.value("plumbago_condition"), Some(1.0));
        conditions.end("memory");
        conditions.end("disk");
        assert!(!conditions.contains("memory"));
        assert_eq!(registry.value("plumbago_condition"), Some(0.0));
    }
}
