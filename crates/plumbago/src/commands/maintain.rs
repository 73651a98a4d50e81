//! `plumbago clean` and `plumbago repair`: the maintenance jobs, now. Where a daemon has the data
//! directory, it is asked to run them.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use plumbago_maintenance::config::expire_problem;
use plumbago_maintenance::job::Progress;
use plumbago_maintenance::{Context, Job, JobError, Report};
use plumbago_model::Period;
use plumbago_store::Share;
use plumbago_telemetry::log;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::bench::http::Client;
use crate::config::{self, Config, Loaded};
use crate::error::{Exit, Failure};
use crate::output::print;
use crate::serve;

/// How often a daemon is asked how far it came.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// What both verbs take.
#[derive(Debug, Clone, Args)]
pub struct MaintainArgs {
    /// Only tell what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Part I of N of the rows, from 0/N on, so that several can share the work
    #[arg(long, value_name = "I/N", value_parser = share)]
    pub shard: Option<Share>,
    /// Look at so many rows in a second, at most; 0 for no limit
    #[arg(long, value_name = "N")]
    pub rate: Option<u32>,
}

/// What `clean` takes beside that.
#[derive(Debug, Clone, Args)]
pub struct CleanArgs {
    /// Delete metrics without a point for so long, like 30d; at least 6d
    #[arg(long, value_name = "PERIOD")]
    pub max_age: Option<Period>,
    #[command(flatten)]
    common: MaintainArgs,
}

fn share(text: &str) -> Result<Share, String> {
    let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
    match parts {
        Some((index, of)) if index < of => Ok(Share { index, of }),
        _ => Err(format!("{text:?} is not I/N with I below N, like 0/4")),
    }
}

/// Removes what no reader can use, empty directories, and what nobody writes any more.
pub fn clean(args: &CleanArgs, file: Option<&Path>) -> Result<(), Failure> {
    let wanted = ["clean_rows", "clean_directories", "expire"];
    run(&wanted, &args.common, args.max_age, file)
}

/// Makes directories that metrics lack, and removes rows that no reader can use.
pub fn repair(args: &MaintainArgs, file: Option<&Path>) -> Result<(), Failure> {
    run(&["repair_directories", "clean_rows"], args, None, file)
}

fn run(
    wanted: &[&str],
    args: &MaintainArgs,
    max_age: Option<Period>,
    file: Option<&Path>,
) -> Result<(), Failure> {
    let mut loaded = config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))?;
    if is_held(&loaded.config) {
        if args.shard.is_some() || max_age.is_some() || args.rate.is_some() {
            let error = anyhow!(
                "a daemon has {}: it runs jobs with its own settings ([maintenance]), without --shard, \
                 --max-age and --rate",
                loaded.config.data_dir.display()
            );
            return Err(Failure::new(Exit::Usage, error));
        }
        return ask_daemon(&loaded.config, wanted, args.dry_run);
    }
    if let Some(after) = max_age {
        if let Some(problem) = expire_problem(after.0) {
            return Err(Failure::new(Exit::Usage, anyhow!("--max-age: {problem}")));
        }
        loaded.config.maintenance.expire_after = after.0;
    }
    if let Some(rate) = args.rate {
        loaded.config.maintenance.rows_per_second = rate;
    }
    log::init("warn");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run_here(wanted, args, loaded))
}

/// True when a process has the store's directory.
pub fn is_held(config: &Config) -> bool {
    // Every daemon has a journal, whichever store it has.
    let lock = File::open(config.journal_dir().join("lock"));
    lock.is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

async fn run_here(wanted: &[&str], args: &MaintainArgs, loaded: Loaded) -> Result<(), Failure> {
    serve::at_rest(loaded, async |config: &Config, core: &serve::Core| {
        let jobs = serve::jobs_of(&config.maintenance, core);
        let stop = CancellationToken::new();
        let interrupted = stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                interrupted.cancel();
            }
        });
        let turn = core.turn();
        for name in wanted {
            let Some(job) = jobs.iter().find(|job| job.name() == *name) else { continue };
            let turn_name = turn_name(name, args.shard);
            let stop = stop.child_token();
            let taken = turn.take(&turn_name, &stop).await;
            if !taken.map_err(|error| Failure::new(Exit::Store, error))? {
                let error = anyhow!("{name}: another process is at it");
                return Err(Failure::new(Exit::Store, error));
            }
            let context = Context {
                dry_run: args.dry_run,
                share: args.shard.unwrap_or(Share::ALL),
                stop,
                ..core.job_context(config)
            };
            let result = run_job(&**job, context).await;
            turn.give_back(&turn_name).await;
            result?;
        }
        Ok(())
    })
    .await
}

/// Those who share the work have a turn for each part.
fn turn_name(job: &str, shard: Option<Share>) -> String {
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
            let hint = anyhow!(error).context("the next run goes on from there");
            Err(Failure::new(Exit::Internal, hint))
        }
        Err(error) => Err(Failure::new(Exit::Store, error)),
    }
}

/// A spinner on a terminal, nothing elsewhere.
fn bar(job: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}  {elapsed}");
    let bar = ProgressBar::new_spinner().with_prefix(job);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, report: &Report) {
    bar.set_message(format!("{} looked at{}", report.scanned, counts(", ", &report.done)));
}

fn counts(separator: &str, counts: &BTreeMap<String, u64>) -> String {
    counts.iter().map(|(kind, n)| format!("{separator}{kind} {n}")).collect()
}

fn summary(report: &Report, dry_run: bool, grace: Duration) -> String {
    let mut text = format!("{}: {} looked at", report.job, report.scanned);
    text.push_str(&counts(", ", &report.done));
    if !report.spared.is_empty() {
        text.push_str(&format!("; left alone{}", counts(" ", &report.spared)));
    }
    if report.resumed {
        text.push_str("; went on from where an earlier run was ended");
    }
    text.push_str(if dry_run { "; dry run, nothing is changed\n" } else { "\n" });
    if report.job.starts_with("clean") && !report.done.is_empty() && !grace.is_zero() {
        let seconds = grace.as_secs();
        text.push_str(&format!(
            "  of these, what was written in the last {seconds} s stays for a later run (maintenance.grace)\n"
        ));
    }
    for (kind, names) in &report.examples {
        text.push_str(&format!("  {kind}: {}\n", names.join(", ")));
    }
    text
}

fn ask_daemon(config: &Config, wanted: &[&str], dry_run: bool) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| {
        let hint = format!("a daemon has {}, and its admin port does not help", config.data_dir.display());
        Failure::new(Exit::Store, error.context(hint))
    };
    let mut client = Client::new(&config.admin.listen).with_token(&config.admin.token);
    let known = status(&mut client).map_err(failed)?;
    for name in wanted.iter().filter(|name| known.iter().any(|job| job["job"] == **name)) {
        let answer = client.post(&format!("/admin/maintenance?job={name}&dry_run={dry_run}"));
        let answer = answer.context("ask for a run").map_err(failed)?;
        if answer.status != 200 {
            return Err(failed(anyhow!("it answers {}", String::from_utf8_lossy(&answer.body).trim())));
        }
        let report = follow(&mut client, name, &known).map_err(failed)?;
        print(&summary(&report, dry_run, config.maintenance.grace))?;
    }
    Ok(())
}

fn status(client: &mut Client) -> anyhow::Result<Vec<Value>> {
    let answer = client.get("/admin/maintenance").context("ask how jobs stand")?;
    anyhow::ensure!(answer.status == 200, "/admin/maintenance answers {}", answer.status);
    serde_json::from_slice(&answer.body).context("read how jobs stand")
}

/// Waits for the run that was asked for; one that was at work before comes first.
fn follow(client: &mut Client, name: &str, before: &[Value]) -> anyhow::Result<Report> {
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
            return serde_json::from_value(job["report"].clone()).context("read the report");
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
