//! `plumbago config import`: reads the configuration of another program and writes one for Plumbago.

mod addresses;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use plumbago_config_import::{File, Format, Import, Program, RemarkKind, import, to_toml};

use crate::error::{Exit, Failure};
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  plumbago config import /opt/graphite/conf/carbon.conf
  plumbago config import --only cache --output imported.toml /opt/graphite/conf/carbon.conf
  plumbago config import /etc/carbon/carbon.conf /etc/graphite/local_settings.py
  plumbago config import --format go-carbon /etc/go-carbon/go-carbon.conf

Files in Python are read, not run. Each setting names the line it comes from. What is left to do by hand, and what
has no equivalent in Plumbago, is at the top with file and line. Passwords are copied. Check the result with
`plumbago --config FILE config check`.

Exit codes: 0 done, 3 something in the files could not be read.";

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Options of `plumbago config import`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// carbon.conf, go-carbon's configuration, or graphite-web's local_settings.py; several are joined
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The kind of all files; by default recognised by their names and contents
    #[arg(long, value_name = "FORMAT")]
    format: Option<FileFormat>,
    /// The programs of carbon.conf that you run. The file does not say which, so by default all are read
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',')]
    only: Vec<CarbonProgram>,
    /// Write the settings to this file, which must not exist
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print settings and remarks as JSON
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// The kind of a configuration file.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum FileFormat {
    /// carbon.conf, also with BigGraphite's keys
    Carbon,
    /// go-carbon's configuration
    GoCarbon,
    /// graphite-web's local_settings.py
    GraphiteWeb,
}

/// A program of carbon.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CarbonProgram {
    /// carbon-cache
    Cache,
    /// carbon-relay
    Relay,
    /// carbon-aggregator
    Aggregator,
}

/// Runs `plumbago config import`.
///
/// # Errors
/// If a file cannot be read or written, or contains something that cannot be understood.
pub fn run(arguments: ImportArgs) -> Result<(), Failure> {
    let format = arguments.format.map(|format| match format {
        FileFormat::Carbon => Format::Carbon,
        FileFormat::GoCarbon => Format::GoCarbon,
        FileFormat::GraphiteWeb => Format::GraphiteWeb,
    });
    let files = arguments.files.iter().map(|path| read(path, format)).collect::<Result<Vec<_>, _>>()?;
    let mut result = import(&files, &programs(&arguments.only), &Path::exists);
    addresses::settle(&mut result);
    if arguments.json {
        let text = serde_json::to_string_pretty(&result).context("cannot write the result as JSON")?;
        print(&format!("{text}\n"))?;
    } else if let Some(path) = &arguments.output {
        write_new(path, &to_toml(&result))?;
        print(&summary(&result, path))?;
    } else {
        print(&to_toml(&result))?;
    }
    let errors = result.remarks.iter().filter(|remark| remark.kind == RemarkKind::Error).count();
    match errors {
        0 => Ok(()),
        count => {
            let text = format!("{count} thing(s) could not be read; the result lists them at the top");
            Err(Failure::new(Exit::Config, anyhow!(text)))
        }
    }
}

fn programs(only: &[CarbonProgram]) -> Vec<Program> {
    if only.is_empty() {
        return Program::ALL.to_vec();
    }
    let program = |program: &CarbonProgram| match program {
        CarbonProgram::Cache => Program::Cache,
        CarbonProgram::Relay => Program::Relay,
        CarbonProgram::Aggregator => Program::Aggregator,
    };
    only.iter().map(program).collect()
}

/// The path is made absolute, because the result may be used from another directory.
fn read(path: &Path, format: Option<Format>) -> Result<File, Failure> {
    let cannot = || format!("cannot read {}", path.display());
    let wrong = |error: anyhow::Error| Failure::new(Exit::Config, error.context(cannot()));
    let bytes = fs::metadata(path).map_err(|error| wrong(error.into()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(anyhow!("it has {bytes} bytes; a configuration has at most {FILE_BYTES_MAX}")));
    }
    let absolute = std::path::absolute(path).map_err(|error| wrong(error.into()))?;
    let text = fs::read(path).map_err(|error| wrong(error.into()))?;
    let text = String::from_utf8(text).map_err(|_| wrong(anyhow!("it is not UTF-8 text")))?;
    Ok(File { path: absolute.to_string_lossy().into_owned(), text, format })
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    // The file may contain a password.
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options
        .open(path)
        .map_err(|error| Failure::new(Exit::Usage, anyhow!("cannot create {}: {error}", path.display())))?;
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

fn summary(result: &Import, path: &Path) -> String {
    let count = |kind| result.remarks.iter().filter(|remark| remark.kind == kind).count();
    format!(
        "{} setting(s) written to {}; {} thing(s) left to do, {} without an equivalent; see its first lines\n",
        result.settings.len(),
        path.display(),
        count(RemarkKind::Todo),
        count(RemarkKind::NoEquivalent)
    )
}
