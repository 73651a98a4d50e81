//! `carbon.conf`: a section for each program and one for each further instance of it; an instance inherits the keys of
//! its program's section.

mod cache;
mod keys;
mod receivers;
mod relay;

use std::path::PathBuf;

use plumbago_model::rules::{IniEntry, IniSection, Severity, read_ini};

use crate::Program;
use crate::biggraphite;
use crate::draft::{At, Draft};
use crate::parse;

/// One process of carbon: a program with the keys that it sees.
pub(super) struct Instance {
    program: Program,
    /// The name of the section of this process, like `cache` or `cache:b`.
    section: String,
    line: usize,
    keys: Vec<Key>,
}

/// A key that an instance sees.
#[derive(Debug, Clone)]
pub(super) struct Key {
    /// The name in capitals.
    name: String,
    value: String,
    line: usize,
    /// The name with its section in front.
    path: String,
}

impl Key {
    pub(super) fn at(&self) -> At<'_> {
        At { line: self.line, key: &self.path }
    }
}

impl Instance {
    pub(super) fn at(&self) -> At<'_> {
        At { line: self.line, key: &self.section }
    }

    pub(super) fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The text of a key that is set and not empty. Python's `None` counts as not set.
    pub(super) fn text(&self, name: &str) -> Option<&Key> {
        self.key(name).filter(|key| !key.value.is_empty() && key.value != "None")
    }

    /// The value of a switch. An invalid value counts as not set.
    pub(super) fn is_on(&self, name: &str, default: bool, draft: &mut Draft<'_>) -> bool {
        let Some(key) = self.text(name) else { return default };
        parse::flag(&key.value).unwrap_or_else(|| {
            draft.error(key.at(), format!("{:?} is neither true nor false", key.value));
            default
        })
    }

    /// The directory of the rules files.
    pub(super) fn conf_dir(&self, draft: &Draft<'_>) -> PathBuf {
        match self.text("CONF_DIR") {
            Some(key) => draft.directory().join(&key.value),
            None => draft.directory(),
        }
    }
}

/// Reads a file. `programs` are the programs that run.
pub(crate) fn read(text: &str, programs: &[Program], draft: &mut Draft<'_>) {
    let (sections, problems) = read_ini(text);
    for problem in problems.iter().filter(|problem| problem.severity == Severity::Error) {
        draft.error(At { line: problem.line, key: &problem.section }, &*problem.message);
    }
    let instances: Vec<Instance> = Program::ALL.into_iter().flat_map(|it| instances(it, &sections)).collect();
    report_other_sections(&sections, draft);
    let (chosen, left_out): (Vec<_>, Vec<_>) =
        instances.into_iter().partition(|instance| programs.contains(&instance.program));
    for instance in &left_out {
        draft.not_needed(instance.at(), "the section is left out, as asked for by --only");
    }
    let own_ports = receivers::read(&chosen, draft);
    cache::read(&chosen, draft);
    for instance in &chosen {
        relay::read(instance, &own_ports, draft);
        keys::read(instance, draft);
    }
    biggraphite::read(&biggraphite_keys(&chosen), draft);
}

/// The instances of a program. If other instances have sections but the first one, `a`, has none, the program's own
/// section stands for `a`.
fn instances(program: Program, sections: &[IniSection]) -> Vec<Instance> {
    let base = sections.iter().find(|section| section.name == program.section());
    let prefix = format!("{}:", program.section());
    let mut found: Vec<Instance> = sections
        .iter()
        .filter(|section| section.name.starts_with(&prefix))
        .map(|section| instance(program, section, base))
        .collect();
    let has_first = found.iter().any(|instance| instance.section == format!("{prefix}a"));
    if let Some(base) = base.filter(|_| !has_first) {
        found.insert(0, instance(program, base, None));
    }
    found
}

fn instance(program: Program, section: &IniSection, base: Option<&IniSection>) -> Instance {
    let mut keys = keys_of(section);
    for key in base.map(keys_of).unwrap_or_default() {
        if !keys.iter().any(|known| known.name == key.name) {
            keys.push(key);
        }
    }
    Instance { program, section: section.name.clone(), line: section.line, keys }
}

fn keys_of(section: &IniSection) -> Vec<Key> {
    let key = |entry: &IniEntry| {
        let name = entry.key.to_uppercase();
        let path = format!("{}.{name}", section.name);
        Key { value: section.value(entry).trim().to_owned(), line: entry.line, path, name }
    };
    section.entries.iter().map(key).collect()
}

fn report_other_sections(sections: &[IniSection], draft: &mut Draft<'_>) {
    for section in sections {
        let program = section.name.split(':').next().unwrap_or_default();
        let is_known = program == "DEFAULT" || Program::ALL.iter().any(|known| known.section() == program);
        if !is_known {
            draft.no_equivalent(
                At { line: section.line, key: &section.name },
                "the section belongs to none of carbon-cache, carbon-relay and carbon-aggregator",
            );
        }
    }
}

/// BigGraphite's keys of all instances, without duplicates.
fn biggraphite_keys(instances: &[Instance]) -> Vec<biggraphite::Entry> {
    let mut found: Vec<biggraphite::Entry> = Vec::new();
    for key in instances.iter().flat_map(|instance| &instance.keys) {
        let Some(name) = key.name.strip_prefix("BG_") else { continue };
        if !found.iter().any(|known| known.name == name && known.value == key.value) {
            found.push(biggraphite::Entry {
                name: name.to_owned(),
                value: key.value.clone(),
                key: key.path.clone(),
                line: key.line,
            });
        }
    }
    found
}
