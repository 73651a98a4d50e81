//! Tests of the page when something is wrong: a daemon that hangs, refuses requests or is newer, and invalid
//! links. Also checks typed text, the history, events, and words in a time range.

use nix::sys::signal::Signal;
use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::http;

use super::{DRAWN, EVIL, NOW, daemon, page};

const EDITOR: &str = "document.querySelector('.editor').shadowRoot.querySelector('.cm-content')";
const MOUNTED: &str = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content') != null";

/// A script that answers requests for graphs and costs with the status `window.refusal`, if that is set.
const REFUSING: &str = "const own = window.fetch; \
    window.fetch = (url, init) => window.refusal && /^(render|plumbago.costs)/.test(url) \
    ? Promise.resolve(new Response(`refused with ${window.refusal}`, {status: window.refusal})) : own(url, init);";

/// The page reports that the daemon hangs until it answers, and keeps the text that was typed meanwhile.
#[test]
fn a_hung_daemon_is_waited_for() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.cpu.user"));
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.wait("the editor", MOUNTED);
    daemon.signal(Signal::SIGSTOP);
    browser.script("location.hash = 'from=-2h&target=servers.web01.cpu.user'");
    browser.wait_text(".notice", "has not answered for 5 s");
    browser.script(&format!("{EDITOR}.focus()"));
    browser.press(&format!("{} ?", Key::End));
    browser.picture("hung");
    daemon.signal(Signal::SIGCONT);
    browser.wait("no notice", "document.querySelector('.notice') === null");
    let typed = browser.script(&format!("return {EDITOR}.textContent"));
    assert_eq!(typed, "servers.web01.cpu.user ?", "a question mark in a target is no call for help");
    assert_eq!(browser.script("return document.querySelector('.help')"), serde_json::Value::Null);
    browser.check_log(&[]);
}

/// Refusals are shown. Those that may be temporary are tried again automatically.
#[test]
fn refusals_are_said_and_tried_again() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.cpu.user"));
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.script(REFUSING);
    for (status, passes) in [(401, false), (413, false), (429, true), (503, true)] {
        browser.script(&format!(
            "window.refusal = {status}; location.hash = 'from=-{status}s&target=servers.web01.cpu.user'"
        ));
        browser.wait_text(".problem", &format!("refused with {status}"));
        browser.wait_text(".legend", "servers.web01.cpu.user");
        let again = "document.querySelector('.problem').textContent.includes('Tried again')";
        assert_eq!(browser.script(&format!("return {again}")), passes, "{status}");
        browser.script("window.refusal = 0");
        if !passes {
            browser.script("location.hash = 'from=-1h&target=servers.web01.cpu.user'");
        }
        browser.wait("the graph again", "document.querySelector('.problem') === null");
    }
    // Times that only the daemon knows are not guessed.
    browser.script("window.refusal = 503; location.hash = 'from=midnight&title='");
    browser.wait_text(".when", "midnight");
    browser.click_button(".tools", "Freeze");
    browser.wait_text(".notice", "not made absolute: refused with 503");
    assert!(browser.url().contains("#from=midnight&"), "{}", browser.url());
    browser.script("window.refusal = 429");
    browser.click_button(".tools", "Costs");
    browser.wait_text(".costs .problem", "refused with 429");
    browser.script("window.refusal = 0");
    browser.wait_text(".costs h3", "Biggest directories");
    // A token that no request can carry is refused, and the daemon is not blamed.
    browser.script("sessionStorage.setItem('plumbago.token', '\u{201c}secret\u{201d}')");
    browser.click_button(".tools", "Status");
    browser.wait_text(".status .problem", "this is not the token");
    browser.wait("the field for it", "document.querySelector('.status .token input') !== null");
    browser.check_log(&[]);
}

/// The tree appears by itself once the daemon answers again.
#[test]
fn the_tree_comes_back() {
    let Some(browser) = Browser::start() else { return };
    let (mut setup, daemon) = daemon();
    let port = daemon.api().port();
    setup.set("api.listen", &format!("127.0.0.1:{port}"));
    browser.open(&page(&daemon, ""));
    browser.wait_text(".row", "servers");
    daemon.stop_well();
    browser.click("#row-1");
    browser.wait_text(".row", "does not answer");
    let _daemon = setup.start();
    browser.wait_text(".row", "web02");
}

/// A page that is older than the daemon's page reports this.
#[test]
fn a_newer_page_is_announced() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.cpu.user"));
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.script(
        "const own = window.fetch; window.looked = 0; \
         window.fetch = (url, init) => { \
           if (init?.method === 'HEAD') window.looked += 1; \
           return init?.method === 'HEAD' && window.looked > 1 \
             ? Promise.resolve(new Response('', {headers: {etag: '\"other\"'}})) : own(url, init); }",
    );
    let look = "document.dispatchEvent(new Event('visibilitychange'))";
    browser.script(look);
    browser.wait("a look at the daemon's page", "window.looked === 1");
    assert_eq!(browser.script("return document.querySelector('.notice')"), serde_json::Value::Null);
    browser.script(look);
    browser.wait_text(".notice", "newer page");
    browser.check_log(&[]);
}

/// The page names the parts of a link that it cannot read, and uses the others. A link without a start time
/// shows a day, as `/render` does.
#[test]
fn a_damaged_link_says_which_part() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(
        &daemon,
        "#garbage&title=%zz&target=servers.web01.cpu.user&tz=Mars/Base&yUnitSystem=metric",
    ));
    for part in ["garbage", "title=%zz", "tz=Mars/Base", "yUnitSystem=metric"] {
        browser.wait_text(".notice", part);
    }
    let unit = "return document.querySelector('[aria-label^=Unit]').selectedOptions[0].textContent";
    assert_eq!(browser.script(unit), "as asked");
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.wait_text(".when", "last 24 h");
    browser.click_button(".notice", "Close");
    browser.wait("no notice", "document.querySelector('.notice') === null");
    // Exports have the same range.
    let png = browser.script("return document.querySelector('.out a').search");
    assert!(!png.as_str().unwrap().contains("from="), "{png}");
    browser.script("location.hash = 'from=-1h&target=servers.web01.cpu.user'");
    browser.wait("the other range", "document.querySelector('.out a').search.includes('from=-1h')");
    // Words of a range are made visible, like names.
    browser.script("location.hash = 'from=-1h%E2%80%AE&title='");
    browser.wait_text(".when", "-1h\\u202e");
    // More panels than the page shows are not added.
    let many = ["panel=a&target=constantLine(1)"; 100].join("&");
    browser.script(&format!("location.hash = {many:?}"));
    browser.wait("a hundred panels", "document.querySelectorAll('.panel').length === 100");
    browser.click_button(".more", "+ panel");
    browser.wait_text(".notice", "panels after the first 100");
    assert_eq!(browser.script("return document.querySelectorAll('.panel').length"), 100);
    browser.check_log(&[]);
}

/// Each choice is one step back in the history. Freeze turns the words of a range into times, even before
/// there is a plot.
#[test]
fn steps_go_back_one_by_one() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.cpu.user"));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    let choose = |shape: u32| {
        browser.script(&format!(
            "const select = document.querySelector('.options select'); select.value = {shape}; \
             select.dispatchEvent(new Event('change', {{bubbles: true}}))"
        ));
    };
    choose(2);
    browser.wait("stacked", "location.hash.endsWith('&areaMode=stacked')");
    choose(3);
    browser.wait("staircase", "location.hash.endsWith('&lineMode=staircase')");
    browser.back();
    browser.wait("stacked again", "location.hash.endsWith('&areaMode=stacked')");
    browser.back();
    browser.wait("a line again", "location.hash.endsWith('&target=servers.web01.cpu.user')");
    browser.open("about:blank");
    browser.open(&page(&daemon, "#from=midnight_yesterday&until=midnight_today&tz=UTC&title="));
    browser.click_button(".tools", "Freeze");
    let today = NOW / 86_400 * 86_400;
    browser
        .wait("the moments", &format!("location.hash.startsWith('#from={}&until={today}&')", today - 86_400));
    browser.check_log(&[]);
}

/// Moving two fingers apart zooms in.
#[test]
fn two_fingers_zoom() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.cpu.user"));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.pinch(".u-over", 400, 200, 400);
    browser.wait("a zoom", "location.hash.startsWith('#from=17')");
    let range = "const found = new URLSearchParams(location.hash.slice(1)); return found.get('until') - found.get('from')";
    let seconds = browser.script(range).as_i64().unwrap();
    assert!((1700..1900).contains(&seconds), "half an hour is shown: {seconds} s");
    browser.check_log(&[]);
}

/// The series nearest to the pointer is drawn on a canvas of its own, so that the others are not drawn again.
#[test]
fn the_nearest_series_is_raised() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.*.cpu.user"));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    let drawn = "const c = document.querySelector('canvas.raise'); \
                 return c !== null && new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer).some((p) => p !== 0)";
    assert_eq!(browser.script(drawn), false);
    for y in (20..200).step_by(10) {
        browser.hover(".u-over", 300, y);
        if browser.script("return document.querySelector('.tip .near') !== null") == true {
            break;
        }
    }
    browser.wait("the series in the legend", "document.querySelectorAll('.legend .near').length === 1");
    assert_eq!(browser.script(drawn), true);
    browser.picture("raised");
    browser.check_log(&[]);
}

/// Events are drawn, read out and listed as text.
#[test]
fn events_are_named_in_plots() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    let event = serde_json::json!({"what": EVIL, "tags": ["deploy"], "when": NOW - 1800});
    let sent = http::request(daemon.api(), "POST", "/events/", "", &event.to_string());
    assert_eq!(sent.status, 200, "{}", sent.body);
    browser.open(&page(
        &daemon,
        "#from=-1h&target=servers.web01.cpu.user&target=summarize(servers.web01.Requests,'5min')",
    ));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.click(".when");
    browser.click(".popup input[type=checkbox]");
    browser.click(".when");
    let wide = browser.script("return document.querySelector('.u-over').clientWidth").as_i64().unwrap();
    browser.hover(".u-over", wide / 2, 100);
    browser.wait_text(".tip .mark", &format!("{EVIL} (deploy)"));
    browser.picture("event");
    browser.click_button(".options", "Table");
    browser.wait_text(".values[aria-label=Events] th", EVIL);
    // A table for each step.
    browser.wait_text("[aria-label='Values every 1 min, newest first'] th", "servers.web01.cpu.user");
    browser.wait_text("[aria-label='Values every 5 min, newest first'] th", "summarize");
    browser.script("location.hash = 'from=-1h&target=servers.db01.Requests&table=1'");
    browser.wait_text("[aria-label='Values every 1 min, newest first'] th", "servers.db01.Requests");
    assert_eq!(browser.script("return document.querySelectorAll('script, img').length"), 1);
    browser.check_log(&[]);
}

/// Values of arguments are completed, with the default first. Characters that change the direction of text
/// are made visible.
#[test]
fn arguments_are_completed() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.cpu.user"));
    browser.wait("the editor", MOUNTED);
    browser.script(&format!("{EDITOR}.focus()"));
    browser.press(&Key::End.to_string());
    browser.press_with(Key::Shift, &Key::Home.to_string());
    browser.press("summarize(a.b,'1h',");
    browser.press_with(Key::Control, " ");
    let list = format!("[...{EDITOR}.getRootNode().querySelectorAll('.cm-tooltip-autocomplete li')]");
    browser.wait("the default first", &format!("{list}[0]?.textContent.startsWith(\"'sum'\")"));
    browser.wait("other values", &format!("{list}.some((one) => one.textContent.startsWith(\"'avg'\"))"));
    browser.picture("completion-argument");
    browser.press(&Key::Escape.to_string());
    browser.script(
        "location.hash = 'from=-1h&target=' + encodeURIComponent('alias(servers.web01.cpu.user, \"a\\u202eb\")')",
    );
    browser.wait_text(".legend", "a\\u202eb");
    browser.wait(
        "the mark in the editor",
        &format!("{EDITOR}.querySelectorAll('.cm-specialChar').length === 1"),
    );
    // Fields that the browser draws itself have a note about such characters.
    browser
        .script("location.hash = 'from=-1h&title=' + encodeURIComponent('a\\u202eb') + '&target=servers.web01.cpu.user'");
    browser.wait_text(".panel .unseen", "\\u202e");
    browser.click_button(".tools", "Import");
    browser.wait("the field", "document.querySelector('.import textarea') !== null");
    browser.script(
        "const area = document.querySelector('.import textarea'); area.value = 'a\\u200bb'; \
         area.dispatchEvent(new Event('input', {bubbles: true}))",
    );
    browser.wait_text(".import .unseen", "\\u200b");
    browser.check_log(&[]);
}
