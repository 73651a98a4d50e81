//! `plumbago import-graphite` and `plumbago import-events`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use plumbago_graphite_client::split_user;
use plumbago_maintenance::events::EventsReport;
use plumbago_maintenance::graphite::{ImportGraphiteReport, SourceServer};
use plumbago_maintenance::verbs::graphite::{ImportEvents, ImportGraphite};

use super::own_file::OwnFile;
use super::summary::{add_counts, add_dry_run, add_skipped};
use super::verb;
use super::{moment, paths};
use crate::config::Config;
use crate::error::{Exit, Failure};

const IMPORT_EXAMPLES: &str = "\
URL is the address before /render, of graphite-web, carbonapi, BigGraphite, another Plumbago or any server like them.
For each metric, one request is sent for every stage of its retention here, as far back as the stage reaches. Points
whose step is the resolution of a stage go to this stage. Finer points are folded; coarser points go to a stage with
their step, if there is one. If the server keeps its metrics with another retention, give it with --retentions.

A new metric gets the settings of the storage rules, an existing one keeps its own. A point that is stored already
stays, unless --overwrite is given. Only the number of requests limits the load of the server: begin with few workers,
or with --rate. A request that the server is too busy to answer is sent again.

If a run was killed, the same command continues it. If a daemon uses the data directory, the daemon does the work, and must be
able to reach the server.

Examples:
  plumbago import-graphite --dry-run http://graphite.example 'servers.**'    count what would be stored
  plumbago import-graphite http://graphite.example
  plumbago import-graphite --retentions 10s:6h,60s:7d,10m:5y http://graphite.example 'servers.*.cpu.*'
  plumbago import-graphite --tags 'name=~disk\\..*' --tags dc=eu http://graphite.example
  plumbago import-graphite --from 2024-01-01 --rate 20 --user me:secret https://graphite.example/graphite";

/// How a server is reached.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// The address of the server, http or https; a name and password may be in front of the host
    #[arg(value_name = "URL")]
    url: String,
    /// Name and password for the server
    #[arg(long, value_name = "NAME:PASSWORD")]
    user: Option<String>,
    /// The authorities to trust with https, in PEM format; by default those of the system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// Options of `import-graphite`.
#[derive(Debug, Clone, Args)]
#[command(after_help = IMPORT_EXAMPLES)]
pub struct ImportArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Only metrics that match one of these globs
    #[arg(value_name = "GLOB")]
    globs: Vec<String>,
    /// Only metrics that match this glob; can be given several times
    #[arg(long, value_name = "GLOB")]
    query: Vec<String>,
    /// Tagged series that match this tag expression and all others given here
    #[arg(long, value_name = "EXPRESSION")]
    tags: Vec<String>,
    /// Leave out earlier points: a date, a period back from now like 400d, or seconds since the epoch
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<i64>,
    /// Leave out points from this time on
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<i64>,
    /// The retention of the metrics on the server, like 60s:1d,1h:1y; by default the retention that each
    /// metric has here
    #[arg(long, value_name = "RETENTION")]
    retentions: Option<String>,
    /// Requests that are sent at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: usize,
    /// Make at most this many requests in a second; 0 means no limit
    #[arg(long, value_name = "REQUESTS", default_value_t = 0)]
    rate: u32,
    /// Let the points of the server replace points that are stored already
    #[arg(long)]
    overwrite: bool,
    /// Write what was skipped to this file: reason, name and text, separated by tabs
    #[arg(long, value_name = "FILE")]
    skipped: Option<PathBuf>,
    /// Read everything, print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

const EVENTS_EXAMPLES: &str = "\
Events that are here already, with the same time, title, text and tags, are left out, so the command can be run again. If
there is no room for all (api.events_bytes), the newest are kept.

Examples:
  plumbago import-events --dry-run http://graphite.example    count what would be added
  plumbago import-events --from 400d http://graphite.example";

/// Options of `import-events`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EVENTS_EXAMPLES)]
pub struct EventsArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Leave out earlier events: a date, a period back from now like 400d, or seconds since the epoch
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<i64>,
    /// Leave out later events
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<i64>,
    /// Add at most this many events in a second; 0 means no limit
    #[arg(long, value_name = "EVENTS", default_value_t = 0)]
    rate: u32,
    /// Print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago import-graphite`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, the server does not answer, or the store or the daemon
/// fails. Metrics that were skipped are not an error: the report counts and names them, and the exit code is 5.
pub fn import(args: &ImportArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let (server, _user) = server(&args.server, &loaded.config, "import-graphite.user")?;
    let verb = ImportGraphite {
        server,
        globs: [args.globs.as_slice(), &args.query].concat(),
        tags: args.tags.clone(),
        from: args.from,
        until: args.until,
        retentions: args.retentions.clone(),
        workers: args.workers,
        rate: args.rate,
        overwrite: args.overwrite,
        skipped: paths::of_option("--skipped", args.skipped.as_deref())?,
        dry_run: args.dry_run,
    };
    verb::carry_out(&verb, loaded)?.show(args.json, summary, |report| report.skips.is_empty())
}

/// Runs `plumbago import-events`.
///
/// # Errors
///
/// If the configuration has errors, an option cannot be used, the server does not answer, events are switched
/// off here, or they cannot be written.
pub fn events(args: &EventsArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let (server, _user) = server(&args.server, &loaded.config, "import-events.user")?;
    let EventsArgs { from, until, rate, dry_run, .. } = *args;
    let verb = ImportEvents { server, from, until, rate, dry_run };
    verb::carry_out(&verb, loaded)?.show(args.json, events_summary, |_| true)
}

/// The server, and the file with the user's name and password. The file is removed when the value is dropped,
/// so the caller keeps the value until the command ends.
fn server(
    args: &ServerArgs,
    config: &Config,
    name: &str,
) -> Result<(SourceServer, Option<OwnFile>), Failure> {
    let usage = |error: anyhow::Error| Failure::new(Exit::Usage, error);
    let (url, in_address) = split_user(&args.url).map_err(|why| usage(anyhow!(why)))?;
    let user = args.user.clone().or(in_address);
    if user.as_ref().is_some_and(|user| !user.contains(':')) {
        return Err(usage(anyhow!("the user has no password; write NAME:PASSWORD")));
    }
    let file = user.map(|user| OwnFile::write(config, name, user.as_bytes())).transpose()?;
    let user_file = file.as_ref().map(|file| file.path().to_owned());
    let ca = paths::of_option("--ca", args.ca.as_deref())?;
    Ok((SourceServer { url, user_file, ca }, file))
}

fn summary(report: &ImportGraphiteReport) -> String {
    let history = &report.history;
    let rate = history.stored as f64 / report.seconds.max(0.001);
    let mut text = format!(
        "{} metrics, {} new; {} points read by {} requests, {} stored in {:.1} s ({rate:.0} per second)\n",
        report.metrics, history.created, report.points, report.requests, history.stored, report.seconds
    );
    let counts = [
        (report.stored_before, "metrics left out: the previous run has stored them"),
        (report.tagged, "tagged series left out; --tags 'name=~.+' imports them"),
        (report.without_points, "metrics left out: the server has no points of them"),
        (history.kept, "points left out: their slots were stored already"),
        (history.folded, "windows folded again from stored and imported points"),
        (report.left_out, "points left out: no stage of their metric covers them, or they have expired"),
    ];
    add_counts(&mut text, &counts);
    for (what, count) in &report.other_steps {
        text.push_str(&format!("  {count} answers with another step: {what}\n"));
    }
    if !report.other_steps.is_empty() {
        text.push_str("    the server may have finer points that were not imported; give its retention with --retentions\n");
    }
    add_skipped(&mut text, "metrics need attention", &report.skips);
    add_dry_run(&mut text, report.dry_run);
    text
}

fn events_summary(report: &EventsReport) -> String {
    let mut text = format!("{} events, {} added\n", report.events, report.added);
    let counts = [
        (report.known, "left out: they are here already"),
        (report.no_room, "left out: there is no room for them (api.events_bytes)"),
        (report.too_long, "left out: they are too long"),
    ];
    add_counts(&mut text, &counts);
    add_dry_run(&mut text, report.dry_run);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_retention_of_the_server_is_said_with_what_to_do() {
        let mut report = ImportGraphiteReport::default();
        assert!(!summary(&report).contains("--retentions"));
        report.other_steps.insert("asked for 60s, got 300s: taken into the stage of 300s".to_owned(), 2);
        let text = summary(&report);
        assert!(text.contains("2 answers with another step") && text.contains("--retentions"), "{text}");
    }
}
