//! The verbs, one file each.

pub mod backup;
pub mod clean;
pub mod copies;
pub mod delete;
pub mod graphite;
pub mod kairosdb;
pub mod names;
pub mod other_store;
pub mod rules;
pub mod whisper;
pub mod write;

use serde_json::Value;

use crate::run_error::RunError;
use crate::verb::{AnyVerb, Verb};

/// Reads the parameters of a verb.
type Read = fn(Value) -> Result<Box<dyn AnyVerb>, String>;

/// All verbs that a daemon runs as jobs.
pub const CATALOGUE: &[(&str, Read)] = &[
    entry::<backup::Backup>(),
    entry::<clean::Clean>(),
    entry::<clean::Repair>(),
    entry::<copies::CopyMetrics>(),
    entry::<copies::MoveMetrics>(),
    entry::<delete::Delete>(),
    entry::<rules::ApplyRules>(),
    entry::<write::Write>(),
    entry::<whisper::ImportWhisper>(),
    entry::<kairosdb::ImportKairosdb>(),
    entry::<graphite::ImportGraphite>(),
    entry::<graphite::ImportEvents>(),
    entry::<names::ImportNames>(),
    entry::<other_store::ImportStore>(),
    entry::<whisper::ExportWhisper>(),
];

const fn entry<V: Verb>() -> (&'static str, Read) {
    (V::NAME, read::<V>)
}

fn read<V: Verb>(parameters: Value) -> Result<Box<dyn AnyVerb>, String> {
    let verb: V = serde_json::from_value(parameters).map_err(|error| format!("parameters: {error}"))?;
    verb.check()?;
    Ok(Box::new(verb))
}

/// The verb of this name with these parameters, a JSON object.
///
/// # Errors
/// If there is no such verb, or its parameters cannot be used.
pub fn verb(name: &str, parameters: Value) -> Result<Box<dyn AnyVerb>, RunError> {
    let Some((_, read)) = CATALOGUE.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        return Err(RunError::UnknownJob { job: name.to_owned(), known: known.join(", ") });
    };
    read(parameters).map_err(|why| RunError::Invalid { job: name.to_owned(), why })
}
