//! The cache of `/render` responses, and the headers for HTTP caches.

use std::sync::atomic::Ordering;

use crate::support::{NOW, Running, default, metrics, start};
use plumbago_api::{CacheConfig, Config};
use plumbago_model::{ByteSize, Period};

const RENDER: &str = "/render?target=web.a.cpu.user&format=json&from=-5min";

/// Number of reads from the source of points so far.
fn reads(server: &Running) -> usize {
    server.source.started.load(Ordering::SeqCst)
}

async fn for_a_minute(bytes: ByteSize) -> Running {
    let cache = CacheConfig { time: Period::seconds(60), bytes };
    start(Config { cache, ..Config::default() }, metrics()).await
}

#[tokio::test]
async fn without_leave_every_answer_is_made_anew() {
    let server = default().await;
    for count in 1..=3 {
        let answer = server.get(RENDER).await;
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        assert_eq!(answer.header("expires"), None);
        assert_eq!(reads(&server), count);
    }
}

#[tokio::test]
async fn a_client_may_allow_it() {
    let server = default().await;
    let path = format!("{RENDER}&cacheTimeout=30");
    let first = server.get(&path).await;
    assert_eq!(first.header("cache-control"), Some("max-age=30"));
    assert_eq!(first.header("expires"), Some("Tue, 14 Nov 2023 22:15:30 GMT"));
    assert_eq!(first.header("pragma"), None);
    let second = server.get(&path).await;
    assert_eq!((&second.head, &second.body), (&first.head, &first.body));
    assert_eq!(reads(&server), 1);
    // The key ignores the order of parameters, names that begin with an underscore, and the method.
    let other = "/render?cacheTimeout=30&_salt=17&from=-5min&format=json&target=web.a.cpu.user";
    assert_eq!(server.get(other).await.body, second.body);
    let form = "target=web.a.cpu.user&format=json&from=-5min&cacheTimeout=30";
    let post = server.post("/render", "application/x-www-form-urlencoded", form).await;
    assert_eq!(post.body, second.body);
    assert_eq!(reads(&server), 1);
    // Any other parameter changes the key.
    for more in ["&tz=Europe/Rome", "&format=csv", "&target=db.x.load", "&maxDataPoints=1"] {
        let before = reads(&server);
        assert_ne!(server.get(&format!("{path}{more}")).await.status, 500);
        assert!(reads(&server) > before, "{more}");
    }
    let text = server.registry.prometheus();
    assert!(text.contains("plumbago_api_cache_requests_total{result=\"hit\"} 3"), "{text}");
    assert_eq!(NOW, 1_700_000_100);
}

#[tokio::test]
async fn a_client_may_forbid_it() {
    let server = for_a_minute(ByteSize::mib(1)).await;
    assert_eq!(server.get(RENDER).await.header("cache-control"), Some("max-age=60"));
    assert_eq!(server.get(RENDER).await.header("cache-control"), Some("max-age=60"));
    assert_eq!(reads(&server), 1);
    for (index, no) in ["&noCache=1", "&noCache=", "&cacheTimeout=0", "&cacheTimeout=-5"].iter().enumerate() {
        for _ in 0..2 {
            let answer = server.get(&format!("{RENDER}{no}")).await;
            assert_eq!(answer.header("cache-control"), Some("no-cache"), "{no}");
        }
        assert_eq!(reads(&server), 1 + 2 * (index + 1), "{no}");
    }
    assert_eq!(server.get(&format!("{RENDER}&cacheTimeout=x")).await.status, 400);
}

#[tokio::test]
async fn errors_and_what_is_too_large_are_not_kept() {
    let server = for_a_minute(ByteSize(64 << 10)).await;
    for _ in 0..2 {
        let wrong = server.get("/render?target=nothing(&format=json").await;
        assert_eq!((wrong.status, wrong.header("cache-control")), (400, None));
    }
    let large = "/render?target=web.a.cpu.user&format=json&from=-20000min";
    let first = server.get(large).await;
    assert!(first.body.len() > 128 << 10);
    let before = reads(&server);
    assert_eq!(server.get(large).await.body, first.body);
    assert!(reads(&server) > before);
    assert_eq!(server.registry.value("plumbago_api_cache_bytes"), Some(0.0));
}

#[tokio::test]
async fn pictures_are_kept_too() {
    let server = for_a_minute(ByteSize::mib(1)).await;
    let path = "/render?target=web.a.cpu.user&from=-5min";
    let (first, second) = (server.get(path).await, server.get(path).await);
    assert_eq!(second.header("content-type"), Some("image/png"));
    assert_eq!(first.body, second.body);
    assert_eq!(reads(&server), 1);
}
