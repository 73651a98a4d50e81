//! `plumbago stats`: how many metrics and points each namespace has.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use plumbago_maintenance::question::Question as _;
use plumbago_maintenance::questions::stats::{Namespace, NamespaceSize, Stats};
use plumbago_model::rules::{Severity, read_ini};
use plumbago_model::{ByteSize, Clock as _, SystemClock};

use super::ask::rows;
use super::verb::load;
use crate::error::{Exit, Failure};
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
A file of namespaces has a section for each namespace, as for BigGraphite's bgutil:

  [frontend]
  pattern = web\\d+\\.

The pattern is a regular expression that matches from the beginning of the name. A metric is in the first namespace whose
pattern matches, or else in `none`. Without a file, all metrics are in `total`. The number of points is what all stages
hold when they are full. All metrics are counted, also tagged ones.

Examples:
  plumbago stats                                  all metrics and points
  plumbago stats --conf namespaces.conf --bytes   by namespace, with the bytes in the store
  plumbago stats --format csv --conf namespaces.conf
  plumbago stats --carbon 127.0.0.1:2003 --prefix plumbago.stats. --conf namespaces.conf

Exit codes: 0 done, 2 wrong command line, 3 the file has errors, 4 the store or carbon cannot be reached.";

/// How long a connection to carbon may take to open, and each write to it.
const CARBON_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest file of namespaces that is read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Options of `plumbago stats`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatsArgs {
    /// File of namespaces
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Also show bytes. For this, all points of the embedded store are read
    #[arg(long)]
    bytes: bool,
    /// Form of the output
    #[arg(long, value_enum, default_value = "table", conflicts_with = "json")]
    format: Format,
    /// Send the numbers as points to this carbon instead of printing them
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "json")]
    carbon: Option<String>,
    /// Prefix for the names of the points, and for the namespaces in other formats
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Look at no more than this many metrics in a second; 0 means no limit
    #[arg(long, value_name = "METRICS", default_value_t = 0)]
    rate: u32,
    /// Print a JSON object for each namespace
    #[arg(long)]
    json: bool,
}

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns for reading
    Table,
    /// Values with commas between them
    Csv,
    /// Lines of carbon's protocol
    Graphite,
}

/// Runs `plumbago stats`.
///
/// # Errors
///
/// If the configuration or the file of namespaces has errors, or the store, the daemon or carbon cannot be reached.
pub fn run(args: &StatsArgs, file: Option<&Path>) -> Result<(), Failure> {
    let namespaces = args.conf.as_deref().map(read).transpose()?.unwrap_or_default();
    let question = Stats { namespaces, bytes: args.bytes, rate: args.rate };
    let mut sizes: Vec<NamespaceSize> = Vec::new();
    rows(question, load(file)?, |row| {
        sizes.push(row);
        Ok(())
    })?;
    if sizes.iter().any(|size| size.without_tagged) {
        eprintln!("tagged series are not counted: index.mode = \"sasi\" has no names in memory");
    }
    if args.json {
        return sizes.iter().try_for_each(print_json);
    }
    let (now, prefix) = (SystemClock.now(), args.prefix.as_deref().unwrap_or_default());
    match (&args.carbon, args.format) {
        (Some(carbon), _) => send(carbon, &points(&sizes, prefix, now))?,
        (None, Format::Graphite) => print(&points(&sizes, prefix, now))?,
        (None, Format::Csv) => print(&csv(&sizes, prefix))?,
        (None, Format::Table) => print(&table(&sizes, prefix))?,
    }
    Ok(())
}

/// Reads a file of namespaces.
fn read(path: &Path) -> Result<Vec<Namespace>, Failure> {
    let wrong = |error: anyhow::Error| {
        Failure::new(Exit::Config, error.context(format!("cannot read {}", path.display())))
    };
    let bytes = std::fs::metadata(path).map_err(|error| wrong(error.into()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(anyhow!("it has {bytes} bytes, more than the limit of {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.into()))?;
    namespaces(&text).map_err(|lines| {
        let lines: Vec<String> = lines.iter().map(|line| format!("{}:{line}", path.display())).collect();
        Failure::new(Exit::Config, anyhow!(lines.join("\n")))
    })
}

/// The namespaces of a file, or all its mistakes, each as `line: text`.
fn namespaces(text: &str) -> Result<Vec<Namespace>, Vec<String>> {
    let (sections, problems) = read_ini(text);
    let problems = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let mut mistakes: Vec<String> =
        problems.map(|problem| format!("{}: {}", problem.line, problem.message)).collect();
    let mut found = Vec::new();
    for section in sections.iter().filter(|section| section.name != "DEFAULT") {
        let Some(entry) = section.entries.iter().find(|entry| entry.key == "pattern") else {
            mistakes.push(format!("{}: [{}] has no pattern", section.line, section.name));
            continue;
        };
        let namespace = Namespace { name: section.name.clone(), pattern: section.value(entry) };
        match (Stats { namespaces: vec![namespace.clone()], ..Stats::default() }).check() {
            Err(why) => mistakes.push(format!("{}: {why}", entry.line)),
            Ok(()) => found.push(namespace),
        }
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

fn table(sizes: &[NamespaceSize], prefix: &str) -> String {
    let has_bytes = sizes.iter().any(|size| size.bytes.is_some());
    let mut text = format!("{:>10} {:>14}", "metrics", "points");
    text.push_str(if has_bytes { "      bytes  namespace\n" } else { "  namespace\n" });
    for NamespaceSize { namespace, metrics, points, bytes, .. } in sizes {
        let _ = write!(text, "{metrics:>10} {points:>14}");
        if let Some(bytes) = bytes {
            let _ = write!(text, " {:>10}", ByteSize(*bytes).to_string());
        }
        let _ = writeln!(text, "  {prefix}{namespace}");
    }
    if sizes.iter().any(|size| size.estimated) {
        text.push_str("bytes are estimated from the retention, not measured\n");
    }
    text
}

fn csv(sizes: &[NamespaceSize], prefix: &str) -> String {
    let has_bytes = sizes.iter().any(|size| size.bytes.is_some());
    let mut text = String::from("namespace,metrics,points");
    text.push_str(if has_bytes { ",bytes\n" } else { "\n" });
    for NamespaceSize { namespace, metrics, points, bytes, .. } in sizes {
        let name = quoted(&format!("{prefix}{namespace}"));
        let bytes = bytes.map_or_else(String::new, |bytes| format!(",{bytes}"));
        let _ = writeln!(text, "{name},{metrics},{points}{bytes}");
    }
    text
}

fn quoted(text: &str) -> String {
    let is_plain = !text.contains(|c: char| "\",\r\n".contains(c));
    if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// Lines for carbon, with BigGraphite's names: `metrics.NAMESPACE` and `points.NAMESPACE`, and our `bytes.NAMESPACE`.
fn points(sizes: &[NamespaceSize], prefix: &str, now: i64) -> String {
    let mut text = String::new();
    for NamespaceSize { namespace, metrics, points, bytes, .. } in sizes {
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == ';';
        let name = namespace.replace(odd, "_");
        let values = [("metrics", Some(*metrics)), ("points", Some(*points)), ("bytes", *bytes)];
        for (what, value) in values.into_iter().filter_map(|(what, value)| Some((what, value?))) {
            let _ = writeln!(text, "{prefix}{what}.{name} {value} {now}");
        }
    }
    text
}

fn send(carbon: &str, lines: &str) -> Result<(), Failure> {
    let sent = || -> anyhow::Result<()> {
        let addresses = carbon.to_socket_addrs().context("cannot find its address; name it as HOST:PORT")?;
        let mut last = anyhow!("the host has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, CARBON_TIMEOUT) {
                Ok(mut stream) => {
                    stream.set_write_timeout(Some(CARBON_TIMEOUT))?;
                    stream.write_all(lines.as_bytes())?;
                    stream.shutdown(Shutdown::Write)?;
                    return Ok(());
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    };
    sent()
        .map_err(|error| Failure::new(Exit::Store, error.context(format!("cannot send to carbon {carbon}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(namespace: &str, bytes: Option<u64>) -> NamespaceSize {
        let namespace = namespace.to_owned();
        NamespaceSize { namespace, metrics: 2, points: 300, bytes, estimated: false, without_tagged: false }
    }

    #[test]
    fn every_mistake_of_a_file_is_named() {
        let text = "[a]\npattern = web\\d+\n[b]\nother = 1\n[c]\npattern = (\n";
        let mistakes = namespaces(text).unwrap_err();
        assert_eq!(mistakes.len(), 2, "{mistakes:?}");
        assert!(mistakes[0].starts_with("3: [b] has no pattern"), "{mistakes:?}");
        assert!(mistakes[1].starts_with("6: the pattern of c"), "{mistakes:?}");
        let found = namespaces("[a]\npattern = web\\d+\n[b]\npattern: .*\n").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].pattern.as_str()), ("a", "web\\d+"));
    }

    #[test]
    fn formats() {
        let sizes = [size("a b", Some(7)), size("c,\"d\"", Some(0))];
        let lines = points(&sizes[..1], "x.", 60);
        assert_eq!(lines, "x.metrics.a_b 2 60\nx.points.a_b 300 60\nx.bytes.a_b 7 60\n");
        assert_eq!(csv(&sizes, ""), "namespace,metrics,points,bytes\na b,2,300,7\n\"c,\"\"d\"\"\",2,300,0\n");
        let table = table(&[size("a", None)], "x.");
        assert_eq!(table.lines().nth(1), Some("         2            300  x.a"));
    }
}
