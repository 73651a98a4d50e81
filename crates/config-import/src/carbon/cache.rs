//! The keys of carbon-cache that concern metrics: storage rules, lists, limits, and the place of the whisper
//! files.

use super::{Instance, Key};
use crate::Program;
use crate::draft::{At, Draft, Value};
use crate::parse;

/// Reads the keys that all instances share, and the keys whose values must be added up.
pub(super) fn read(instances: &[Instance], draft: &mut Draft<'_>) {
    let caches: Vec<&Instance> = instances.iter().filter(|it| it.program == Program::Cache).collect();
    if let Some(first) = caches.first() {
        rules_files(first, draft);
        whisper(first, draft);
    }
    creates(&caches, draft);
    for instance in instances {
        lists(instance, draft);
    }
    connections(instances, draft);
}

/// Reads the storage rules. Both files have fixed names in the directory of the configuration.
fn rules_files(instance: &Instance, draft: &mut Draft<'_>) {
    let directory = instance.conf_dir(draft);
    let at = instance.key("CONF_DIR").map_or(instance.at(), Key::at);
    for (key, name) in
        [("storage_schemas", "storage-schemas.conf"), ("storage_aggregation", "storage-aggregation.conf")]
    {
        let path = directory.join(name);
        match draft.exists(&path) {
            true => draft.text(key, path.to_string_lossy(), at),
            false => draft.todo(at, format!("{} does not exist, so {key} is not set", path.display())),
        }
    }
}

/// Notes the whisper files, which Plumbago imports and never uses in place.
fn whisper(instance: &Instance, draft: &mut Draft<'_>) {
    if instance.text("DATABASE").is_some_and(|key| !key.value.contains("whisper")) {
        for key in ["STORAGE_DIR", "LOCAL_DATA_DIR"].into_iter().filter_map(|name| instance.text(name)) {
            draft.not_needed(key.at(), "the points are not in whisper files");
        }
        return;
    }
    let storage = instance.text("STORAGE_DIR").map(|key| (key, format!("{}/whisper", key.value)));
    let local = instance.text("LOCAL_DATA_DIR").map(|key| (key, key.value.clone()));
    let (at, directory) = match local.or(storage) {
        Some((key, directory)) => (key.at(), directory.replace("//", "/")),
        None => (instance.at(), "/opt/graphite/storage/whisper".to_owned()),
    };
    draft.todo(at, format!("import the whisper files: plumbago import-whisper {directory}"));
}

/// Adds up the instances' limits on new metrics, because one daemon takes the place of all instances.
fn creates(caches: &[&Instance], draft: &mut Draft<'_>) {
    let mut total: i64 = 0;
    let mut from: Option<&Key> = None;
    for instance in caches {
        // Without the key, carbon has no limit.
        let Some(key) = instance.text("MAX_CREATES_PER_MINUTE") else { return };
        match parse::number_or_inf(&key.value) {
            Some(Some(number @ 0..)) => total = total.saturating_add(number),
            Some(None) => {
                return draft.set("engine.max_creates_per_minute", Value::Number(0), key.at());
            }
            _ => return draft.error(key.at(), format!("{:?} is not a number of 0 or more", key.value)),
        }
        from = from.or(Some(key));
    }
    match from {
        // With 0, carbon creates nothing; in Plumbago, 0 means no limit.
        Some(key) if total == 0 => draft.text("engine.max_creates_per_minute", "none", key.at()),
        Some(key) => draft.set("engine.max_creates_per_minute", Value::Number(total), key.at()),
        None => {}
    }
}

fn lists(instance: &Instance, draft: &mut Draft<'_>) {
    if !instance.is_on("USE_WHITELIST", false, draft) {
        return;
    }
    let directory = instance.conf_dir(draft);
    let at = instance.key("USE_WHITELIST").map_or(instance.at(), Key::at);
    let mut is_any = false;
    for name in ["whitelist", "blacklist"] {
        let path = directory.join(format!("{name}.conf"));
        if draft.exists(&path) {
            draft.text(&format!("ingest.{name}"), path.to_string_lossy(), at);
            is_any = true;
        }
    }
    if !is_any {
        let text =
            format!("{} has no whitelist.conf and no blacklist.conf, so no list is set", directory.display());
        draft.todo(at, text);
    }
}

/// Reads the limits of connections, which in carbon apply to all receivers of a process. The largest value of
/// all instances is used.
fn connections(instances: &[Instance], draft: &mut Draft<'_>) {
    largest(instances, "MAX_RECEIVER_CONNECTIONS", draft, |number, at, draft| {
        for listener in ["line", "pickle"] {
            draft.set(&format!("ingest.{listener}.connections_max"), Value::Number(number), at);
        }
    });
    largest(instances, "METRIC_CLIENT_IDLE_TIMEOUT", draft, |number, at, draft| {
        for listener in ["line", "pickle"] {
            draft.text(&format!("ingest.{listener}.idle_timeout"), format!("{number}s"), at);
        }
    });
    largest(instances, "PICKLE_RECEIVER_MAX_LENGTH", draft, |number, at, draft| {
        draft.text("ingest.pickle.frame_bytes_max", parse::bytes(number), at);
    });
}

fn largest(
    instances: &[Instance],
    name: &str,
    draft: &mut Draft<'_>,
    set: impl Fn(i64, At<'_>, &mut Draft<'_>),
) {
    let mut found: Option<(i64, &Key)> = None;
    for key in instances.iter().filter_map(|instance| instance.text(name)) {
        match parse::number_or_inf(&key.value) {
            Some(Some(number @ 1..)) if found.is_none_or(|(largest, _)| number > largest) => {
                found = Some((number, key));
            }
            Some(Some(1..) | None) => {}
            _ => draft.error(key.at(), format!("{:?} is not a number above 0", key.value)),
        }
    }
    if let Some((number, key)) = found {
        set(number, key.at(), draft);
    }
}
