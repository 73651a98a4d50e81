//! Measures what the page loads, and when its tree is visible.

use plumbago_tests::browser::Browser;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;

use super::super::median_and_worst;
use super::{NOW, feed, figure, in_page, open, print_table};

const NAMES: usize = 1000;
const TRIES: usize = 9;
/// The page's files in the repository.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../page/dist");

/// A script that records when the first name of the tree was painted, in milliseconds since the page was
/// requested.
const SEEN: &str = "(() => {
  const look = () => {
    if (!document.querySelector('.tree .row .name')) requestAnimationFrame(look);
    else requestAnimationFrame(() => { window.treeSeen = performance.now(); });
  };
  requestAnimationFrame(look);
})()";

#[test]
#[ignore = "a figure"]
fn the_first_load() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).start();
    feed(&daemon, (0..NAMES).map(|n| Point::new(format!("directory{:02}.name{n:03}", n % 20), NOW, 1.0)));
    daemon.wait_names(NAMES);
    let kib = first_load(&browser, &daemon) / 1024.0;
    figure("first load, before the editor, gzipped", "80 KiB", &format!("{kib:.1} KiB"), kib <= 80.0);
    let kib = all_files(&daemon) as f64 / 1024.0;
    figure("all files, gzipped", "240 KiB", &format!("{kib:.1} KiB"), kib <= 240.0);
    browser.run_in_pages(SEEN);
    let (median, worst) = tree_visible(&browser, &daemon);
    let text = format!("{median:.0} ms, worst of {TRIES} {worst:.0}");
    figure("tree visible", "300 ms", &text, median <= 300.0);
    browser.slow_network(150, 1_600_000);
    let (median, worst) = tree_visible(&browser, &daemon);
    let text = format!("{median:.0} ms, worst of {TRIES} {worst:.0}");
    figure("tree visible at 1.6 Mbit/s with 150 ms delay", "1,500 ms", &text, median <= 1500.0);
    print_table();
}

/// Number of bytes that the browser gets before it requests the editor: the page's files, and the first
/// names.
fn first_load(browser: &Browser, daemon: &Daemon) -> f64 {
    browser.forget_files();
    open(browser, daemon, "");
    let bytes = in_page(
        browser,
        "const all = () => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')];
         const editor = () => all().find((one) => one.name.endsWith('/page/codemirror.js'));
         while (!editor()) await frame();
         const before = all().filter((one) => one.startTime < editor().startTime);
         return before.reduce((sum, one) => sum + one.encodedBodySize, 0)",
    );
    bytes.as_f64().unwrap()
}

fn all_files(daemon: &Daemon) -> usize {
    let files =
        std::fs::read_dir(FILES).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    files
        .map(|name| {
            let path = if name == "index.html" { "/".to_owned() } else { format!("/page/{name}") };
            let asked = "Accept: text/html\r\nAccept-Encoding: gzip\r\n";
            let answer = http::request(daemon.api(), "GET", &path, asked, "");
            assert_eq!((answer.status, answer.header("content-encoding")), (200, Some("gzip")), "{path}");
            answer.bytes.len()
        })
        .sum()
}

/// Median and maximum of the time until the tree is visible, in milliseconds, with an empty browser cache.
fn tree_visible(browser: &Browser, daemon: &Daemon) -> (f64, f64) {
    let once = |_| {
        browser.forget_files();
        open(browser, daemon, "");
        let seen = "while (window.treeSeen === undefined) await frame(); return window.treeSeen";
        in_page(browser, seen).as_f64().unwrap()
    };
    median_and_worst(&mut (0..TRIES).map(once).collect::<Vec<_>>())
}
