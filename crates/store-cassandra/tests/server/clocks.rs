//! A clock that is ahead of the servers' clock.

use plumbago_model::{Aggregation, ManualClock, MetricId, Stage};
use plumbago_store::{PointStore, Run, SharedStore, WriteBatch, WriterIdentity};
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
