//! Measures the memory of live panels that get new points continuously.

use plumbago_tests::browser::Browser;
use plumbago_tests::daemon::Setup;
use plumbago_tests::send::Point;

use super::super::{amount, median_and_worst};
use super::{NOW, feed, figure, in_page, open, print_table};

const PANELS: usize = 8;
/// Number of series in a panel.
const SERIES: usize = 10;
/// Time range of a panel, in seconds.
const RANGE: i64 = 300;
/// Number of readings of the memory, one per refresh, because an answer may arrive during one of them.
const READINGS: usize = 3;

/// A script that counts the answers of `/render`.
const COUNT: &str = "
  window.rendered = 0;
  const ask = window.fetch.bind(window);
  window.fetch = async (...given) => {
    const response = await ask(...given);
    if (response.ok && String(given[0]).startsWith('render')) window.rendered++;
    return response;
  };
";

/// The points of all series in one second.
fn points(time: i64) -> impl Iterator<Item = Point> {
    (0..PANELS * SERIES).map(move |n| {
        let value = (time as f64 / 20.0 + n as f64).sin() * 10.0 + n as f64;
        Point::new(format!("live.panel{}.m{}", n / SERIES, n % SERIES), time, value)
    })
}

#[test]
#[ignore = "a figure"]
fn live_panels() {
    let Some(browser) = Browser::start() else { return };
    // The panels refresh once a second.
    let refreshes = amount("REFRESHES", 500);
    let early = (refreshes / 10).max(READINGS);
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1s:1h\n");
    let daemon = setup.clock(NOW).start();
    feed(&daemon, (NOW - RANGE..=NOW).flat_map(points));
    daemon.wait_names(PANELS * SERIES);
    browser.run_in_pages(COUNT);
    let panels: Vec<String> =
        (0..PANELS).map(|n| format!("title=panel+{n}&target=live.panel{n}.*")).collect();
    let state = panels.join("&").replace("&title=", "&panel=");
    open(&browser, &daemon, &format!("#from=-{RANGE}s&{state}"));
    // The same text each time: the browser keeps each different script, which would count as memory of the page.
    let pause = "await new Promise((done) => setTimeout(done, 50))";
    let wait = format!(
        "window.awaited = (window.awaited ?? 0) + {PANELS}; while (window.rendered < window.awaited) {pause}"
    );
    let mut sender = daemon.sender();
    let (mut soon, mut later) = (Vec::new(), Vec::new());
    for refresh in 1..=refreshes {
        in_page(&browser, &wait);
        let is_among_last_of = |count: usize| refresh <= count && refresh + READINGS > count;
        if is_among_last_of(early) {
            soon.push(browser.script_memory());
        }
        if is_among_last_of(refreshes) {
            later.push(browser.script_memory());
        }
        let now = NOW + refresh as i64;
        daemon.set_clock(now);
        sender.send(&points(now).collect::<Vec<_>>());
    }
    browser.wait_text(".legend", "live.panel7.m9");
    let drawn = browser.script("return document.querySelectorAll('.u-over').length");
    assert_eq!(drawn, PANELS, "a panel is not drawn");
    let mib = |readings: &mut [f64]| median_and_worst(readings).0 / f64::from(1 << 20);
    let (soon, later) = (mib(&mut soon), mib(&mut later));
    let what = format!("{PANELS} live panels: memory after {refreshes} refreshes, to after {early}");
    let text = format!("{:.2} ×: {soon:.1} and {later:.1} MiB", later / soon);
    figure(&what, "1.1 ×", &text, later <= 1.1 * soon);
    print_table();
}
