//! Checks accessibility with axe-core in every view, size and theme.

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::counterpart;
use plumbago_tests::rounds::is_long;

use super::{daemon, page};

/// A dashboard with more that is left out than its list shows at a time.
const IMPORTED: &str = "{panels: [{title: 'T', targets: [{target: 'a.$host'}, ...Array.from({length: 30}, () => ({expr: 'up'}))]}]}";

/// axe-core finds no violation of WCAG 2.2 AA in narrow and wide windows, dark and light (all of both with `PLUMBAGO_LONG`).
#[test]
fn axe_finds_no_violation() {
    let Some((_, packages)) = counterpart::node() else { return };
    let Some(browser) = Browser::start() else { return };
    let axe = std::fs::read_to_string(packages.join("node_modules/axe-core/axe.min.js")).unwrap();
    let (_setup, daemon) = daemon();
    let state = "#broken&from=-00000000000000000000000000000000000000000000000060min&title=CPU&target=servers.*.cpu.user&panel=Wrong&target=sumSeris(a)";
    // Colours depend on the theme and the order of things on the width, so each is looked at once or twice.
    let looks = [(360, true), (360, false), (768, false), (1440, true), (768, true), (1440, false)];
    for &(width, dark) in &looks[..if is_long() { 6 } else { 4 }] {
        let fits = |what: &str| {
            assert_eq!(violations(&browser, &axe), serde_json::json!([]), "{what}, {width} px, dark: {dark}");
            let overflow = browser.script("return document.documentElement.scrollWidth - window.innerWidth");
            assert!(overflow.as_i64().unwrap() <= 0, "{what}, {width} px: {overflow} px too wide");
        };
        browser.look(width, 900, dark);
        browser.open("about:blank");
        browser.open(&page(&daemon, state));
        browser.wait_text(".legend", "servers.web01.cpu.user");
        browser.wait_text(".problem", "sumSeris");
        browser.wait_text(".notice", "broken");
        browser.click(".when");
        browser.wait("the popup", "document.querySelector('.popup') !== null");
        fits("the time range");
        browser.click(".when");
        if width < 900 {
            browser.click("[aria-label=Names]");
        }
        browser.wait_text(".row", "servers");
        browser.click_button(".options", "Explain");
        browser.wait_text(".explain .facts", "4 series");
        browser.picture(&format!("{width}-{}", if dark { "dark" } else { "light" }));
        fits("the graphs");
        browser.click_button(".options", "Table");
        browser.wait_text(".values th", "servers.web01.cpu.user");
        fits("a table");
        browser.click("#tab-tags");
        browser.wait_text(".tag", "host");
        browser.script(
            "[...document.querySelectorAll('.tag')].find((e) => e.textContent.includes('host')).click()",
        );
        browser.click(".value");
        browser.wait_text(".building", "1 series");
        browser.type_into("#search", "web");
        browser.wait_text("#found li", "servers.web01");
        fits("the tags and the search");
        browser.press(&Key::Escape.to_string());
        browser.click_button(".tools", "Import");
        browser.script(&format!(
            "const area = document.querySelector('.import textarea'); area.value = JSON.stringify({IMPORTED}); \
             area.dispatchEvent(new Event('input', {{bubbles: true}}))"
        ));
        browser.wait_text(".import li", "no query of Graphite");
        fits("an import");
        browser.open("about:blank");
        browser.open(&page(&daemon, "#status"));
        browser.wait_text(".status h2", "Ready");
        browser.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })");
        fits("the status");
        browser.open("about:blank");
        browser.open(&page(&daemon, "#rules"));
        browser.type_into("#rule-name", "servers.db01.Requests");
        browser.press(&Key::Enter.to_string());
        browser.wait_text(".explanation", "when all are full");
        browser.click_button(".rules form", "Try");
        browser.wait_text(".tried", "metrics counted");
        fits("the rules");
        browser.open("about:blank");
        browser.open(&page(&daemon, "#costs"));
        browser.wait_text(".costs caption", "Metrics that were created last");
        browser.click_button(".costs th", "host");
        browser.wait_text(".costs caption", "Values of host");
        fits("what costs");
    }
    browser.check_log(&["400 (Bad Request)"]);
}

/// The violations that axe-core finds on the open page.
fn violations(browser: &Browser, axe: &str) -> serde_json::Value {
    browser.script(axe);
    browser.script(
        "window.axeResult = null; axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}) \
         .then((found) => { window.axeResult = found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 200)} ${n.failureSummary}`)); })",
    );
    browser.wait("axe to end", "window.axeResult !== null");
    browser.script("return window.axeResult")
}
