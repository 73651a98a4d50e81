//! `plumbago clean` and `plumbago repair`: run maintenance jobs now. If a daemon uses the data directory,
//! they ask the daemon to run the jobs.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use plumbago_bench::Client;
use plumbago_maintenance::config::expire_problem;
use plumbago_maintenance::job::Progress;
use plumbago_maintenance::windows::Selection;
use plumbago_maintenance::{Context, Job, JobError, Report};
use plumbago_model::Period;
use plumbago_store::Share;
use plumbago_store_embedded::damaged_files;
use plumbago_telemetry::{DAMAGED_TEXT, Found, log};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::rescue::{self, RescueArgs};
use super::{expect_data, since};
use crate::config::{self, Config, Loaded, StoreKind};
use crate::error::{Exit, Failure};
use crate::output::print;
use crate::secret;
use crate::serve;

/// Pause between two requests for the progress of a daemon's job.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Options of all commands.
#[derive(Debug, Clone, Default, Args)]
pub struct MaintainArgs {
    /// Print what would be done and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Process part I of N of the rows (0/N to N-1/N), so that several processes can share the work
    #[arg(long, value_name = "I/N", value_parser = share)]
    pub shard: Option<Share>,
    /// Most rows to read per second; 0 for no limit
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
}

const CLEAN_EXAMPLES: &str = "\
Examples:
  plumbago clean --dry-run                       what would be removed
  plumbago clean --dry-run --max-age 90d         metrics without a point for 90 days, too
  plumbago clean --shard 0/4                     the first quarter of the rows";

const REPAIR_EXAMPLES: &str = "\
Examples:
  plumbago repair --dry-run                      what would be repaired
  plumbago repair windows --dry-run              windows that differ from their raw points";

/// Options of `clean`.
#[derive(Debug, Clone, Args)]
#[command(after_help = CLEAN_EXAMPLES)]
pub struct CleanArgs {
    /// Delete metrics without a point for this long, like 30d; at least 6d
    #[arg(long, value_name = "PERIOD")]
    pub max_age: Option<Period>,
    #[command(flatten)]
    common: MaintainArgs,
}

/// Options of `repair`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = REPAIR_EXAMPLES)]
pub struct RepairArgs {
    #[command(subcommand)]
    what: Option<RepairCommand>,
    #[command(flatten)]
    common: MaintainArgs,
}

/// The commands of `plumbago repair`. clap prints these comments as help.
#[derive(Debug, Clone, Subcommand)]
pub enum RepairCommand {
    /// Fold closed windows of the coarser stages again from their raw points, and correct those that differ
    #[command(after_help = WINDOWS_EXAMPLES)]
    Windows(WindowsArgs),
    /// Make a damaged store open again, after a start refused it
    #[command(after_help = rescue::EXAMPLES)]
    Store(RescueArgs),
}

const WINDOWS_EXAMPLES: &str = "\
Windows differ after a data directory was lost, or if several daemons of a replica got the same points. A window is
compared 10 minutes (maintenance.repair_windows_after) and 60 raw slots after its end, and only while its raw points
are there. Run it with a daemon of each replica: each corrects the windows of its own replica.

Examples:
  plumbago repair windows --dry-run              count the windows of the last two days that differ
  plumbago repair windows 'web.*.requests' --from 7d --until 1d
  plumbago repair windows --from 1700000000      everything since then";

/// Options of `repair windows`.
#[derive(Debug, Clone, Args)]
pub struct WindowsArgs {
    /// Only metrics whose name matches this glob
    #[arg(value_name = "GLOB")]
    glob: Option<String>,
    /// Only windows that end after this time: a period back from now like 7d, or seconds since the epoch
    /// [default: 2d]
    #[arg(long, value_name = "TIME", value_parser = since)]
    from: Option<i64>,
    /// Only windows that begin before this time [default: now]
    #[arg(long, value_name = "TIME", value_parser = since)]
    until: Option<i64>,
    #[command(flatten)]
    common: MaintainArgs,
}

/// The jobs that a command runs.
struct Wanted<'a> {
    jobs: &'a [&'a str],
    args: &'a MaintainArgs,
    max_age: Option<Period>,
    selection: Selection,
}

fn share(text: &str) -> Result<Share, String> {
    let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((index, of)) if index < of => Ok(Share { index, of }),
        _ => Err(format!("{text:?} is not I/N with I below N, like 0/4")),
    }
}

/// Runs `plumbago clean`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, the store or the daemon cannot be reached,
/// another process runs one of the jobs, or a job fails or is interrupted.
pub fn clean(args: &CleanArgs, file: Option<&Path>) -> Result<(), Failure> {
    let jobs = &["clean_rows", "clean_directories", "expire"];
    let selection = Selection::default();
    run(&Wanted { jobs, args: &args.common, max_age: args.max_age, selection }, file)
}

/// Runs `plumbago repair`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, the store or the daemon cannot be reached,
/// another process runs one of the jobs, or a job fails or is interrupted.
pub fn repair(args: &RepairArgs, file: Option<&Path>) -> Result<(), Failure> {
    let windows = match &args.what {
        Some(RepairCommand::Windows(windows)) => windows,
        Some(RepairCommand::Store(args)) => return rescue::run(args, file),
        None => {
            let jobs = &["repair_directories", "clean_rows"];
            let selection = Selection::default();
            return run(&Wanted { jobs, args: &args.common, max_age: None, selection }, file);
        }
    };
    let WindowsArgs { glob, from, until, common } = windows.clone();
    let selection = Selection { names: glob, from, until };
    selection.check().map_err(|error| Failure::new(Exit::Usage, anyhow!("GLOB: {error}")))?;
    run(&Wanted { jobs: &["repair_windows"], args: &common, max_age: None, selection }, file)
}

fn run(wanted: &Wanted<'_>, file: Option<&Path>) -> Result<(), Failure> {
    let Wanted { args, max_age, .. } = wanted;
    let mut loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    if wanted.jobs.contains(&"repair_windows") && loaded.config.store.kind != StoreKind::Cassandra {
        return Ok(print("the embedded store has one writer, so its windows need no repair (store.kind)\n")?);
    }
    if is_held(&loaded.config) {
        if args.shard.is_some() || max_age.is_some() || args.rate.is_some() {
            let error = anyhow!(
                "a daemon uses {}: it runs jobs with its own settings ([maintenance]), without --shard, \
                 --max-age and --rate",
                loaded.config.data_dir.display()
            );
            return Err(Failure::new(Exit::Usage, error));
        }
        return ask_daemon(&loaded.config, wanted);
    }
    if let Some(after) = *max_age {
        if let Some(problem) = expire_problem(after.0) {
            return Err(Failure::new(Exit::Usage, anyhow!("--max-age: {problem}")));
        }
        loaded.config.maintenance.expire_after = after.0;
    }
    if let Some(rate) = args.rate {
        loaded.config.maintenance.rows_per_second = rate;
    }
    if loaded.config.store.kind == StoreKind::Embedded {
        expect_data(&loaded.config, "store")?;
    } else if !loaded.config.data_dir.is_dir() {
        expect_data(&loaded.config, "spool")?;
    }
    log::init("warn");
    let damaged = if args.dry_run { damaged_files(&loaded.config.store_dir()) } else { Vec::new() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run_here(wanted, loaded))?;
    for file in &damaged {
        print(&format!("{} is damaged\n", file.display()))?;
    }
    if damaged.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
}

/// Returns whether a daemon is using the data directory.
pub fn is_held(config: &Config) -> bool {
    // A daemon locks its journal whichever store it uses.
    let lock = File::open(config.journal_dir().join("lock"));
    lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

async fn run_here(wanted: &Wanted<'_>, loaded: Loaded) -> Result<(), Failure> {
    let args = wanted.args;
    if loaded.config.store.kind == StoreKind::Cassandra {
        // The stores wait long for a server that is away. Whoever waits for a command should know soon.
        super::cassandra::connect(&loaded.config.store.cassandra).await?;
    }
    serve::at_rest(loaded, async |config: &Config, core: &serve::Core| {
        let jobs = serve::jobs_of(config, core);
        let stop = CancellationToken::new();
        let interrupted = stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.cancel();
            }
        });
        let lease = core.job_lease();
        for name in wanted.jobs {
            let Some(job) = jobs.iter().find(|job| job.name() == *name) else { continue };
            let lease_name = lease_name(job.lease(), args.shard);
            let stop = stop.child_token();
            let taken = lease.take(&lease_name, &stop).await;
            if !taken.map_err(|error| Failure::new(Exit::Store, error))? {
                let error = anyhow!("{name}: another process is running this job");
                return Err(Failure::new(Exit::Store, error));
            }
            let context = Context {
                dry_run: args.dry_run,
                share: args.shard.unwrap_or(Share::ALL),
                selection: wanted.selection.clone(),
                stop,
                ..core.job_context(config)
            };
            let result = run_job(&**job, context).await;
            lease.release(&lease_name).await;
            result?;
        }
        let found = core.damage().list();
        for Found { path, text } in &found {
            print(&format!("{} is damaged: {text}\n", path.display()))?;
        }
        if found.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
    })
    .await
}

/// Returns the name of the lease of a job. With `--shard`, each part of the job has a lease of its own.
fn lease_name(job: &str, shard: Option<Share>) -> String {
    shard.map_or_else(|| job.to_owned(), |Share { index, of }| format!("{job}.{index}-of-{of}"))
}

async fn run_job(job: &dyn Job, context: Context) -> Result<(), Failure> {
    let bar = bar(job.name());
    let shown = bar.clone();
    let (dry_run, grace) = (context.dry_run, context.grace);
    let progress = Progress(Arc::new(move |report: &Report| show(&shown, report)));
    let result = job.run(&Context { progress, ..context }).await;
    bar.finish_and_clear();
    match result {
        Ok(report) => Ok(print(&summary(&report, dry_run, grace))?),
        Err(error @ JobError::Stopped { .. }) => {
            let hint = anyhow!(error).context("the next run continues where this one stopped");
            Err(Failure::new(Exit::Internal, hint))
        }
        Err(error) => Err(Failure::new(Exit::Store, error)),
    }
}

/// Makes a spinner. It shows nothing if the output is not a terminal.
fn bar(job: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}  {elapsed}");
    let bar = ProgressBar::new_spinner().with_prefix(job);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, report: &Report) {
    bar.set_message(format!(
        "{} rows read{}{}",
        report.scanned,
        compared(report),
        counts(", ", &report.done)
    ));
}

fn compared(report: &Report) -> String {
    if report.windows > 0 { format!(", {} windows compared", report.windows) } else { String::new() }
}

fn counts(separator: &str, counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(kind, n)| format!("{separator}{kind} {n}")).collect()
}

fn summary(report: &Report, dry_run: bool, grace: Duration) -> String {
    let mut text = format!("{}: {} rows read{}", report.job, report.scanned, compared(report));
    text.push_str(&counts(", ", &report.done));
    if !report.kept.is_empty() {
        text.push_str(&format!("; left alone{}", counts(" ", &report.kept)));
    }
    if report.resumed {
        text.push_str("; continued from where an earlier run stopped");
    }
    text.push_str(if dry_run { "; dry run, nothing is changed\n" } else { "\n" });
    if report.job.starts_with("clean") && !report.done.is_empty() && !grace.is_zero() {
        let seconds = grace.as_secs();
        text.push_str(&format!(
            "  rows written in the last {seconds} s are kept for a later run (maintenance.grace)\n"
        ));
    }
    for (kind, names) in &report.examples {
        text.push_str(&format!("  {kind}: {}\n", names.join(", ")));
    }
    text
}

fn ask_daemon(config: &Config, wanted: &Wanted<'_>) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| {
        let hint = format!("a daemon uses {}, but its admin port cannot be used", config.data_dir.display());
        Failure::new(Exit::Store, error.context(hint))
    };
    let client = Client::new(&config.admin.listen).with_token(&secret::for_requests(config).map_err(failed)?);
    let known = status(&client).map_err(failed)?;
    let dry_run = wanted.args.dry_run;
    for name in wanted.jobs.iter().filter(|name| known.iter().any(|job| job["job"] == **name)) {
        let answer = client.post(&format!("/admin/maintenance?{}", query(name, wanted)));
        let answer = answer.context("cannot request a run").map_err(failed)?;
        if answer.status != 200 {
            return Err(failed(anyhow!(
                "the daemon answered {}",
                String::from_utf8_lossy(&answer.body).trim()
            )));
        }
        let report = follow(&client, name, &known).map_err(failed)?;
        print(&summary(&report, dry_run, config.maintenance.grace))?;
    }
    check_damage(&client).map_err(failed)?
}

/// Prints the damage that the daemon has found.
///
/// # Errors
/// If the daemon does not answer. The inner error says that there is damage.
fn check_damage(client: &Client) -> anyhow::Result<Result<(), Failure>> {
    let ready: Value = serde_json::from_slice(&client.get("/readyz")?.body)?;
    let warnings = ready["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let damage: Vec<&str> = warnings.filter(|warning| warning.starts_with(DAMAGED_TEXT)).collect();
    for warning in &damage {
        print(&format!("{warning}\n"))?;
    }
    Ok(if damage.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Data)) })
}

fn query(job: &str, wanted: &Wanted<'_>) -> String {
    let Selection { names, from, until } = &wanted.selection;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("job", job).append_pair("dry_run", &wanted.args.dry_run.to_string());
    let times =
        [("from", from), ("until", until)].map(|(key, time)| (key, time.map(|time| time.to_string())));
    for (key, value) in times.into_iter().chain([("glob", names.clone())]) {
        query.extend_pairs(value.map(|value| (key, value)));
    }
    query.finish()
}

fn status(client: &Client) -> anyhow::Result<Vec<Value>> {
    let answer = client.get("/admin/maintenance").context("cannot read the state of the jobs")?;
    anyhow::ensure!(answer.status == 200, "/admin/maintenance answered {}", answer.status);
    serde_json::from_slice(&answer.body).context("cannot parse the state of the jobs")
}

/// Waits for the requested run of a job and returns its report. `before` is the state of the jobs when the
/// run was requested: a run that was in progress then does not count.
fn follow(client: &Client, name: &str, before: &[Value]) -> anyhow::Result<Report> {
    let runs = |jobs: &[Value]| {
        jobs.iter().find(|job| job["job"] == name).and_then(|job| job["runs"].as_u64()).unwrap_or(0)
    };
    let running = before.iter().any(|job| job["job"] == name && job["running"] == true);
    let wanted = runs(before) + 1 + u64::from(running);
    loop {
        let jobs = status(client)?;
        if runs(&jobs) >= wanted {
            let job = jobs.into_iter().find(|job| job["job"] == name).unwrap_or_default();
            if let Some(error) = job["error"].as_str() {
                anyhow::bail!("{error}");
            }
            return serde_json::from_value(job["report"].clone()).context("cannot parse the job's report");
        }
        thread::sleep(ASK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_spelled_as_i_of_n() {
        assert_eq!(share("0/4"), Ok(Share { index: 0, of: 4 }));
        assert_eq!(share("3/4"), Ok(Share { index: 3, of: 4 }));
        for wrong in ["4/4", "1", "a/b", "-1/2", "0/0"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
