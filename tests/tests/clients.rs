//! Unmodified clients of KairosDB and OpenTSDB: only host and port are changed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use plumbago_kairosdb_node::kairosdb;
use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::wait::{wait_ok, wait_until};

use crate::senders::now;
use crate::users;

fn start() -> (Setup, Daemon) {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n");
    setup.set("ingest.opentsdb.listen", "127.0.0.1:0");
    for key in ["api.point_writes", "api.deletes"] {
        setup.set(key, "true");
    }
    let daemon = setup.start();
    (setup, daemon)
}

fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

fn java(arguments: &[&str]) -> Option<String> {
    let home = counterpart::clients()?;
    let mut command = Command::new("java");
    command.arg("-cp").arg(format!("{}/classes:{}/jars/*", home.display(), home.display()));
    command.arg("Clients").args(arguments);
    Some(run(command))
}

fn api(daemon: &Daemon) -> String {
    format!("http://{}", daemon.api())
}

/// Repeats a query until it returns a client's points.
fn points(daemon: &Daemon, target: &str) -> Vec<(i64, f64)> {
    daemon.wait_points(target, now() - 3000, now() + 60)
}

/// The clients of KairosDB print the same with the daemon as with a KairosDB.
#[test]
fn clients_of_kairosdb_see_no_difference() {
    let (Some(real), Some(python)) = (kairosdb::for_test(), counterpart::python_clients()) else { return };
    let (_setup, daemon) = start();
    let at = now();
    let servers = [(real.http(), real.telnet()), (daemon.api(), daemon.address("opentsdb tcp"))];
    let java = servers.map(|(api, _)| java(&["client", &format!("http://{api}"), &at.to_string()]));
    let [Some(expected), Some(found)] = java else { return };
    assert!(expected.contains("limited client.load {dc=[x], host=[b]}"), "{expected}");
    assert_eq!(found, expected);

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/clients.py");
    let [expected, found] = servers.map(|(api, lines)| {
        let mut command = Command::new(&python);
        command.arg(script).args([format!("http://{api}"), lines.port().to_string(), at.to_string()]);
        run(command)
    });
    assert_eq!(found, expected);
    let requests = points(&daemon, "seriesByTag('name=potsdb.requests')");
    assert_eq!(requests, (0..10).rev().map(|i| (at - i, i as f64 * 1.5)).collect::<Vec<_>>());
    assert_eq!(points(&daemon, "potsdb.huge;code=200;host=web-2"), [(at, 2f64.powi(40))]);
    assert_eq!(daemon.ledger().received, 120 + 10 + 11);
    daemon.stop_well();
}

/// Both registries send with a user's name and password.
#[test]
fn micrometer_publishes() {
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n").set("api.point_writes", "true");
    if users::htpasswd(&setup, &["-cbB", "users", "shop", "a password"]).is_none() {
        return;
    }
    let file = setup.path().join("users");
    setup.set("api.users.file", file.to_str().unwrap()).set("api.users.required_for", "writes");
    let daemon = setup.start();
    let url = |path: &str| format!("{}{path}", api(&daemon));
    let (kairos, opentsdb) = (url("/api/v1/datapoints"), url("/api/put"));
    for (registry, url, password) in [
        ("kairos", &kairos, "wrong"),
        ("kairos", &kairos, "a password"),
        ("opentsdb", &opentsdb, "a password"),
    ] {
        if java(&[registry, url, "shop", password]).is_none() {
            return;
        }
        let taken = daemon.ledger().received;
        assert_eq!(taken == 0, password == "wrong", "{taken}");
    }
    for (target, value) in [
        ("orders_placed;country=TR;service=shop", 3.0),
        ("queue_length;service=shop", 17.0),
        ("http_requests_sum;service=shop;uri=/a%20b", 250.0),
        ("orders_placed_total;country=TR;service=shop", 3.0),
        ("http_requests_duration_seconds_sum;service=shop;uri=/a%20b", 0.25),
    ] {
        let found = points(&daemon, target);
        assert!(found.iter().any(|(_, found)| *found == value), "{target}: {found:?}");
    }
    assert_eq!(daemon.ledger().rejected, 0);
    daemon.stop_well();
}

/// By telnet and by HTTP. Telegraf sends HTTP requests with a misspelt content type.
#[test]
fn telegraf_writes() {
    let Some(home) = counterpart::clients() else { return };
    for by in ["tcp", "http"] {
        let (_setup, daemon) = start();
        let at = now();
        let address = if by == "tcp" { daemon.address("opentsdb tcp") } else { daemon.api() };
        let mut command = Command::new(home.join("telegraf"));
        command.args([format!("{by}://{}", address.ip()), address.port().to_string(), at.to_string()]);
        run(command);
        for i in 0..3 {
            let of = |name: &str| points(&daemon, &format!("tg.cpu_{name};cpu=cpu{i};host=web_1"));
            assert_eq!(of("usage"), [(at - i, 12.25 + i as f64)], "{by}");
            assert_eq!(of("count"), [(at - i, (i * 1_000_000_007) as f64)], "{by}");
        }
        let ledger = daemon.ledger_at(6);
        assert_eq!((ledger.received, ledger.rejected), (6, 0), "{by}");
        daemon.stop_well();
    }
}

/// collectd sends the same values in three ways: KairosDB's requests, OpenTSDB's lines and Graphite's lines.
/// It has one thread for all its outputs: two that create one of its files at the same time damage it.
#[test]
fn collectd_writes_by_all_its_plugins() {
    let Some((mut command, root)) = counterpart::debian("collectd") else { return };
    let (setup, daemon) = start();
    let base = setup.path().join("collectd");
    std::fs::create_dir(&base).unwrap();
    let (api, lines, graphite) = (daemon.api(), daemon.address("opentsdb tcp"), daemon.line());
    let configuration = setup.file(
        "collectd.conf",
        &format!(
            "Hostname \"host.example\"\nFQDNLookup false\nInterval 1\nWriteThreads 1\nBaseDir \"{base}\"\nPIDFile \"{base}/pid\"\n\
             PluginDir \"{root}/usr/lib/collectd\"\nTypesDB \"{root}/usr/share/collectd/types.db\"\n\
             LoadPlugin load\nLoadPlugin memory\nLoadPlugin csv\nLoadPlugin write_http\nLoadPlugin write_tsdb\n\
             LoadPlugin write_graphite\n\
             <Plugin csv>\nDataDir \"{base}/csv\"\n</Plugin>\n\
             <Plugin write_http>\n<Node \"a\">\nURL \"http://{api}/api/v1/datapoints\"\nFormat \"KAIROSDB\"\n\
             </Node>\n</Plugin>\n\
             <Plugin write_tsdb>\n<Node>\nHost \"127.0.0.1\"\nPort \"{}\"\nHostTags \"dc=x\"\n</Node>\n</Plugin>\n\
             <Plugin write_graphite>\n<Node \"c\">\nHost \"127.0.0.1\"\nPort \"{}\"\nProtocol \"tcp\"\n\
             </Node>\n</Plugin>\n",
            lines.port(),
            graphite.port(),
            base = base.display(),
            root = root.display(),
        ),
    );
    command.arg("-f").arg("-C").arg(configuration);
    let mut collectd = Guarded::start(command, &base.join("log"));
    for name in ["host_example.load.load.shortterm", "host_example.memory.memory-free"] {
        wait_until("four seconds of points", || points(&daemon, name).len() >= 4);
    }
    collectd.signal(Signal::SIGTERM);
    collectd.wait();
    for (plugin, series, targets) in [
        (
            "load",
            "load",
            [
                "host_example.load.load.shortterm",
                "collectd.load;ds=shortterm;host=host.example;type=load",
                "load.load.shortterm;dc=x;fqdn=host.example",
            ],
        ),
        (
            "memory",
            "memory-free",
            [
                "host_example.memory.memory-free",
                "collectd.memory;host=host.example;type=memory;type_instance=free",
                "memory.free.memory;dc=x;fqdn=host.example",
            ],
        ),
    ] {
        let samples = samples(&base.join("csv/host.example").join(plugin), series);
        assert!(samples.len() >= 4, "{series}: {samples:?}");
        for target in targets {
            let missing = || missing_sample(&samples, &points(&daemon, target));
            wait_ok(target, || missing().map_or(Ok(()), |missing| Err(format!("{missing:?}"))));
            for point in points(&daemon, target) {
                assert!(
                    samples.iter().any(|sample| is_of(point, *sample)),
                    "{target}: {point:?} {samples:?}"
                );
            }
        }
    }
    assert_eq!(daemon.ledger().rejected, 0);
    daemon.stop_well();
}

/// The samples that collectd wrote to its files of a series: seconds since the epoch, and the first value.
fn samples(directory: &Path, series: &str) -> Vec<(f64, f64)> {
    let mut samples = Vec::new();
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        // A file for each day: `load-2026-11-28`.
        let day = path.file_name().unwrap().to_str().unwrap().strip_prefix(series);
        if day.is_none_or(|day| !day.starts_with("-2")) {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        samples.extend(text.lines().filter(|line| !line.starts_with("epoch")).map(|line| {
            let mut fields = line.split(',').map(|field| field.parse::<f64>().unwrap());
            (fields.next().unwrap(), fields.next().unwrap())
        }));
    }
    samples.sort_by(|a, b| a.0.total_cmp(&b.0));
    samples
}

/// Whether a stored point may be of a sample: collectd rounds the times of lines, and the daemon cuts KairosDB's
/// milliseconds. In the files, times have three decimals and values six.
fn is_of((at, value): (i64, f64), (sampled, expected): (f64, f64)) -> bool {
    (at as f64 - sampled).abs() <= 1.01 && (value - expected).abs() <= 1e-6
}

/// A sample that no point is of. Of two samples in one second, the first one is not stored.
fn missing_sample(samples: &[(f64, f64)], points: &[(i64, f64)]) -> Option<(f64, f64)> {
    let is_stored = |sample| points.iter().any(|point| is_of(*point, sample));
    let is_replaced = |n: usize| samples.get(n + 1).is_some_and(|next| next.0 - samples[n].0 < 1.01);
    (0..samples.len()).find(|n| !is_replaced(*n) && !is_stored(samples[*n])).map(|n| samples[n])
}

/// Lines and requests can both arrive over TLS on the same port.
#[test]
fn lines_and_requests_come_over_tls() {
    let (Some(mut curl), Some(mut openssl)) = (counterpart::on_path("curl"), counterpart::on_path("openssl"))
    else {
        return;
    };
    let certificate =
        |name: &str| format!("{}/../crates/ingest/testdata/tls/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1d\n").set("api.point_writes", "true");
    setup.set("ingest.opentsdb.listen", "127.0.0.1:0");
    setup.set("ingest.opentsdb.tls.cert", &certificate("server.pem"));
    setup.set("ingest.opentsdb.tls.key", &certificate("server.key"));
    let daemon = setup.start();
    let (at, port) = (now(), daemon.address("opentsdb tcp").port());
    let point = format!(r#"{{"metric":"tls.request","timestamp":{at},"value":1.5,"tags":{{"h":"a"}}}}"#);
    curl.args(["--silent", "--show-error", "--fail", "--cacert", &certificate("ca.pem"), "--data", &point]);
    curl.arg(format!("https://localhost:{port}/api/put"));
    run(curl);
    assert_eq!(points(&daemon, "tls.request;h=a"), [(at, 1.5)]);

    openssl.args(["s_client", "-quiet", "-verify_return_error", "-servername", "localhost"]);
    openssl.args(["-CAfile", &certificate("ca.pem"), "-connect", &format!("127.0.0.1:{port}")]);
    let mut child =
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    write!(child.stdin.as_mut().unwrap(), "put tls.line {at} 2.5 h=b\nput tls.line x 1 h=b\n").unwrap();
    let mut answer = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    assert!(answer.starts_with("put: illegal argument: invalid timestamp"), "{answer}");
    assert_eq!(points(&daemon, "tls.line;h=b"), [(at, 2.5)]);
    child.kill().unwrap();
    child.wait().unwrap();
    daemon.stop_well();
}
