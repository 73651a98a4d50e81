//! `plumbago config check | show | default`; `import` is in `config_import`.

use std::path::Path;

use clap::{Args, Subcommand};
use plumbago_model::StorageRules;
use serde_json::{Value, json};

use crate::commands::config_import;
use crate::config::{self, DEFAULT_TOML, Loaded, Place, Problem};
use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

pub const CHECK_EXAMPLES: &str = "\
Examples:
  plumbago config check                 print all problems of the configuration and the rules
  plumbago config check --json          the same for a program

Exit codes: 0 no error, 3 an error.";

pub const SHOW_EXAMPLES: &str = "\
Examples:
  plumbago config show                  print all settings with the values in effect
  plumbago config show --json           the same for a program";

pub const DEFAULT_EXAMPLES: &str = "\
Examples:
  plumbago config default > new.toml    begin a configuration";

/// The commands of `plumbago config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print all problems with file and line; exit code 3 if there is an error
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Format),
    /// Print all settings with the values in effect
    #[command(after_help = SHOW_EXAMPLES)]
    Show(Format),
    /// Print all settings with their defaults and explanations
    #[command(after_help = DEFAULT_EXAMPLES)]
    Default,
    /// Turn the configuration of carbon, go-carbon, BigGraphite or graphite-web into one for Plumbago
    Import(config_import::ImportArgs),
}

/// How the result of a command is printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct Format {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs a `plumbago config` command. `check` prints its problems to standard output.
///
/// # Errors
///
/// If the configuration or the storage rules have errors, or the output fails.
pub fn run(command: ConfigCommand, file: Option<&Path>) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check(Format { json }) => check(file, json),
        ConfigCommand::Show(Format { json }) => show(file, json),
        ConfigCommand::Default => Ok(print(DEFAULT_TOML)?),
        ConfigCommand::Import(arguments) => config_import::run(arguments),
    }
}

fn check(file: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    match config::load_for_daemon(file) {
        Ok(loaded) if as_json => {
            let used = loaded.file.as_ref().map(|file| file.display().to_string());
            print_json(&json!({ "ok": true, "file": used, "problems": rows(&loaded.warnings) }))
        }
        Ok(loaded) => {
            for warning in &loaded.warnings {
                print(&format!("{warning}\n"))?;
            }
            Ok(print(&summary(&loaded))?)
        }
        Err(problems) if as_json => {
            print_json(&json!({ "ok": false, "problems": rows(problems.iter()) }))?;
            Err(Failure::said(Exit::Config))
        }
        Err(problems) => {
            let errors = problems.iter().filter(|p| p.error).count();
            print(&format!(
                "{problems}\n{errors} error(s), {} warning(s)\n",
                problems.iter().count() - errors
            ))?;
            Err(Failure::said(Exit::Config))
        }
    }
}

/// Problems as JSON objects.
fn rows<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> Vec<Value> {
    let row = |problem: &Problem| {
        let (file, line) = match &problem.place {
            Place::File(path, line) => {
                (Some(path.display().to_string()), Some(*line).filter(|line| *line > 0))
            }
            Place::Environment(_) | Place::Default => (None, None),
        };
        json!({
            "place": problem.place.to_string(),
            "file": file,
            "line": line,
            "key": problem.key,
            "message": problem.message,
            "error": problem.error,
        })
    };
    problems.into_iter().map(row).collect()
}

fn summary(loaded: &Loaded) -> String {
    let file = loaded.file.as_ref().map_or("no file, defaults".to_owned(), |f| f.display().to_string());
    let rules = kinds(&loaded.rules);
    let dir = config::shown_dir(&loaded.config.data_dir);
    format!(
        "OK: {file}; {rules}; {} can be used by {}; {} warning(s)\n",
        dir.display(),
        config::me(),
        loaded.warnings.len()
    )
}

fn kinds(rules: &StorageRules) -> String {
    format!("storage rules with {} combination(s) of settings", rules.configs().len())
}

fn show(file: Option<&Path>, as_json: bool) -> Result<(), Failure> {
    match config::load(file) {
        Ok(loaded) if as_json => print_json(&config::effective_values(&loaded.set)),
        Ok(loaded) => Ok(print(&config::effective(&loaded.set))?),
        Err(problems) => Err(Failure::new(Exit::Config, problems)),
    }
}
