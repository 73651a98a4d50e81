//! Compares Plumbago's functions with graphite-web's own, over the same series.
//!
//! `cases`, `nested` and `drawn` generate requests. `engine` runs graphite-web (`tests/python/functions.py`),
//! `ours` runs `plumbago-render`. `compare` finds differences, and `judge` knows which ones are agreed.
#![allow(clippy::unwrap_used, missing_docs)]

mod cases;
mod compare;
mod drawn;
mod engine;
mod judge;
mod nested;
mod ours;
mod world;

use judge::Judge;
use plumbago_tests::rounds::is_long;

#[test]
fn functions_answer_as_graphite_webs_do() {
    let Some(mut judge) = Judge::start() else { return };
    for case in cases::all(is_long()) {
        judge.judge(&case);
    }
    judge.finish(5_000, "functions.");
}

#[test]
fn nested_calls_answer_as_graphite_webs_do() {
    let Some(mut judge) = Judge::start() else { return };
    for case in nested::all(if is_long() { 20_000 } else { 600 }) {
        judge.judge(&case);
    }
    judge.finish(600, "");
}

#[test]
fn drawn_options_answer_as_graphite_webs_do() {
    let Some(mut judge) = Judge::start() else { return };
    for case in drawn::all(if is_long() { 40_000 } else { 1_200 }) {
        judge.judge(&case);
    }
    judge.finish(1_200, "");
}

/// All functions that graphite-web declares exist, with the same parameters.
#[test]
fn functions_are_declared_as_graphite_webs_are() {
    let Some(mut engine) = engine::Engine::start() else { return };
    let theirs = engine.functions();
    let ours = plumbago_render::describe::functions();
    let mut wrong = Vec::new();
    for (name, theirs) in theirs.as_object().unwrap() {
        let Some(ours) = ours.iter().find(|ours| ours.name == name) else {
            wrong.push(format!("{name} is missing"));
            continue;
        };
        let ours = compare::declaration(ours);
        let params = theirs["params"].as_array().unwrap().iter().map(compare::declared);
        let theirs = (theirs["group"].as_str().unwrap().to_owned(), params.collect::<Vec<_>>());
        // graphite-web declares n as required for these, but gives it a default.
        if ours != theirs && !matches!(name.as_str(), "highest" | "lowest") {
            wrong.push(format!("{name}:\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(theirs.as_object().unwrap().len() > 140);
}
