//! `plumbago bench find` and `plumbago bench render`: response times over one kept-alive connection.

use std::time::Duration;

use clap::Args;
use plumbago_bench::Client;
use plumbago_bench::query::{self, Query, RenderOptions, Repeat};

use super::Names;
use crate::error::Failure;
use crate::output::print;

/// Options of both commands: the server and how many requests to send.
#[derive(Debug, Args)]
struct ServerArgs {
    /// Address of the server's Graphite API
    #[arg(long, default_value = "127.0.0.1:8080")]
    addr: String,
    /// Requests for each query, one after the other
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Time limit for each query in seconds; at least 3 requests are made
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Print a JSON list instead of a table
    #[arg(long)]
    json: bool,
}

const FIND_EXAMPLES: &str = "\
Examples:
  plumbago bench find                            searches that match the names of `bench load --names hosts`
  plumbago bench find 'servers.*.cpu.user' --count 50";

const RENDER_EXAMPLES: &str = "\
Examples:
  plumbago bench render 'sumSeries(servers.*.cpu.user)' --from -1h";

/// Options of `plumbago bench find`.
#[derive(Debug, Args)]
#[command(after_help = FIND_EXAMPLES)]
pub struct FindArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Globs to search; by default a set that matches the names of `bench load`
    globs: Vec<String>,
    /// Search for full names (/metrics/expand) instead of one level (/metrics/find)
    #[arg(long)]
    expand: bool,
    /// Scheme of the names that `bench load` sent
    #[arg(long, value_enum, default_value_t = Names::Hosts)]
    names: Names,
}

/// Options of `plumbago bench render`.
#[derive(Debug, Args)]
#[command(after_help = RENDER_EXAMPLES)]
pub struct RenderArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Targets to render; each is timed separately
    #[arg(required = true)]
    targets: Vec<String>,
    /// Start of the time range
    #[arg(long, default_value = "-24h", allow_hyphen_values = true)]
    from: String,
    /// End of the time range
    #[arg(long, default_value = "now", allow_hyphen_values = true)]
    until: String,
    /// Format of the answer
    #[arg(long, default_value = "json")]
    format: String,
    /// Largest number of points per series
    #[arg(long)]
    max_data_points: Option<u32>,
}

/// Runs `plumbago bench find`: times searches for names.
///
/// # Errors
///
/// If the server cannot be reached or refuses a request, or the output fails.
pub fn find(args: &FindArgs) -> Result<(), Failure> {
    let query = if args.expand { Query::expand } else { Query::find };
    let queries = match args.globs.as_slice() {
        [] => Query::defaults(args.names.into()),
        globs => globs.iter().map(|glob| query(glob)).collect(),
    };
    time(&args.server, &queries)
}

/// Runs `plumbago bench render`: times render requests.
///
/// # Errors
///
/// If the server cannot be reached or refuses a request, or the output fails.
pub fn render(args: &RenderArgs) -> Result<(), Failure> {
    let options = RenderOptions {
        from: args.from.clone(),
        until: args.until.clone(),
        format: args.format.clone(),
        max_data_points: args.max_data_points,
    };
    let queries: Vec<_> = args.targets.iter().map(|target| Query::render(target, &options)).collect();
    time(&args.server, &queries)
}

fn time(server: &ServerArgs, queries: &[Query]) -> Result<(), Failure> {
    let repeat = Repeat { count: server.count, time_limit: Duration::from_secs(server.seconds) };
    let timings = query::time_all(&Client::new(&server.addr), queries, repeat)?;
    let out = if server.json { query::json_list(&timings) } else { query::table(&timings) };
    Ok(print(&out)?)
}
