//! Damage: files whose content is wrong or gone. The list of a registry is used for the condition
//! `damaged_data`, the log and the self-metrics.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Conditions, Registry};

/// The condition that holds once damage was found.
pub const DAMAGED_DATA: &str = "damaged_data";

/// How the text of the condition begins.
pub const DAMAGED_TEXT: &str = "damaged data: ";

/// Maximum number of files that are remembered by name. The others are only counted.
const FILES_MAX: usize = 1000;
/// Maximum number of files that the text of the condition names.
const NAMED_MAX: usize = 3;

/// Damage that was found in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The damaged file, or its directory if it is not known which file is damaged.
    pub path: PathBuf,
    /// The damage of the file, the lost data and the remedy.
    pub text: String,
}

/// All damage found by this process. Handles for the same registry share the list.
#[derive(Clone)]
pub struct Damage {
    registry: Registry,
    list: DamageList,
}

/// The list of damage, which the registry keeps.
#[derive(Debug, Clone, Default)]
pub(crate) struct DamageList(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    found: Vec<Found>,
    /// Damaged files beyond [`FILES_MAX`].
    more: u64,
    lost_points: u64,
    conditions: Option<Conditions>,
}

impl Damage {
    /// The list of this registry.
    pub fn of(registry: &Registry) -> Self {
        let damage = Self { registry: registry.clone(), list: registry.damage_list() };
        damage.show(&damage.inner());
        damage
    }

    /// Shows the damage as a condition from now on.
    pub fn attach(&self, conditions: &Conditions) {
        let mut inner = self.inner();
        inner.conditions = Some(conditions.clone());
        self.show(&inner);
    }

    /// States that a file is damaged: what is wrong, what was lost and what to do. Logs an error at the first
    /// call for a file. A further call replaces the text.
    pub fn found(&self, path: &Path, text: impl Into<String>) {
        let text = text.into();
        let mut inner = self.inner();
        if let Some(known) = inner.found.iter_mut().find(|known| known.path == path) {
            known.text = text;
        } else {
            tracing::error!(file = %path.display(), "damaged data: {text}");
            if inner.found.len() < FILES_MAX {
                inner.found.push(Found { path: path.to_owned(), text });
            } else {
                inner.more += 1;
            }
        }
        self.show(&inner);
    }

    /// Adds the files of another list, which has already logged them. The points that it counts as lost are
    /// not added.
    pub fn take_over(&self, other: &Self) {
        let theirs = other.list();
        let mut inner = self.inner();
        for found in theirs {
            if inner.found.len() < FILES_MAX {
                inner.found.push(found);
            } else {
                inner.more += 1;
            }
        }
        self.show(&inner);
    }

    /// Adds to the number of points that were lost because of damage.
    pub fn lose_points(&self, points: u64) {
        let mut inner = self.inner();
        inner.lost_points += points;
        self.show(&inner);
    }

    /// The number of points known to be lost because of damage.
    pub fn lost_points(&self) -> u64 {
        self.inner().lost_points
    }

    /// The damage found so far, oldest first, up to 1000 files.
    pub fn list(&self) -> Vec<Found> {
        self.inner().found.clone()
    }

    /// Whether no damage was found.
    pub fn is_empty(&self) -> bool {
        self.inner().found.is_empty()
    }

    fn show(&self, inner: &Inner) {
        let gauge = |name: &str, help: &str| self.registry.gauge(name, help, &[]);
        gauge("plumbago_damaged_files", "damaged files found since the start; the log and /readyz name them")
            .set((inner.found.len() as u64 + inner.more) as f64);
        gauge("plumbago_lost_points", "points known to be lost by damaged files, found since the start")
            .set(inner.lost_points as f64);
        if let Some(conditions) = inner.conditions.as_ref().filter(|_| !inner.found.is_empty()) {
            conditions.begin(DAMAGED_DATA, inner.text());
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.list.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn text(&self) -> String {
        let named: Vec<String> = self
            .found
            .iter()
            .take(NAMED_MAX)
            .map(|found| format!("{}: {}", found.path.display(), found.text))
            .collect();
        let others = self.found.len().saturating_sub(NAMED_MAX) as u64 + self.more;
        let mut text = format!("{DAMAGED_TEXT}{}", named.join("; "));
        if others > 0 {
            text.push_str(&format!("; and {others} more files, which the log names"));
        }
        if self.lost_points > 0 {
            text.push_str(&format!("; {} points are known to be lost", self.lost_points));
        }
        text.push_str("; check the disk and the memory of this machine");
        text
    }
}

impl fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_one_condition_that_names_files() {
        let registry = Registry::new();
        let damage = Damage::of(&registry);
        assert_eq!(registry.value("plumbago_damaged_files"), Some(0.0));
        damage.found(Path::new("a/1"), "a byte is wrong");
        let conditions = Conditions::new(&registry);
        damage.attach(&conditions);
        Damage::of(&registry).found(Path::new("a/1"), "two bytes are wrong");
        for n in 2..7 {
            damage.found(Path::new(&format!("a/{n}")), "it is missing");
        }
        damage.lose_points(40);
        let held = conditions.list();
        assert_eq!(held.len(), 1);
        assert_eq!(
            held[0].text,
            "damaged data: a/1: two bytes are wrong; a/2: it is missing; a/3: it is missing; and 3 more files, \
             which the log names; 40 points are known to be lost; check the disk and the memory of this machine"
        );
        assert_eq!(registry.value("plumbago_damaged_files"), Some(6.0));
        assert_eq!((damage.lost_points(), registry.value("plumbago_lost_points")), (40, Some(40.0)));
        assert!(Damage::of(&Registry::new()).is_empty());
    }

    #[test]
    fn the_damage_of_another_list_is_taken_over() {
        let (own, registry) = (Registry::new(), Registry::new());
        Damage::of(&own).found(Path::new("log/1"), "a frame is wrong");
        Damage::of(&own).lose_points(3);
        let damage = Damage::of(&registry);
        damage.take_over(&Damage::of(&own));
        assert_eq!(damage.list(), Damage::of(&own).list());
        assert_eq!((damage.lost_points(), registry.value("plumbago_damaged_files")), (0, Some(1.0)));
    }
}
