//! Quotas while metrics are created and deleted, quotas change, and the engine is restarted.

use std::collections::{BTreeMap, BTreeSet};

use plumbago_model::rules::QuotaRules;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::config::CreateLimit;

fn rules(text: &str) -> QuotaRules {
    let (rules, problems) = QuotaRules::parse(text);
    assert!(problems.is_empty(), "{problems:?}");
    rules
}

/// The quotas of the tests: each directory below `t` may have this many metrics.
fn limit(metrics: u64) -> String {
    format!("[free]\npattern = t.free\n[teams]\npattern = t.*\nmetrics = {metrics}\n")
}

/// The number of metrics of each directory, as the quotas count them.
fn counted(engine: &Engine) -> BTreeMap<String, u64> {
    let uses = engine.quotas().uses(START);
    uses.into_iter().filter(|one| one.metrics > 0).map(|one| (one.directory, one.metrics)).collect()
}

fn directory(name: &str) -> String {
    name.rsplit_once('.').unwrap().0.to_owned()
}

/// The names among the given ones whose metrics exist in the engine.
async fn existing(engine: &Engine, names: &[String]) -> BTreeSet<String> {
    let asked: Vec<&str> = names.iter().map(String::as_str).collect();
    let known = engine.contains(&asked).await.unwrap();
    names.iter().zip(known).filter(|(_, known)| *known).map(|(name, _)| name.clone()).collect()
}

fn count(names: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    names.iter().for_each(|name| *counts.entry(directory(name)).or_default() += 1);
    counts
}

/// Shards that create metrics of one directory at the same time do not use up each other's quota.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_reached_whichever_shards_create_the_metrics() {
    let mut world = World::new();
    world.quotas = Arc::new(Quotas::new(rules(&limit(20))));
    let (engine, _) = world.start().await;
    for round in 0..300 {
        let names: Vec<String> = (0..20).map(|n| format!("t.r{round}.m{n}")).collect();
        let before = applied(&engine);
        assert!(engine.push(batch(names.iter(), START, 1.0)).await);
        while applied(&engine) < before + names.len() as u64 {
            tokio::task::yield_now().await;
        }
        assert_eq!(existing(&engine, &names).await.len(), names.len(), "round {round}");
    }
    world.stop(engine).await;
}

/// The number of points that the shards have applied.
fn applied(engine: &Engine) -> u64 {
    engine.0.gauges.iter().map(|shard| shard.applied.load(Ordering::Relaxed)).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_exact_over_deletions_changes_and_restarts() {
    for seed in 0..12 {
        let mut random = StdRng::seed_from_u64(seed);
        let all: Vec<String> = (0..60)
            .map(|n| format!("t.{}.m{n}", ["a", "b", "free"][n % 3]))
            .chain(["u.v.w".into()])
            .collect();
        let mut most = 12;
        let mut world = World::new();
        world.quotas = Arc::new(Quotas::new(rules(&limit(most))));
        let (mut engine, _) = world.start().await;
        let mut expected: BTreeSet<String> = BTreeSet::new();
        for step in 0..40 {
            match random.random_range(0..10) {
                0..5 => {
                    let mut names: Vec<&String> = all.iter().filter(|_| random.random_bool(0.2)).collect();
                    let before = engine.ledger().await.unwrap().received;
                    let known = expected.clone();
                    // Known metrics keep getting points, whatever the limit is.
                    names.sort_by_key(|name| !known.contains(*name));
                    assert!(engine.push(batch(names.iter().copied(), START, 1.0)).await);
                    while applied(&engine) < before + names.len() as u64 {
                        tokio::task::yield_now().await;
                    }
                    let now = existing(&engine, &all).await;
                    assert!(now.is_superset(&known), "seed {seed} step {step}");
                    let wanted: BTreeSet<String> =
                        known.iter().cloned().chain(names.into_iter().cloned()).collect();
                    for (directory, wanted) in count(&wanted) {
                        let had = count(&known).get(&directory).copied().unwrap_or(0);
                        let allowed = if directory.starts_with("t.") && directory != "t.free" {
                            wanted.min(most.max(had))
                        } else {
                            wanted
                        };
                        assert_eq!(count(&now)[&directory], allowed, "seed {seed} step {step} {directory}");
                    }
                    expected = now;
                }
                5..7 => {
                    let names: Vec<&str> =
                        expected.iter().map(String::as_str).filter(|_| random.random_bool(0.3)).collect();
                    let mut left = names.clone();
                    while !left.is_empty() {
                        let begun = engine.begin_deletions(&left).await.unwrap();
                        let ended: Vec<&str> =
                            left.iter().zip(&begun).filter(|(_, b)| **b).map(|(name, _)| *name).collect();
                        engine.parts().metadata.delete(&ended).await.unwrap();
                        engine.end_deletions(&ended).await.unwrap();
                        left =
                            left.into_iter().zip(begun).filter(|(_, b)| !b).map(|(name, _)| name).collect();
                    }
                    let gone: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
                    expected.retain(|name| !gone.contains(name));
                }
                7 => {
                    most = random.random_range(3..20);
                    assert_eq!(engine.set_quotas(rules(&limit(most))).await.unwrap(), 0);
                }
                _ => {
                    world.stop(engine).await;
                    world.quotas = Arc::new(Quotas::new(rules(&limit(most))));
                    engine = world.start().await.0;
                }
            }
            let mut counts = count(&expected);
            counts.remove("u.v");
            assert_eq!(counted(&engine), counts, "seed {seed} step {step}");
            assert_eq!(engine.ledger().await.unwrap().missing(), 0);
        }
        world.stop(engine).await;
    }
}

/// Metrics that are created while the quotas change count towards the new quotas.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_of_quotas_loses_no_metric_that_is_being_created() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let sender = tokio::spawn({
        let engine = engine.clone();
        async move {
            for n in 0..3000 {
                let names: Vec<String> = (0..5).map(|k| format!("t.d{k}.m{n}")).collect();
                assert!(engine.push(batch(&names, START, 1.0)).await);
            }
        }
    });
    for round in 0..6u64 {
        let text = if round == 2 { String::new() } else { limit(1_000_000 + round) };
        engine.set_quotas(rules(&text)).await.unwrap();
    }
    sender.await.unwrap();
    engine.flush_all().await.unwrap();
    assert_eq!(engine.set_quotas(rules(&limit(7))).await.unwrap(), 0);
    let expected: BTreeMap<String, u64> = (0..5).map(|k| (format!("t.d{k}"), 3000)).collect();
    assert_eq!(counted(&engine), expected);
    assert_eq!(engine.0.stats.rejected[crate::stats::Reject::Quota as usize].get(), 0);
    assert!(engine.push(batch(&["t.d0.new".to_owned(), "t.d0.m1".to_owned()], START, 1.0)).await);
    engine.flush_all().await.unwrap();
    let ledger = world.stop(engine.clone()).await;
    assert_eq!((ledger.received, ledger.missing()), (15_002, 0));
    assert_eq!(engine.0.stats.rejected[crate::stats::Reject::Quota as usize].get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_beyond_a_limit_are_refused_on_all_shards_together() {
    let mut world = World::new();
    let text = "[a]\npattern = a\npoints_per_minute = 100\n[dry]\npattern = b\npoints_per_minute = 10\ndry_run = on\n";
    world.quotas = Arc::new(Quotas::new(rules(text)));
    let (engine, _) = world.start().await;
    let of = |prefix: &str| -> Vec<String> { (0..30).map(|n| format!("{prefix}.m{n}")).collect() };
    for second in 0..10 {
        assert!(engine.push(batch(&of("a"), START + second, 1.0)).await);
        assert!(engine.push(batch(&of("b"), START + second, 1.0)).await);
    }
    engine.flush_all().await.unwrap();
    // The point that creates a metric counts too.
    let ledger = engine.ledger().await.unwrap();
    assert_eq!((ledger.received, ledger.missing()), (600, 0));
    let refused: Vec<[u64; 3]> = engine.quotas().uses(START).into_iter().map(|one| one.refused).collect();
    assert_eq!(refused, [[0, 200, 0], [0, 290, 0]]);
    assert_eq!(engine.0.stats.rejected[crate::stats::Reject::Quota as usize].get(), 200);
    world.clock.advance(60);
    assert!(engine.push(batch(&of("a"), START + 60, 1.0)).await);
    engine.flush_all().await.unwrap();
    assert_eq!(engine.0.stats.rejected[crate::stats::Reject::Quota as usize].get(), 200);
    world.stop(engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_metric_is_created_while_the_limit_says_none() {
    let world = World::new();
    let (engine, _) = world.start().await;
    let names = |prefix: &str| vec![format!("{prefix}.m")];
    engine.set_max_creates(CreateLimit::None);
    assert!(engine.push(batch(&names("a"), START, 1.0)).await);
    engine.flush_all().await.unwrap();
    assert_eq!(existing(&engine, &names("a")).await.len(), 0);
    engine.set_max_creates(CreateLimit::UNLIMITED);
    assert!(engine.push(batch(&names("a"), START, 1.0)).await);
    engine.flush_all().await.unwrap();
    assert_eq!(existing(&engine, &names("a")).await.len(), 1);
    let ledger = world.stop(engine).await;
    assert_eq!((ledger.received, ledger.missing()), (2, 0));
}
