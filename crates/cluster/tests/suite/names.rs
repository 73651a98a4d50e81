//! The load that names cause on the shared store, and metrics that other programs delete. The clock is paused, so
//! waiting takes no real time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumbago_model::{Clock as _, ManualClock, MetricConfig};
use plumbago_store::{MetadataStore, MetricMeta};

use crate::common::server::Requests;
use crate::common::{Daemon, NOW, Server, metric, server, wait_until};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Makes the clocks of the server and of the daemons advance with tokio's clock.
fn run_clocks(server: &Arc<Server>, clocks: &[Arc<ManualClock>]) {
    let (server, clocks) = (Arc::clone(server), clocks.to_vec());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.clock.advance(1);
            clocks.iter().for_each(|clock| clock.advance(1));
        }
    });
}

async fn sleep(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn created_now(server: &Server, name: &str) -> MetricMeta {
    MetricMeta { created_on: server.clock.now() as u32, ..metric(name) }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("busy.{n}")).collect()
}

/// Makes a server with metrics whose last write was recorded within the last day, and a daemon that writes them.
async fn busy(count: usize, dir: &std::path::Path) -> (Arc<Server>, Daemon) {
    let server = server();
    let names = names(count);
    let metrics: Vec<MetricMeta> = names.iter().map(|name| metric(name)).collect();
    server.names.create(&metrics).await.unwrap();
    for (n, name) in names.iter().enumerate() {
        let age = (n * 7919 % count) as i64 * DAY as i64 / count as i64;
        server.noted.lock().unwrap().insert(name.clone(), NOW - age);
    }
    let daemon = Daemon::with(&server, 1, dir, Duration::from_secs(DAY));
    names.iter().for_each(|name| daemon.loaded.set_written(name));
    (server, daemon)
}

/// Three days of a daemon with two thousand metrics, while another daemon and a program like BigGraphite
/// use the same store.
#[tokio::test(start_paused = true)]
async fn a_day_has_at_most_two_requests_a_metric() {
    const METRICS: usize = 2000;
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, daemon) = busy(METRICS, one.path()).await;
    let other = Daemon::new(&server, 2, two.path());
    run_clocks(&server, &[daemon.clock.clone(), other.clock.clone()]);
    daemon.start().await;
    // The other daemon and the other program only change names; their own requests are not counted.
    let mut all = METRICS as u64;
    for day in 0..3 {
        *server.requests.lock().unwrap() = Requests::default();
        for hour in 0..24 {
            let new: Vec<MetricMeta> =
                (0..10).map(|n| created_now(&server, &format!("new.{day}.{hour}.{n}"))).collect();
            other.connection.create_uncounted(&new).await;
            server.names.create(&[created_now(&server, &format!("foreign.{day}.{hour}"))]).await.unwrap();
            MetadataStore::delete(&server.names, &[&format!("foreign.{day}.{}", hour / 2)]).await.unwrap();
            all += 11;
            sleep(HOUR).await;
        }
        let requests = server.requests.lock().unwrap();
        eprintln!("day {day}: {:?}, at most {} in a second", requests.by_kind, requests.most);
        let of_metrics = requests.of(&["look up", "touch", "create", "scan"]);
        assert!(of_metrics <= 2 * all, "{of_metrics} requests for {all} metrics");
        assert!(requests.of(&["touch"]) >= METRICS as u64 / 4, "metrics are noted");
        assert!(requests.of(&["poll"]) <= DAY / 2);
        assert!(requests.most <= 1000, "{} requests in a second", requests.most);
    }
    assert!(daemon.loaded.has("new.2.23.9") && daemon.loaded.has("foreign.2.20"));
    let oldest = *server.noted.lock().unwrap().values().min().unwrap();
    assert!(server.clock.now() - oldest <= 22 * DAY as i64 / 10, "no time is much older than 2.1 days");
}

/// A name that another program creates without an announcement is found within hours, and within an hour once
/// such a program is known to exist.
#[tokio::test(start_paused = true)]
async fn names_that_nobody_announces_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (server, daemon) = busy(100, dir.path()).await;
    run_clocks(&server, std::slice::from_ref(&daemon.clock));
    daemon.start().await;
    sleep(HOUR).await;
    let scans = || server.requests.lock().unwrap().of(&["scan"]);
    let before = scans();
    sleep(6 * HOUR).await;
    assert!(scans() - before <= 5, "one round of four parts in six hours");
    for (name, hours) in [("foreign.a", 7), ("foreign.b", 1), ("foreign.c", 1)] {
        server.names.create(&[created_now(&server, name)]).await.unwrap();
        sleep(hours * HOUR + 1000).await;
        assert!(daemon.loaded.has(name), "{name}");
    }
    // A deletion is noticed at the end of a round.
    MetadataStore::delete(&server.names, &["foreign.a"]).await.unwrap();
    sleep(2 * HOUR + 1000).await;
    assert!(!daemon.loaded.has("foreign.a") && daemon.loaded.has("foreign.b"));
}

/// If one daemon finds a name that another program has created, it announces the name to the other daemons.
#[tokio::test(start_paused = true)]
async fn names_that_one_daemon_adopts_are_announced_to_the_others() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, a) = busy(100, one.path()).await;
    let b = Daemon::with(&server, 2, two.path(), Duration::from_secs(DAY));
    run_clocks(&server, &[a.clock.clone(), b.clock.clone()]);
    a.start().await;
    // Each daemon reads one of four parts in an hour and a half. They do not read the same part at the same time.
    sleep(45 * 60).await;
    b.start().await;
    wait_until("all names", async || b.loaded.has("busy.99")).await;
    sleep(60).await;

    // One daemon gets points of a metric that another program has created.
    server.names.create(&[metric("foreign.written")]).await.unwrap();
    a.names.create(&[created_now(&server, "foreign.written")]).await.unwrap();
    sleep(10).await;
    assert!(b.loaded.has("foreign.written"));

    // One daemon finds another new name when it reads its part of the names.
    server.names.create(&[metric("foreign.found")]).await.unwrap();
    let has = |daemon: &Daemon| daemon.loaded.has("foreign.found");
    let mut waited = 0;
    while !has(&a) && !has(&b) {
        assert!(waited < 7 * HOUR);
        sleep(10).await;
        waited += 10;
    }
    sleep(30).await;
    assert!(has(&a) && has(&b));
}

/// On BigGraphite's tables, where the xFilesFactor counts as 0, daemons do not announce the same name to each
/// other again and again.
#[tokio::test(start_paused = true)]
async fn a_name_is_not_announced_again_in_each_round() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, a) = busy(100, one.path()).await;
    server.schema.lock().unwrap().ignores_x_files_factor = true;
    let b = Daemon::with(&server, 2, two.path(), Duration::from_secs(DAY));
    run_clocks(&server, &[a.clock.clone(), b.clock.clone()]);
    a.start().await;
    b.start().await;
    wait_until("all names", async || a.loaded.has("busy.99") && b.loaded.has("busy.99")).await;
    sleep(60).await;
    server.names.create(&[created_now(&server, "foreign")]).await.unwrap();
    sleep(3 * HOUR).await;
    assert!(a.loaded.has("foreign") && b.loaded.has("foreign"));
    let announced = || server.requests.lock().unwrap().of(&["announce"]);
    let before = announced();
    assert!(before > 0);
    sleep(6 * HOUR).await;
    assert_eq!(announced(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_goes_on_where_the_last_process_ended() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, daemon) = busy(100, one.path()).await;
    let other = Daemon::new(&server, 2, two.path());
    run_clocks(&server, &[daemon.clock.clone(), other.clock.clone()]);
    daemon.start().await;
    wait_until("all names", async || daemon.loaded.has("busy.99")).await;
    sleep(HOUR).await;
    drop(daemon);
    other.connection.create_uncounted(&[created_now(&server, "new.while.down")]).await;
    sleep(HOUR).await;

    *server.requests.lock().unwrap() = Requests::default();
    let daemon = Daemon::with(&server, 1, one.path(), Duration::from_secs(DAY));
    daemon.copy_from(&server).await;
    daemon.start().await;
    wait_until("the change", async || daemon.loaded.has("new.while.down")).await;
    sleep(60).await;
    assert_eq!(server.requests.lock().unwrap().of(&["scan"]), 0, "the feed has shown all changes");
    drop(daemon);

    // If BigGraphite made the tables, it may have created names meanwhile.
    server.schema.lock().unwrap().ignores_x_files_factor = true;
    server.names.create(&[created_now(&server, "foreign.while.down")]).await.unwrap();
    let daemon = Daemon::with(&server, 1, one.path(), Duration::from_secs(DAY));
    daemon.start().await;
    sleep(60).await;
    assert!(daemon.loaded.has("foreign.while.down"));
}

/// A daemon that was stopped for a day catches up at a limited rate.
#[tokio::test(start_paused = true)]
async fn written_metrics_are_noted_when_it_is_due_and_at_a_rate() {
    let dir = tempfile::tempdir().unwrap();
    let (server, daemon) = busy(2000, dir.path()).await;
    server.names.create(&[metric("idle")]).await.unwrap();
    run_clocks(&server, std::slice::from_ref(&daemon.clock));
    daemon.start().await;
    let requests =
        || [&server.note_reads, &server.note_writes].map(|counter| counter.load(Ordering::Relaxed));
    sleep(27 * HOUR).await;
    let [reads, writes] = requests();
    assert!((2000..=2200).contains(&reads) && writes < reads, "{reads} {writes}");
    assert!(!server.noted.lock().unwrap().contains_key("idle"));
    drop(daemon);

    sleep(2 * DAY).await;
    let daemon = Daemon::with(&server, 1, dir.path(), Duration::from_secs(DAY));
    daemon.copy_from(&server).await;
    names(2000).iter().for_each(|name| daemon.loaded.set_written(name));
    daemon.start().await;
    *server.requests.lock().unwrap() = Requests::default();
    wait_until("what is due", async || requests() == [reads + 2000, writes + 2000] || requests()[0] > 4300)
        .await;
    let most = server.requests.lock().unwrap().most;
    assert!(most <= 1000, "{most} requests in a second");
}

/// A metric that another program deleted is created again only if it gets further points, however recent its
/// last point is.
#[tokio::test(start_paused = true)]
async fn what_others_deleted_is_not_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let (server, daemon) = busy(100, dir.path()).await;
    run_clocks(&server, std::slice::from_ref(&daemon.clock));
    for name in names(100) {
        daemon.loaded.set_written_at(&name, NOW + 2 * HOUR as i64);
    }
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("busy.99")).await;
    sleep(2 * HOUR).await;
    // The last points of two metrics arrived a minute ago; one of them gets more.
    let recent = server.clock.now() - 60;
    daemon.loaded.set_written_at("busy.1", recent);
    daemon.loaded.set_written_at("busy.2", recent);
    MetadataStore::delete(&server.names, &["busy.0", "busy.1", "busy.2"]).await.unwrap();
    sleep(10).await;
    let now = server.clock.now();
    for name in names(100).iter().filter(|name| !["busy.0", "busy.1"].contains(&name.as_str())) {
        daemon.loaded.set_written_at(name, now + 7 * DAY as i64);
    }
    sleep(2 * DAY).await;
    let exist: Vec<bool> = server
        .names
        .get(&["busy.0", "busy.1", "busy.2"])
        .await
        .unwrap()
        .iter()
        .map(Option::is_some)
        .collect();
    assert_eq!(exist, [false, false, true]);
    let loaded = ["busy.0", "busy.1", "busy.2"].map(|name| daemon.loaded.has(name));
    assert_eq!(loaded, [false, false, true]);
}

/// The same, if the deletion is announced while the last point is on its way.
#[tokio::test(start_paused = true)]
async fn an_announced_deletion_is_not_undone_by_points_from_before() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (server, daemon) = busy(10, one.path()).await;
    let other = Daemon::new(&server, 2, two.path());
    run_clocks(&server, &[daemon.clock.clone(), other.clock.clone()]);
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("busy.9")).await;
    daemon.loaded.set_written_at("busy.0", server.clock.now() - 1);
    MetadataStore::delete(&*other.connection, &["busy.0", "busy.1"]).await.unwrap();
    sleep(HOUR).await;
    let found = server.names.get(&["busy.0", "busy.1"]).await.unwrap();
    assert!(found[0].is_none() && !daemon.loaded.has("busy.0"), "it got no further point");
    assert!(found[1].is_some() && daemon.loaded.has("busy.1"));
}

/// A daemon that hears of a deletion late keeps the points that it got in between.
#[tokio::test(start_paused = true)]
async fn points_from_after_a_deletion_count_however_late_it_is_heard_of() {
    let dir = tempfile::tempdir().unwrap();
    let (server, daemon) = busy(10, dir.path()).await;
    run_clocks(&server, std::slice::from_ref(&daemon.clock));
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("busy.9")).await;
    sleep(60).await;
    let now = server.clock.now();
    // The last point of each metric is older than the notice of the deletion.
    let names = ["busy.0", "busy.1", "busy.2", "busy.3", "busy.4", "busy.5"];
    let times =
        [now - 30, now - HOUR as i64].into_iter().flat_map(|at| [-1, 0, 1].map(|after| (at, at + after)));
    for (name, (deleted, last)) in names.into_iter().zip(times) {
        daemon.loaded.set_written_at(name, last);
        MetadataStore::delete(&server.names, &[name]).await.unwrap();
        server.changes.lock().unwrap().push((2, deleted, name.to_owned(), true));
    }
    sleep(HOUR).await;
    let found = server.names.get(&names).await.unwrap();
    let wanted = [false, false, true, false, false, true];
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), wanted);
    assert_eq!(names.map(|name| daemon.loaded.has(name)), wanted);
}

/// Points that arrive between two deletions of a metric do not bring it back after the second one.
#[tokio::test(start_paused = true)]
async fn a_second_deletion_counts_too() {
    let dir = tempfile::tempdir().unwrap();
    let (server, daemon) = busy(10, dir.path()).await;
    run_clocks(&server, std::slice::from_ref(&daemon.clock));
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("busy.9")).await;
    let delete = async |last: i64| {
        daemon.loaded.set_written_at("busy.0", last);
        MetadataStore::delete(&server.names, &["busy.0"]).await.unwrap();
        let now = server.clock.now();
        server.changes.lock().unwrap().push((2, now, "busy.0".to_owned(), true));
    };
    delete(server.clock.now() - 1).await;
    sleep(40).await;
    delete(server.clock.now() - 5).await;
    sleep(HOUR).await;
    assert!(server.names.get(&["busy.0"]).await.unwrap()[0].is_none());
    assert!(!daemon.loaded.has("busy.0"));
}

/// Points of a metric may come before this daemon has read its name. Then the engine gets the settings that
/// the metric has on the server.
#[tokio::test]
async fn the_settings_of_a_metric_that_is_known_late_are_those_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = server();
    let by_rules = metric("late");
    let config =
        MetricConfig { retention: "7s:1d".parse().unwrap(), ..MetricConfig::clone(&by_rules.config) };
    let stored = MetricMeta { config: Arc::new(config), ..by_rules.clone() };
    server.names.create(std::slice::from_ref(&stored)).await.unwrap();
    let daemon = Daemon::new(&server, 1, dir.path());
    let others = daemon.names.create_new(&[metric("new"), by_rules]).await.unwrap();
    assert_eq!(others, [(1, Arc::clone(&stored.config))]);
    assert!(daemon.names.create_new(&[metric("new"), stored]).await.unwrap().is_empty());
}
