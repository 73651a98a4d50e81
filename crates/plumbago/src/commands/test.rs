//! `plumbago test`: sends a point to each listener of the running daemon and reads it back.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use plumbago_bench::Client;
use plumbago_bench::smoke::{self, Probe, Times, Way};
use plumbago_ingest::Listen;
use plumbago_maintenance::select::Which;
use plumbago_maintenance::verbs::delete::Delete;
use plumbago_model::{Clock as _, Period, SystemClock};
use serde_json::json;

use super::verb;
use crate::config::{Config, Loaded};
use crate::error::{Exit, Failure};
use crate::held::is_held;
use crate::output::{complain, print, print_json};
use crate::secret;

const EXAMPLES: &str = "\
Sends one point to each listener that is on, waits until /metrics/find and /render have it, and deletes the metrics
(plumbago.test.*) again. A listener with TLS is left out. Exit code 5 if something failed.

Examples:
  plumbago test                                        the daemon of ./plumbago.toml
  plumbago --config /etc/plumbago.toml test --json     for a script";

/// Options of `plumbago test`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct TestArgs {
    /// Give up on a listener after this long
    #[arg(long, value_name = "PERIOD", default_value = "10s")]
    patience: Period,
    /// Do not delete the metrics afterwards
    #[arg(long)]
    keep: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A listener that can be tested, or why it cannot.
struct Target {
    name: &'static str,
    listen: String,
    way: Result<Way, &'static str>,
}

/// Runs `plumbago test`.
///
/// # Errors
///
/// If the configuration has errors, no daemon runs, or a listener failed.
pub fn run(args: &TestArgs, file: Option<&Path>) -> Result<(), Failure> {
    let loaded = verb::load(file)?;
    let config = &loaded.config;
    if !is_held(config) {
        let dir = crate::config::shown_dir(&config.data_dir);
        let error =
            anyhow!("no daemon uses {}; start it, or name its configuration with --config", dir.display());
        return Err(Failure::new(Exit::Store, error));
    }
    let targets = targets(config);
    let run = uuid::Uuid::new_v4().simple();
    let name = |(number, target): (usize, &Target)| format!("plumbago.test.{run}.{}_{number}", target.name);
    let names: Vec<String> = targets.iter().enumerate().map(name).collect();
    let api = api(config)?;
    let patience = args.patience.0;
    let results: Vec<_> =
        targets.iter().zip(&names).map(|(target, name)| test(target, name, &api, patience)).collect();
    let relayed = config.relay.destinations.join(", ");
    let removed = if args.keep { Ok(()) } else { clean_up(names, loaded) };
    let has_failed = results.iter().any(|result| matches!(result, Some(Err(_))));
    if args.json {
        print_json(&as_json(&targets, &results))?;
    } else {
        print(&as_text(&targets, &results))?;
    }
    if !relayed.is_empty() {
        complain(&format!("the relay passed the points on to {relayed}; delete plumbago.test.* there"));
    }
    removed?;
    if has_failed { Err(Failure::said(Exit::Data)) } else { Ok(()) }
}

fn targets(config: &Config) -> Vec<Target> {
    let way = |name: &str| match name {
        "line" => Ok(Way::Line),
        "pickle" => Ok(Way::Pickle),
        "protobuf" => Ok(Way::Protobuf),
        "http" => Ok(Way::Http),
        _ => Err("this command does not speak it"),
    };
    let tcp = config.ingest.tcp.iter().map(|(protocol, section)| {
        let way = if section.tls.is_on() { Err("it has TLS") } else { way(protocol.name) };
        (protocol.name, &section.listen, way)
    });
    let udp = ("udp", &config.ingest.udp.listen, Ok(Way::Udp));
    let targets = |(name, listen, way): (_, &'_ Listen, Result<Way, _>)| {
        let target = move |address: &str| Target { name, listen: address.to_owned(), way };
        listen.iter().map(target).collect::<Vec<_>>()
    };
    tcp.chain([udp]).flat_map(targets).collect()
}

fn api(config: &Config) -> Result<Client, Failure> {
    let api = &config.api;
    let problem = match () {
        () if api.listen.is_empty() => "api.listen is empty, so that nothing can be read back",
        () if api.tls.is_on() => "the API has TLS, which this command does not speak",
        () => {
            let address =
                address(&api.listen).map_or_else(|| api.listen.clone(), |address| address.to_string());
            let client = Client::new(&(address + &api.url_prefix));
            // A port with users accepts the credentials of the operator in place of a password.
            return match api.users.file.as_os_str().is_empty() {
                true => Ok(client),
                false => Ok(client.with_token(&secret::for_requests(config)?)),
            };
        }
    };
    Err(Failure::new(Exit::Usage, anyhow!(problem)))
}

/// The address at which this machine reaches a listener. For a listener on all addresses that is a loopback address.
fn address(listen: &str) -> Option<SocketAddr> {
    let mut address = listen.to_socket_addrs().ok()?.next()?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv6() {
            std::net::Ipv6Addr::LOCALHOST.into()
        } else {
            std::net::Ipv4Addr::LOCALHOST.into()
        });
    }
    Some(address)
}

/// Tests a listener. `None` if it cannot be tested.
fn test(target: &Target, name: &str, api: &Client, patience: Duration) -> Option<Result<Times, String>> {
    let way = target.way.ok()?;
    let Some(listener) = address(&target.listen) else {
        return Some(Err(format!("{} is not an address", target.listen)));
    };
    let timestamp = u32::try_from(SystemClock.now()).unwrap_or(u32::MAX);
    let probe = Probe { name: name.to_owned(), timestamp, value: 0.5 + f64::from(timestamp % 1000) };
    Some(smoke::check(way, listener, api, &probe, patience).map_err(|error| error.to_string()))
}

/// Deletes the metrics that the test created.
fn clean_up(names: Vec<String>, loaded: Loaded) -> Result<(), Failure> {
    let which = Which { names: Some(names), ..Which::default() };
    verb::carry_out(&Delete { which, confirmed: true, ..Delete::default() }, loaded).map(|_| ())
}

fn as_json(targets: &[Target], results: &[Option<Result<Times, String>>]) -> serde_json::Value {
    let line = |(target, result): (&Target, &Option<Result<Times, String>>)| {
        let (state, times, why) = match result {
            None => ("left out", None, target.way.err().map(str::to_owned)),
            Some(Ok(times)) => ("ok", Some(*times), None),
            Some(Err(why)) => ("failed", None, Some(why.clone())),
        };
        json!({"listener": target.name, "address": target.listen, "state": state, "seconds": times, "why": why})
    };
    targets.iter().zip(results).map(line).collect()
}

fn as_text(targets: &[Target], results: &[Option<Result<Times, String>>]) -> String {
    let mut text = String::new();
    for (target, result) in targets.iter().zip(results) {
        let result = match result {
            None => format!("left out: {}", target.way.err().unwrap_or_default()),
            Some(Ok(Times { found, read })) => {
                format!("ok: found after {:.0} ms, read after {:.0} ms", found * 1000.0, read * 1000.0)
            }
            Some(Err(why)) => format!("FAILED: {}", why.trim_end()),
        };
        text.push_str(&format!("{:<9} {:<22} {result}\n", target.name, target.listen));
    }
    text
}
