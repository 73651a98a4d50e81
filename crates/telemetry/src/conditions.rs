//! Conditions: states of the process that an operator should know about, such as "new metrics are refused".
//! The health page, the log and the gauge `plumbago_condition` all use one list of conditions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use crate::{Gauge, Registry};

/// What a condition means for an operator. A greater severity is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is refused, delayed or missing, but a setting could be better. It is logged at level INFO.
    Hint,
    /// Requests are answered, but an operator should act.
    Warning,
    /// A start or a stop: the process is not ready, but no action is needed. It is logged at level INFO.
    Phase,
    /// The process is not ready, and an operator has to act.
    NotReady,
}

impl Severity {
    /// The name for programs, such as `not_ready`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Phase => "phase",
            Self::NotReady => "not_ready",
        }
    }

    /// Whether the process is not ready while a condition of this severity holds.
    pub fn blocks(self) -> bool {
        self >= Self::Phase
    }
}

/// One condition that holds now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Short and stable, for programs: `memory`, `create_limited`.
    pub name: &'static str,
    /// The meaning of the condition for an operator.
    pub severity: Severity,
    /// What happens, which setting controls it, and what to do.
    pub text: String,
    /// When it began.
    pub since: SystemTime,
}

/// All conditions that hold now. Clones share the list.
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
}

impl Conditions {
    /// Makes an empty list, which exports its conditions to `registry`.
    pub fn new(registry: &Registry) -> Self {
        Self(Arc::new(Inner { registry: registry.clone(), held: Mutex::default() }))
    }

    /// Exports the gauges of these conditions from now on, even while the conditions do not hold.
    pub fn declare(&self, names: impl IntoIterator<Item = &'static str>) {
        let held = self.held();
        for name in names {
            self.gauge(name).set(f64::from(u8::from(held.contains_key(name))));
        }
    }

    /// States that a condition holds, as a warning. Logs one line when it begins. While it holds, a further
    /// call replaces its text and logs nothing.
    pub fn begin(&self, name: &'static str, text: impl Into<String>) {
        self.begin_as(Severity::Warning, name, text);
    }

    /// States that a condition of this severity holds. Logs one line when it begins or its severity changes.
    /// While it holds, a further call replaces its text and logs nothing.
    pub fn begin_as(&self, severity: Severity, name: &'static str, text: impl Into<String>) {
        let text = text.into();
        let mut list = self.held();
        let before = list.get_mut(name).map(|held| &mut held.condition);
        if let Some(condition) = before.filter(|condition| condition.severity == severity) {
            condition.text = text;
            return;
        }
        match severity {
            Severity::Hint | Severity::Phase => tracing::info!(condition = name, "{text}"),
            Severity::Warning | Severity::NotReady => tracing::warn!(condition = name, "{text}"),
        }
        self.gauge(name).set(1.0);
        let condition = Condition { name, severity, text, since: SystemTime::now() };
        list.insert(name, Held { condition, began: Instant::now() });
    }

    /// States that a condition does not hold, or no longer holds. Logs one line when it ends.
    pub fn end(&self, name: &'static str) {
        if let Some(held) = self.held().remove(name) {
            self.gauge(name).set(0.0);
            let seconds = held.began.elapsed().as_secs();
            tracing::info!(
                condition = name,
                "the condition ended after {seconds} s: {}",
                held.condition.text
            );
        }
    }

    /// States that a condition holds if there is a text, and that it does not hold otherwise.
    pub fn set(&self, severity: Severity, name: &'static str, text: Option<String>) {
        match text {
            Some(text) => self.begin_as(severity, name, text),
            None => self.end(name),
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

    fn gauge(&self, name: &str) -> Gauge {
        let help = "1 while the condition of this name holds; /readyz has its text";
        self.0.registry.gauge("plumbago_condition", help, &[("name", name)])
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

    #[test]
    fn only_severe_conditions_make_the_process_unready() {
        let registry = Registry::new();
        let conditions = Conditions::new(&registry);
        conditions.declare(["disk", "start"]);
        assert_eq!(registry.value("plumbago_condition"), Some(0.0));
        conditions.set(Severity::Warning, "disk", Some("9 of 10 used".to_owned()));
        conditions.set(Severity::Phase, "start", Some("replaying".to_owned()));
        let blocks = |conditions: &Conditions| -> Vec<&'static str> {
            conditions.list().iter().filter(|held| held.severity.blocks()).map(|held| held.name).collect()
        };
        assert_eq!(blocks(&conditions), ["start"]);
        conditions.set(Severity::NotReady, "disk", Some("10 of 10 used".to_owned()));
        conditions.set(Severity::Phase, "start", None);
        assert_eq!(blocks(&conditions), ["disk"]);
        assert!(registry.prometheus().contains("plumbago_condition{name=\"start\"} 0"));
    }
}
