//! SIGHUP: applies the settings marked `[reload]` and the files that they name. Logs what changed, what needs
//! a restart and which problems there were. A setting with a problem keeps its old value; the others are
//! applied.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use plumbago_api::{Certificates, LiveLimits, LiveUsers};
use plumbago_engine::Engine;
use plumbago_relay::Relay;
use plumbago_telemetry::log::{self, LevelHandle};
use plumbago_telemetry::{Conditions, Gauge, Registry};
use serde_json::Value;

use super::aggregation::Stage;
use super::{quotas, rules};
use crate::config::{self, Budget, Change, Config, Loaded, Place, Problems};
use crate::machine;

/// Name of the condition that holds from a failed reload to the next one without errors.
pub(super) const RELOAD_FAILED: &str = "reload_failed";

/// The keys of the storage rules. The rules consist of both files together.
const RULES: [&str; 2] = ["storage_schemas", "storage_aggregation"];

/// Keys of files that are read only at the start. A change of their contents needs a restart.
const READ_ONCE: [&str; 8] = [
    "store.cassandra.tls.ca",
    "store.cassandra.tls.cert",
    "store.cassandra.tls.key",
    "store.cassandra.metadata.tls.ca",
    "store.cassandra.metadata.tls.cert",
    "store.cassandra.metadata.tls.key",
    "cluster.ca",
    "relay.ca",
];

/// The settings in effect, and the parts of the daemon that a reload changes.
pub(crate) struct Reload {
    file: Option<PathBuf>,
    /// The file that the start read, for messages.
    shown: String,
    /// The values in effect. Keys that cannot be reloaded have their values from the start.
    values: Value,
    level: Option<LevelHandle>,
    /// Certificates of the ports beside the listeners, with the sections that configure them (`api`, `admin`,
    /// `carbonlink`).
    certificates: Vec<(&'static str, Arc<Certificates>)>,
    /// Hashes of the contents of the files in effect, by key.
    contents: BTreeMap<&'static str, u64>,
    report: Option<Report>,
}

/// The running parts that a reload changes.
pub(crate) struct Live<'a> {
    pub(crate) rules: &'a rules::Live,
    pub(crate) listeners: &'a plumbago_ingest::Handle,
    pub(crate) relay: &'a Relay,
    pub(crate) stage: Option<&'a Stage>,
    pub(crate) engine: &'a Engine,
    /// The limits of the API port, if it is open.
    pub(crate) limits: Option<&'a LiveLimits>,
    /// The users of the API port, if it is open.
    pub(crate) users: Option<&'a LiveUsers>,
}

/// Where the results of reloads are shown: in the conditions and in metrics.
struct Report {
    conditions: Conditions,
    is_ok: Gauge,
    last_success: Gauge,
}

/// The results of a reload.
#[derive(Debug, Default)]
struct Outcome {
    /// Keys whose new value or contents are in effect.
    applied: BTreeSet<&'static str>,
    /// Keys whose new value or contents need a restart.
    restart: BTreeSet<&'static str>,
    errors: Vec<String>,
}

impl Reload {
    /// Remembers the settings that the daemon starts with. `file` is the `--config` option.
    pub(crate) fn new(loaded: &Loaded, file: Option<&Path>, level: Option<LevelHandle>) -> Self {
        let shown = loaded.file.as_deref().map_or("the environment".to_owned(), |f| f.display().to_string());
        Self {
            file: file.map(Path::to_path_buf),
            shown,
            contents: contents(&loaded.set),
            values: loaded.set.clone(),
            level,
            certificates: Vec::new(),
            report: None,
        }
    }

    /// Adds a port whose certificate a reload reads again.
    pub(super) fn add_port(&mut self, section: &'static str, certificates: Arc<Certificates>) {
        self.certificates.push((section, certificates));
    }

    /// Reports reloads to `conditions` and `registry`. Reading the configuration at the start counts as the
    /// first successful reload.
    pub(super) fn report_to(&mut self, conditions: &Conditions, registry: &Registry) {
        let report = Report {
            conditions: conditions.clone(),
            is_ok: registry.gauge(
                "plumbago_config_last_reload_successful",
                "1 if the last reload (SIGHUP) had no error, else 0",
                &[],
            ),
            last_success: registry.gauge(
                "plumbago_config_last_reload_success_timestamp_seconds",
                "Time of the last reload without an error, or of the start, in seconds since the epoch",
                &[],
            ),
        };
        conditions.declare([RELOAD_FAILED]);
        report.is_ok.set(1.0);
        report.last_success.set(now());
        self.report = Some(report);
    }

    /// Reads the configuration again and applies what it can.
    pub(super) fn reload(&mut self, live: &Live<'_>) {
        let config::Read { loaded, problems } = config::read(self.file.as_deref());
        problems.log();
        let mut outcome = Outcome::default();
        outcome.errors.extend(problems.iter().filter(|p| p.error).map(ToString::to_string));
        let changes = self.changes(&loaded, &problems);
        let mut values = self.values.clone();
        for change in &changes {
            self.note(change, &mut outcome);
            if config::is_reloadable(change.key) {
                config::take(&mut values, &loaded.set, change.key);
            }
        }
        let files = self.changed_files(&values);
        self.values = values;
        match config::from_values(&self.values) {
            Ok(config) => self.apply(&config, &files, live, &mut outcome),
            Err(error) => outcome.fail(format!("the configuration cannot be applied: {error}")),
        }
        self.finish(&outcome);
    }

    /// The keys whose values differ from those in effect, except those that have a problem.
    fn changes(&self, loaded: &Loaded, problems: &Problems) -> Vec<Change> {
        let broken = broken(problems, loaded);
        if broken.contains("") {
            return Vec::new();
        }
        let is_broken = |change: &Change| broken.contains(unit(change.key));
        let mut changes = config::changes(&self.values, &loaded.set);
        changes.retain(|change| !is_broken(change));
        changes
    }

    fn note(&self, Change { key, old, new }: &Change, outcome: &mut Outcome) {
        if config::is_reloadable(key) {
            outcome.applied.insert(key);
            tracing::info!("{key} is {new} now; it was {old}");
        } else {
            outcome.restart.insert(key);
            tracing::warn!(
                "{key} was changed to {new} and needs a restart; until then {old} stays in effect"
            );
        }
    }

    /// The keys of files whose contents differ from those in effect.
    fn changed_files(&self, values: &Value) -> BTreeSet<&'static str> {
        let now = contents(values);
        let differs = |key: &&'static str| now.get(key) != self.contents.get(key);
        now.keys().chain(self.contents.keys()).copied().filter(differs).collect()
    }

    fn apply(
        &mut self,
        config: &Config,
        files: &BTreeSet<&'static str>,
        live: &Live<'_>,
        outcome: &mut Outcome,
    ) {
        let mut kept = BTreeSet::new();
        if let (Some(handle), Some(filter)) = (&self.level, log::filter(&config.log.level)) {
            let _ = handle.reload(filter);
        }
        if !apply_rules(config, files, live, outcome) {
            kept.extend(RULES);
        }
        if let Err(error) = live.listeners.reload(&config.ingest) {
            kept.extend(files.iter().filter(|key| key.starts_with("ingest.")));
            let lines = error.to_string();
            let lines = lines.lines().map(str::to_owned);
            outcome.fail_with(lines, "settings that the listeners cannot use stay as they were");
        }
        if let Err(problems) = live.relay.reload(&config.relay) {
            kept.extend(["relay.rules"]);
            outcome
                .fail_with(problems.into_iter(), "the old rules of the relay stay in effect (relay.rules)");
        }
        if let Err(problems) = reload_aggregation(config, live.stage) {
            kept.extend(["aggregation.rules"]);
            let what = "the old rules and settings of aggregation stay in effect (aggregation.rules)";
            outcome.fail_with(problems.into_iter(), what);
        }
        match config.quotas.load_rules() {
            Ok(rules) if files.contains("quotas.rules") => quotas::replace(live.engine, rules),
            Ok(_) => {}
            Err(problems) => {
                kept.extend(["quotas.rules"]);
                outcome.fail_with(problems.into_iter(), "the old quotas stay in effect (quotas.rules)");
            }
        }
        if let Some(users) = live.users
            && let Err(error) = users.reload(&config.api.users.file)
        {
            kept.extend(["api.users.file"]);
            let what = "the users stay as they are (api.users.file)";
            outcome.fail_with(std::iter::once(error.to_string()), what);
        }
        self.apply_limits(config, live);
        kept.extend(self.apply_certificates(config, files, outcome));
        self.note_files(files, &kept, outcome);
    }

    /// Reads the certificates of the ports again. Returns the keys of files that could not be used.
    fn apply_certificates(
        &self,
        config: &Config,
        files: &BTreeSet<&'static str>,
        outcome: &mut Outcome,
    ) -> BTreeSet<&'static str> {
        let mut kept = BTreeSet::new();
        for (section, certificates) in &self.certificates {
            let files_of = match *section {
                "api" => config.api.tls.files(),
                "carbonlink" => config.carbonlink.tls.files(),
                _ => config.admin.tls.files(),
            };
            if let Err(error) = certificates.reload(&files_of) {
                let prefix = format!("{section}.tls.");
                kept.extend(files.iter().filter(|key| key.starts_with(&prefix)));
                let what = format!("{section}.tls was not reloaded; the old certificate stays in effect");
                outcome.fail_with(std::iter::once(error.to_string()), &what);
            }
        }
        kept
    }

    fn apply_limits(&self, config: &Config, live: &Live<'_>) {
        live.engine.set_max_creates(config.engine.max_creates_per_minute);
        if let Some(limits) = live.limits {
            let mut config = config.clone();
            Budget::divide(&mut config, &self.values, machine::memory_bytes());
            limits.set(config.api.limits);
        }
    }

    /// Remembers and logs the files whose contents are new.
    fn note_files(
        &mut self,
        files: &BTreeSet<&'static str>,
        kept: &BTreeSet<&'static str>,
        outcome: &mut Outcome,
    ) {
        let read = contents(&self.values);
        for key in files {
            if READ_ONCE.contains(key) {
                outcome.restart.insert(key);
                tracing::warn!("the file of {key} has changed; restart the daemon to use it");
            } else if !kept.contains(key) {
                outcome.applied.insert(key);
                if !RULES.contains(key) {
                    tracing::info!("the file of {key} was read again, because its contents have changed");
                }
                match read.get(key) {
                    Some(hash) => drop(self.contents.insert(key, *hash)),
                    None => drop(self.contents.remove(key)),
                }
            }
        }
    }

    fn finish(&self, outcome: &Outcome) {
        let Outcome { applied, restart, errors } = outcome;
        let (applied, restart, from) = (applied.len(), restart.len(), &self.shown);
        match errors.len() {
            0 if applied + restart == 0 => tracing::info!("reloaded {from}: nothing has changed"),
            0 => tracing::info!("reloaded {from}: {applied} applied, {restart} need a restart"),
            errors => tracing::error!(
                "reloaded {from} with errors: {applied} applied, {restart} need a restart, {errors} \
                 error(s); the settings concerned stay as they were"
            ),
        }
        let Some(report) = &self.report else { return };
        report.is_ok.set(if errors.is_empty() { 1.0 } else { 0.0 });
        match errors.first() {
            None => {
                report.last_success.set(now());
                report.conditions.end(RELOAD_FAILED);
            }
            Some(first) => {
                let more = match errors.len() - 1 {
                    0 => String::new(),
                    more => format!(" (and {more} more)"),
                };
                let text = format!(
                    "the last reload (SIGHUP) had an error: {first}{more}; the settings concerned stay as \
                     they were. Run \
                     `plumbago config check`, correct it and reload again"
                );
                report.conditions.begin(RELOAD_FAILED, text);
            }
        }
    }
}

impl Outcome {
    fn fail(&mut self, error: String) {
        tracing::error!("{error}");
        self.errors.push(error);
    }

    /// Adds and logs the errors that were not logged yet, then logs their consequence.
    fn fail_with(&mut self, errors: impl Iterator<Item = String>, consequence: &str) {
        for error in errors {
            if !self.errors.iter().any(|said| said.contains(&error)) {
                self.fail(error);
            }
        }
        tracing::error!("{consequence}");
    }
}

/// Reads the storage rules again. Returns false if they have errors. In that case the old rules stay in
/// effect.
fn apply_rules(
    config: &Config,
    files: &BTreeSet<&'static str>,
    live: &Live<'_>,
    outcome: &mut Outcome,
) -> bool {
    match config::read_rules(config) {
        Ok(read) => {
            live.rules.name_files(config);
            if files.iter().any(|key| RULES.contains(key)) {
                let count = read.configs().len();
                live.rules.replace(read);
                tracing::info!(
                    "storage rules reloaded, with {count} combination(s) of settings; they apply to metrics that are created from now on"
                );
            }
            true
        }
        Err(problems) => {
            outcome.fail_with(
                problems.iter().map(text),
                "the old rules stay in effect (storage_schemas, storage_aggregation)",
            );
            false
        }
    }
}

/// Gives aggregation its new rules. It cannot be switched on by a reload.
fn reload_aggregation(config: &Config, stage: Option<&Stage>) -> Result<(), Vec<String>> {
    match stage {
        Some(stage) => stage.aggregation.reload(&config.aggregation),
        None if config.aggregation.is_off() => Ok(()),
        None => Err(vec![
            "aggregation.rules: aggregation was off at the start; switching it on needs a restart".to_owned(),
        ]),
    }
}

/// The units that have errors. An empty text stands for a configuration file that cannot be read or parsed,
/// so that none of it is applied.
fn broken<'a>(problems: &'a Problems, loaded: &Loaded) -> BTreeSet<&'a str> {
    let rules = [&loaded.config.storage_schemas, &loaded.config.storage_aggregation];
    let of = |problem: &'a config::Problem| match &problem.place {
        Place::File(file, _) if loaded.file.as_ref() != Some(file) && rules.contains(&file) => Some(RULES[0]),
        Place::Environment(_) if problem.key.is_empty() => None,
        _ => Some(unit(&problem.key)),
    };
    problems.iter().filter(|problem| problem.error).filter_map(of).collect()
}

/// A problem with its place, as text. A setting with its default was set nowhere, so it has no place.
fn text(problem: &config::Problem) -> String {
    match problem.place {
        Place::Default => format!("{}: {}", problem.key, problem.message),
        _ => problem.to_string(),
    }
}

/// The unit of a key. Keys of the same unit are applied only together. A certificate and its key are one
/// unit, and so are the two files of the storage rules. Every other key is a separate unit.
fn unit(key: &str) -> &str {
    match key.rsplit_once('.') {
        Some((section, _)) if section.ends_with(".tls") => section,
        _ if key == RULES[1] => RULES[0],
        _ => key,
    }
}

/// Hashes of the contents of the files that the settings name, by key. Files that cannot be read are left out.
fn contents(values: &Value) -> BTreeMap<&'static str, u64> {
    let read = |key: &'static str| {
        let mut hasher = DefaultHasher::new();
        std::fs::read(config::text(values, key)?).ok()?.hash(&mut hasher);
        Some((key, hasher.finish()))
    };
    config::file_keys().chain(READ_ONCE).filter_map(read).collect()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_and_its_key_are_one_unit() {
        for (key, expected) in [
            ("ingest.line.tls.key", "ingest.line.tls"),
            ("api.tls.cert", "api.tls"),
            ("storage_aggregation", "storage_schemas"),
            ("storage_schemas", "storage_schemas"),
            ("log.level", "log.level"),
            ("", ""),
        ] {
            assert_eq!(unit(key), expected);
        }
    }

    #[test]
    fn files_of_all_reloadable_keys_are_watched() {
        let keys: Vec<&str> = config::file_keys().collect();
        for key in ["storage_schemas", "ingest.rewrite_rules", "ingest.line.tls.cert", "admin.tls.key"] {
            assert!(keys.contains(&key), "{key} in {keys:?}");
        }
        assert!(!keys.contains(&"log.level"));
    }
}
