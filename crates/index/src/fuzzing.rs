//! Entry points for fuzzers. The property tests use them too.

use std::collections::{BTreeMap, BTreeSet};

use plumbago_model::glob::Pattern;
use plumbago_model::name::sanitize;
use plumbago_telemetry::Registry;

use crate::{FindError, FindLimits, Index, Node};

/// Tests a glob. The first line of the data is the glob. The other lines are names to insert; those that
/// begin with `-` are removed again.
///
/// # Panics
///
/// Panics if the results of the index differ from those of the matcher on a plain list of the names.
pub fn glob(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let pattern = lines.next().unwrap_or_default();
    let index = Index::new(&Registry::new());
    let mut names = BTreeSet::new();
    for line in lines {
        let (name, remove) = line.strip_prefix('-').map_or((line, false), |name| (name, true));
        let clean = sanitize(name).ok().filter(|name| !name.contains(';'));
        let changed = if remove { index.remove(name) } else { index.insert([name]) == 1 };
        if let Some(clean) = clean {
            let expected =
                if remove { names.remove(&*clean) } else { names.insert(clean.clone().into_owned()) };
            assert_eq!(changed, expected, "{line}");
        }
    }
    compare(&index, &names, pattern);
}

/// Compares the results of the index with those of the matcher on a list of the same names.
///
/// # Panics
///
/// Panics if the results differ.
pub fn compare(index: &Index, names: &BTreeSet<String>, text: &str) {
    let found = index.find(text, &FindLimits::default());
    let pattern = match Pattern::parse(text) {
        Ok(pattern) => pattern,
        Err(error) => return assert_eq!(found, Err(FindError::Pattern(error))),
    };
    let mut expected: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    for name in names {
        let dots = name.match_indices('.').map(|(at, _)| &name[..at]);
        for directory in dots.filter(|path| pattern.matches(path)) {
            expected.entry(directory).or_default().1 = true;
        }
        if pattern.matches(name) {
            expected.entry(name).or_default().0 = true;
        }
    }
    let node = |(path, (leaf, branch)): (&&str, &(bool, bool))| Node {
        path: (*path).to_owned(),
        leaf: *leaf,
        branch: *branch,
    };
    let nodes: Vec<Node> = expected.iter().map(node).collect();
    let leaves: Vec<String> = nodes.iter().filter(|n| n.leaf).map(|n| n.path.clone()).collect();
    assert_eq!(found.as_ref(), Ok(&nodes), "find {text}");
    assert_eq!(index.leaves(text, &FindLimits::default()), Ok(leaves), "leaves {text}");
}
