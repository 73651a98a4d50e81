//! `plumbago replay-traffic`: repeats recorded requests or recorded lines.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use plumbago_bench::BenchError;
use plumbago_bench::traffic::{
    LinesPlan, Replayed, RequestsPlan, SentLines, Skipped, lines as send_lines, requests,
};
use plumbago_model::Period;
use plumbago_model::rules::Pattern;

use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Requests come from access logs in the common or combined format (Apache, nginx, gunicorn), or from captures of tcpdump
in the formats pcap and pcapng. Logs have no bodies, so their POST requests are left out; captures have them. Requests
that change something are left out as well. Lines are in carbon's protocol, and their timestamps give the pace. Every
file may be compressed with gzip.

Capture requests with: tcpdump -i any -s 0 -w graphite.pcap dst port 80

Examples:
  plumbago replay-traffic --url http://127.0.0.1:8080 /var/log/nginx/access.log
  plumbago replay-traffic --url http://127.0.0.1:8080 --speed 10 --exclude 'target=carbon\\.' graphite.pcap
  plumbago replay-traffic --url http://127.0.0.1:8080 --speed 0 access.log.2.gz access.log.1 -
  plumbago replay-traffic --carbon 127.0.0.1:2003 --shift lines.txt

Exit codes: 0 done, 2 wrong command line, 4 a file cannot be read or carbon cannot be reached, 5 a request had no answer or
a status of 500 or more.";

/// Options of `plumbago replay-traffic`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayTrafficArgs {
    /// Access logs, captures or files of lines; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Send requests to this server, as http://HOST:PORT
    #[arg(long, value_name = "URL", conflicts_with = "carbon")]
    url: Option<String>,
    /// Send lines to this listener
    #[arg(long, value_name = "HOST:PORT")]
    carbon: Option<String>,
    /// Multiple of the recorded pace; 0 for as fast as possible
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Requests that may be open at the same time
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Leave out requests whose path or body matches this regular expression
    #[arg(long, value_name = "PATTERN", conflicts_with = "carbon")]
    exclude: Option<String>,
    /// Longest wait for an answer
    #[arg(long, value_name = "PERIOD", default_value = "60s")]
    timeout: Period,
    /// Move the timestamps of lines, so that the first is now
    #[arg(long, conflicts_with = "url")]
    shift: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse::<f64>().ok().filter(|speed| speed.is_finite() && *speed >= 0.0);
    speed.ok_or_else(|| "must be 0 or a factor like 0.5, 1 or 10".to_owned())
}

/// Runs `plumbago replay-traffic`.
///
/// # Errors
///
/// If an option cannot be used, a file cannot be read, the lines cannot be sent, or a request failed.
pub fn run(args: &ReplayTrafficArgs) -> Result<(), Failure> {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} replay-traffic: {pos} sent ({per_sec})  {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    let failed = |error: BenchError| Failure::new(Exit::Store, error);
    match (&args.url, &args.carbon) {
        (Some(url), _) => {
            let plan = requests_plan(args, url)?;
            let replayed = requests(&plan, &|| bar.inc(1)).map_err(failed)?;
            bar.finish_and_clear();
            if args.json {
                print_json(&replayed)?;
            } else {
                print(&of_requests(&replayed))?;
            }
            if replayed.is_well() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
        }
        (None, Some(carbon)) => {
            let (carbon, files) = (carbon.clone(), args.files.clone());
            let plan = LinesPlan { carbon, files, speed: args.speed, shift: args.shift };
            let sent = send_lines(&plan, &|| bar.inc(1)).map_err(failed)?;
            bar.finish_and_clear();
            if args.json { print_json(&sent) } else { Ok(print(&of_lines(&sent))?) }
        }
        (None, None) => Err(Failure::new(Exit::Usage, anyhow!("name a server with --url or --carbon"))),
    }
}

fn requests_plan(args: &ReplayTrafficArgs, url: &str) -> Result<RequestsPlan, Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, anyhow!(why));
    let mut plan = RequestsPlan::new(url, args.files.clone()).map_err(usage)?;
    plan.workers = usize::from(args.workers);
    plan.speed = args.speed;
    plan.timeout = Duration::from_secs(args.timeout.as_secs().max(1));
    if let Some(pattern) = &args.exclude {
        let compiled = Pattern::new(pattern);
        plan.exclude = Some(compiled.map_err(|error| usage(format!("--exclude {pattern}: {error}")))?);
    }
    Ok(plan)
}

fn of_requests(replayed: &Replayed) -> String {
    let Replayed { statuses, failed, errors, skipped, took_ms, seconds, behind_seconds, .. } = replayed;
    let mut text = format!("{} requests in {seconds:.1} s", replayed.sent());
    for (status, count) in statuses {
        let _ = write!(text, ", {count} answered with {status}");
    }
    let _ = writeln!(text, ", {failed} without an answer");
    let took: Vec<String> = took_ms.iter().map(|(percent, ms)| format!("p{percent} {ms:.1} ms")).collect();
    if !took.is_empty() {
        let _ = writeln!(text, "{}", took.join(", "));
    }
    behind(&mut text, *behind_seconds);
    left_out(&mut text, skipped);
    errors.iter().for_each(|error| text.push_str(&format!("{error}\n")));
    text
}

fn of_lines(sent: &SentLines) -> String {
    let mut text = format!("{} lines in {:.1} s\n", sent.lines, sent.seconds);
    behind(&mut text, sent.behind_seconds);
    left_out(&mut text, &sent.skipped);
    text
}

fn behind(text: &mut String, seconds: f64) {
    if seconds >= 1.0 {
        let _ = writeln!(text, "up to {seconds:.1} s behind the recorded pace");
    }
}

fn left_out(text: &mut String, skipped: &Skipped) {
    for (reason, count) in skipped {
        let _ = writeln!(text, "left out: {count} {reason}");
    }
}
