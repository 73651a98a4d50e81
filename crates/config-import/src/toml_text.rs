//! Writes the result as a configuration file for Plumbago.

use std::fmt::Write as _;

use crate::draft::{Import, Origin, Remark, RemarkKind, Setting, Value};

/// Writes settings as a TOML file. A comment above each setting names the key that it comes from. Remarks
/// about what is left to do, and about what has no equivalent, are at the top.
pub fn to_toml(import: &Import) -> String {
    let mut out = String::from("# Imported settings. `plumbago config default` explains every key.\n");
    remarks(&mut out, import, RemarkKind::Error, "Could not be read:");
    remarks(&mut out, import, RemarkKind::Todo, "Left to do:");
    remarks(&mut out, import, RemarkKind::NoEquivalent, "Without an equivalent in Plumbago:");
    let mut settings: Vec<(&str, &str, &Setting)> = import.settings.iter().map(split).collect();
    // TOML requires that keys without a section come first.
    settings.sort_by_key(|(section, ..)| *section);
    let mut current = "";
    for (section, key, setting) in settings {
        if section != current {
            _ = writeln!(out, "\n[{section}]");
            current = section;
        } else if section.is_empty() {
            out.push('\n');
        }
        for origin in &setting.from {
            _ = writeln!(out, "# {}", place(origin));
        }
        _ = writeln!(out, "{key} = {}", value(&setting.value));
    }
    out
}

fn split(setting: &Setting) -> (&str, &str, &Setting) {
    let (section, key) = setting.key.rsplit_once('.').unwrap_or(("", &setting.key));
    (section, key, setting)
}

fn remarks(out: &mut String, import: &Import, kind: RemarkKind, title: &str) {
    let chosen: Vec<&Remark> = import.remarks.iter().filter(|remark| remark.kind == kind).collect();
    if chosen.is_empty() {
        return;
    }
    _ = writeln!(out, "#\n# {title}");
    for remark in chosen {
        _ = writeln!(out, "# * {}: {}", place(&remark.from), plain(&remark.text));
    }
}

fn place(origin: &Origin) -> String {
    let Origin { file, line, key } = origin;
    match (line, key.is_empty()) {
        (0, _) => plain(file),
        (line, true) => format!("{}:{line}", plain(file)),
        (line, false) => format!("{}:{line} {}", plain(file), plain(key)),
    }
}

/// The text without control characters, which TOML forbids in comments.
fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn value(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Text(text) => quoted(text),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// Writes a text as a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => out.push(c),
        }
    }
    out + "\""
}
