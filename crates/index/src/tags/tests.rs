use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use plumbago_telemetry::Registry;
use proptest::prelude::*;

use super::select::{Bounds, Stop};
use super::*;
use crate::{FindLimits, Index, TagError, TagExpression};

fn tags(names: &[&str]) -> Tags {
    let mut tags = Tags::new();
    for name in names {
        assert!(tags.insert(name), "{name}");
    }
    tags
}

fn bounds(results_max: usize, visited_max: usize) -> Bounds {
    Bounds { limits: FindLimits { results_max, visited_max }, tried_at_once: u64::MAX }
}

fn done<T>(result: Result<T, Stop>) -> Result<T, TagError> {
    result.map_err(|stop| match stop {
        Stop::Error(error) => error,
        Stop::Untried(_) => unreachable!("everything is tried at once"),
    })
}

fn find(tags: &Tags, expressions: &[&str]) -> Result<Vec<String>, TagError> {
    let expressions = expressions.iter().map(|text| TagExpression::parse(text));
    let found = tags.find_series(&expressions.collect::<Result<Vec<_>, _>>()?, &bounds(1 << 20, 1 << 20));
    done(found).map(|mut names| {
        names.sort_unstable();
        names
    })
}

#[test]
fn series_are_found_by_their_tags() {
    let tags = tags(&["cpu;dc=a;host=1", "cpu;dc=b;host=2", "cpu", "disk;dc=a", "disk;dc=ab;host=1"]);
    for (expressions, found) in [
        (&["name=cpu"][..], &["cpu", "cpu;dc=a;host=1", "cpu;dc=b;host=2"][..]),
        (&["name=cpu", "dc=a"], &["cpu;dc=a;host=1"]),
        (&["name=cpu", "dc="], &["cpu"]),
        (&["dc!="], &["cpu;dc=a;host=1", "cpu;dc=b;host=2", "disk;dc=a", "disk;dc=ab;host=1"]),
        (&["name=cpu", "dc!=a"], &["cpu", "cpu;dc=b;host=2"]),
        (&["dc=~a"], &["cpu;dc=a;host=1", "disk;dc=a", "disk;dc=ab;host=1"]),
        (&["dc=~a$"], &["cpu;dc=a;host=1", "disk;dc=a"]),
        (&["dc=~^a|b"], &["cpu;dc=a;host=1", "cpu;dc=b;host=2", "disk;dc=a", "disk;dc=ab;host=1"]),
        (&["dc=~.*b", "host!=2"], &["disk;dc=ab;host=1"]),
        (&["name=cpu", "dc=~.*"], &["cpu", "cpu;dc=a;host=1", "cpu;dc=b;host=2"]),
        (&["name=cpu", "dc!=~a"], &["cpu", "cpu;dc=b;host=2"]),
        (&["dc!=~^$|b"], &["cpu;dc=a;host=1", "disk;dc=a"]),
        (&["dc=a", "nothing="], &["cpu;dc=a;host=1", "disk;dc=a"]),
        (&["dc=a", "nothing=x"], &[]),
        (&["dc=a", "nothing!=x", "nothing=~.*", "nothing!=~x"], &["cpu;dc=a;host=1", "disk;dc=a"]),
        (&["nothing=~x"], &[]),
        (&["name=~(cpu|disk)$", "host=1"], &["cpu;dc=a;host=1", "disk;dc=ab;host=1"]),
    ] {
        assert_eq!(find(&tags, expressions).unwrap(), found, "{expressions:?}");
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    let tags = tags(&["cpu;dc=a"]);
    for wrong in ["", "=", "dc", "=a", "!=a", "d!c=a", "dc=a;b", "dc;=a", "dc!a"] {
        assert_eq!(find(&tags, &[wrong]), Err(TagError::Expression(wrong.to_owned())));
    }
    for empty in [&["dc="][..], &["dc!=a"], &["dc=~.*"], &["dc!=~a"], &["dc=", "host=~"], &[]] {
        assert_eq!(find(&tags, empty), Err(TagError::AllMatchEmpty), "{empty:?}");
    }
    assert!(matches!(find(&tags, &["dc=~("]), Err(TagError::Regex(..))));
    assert_eq!(find(&tags, &["dc=a=b"]).unwrap(), [""; 0]);
}

#[test]
fn limits_name_themselves() {
    let tags = tags(&["a;x=1", "a;x=2", "a;x=3"]);
    let ask = |results_max, visited_max| {
        let expressions = [TagExpression::parse("x=~.").unwrap()];
        done(tags.find_series(&expressions, &bounds(results_max, visited_max)))
    };
    assert_eq!(ask(3, 3).unwrap().len(), 3);
    assert_eq!(ask(2, 3), Err(TagError::TooManyResults(2)));
    assert_eq!(ask(3, 2), Err(TagError::TooManyVisits(2)));
}

#[test]
fn names_that_cannot_be_read_are_kept_aside() {
    let names = ["a;b", "a;=b", "a;b=", "~a;b=c", "a;b=~c", "a;b=1;b=2", "a;name=b", ";a=b", "a;b!=c"];
    let mut tags = tags(&names);
    assert_eq!((tags.len(), tags.count), (names.len(), 0));
    for name in names {
        assert!(tags.contains(name) && !tags.insert(name) && tags.remove(name) && !tags.remove(name));
    }
    assert_eq!(tags.len(), 0);
}

#[test]
fn hidden_series_stay_series() {
    let mut tags = tags(&["a;x=1", "a;x=2"]);
    assert!(tags.hide("a;x=1") && !tags.hide("a;x=1") && !tags.hide("a;x=3"));
    assert_eq!(find(&tags, &["name=a"]).unwrap(), ["a;x=2"]);
    assert!(tags.contains("a;x=1") && !tags.insert("a;x=1"));
    assert_eq!(tags.hidden(), ["a;x=1"]);
    assert!(tags.show("a;x=1") && !tags.show("a;x=1") && !tags.show("a;x=3"));
    assert_eq!(find(&tags, &["name=a"]).unwrap(), ["a;x=1", "a;x=2"]);
    assert!(tags.hide("a;x=2") && tags.remove("a;x=2") && !tags.contains("a;x=2"));
}

#[test]
fn tags_and_values_are_completed() {
    let tags = tags(&["cpu;dc=a;host=1", "cpu;dc=b;host=2", "disk;dc=a;drive=c", "disk;dc=ab"]);
    let parse = |texts: &[&str]| -> Vec<TagExpression> {
        texts.iter().map(|text| TagExpression::parse(text).unwrap()).collect()
    };
    let limits = bounds(9, 100);
    let complete =
        |texts: &[&str], prefix, limit| tags.complete_tags(&parse(texts), prefix, limit, &limits).unwrap();
    assert_eq!(complete(&[], "", 9), ["dc", "drive", "host", "name"]);
    assert_eq!(complete(&[], "d", 1), ["dc"]);
    assert_eq!(complete(&["name=cpu"], "", 9), ["dc", "host"]);
    assert_eq!(complete(&["name=cpu"], "h", 9), ["host"]);
    let values = |texts: &[&str], tag, prefix, limit| {
        tags.complete_values(&parse(texts), tag, prefix, limit, &limits).unwrap()
    };
    assert_eq!(values(&[], "dc", "", 9), ["a", "ab", "b"]);
    assert_eq!(values(&[], "dc", "a", 9), ["a", "ab"]);
    assert_eq!(values(&["name=cpu"], "dc", "", 9), ["a", "b"]);
    assert_eq!(values(&["name=disk"], "dc", "a", 1), ["a"]);
    assert_eq!(values(&["host="], "dc", "", 9), ["a", "ab"]);
    assert_eq!(values(&["name=cpu"], "nothing", "", 9), [""; 0]);
}

#[test]
fn tags_and_values_are_listed() {
    let index = Index::new(&Registry::new());
    index.insert(["cpu;dc=a;host=1", "cpu;dc=b;host=2", "disk;dc=a;drive=c", "disk;dc=ab"]);
    let filter = crate::TagFilter::new("b|a$").unwrap();
    let (tag, listed) = index.list_values("dc", Some(&filter), 9).unwrap().unwrap();
    assert_eq!((tag.text.as_str(), tag.series), ("dc", 4));
    let listed: Vec<_> = listed.iter().map(|value| (value.text.as_str(), value.series)).collect();
    assert_eq!(listed, [("a", 2), ("b", 1)]);
    assert!(index.list_values("nothing", None, 9).unwrap().is_none());
    let texts = |listed: Vec<crate::TagText>| listed.into_iter().map(|tag| tag.text).collect::<Vec<_>>();
    let filter = crate::TagFilter::new("d|h").unwrap();
    assert_eq!(texts(index.list_tags(Some(&filter), 9).unwrap()), ["dc", "drive", "host"]);
    assert_eq!(texts(index.list_tags(None, 2).unwrap()), ["dc", "drive"]);
    assert!(index.list_tags(None, 0).unwrap().is_empty());
}

/// The list is longer than what is copied while the lock is held. While the filter runs, other threads can
/// insert series.
#[test]
fn a_filter_does_not_hold_the_lock() {
    const VALUES: usize = 10_000;
    /// Only a failing test waits this long.
    const HANG_GUARD: Duration = Duration::from_secs(120);
    let index = Arc::new(Index::new(&Registry::new()));
    let names: Vec<String> = (0..VALUES).map(|n| format!("m;n={n:05}")).collect();
    index.insert(names.iter().map(String::as_str));
    let mut seen = 0;
    let is_match = |value: &str| {
        seen += 1;
        if seen % 4000 == 1 {
            let (done, wait) = mpsc::channel();
            let (writer, name) = (Arc::clone(&index), format!("m;n=z{value}"));
            std::thread::spawn(move || done.send(writer.insert([name.as_str()])));
            assert_eq!(wait.recv_timeout(HANG_GUARD), Ok(1), "an insert waits for the filter");
        }
        Ok(!value.starts_with('z'))
    };
    let (_, listed) = index.list_values_matching("n", is_match, usize::MAX).unwrap().unwrap();
    assert_eq!(listed.len(), VALUES);
    assert!(seen > VALUES);
}

/// Evaluates an expression on a name without an index.
fn passes(name: &str, expression: &TagExpression) -> bool {
    let tags: BTreeMap<&str, &str> = segments(name).unwrap().into_iter().collect();
    expression.test.passes(tags.get(expression.tag()).unwrap_or(&"")).unwrap()
}

proptest! {
    /// The results equal those of a plain evaluation of all names, however many values may be tried while the
    /// lock is held.
    #[test]
    fn any_expressions_find_what_matches(
        names in prop::collection::btree_set("(a|b|ab);(x=[ab]{1,2};)?(y=[ab]{1,2};)?z=[0-9]{1,2}", 1..300),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
        texts in prop::collection::vec("(name|x|y|z|w)(=|!=|=~|!=~)([ab]{0,2}|[0-9]|a\\.\\*|\\.\\*b|a\\|b|\\^a\\|b|\\[a-b0-5\\]\\$|\\.\\{2\\})", 1..5),
        tried_at_once in 0_u64..20,
    ) {
        let mut kept = BTreeSet::new();
        let index = Index::new(&Registry::new());
        for name in &names {
            index.insert([name.as_str()]);
            kept.insert(name.clone());
        }
        let all: Vec<&String> = names.iter().collect();
        for place in removed {
            let name = place.get(&all).as_str();
            prop_assert_eq!(index.remove(name), kept.remove(name));
        }
        prop_assert_eq!(index.tagged_len(), kept.len());
        let expressions: Vec<TagExpression> =
            texts.iter().map(|text| TagExpression::parse(text).unwrap()).collect();
        let found = index.find_series_trying(&expressions, &FindLimits::default(), tried_at_once);
        if expressions.iter().all(|expression| expression.passes_empty().unwrap()) {
            prop_assert_eq!(found, Err(TagError::AllMatchEmpty));
        } else {
            let wanted: Vec<String> =
                kept.iter().filter(|name| expressions.iter().all(|e| passes(name, e))).cloned().collect();
            prop_assert_eq!(found.unwrap(), wanted);
        }
        for name in &kept {
            prop_assert!(index.contains(name) && index.remove(name));
        }
        prop_assert_eq!(index.list_tags(None, 9).unwrap(), []);
    }
}

#[test]
fn large_sets_become_bitmaps_and_back() {
    let mut tags = Tags::new();
    let name = |n: u32| format!("m;group={};n={n}", n % 3);
    for n in 0..20_000 {
        tags.insert(&name(n));
    }
    let find = |tags: &Tags, texts: &[&str]| find(tags, texts).unwrap().len();
    assert_eq!(find(&tags, &["group=1"]), 6667);
    assert_eq!(find(&tags, &["name=m", "group=~[12]"]), 13_333);
    assert_eq!(
        find(&tags, &["name=m", "group!=1", "n!=~1"]),
        (0..20_000).filter(|n| n % 3 != 1 && !n.to_string().starts_with('1')).count()
    );
    for n in 0..18_000 {
        assert!(tags.remove(&name(n)));
    }
    assert_eq!(find(&tags, &["group=~[12]"]), 1333);
    for n in 0..18_000 {
        assert!(tags.insert(&name(n)));
    }
    assert_eq!(find(&tags, &["name=m"]), 20_000);
    assert!(tags.memory_bytes() > 20_000 * 8);
}

/// Series that are removed between two pieces are missed, and other series that get their numbers are not
/// mistaken for them.
#[test]
fn a_listing_comes_in_pieces() {
    let index = Index::new(&Registry::new());
    let name = |n: u32| format!("m;group={};n={n:03}", n % 2);
    for n in 0..200 {
        index.insert([name(n).as_str()]);
    }
    let even = [TagExpression::parse("group=0").unwrap()];
    let limits = FindLimits::default();
    let mut pieces: Vec<Vec<String>> = Vec::new();
    let listed = index.series_in_pieces(&even, &limits, 30, &mut |names| {
        pieces.push(names);
        if pieces.len() == 1 {
            // Remove both series of the next piece. A new series of another group then gets one of their
            // numbers.
            assert!(index.remove(&name(60)) && index.remove(&name(62)));
            index.insert(["m;group=1;n=new"]);
        }
        true
    });
    assert_eq!(listed, Ok(()));
    assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [30, 30, 30, 8]);
    let wanted: Vec<String> = (0..200).step_by(2).filter(|n| ![60, 62].contains(n)).map(name).collect();
    assert_eq!(pieces.concat(), wanted);
    let mut first = Vec::new();
    let stopped = index.series_in_pieces(&even, &limits, 30, &mut |names| {
        first.extend(names);
        false
    });
    assert_eq!((stopped, first.len()), (Ok(()), 30));
    let few = FindLimits { results_max: 9, ..limits };
    assert_eq!(index.series_each(&even, &few, &mut |_| true), Err(TagError::TooManyResults(9)));
    let all = [TagExpression::parse("name=~.+").unwrap()];
    let mut known = Vec::new();
    index
        .series_each(&all, &limits, &mut |names| {
            known.extend(names);
            true
        })
        .unwrap();
    assert_eq!(known, index.find_series(&all, &limits).unwrap());
}
