//! `/metrics/find`, `/metrics/expand` and `/metrics/index.json` compared with the real graphite-web, on a tree of
//! difficult names.

use std::fmt::Write as _;

use plumbago_tests::answer::short;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::http::{encode, url};
use plumbago_tests::oracle::{Kept, Oracle};
use plumbago_tests::send::Point;
use serde_json::Value;

const NOW: i64 = 1_700_000_000;

/// A leaf and a directory of the same name, upper and lower case, characters that are special in patterns, and
/// names that are not ASCII.
const NAMES: &[&str] = &[
    "top",
    "top2.x",
    "a.b",
    "a.b.c",
    "a.b.c.d",
    "a.x.c",
    "a.x.c2",
    "A.b",
    "Z.b",
    "_.b",
    "9.8.7",
    "servers.web01",
    "servers.web01.cpu.user",
    "servers.web01.cpu.system",
    "servers.web02.cpu.user",
    "servers.web10.cpu",
    "servers.db-1.load",
    "servers.db_2.load",
    "servers.DB3.load",
    "odd.x",
    "odd.[x]",
    "odd.]",
    "odd.a-c",
    "odd.-",
    "odd.^c",
    "odd.!c",
    "odd.c",
    "odd.a=b",
    "odd.a:b",
    "odd.a+b",
    "odd.a#b",
    "odd.a@b",
    "odd.a&b",
    "odd.a%b",
    "odd.a%20b",
    "odd.$d",
    "odd.(p)",
    "odd.a|b",
    "odd.'q'",
    "odd.\"q\"",
    "odd.~t",
    "odd.a,b",
    "odd.a",
    "odd.b",
    "odd.münchen",
    "odd.日本.x",
    "long.nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn.x",
];

const QUERIES: &[&str] = &[
    "*",
    "*.*",
    "*.*.*",
    "*.*.*.*",
    "*.*.*.*.*",
    "?",
    "??",
    "a",
    "A",
    "a.b",
    "a.*",
    "a.b.*",
    "a.*.c",
    "a.*.c*",
    "*.b",
    "*.b*",
    "top",
    "top*",
    "nothing",
    "nothing.*",
    "a.nothing.c",
    "servers.web0[12].cpu.*",
    "servers.web[0-1]*",
    "servers.web[0-1]?.cpu",
    "servers.[!w]*.load",
    "servers.[^w]*",
    "servers.[A-Z]*",
    "servers.[a-zA-Z]*.load",
    "servers.{web01,web02}.cpu.user",
    "servers.{web02,web01}.*",
    "servers.{web0{1,2},db-1}.*",
    "servers.web{01,02,10}",
    "servers.web??",
    "servers.*1*",
    "{a,A}.b",
    "{a,A,nothing}.{b,x}",
    "odd.*",
    "odd.[x]",
    "odd.[[]x]",
    "odd.[",
    "odd.[x",
    "odd.x]",
    "odd.]",
    "odd.[]]",
    "odd.[!]]",
    "odd.[a-]",
    "odd.[-a]",
    "odd.[c-a]",
    "odd.[!x]",
    "odd.[^c]",
    "odd.[!^]c",
    "odd.[!!]c",
    "odd.{a",
    "odd.a}",
    "odd.{a}",
    "odd.a,b",
    "odd.{a,b}",
    "odd.a?b",
    "odd.a[=:+]b",
    "odd.a%b",
    "odd.a%20b",
    "odd.a#b",
    "odd.m?nchen",
    "odd.münchen",
    "odd.m*",
    "odd.日本",
    "odd.日*",
    "odd.日本.*",
    "odd.??",
    "odd.'q'",
    "odd.(p)",
    "odd.$d",
    "odd.~*",
    "odd.\"*",
    "long.*",
    "long.n*",
    "a.b.c",
    "a.b.c.*",
    "9.8.*",
    "[0-9].*",
    "[a-z]",
    "[!a-z]",
    "{[a-c],top2}.*",
    "a.[b]",
    "a.{b,x}.c",
    "a.{b,x}.{c,c2}",
    "servers.web01.{cpu}.{user,system}",
];

/// Queries whose empty components are ignored by graphite-web too.
const FOLDED_BY_BOTH: &[&str] = &[".a", "a..b", ".*", "a b", " a", "a.**", "servers.**", "a.**.d", "**.c"];

/// Queries with empty components that graphite-web answers with nodes without a name, and equivalent queries.
const FOLDED: &[(&str, &str)] = &[
    ("..", "nothing"),
    ("a.", "a"),
    ("a.b.", "a.b"),
    ("*.", "*"),
    ("a.*.", "a.*"),
    ("servers.{web01,}.cpu", "servers.web01.cpu"),
];

#[test]
fn find_and_expand_are_graphites() {
    let Some(mut oracle) = Oracle::start() else { return };
    let kept = |name: &&str| Kept {
        name: (*name).to_owned(),
        stages: vec![(60, 10)],
        factor: 0.5,
        method: "average".to_owned(),
    };
    let kept: Vec<Kept> = NAMES.iter().map(kept).collect();
    oracle.create(&kept);
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:10m\n").clock(NOW);
    let daemon = setup.start();
    let points: Vec<Point> = NAMES.iter().map(|n| Point::new(*n, NOW, 1.0)).collect();
    oracle.update(NOW, &points);
    daemon.put(&points);
    daemon.wait_names(NAMES.len());

    let mut asked = Asked { daemon, oracle, agreed: Differences::listed("find."), complaints: String::new() };
    asked.compare("/metrics/index.json");
    for query in QUERIES.iter().chain(FOLDED_BY_BOTH) {
        asked.every_way(query);
    }
    for (query, meant) in FOLDED {
        asked.means(query, meant);
    }
    asked.paths_in_braces();
    asked.odd_parameters();
    asked.renders();
    assert!(asked.complaints.is_empty(), "\n{}", asked.complaints);

    // The same requests to an index that was loaded from disk.
    asked.daemon.stop_well();
    asked.daemon = setup.start();
    for query in QUERIES {
        asked.compare(&url("/metrics/find", &[("query", query)]));
    }
    assert!(asked.complaints.is_empty(), "after a restart:\n{}", asked.complaints);
    asked.agreed.assert_all_seen();
}

/// Sends requests to both servers and collects differences.
struct Asked {
    daemon: Daemon,
    oracle: Oracle,
    agreed: Differences,
    complaints: String,
}

impl Asked {
    fn every_way(&mut self, query: &str) {
        for format in ["", "treejson", "completer", "nodelist"] {
            for wildcards in ["0", "1"] {
                self.compare(&url(
                    "/metrics/find",
                    &[("query", query), ("format", format), ("wildcards", wildcards)][..]
                        .iter()
                        .copied()
                        .filter(|(_, v)| !v.is_empty())
                        .collect::<Vec<_>>(),
                ));
            }
        }
        self.compare(&url("/metrics/find", &[("query", query), ("leavesOnly", "1")]));
        self.compare(&url("/metrics/find", &[("query", query), ("format", "nodelist"), ("position", "0")]));
        self.compare(&url("/metrics/find", &[("query", query), ("format", "nodelist"), ("position", "1")]));
        self.compare(&url(
            "/metrics/find",
            &[("query", query), ("format", "completer"), ("automatic_variants", "1")],
        ));
        for (group, leaves) in [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")] {
            self.compare(&url(
                "/metrics/expand",
                &[("query", query), ("groupByExpr", group), ("leavesOnly", leaves)],
            ));
        }
    }

    /// A query that the daemon treats like another one: the nodes are the same, and their ids can be queried.
    fn means(&mut self, query: &str, meant: &str) {
        let ours = self.daemon.get(&url("/metrics/find", &[("query", query)])).body;
        let same = self.daemon.get(&url("/metrics/find", &[("query", meant)])).body;
        let theirs = self.oracle.get(NOW, &url("/metrics/find", &[("query", query)])).body;
        let nodes = |text: &str| -> Vec<(String, bool)> {
            let nodes: Vec<Value> = serde_json::from_str(text).unwrap();
            nodes.iter().map(|n| (n["text"].to_string(), n["leaf"] == 1)).collect()
        };
        if nodes(&theirs) != nodes(&ours) {
            self.agreed.seen("find.empty-component");
        }
        if nodes(&ours) != nodes(&same) {
            let _ =
                writeln!(self.complaints, "{query} is not {meant}\n  {}\n  {}", short(&ours), short(&same));
        }
        for node in serde_json::from_str::<Vec<Value>>(&ours).unwrap() {
            let id = node["id"].as_str().unwrap();
            let again = self.daemon.get(&url("/metrics/find", &[("query", id)])).body;
            if nodes(&again).is_empty() {
                let _ = writeln!(self.complaints, "{query} gives the id {id}, which is nothing");
            }
        }
    }

    /// Compares alternatives that contain a path.
    fn paths_in_braces(&mut self) {
        let path = url("/metrics/expand", &[("query", "{a.b,A.b}")]);
        let (ours, theirs) = (self.daemon.get(&path).body, self.oracle.get(NOW, &path).body);
        if called(&theirs) != called(&ours) {
            self.agreed.seen("find.dots-in-braces");
        }
        if called(&ours) != called(r#"{"results": ["A.b", "a.b"]}"#) {
            let _ = writeln!(self.complaints, "{path}: {ours}");
        }
    }

    fn odd_parameters(&mut self) {
        let now = NOW.to_string();
        for path in [
            "/metrics/find".to_owned(),
            "/metrics/find/".to_owned(),
            "/metrics/find?query=a.*&format=nonsense".to_owned(),
            "/metrics/find?query=a.*&wildcards=x".to_owned(),
            "/metrics/find?query=a.*&leavesOnly=x".to_owned(),
            "/metrics/find?query=a.*&format=nodelist&position=x".to_owned(),
            "/metrics/find/?query=a.*".to_owned(),
            "/metrics?query=a.*".to_owned(),
            "/metrics/?query=a.*".to_owned(),
            "/metrics/find?query=a.*&jsonp=cb".to_owned(),
            "/metrics/find?query=a.*&pretty=1".to_owned(),
            format!("/metrics/find?query=a.*&from={}&until={now}", NOW - 300),
            "/metrics/find?query=a.*&from=-5min&until=now".to_owned(),
            "/metrics/find?query=a.*&from=nonsense".to_owned(),
            "/metrics/find?query=servers.web01,web02&format=completer&automatic_variants=1".to_owned(),
            "/metrics/find?query=servers.web01,web02&format=completer".to_owned(),
            "/metrics/expand".to_owned(),
            "/metrics/expand?query=a.*&query=A.*".to_owned(),
            "/metrics/expand?query=a.*&query=A.*&groupByExpr=1".to_owned(),
            "/metrics/expand?query=a.*&query=a.b&leavesOnly=1".to_owned(),
            "/metrics/expand?query=a.*&leavesOnly=x".to_owned(),
            "/metrics/expand?query=a.*&groupByExpr=x".to_owned(),
            "/metrics/expand/?query=a.*".to_owned(),
            "/metrics/expand?query=a.*&jsonp=cb".to_owned(),
            "/metrics/index.json/".to_owned(),
            "/metrics/index.json?jsonp=cb".to_owned(),
            "/metrics/nothing".to_owned(),
        ] {
            self.compare(&path);
        }
    }

    /// Renders names of the tree as targets. The grammar of targets refuses some names that find accepts.
    fn renders(&mut self) {
        let range = format!("&from={}&until={NOW}&now={NOW}&format=json", NOW - 120);
        for target in [
            "a.b",
            "a.*",
            "*.b",
            "servers.{web01,web02}.cpu.user",
            "servers.[!w]*.load",
            "odd.[x]",
            "odd.a=b",
            "odd.a:b",
            "nothing",
            "a.*.c",
            "{a,A}.b",
            "odd.a#b",
            "odd.~t",
            "odd.$d",
            "servers.web??.cpu",
        ] {
            self.compare(&format!("/render?target={}{range}", encode(target)));
        }
        self.compare(&format!("/render?target=a.b&target=A.b&target=a.b{range}"));
        self.compare(&format!("/render?target[]=a.b&target[]=A.b{range}"));
        self.compare(&format!("/render?x=1{range}"));
        self.compare(&format!("/render?target=a.b{range}&jsonp=cb"));
        self.compare(&format!("/render?target=a.b{range}&noNullPoints=1"));
        self.compare(&format!("/render?target=a.b{range}&maxDataPoints=x"));
        self.compare(&format!("/render/?target=a.b{range}"));
        self.compare("/render?target=a.b&format=json&from=nonsense");
        self.compare(&format!("/render?target=a.b&format=json&from={NOW}&until={NOW}&now={NOW}"));
    }

    fn compare(&mut self, path: &str) {
        let ours = self.daemon.get(path);
        let theirs = self.oracle.get(NOW, path);
        let our_type = ours.header("content-type").unwrap_or("").split(';').next().unwrap_or("").to_owned();
        let their_type = theirs.content_type.split(';').next().unwrap_or("").to_owned();
        if theirs.status >= 500 && (200..500).contains(&ours.status) {
            self.agreed.seen("find.no-500");
            return;
        }
        if theirs.status == 400 && ours.status == 400 && ours.body.trim() != theirs.body.trim() {
            assert!(our_type == "text/plain" && ours.body.lines().count() == 1, "{path}: {ours:?}");
            self.agreed.seen("find.error-text");
        }
        if path == "/metrics/index.json/" && ours.status == 200 && theirs.status == 404 {
            self.agreed.seen("find.index-slash");
            return;
        }
        let same = ours.status == theirs.status
            && (theirs.status != 200 || (our_type == their_type && self.same_json(&ours.body, &theirs.body)));
        if !same && self.complaints.len() < 30_000 {
            let _ = writeln!(
                self.complaints,
                "{path}\n  ours   {} {our_type} {}\n  theirs {} {their_type} {}",
                ours.status,
                short(&ours.body),
                theirs.status,
                short(&theirs.body)
            );
        }
    }

    /// Whether both are the same JSON, or calls of the same function with the same JSON.
    fn same_json(&mut self, ours: &str, theirs: &str) -> bool {
        let (Some((our_call, our)), Some((their_call, their))) = (called(ours), called(theirs)) else {
            return false;
        };
        if our_call != their_call {
            return false;
        }
        if our == their || by_name(&our) == by_name(&their) && by_name(&our).is_some() {
            return true;
        }
        let alike = kinds_aside(&our, &their);
        if alike {
            self.agreed.seen("find.both-kinds?");
        }
        alike
    }
}

/// The JSON, and the name of the function around it, if there is one.
fn called(text: &str) -> Option<(String, Value)> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some((String::new(), value));
    }
    let (call, rest) = text.split_once('(')?;
    Some((call.to_owned(), serde_json::from_str(rest.strip_suffix(')')?).ok()?))
}

/// The list of the completer with nodes of the same name sorted. Their order is random in graphite-web,
/// because it depends on hash tables.
fn by_name(answer: &Value) -> Option<Vec<Value>> {
    let mut nodes = answer.get("metrics")?.as_array()?.clone();
    let names: Vec<Value> = nodes.iter().map(|n| n["name"].clone()).collect();
    nodes.sort_by_key(|n| (names.iter().position(|name| *name == n["name"]), n["path"].to_string()));
    Some(nodes)
}

/// Whether two answers differ only in nodes that are a directory in the daemon and a leaf in graphite-web.
fn kinds_aside(ours: &Value, theirs: &Value) -> bool {
    let (Some(ours), Some(theirs)) = (ours.as_array(), theirs.as_array()) else { return false };
    let ids = |nodes: &[Value]| {
        let mut ids: Vec<String> = nodes.iter().map(|n| n["id"].to_string()).collect();
        ids.sort();
        ids
    };
    let kind = |nodes: &[Value], id: &Value| {
        nodes.iter().find(|n| n["id"] == *id).map(|n| (n["leaf"].clone(), n["text"].clone()))
    };
    ids(ours) == ids(theirs)
        && ours.iter().all(|node| {
            let (our, their) = (kind(ours, &node["id"]), kind(theirs, &node["id"]));
            our == their || our.is_some_and(|(leaf, _)| leaf == 0)
        })
}
