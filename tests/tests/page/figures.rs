//! Measurements, not tests: how fast the page is in Chromium. They need the machine for themselves, so they are ignored
//! unless requested:
//!
//! ```sh
//! cargo build --release --locked -p plumbago
//! PLUMBAGO_BIN=$PWD/target/release/plumbago cargo test --workspace --profile ci --locked \
//!     --test system -- page::figures --ignored --nocapture --test-threads 1
//! ```

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use super::{DRAWN, NOW, page};

/// How often each is measured; the median is printed.
const TIMES: usize = 15;

/// A daemon with a directory of 100,000 names, and 100 series of a day.
fn filled() -> (Setup, Daemon) {
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 1m:2d\n").start();
    let names: Vec<Point> =
        (0..100_000).map(|n| Point::new(format!("wide.child-{n:06}"), NOW, 1.0)).collect();
    daemon.put(&names);
    for hour in 0..24_i64 {
        let points: Vec<Point> = (0..60)
            .flat_map(|minute| (0..100_i32).map(move |n| (hour * 60 + minute, n)))
            .map(|(minute, n)| {
                let value = f64::from(n) + (minute as f64 / 40.0 + f64::from(n)).sin() * 20.0;
                Point::new(format!("many.s{n:03}"), NOW - minute * 60, value)
            })
            .collect();
        daemon.put(&points);
    }
    wait_until("the names to be indexed", || {
        daemon.get("/plumbago/browse?path=wide&limit=1").body.contains("\"total\":100000,")
    });
    (setup, daemon)
}

/// Waits for a number that a script leaves in `window.taken`.
fn taken(browser: &Browser, what: &str, script: &str) -> f64 {
    browser.script(&format!("window.taken = null; {script}"));
    browser.wait(what, "window.taken !== null");
    browser.script("return window.taken").as_f64().unwrap()
}

/// A script that does something and notes the milliseconds until a condition holds and has been painted.
fn until(action: &str, condition: &str) -> String {
    format!(
        "const begun = performance.now(); {action}; \
         const look = () => ({condition}) ? requestAnimationFrame(() => {{ window.taken = performance.now() - begun; }}) \
         : requestAnimationFrame(look); look();"
    )
}

/// A script that does something in each of 120 frames and notes the time between frames that 95 of 100 keep.
fn frames(action: &str) -> String {
    format!(
        "const gaps = []; let last = null, n = 0; \
         const step = (now) => {{ if (last !== null) gaps.push(now - last); last = now; n += 1; {action}; \
         if (n < 120) requestAnimationFrame(step); \
         else {{ gaps.sort((a, b) => a - b); window.taken = gaps[Math.floor(gaps.length * 0.95)]; }} }}; \
         requestAnimationFrame(step);"
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The tree, the search, a plot of 100 series × 1,440 points, and the crosshair over it.
#[test]
#[ignore = "a measurement that needs the machine for itself"]
fn the_page_is_fast() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = filled();
    let report =
        |what: &str, limit: f64, value: f64| println!("{what}: {value:.1} ms (to reach: {limit:.0} ms)");
    let mut seen = Vec::new();
    let mut opened = Vec::new();
    for _ in 0..TIMES {
        browser.open("about:blank");
        browser.open(&page(&daemon, ""));
        seen.push(taken(
            &browser,
            "the tree",
            "const look = () => document.querySelector('.row') ? requestAnimationFrame((now) => { window.taken = now; }) \
             : requestAnimationFrame(look); look();",
        ));
        browser.wait_text(".row", "wide");
        let action =
            "[...document.querySelectorAll('.row')].find((row) => row.textContent.includes('wide')).click()";
        let shown = "document.querySelector('.tree').textContent.includes('child-000001')";
        opened.push(taken(&browser, "the directory", &until(action, shown)));
    }
    report("tree visible, at most", 300.0, median(seen));
    report("a directory of 100,000 opens", 150.0, median(opened));
    let scrolled =
        taken(&browser, "the frames", &frames("document.querySelector('.tree').scrollTop += 3000"));
    report("frames while scrolling (p95)", 33.0, scrolled);
    println!("elements: {} (to reach: 2000)", browser.script("return document.querySelectorAll('*').length"));
    let searched = |n: usize| {
        let action = format!(
            "const box = document.getElementById('search'); box.focus(); box.value = 'child 07{n:02}'; \
             box.dispatchEvent(new Event('input', {{bubbles: true}}))"
        );
        let shown = format!("document.querySelector('#found li')?.textContent.includes('07{n:02}')");
        taken(&browser, "a result", &until(&action, &shown))
    };
    report("key to result", 60.0, median((0..TIMES).map(searched).collect()));
    let mut painted = Vec::new();
    for _ in 0..TIMES {
        browser.open("about:blank");
        browser.open(&page(&daemon, "#from=-24h&target="));
        let editor = "document.querySelector('.editor').shadowRoot.querySelector('.cm-content')";
        browser.wait("the editor", "document.querySelector('.editor')?.shadowRoot != null");
        browser.script(&format!("{editor}.focus()"));
        browser.press("many.*");
        browser.press(&Key::Escape.to_string());
        browser.script(&format!(
            "window.taken = null; addEventListener('keydown', (event) => {{ if (event.key !== 'Enter') return; {} }}, true)",
            until("", &format!("{DRAWN} === 1"))
        ));
        browser.press_with(Key::Control, &Key::Enter.to_string());
        browser.wait("the plot", "window.taken !== null");
        painted.push(browser.script("return window.taken").as_f64().unwrap());
    }
    report("Ctrl+Enter to 100 series × 1,440 points painted", 500.0, median(painted));
    let moving = "const over = document.querySelector('.u-over'); const place = over.getBoundingClientRect(); \
                  over.dispatchEvent(new MouseEvent('mousemove', {clientX: place.left + 50 + 5 * n, clientY: place.top + 100, \
                  movementX: 1, bubbles: true}))";
    report(
        "frames of the crosshair (p95)",
        33.0,
        taken(&browser, "the frames", &frames(&format!("{{ {moving} }}"))),
    );
    browser.check_log(&[]);
}
