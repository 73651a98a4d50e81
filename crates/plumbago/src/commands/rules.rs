//! `plumbago rules`: shows which storage rules decide the settings of a metric, and changes existing metrics to the
//! settings of the rules.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use plumbago_maintenance::verbs::rules::{Applied, ApplyRules, Change, Refused};
use plumbago_model::StorageRules;
use plumbago_model::rules::RuleSource;
use plumbago_model::tags::canonical;
use serde::Serialize;

use super::verb::{self, Outcome, load};
use super::which::WhichArgs;
use crate::config::Loaded;
use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

/// The commands of `plumbago rules`. clap prints these comments as help.
#[derive(Debug, Subcommand)]
pub enum RulesCommand {
    /// Show which sections of the storage rules decide the settings of a new metric with this name, and why
    #[command(after_help = EXAMPLES)]
    Explain(ExplainArgs),
    /// Give existing metrics the retention, aggregation method and xFilesFactor of the current storage rules
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyArgs),
}

const EXAMPLES: &str = "\
A metric keeps the settings that the rules gave it when it was created; `plumbago info` shows them.

Examples:
  plumbago rules explain servers.a.cpu.user       retention, aggregation, file and line of both rules
  plumbago rules explain --json 'load;host=a'     the same for a tagged series, as JSON";

const APPLY_EXAMPLES: &str = "\
New stages are filled from the old ones: stages that stay are kept, coarser ones are folded from finer ones, and where
only a coarser stage has a value, this value goes into the slot in which its window begins. Points can arrive and be
read meanwhile. A daemon uses the rules that it has loaded: after a change of the files, send it SIGHUP first (or
restart it). While the daemon is busy, the change is slow, so that it hardly delays points; --rate 0 makes it as fast as
possible.

A metric stays as it is if the resolution of its raw stage would change, or if its stored windows cannot be read by the new
method; the result counts these, with the reason. With several daemons on one Cassandra, run the command on each of them.

Examples:
  plumbago rules apply --dry-run                  how many metrics would change, from what to what, and what is lost
  plumbago rules apply 'servers.**'               change the metrics below servers
  plumbago rules apply --rate 500                 change all metrics without tags, at most 500 per second
  plumbago rules apply --json --tag host=web1     change tagged series, and print the answer as JSON";

/// Options of `plumbago rules apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Change at most this many metrics per second; 0 for no limit. By default, while more than 10,000 points per second
    /// arrive, the change takes about a tenth of the processor time that the daemon uses for everything else
    #[arg(long)]
    rate: Option<u32>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `plumbago rules explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The name of the metric, which need not exist
    name: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The storage rules, and where they come from.
pub(super) struct Rules {
    rules: StorageRules,
    schemas: PathBuf,
    aggregation: PathBuf,
}

impl Rules {
    /// The rules of a configuration.
    ///
    /// # Errors
    ///
    /// If one of the files cannot be read.
    pub(super) fn of(loaded: &Loaded) -> Result<Self, Failure> {
        let read = |path: &Path| match path.as_os_str().is_empty() {
            true => Ok(None),
            false => std::fs::read_to_string(path)
                .map(Some)
                .with_context(|| format!("cannot read {}", path.display())),
        };
        let (schemas, aggregation) = (&loaded.config.storage_schemas, &loaded.config.storage_aggregation);
        let failed = |error| Failure::new(Exit::Config, error);
        let texts = (read(schemas).map_err(failed)?, read(aggregation).map_err(failed)?);
        // The configuration was loaded, so the rules have no errors.
        let (rules, _) = StorageRules::parse(texts.0.as_deref(), texts.1.as_deref());
        Ok(Self { rules, schemas: schemas.clone(), aggregation: aggregation.clone() })
    }
}

/// The settings of the rules for a name, and the sections that determine them.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    name: String,
    pub(super) retention: String,
    pub(super) aggregation: String,
    x_files_factor: f64,
    schema: Decider,
    aggregation_rule: Decider,
}

/// The section that determines a setting, or why there is none.
#[derive(Debug, Serialize)]
struct Decider {
    /// The file; `None` for the built-in rules.
    file: Option<PathBuf>,
    /// The section; `None` if no pattern is found in the name, so that carbon's default applies.
    section: Option<String>,
    line: Option<usize>,
    pattern: Option<String>,
    /// Sections that were tried before, and whose patterns are not found in the name.
    tried_before: usize,
}

impl Decider {
    fn new(file: &Path, source: Option<&RuleSource>, tried_before: usize) -> Self {
        Self {
            file: (!file.as_os_str().is_empty()).then(|| file.to_owned()),
            section: source.map(|source| source.section.clone()),
            line: source.map(|source| source.line),
            pattern: source.map(|source| source.pattern.clone()),
            tried_before,
        }
    }

    fn text(&self) -> String {
        let file =
            self.file.as_ref().map_or_else(|| "built-in rules".to_owned(), |file| file.display().to_string());
        match (&self.section, self.line, &self.pattern) {
            (Some(section), Some(line), Some(pattern)) => format!(
                "{file}:{line} [{section}]: the pattern {pattern} matches the name; {} section(s) before it \
                 do not",
                self.tried_before
            ),
            _ => format!(
                "{file}: none of {} patterns matches the name, so carbon's default applies",
                self.tried_before
            ),
        }
    }

    fn short(&self) -> String {
        let file =
            self.file.as_ref().map_or_else(|| "built-in rules".to_owned(), |file| file.display().to_string());
        match (&self.section, self.line) {
            (Some(section), Some(line)) => format!("[{section}] {file}:{line}"),
            _ => format!("carbon's default, no section of {file} fits"),
        }
    }
}

impl Explained {
    /// The deciding sections in one line.
    pub(super) fn line(&self) -> String {
        format!("{}; {}", self.schema.short(), self.aggregation_rule.short())
    }
}

/// Finds the sections that decide the settings of a new metric with this name.
pub(super) fn explain(rules: &Rules, name: &str) -> Explained {
    let config = rules.rules.config_for(name);
    let (schema, aggregation) = rules.rules.explain(name);
    Explained {
        name: name.to_owned(),
        retention: config.retention.spelled(),
        aggregation: config.aggregation.to_string(),
        x_files_factor: config.x_files_factor,
        schema: Decider::new(&rules.schemas, schema.source, schema.tried_before),
        aggregation_rule: Decider::new(&rules.aggregation, aggregation.source, aggregation.tried_before),
    }
}

/// Runs `plumbago rules`.
///
/// # Errors
///
/// If the configuration or the rules have errors.
pub fn run(command: &RulesCommand, file: Option<&Path>) -> Result<(), Failure> {
    let args = match command {
        RulesCommand::Explain(args) => args,
        RulesCommand::Apply(args) => return apply(args, file),
    };
    let name = canonical(&args.name).map_err(|error| {
        Failure::new(Exit::Usage, anyhow!("{:?} cannot be the name of a metric: {error}", args.name))
    })?;
    let explained = explain(&Rules::of(&load(file)?)?, &name);
    if args.json {
        return print_json(&explained);
    }
    let Explained { name, retention, aggregation, x_files_factor, schema, aggregation_rule } = explained;
    Ok(print(&format!(
        "{name}\n  retention {retention}\n    {}\n  aggregation {aggregation}, xFilesFactor {x_files_factor}\n    {}\n",
        schema.text(),
        aggregation_rule.text()
    ))?)
}

fn apply(args: &ApplyArgs, file: Option<&Path>) -> Result<(), Failure> {
    let which = args.which.which(Some("**"))?;
    let verb = ApplyRules { which, dry_run: args.dry_run, rate: args.rate };
    let Outcome { answer, .. } = verb::carry_out(&verb, load(file)?)?;
    if args.json {
        return print_json(&answer);
    }
    Ok(print(&applied_text(&answer, args.dry_run))?)
}

fn applied_text(answer: &Applied, dry_run: bool) -> String {
    let Applied { metrics, changed, points, changes, refused } = answer;
    let mut text = match dry_run {
        true => {
            format!("rules apply: {changed} of {metrics} metrics would change; dry run, nothing is changed\n")
        }
        false => format!(
            "rules apply: {changed} of {metrics} metrics changed, {points} slots and windows written into new stages\n"
        ),
    };
    for Change { from, to, metrics, example, loss } in changes {
        text.push_str(&format!("  {metrics} metrics, such as {example}: {from} -> {to}\n"));
        if !loss.is_empty() {
            text.push_str(&format!("    this loses {loss}\n"));
        }
    }
    for Refused { why, metrics, example } in refused {
        text.push_str(&format!("  {metrics} metrics stay as they are, such as {example}: {why}\n"));
    }
    text
}
