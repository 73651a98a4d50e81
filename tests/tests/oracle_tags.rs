//! The calls below `/tags` and `seriesByTag` in targets, compared with the real graphite-web with tags in SQLite:
//! fixed requests and random expressions.

use std::fmt::Write as _;

use plumbago_tests::answer::short;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::differences::Differences;
use plumbago_tests::http::{self, encode, url};
use plumbago_tests::oracle::{Kept, Oracle};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

const NOW: i64 = 1_700_000_000;

/// Number of random sets of expressions.
const RANDOM: usize = 400;

const TAGS: &[&str] = &["name", "dc", "host", "rack", "k8s.io/app", "nothing"];

/// Values, and regular expressions that match nothing, match everything, or are invalid.
const SPECS: &[&str] = &[
    "",
    "a",
    "b",
    "ab",
    "A",
    "cpu",
    "disk.used",
    "web1",
    "web12",
    "1",
    "é",
    "x=y",
    ".*",
    ".+",
    "a.*",
    "^a",
    "a|b",
    "^a|b",
    "a|^b",
    "(a|b)$",
    "[ab]",
    "[^a]",
    "^$",
    "$",
    "b",
    ".b",
    "\\d+",
    "web\\d$",
    "w[eb]+1",
    "\\w+",
    "(?i)A",
    "(?!a)",
    "(?=a)",
    "(?:a)b?",
    "a{1,2}",
    "a{,2}",
    "\\.",
    "disk\\.",
    "(",
    "[",
    "*",
    "a**",
    "x=.",
    "é|a",
    "(web|cpu)(1|2)?",
    "web(1|12)$",
    "~a",
    "a!b",
];

/// Series with various tags. The names are in normal form.
fn series() -> Vec<String> {
    let mut all = Vec::new();
    for (name, dc) in [("cpu", "a"), ("cpu", "b"), ("disk.used", "a"), ("disk.used", "ab"), ("load", "é")] {
        for host in 1..=12 {
            all.push(format!("{name};dc={dc};host=web{host};rack={}", host % 3));
        }
        all.push(format!("{name};dc={dc}"));
        all.push(format!("{name};host=A"));
        all.push(format!("{name};dc={dc};k8s.io/app=x=y"));
        all.push(format!("{name};rack=b;z=~b").replace("~b", "b~"));
    }
    all
}

#[test]
fn tags_are_graphites() {
    let Some(mut oracle) = Oracle::start() else { return };
    let mut names = series();
    names.sort();
    names.dedup();
    let kept = |name: &String| Kept {
        name: name.clone(),
        stages: vec![(60, 60)],
        factor: 0.5,
        method: "average".to_owned(),
    };
    let points: Vec<Point> =
        names.iter().enumerate().map(|(i, n)| Point::new(n.as_str(), NOW - 60, i as f64)).collect();
    oracle.create(&names.iter().map(kept).collect::<Vec<_>>());
    oracle.update(NOW, &points);
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 60s:1h\n").clock(NOW);
    let daemon = setup.start();
    daemon.put(&points);

    let mut asked =
        Asked { daemon, oracle, agreed: Differences::listed("tags."), complaints: String::new(), now: NOW };
    let form: Vec<String> = names.iter().map(|name| format!("path={}", encode(name))).collect();
    asked.oracle.post(NOW, "/tags/tagMultiSeries", &form.join("&"));
    wait_until("all series to be found", || asked.found("name!=") == names.len());

    asked.questions();
    asked.random(RANDOM);
    asked.targets();
    asked.writes();
    asked.assert("");

    // Registered and deleted series are the same after a restart.
    asked.daemon.stop_well();
    asked.daemon = setup.start();
    asked.questions();
    asked.random(20);
    asked.assert("after a restart");

    asked.comes_back_with_points();
    asked.agreed.assert_all_seen();
}

/// Sends requests to both servers and collects differences.
struct Asked {
    daemon: Daemon,
    oracle: Oracle,
    agreed: Differences,
    complaints: String,
    now: i64,
}

impl Asked {
    fn questions(&mut self) {
        for path in [
            "/tags",
            "/tags/",
            "/tags?pretty=1",
            "/tags?filter=d",
            "/tags?filter=^h|k",
            "/tags?filter=zzz",
            "/tags?filter=(",
            "/tags?filter=",
            "/tags?limit=2",
            "/tags?limit=0",
            "/tags?limit=",
            "/tags?limit=x",
            "/tags/dc",
            "/tags/dc?pretty=1",
            "/tags/name",
            "/tags/host?filter=web1",
            "/tags/host?filter=^web1$|A",
            "/tags/host?limit=3",
            "/tags/host?limit=0",
            "/tags/k8s.io/app",
            "/tags/k8s.io%2Fapp",
            "/tags/nothing",
            "/tags/findSeries",
            "/tags/findSeries?expr=",
            "/tags/findSeries?expr=dc",
            "/tags/findSeries?expr=d!c=a",
            "/tags/findSeries?expr==a",
            "/tags/findSeries?expr=dc=a;b",
            "/tags/findSeries?expr[]=dc=a&expr[]=name=cpu",
            "/tags/findSeries?expr=dc=a&pretty=1",
            "/tags/autoComplete/tags",
            "/tags/autoComplete/tags?limit=0",
            "/tags/autoComplete/tags?limit=x",
            "/tags/autoComplete/tags?tagPrefix=h&local=1",
            "/tags/autoComplete/tags?tagPrefix=k8s.",
            "/tags/autoComplete/tags?expr=dc",
            "/tags/autoComplete/tags?expr=dc=",
            "/tags/autoComplete/values",
            "/tags/autoComplete/values?tag=",
            "/tags/autoComplete/values?tag=host&limit=4",
            "/tags/autoComplete/values?tag=host&valuePrefix=web1",
            "/tags/autoComplete/values?tag=nothing",
            "/tags/autoComplete/values?tag=dc&expr=host=",
            "/tags/autoComplete/values?tag=dc&expr=dc=~a",
            "/tags/autoComplete/values?tag=dc&expr=nothing=x",
        ] {
            self.compare(path);
        }
        for path in ["/tags", "/tags/dc", "/tags/tagSeries", "/tags/delSeries", "/tags/tagMultiSeries"] {
            self.post(path, "");
        }
        for path in
            ["/tags/tagSeries?path=a;b=c", "/tags/delSeries?path=a;b=c", "/tags/tagMultiSeries?path=a;b=c"]
        {
            self.compare(path);
        }
        self.post("/tags/findSeries", "expr=dc%3Da&expr=name%3Dcpu");
        self.post("/tags/findSeries?expr=dc%3Da", "expr=name%3Dcpu");
        self.post("/tags/autoComplete/tags", "expr=dc%3Da&tagPrefix=h");
        self.post("/tags/autoComplete/values", "tag=host&expr=dc%3Da&valuePrefix=web1&limit=2");
    }

    fn random(&mut self, count: usize) {
        let mut random = StdRng::seed_from_u64(53);
        let pick = |random: &mut StdRng, from: &[&'static str]| from[random.random_range(0..from.len())];
        for _ in 0..count {
            let expressions: Vec<String> = (0..random.random_range(1..4))
                .map(|_| {
                    let operator = pick(&mut random, &["=", "!=", "=~", "!=~"]);
                    format!("{}{operator}{}", pick(&mut random, TAGS), pick(&mut random, SPECS))
                })
                .collect();
            let expressions: Vec<(&str, &str)> =
                expressions.iter().map(|text| ("expr", text.as_str())).collect();
            self.compare(&url("/tags/findSeries", &expressions));
            let (tag, prefix) =
                (pick(&mut random, TAGS), pick(&mut random, &["", "a", "w", "web1", "d", "é"]));
            let limit = pick(&mut random, &["1", "2", "5", "100"]);
            let with = |more: &[(&'static str, &'static str)]| -> Vec<(&str, &str)> {
                expressions.iter().copied().chain(more.iter().copied()).collect()
            };
            self.compare(&url("/tags/autoComplete/tags", &with(&[("tagPrefix", prefix), ("limit", limit)])));
            let values = with(&[("tag", tag), ("valuePrefix", prefix), ("limit", limit)]);
            self.compare(&url("/tags/autoComplete/values", &values));
        }
    }

    fn targets(&mut self) {
        for target in [
            "seriesByTag('name=cpu')",
            "seriesByTag(\"name=cpu\", \"dc=~a|b\")",
            "seriesByTag('name=disk.used','dc=','host!=A')",
            "seriesByTag('name=nothing')",
            "seriesByTag('dc=é','host=web1')",
            "sumSeries(seriesByTag('name=cpu'))",
            "seriesByTag('name=cpu','dc!=')|groupByTags('sum','dc')",
            "groupByTags(seriesByTag('dc!=','host!='),'average','dc','name')",
            "seriesByTag('host=web1')|aliasByTags('name','dc')",
            "seriesByTag('name=disk.used','host=web1')|aliasByNode(1,'dc')",
            "aliasSub(seriesByTag('name=cpu','host=web1'),'dc=(.)','\\1')",
            "aggregateWithWildcards(seriesByTag('name=disk.used'),'max',1)",
            "sumSeriesWithWildcards(seriesByTag('name=disk.used','dc=ab'),0)",
            "groupByNode(seriesByTag('name=~cpu|load','dc!='),0,'max')",
            "groupByNodes(seriesByTag('name=~cpu|load','dc!='),'max','dc',0)",
            "asPercent(seriesByTag('name=cpu','host=web1'),seriesByTag('name=load','host=web1'))",
            "highest(seriesByTag('dc=a'),3,'max')",
            "movingAverage(scale(seriesByTag('name=cpu','host=web1'),2),'2min')",
        ] {
            for format in ["json", "raw"] {
                let range = format!("from={}&until={NOW}&now={NOW}&format={format}", NOW - 300);
                self.compare(&format!("/render?{range}&target={}", encode(target)));
            }
        }
    }

    /// Compares the registration and deletion of series.
    fn writes(&mut self) {
        for (path, form) in [
            ("/tags/tagSeries", "path=new%3Bhost%3D1%3Bdc%3Da"),
            ("/tags/tagSeries?pretty=1", "path=new%3Bdc%3Db%3Bdc%3Dc"),
            ("/tags/tagSeries", "path=new%7Bq%3D%221%22%7D"),
            ("/tags/tagSeries", "path=~new%3Bq%3D1"),
            ("/tags/tagSeries", "path="),
            ("/tags/tagSeries", "path=new%3Bdc"),
            ("/tags/tagMultiSeries", "path=new%3Bdc%3D1&path=new%3Bdc%3D2"),
            ("/tags/tagMultiSeries", "path[]=new%3Bdc%3D3"),
            ("/tags/delSeries", "path=cpu%3Bdc%3Da"),
            ("/tags/delSeries", "path=cpu%3Bhost%3Dweb1%3Brack%3D1%3Bdc%3Da&path=nobody%3Bx%3Dy"),
            ("/tags/delSeries", "path[]=load%3Bhost%3DA"),
            ("/tags/delSeries", "path=new%3Bdc%3D3"),
            ("/tags/delSeries", "path=new%3Bdc"),
        ] {
            self.post(path, form);
            self.compare("/tags/findSeries?expr=name!=");
        }
        // The daemon no longer lists a tag whose last series was deleted.
        for path in ["/tags/tagSeries", "/tags/delSeries"] {
            self.post(path, "path=last%3Bonly%3D1");
        }
        self.compare("/tags/only");
        self.post("/tags/tagSeries", "path=last%3Bonly%3D1");
        // Only graphite-web finds a name without tags by the tag `name`.
        self.post("/tags/tagSeries", "path=plain.name");
        let path = "/tags/findSeries?expr=name=plain.name";
        assert_eq!(self.daemon.get(path).body, "[]");
        if self.oracle.get(NOW, path).body != "[]" {
            self.agreed.seen("tags.untagged");
        }
        self.oracle.post(NOW, "/tags/delSeries", "path=plain.name");
        self.compare("/tags/findSeries?expr=name!=");
        // The points of this series can be read.
        let range = format!("from={}&until={NOW}&now={NOW}&format=json", NOW - 300);
        self.compare(&format!("/render?{range}&target={}", encode("cpu;dc=a")));
    }

    /// A deleted series is found again after it gets a point, as if carbon had registered it.
    fn comes_back_with_points(&mut self) {
        assert_eq!(self.found("host=A"), 2, "load;host=A was taken out");
        self.daemon.set_clock(NOW + 120);
        self.daemon.put(&[Point::new("load;host=A", NOW + 120, 1.0)]);
        wait_until("the series to be found again", || self.found("host=A") == 3);
        assert_eq!(
            self.daemon
                .get("/tags/findSeries?expr=name=cpu&expr=dc=a&expr=host=")
                .body
                .matches("cpu")
                .count(),
            1
        );
    }

    fn found(&self, expression: &str) -> usize {
        let body = self.daemon.get(&url("/tags/findSeries", &[("expr", expression)])).body;
        serde_json::from_str::<Vec<String>>(&body).unwrap().len()
    }

    fn compare(&mut self, path: &str) {
        let ours = self.daemon.get(path);
        let theirs = self.oracle.get(self.now, path);
        self.judge(path, &ours, (theirs.status, &theirs.content_type, &theirs.body));
    }

    fn post(&mut self, path: &str, form: &str) {
        let ours = http::post(self.daemon.api(), path, form);
        let theirs = self.oracle.post(self.now, path, form);
        self.judge(
            &format!("POST {path} {form}"),
            &ours,
            (theirs.status, &theirs.content_type, &theirs.body),
        );
    }

    fn judge(&mut self, asked: &str, ours: &http::Response, (status, kind, body): (u16, &str, &str)) {
        if status >= 500 && (200..500).contains(&ours.status) {
            self.agreed.seen("tags.no-500");
            return;
        }
        let our_kind = ours.header("content-type").unwrap_or("");
        let bare = |kind: &str| kind.split(';').next().unwrap_or("").to_owned();
        let same = ours.status == status
            && match status {
                200 => bare(our_kind) == bare(kind) && self.same_body(&ours.body, body),
                400 => self.same_error(&ours.body, body),
                // graphite-web says nothing, and we name the methods that the path takes.
                405 => body.is_empty(),
                _ => true,
            };
        if !same && self.complaints.len() < 20_000 {
            let _ = writeln!(
                self.complaints,
                "{asked}\n  ours   {} {our_kind} {}\n  theirs {status} {kind} {}",
                ours.status,
                short(&ours.body),
                short(body)
            );
        }
    }

    fn same_body(&mut self, ours: &str, theirs: &str) -> bool {
        let (Ok(mut our), Ok(mut their)) = (serde_json::from_str(ours), serde_json::from_str(theirs)) else {
            return ours == theirs;
        };
        let is_empty =
            |value: &Value| value["values"].as_array().is_some_and(Vec::is_empty) || value.is_null();
        without_ids(&mut our);
        without_ids(&mut their);
        if our == their {
            return true;
        }
        let alike = our.is_null() && is_empty(&their);
        if alike {
            self.agreed.seen("tags.empty");
        }
        alike
    }

    fn same_error(&mut self, ours: &str, theirs: &str) -> bool {
        let text = |body: &str| {
            let value: Option<Value> = serde_json::from_str(body).ok();
            value.and_then(|value| value["error"].as_str().map(str::to_owned))
        };
        match (text(ours), text(theirs)) {
            (Some(our), Some(their)) if our != their => self.agreed.seen("tags.error-text"),
            (Some(_), Some(_)) => {}
            _ => return false,
        }
        true
    }

    fn assert(&self, when: &str) {
        assert!(self.complaints.is_empty(), "{when}\n{}", self.complaints);
    }
}

/// Removes the ids of tags and values, which differ.
fn without_ids(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(without_ids),
        Value::Object(fields) => {
            fields.remove("id");
            fields.values_mut().for_each(without_ids);
        }
        _ => {}
    }
}
