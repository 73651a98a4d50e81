//! Tests of plots: the wheel, drawing functions, many series, time zones, cancelled requests, hidden tabs,
//! and the exports of *Out*.

use nix::sys::signal::Signal;
use plumbago_tests::browser::Browser;
use plumbago_tests::daemon::Setup;
use plumbago_tests::send::Point;
use serde_json::json;

use super::{DRAWN, NOW, daemon, page};

/// Turns the wheel over the middle of the plot. Returns whether the page used the event itself instead of
/// scrolling.
fn turn(browser: &Browser, how: &str) -> bool {
    let turned = browser.script(&format!(
        "const over = document.querySelector('.u-over'); const box = over.getBoundingClientRect(); \
         const event = new WheelEvent('wheel', {{clientX: box.left + box.width / 2, clientY: box.top + 50, \
         bubbles: true, cancelable: true, {how}}}); over.dispatchEvent(event); return event.defaultPrevented"
    ));
    turned == true
}

/// The wheel zooms with Ctrl, pans with Shift, and otherwise scrolls the page.
#[test]
fn the_wheel_zooms_and_pans() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    let from = NOW - 3600;
    browser.open(&page(&daemon, &format!("#from={from}&until={NOW}&target=servers.web01.cpu.user")));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    assert!(!turn(&browser, "deltaY: -100"));
    assert!(browser.url().contains(&format!("#from={from}&until={NOW}&")), "{}", browser.url());
    browser.script(
        "window.range = () => { const found = new URLSearchParams(location.hash.slice(1)); \
         return [Number(found.get('from')), Number(found.get('until'))]; }",
    );
    assert!(turn(&browser, "deltaY: -100, ctrlKey: true"));
    browser.wait(
        "a zoom around the middle",
        &format!("range()[0] > {from} + 100 && range()[1] < {NOW} - 100 && range()[1] - range()[0] > 2000"),
    );
    let before = browser.script("return range()[0]").as_i64().unwrap();
    assert!(turn(&browser, "deltaY: 100, shiftKey: true"));
    browser.wait("a later range", &format!("range()[0] > {before} + 200"));
    browser.check_log(&[]);
}

/// Drawing functions have an effect: a colour, dashes, a threshold, an infinite line, a second axis.
#[test]
fn drawing_functions_have_their_effect() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(
        &daemon,
        "#from=-1h&target=servers.web01.Requests&target=secondYAxis(color(servers.web01.cpu.user,'ff00ff'))\
         &target=dashed(threshold(20000,'dashes','00ffff'))&target=threshold(30000,'line','00ff00')\
         &target=drawAsInfinite(color(servers.web02.cpu.user,'ffff00'))",
    ));
    browser.wait_text(".legend", "servers.web01.Requests");
    browser.wait("a second axis", "document.querySelectorAll('.u-axis').length === 3");
    // The largest share of pixels of about this colour in any row, and in any column.
    browser.script(
        "window.share = (colour) => { \
           const canvas = document.querySelector('.u-wrap canvas:not(.raise)'); const { width, height } = canvas; \
           const bytes = canvas.getContext('2d').getImageData(0, 0, width, height).data; \
           const wanted = [0, 2, 4].map((at) => parseInt(colour.slice(at, at + 2), 16)); \
           const rows = new Array(height).fill(0); const columns = new Array(width).fill(0); \
           for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) { \
             const at = 4 * (y * width + x); \
             const has = bytes[at + 3] > 100 && wanted.every((part, place) => Math.abs(bytes[at + place] - part) < 40); \
             if (has) { rows[y] += 1; columns[x] += 1; } } \
           return [Math.max(...rows) / width, Math.max(...columns) / height]; }",
    );
    browser.wait("a curve in its colour", "share('ff00ff')[0] > 0");
    browser.wait("a whole line", "share('00ff00')[0] > 0.55");
    browser.wait("a dashed line", "share('00ffff')[0] > 0.15 && share('00ffff')[0] < 0.5");
    browser.wait("lines from top to bottom", "share('ffff00')[1] > 0.7");
    browser.picture("drawing");
    browser.check_log(&[]);
}

/// Keys that come faster than the answers all count, and no range leaves the times that /render understands.
#[test]
fn keys_zoom_as_often_as_they_are_pressed() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, &format!("#from={}&until={NOW}&target=servers.web01.cpu.user", NOW - 3600)));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.script("document.querySelector('.plot').focus()");
    browser.press("---");
    let from = NOW - 3600 - (1800 + 3600 + 7200);
    browser.wait("a range eight times as long", &format!("location.hash.startsWith('#from={from}&')"));
    browser.press(&"-".repeat(40));
    browser.wait("the longest range", "location.hash.startsWith('#from=86400&until=32503680000&')");
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.press(&"+".repeat(50));
    browser.wait_text(".plot", "No series");
    browser.check_log(&[]);
}

/// Ends of the axis that leave no room for values are ignored.
#[test]
fn an_axis_without_room_is_drawn() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(
        &daemon,
        "#from=-1h&target=servers.web01.cpu.user&yMin=5&yMax=5&panel=B&target=servers.web01.cpu.user&yMax=-5",
    ));
    browser.wait("two plots", &format!("{DRAWN} === 2"));
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.check_log(&[]);
}

/// Of many series only the first 500 are drawn, and the legend shows this. It has a filter, and shows the
/// last, smallest, largest and mean value of each series.
#[test]
fn the_first_500_series_are_drawn() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).start();
    let name = |number: usize| format!("many.s{number:03}");
    let points = (0..501).flat_map(|number| {
        [(NOW - 120, 1.0), (NOW - 60, 3.0)].map(|(time, v)| Point::new(name(number), time, v))
    });
    daemon.put(&points.collect::<Vec<_>>());
    daemon.wait_names(501);
    browser.open(&page(&daemon, "#from=-1h&target=many.*"));
    browser.wait_text(".legend .note", "the first 500 of 501 series are drawn");
    browser.wait_text(".legend .note", "400 more; filter to see them");
    browser.type_into(".legend .filter", "MANY s007");
    browser.wait("one series", "document.querySelectorAll('.legend tbody tr').length === 1");
    browser.wait_text(".legend tbody th", "many.s007");
    browser.wait(
        "its last, smallest, largest and mean value",
        "[...document.querySelectorAll('.legend tbody td')].map((cell) => cell.textContent).join() === '3,1,3,2'",
    );
    browser.check_log(&[]);
}

/// Times are shown in the time zone that the link contains.
#[test]
fn times_are_in_the_zone_of_the_link() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    for (zone, hour) in [("UTC", " 14:1"), ("Asia/Tokyo", " 23:1")] {
        browser.open("about:blank");
        let state = format!("#from=-1h&tz={zone}&target=servers.web01.cpu.user&table=1");
        browser.open(&page(&daemon, &state));
        let newest = "document.querySelector('.values tbody th')?.textContent";
        browser.wait(&format!("{zone} in the table"), &format!("{newest}?.includes('{hour}') === true"));
    }
    browser.check_log(&[]);
}

/// A new request replaces the one before it, which is cancelled.
#[test]
fn a_request_that_is_no_longer_wanted_is_cancelled() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&live=0&target=servers.web01.cpu.user"));
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.script(
        "const own = window.fetch; window.sent = []; window.fetch = (url, init) => { \
         if (String(url).startsWith('render')) window.sent.push(init.signal); return own(url, init); }",
    );
    daemon.signal(Signal::SIGSTOP);
    browser.script("location.hash = 'from=-2h&live=0&target=servers.web01.cpu.user'");
    browser.wait("a request", "window.sent.length === 1 && !window.sent[0].aborted");
    browser.script("location.hash = 'from=-3h&live=0&target=servers.web01.cpu.user'");
    browser.wait(
        "another one in its place",
        "window.sent.length === 2 && window.sent[0].aborted && !window.sent[1].aborted",
    );
    daemon.signal(Signal::SIGCONT);
    browser.wait("the answer", "document.querySelector('.plot.busy') === null");
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.check_log(&[]);
}

/// A live plot sends no requests while its tab is hidden, and continues when the tab is visible again.
#[test]
fn a_hidden_tab_does_not_ask() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 1s:1d\n");
    let daemon = setup.start();
    daemon.put(&[Point::new("live.a", NOW - 5, 1.0)]);
    daemon.wait_names(1);
    browser.open(&page(&daemon, "#from=-1min&target=live.a"));
    browser.wait_text(".legend td", "1");
    browser.script(
        "const own = window.fetch; window.asked = 0; \
         window.fetch = (url, init) => { if (String(url).startsWith('render')) window.asked += 1; return own(url, init); }; \
         window.isHidden = false; window.waits = false; \
         Object.defineProperty(document, 'visibilityState', {get: () => (window.isHidden ? 'hidden' : 'visible')}); \
         const add = document.addEventListener.bind(document); \
         document.addEventListener = (kind, ...rest) => { if (kind === 'visibilitychange') window.waits = true; add(kind, ...rest); }",
    );
    browser.wait("two requests", "window.asked >= 2");
    let before = browser.script("window.isHidden = true; return window.asked").as_i64().unwrap();
    browser.wait("the page to wait for its tab", "window.waits");
    assert_eq!(browser.script("return window.asked"), before);
    daemon.put(&[Point::new("live.a", NOW, 123.0)]);
    browser.script("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))");
    browser.wait_text(".legend td", "123");
    assert!(browser.script("return window.asked").as_i64().unwrap() > before);
    browser.check_log(&[]);
}

/// A panel can be exported as a picture, as values, as a command for curl and as a panel for Grafana.
#[test]
fn what_is_taken_out_is_the_panel() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&title=CPU&target=alias(servers.web01.cpu.user,%22it%27s%22)"));
    browser.wait_text(".legend", "it's");
    let kinds = browser.script(
        "return Promise.all([...document.querySelectorAll('.out a')].map((link) => fetch(link.href).then((answer) => \
         `${answer.status} ${answer.headers.get('content-type').split(';')[0]}`)))",
    );
    assert_eq!(kinds, json!(["200 image/png", "200 image/svg+xml", "200 text/csv", "200 application/json"]));
    browser.script(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}})",
    );
    browser.click_button(".out", "Copy as curl");
    browser.wait("a command", "window.copied?.startsWith(\"curl -g 'http://127.0.0.1:\") === true");
    let names = browser.script(
        "return fetch(window.copied.slice(9, -1)).then((answer) => answer.json()).then((all) => all.map((one) => one.target))",
    );
    assert_eq!(names, json!(["it's"]));
    browser.click_button(".out", "Copy as Grafana panel");
    browser.wait("a panel", "window.copied.includes('timeseries')");
    let panel =
        browser.script("const panel = JSON.parse(window.copied); return [panel.title, panel.targets.length]");
    assert_eq!(panel, json!(["CPU", 1]));
    browser.check_log(&[]);
}
