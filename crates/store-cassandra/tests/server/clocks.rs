//! Clocks that differ from the servers' clock.

use plumbago_model::{Aggregation, ManualClock, MetricConfig, MetricId, Stage};
use plumbago_store::{MetadataStore, MetricMeta, PointStore, Run, SharedStore, WriteBatch, WriterIdentity};
use plumbago_telemetry::Registry;

use crate::common::{Keyspace, now};

const RAW: Stage = Stage { resolution: 60, points: 1440 };

/// By our clock all rows are older than their retention. By the servers' clock, which decides when rows expire, one of
/// them is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_drops_no_rows() {
    let Some(keyspace) = Keyspace::new("ahead") else { return };
    keyspace.sync(&keyspace.store().await, &["60s:1d"]).await;
    let clock = ManualClock::at(i64::from(now()) + 30 * 86_400);
    let store = keyspace.store_at(WriterIdentity::new(0, 800), clock, &Registry::new()).await;
    // A daemon does this before its first row, and each minute.
    store.server_clock_ms().await.unwrap();
    let mut batch = WriteBatch::default();
    for slots_ago in [2, 3000] {
        let run = Run {
            id: MetricId::of("ahead"),
            stage: RAW,
            stage_index: 0,
            aggregation: Aggregation::Average,
            first_slot: now() / 60 - slots_ago,
            len: 0,
            at: 0,
            whole: false,
        };
        batch.push(run, &[1.0], None);
    }
    store.write(&batch).await.unwrap();
    let session = keyspace.session().await;
    let text = format!("SELECT TTL(value) FROM \"{}\".datapoints_1440p_60s_0", keyspace.config.keyspace);
    let rows = session.query_unpaged(text, ()).await.unwrap().into_rows_result().unwrap();
    let ttls: Vec<i32> = rows.rows::<(i32,)>().unwrap().map(|row| row.unwrap().0).collect();
    assert!(ttls.len() == 1 && ttls[0] > 80_000, "{ttls:?}");
    keyspace.drop().await;
}

/// The clocks of two daemons differ from each other by 20 minutes, all the time. Each sees the changes of the other with
/// the next poll.
#[tokio::test(flavor = "multi_thread")]
async fn daemons_whose_clocks_differ_see_changes_at_once() {
    let Some(keyspace) = Keyspace::new("differ") else { return };
    keyspace.sync(&keyspace.store().await, &["60s:1d"]).await;
    let mut stores = Vec::new();
    for (first_id, ahead) in [(800, 600), (880, -600)] {
        let clock = ManualClock::at(i64::from(now()) + ahead);
        let store = keyspace.store_at(WriterIdentity::new(0, first_id), clock, &Registry::new()).await;
        // A daemon does this every few seconds.
        store.server_clock_ms().await.unwrap();
        stores.push(store);
    }
    for (writer, reader) in [(&stores[0], &stores[1]), (&stores[1], &stores[0])] {
        let mut feed = reader.change_feed(i64::from(now()));
        feed.poll().await.unwrap();
        let name = format!("seen.{}", writer.writer_identity().first_id());
        let config = MetricConfig {
            retention: "60s:1d".parse().unwrap(),
            aggregation: Aggregation::Average,
            x_files_factor: 0.5,
        };
        writer
            .create(&[MetricMeta { name: name.clone(), config: config.into(), created_on: now() }])
            .await
            .unwrap();
        let changes = feed.poll().await.unwrap();
        assert!(!changes.missed && changes.names.contains(&(name, None)), "{changes:?}");
    }
    keyspace.drop().await;
}
