//! `plumbago config check | show | default`; `import` is in `config_import`.

use std::path::Path;

use plumbago_model::StorageRules;

use crate::cli::ConfigCommand;
use crate::commands::config_import;
use crate::config::{self, DEFAULT_TOML, Loaded};
use crate::error::{Exit, Failure};
use crate::output::print;

/// Runs a `plumbago config` command. `check` prints its problems to standard output.
///
/// # Errors
///
/// If the configuration or the storage rules have errors, or the output fails.
pub fn run(command: ConfigCommand, file: Option<&Path>) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check => check(file),
        ConfigCommand::Show => show(file),
        ConfigCommand::Default => Ok(print(DEFAULT_TOML)?),
        ConfigCommand::Import(arguments) => config_import::run(arguments),
    }
}

fn check(file: Option<&Path>) -> Result<(), Failure> {
    match config::load_for_daemon(file) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                print(&format!("{warning}\n"))?;
            }
            Ok(print(&summary(&loaded))?)
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
    format!("storage rules with {} configuration(s)", rules.configs().len())
}

fn show(file: Option<&Path>) -> Result<(), Failure> {
    match config::load(file) {
        Ok(loaded) => Ok(print(&config::effective(&loaded.set))?),
        Err(problems) => Err(Failure::new(Exit::Config, problems)),
    }
}
