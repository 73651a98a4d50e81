//! Tests of the rows in the spool of a copied data directory.

use plumbago_model::{Aggregation, MetricId, Stage};
use plumbago_store::{PointStore, ReadRequest, RowCount, Run, SlotRange, WriteBatch, WriterIdentity};
use plumbago_store_cassandra::CassandraStore;

use crate::common::{Keyspace, now};

const HOURS: Stage = Stage { resolution: 3600, points: 720 };

fn run() -> Run {
    Run {
        id: MetricId::of("copied"),
        stage: HOURS,
        stage_index: 1,
        aggregation: Aggregation::Sum,
        first_slot: now() / 3600 - 2,
        len: 0,
        at: 0,
        whole: false,
    }
}

/// A window of `sum` points, each with the value 1.
fn window(run: Run, sum: i32) -> WriteBatch {
    let mut batch = WriteBatch::default();
    batch.push(run, &[f64::from(sum)], Some(&[RowCount::new(sum)]));
    batch
}

async fn sum(store: &CassandraStore, run: Run) -> f64 {
    let Run { id, stage, stage_index, aggregation, first_slot: from, .. } = run;
    let range = SlotRange { id, stage, stage_index, aggregation, from, until: from + 1 };
    let request = ReadRequest { ranges: vec![range], ..ReadRequest::default() };
    store.read(&request).await.unwrap()[0].values[0]
}

/// The original and its copy both send what was pending when the copy was made.
#[tokio::test(flavor = "multi_thread")]
async fn pending_rows_of_a_copy_count_once() {
    let Some(keyspace) = Keyspace::new("copies") else { return };
    let identity = WriterIdentity::new(0, 800);
    let original = keyspace.store_of(identity).await;
    keyspace.sync(&original, &["60s:1d,3600s:30d"]).await;
    let (run, copied_us) = (run(), 2_000_000);
    original.writer().write_runs_at(&window(run, 40), copied_us).await.unwrap();
    let copy = keyspace.store_of(WriterIdentity::new(0, 80)).await;
    copy.set_former_writer(identity, copied_us);
    copy.writer().write_runs_at(&window(run, 40), copied_us).await.unwrap();
    assert_eq!(sum(&copy, run).await, 40.0);
    // The original has added points since it was copied. Its row counts, and not the older row that both
    // have.
    original.writer().write_runs_at(&window(run, 50), copied_us + 1).await.unwrap();
    copy.writer().write_runs_at(&window(run, 40), copied_us).await.unwrap();
    assert_eq!(sum(&copy, run).await, 50.0);
    // Points that only the copy has accepted are added.
    copy.writer().write_runs_at(&window(run, 2), copied_us + 1).await.unwrap();
    assert_eq!(sum(&copy, run).await, 52.0);
    keyspace.drop().await;
}
