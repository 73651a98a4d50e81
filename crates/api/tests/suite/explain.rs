//! `/plumbago/explain`, over HTTP.

use crate::support::{NOW, default, metrics, start};
use plumbago_api::{Config, Limits};
use serde_json::{Value, json};

fn limit<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["limits"].as_array().unwrap().iter().find(|limit| limit["name"] == name).unwrap()
}

#[tokio::test]
async fn calls_fetches_and_limits_are_explained() {
    let server = default().await;
    let target = "alias(sumSeries(web.*.cpu.user,%20web.a.cpu.idle),'x')";
    let answer = server.get(&format!("/plumbago/explain?target={target}&from=-10min&maxDataPoints=3")).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let answer = answer.json();
    assert_eq!((&answer["until"], &answer["now"]), (&json!(NOW), &json!(NOW)));

    let alias = &answer["targets"][0];
    assert_eq!((&alias["function"], &alias["series"]), (&json!("alias"), &json!(1)));
    let sum = &alias["arguments"][0];
    assert_eq!((&sum["series"], &sum["begin"], &sum["evaluations"]), (&json!(1), &json!(6), &json!(1)));
    let [user, idle] = &sum["arguments"].as_array().unwrap()[..] else { panic!("{sum}") };
    assert_eq!((&user["kind"], &user["series"], &user["known"]), (&json!("name"), &json!(2), &json!(20)));
    assert_eq!((&idle["known"], &idle["values"]), (&json!(5), &json!(10)));

    let fetches = answer["fetches"].as_array().unwrap();
    assert_eq!(fetches.len(), 2);
    let number = user["fetches"][0].as_u64().unwrap() as usize;
    let fetch = &fetches[number];
    assert_eq!((&fetch["expression"], &fetch["names"]), (&json!("web.*.cpu.user"), &json!(2)));
    let metric = &fetch["metrics"][1];
    assert_eq!(metric["name"], "web.b.cpu.user");
    assert_eq!(metric["why"], "the range begins 10m ago, and the raw stage reaches 1d back");
    assert_eq!((&metric["head"], &metric["slots"], &metric["step"]), (&json!(10), &json!(10), &json!(60)));

    let series = &answer["series"]["first"][0];
    assert_eq!((&series["name"], &series["values"]), (&json!("x"), &json!(10)));
    assert!(series["shown_values"].as_u64().unwrap() <= 3, "{series}");
    assert_eq!(limit(&answer, "series")["used"], 3);
    assert_eq!(limit(&answer, "points")["used"], 30);
    assert_eq!(limit(&answer, "fetches")["used"], 2);
    assert_eq!(limit(&answer, "calls")["used"], 2);
    assert_eq!(answer["kept"], false);
}

#[tokio::test]
async fn a_call_over_several_ranges_names_all_its_fetches() {
    let server = default().await;
    let answer = server.get("/plumbago/explain?target=movingAverage(db.x.load,5)&from=-10min").await.json();
    let load = &answer["targets"][0]["arguments"][0];
    assert_eq!(load["fetches"].as_array().unwrap().len(), answer["fetches"].as_array().unwrap().len());
    assert!(load["evaluations"].as_u64().unwrap() > 1, "{load}");
}

#[tokio::test]
async fn what_render_refuses_is_refused() {
    let server = default().await;
    let wrong = server.get("/plumbago/explain?target=sumSeris(a)&errors=json").await;
    assert_eq!((wrong.status, &wrong.json()["fault"]["meant"]), (400, &json!("sumSeries")));
    let plain = server.get("/plumbago/explain?target=sumSeris(a)").await;
    assert_eq!(plain.text(), server.get("/render?target=sumSeris(a)").await.text());

    let limits = Limits { series: 1, ..Limits::default() };
    let server = start(Config { limits, ..Config::default() }, metrics()).await;
    let answer = server.get("/plumbago/explain?target=web.*.cpu.user").await;
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("api.limits.series"), "{}", answer.text());
}

#[tokio::test]
async fn a_kept_answer_is_said() {
    let server = default().await;
    let parameters = "target=db.x.load&from=-10min&format=json&cacheTimeout=600";
    let kept = async || server.get(&format!("/plumbago/explain?{parameters}")).await.json()["kept"].clone();
    assert_eq!(kept().await, false);
    assert_eq!(server.get(&format!("/render?{parameters}")).await.status, 200);
    assert_eq!(kept().await, true);
}

/// For a kept answer, the explanation says how many points of each fetch it contains.
#[tokio::test]
async fn points_from_the_cache_are_counted() {
    let server = default().await;
    let target = "movingAverage(sumSeries(web.*.cpu.user),3)&target=web.a.cpu.idle";
    let parameters = format!("target={target}&from=-10min&format=json&cacheTimeout=600");
    let fetches = async || {
        let answer = server.get(&format!("/plumbago/explain?{parameters}")).await.json();
        answer["fetches"].as_array().unwrap().clone()
    };
    let known = |fetch: &Value| -> u64 {
        let metrics = fetch["metrics"].as_array().unwrap().iter();
        metrics.map(|metric| metric["known"].as_u64().unwrap()).sum()
    };
    let before = fetches().await;
    assert!(before.len() > 2, "{before:?}");
    for fetch in &before {
        assert_eq!((&fetch["points"]["cache"], &fetch["points"]["head"]), (&json!(0), &json!(known(fetch))));
    }
    assert_eq!(server.get(&format!("/render?{parameters}")).await.status, 200);
    let after = fetches().await;
    assert_eq!(after.len(), before.len());
    for fetch in &after {
        assert!(known(fetch) > 0, "{fetch}");
        assert_eq!(fetch["points"]["cache"], json!(known(fetch)), "{fetch}");
    }
}
