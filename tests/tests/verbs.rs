//! Commands have the same result with a running daemon and on a data directory without a running daemon. Also
//! tests the jobs of the admin port.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use plumbago_tests::capture::{Capture, own_address};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use serde_json::{Value, json};

const T0: i64 = 1_700_000_040;

fn setup() -> Setup {
    let mut setup = Setup::new();
    setup.clock(T0).schemas("[all]\npattern = .*\nretentions = 60s:7d,1h:2y\n");
    setup.aggregation("[all]\npattern = .*\nxFilesFactor = 0\naggregationMethod = average\n");
    setup
}

fn json_lines(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn put(daemon: &Daemon, names: &[&str], timestamp: i64, value: f64) {
    let point = |name: &&str| Point { name: (*name).to_owned(), timestamp, value };
    daemon.put(&names.iter().map(point).collect::<Vec<_>>());
}

/// The outputs of all commands that only read, on the same data.
fn answers(setup: &Setup) -> Vec<String> {
    let questions: [&[&str]; 12] = [
        &["list"],
        &["list", "web.*.cpu"],
        &["list", "--tag", "host=a", "--json"],
        &["list", "--silent", "1d", "**"],
        &["info", "--json", "web.a.cpu"],
        &["read", "web.a.cpu", "--from", "1699996440", "--until", "1700000040"],
        &["read", "web.a.cpu", "--from", "1699996440", "--until", "1700000040", "--stage", "0"],
        &["read", "web.a.cpu", "--from", "1699900000", "--until", "1700000040", "--stage", "1h", "--json"],
        &["du"],
        &["tags"],
        &["tags", "host", "--json"],
        &["stats", "--bytes", "--json"],
    ];
    questions.iter().map(|arguments| setup.run_well(arguments)).collect()
}

#[test]
fn questions_are_answered_the_same_by_a_daemon_and_at_rest() {
    let mut setup = setup();
    setup.clock(T0 - 3 * 86_400);
    let daemon = setup.start_for_commands();
    put(&daemon, &["db.old", "load;host=a;dc=eu", "load;host=b;dc=eu"], T0 - 3 * 86_400, 1.0);
    daemon.wait_names(1);
    daemon.flush();
    daemon.set_clock(T0);
    setup.clock(T0);
    for minute in (0..120).rev() {
        put(&daemon, &["web.a.cpu", "web.b.cpu"], T0 - 60 * minute, minute as f64);
    }
    daemon.wait_names(3);
    daemon.flush();
    let live = answers(&setup);
    assert_eq!(live[0].lines().collect::<Vec<_>>(), ["db.old", "web.a.cpu", "web.b.cpu"]);
    assert_eq!(live[1].lines().collect::<Vec<_>>(), ["web.a.cpu", "web.b.cpu"]);
    assert_eq!(json_lines(&live[2]), [json!({"name": "load;dc=eu;host=a"})]);
    assert_eq!(live[3], "db.old\n");
    let info = &json_lines(&live[4])[0];
    let stages = &info["metric"]["stages"];
    assert_eq!((&stages[0]["points"], &stages[0]["last"]), (&json!(120), &json!(T0)), "{info}");
    assert!(stages[0]["bytes"].as_u64() > Some(0) && stages[1]["points"].as_u64() > Some(1), "{info}");
    assert_eq!(info["rules"]["schema"]["section"], "all", "{info}");
    assert_eq!(live[5].lines().count(), 60, "{}", live[5]);
    assert_eq!(live[5].lines().last(), Some("web.a.cpu\t1700000040\t0"));
    assert_eq!(live[6].lines().last(), Some("web.a.cpu\t1700000040\t0\t1"));
    // The stored row of a full hour has the sum and the number of its minutes.
    let hours = &json_lines(&live[7])[0];
    let full = hours["points"].as_array().unwrap().iter().find(|point| point[2] == 60.0);
    let hour = full.unwrap_or_else(|| panic!("{hours}"))[0].as_i64().unwrap();
    let minutes = (0..60).map(|minute| (T0 - hour - 60 * minute) / 60);
    assert_eq!(full.unwrap()[1], minutes.map(|minute| minute as f64).sum::<f64>(), "{hours}");
    let du: Vec<Vec<&str>> = live[8].lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (du[0].last(), du[1].last(), du[2].last()),
        (Some(&"db"), Some(&"web"), Some(&"total")),
        "{du:?}"
    );
    assert!(live[9].contains("2  dc") && live[9].contains("2  host"), "{}", live[9]);
    assert_eq!(json_lines(&live[10])[1], json!({"text": "b", "series": 1}));
    let all = &json_lines(&live[11])[0];
    assert_eq!((&all["namespace"], &all["metrics"]), (&json!("total"), &json!(5)), "{all}");
    assert_eq!(all["points"], json!(5 * (7 * 1440 + 730 * 24)), "{all}");
    assert!(all["bytes"].as_u64() > Some(0) && all["estimated"] == json!(false), "{all}");
    daemon.stop_well();

    let rest = answers(&setup);
    assert_eq!(live, rest);

    // A command names what does not exist, and has an exit code for that case.
    for (arguments, code, said) in [
        (&["info", "nobody"][..], 5, "no such metric"),
        (&["read", "nobody"], 5, "no such metric"),
        (&["read", "web.a.cpu", "--from", "1000000000", "--until", "1000003600"], 0, ""),
        (&["read", "web.a.cpu", "--stage", "7"], 2, "1m:1w,1h:730d"),
        (&["list", "--tag", "host"], 2, "host"),
        (&["list", "a", "--tag", "b=c"], 2, "one way"),
        (&["list", "[["], 0, ""),
    ] {
        let ended = setup.run(arguments);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}", ended.output);
        assert!(ended.output.contains(said), "{arguments:?}: {}", ended.output);
    }
}

/// Names with characters of globs, very deep ones, and infinite values.
#[test]
fn odd_names_and_values_are_shown() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let deep = format!("deep.{}x", "y.".repeat(130));
    let names = ["w.di*r.x", "w.dir.x", "w.dizr.y", "w.{a,b}.x", "w.a.x", "w.[q].x", &deep];
    put(&daemon, &names, T0, f64::INFINITY);
    put(&daemon, &["w.a.x"], T0 - 60, f64::NEG_INFINITY);
    daemon.wait_names(names.len());
    let size = |arguments: &[&str]| -> Vec<(String, u64)> {
        let output = setup.run_well(&[&["du"], arguments].concat());
        let words = output.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        words.map(|words| (words[2].to_owned(), words[1].parse().unwrap())).collect()
    };
    let expected =
        ["w.[q]", "w.a", "w.di*r", "w.dir", "w.dizr", "w.{a,b}"].map(|path| (path.to_owned(), 1_u64));
    assert_eq!(size(&["w.*"]), [&expected[..], &[("total".to_owned(), 6)]].concat());
    // The six directories have a metric each.
    let began = Instant::now();
    assert_eq!(size(&["w.*", "--rate", "6"]).len(), 7);
    assert!(began.elapsed() >= Duration::from_millis(800), "{:?}", began.elapsed());
    let all = size(&["**"]);
    assert!(all.iter().any(|(path, metrics)| *path == deep && *metrics == 1), "{all:?}");
    // `w` is listed with the directories below it, but in the total each metric counts once.
    assert_eq!(all.last(), Some(&("total".to_owned(), names.len() as u64)), "{all:?}");
    assert!(
        all.iter().all(|(path, metrics)| *metrics == 1 || ["w", "total"].contains(&path.as_str())),
        "{all:?}"
    );

    let both = format!("w.a.x\t{}\t-inf\nw.a.x\t{T0}\tinf\n", T0 - 60);
    assert_eq!(setup.run_well(&["read", "w.a.x", "--from", "1699999900", "--until", "1700000040"]), both);
    let row = &json_lines(&setup.run_well(&["read", "w.dir.x", "--json"]))[0];
    assert_eq!(row["points"], json!([[T0, "inf", null]]), "{row}");
    assert_eq!(setup.run_well(&["write", "w.max", "inf"]), format!("w.max\t{T0}\tinf\n"));
    daemon.stop_well();
    assert_eq!(setup.run_well(&["read", "w.a.x", "--from", "20231114", "--until", "2023-11-14T22:14"]), both);
}

#[test]
fn a_point_is_written_and_rules_are_explained() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let dry = setup.run_well(&["write", "--dry-run", "new..metric", "9"]);
    assert_eq!(dry, format!("new.metric\t{T0}\t9\ndry run, nothing is written\n"));
    assert_eq!(setup.run_well(&["list"]), "");
    assert_eq!(setup.run_well(&["write", "new.metric", "-4.5"]), format!("new.metric\t{T0}\t-4.5\n"));
    daemon.wait_names(1);
    let old = setup.run(&["write", "new.metric", "1", "--timestamp", "1000000000"]);
    assert!(
        old.status.code() == Some(2) && old.output.contains("older than the retention"),
        "{}",
        old.output
    );
    // A time between two slots stands for the slot that contains it.
    let between = setup.run_well(&["write", "new.metric", "3", "--timestamp", &(T0 - 90).to_string()]);
    assert_eq!(between, format!("new.metric\t{}\t3\n", T0 - 120));
    let wrong = setup.run(&["write", "new metric", "1"]);
    assert!(wrong.status.code() == Some(2) && wrong.output.contains("white space"), "{}", wrong.output);
    daemon.stop_well();
    let written = json_lines(&setup.run_well(&["write", "load;b=2;a=1", "7", "--json"]));
    assert_eq!(written[0], json!({"name": "load;a=1;b=2", "timestamp": T0, "step": 60, "value": 7.0}));
    let daemon = setup.start_for_commands();
    let both = format!("new.metric\t{}\t3\nnew.metric\t{T0}\t-4.5\n", T0 - 120);
    assert_eq!(setup.run_well(&["read", "new.metric"]), both);
    assert_eq!(setup.run_well(&["list", "--tag", "a=1"]), "load;a=1;b=2\n");
    daemon.stop_well();

    setup.schemas(
        "[web]\npattern = ^web\\.\nretentions = 10s:1d\n[rest]\npattern = ^x\nretentions = 60s:1d\n",
    );
    let explained = setup.run_well(&["rules", "explain", "web.a"]);
    assert!(
        explained.contains("storage-schemas.conf:1 [web]: the pattern ^web\\. matches the name"),
        "{explained}"
    );
    let explained = json_lines(&setup.run_well(&["rules", "explain", "--json", "xyz"]));
    assert_eq!(
        (&explained[0]["schema"]["section"], &explained[0]["schema"]["line"]),
        (&json!("rest"), &json!(4))
    );
    assert_eq!(explained[0]["schema"]["tried_before"], 1);
    let tagged = setup.run_well(&["rules", "explain", "web..a;b=2;a=1"]);
    assert!(tagged.starts_with("web.a;a=1;b=2\n") && tagged.contains("[web]"), "{tagged}");
    for wrong in ["", "a b", "a;b="] {
        let ended = setup.run(&["rules", "explain", wrong]);
        assert_eq!(ended.status.code(), Some(2), "{wrong}: {}", ended.output);
        assert!(ended.output.contains("cannot be the name of a metric"), "{wrong}: {}", ended.output);
    }
    let explained = setup.run_well(&["rules", "explain", "other"]);
    assert!(explained.contains("none of 2 patterns") && explained.contains("1m:1w"), "{explained}");
}

fn jobs(daemon: &Daemon) -> Vec<Value> {
    serde_json::from_str(&http::get(daemon.admin(), "/admin/jobs").body).unwrap()
}

/// A clean-up that never ends by itself: it reads one row a second, and there are more rows than fit into one page.
fn slow_clean(setup: &Setup, daemon: &Daemon) -> Child {
    let mut command = setup.command(&["clean", "--rate", "1"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = |job: &Value| job["state"] == "running" && job["done"].as_u64() >= Some(1000);
    wait_until("the job to be under way", || jobs(daemon).iter().any(runs));
    child
}

fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code(), text.concat())
}

#[test]
fn jobs_are_listed_cancelled_and_outlived() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    let names: Vec<String> = (0..2500).map(|n| format!("many.m{n}")).collect();
    put(&daemon, &names.iter().map(String::as_str).collect::<Vec<_>>(), T0, 1.0);
    daemon.wait_names(names.len());
    assert_eq!(setup.run_well(&["list", "many.*"]).lines().count(), names.len());

    let command = slow_clean(&setup, &daemon);
    let job = jobs(&daemon).pop().unwrap();
    assert_eq!(
        (&job["job"], &job["phase"], &job["parameters"]["rate"]),
        (&json!("clean"), &json!("clean_rows"), &json!(1))
    );
    let id = job["id"].as_str().unwrap();
    // A scheduled job that needs the same lease waits for this job.
    let asked = daemon.post_admin("/admin/maintenance?job=clean_rows");
    assert_eq!(asked.status, 200, "{asked:?}");
    let refused = http::post(daemon.admin(), &format!("/admin/jobs/{id}/cancel"), "");
    assert_eq!(refused.status, 401, "{refused:?}");
    let cancelled = daemon.post_admin(&format!("/admin/jobs/{id}/cancel"));
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let (code, said) = end(command);
    assert!(code == Some(1) && said.contains("continues where this one stopped"), "{code:?} {said}");
    assert_eq!(jobs(&daemon).pop().unwrap()["state"], "cancelled");
    let one = http::get(daemon.admin(), &format!("/admin/jobs/{id}"));
    assert!(one.status == 200 && one.body.contains("clean_rows was stopped"), "{one:?}");

    // Parameters in the query string, and messages about wrong ones.
    let started = daemon.post_admin("/admin/jobs?job=clean&dry_run=true&rate=0");
    assert_eq!(started.status, 200, "{started:?}");
    wait_until("the job to end", || jobs(&daemon).last().unwrap()["state"] == "done");
    let ended = jobs(&daemon).pop().unwrap();
    assert!(
        ended["result"].to_string().contains("clean_rows") && ended["rate"].as_f64() > Some(0.0),
        "{ended}"
    );
    for (path, status, part) in [
        ("/admin/jobs?job=coffee", 404, "clean, repair, copy, move, delete"),
        ("/admin/jobs?job=coffee", 404, "import-store"),
        ("/admin/jobs?job=delete", 400, "one way"),
        ("/admin/jobs?job=clean&rate=fast", 400, "fast"),
        ("/admin/jobs", 400, "job is missing"),
        ("/admin/jobs/77/cancel", 404, "no job"),
        ("/admin/questions?name=coffee", 404, "list"),
    ] {
        let answer = daemon.post_admin(path);
        assert!(answer.status == status && answer.body.contains(part), "{path} {answer:?}");
        assert_eq!(http::post(daemon.admin(), path, "").status, 401, "{path}");
    }
    // The speed of a job that has ended does not change.
    assert_eq!(jobs(&daemon).pop().unwrap(), ended);

    let command = slow_clean(&setup, &daemon);
    daemon.kill();
    let (code, said) = end(command);
    assert!(
        code == Some(4) && said.contains("Run the same command again: plumbago clean --rate 1"),
        "{code:?} {said}"
    );
    let daemon = setup.start_for_commands();
    assert!(setup.run_well(&["clean", "--rate", "0"]).contains("clean_rows: 2500 rows read"));
    daemon.stop_well();
}

/// Compares the answers of two servers with nearly the same points.
#[test]
fn answers_of_two_servers_are_compared() {
    let (one, two) = (setup(), setup());
    let servers = [one.start(), two.start()];
    for (n, server) in servers.iter().enumerate() {
        for minute in 0..20 {
            put(server, &["same.x", "same.y", "other"], T0 - 60 * minute, 100.0);
        }
        put(server, &["other"], T0 - 300, 100.0 + 50.0 * n as f64);
        server.wait_names(3);
    }
    let urls = servers.each_ref().map(|server| format!("http://{}/render", server.api()));
    let diff = |targets: &[&str]| {
        let (from, until) = ((T0 - 3600).to_string(), T0.to_string());
        one.run(&[&["diff", "--from", &from, "--until", &until, &urls[0], &urls[1]], targets].concat())
    };
    let equal = diff(&["same.*"]);
    assert!(
        equal.status.success() && equal.output.contains("1 targets compared, 0 differ"),
        "{}",
        equal.output
    );
    let different = diff(&["same.*", "other"]);
    assert_eq!(different.status.code(), Some(5), "{}", different.output);
    let line = format!("other: 1 of 20 timestamps differ, by up to 20.0 % (other at {})", T0 - 300);
    assert!(different.output.contains(&line), "{}", different.output);
    let json = &json_lines(&diff(&["--json", "other"]).output)[0];
    assert_eq!(json["targets"][0]["different"], 1, "{json}");
    let wrong = diff(&["sum("]);
    assert!(wrong.status.code() == Some(5) && wrong.output.contains("400"), "{}", wrong.output);
}

/// Every metric is counted in one namespace, and the numbers can be sent as points to another carbon.
#[test]
fn namespaces_are_counted_and_sent() {
    let mut setup = setup();
    let conf = setup.file("namespaces.conf", "[web]\npattern = web\\d?\\.\n[tagged]\npattern = .*;\n");
    let conf = conf.to_str().unwrap();
    let daemon = setup.start_for_commands();
    put(&daemon, &["web.a", "web1.a", "a.web.b", "load;host=a"], T0, 1.0);
    daemon.wait_names(3);
    wait_until("the tagged series", || setup.run_well(&["list", "--tag", "host=a"]) == "load;host=a\n");
    let everything = setup.run_well(&["du", "/"]);
    assert!(everything.contains(" 4  /\n"), "{everything}");
    let csv = setup.run_well(&["stats", "--conf", conf, "--format", "csv"]);
    let each = 7 * 1440 + 730 * 24;
    assert_eq!(
        csv,
        format!("namespace,metrics,points\nweb,2,{}\ntagged,1,{each}\nnone,1,{each}\n", 2 * each)
    );
    let table = setup.run_well(&["stats", "--conf", conf]);
    let columns: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(columns[1], ["2", &(2 * each).to_string(), "web"], "{table}");
    let carbon = Capture::start();
    let address = carbon.address().to_string();
    let said = setup.run_well(&["stats", "--conf", conf, "--carbon", &address, "--prefix", "of.us."]);
    assert_eq!(said, "");
    wait_until("the points", || carbon.points().len() == 6);
    let web = carbon.points().into_iter().find(|point| point.name == "of.us.metrics.web").unwrap();
    assert_eq!(web.value, 2.0);
    let nowhere = own_address().to_string();
    let away = setup.run(&["stats", "--carbon", &nowhere]);
    assert!(away.status.code() == Some(4) && away.output.contains(&nowhere), "{}", away.output);
    let wrong = setup.file("wrong.conf", "[a]\npattern = (\n[b]\nother = 1\n");
    let wrong = setup.run(&["stats", "--conf", wrong.to_str().unwrap()]);
    assert_eq!(wrong.status.code(), Some(3), "{}", wrong.output);
    assert!(
        wrong.output.contains("wrong.conf:2") && wrong.output.contains("wrong.conf:3"),
        "{}",
        wrong.output
    );
}

/// Thirty metrics at a rate of ten per second take at least two seconds, because the first ten are processed
/// at once.
#[test]
fn rates_are_kept() {
    let mut setup = setup();
    let daemon = setup.start_for_commands();
    daemon.set_clock(T0);
    let points: Vec<Point> =
        (0..30).map(|m| Point::new(format!("slow.m{m:02}"), T0 - 60, f64::from(m))).collect();
    daemon.put(&points);
    daemon.flush();
    let directory = setup.path().join("exported");
    let directory = directory.to_str().unwrap();
    for arguments in [
        &["export-whisper", directory, "slow.**"][..],
        &["delete", "--from", "1600000000", "--dry-run", "slow.**"],
        &["delete", "slow.**"],
        &["import-whisper", directory],
    ] {
        let began = Instant::now();
        setup.run_well(&[arguments, &["--rate", "10", "--json"]].concat());
        assert!(began.elapsed().as_millis() >= 1900, "{arguments:?}: {:?}", began.elapsed());
    }
    daemon.stop_well();
}

/// Sends the requests of an access log and the lines of a file again.
#[test]
fn recorded_traffic_is_repeated() {
    let setup = setup();
    let daemon = setup.start();
    let lines = setup.file("lines.txt", &format!("a.b 1 {}\na.b 2 {T0}\nodd\n", T0 - 60));
    let (lines, carbon) = (lines.to_str().unwrap(), daemon.line().to_string());
    let sent = setup.run_well(&["replay-traffic", "--carbon", &carbon, "--speed", "0", "--json", lines]);
    assert_eq!(
        (&json_lines(&sent)[0]["lines"], json_lines(&sent)[0]["skipped"].as_object().unwrap().len()),
        (&json!(2), 1)
    );
    let from = T0 - 120;
    wait_until("the points", || {
        let series = daemon.render("a.b", from, T0, T0);
        series.first().is_some_and(|series| series.known().len() == 2)
    });
    let line = |request: &str| format!("- - - [10/Oct/2000:13:55:36 -0700] \"{request} HTTP/1.1\" 200 2\n");
    let requests = [
        "GET /render?target=a.b&format=json",
        "POST /render",
        "GET /tags/delSeries?path=a",
        "GET /render?target=sum(",
    ];
    let log = setup.file("access.log", &requests.map(line).concat());
    let (url, log) = (format!("http://{}", daemon.api()), log.to_str().unwrap().to_owned());
    let repeated = &json_lines(&setup.run_well(&["replay-traffic", "--url", &url, "--json", &log]))[0];
    assert_eq!(repeated["statuses"], json!({"200": 1, "400": 1}), "{repeated}");
    assert_eq!(repeated["skipped"].as_object().unwrap().len(), 2, "{repeated}");
    daemon.stop_well();
    for (arguments, code, said) in [
        (&["--url", &url, &log][..], 5, "2 without an answer"),
        (&["--url", &url, "/nowhere.log"], 4, "/nowhere.log"),
        (&["--carbon", &carbon, lines], 4, carbon.as_str()),
        (&["--url", "https://x", &log], 2, "https"),
        (&[log.as_str()], 2, "--carbon"),
        (&["--url", &url, "--exclude", "(", &log], 2, "--exclude"),
    ] {
        let ended = setup.run(&[&["replay-traffic"], arguments].concat());
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {}", ended.output);
        assert!(ended.output.contains(said), "{arguments:?}: {}", ended.output);
    }
}
