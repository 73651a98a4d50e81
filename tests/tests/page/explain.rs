//! Tests of Explain: what each part of a target returned, and targets that functions built.

use plumbago_tests::browser::{Browser, Key};

use super::{DRAWN, EVIL, daemon, page};

/// Explain shows what each call returned, where the points are stored, and why. A click on a part plots it
/// alone.
#[test]
fn a_graph_is_explained() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    daemon.flush();
    let target = "movingAverage(sumSeries(servers.*.cpu.user),'5min')&target=evil.*";
    browser.open(&page(&daemon, &format!("#from=-2d&target={}", target.replace('\'', "%27"))));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    let explain =
        "[...document.querySelectorAll('.options button')].find((b) => b.textContent === 'Explain').click()";
    browser.script(explain);
    browser.wait_text(".explain .facts", "4 series");
    browser.wait_text(".explain td", "1 of 1min:1d,5min:30d");
    browser.wait_text(".explain .note", "the raw stage reaches only 1d back");
    browser.wait_text(".explain .note", "Points from head");
    browser.wait_text(".explain", EVIL);
    browser.wait_text(".explain", "api.limits.points");
    browser
        .script("[...document.querySelectorAll('.part')].find((b) => b.textContent === 'sumSeries').focus()");
    browser.wait_text(".explain-target mark", "sumSeries(servers.*.cpu.user)");
    browser.picture("explain");
    browser.press(&Key::Enter.to_string());
    browser.wait("a second plot", &format!("{DRAWN} === 2"));
    browser.wait_text(".legend", "sumSeries(servers.*.cpu.user)");
    assert!(browser.url().contains("&panel=&target=sumSeries"), "{}", browser.url());
    assert_eq!(browser.script("return document.querySelectorAll('script, img').length"), 1);
    browser.check_log(&[]);
}

/// A target that a function built is shown below its call, and a click plots it alone.
#[test]
fn made_targets_are_explained() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    let target = "useSeriesAbove(servers.web01.cpu.user,0,%27user%27,%27system%27)";
    browser.open(&page(&daemon, &format!("#from=-1h&target={target}")));
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.click_button(".options", "Explain");
    browser.wait_text(".explain .made", "made by useSeriesAbove: group(servers.web01.cpu.system)");
    browser.wait_text(".explain .made .facts", "fetch 2");
    browser.script("document.querySelector('.explain .made .part').click()");
    browser.wait("a second plot", &format!("{DRAWN} === 2"));
    browser.wait_text(".legend", "servers.web01.cpu.system");
    assert!(browser.url().contains("&panel=&target=group"), "{}", browser.url());
    browser.check_log(&[]);
}
