//! Loads the storage rules.

use std::path::Path;

use plumbago_model::StorageRules;
use plumbago_model::rules::{RuleFile, Severity};

use super::Config;
use super::layers::Layers;
use super::problem::{Place, Problems};

/// Reads both rules files and adds their problems to `problems`. A file that cannot be read is an error. An
/// empty path means the built-in rules.
pub(super) fn load_rules(config: &Config, layers: &Layers, problems: &mut Problems) -> StorageRules {
    let schemas = text(&config.storage_schemas, "storage_schemas", layers, problems);
    let aggregation = text(&config.storage_aggregation, "storage_aggregation", layers, problems);
    let (rules, found) = StorageRules::parse(schemas.as_deref(), aggregation.as_deref());
    for problem in found {
        let file = match problem.file {
            RuleFile::Schemas => &config.storage_schemas,
            RuleFile::Aggregation => &config.storage_aggregation,
            // The code that reads these files reports their problems.
            RuleFile::Relay | RuleFile::AggregationRules | RuleFile::Carbon | RuleFile::Quotas => continue,
        };
        let place = Place::File(file.clone(), problem.line);
        let section =
            if problem.section.is_empty() { String::new() } else { format!("[{}]", problem.section) };
        match problem.severity {
            Severity::Error => problems.error(place, &section, problem.message),
            Severity::Warning => problems.warning(place, &section, problem.message),
        }
    }
    rules
}

fn text(path: &Path, key: &str, layers: &Layers, problems: &mut Problems) -> Option<String> {
    if path.as_os_str().is_empty() {
        return None;
    }
    let shown = path.display();
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => return Some(text),
        Ok(Err(_)) => problems.error(layers.near(key), key, format!("{shown} is not UTF-8 text")),
        Err(error) => problems.error(layers.near(key), key, format!("{shown} cannot be read: {error}")),
    }
    None
}
