//! Compares the index with graphite-web's finder, by the table that testdata/make.py writes.

use plumbago_index::{FindLimits, Index};
use plumbago_telemetry::Registry;

#[test]
fn finds_what_graphite_web_finds() {
    let table = include_str!("../../testdata/finder.txt");
    let (names, patterns) = table.split_once("\n\n").unwrap();
    let index = Index::new(&Registry::new());
    assert_eq!(index.insert(names.lines()), names.lines().count());
    let mut wrong = Vec::new();
    for line in patterns.lines() {
        let (pattern, expected) = line.split_once('\t').unwrap();
        let nodes = index.find(pattern, &FindLimits::default()).unwrap();
        let kind = |leaf, branch| format!("{}{}", if leaf { "L" } else { "" }, if branch { "B" } else { "" });
        let found: Vec<String> =
            nodes.iter().map(|node| format!("{} {}", node.path, kind(node.leaf, node.branch))).collect();
        if found.join(" ") != expected {
            wrong.push(format!("{pattern}\n   is {}\n  not {expected}", found.join(" ")));
        }
    }
    assert!(patterns.lines().count() >= 2000);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}
