//! What the page must not lose: typed text when panels are drawn again or removed, the focus when something closes, and
//! the meaning of names with characters of the grammars. What it must not keep: old lines and an old tree.

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::daemon::Setup;
use plumbago_tests::send::Point;

use super::{DRAWN, NOW, daemon, page};

/// The contents of the editors of all targets.
const EDITORS: &str =
    "[...document.querySelectorAll('.editor')].map((e) => e.shadowRoot.querySelector('.cm-content'))";

fn wait_editors(browser: &Browser, count: usize) {
    let mounted = "(e) => e.shadowRoot?.querySelector('.cm-content') != null";
    browser.wait(
        "the editors",
        &format!(
            "document.querySelectorAll('.editor').length === {count} && \
             [...document.querySelectorAll('.editor')].every({mounted})"
        ),
    );
}

/// A name is plotted whatever it contains: from the search, from the tree, and after a completion.
#[test]
fn names_of_any_characters_are_plotted() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).start();
    let names = ["odd.o'brien", "odd.qu\"ote", "odd.f(x)=1|2", "odd.back\\slash", "odd.star*", "odd.starry"];
    let mut points: Vec<Point> = names.iter().map(|name| Point::new(*name, NOW, 1.0)).collect();
    points.push(Point::new("tagged;k=a'b\"c", NOW, 1.0));
    daemon.put(&points);
    daemon.wait_names(names.len());
    for (words, name) in [
        ("brien", names[0]),
        ("ote", names[1]),
        ("f(x)", names[2]),
        ("slash", names[3]),
        ("star", names[4]),
        ("tagged", "tagged;k=a'b\"c"),
    ] {
        browser.open("about:blank");
        browser.open(&page(&daemon, ""));
        browser.type_into("#search", words);
        browser.wait_text("#found li", name);
        browser.script(&format!(
            "[...document.querySelectorAll('#found li')].find((one) => one.textContent === {name:?}).click()"
        ));
        browser.wait_text(".legend", name);
        let shown = browser.script("return document.querySelectorAll('.legend tbody tr').length");
        assert_eq!(shown, 1, "only {name}");
    }
    browser.open("about:blank");
    browser.open(&page(&daemon, ""));
    browser.click("#row-0");
    browser.wait_text(".row", names[0].trim_start_matches("odd."));
    browser.script(
        "[...document.querySelectorAll('.row')].find((row) => row.textContent.includes('brien')).click()",
    );
    browser.wait_text(".legend", names[0]);
    // The editor completes what its grammar can read.
    wait_editors(&browser, 1);
    browser.script(&format!("{EDITORS}[0].focus()"));
    browser.press(&Key::End.to_string());
    browser.press_with(Key::Shift, &Key::Home.to_string());
    browser.press("odd.f");
    let options = format!(
        "[...{EDITORS}[0].getRootNode().querySelectorAll('.cm-tooltip-autocomplete li[aria-selected]')]"
    );
    browser.wait("its name", &format!("{options}.some((e) => e.textContent.includes('f(x)=1|2'))"));
    // Completions are taken by a click, as Enter is ignored in the first moments.
    browser.script(&format!(
        "{options}[0].dispatchEvent(new MouseEvent('mousedown', {{bubbles: true, cancelable: true}}))"
    ));
    browser.wait("the escaped name", &format!("{EDITORS}[0].textContent === 'odd.f\\\\(x\\\\)\\\\=1\\\\|2'"));
    browser.press_with(Key::Control, &Key::Enter.to_string());
    browser.wait_text(".legend", names[2]);
    browser.check_log(&[]);
}

/// A typed title stays while the pointer moves over the plot. What is typed into a target stays when another
/// target or panel is removed. The focus then moves to the next one.
#[test]
fn typed_text_stays() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(
        &daemon,
        "#from=-1h&target=servers.*.cpu.user&panel=B&target=servers.web01.Requests&target=servers.db01.Requests",
    ));
    browser.wait("two plots", &format!("{DRAWN} === 2"));
    wait_editors(&browser, 3);
    browser.click(".title");
    browser.press("My title");
    for x in [200, 400] {
        browser.hover(".u-over", x, 80);
        browser.wait("the crosshair", "document.querySelector('.tip') !== null");
    }
    browser.wait("the typed title", "document.querySelector('.title').value === 'My title'");
    browser.press(&Key::Tab.to_string());
    browser.wait("the title in the link", "location.hash.includes('title=My+title')");
    browser.script(&format!("{EDITORS}[2].focus()"));
    browser.press(&format!("{}typed", Key::End));
    browser.script("document.querySelector(\"[aria-label='Remove panel 1']\").focus()");
    browser.press(&Key::Enter.to_string());
    browser.wait("one panel", "document.querySelectorAll('.panel').length === 1");
    let typed = |place: usize| format!("{EDITORS}[{place}].textContent === 'servers.db01.Requeststyped'");
    browser.wait("the typed target", &typed(1));
    browser.wait("the focus", "document.activeElement.ariaLabel === 'Remove panel 1'");
    browser.script("document.querySelector(\"[aria-label='Remove target 1']\").focus()");
    browser.press(&Key::Enter.to_string());
    browser.wait("one target", "document.querySelectorAll('.editor').length === 1");
    browser.wait("the typed target", &typed(0));
    browser.wait("the focus in it", "document.activeElement.className === 'editor'");
    browser.wait("its name", &format!("{EDITORS}[0].ariaLabel === 'Target 1 of panel 1'"));
    browser.check_log(&[]);
}

/// Typing goes on when the editor takes the place of the text field.
#[test]
fn typing_goes_on_in_the_editor() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    // The page loads its editor 50 ms after the first paint. Here the test decides when.
    browser.run_in_pages(
        "const own = window.setTimeout; \
         window.setTimeout = (call, time, ...more) => time === 50 ? (window.loadNow = call, 0) : own(call, time, ...more);",
    );
    browser.open(&page(&daemon, ""));
    browser.type_into(".target textarea", "servers.Requests");
    browser.press(&Key::Left.to_string().repeat(8));
    browser.wait("the call", "window.loadNow !== undefined");
    browser.script("window.loadNow()");
    wait_editors(&browser, 1);
    browser.press("db01.");
    browser.wait("the whole text", &format!("{EDITORS}[0].textContent === 'servers.db01.Requests'"));
    browser.check_log(&[]);
}

/// When a dialog closes, the element that opened it has the focus again. A long dialog scrolls.
#[test]
fn dialogs_give_the_focus_back() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=servers.web01.Requests"));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.click(".when");
    browser.click(".popup input");
    browser.press(&Key::Escape.to_string());
    browser.wait("the popup to close", "document.querySelector('.popup') === null");
    browser.wait("the focus", "document.activeElement.className === 'when'");
    browser.click(".tools button[aria-expanded]");
    let panels: Vec<_> =
        (0..60).map(|number| serde_json::json!({"targets": [{"target": format!("a.$v{number}")}]})).collect();
    let dashboard = serde_json::json!({"panels": panels}).to_string();
    browser.script(&format!(
        "const area = document.querySelector('.import textarea'); area.value = {dashboard:?}; \
         area.dispatchEvent(new Event('input', {{bubbles: true}}))"
    ));
    browser.wait_text(".import legend", "Variables");
    browser.wait(
        "the dialog in sight",
        "document.querySelector('.import').getBoundingClientRect().bottom <= innerHeight",
    );
    browser.wait(
        "the rest of it below",
        "(() => { const { scrollHeight, clientHeight } = document.querySelector('.import'); \
         return scrollHeight > clientHeight + 100; })()",
    );
    browser.type_into(".import textarea", &Key::Escape.to_string());
    browser.wait("the dialog to close", "document.querySelector('.import') === null");
    browser.wait("the focus", "document.activeElement.textContent === 'Import'");
    browser.check_log(&[]);
}

/// Infinite lines of a live plot are those of the newest values.
#[test]
fn infinite_lines_follow() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 1s:1d\n");
    let daemon = setup.start();
    daemon.put(&[Point::new("deploys", NOW - 50, 0.0)]);
    daemon.wait_names(1);
    browser.open(&page(&daemon, "#from=-1min&target=drawAsInfinite(color(deploys,'ffff00'))"));
    browser.wait_text(".legend td", "0");
    browser.script(
        "window.lines = () => { \
           const canvas = document.querySelector('.u-wrap canvas:not(.raise)'); const { width, height } = canvas; \
           const bytes = canvas.getContext('2d').getImageData(0, Math.round(height / 3), width, 1).data; \
           let found = 0; \
           for (let at = 0; at < bytes.length; at += 4) { \
             if (bytes[at] > 150 && bytes[at + 2] < 100 && bytes[at + 3] > 100) found += 1; } \
           return found; }",
    );
    browser.wait("no line", "lines() === 0");
    daemon.put(&[Point::new("deploys", NOW - 20, 1.0)]);
    browser.wait("a line", "lines() > 0");
    browser.check_log(&[]);
}

/// The tree shows new names when it is opened again, and what was open stays open.
#[test]
fn the_tree_shows_new_names() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, ""));
    browser.click("#row-1");
    browser.wait_text(".row", "web02");
    daemon.put(&[Point::new("another.name", NOW, 1.0), Point::new("servers.web09.load", NOW, 1.0)]);
    daemon.wait_names(super::HOSTS.len() * 3 + 4);
    browser.click("#tab-tags");
    browser.wait_text(".tag", "dc");
    browser.click("#tab-names");
    browser.wait_text(".row", "another");
    browser.wait_text(".row", "web09");
    browser.wait_text(".row", "web02");
    browser.check_log(&[]);
}
