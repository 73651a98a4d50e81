//! Writes the points of metrics as whisper files.

use std::fs;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use plumbago_model::Aggregation;
use plumbago_store::{History, MetricMeta};
use plumbago_whisper::{Sparse, file_bytes, write_sparse};
use serde::{Deserialize, Serialize};

use crate::backup::take::real;
use crate::batches::batches;
use crate::rate::Rate;
use crate::select::Which;
use crate::verb::{VerbError, Work};

/// Number of metrics that are read at a time.
const METRICS: usize = 64;
/// Largest total size of the files of these metrics, in bytes; a larger file is written alone. All of their
/// points may be in memory.
const BYTES: u64 = 256 << 20;
/// Largest number of bytes in a file's name before `.wsp` and the `.new` of a file that is being written.
const STEM_BYTES_MAX: usize = 255 - ".wsp.new".len();
/// Largest number of metrics that the report names as not written.
const EXAMPLES_MAX: usize = 20;

/// Directories inside the data directory that belong to the daemon.
const OWN: [&str; 8] =
    ["aggregation", "backup-links", "journal", "maintenance", "names", "relay", "spool", "store"];

/// Writes metrics as whisper files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExportWhisper {
    /// The directory to write to, as an absolute path.
    pub directory: PathBuf,
    /// Selects the metrics to write.
    pub which: Which,
    /// Whether existing files are replaced.
    pub replace: bool,
    /// Maximum number of metrics to write per second; 0 for no limit.
    pub rate: u32,
    /// Whether to count what would be written, and write nothing.
    pub dry_run: bool,
}

/// The results of an export so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportReport {
    /// Number of metrics that match the selection.
    pub metrics: u64,
    /// Number of files that were written.
    pub files: u64,
    /// Number of points in these files.
    pub points: u64,
    /// Size of the files in bytes.
    pub bytes: u64,
    /// Metrics that were not written, each with the reason; at most 20.
    pub examples: Vec<String>,
    /// Number of metrics that were not written.
    pub skipped: u64,
    /// Number of metrics whose file existed and was kept, as after an interrupted export. They do not count as
    /// skipped.
    #[serde(default)]
    pub existing: u64,
}

/// Exports the metrics of a selection.
///
/// # Errors
/// If the store cannot be read, a file cannot be written, or the run is cancelled.
pub(crate) async fn export_whisper(plan: &ExportWhisper, work: &Work) -> Result<ExportReport, VerbError> {
    refuse_own(&plan.directory, work.files.dir())?;
    let root = real(&plan.directory);
    let mut report = ExportReport::default();
    work.progress.begin("metrics", None);
    let mut rate = Rate::new(plan.rate);
    let mut found = work.names.find(&plan.which);
    while let Some(names) = found.recv().await {
        let names = names?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for names in names.chunks(rate.step(METRICS)) {
            rate.take(names.len()).await;
            work.go_on()?;
            let fit = those_that_fit(work, names, &mut report).await?;
            for some in batches(&fit, METRICS, BYTES, |(_, bytes)| *bytes) {
                work.go_on()?;
                let names: Vec<&str> = some.iter().map(|(name, _)| name.as_str()).collect();
                for history in work.histories.histories(&names).await?.into_iter().flatten() {
                    report.metrics += 1;
                    export(plan, &root, &history, &mut report)?;
                }
            }
            work.progress.set(report.metrics, format!("{} points", report.points));
        }
    }
    Ok(report)
}

/// Refuses the data directory itself, and the daemon's own directories in it. Another directory inside the
/// data directory is allowed, because the daemon of the package can write nowhere else.
fn refuse_own(directory: &Path, data: &Path) -> Result<(), VerbError> {
    if directory.components().any(|part| part == Component::ParentDir) {
        let text = format!("{} has \"..\"; name the directory without it", directory.display());
        return Err(VerbError::Invalid(text));
    }
    let whole = real(directory);
    let Ok(inside) = whole.strip_prefix(real(data)) else { return Ok(()) };
    let first = inside.components().next();
    if first.is_some_and(|first| !OWN.iter().any(|own| first.as_os_str() == *own)) {
        return Ok(());
    }
    Err(VerbError::Invalid(format!(
        "{} is the data directory or a part of the daemon's data; name another directory, like {}",
        directory.display(),
        data.join("whisper").display()
    )))
}

/// The metrics whose files are not too large for whisper, each with the size of its file in bytes. The points
/// of the others are not read.
async fn those_that_fit(
    work: &Work,
    names: &[&str],
    report: &mut ExportReport,
) -> Result<Vec<(String, u64)>, VerbError> {
    let mut fit = Vec::with_capacity(names.len());
    for MetricMeta { name, config, .. } in work.stores.metadata.get(names).await?.into_iter().flatten() {
        match file_bytes(&config.retention) {
            Ok(bytes) => fit.push((name, bytes)),
            Err(problem) => {
                report.metrics += 1;
                report.skip(&name, &problem.to_string());
            }
        }
    }
    Ok(fit)
}

impl ExportReport {
    fn skip(&mut self, name: &str, why: &str) {
        self.skipped += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(format!("{name}: {why}"));
        }
    }
}

/// Exports one metric. `root` is the directory of the plan with all links resolved.
fn export(
    plan: &ExportWhisper,
    root: &Path,
    history: &History,
    report: &mut ExportReport,
) -> Result<(), VerbError> {
    let mut skip = |why: &str| report.skip(&history.name, why);
    let Some(inside) = place_of(&history.name) else {
        skip("its name cannot be the name of a file: a component is \"..\" or has a slash");
        return Ok(());
    };
    let points: Vec<Vec<(u32, f64)>> = history.stages.iter().map(|stage| stage.points.clone()).collect();
    let config = &history.config;
    let method = whispers(config.aggregation);
    let file = match write_sparse(&config.retention, method, config.x_files_factor, &points) {
        Ok(file) => file,
        Err(problem) => {
            skip(&problem.to_string());
            return Ok(());
        }
    };
    let path = plan.directory.join(inside);
    if path.parent().is_some_and(|parent| !real(parent).starts_with(root)) {
        skip("a link leads out of the directory");
        return Ok(());
    }
    if !plan.replace && path.exists() {
        report.existing += 1;
        return Ok(());
    }
    if !plan.dry_run
        && let Err(error) = replace(&path, &file)
    {
        let text = format!("cannot write {}: {error}", path.display());
        if is_of_this_name(&error) {
            skip(&text);
            return Ok(());
        }
        return Err(VerbError::Failed(format!("{text}; the files before it are complete")));
    }
    report.files += 1;
    report.points += history.points();
    report.bytes += file.len;
    Ok(())
}

/// Whether the error concerns only this name: it is too long, or one of its directories exists as a file.
fn is_of_this_name(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory};
    matches!(error.kind(), AlreadyExists | InvalidFilename | IsADirectory | NotADirectory)
}

/// The whisper method that is most similar to this one.
fn whispers(method: Aggregation) -> Aggregation {
    match method {
        Aggregation::Count => Aggregation::Sum,
        Aggregation::Percentile(_) => Aggregation::Last,
        known => known,
    }
}

/// The place of a metric's file below the target directory; `None` if the name would lead out of that
/// directory, or cannot be a file name.
fn place_of(name: &str) -> Option<PathBuf> {
    let (tree, tags) = name.split_once(';').map_or((name, None), |(tree, tags)| (tree, Some(tags)));
    let whole = match tags {
        None if name.contains('/') => return None,
        None => tree.replace('.', "/"),
        Some(_) if name.contains('/') => return None,
        Some(_) => {
            let hash = crate::import::name_hash(name);
            // The name is the one that carbon uses without TAG_HASH_FILENAMES; if that is too long, the one
            // that carbon uses with it.
            let plain = name.replace('.', "_DOT_");
            let stem = if plain.len() > STEM_BYTES_MAX { &hash } else { &plain };
            format!("_tagged/{}/{}/{stem}", &hash[..3], &hash[3..6])
        }
    };
    if whole.contains('\0') {
        return None;
    }
    let path = PathBuf::from(format!("{whole}.wsp"));
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then_some(path)
}

/// Writes a temporary file beside the target, and renames it when it is complete. Parts without points become holes in
/// the file, which take no room on the disk.
fn replace(path: &Path, content: &Sparse) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    // A file of an interrupted export, or a link, is removed here, so that nothing is written through it.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = fs::File::create_new(&new).and_then(|mut file| {
        file.set_len(content.len)?;
        for (place, bytes) in &content.parts {
            file.seek(SeekFrom::Start(*place))?;
            file.write_all(bytes)?;
        }
        fs::rename(&new, path)
    });
    written.inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plumbago_model::MetricConfig;
    use plumbago_store::HistoryStage;

    use super::*;
    use crate::select::Which;

    #[test]
    fn nothing_is_written_among_the_data() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir_all(data.join("store")).unwrap();
        std::os::unix::fs::symlink(&data, dir.path().join("link")).unwrap();
        for taken in ["data", "data/store", "data/journal/x", "link", "link/./store"] {
            let why = refuse_own(&dir.path().join(taken), &data).unwrap_err().to_string();
            assert!(why.contains("data/whisper"), "{taken}: {why}");
        }
        for free in ["data/whisper", "link/whisper/store", "store", "."] {
            assert!(refuse_own(&dir.path().join(free), &data).is_ok(), "{free}");
        }
    }

    /// Exports metrics without points.
    fn exported(directory: &Path, replace: bool, names: &[&str]) -> ExportReport {
        let (directory, which) = (directory.to_owned(), Which::glob("**"));
        let plan = ExportWhisper { directory, which, replace, rate: 0, dry_run: false };
        let config = Arc::new(MetricConfig {
            retention: "60s:1h".parse().unwrap(),
            aggregation: Aggregation::Sum,
            x_files_factor: 0.5,
        });
        let mut report = ExportReport::default();
        for name in names {
            let stages = vec![HistoryStage { resolution: 60, ..HistoryStage::default() }];
            let history = History { name: (*name).to_owned(), config: Arc::clone(&config), stages };
            export(&plan, &real(&plan.directory), &history, &mut report).unwrap();
        }
        report
    }

    #[test]
    fn links_do_not_lead_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("to");
        fs::create_dir_all(to.join("inside")).unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        let link = |target: &Path, link: &str| {
            std::os::unix::fs::symlink(target, to.join(link)).unwrap();
        };
        link(dir.path(), "out");
        link(&to.join("inside"), "link");
        link(&victim, "a.wsp.new");
        link(&victim, "b.wsp");
        let report = exported(&to, true, &["a", "b", "link.x", "out.x"]);
        assert_eq!((report.files, report.skipped), (3, 1), "{report:?}");
        assert!(report.examples[0].starts_with("out.x: a link leads out"), "{report:?}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert!(to.join("inside/x.wsp").exists() && !dir.path().join("x.wsp").exists());
    }

    #[test]
    fn an_interrupted_export_continues() {
        let dir = tempfile::tempdir().unwrap();
        exported(dir.path(), false, &["a", "b"]);
        let report = exported(dir.path(), false, &["a", "b", "c"]);
        assert_eq!((report.files, report.existing, report.skipped), (1, 2, 0), "{report:?}");
    }

    #[test]
    fn names_that_the_file_system_refuses_do_not_end_the_export() {
        let dir = tempfile::tempdir().unwrap();
        let (long, deep) = ("x".repeat(250), vec!["y".repeat(200); 25].join("."));
        let tagged = format!("disk;a={long};b={long}");
        let report = exported(dir.path(), true, &["a", &long, &deep, &tagged, "z"]);
        assert_eq!((report.files, report.skipped), (3, 2), "{report:?}");
        let hash = crate::import::name_hash(&tagged);
        let file = format!("_tagged/{}/{}/{hash}.wsp", &hash[..3], &hash[3..6]);
        assert!(dir.path().join(file).exists() && dir.path().join("z.wsp").exists());
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        assert_eq!(place_of("a.b.c"), Some(PathBuf::from("a/b/c.wsp")));
        for name in ["a/../../b", "/etc/passwd", "a./b", "x;t=/../../y", "a\0b", "../x"] {
            assert_eq!(place_of(name), None, "{name}");
        }
        // Two dots are no component, because names are sanitised before they are stored.
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
