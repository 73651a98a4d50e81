//! Creates metrics from a list of names with their settings. They have no points yet.

mod line;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use plumbago_model::MetricConfig;
use plumbago_store::{Creation, SettingsChange};
use serde::{Deserialize, Serialize};

use self::line::Line;
use crate::counts::{SkipCounts, reason_of};
use crate::histories::Refusals;
use crate::rate::Rate;
use crate::skipped::Skipped;
use crate::verb::{VerbError, Work};

/// Number of names that are created together.
const BATCH: usize = 500;
/// The longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Creates the metrics of a list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportNames {
    /// The absolute path of a file that has a metric on each line: name, retention, method and factor.
    pub file: PathBuf,
    /// Maximum number of names per second; 0 for no limit.
    pub rate: u32,
    /// Where to list what was skipped.
    pub skipped: Option<PathBuf>,
    /// Whether to count what would be done, and change nothing.
    pub dry_run: bool,
}

/// The results of an import of names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportNamesReport {
    /// Number of lines with a name.
    pub names: u64,
    /// Number of metrics that were created; in a dry run, that would be created.
    pub created: u64,
    /// Number of names of metrics that exist already, or that occurred in the list before.
    pub known: u64,
    /// Number of lines with other settings than their metric has, or than an earlier line gives it. It keeps its
    /// settings.
    pub other_settings: u64,
    /// Lines that were skipped. Metrics with other settings are among the examples too.
    #[serde(flatten)]
    pub skips: SkipCounts,
    /// Whether this was a dry run, which changes nothing.
    pub dry_run: bool,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

/// Creates the metrics of a list.
///
/// # Errors
/// If the list cannot be read, the store fails, or the run is cancelled.
pub(crate) async fn import(plan: &ImportNames, work: &Work) -> Result<ImportNamesReport, VerbError> {
    let began = Instant::now();
    let mut run = Run {
        plan,
        work,
        rate: Rate::new(plan.rate),
        refusals: Refusals::default(),
        skipped: Skipped::open(plan.skipped.as_deref(), false)?,
        report: ImportNamesReport { dry_run: plan.dry_run, ..ImportNamesReport::default() },
    };
    let mut lines = Lines::open(&plan.file)?;
    work.progress.begin("names", None);
    loop {
        let mut batch = Vec::with_capacity(BATCH);
        while batch.len() < BATCH
            && let Some((number, line)) = lines.next()?
        {
            match line.and_then(|text| Line::parse(&text)) {
                Ok(line) => batch.extend(line),
                Err(why) => run.skip("unreadable_line", &format!("line {number}"), &why)?,
            }
        }
        if batch.is_empty() {
            break;
        }
        run.batch(batch).await?;
    }
    run.skipped.flush()?;
    if !plan.dry_run {
        work.stores.metadata.sync_names().await?;
    }
    run.report.seconds = began.elapsed().as_secs_f64();
    Ok(run.report)
}

struct Run<'a> {
    plan: &'a ImportNames,
    work: &'a Work,
    rate: Rate,
    refusals: Refusals,
    skipped: Skipped,
    report: ImportNamesReport,
}

impl Run<'_> {
    async fn batch(&mut self, lines: Vec<Line>) -> Result<(), VerbError> {
        let total = lines.len() as u64;
        self.report.names += total;
        let lines = self.storable(lines).await?;
        let histories = &self.work.histories;
        let metric = |line: &Line| SettingsChange {
            name: line.name.clone(),
            config: Arc::new(line.config(&histories.config_for(&line.name))),
        };
        let metrics = lines.iter().map(metric).collect();
        let turn = self.work.stop().run_until_cancelled(self.rate.take(lines.len())).await;
        turn.ok_or(VerbError::Cancelled)?;
        let creations = self.work.histories.create_metrics(metrics, self.plan.dry_run).await?;
        for (line, creation) in lines.iter().zip(creations) {
            self.note(line, creation)?;
        }
        self.work.progress.add(total);
        Ok(())
    }

    /// The lines whose names are not in the batch yet, and whose settings the store can hold.
    async fn storable(&mut self, lines: Vec<Line>) -> Result<Vec<Line>, VerbError> {
        let mut seen: HashMap<String, MetricConfig> = HashMap::new();
        let mut storable = Vec::with_capacity(lines.len());
        for line in lines {
            let config = line.config(&self.work.histories.config_for(&line.name));
            if let Some(first) = seen.get(&line.name) {
                self.report.known += 1;
                if !line.fits(first) {
                    let (first, other) = (first.to_text(), config.to_text());
                    let text = format!("an earlier line gives it {first}, a later one {other}");
                    self.other_settings(&line.name, &text)?;
                }
                continue;
            }
            if let Some(why) = self.refusals.of(&*self.work.histories, &config).await? {
                self.skip("tables", &line.name, &why)?;
            } else {
                storable.push(line.clone());
            }
            seen.insert(line.name, config);
        }
        Ok(storable)
    }

    fn note(&mut self, line: &Line, creation: Creation) -> Result<(), VerbError> {
        match creation {
            Creation::Created => self.report.created += 1,
            Creation::Starting => self.report.known += 1,
            Creation::Known(config) if line.fits(&config) => self.report.known += 1,
            Creation::Known(config) => {
                self.report.known += 1;
                let rules = self.work.histories.config_for(&line.name);
                let text = format!(
                    "it has {} here, {} in the list",
                    config.to_text(),
                    line.config(&rules).to_text()
                );
                self.other_settings(&line.name, &text)?;
            }
            Creation::Refused(why) => {
                self.skip(reason_of(&why), &line.name, &why)?;
            }
        }
        Ok(())
    }

    /// Lists a name with the skipped lines that does not count as skipped.
    fn other_settings(&mut self, name: &str, text: &str) -> Result<(), VerbError> {
        self.report.other_settings += 1;
        self.report.skips.note_example("other_settings", name, text);
        self.skipped.list("other_settings", name, text)
    }

    fn skip(&mut self, reason: &str, what: &str, text: &str) -> Result<(), VerbError> {
        self.skipped.note(&mut self.report.skips, reason, what, text)
    }
}

/// The lines of a file, one at a time.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    number: u64,
}

/// A line with its number, or why the line cannot be read.
type NumberedLine = (u64, Result<String, String>);

impl<'a> Lines<'a> {
    fn open(path: &'a Path) -> Result<Self, VerbError> {
        let file = File::open(path);
        let file = file.map_err(|error| VerbError::Invalid(format!("{}: {error}", path.display())))?;
        Ok(Self { path, reader: BufReader::new(file), number: 0 })
    }

    /// Reads the next line; `None` at the end of the file.
    fn next(&mut self) -> Result<Option<NumberedLine>, VerbError> {
        let failed = |error: std::io::Error| VerbError::Failed(format!("{}: {error}", self.path.display()));
        let mut line = Vec::new();
        let mut is_too_long = false;
        loop {
            let part = self.reader.fill_buf().map_err(failed)?;
            if part.is_empty() {
                break;
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let len = end.map_or(part.len(), |at| at + 1);
            is_too_long |= line.len() + len > LINE_BYTES_MAX;
            if !is_too_long {
                line.extend_from_slice(&part[..len]);
            }
            self.reader.consume(len);
            if end.is_some() {
                break;
            }
        }
        if line.is_empty() && !is_too_long {
            return Ok(None);
        }
        self.number += 1;
        let text = match is_too_long {
            true => Err(format!("it is longer than {LINE_BYTES_MAX} bytes")),
            false => String::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned()),
        };
        Ok(Some((self.number, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_left_out_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("names");
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        std::fs::write(&path, [b"a\n", long.as_bytes(), b"\n\xff\n\nb"].concat()).unwrap();
        let mut lines = Lines::open(&path).unwrap();
        let mut next = || lines.next().unwrap().map(|(number, text)| (number, text.ok()));
        assert_eq!(next(), Some((1, Some("a\n".to_owned()))));
        assert_eq!(next(), Some((2, None)));
        assert_eq!(next(), Some((3, None)));
        assert_eq!(next(), Some((4, Some("\n".to_owned()))));
        assert_eq!(next(), Some((5, Some("b".to_owned()))));
        assert_eq!(next(), None);
    }
}
