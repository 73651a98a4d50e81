//! The page's files and the calls that it uses.

use std::io::Read;

use plumbago_api::{Config, PageConfig};
use serde_json::json;

use super::support::{self, Answer, NOW, Running};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

async fn ask(server: &Running, path: &str, headers: &str) -> Answer {
    server.ask(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n")).await
}

async fn browse(server: &Running, path: &str) -> Answer {
    ask(server, path, &format!("accept: {BROWSER}\r\naccept-encoding: gzip, br\r\n")).await
}

fn unpacked(answer: &Answer) -> String {
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&answer.body[..]).read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn browsers_get_the_page_and_others_a_line() {
    let server = support::default().await;
    for accept in ["", "accept: */*\r\n", "accept: text/html;q=0, application/json\r\n"] {
        let answer = ask(&server, "/", accept).await;
        assert!(answer.text().starts_with("Plumbago answers Graphite's API here"), "{accept}");
        assert_eq!(answer.header("vary"), Some("accept"));
    }
    let page = browse(&server, "/").await;
    assert!(unpacked(&page).contains("<script type=\"module\" src=\"page/page.js\">"));
    assert_eq!(
        page.header("content-security-policy"),
        Some(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
        )
    );
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("set-cookie"), None);
    let mut first_load = page.body.len();
    for (file, kind) in [("page.js", "text/javascript"), ("style.css", "text/css")] {
        let answer = browse(&server, &format!("/page/{file}")).await;
        assert!(answer.header("content-type").unwrap().starts_with(kind));
        first_load += answer.body.len();
    }
    println!("first load: {:.1} KiB gzipped", first_load as f64 / 1024.0);
    assert!(first_load <= 80 << 10, "{first_load} bytes");
    let mut all_files = first_load;
    for file in ["codemirror.js", "licences.txt"] {
        all_files += browse(&server, &format!("/page/{file}")).await.body.len();
    }
    assert!(all_files <= 240 << 10, "{all_files} bytes");
    assert_eq!(browse(&server, "/page/../secret").await.status, 404);
}

#[tokio::test]
async fn files_are_sent_once() {
    let server = support::default().await;
    let first = browse(&server, "/page/page.js").await;
    let tag = first.header("etag").unwrap().to_owned();
    let known = format!("accept-encoding: gzip\r\nif-none-match: \"x\", {tag}\r\n");
    let again = ask(&server, "/page/page.js", &known).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let plain = ask(&server, "/page/page.js", "accept-encoding: gzip;q=0\r\n").await;
    assert_eq!(plain.header("content-encoding"), None);
    assert_ne!(plain.header("etag"), Some(tag.as_str()));
    assert_eq!(plain.text(), unpacked(&first));
}

#[tokio::test]
async fn any_prefix_works_and_the_page_can_be_switched_off() {
    let config = Config { url_prefix: "/a/graphite".to_owned(), ..Config::default() };
    let server = support::start(config, support::metrics()).await;
    let moved = browse(&server, "/a/graphite?target=x").await;
    assert_eq!((moved.status, moved.header("location")), (307, Some("graphite/?target=x")));
    assert_eq!(browse(&server, "/a/graphite/").await.status, 200);
    assert_eq!(browse(&server, "/a/graphite/page/page.js").await.status, 200);
    let led = browse(&server, "/a/graphite/composer?target=x").await;
    assert_eq!((led.status, led.header("location")), (307, Some("./?target=x")));
    let led = browse(&server, "/a/graphite/dashboard/").await;
    assert_eq!((led.status, led.header("location")), (307, Some("./../")));

    let config = Config { page: PageConfig { enabled: false, ..PageConfig::default() }, ..Config::default() };
    let server = support::start(config, support::metrics()).await;
    assert!(browse(&server, "/").await.text().starts_with("Plumbago answers"));
    assert_eq!(browse(&server, "/page/page.js").await.status, 404);
    assert_eq!(browse(&server, "/composer?target=x").await.header("location"), Some("/render?target=x"));
}

#[tokio::test]
async fn directories_are_listed_in_pages_with_counts() {
    let server = support::default().await;
    let root = server.get("/plumbago/browse").await.json();
    assert_eq!(
        root,
        json!({"total": 3, "matching": 3, "offset": 0, "path": "", "children": [
            {"name": "db", "leaf": false, "branch": true, "metrics": 1},
            {"name": "odd", "leaf": false, "branch": true, "metrics": 4},
            {"name": "web", "leaf": false, "branch": true, "metrics": 4},
        ]})
    );
    let page = server.get("/plumbago/browse?path=web&offset=1&limit=1").await.json();
    assert_eq!((&page["total"], &page["children"][0]["name"]), (&json!(2), &json!("b")));
    let both = server.get("/plumbago/browse?path=web.b").await.json();
    assert_eq!(both["children"], json!([{"name": "cpu", "leaf": true, "branch": true, "metrics": 1}]));
    let filtered = server.get("/plumbago/browse?path=odd&filter=N%20E").await.json();
    assert_eq!((&filtered["total"], &filtered["matching"]), (&json!(4), &json!(2)));
    assert_eq!(server.get("/plumbago/browse?path=none").await.json()["total"], json!(0));
    assert_eq!(server.get("/plumbago/browse?limit=100000").await.status, 400);
    assert_eq!(server.get("/plumbago/nothing").await.status, 404);
}

#[tokio::test]
async fn words_are_found_in_any_order_and_case() {
    let server = support::default().await;
    let found = |query: &str| {
        let path = format!("/plumbago/search?query={query}");
        let server = &server;
        async move {
            let answer = server.get(&path).await.json();
            let path = |result: &serde_json::Value| result["path"].as_str().unwrap().to_owned();
            answer["results"].as_array().unwrap().iter().map(path).collect::<Vec<_>>()
        }
    };
    assert_eq!(found("USER%20web%20a").await[0], "web.a.cpu.user");
    assert_eq!(found("cpu.us").await, ["web.a.cpu.user", "web.b.cpu.user"]);
    assert_eq!(found("w*.?.cpu.i*").await, ["web.a.cpu.idle"]);
    assert_eq!(found("dc%3Da").await, ["cpu;dc=a"]);
    assert_eq!(found("%C3%9CNIC").await, ["odd.\u{fc}nic\u{f6}de"]);
    assert_eq!(found("").await, Vec::<String>::new());
    let limited = server.get("/plumbago/search?query=cpu&limit=2").await.json();
    assert_eq!((limited["results"].as_array().unwrap().len(), &limited["complete"]), (2, &json!(true)));
    assert!(limited["total"].as_u64().unwrap() > 2);
    assert_eq!(server.get("/plumbago/search?query=cpu&limit=0").await.status, 400);
    assert_eq!(server.get(&format!("/plumbago/search?query={}", "x".repeat(3000))).await.status, 413);

    let mut config = Config::default();
    config.limits.find_visited = 2;
    let server = support::start(config, support::metrics()).await;
    assert_eq!(server.get("/plumbago/search?query=cpu").await.json()["complete"], json!(false));
    let counts = server.get("/plumbago/browse").await.json();
    assert_eq!(counts["children"][2]["metrics"], json!(null));
}

#[tokio::test]
async fn columns_have_one_axis_per_step() {
    let server = support::default().await;
    let path = format!(
        "/render?format=columns&from=-5min&until=now&target=web.a.cpu.*&target=color(dashed(odd.inf),%27red%27)\
         &target=summarize(db.x.load,%272min%27)&now={NOW}"
    );
    let answer = server.get(&path).await.json();
    assert_eq!((&answer["from"], &answer["until"]), (&json!(NOW - 300), &json!(NOW)));
    assert_eq!(answer["axes"].as_array().unwrap().len(), 2);
    assert_eq!(answer["axes"][0], json!({"start": NOW - 240, "step": 60, "count": 5}));
    let series = answer["series"].as_array().unwrap();
    assert_eq!(series.iter().map(|one| one["axis"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 0, 0, 1]);
    assert_eq!(series[0]["name"], "web.a.cpu.idle");
    assert_eq!(series[0]["stage"], json!({"retention": "60s:86400s,300s:2592000s", "number": 0}));
    assert_eq!(series[1]["values"], json!([-4, -3, -2, -1, 0]));
    assert_eq!(series[2]["options"], json!({"color": "red", "dashed": 5.0}));
    assert_eq!(series[2]["stage"], json!(null));
    assert!(series[0]["values"].as_array().unwrap().contains(&json!(null)));
    let first = server.get("/render?format=columns&target=web.*.*.*&seriesMax=1").await.json();
    assert_eq!((&first["total"], first["series"].as_array().unwrap().len()), (&json!(3), 1));
}

#[tokio::test]
async fn a_refusal_says_where() {
    let server = support::default().await;
    let answer = server.get("/render?format=json&errors=json&target=sumSeris(web.a.cpu.user)").await;
    assert_eq!((answer.status, answer.header("content-type")), (400, Some("application/json")));
    let fault = json!({"target": "sumSeris(web.a.cpu.user)", "begin": 0, "end": 8, "meant": "sumSeries"});
    assert_eq!(answer.json()["fault"], fault);
    let parse = server.get("/render?format=json&errors=json&target=sum(a").await.json();
    assert_eq!(parse["fault"]["begin"], json!(5));
    let expected = async |target: &str| {
        let answer = server.get(&format!("/render?format=json&errors=json&target={target}")).await;
        assert_eq!(answer.status, 400, "{target}");
        answer.json()["fault"]["expected"].as_str().map(str::to_owned)
    };
    let expected_of = [
        ("sum(a", ", or )"),
        ("sum(a,)", "a path or a function"),
        ("a b", "| or the end of the target"),
        ("a.{b", "a closing }"),
        ("alias(a,'b)", "a closing '"),
        ("a|b", "a function call"),
        ("sum(5)", "series"),
        ("alias(a)", "newName: text"),
        ("scale(a,'x')", "a number"),
        ("scale(a,2,3)", "at most 2 arguments"),
        ("sortBy(a,'sum',down=true)", "one of seriesList, func, reverse"),
    ];
    for (target, wanted) in expected_of {
        let escaped = target.replace(' ', "%20").replace('{', "%7B").replace('|', "%7C");
        assert_eq!(expected(&escaped).await.as_deref(), Some(wanted), "{target}");
    }
    let others = server.get("/render?format=json&target=sumSeris(web.a.cpu.user)").await;
    assert!(others.text().starts_with("target \"sumSeris(web.a.cpu.user)\": unknown function sumSeris"));
}
