//! Writes the points of metrics as whisper files.

use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

use plumbago_model::Aggregation;
use plumbago_store::History;
use plumbago_whisper::write;
use serde::{Deserialize, Serialize};

use crate::verb::{VerbError, Work};
use crate::verbs::whisper::ExportWhisper;

/// Metrics that are read at a time.
const METRICS: usize = 64;
/// Names of metrics that were not written, in the report.
const EXAMPLES_MAX: usize = 20;

/// The results of an export so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportReport {
    /// Metrics whose name matches.
    pub metrics: u64,
    /// Files that were written.
    pub files: u64,
    /// Points in them.
    pub points: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Metrics that were not written, each with the reason; at most 20 of them.
    pub examples: Vec<String>,
    /// Metrics that were not written.
    pub skipped: u64,
}

/// Exports the metrics of a selection.
///
/// # Errors
/// If the store cannot be read, a file cannot be written, or the run is cancelled.
pub(crate) async fn export_whisper(plan: &ExportWhisper, work: &Work) -> Result<ExportReport, VerbError> {
    let mut report = ExportReport::default();
    work.progress.begin("metrics", None);
    let mut batches = work.names.find(&plan.which);
    while let Some(names) = batches.recv().await {
        let names = names?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for names in names.chunks(METRICS) {
            work.go_on()?;
            for history in work.histories.histories(names).await?.into_iter().flatten() {
                report.metrics += 1;
                export(plan, &history, &mut report)?;
            }
            work.progress.set(report.metrics, format!("{} points", report.points));
        }
    }
    Ok(report)
}

fn export(plan: &ExportWhisper, history: &History, report: &mut ExportReport) -> Result<(), VerbError> {
    let mut skip = |why: &str| {
        report.skipped += 1;
        if report.examples.len() < EXAMPLES_MAX {
            report.examples.push(format!("{}: {why}", history.name));
        }
    };
    let Some(inside) = place_of(&history.name) else {
        skip("its name is not one for a file: a component is \"..\" or has a slash");
        return Ok(());
    };
    let points: Vec<Vec<(u32, f64)>> = history.stages.iter().map(|stage| stage.points.clone()).collect();
    let config = &history.config;
    let bytes = match write(&config.retention, whispers(config.aggregation), config.x_files_factor, &points) {
        Ok(bytes) => bytes,
        Err(problem) => {
            skip(&problem.to_string());
            return Ok(());
        }
    };
    let path = plan.directory.join(inside);
    if !plan.replace && path.exists() {
        skip("its file exists; --replace replaces it");
        return Ok(());
    }
    if !plan.dry_run {
        let unwritable = |path: &Path, error: &std::io::Error| {
            let text = format!("cannot write {}: {error}; the files before it are complete", path.display());
            VerbError::Failed(text)
        };
        replace(&path, &bytes).map_err(|error| unwritable(&path, &error))?;
    }
    report.files += 1;
    report.points += history.points();
    report.bytes += bytes.len() as u64;
    Ok(())
}

/// The method of whisper that folds later points as nearly as possible.
fn whispers(method: Aggregation) -> Aggregation {
    match method {
        Aggregation::Count => Aggregation::Sum,
        Aggregation::Percentile(_) => Aggregation::Last,
        known => known,
    }
}

/// The place of a metric's file below the target directory; `None` if the name would lead out of it, or is none for a
/// file.
fn place_of(name: &str) -> Option<PathBuf> {
    let (tree, tags) = name.split_once(';').map_or((name, None), |(tree, tags)| (tree, Some(tags)));
    let whole = match tags {
        None if name.contains('/') => return None,
        None => tree.replace('.', "/"),
        // As carbon without TAG_HASH_FILENAMES.
        Some(_) if name.contains('/') => return None,
        Some(_) => {
            let hash = crate::import::name_hash(name);
            format!("_tagged/{}/{}/{}", &hash[..3], &hash[3..6], name.replace('.', "_DOT_"))
        }
    };
    if whole.contains('\0') {
        return None;
    }
    let path = PathBuf::from(format!("{whole}.wsp"));
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then_some(path)
}

/// Writes a file beside its place and puts it there whole.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = fs::File::create(&new)?;
    file.write_all(bytes)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_directory() {
        assert_eq!(place_of("a.b.c"), Some(PathBuf::from("a/b/c.wsp")));
        for name in ["a/../../b", "/etc/passwd", "a./b", "x;t=/../../y", "a\0b", "../x"] {
            assert_eq!(place_of(name), None, "{name}");
        }
        // Two dots are no component: a name with them is sanitised before it is stored.
        for name in ["..", "...", "a....b"] {
            let place = place_of(name);
            assert!(
                place.is_none_or(|path| path.components().all(|part| matches!(part, Component::Normal(_)))),
                "{name}"
            );
        }
        let tagged = place_of("cpu.load;host=a.b").unwrap();
        assert!(
            tagged.starts_with("_tagged") && tagged.ends_with("cpu_DOT_load;host=a_DOT_b.wsp"),
            "{tagged:?}"
        );
    }
}
