//! Several daemons share one store in memory. The clock is paused, so waiting takes no real time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumbago_cluster::{LeaseKeeper, LocalMetrics, Member, NotAcknowledged, TaggedSeries};
use plumbago_index::Index;
use plumbago_model::{ManualClock, MetricId};
use plumbago_store::{MetadataStore, NodeStart, SharedStore, WriterIdentity};
use plumbago_telemetry::{Conditions, Registry};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::common::{Daemon, NOW, metric, server, wait_until};

/// The texts of the conditions that keep this daemon from being ready (with `blocks`), or of the other
/// conditions.
fn conditions(member: &Member, blocks: bool) -> Vec<String> {
    let conditions = Conditions::new(&Registry::new());
    member.report(&conditions);
    let held = conditions.list().into_iter().filter(|held| held.severity.blocks() == blocks);
    held.map(|held| held.text).collect()
}

fn reasons(member: &Member) -> Vec<String> {
    conditions(member, true)
}

fn warnings(member: &Member) -> Vec<String> {
    conditions(member, false)
}

#[tokio::test(start_paused = true)]
async fn a_taken_writer_id_is_replaced_at_the_start_and_later() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    let first = daemon.connection.writer_identity();
    server.writers.lock().unwrap().insert(first, Uuid::new_v4());
    daemon.start().await;
    let second = daemon.connection.writer_identity();
    assert_ne!(second, first);
    let again = Daemon::new(&server, 1, dir.path());
    assert_eq!(again.connection.writer_identity(), second, "the file has the id that was chosen");

    // Another instance takes the ids, which is possible after this daemon was away for a long time.
    server.writers.lock().unwrap().insert(second, Uuid::new_v4());
    let is_new = async || ![first, second].contains(&daemon.connection.writer_identity());
    wait_until("another id", is_new).await;
    let third = daemon.connection.writer_identity();
    let registrations = || server.registrations.load(Ordering::Relaxed);
    assert_eq!(Daemon::new(&server, 1, dir.path()).connection.writer_identity(), third);
    assert!(server.writers.lock().unwrap().contains_key(&third));

    // The registration is renewed every hour, and at once after the clock has jumped.
    let before = registrations();
    tokio::time::sleep(Duration::from_secs(3 * 3600 + 60)).await;
    assert_eq!(registrations(), before + 3);
    daemon.clock.set(NOW + 86_400);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(registrations(), before + 4);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_without_a_free_writer_id_says_so() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    let own = daemon.connection.writer_identity();
    for writer in (0..4).map(|n| WriterIdentity::new(0, n * 8)).chain([own]) {
        server.writers.lock().unwrap().insert(writer, Uuid::new_v4());
    }
    let (member, stop) = (daemon.member.clone(), daemon.stop.clone());
    let joining = tokio::spawn(async move { member.join(&stop).await });
    wait_until("the reason", async || !reasons(&daemon.member).is_empty()).await;
    let found = reasons(&daemon.member);
    assert!(found[0].contains("no writer id of replica 0 is free"), "{found:?}");

    server.writers.lock().unwrap().remove(&WriterIdentity::new(0, 16));
    assert!(joining.await.unwrap());
    assert_eq!(daemon.connection.writer_identity(), WriterIdentity::new(0, 16));
}

#[tokio::test(start_paused = true)]
async fn timestamps_ahead_of_the_server_are_said_while_they_are() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    let says = async |part: &str| warnings(&daemon.member).iter().any(|text| text.contains(part));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(warnings(&daemon.member), [""; 0]);

    daemon.clock.set(NOW + 100);
    daemon.outbox.last_us.store((NOW + 100) * 1_000_000, Ordering::Relaxed);
    wait_until("the warning", async || says("is 100 s ahead").await).await;
    // The clock is right again; the timestamps stay ahead.
    daemon.clock.set(NOW);
    wait_until("the other warning", async || says("was ahead: for 100 s more").await).await;
    daemon.outbox.last_us.store(NOW * 1_000_000, Ordering::Relaxed);
    wait_until("the end", async || warnings(&daemon.member).is_empty()).await;
    assert_eq!(reasons(&daemon.member), [""; 0]);
}

/// Without this, deletions by other daemons would hide the rows of this daemon until its clock has passed the
/// time of the deletion.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_behind_is_said_and_timestamps_follow_the_server() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.clock.set(NOW - 600);
    daemon.start().await;
    let says = async || warnings(&daemon.member).iter().any(|text| text.contains("is 600 s behind"));
    wait_until("the warning", says).await;
    assert_eq!(daemon.outbox.lag_ms.load(Ordering::Relaxed), 600_000);
    daemon.clock.set(NOW);
    wait_until("the end", async || warnings(&daemon.member).is_empty()).await;
    assert_eq!(daemon.outbox.lag_ms.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_cannot_join_is_not_ready_and_says_why() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.forbids_writers.store(true, Ordering::Relaxed);
    let daemon = Daemon::new(&server, 1, dir.path());
    let (member, stop) = (daemon.member.clone(), daemon.stop.clone());
    let joining = tokio::spawn(async move { member.join(&stop).await });
    wait_until("the reason", async || !reasons(&daemon.member).is_empty()).await;
    let found = reasons(&daemon.member);
    assert!(found.len() == 1 && found[0].contains("register the writer"), "{found:?}");

    server.forbids_writers.store(false, Ordering::Relaxed);
    assert!(joining.await.unwrap());
    assert_eq!(reasons(&daemon.member), [""; 0]);
}

/// If only the rows of one table are sent and it is missing, the servers' load is not the reason.
#[tokio::test(start_paused = true)]
async fn rows_that_are_refused_and_rows_that_are_not_answered_have_different_reasons() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    for is_refused in [true, false] {
        let why = "failed to use a table".to_owned();
        *daemon.outbox.error.lock().unwrap() = Some(NotAcknowledged { why, is_refused });
        let found = reasons(&daemon.member);
        assert!(found.len() == 1 && found[0].ends_with(": failed to use a table"), "{found:?}");
        assert_eq!(found[0].contains("servers' load"), !is_refused, "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_schema_is_read_once_for_each_check() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.schema.lock().unwrap().fatal.push("a table is missing".to_owned());
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    assert_eq!(server.checks.load(Ordering::Relaxed), 1);
    assert_eq!(reasons(&daemon.member), ["a table is missing"]);

    server.schema.lock().unwrap().fatal.clear();
    wait_until("the daemon to be ready", async || reasons(&daemon.member).is_empty()).await;
    let checks = server.checks.load(Ordering::Relaxed);
    assert_eq!(checks, 2, "the check that found the table is the one that is used");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(server.checks.load(Ordering::Relaxed), checks, "nothing is wrong any more");
}

/// How long rows are retained depends on the commit log.
#[tokio::test(start_paused = true)]
async fn a_keyspace_that_loses_its_commit_log_is_noticed() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.schema.lock().unwrap().keyspaces.keeps_commit_log = true;
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    let is_durable = || daemon.outbox.is_durable.load(Ordering::Relaxed);
    assert!(is_durable());
    for keeps in [false, true] {
        server.schema.lock().unwrap().keyspaces.keeps_commit_log = keeps;
        wait_until("the change", async || is_durable() == keeps).await;
    }
    assert_eq!(server.checks.load(Ordering::Relaxed), 1, "the schema itself is not read again");
}

#[tokio::test(start_paused = true)]
async fn a_start_needs_no_server_once_the_names_are_copied() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.names.create(&[metric("a.b"), metric("a.c")]).await.unwrap();
    server.is_down.store(true, Ordering::Relaxed);
    let daemon = Daemon::new(&server, 1, dir.path());
    let page = daemon.names.scan(None, 100).await.unwrap();
    assert_eq!(page.entries.len(), 0, "a first start goes on without the names");

    server.is_down.store(false, Ordering::Relaxed);
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("a.b") && daemon.loaded.has("a.c")).await;
    wait_until("the copy", async || {
        daemon.copy.get(&["a.b", "a.c"]).await.unwrap().iter().all(Option::is_some)
    })
    .await;
    server.is_down.store(true, Ordering::Relaxed);
    let page = daemon.names.scan(None, 100).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    assert!(reasons(&daemon.member)[0].contains("down"));
}

#[tokio::test(start_paused = true)]
async fn creations_and_deletions_by_others_are_followed() {
    let server = server();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (Daemon::new(&server, 1, one.path()), Daemon::new(&server, 2, two.path()));
    a.start().await;
    b.start().await;
    // The first scan of all names ends before anything happens.
    tokio::time::sleep(Duration::from_secs(10)).await;
    a.names.create(&[metric("new.one"), metric("new.two")]).await.unwrap();
    wait_until("the creation", async || b.loaded.has("new.one") && b.loaded.has("new.two")).await;

    b.loaded.set_written("new.two");
    a.names.delete(&["new.one", "new.two"]).await.unwrap();
    wait_until("the deletion", async || !b.loaded.has("new.one")).await;
    assert!(b.copy.get(&["new.one"]).await.unwrap()[0].is_none());
    let mut forgotten = b.outbox.forgotten.lock().unwrap().clone();
    forgotten.sort_unstable();
    let mut deleted = ["new.one", "new.two"].map(|name| (MetricId::of(name), NOW * 1_000_000));
    deleted.sort_unstable();
    assert_eq!(forgotten, deleted, "rows on the local disk that are older than the deletion");
    wait_until("the metric with points to be created again", async || {
        server.names.get(&["new.two"]).await.unwrap()[0].is_some()
    })
    .await;
    assert!(b.loaded.has("new.two"));
}

#[tokio::test(start_paused = true)]
async fn names_that_a_returning_server_lost_are_created_again() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    server.names.create(&[metric("kept.a"), metric("kept.b"), metric("kept.c")]).await.unwrap();
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("kept.c")).await;
    MetadataStore::delete(&server.names, &["kept.a"]).await.unwrap();
    server.names_restarts.store(1, Ordering::Relaxed);
    wait_until("the lost name", async || server.names.get(&["kept.a"]).await.unwrap()[0].is_some()).await;

    // No server has returned, so this missing name counts as deleted.
    MetadataStore::delete(&server.names, &["kept.b"]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5 * 3600)).await;
    wait_until("the deletion", async || !daemon.loaded.has("kept.b")).await;
    assert!(daemon.copy.get(&["kept.b"]).await.unwrap()[0].is_none());

    // If most names are missing, none counts as deleted.
    MetadataStore::delete(&server.names, &["kept.a", "kept.c"]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(13 * 3600)).await;
    assert!(daemon.loaded.has("kept.a") && daemon.loaded.has("kept.c"));
}

/// The same, if no process of the daemon was running when the server was restarted.
#[tokio::test(start_paused = true)]
async fn names_that_a_server_lost_unwatched_are_created_again() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let all = ["kept.a", "kept.b", "kept.c"].map(metric);
    server.names.create(&all).await.unwrap();
    *server.starts.lock().unwrap() = a_start(Some(7), 0);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("kept.c")).await;
    // Longer than the interval at which the progress is saved.
    tokio::time::sleep(Duration::from_secs(120)).await;
    drop(daemon);

    MetadataStore::delete(&server.names, &["kept.a"]).await.unwrap();
    *server.starts.lock().unwrap() = a_start(Some(8), 0);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.copy.create(&all).await.unwrap();
    daemon.loaded.names.lock().unwrap().extend(all.iter().map(|meta| meta.name.clone()));
    daemon.start().await;
    wait_until("the lost name", async || server.names.get(&["kept.a"]).await.unwrap()[0].is_some()).await;
    assert!(daemon.loaded.has("kept.a"));
}

/// The same, if the tables were dropped and created again.
#[tokio::test(start_paused = true)]
async fn names_are_created_again_in_tables_that_were_made_again() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let all = ["kept.a", "kept.b", "kept.c"];
    server.names.create(&all.map(metric)).await.unwrap();
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    wait_until("the names", async || daemon.loaded.has("kept.c")).await;
    MetadataStore::delete(&server.names, &all).await.unwrap();
    server.schema.lock().unwrap().fatal.push("a table is missing".to_owned());
    wait_until("the problem", async || !reasons(&daemon.member).is_empty()).await;
    server.schema.lock().unwrap().fatal.clear();
    wait_until("the names on the server", async || {
        server.names.get(&all).await.unwrap().iter().all(Option::is_some)
    })
    .await;
    assert!(daemon.loaded.has("kept.a"));

    // The same between two checks, so that no check finds a problem.
    let checks = server.checks.load(Ordering::Relaxed);
    for created in [1, 2] {
        server.schema.lock().unwrap().keyspaces.names_created_us = Some(created);
        wait_until("a check", async || server.checks.load(Ordering::Relaxed) == checks + created as u64)
            .await;
        if created == 1 {
            MetadataStore::delete(&server.names, &all).await.unwrap();
        }
    }
    wait_until("the names on the server", async || {
        server.names.get(&all).await.unwrap().iter().all(Option::is_some)
    })
    .await;
}

fn a_start(start: Option<i64>, age: u64) -> Vec<NodeStart> {
    vec![NodeStart { node: Uuid::from_u128(1), start, age: Duration::from_secs(age) }]
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_server_is_noticed_by_the_next_process_too() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    *server.starts.lock().unwrap() = a_start(Some(7), 0);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    let resent = |daemon: &Daemon| daemon.outbox.resent.load(Ordering::Relaxed);
    // The server may have been restarted before the daemon knew it.
    wait_until("the first look", async || resent(&daemon) == 1).await;
    wait_until("rows to expire", async || daemon.outbox.released_ms.load(Ordering::Relaxed) > 0).await;
    *server.starts.lock().unwrap() = a_start(Some(8), 0);
    wait_until("the restart", async || resent(&daemon) == 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(resent(&daemon), 2);
    drop(daemon);

    // The server is restarted while no daemon runs. A process that ends before it could note the rows changes
    // nothing.
    *server.starts.lock().unwrap() = a_start(Some(9), 0);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.outbox.is_broken.store(true, Ordering::Relaxed);
    daemon.start().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(daemon.outbox.released_ms.load(Ordering::Relaxed), 0);
    drop(daemon);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    wait_until("the restart", async || resent(&daemon) == 1).await;
    drop(daemon);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(resent(&daemon), 0);
}

#[tokio::test(start_paused = true)]
async fn retained_rows_expire_only_as_far_as_all_servers_have_answered() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    *server.starts.lock().unwrap() = a_start(None, 0);
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    let released = || daemon.outbox.released_ms.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(released(), 0);
    *server.starts.lock().unwrap() = a_start(Some(7), 300);
    wait_until("rows to expire", async || released() == (NOW - 300) * 1000).await;
}

#[tokio::test(start_paused = true)]
async fn one_daemon_at_a_time_has_a_lease_and_learns_when_it_is_lost() {
    let server = server();
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (Daemon::new(&server, 1, one.path()), Daemon::new(&server, 2, two.path()));
    let keeper = |of: &Daemon| LeaseKeeper::new(of.connection.clone(), of.clock.clone());
    let (clock, (a, b)) = (a.clock.clone(), (keeper(&a), keeper(&b)));
    let lost = CancellationToken::new();
    assert!(a.take("clean", &lost).await.unwrap());
    assert!(!b.take("clean", &lost).await.unwrap());
    a.release("clean").await;
    assert!(b.take("clean", &lost).await.unwrap());
    assert!(!lost.is_cancelled());
    server.leases.lock().unwrap().insert("maintenance/clean".to_owned(), Uuid::new_v4());
    lost.cancelled().await;

    server.schema.lock().unwrap().features.leases = false;
    assert!(a.take("clean", &lost).await.unwrap(), "without leases every daemon runs the job");

    // A job of a daemon whose clock is far ahead would delete what is not old yet.
    clock.jump(86_400);
    let refused = a.take("clean", &lost).await.unwrap_err();
    assert!(refused.to_string().contains("86400 s ahead"), "{refused:?}");
    assert!(b.take("clean", &lost).await.unwrap());
    clock.jump(-86_400);
    assert!(a.take("clean", &lost).await.unwrap());
}

/// A job that is already running would also delete metrics that are not old yet.
#[tokio::test(start_paused = true)]
async fn a_running_job_stops_when_the_clock_is_set_ahead() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    let keeper = LeaseKeeper::new(daemon.connection.clone(), daemon.clock.clone());
    for has_leases in [true, false] {
        server.schema.lock().unwrap().features.leases = has_leases;
        let lost = CancellationToken::new();
        assert!(keeper.take("clean", &lost).await.unwrap());
        // A small jump of the clock does not stop the job, however long it runs.
        daemon.clock.jump(60);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(!lost.is_cancelled());
        daemon.clock.jump(3600);
        let set = tokio::time::Instant::now();
        lost.cancelled().await;
        assert!(set.elapsed() < Duration::from_secs(5), "{:?}", set.elapsed());
        keeper.release("clean").await;
        assert!(keeper.take("clean", &lost).await.is_err());
        daemon.clock.jump(-3660);
        let again = CancellationToken::new();
        assert!(keeper.take("clean", &again).await.unwrap());
        keeper.release("clean").await;
        assert!(!again.is_cancelled());
    }
}

#[tokio::test(start_paused = true)]
async fn hidden_series_come_back_with_points() {
    let (server, dir) = (server(), tempfile::tempdir().unwrap());
    let daemon = Daemon::new(&server, 1, dir.path());
    daemon.start().await;
    let index = Arc::new(Index::new(&Registry::new()));
    let config = metric("any").config;
    let series = TaggedSeries::new(
        daemon.loaded.clone() as Arc<dyn LocalMetrics>,
        Arc::new(daemon.names.clone()),
        Arc::clone(&index),
        Arc::new(ManualClock::at(NOW)),
        Arc::new(move |_| Arc::clone(&config)),
    );
    let names = ["cpu;host=a".to_owned(), "plain.name".to_owned()];
    series.tag(&names).await.unwrap();
    assert!(daemon.loaded.has("cpu;host=a") && !daemon.loaded.has("plain.name"));
    index.insert(["cpu;host=a"].into_iter());

    series.untag(&names).await.unwrap();
    assert_eq!(index.hidden_series(), ["cpu;host=a"]);
    daemon.loaded.set_written("cpu;host=a");
    series.sync_marks().await;
    assert_eq!(index.hidden_series(), ["cpu;host=a"], "its older points may be on their way");
    series.sync_marks().await;
    assert!(index.hidden_series().is_empty() && daemon.names.hidden().await.unwrap().is_empty());
}
