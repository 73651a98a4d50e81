//! `plumbago diff`: compares the answers of two Graphite servers.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use plumbago_bench::diff::{Comparison, Difference, Side, compare, percentiles};
use plumbago_graphite_client::split_user;

use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
For each timestamp that a server has a value for, the gap is |a-b| / (|a|+|b|), and 1 if only one of them has a value. Any
server with Graphite's /render can be used. The exit code is 5 if something differs.

Examples:
  plumbago diff http://127.0.0.1:8080 http://127.0.0.1:8888 'servers.*.cpu.*'
  plumbago diff --from -7days --targets targets.txt http://127.0.0.1:8080 http://127.0.0.1:8888";

/// Options of `plumbago diff`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// The two servers, as http://HOST:PORT; NAME:PASSWORD@ may be in front of the host
    #[arg(value_name = "URL")]
    first: String,
    /// The other server
    #[arg(value_name = "URL")]
    second: String,
    /// Targets of render requests
    #[arg(value_name = "TARGET")]
    target: Vec<String>,
    /// Read further targets from this file, one per line
    #[arg(long, value_name = "FILE")]
    targets: Option<PathBuf>,
    /// Start of the range, in Graphite's notation
    #[arg(long, value_name = "TIME", default_value = "-24hours", allow_hyphen_values = true)]
    from: String,
    /// End of the range, in Graphite's notation
    #[arg(long, value_name = "TIME", default_value = "-2minutes", allow_hyphen_values = true)]
    until: String,
    /// Gaps up to this do not count, from 0 to 1
    #[arg(long, value_name = "GAP", default_value_t = 0.01)]
    threshold: f64,
    /// Show this many of the targets that differ most
    #[arg(long, value_name = "N", default_value_t = 5)]
    show: usize,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `plumbago diff`.
///
/// # Errors
///
/// If an address or the list of targets cannot be used, or the answers differ.
pub fn run(args: &DiffArgs) -> Result<(), Failure> {
    let (first_url, first) = side(&args.first)?;
    let (second_url, second) = side(&args.second)?;
    let (urls, sides) = ([first_url, second_url], [first, second]);
    let targets = targets(args)?;
    let bar = ProgressBar::new(targets.len() as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} targets  {elapsed}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let range = (args.from.as_str(), args.until.as_str());
    let found = compare(&sides, &targets, range, args.threshold, &mut || bar.inc(1));
    bar.finish_and_clear();
    if args.json {
        print_json(&found)?;
    } else {
        print(&text(&found, &urls, args.show))?;
    }
    if found.is_equal() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
}

/// The address without the user that may be in it, for messages, and the server.
fn side(address: &str) -> Result<(String, Side), Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, anyhow!(why));
    let (url, user) = split_user(address).map_err(usage)?;
    let side = Side::parse(&url, user.as_deref()).map_err(usage)?;
    Ok((url, side))
}

fn targets(args: &DiffArgs) -> Result<Vec<String>, Failure> {
    let mut targets = args.target.clone();
    if let Some(file) = &args.targets {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()));
        let text = text.map_err(|error| Failure::new(Exit::Usage, error))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        targets.extend(lines.map(str::to_owned));
    }
    match targets.is_empty() {
        true => Err(Failure::new(Exit::Usage, anyhow!("name a target, or a file of them with --targets"))),
        false => Ok(targets),
    }
}

fn text(found: &Comparison, urls: &[String; 2], show: usize) -> String {
    let mut worst: Vec<&Difference> = found.targets.iter().filter(|target| target.different > 0).collect();
    worst.sort_by(|a, b| b.share().total_cmp(&a.share()));
    let mut text = format!("{} targets compared, {} differ\n", found.targets.len(), worst.len());
    for target in worst.iter().take(show) {
        let Difference { target: name, compared, different, worst, worst_at } = target;
        text.push_str(&format!(
            "  {name}: {different} of {compared} timestamps differ, by up to {:.1} %",
            worst * 100.0
        ));
        if let Some((series, time)) = worst_at {
            text.push_str(&format!(" ({series} at {time})"));
        }
        text.push('\n');
    }
    let list = |values: Vec<(f64, f64)>, factor: f64, unit: &str| {
        let value = |(percent, value): &(f64, f64)| format!("p{percent} {:.1}{unit}", value * factor);
        values.iter().map(value).collect::<Vec<_>>().join(", ")
    };
    text.push_str(&format!("timestamps that differ, by target: {}\n", list(found.shares(), 100.0, " %")));
    for (url, took) in urls.iter().zip(&found.took_ms) {
        text.push_str(&format!("{url}: {}\n", list(percentiles(took), 1.0, " ms")));
    }
    for (side, target, error) in &found.errors {
        let url = if *side == 0 { &urls[0] } else { &urls[1] };
        text.push_str(&format!("{url}: {target}: {error}\n"));
    }
    text
}
