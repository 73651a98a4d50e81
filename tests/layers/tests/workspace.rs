//! Runs the checks on this workspace.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use plumbago_layers::metadata::{Metadata, tree};
use plumbago_layers::{circles, deny, layers, length, unused};

fn metadata() -> Metadata {
    Metadata::load(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn crates_depend_only_on_what_they_may_know() {
    assert_none(&layers::check(&metadata()).unwrap());
}

#[test]
fn every_dependency_is_used() {
    assert_none(&unused::check(&metadata()).unwrap());
}

#[test]
fn no_modules_need_each_other_in_a_circle() {
    assert_none(&circles::check(&metadata()).unwrap());
}

#[test]
fn no_file_is_too_long() {
    assert_none(&length::check(&metadata()).unwrap());
}

#[test]
fn crates_from_outside_keep_the_rules_of_deny_toml() {
    let root = metadata().workspace_root;
    let rules = std::fs::read_to_string(root.join("deny.toml")).unwrap();
    assert_none(&deny::check(&tree(&root, "plumbago").unwrap(), &rules).unwrap());
}
