//! Checks the names of groups as Python does. `fancy-regex` takes names that Python refuses, and the same name twice.

use std::collections::HashSet;

/// Checks the groups `(?P<name>…)` of a pattern.
///
/// # Errors
/// The first name that Python would refuse, and why.
pub(super) fn check(python: &str) -> Result<(), String> {
    let mut seen = HashSet::new();
    for name in names(python) {
        if !is_identifier(name) {
            return Err(format!("{name:?} cannot be the name of a group"));
        }
        if !seen.insert(name) {
            return Err(format!("the name {name:?} is given to two groups"));
        }
    }
    Ok(())
}

/// The names of all groups, in their order.
fn names(python: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let (mut rest, mut in_class) = (python, false);
    while let Some(c) = rest.chars().next() {
        if let Some((name, _)) =
            rest.strip_prefix("(?P<").filter(|_| !in_class).and_then(|at| at.split_once('>'))
        {
            names.push(name);
        }
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => rest = rest.chars().next().map_or("", |next| &rest[next.len_utf8()..]),
            '[' if !in_class => {
                in_class = true;
                // A bracket that comes first belongs to the class.
                let first = rest.strip_prefix('^').unwrap_or(rest);
                rest = first.strip_prefix(']').unwrap_or(first);
            }
            ']' => in_class = false,
            _ => {}
        }
    }
    names
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_as_python_refuses_them() {
        for good in [
            "a",
            "(?P<x>a)(?P<y>b)",
            r"(?P<x>a)\(?P<x>b",
            "[(?P<x>](?P<x>a)",
            "[](?P<x>](?P<x>a)",
            "(?P<x1_>a)(?P=x1_)",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, part) in [
            ("(?P<x>a)(?P<x>b)", "two groups"),
            (r"[a\]](?P<x>a)(?=b)(?P<x>b)", "two groups"),
            ("(?P<<x>a)", "\"<x\""),
            ("(?P<1x>a)", "\"1x\""),
            ("(?P<>a)", "\"\""),
        ] {
            let why = check(bad).unwrap_err();
            assert!(why.contains(part), "{bad}: {why}");
        }
    }
}
