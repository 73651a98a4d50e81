//! Measures the page at `/` in a real Chromium: what it loads, its tree and its search, its plots, and its
//! memory when it is live. Each group is a test, so that it can be run alone. The last table that is printed
//! has the figures of all groups of the run.
//!
//! Sizes, by environment variables `PLUMBAGO_FIGURES_…`: `SEARCH` names to search (a million; ten million
//! have a target of their own), `DIRECTORY` and `COMPOSER` names in a directory (100,000 and 10,000),
//! `REFRESHES` of live panels (500).

mod live;
mod load;
mod plots;
mod search;
mod tree;

use std::sync::{Mutex, PoisonError};

use plumbago_tests::browser::Browser;
use plumbago_tests::daemon::Daemon;
use plumbago_tests::send::Point;
use serde_json::Value;

use super::table;

/// A whole minute.
const NOW: i64 = 1_790_000_040;
/// Longest time between two frames, in milliseconds, with which a movement still looks smooth.
const FRAME_MAX: f64 = 33.0;
/// Number of points that are sent in one write.
const PART: usize = 100_000;

/// The rows of the table so far.
static ROWS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn row(what: &str, target: &str, measured: &str, met: &str) {
    ROWS.lock().unwrap_or_else(PoisonError::into_inner).push(table::row(&[what, target, measured, met]));
}

/// Adds a figure to the table.
fn figure(what: &str, target: &str, measured: &str, is_met: bool) {
    row(what, target, measured, table::met(is_met));
}

/// Adds a figure that has no target of its own.
fn remark(what: &str, measured: &str) {
    row(what, "", measured, "");
}

fn print_table() {
    let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    table::head(&["figure", "target", "measured", "met"]);
    rows.iter().for_each(|line| println!("{line}"));
    println!("`/render` before and after Explain compares two builds, so it is no figure of this command.");
}

/// Loads the page again, with a state like `#target=a`.
fn open(browser: &Browser, daemon: &Daemon, state: &str) {
    browser.open("about:blank");
    browser.open(&format!("http://{}/{state}", daemon.api()));
}

/// Runs the body of an async function in the page, and returns its result. `await frame()` gives the time at which
/// the next frame begins. A change is painted when the frame after that one begins.
fn in_page(browser: &Browser, body: &str) -> Value {
    let frame = "const frame = () => new Promise(requestAnimationFrame);";
    browser.script(&format!("return (async () => {{ {frame} {body} }})()"))
}

/// Sends points and waits until they are received.
fn feed(daemon: &Daemon, points: impl Iterator<Item = Point>) {
    let mut points = points.peekable();
    while points.peek().is_some() {
        let part: Vec<Point> = points.by_ref().take(PART).collect();
        daemon.put(&part);
    }
}

/// The numbers of a list, in order.
fn sorted(list: &Value) -> Vec<f64> {
    let mut numbers: Vec<f64> = list.as_array().unwrap().iter().map(|one| one.as_f64().unwrap()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The smallest number of a sorted list that is not exceeded by this percentage of the list.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}
