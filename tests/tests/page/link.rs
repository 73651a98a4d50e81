//! Links contain the state that only the page uses, and the message about a mistake in a target contains what
//! was expected.

use plumbago_tests::browser::Browser;

use super::{DRAWN, daemon, page};

/// Clicks a series in the legend.
fn click_series(browser: &Browser, name: &str) {
    browser.script(&format!(
        "[...document.querySelectorAll('.legend th button')].find((one) => one.textContent === {name:?}).click()"
    ));
}

/// Hidden series, the table view and *Live* being off are read from the link and written into it.
#[test]
fn the_whole_state_is_in_the_link() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    let first = "#from=-1h&live=0&target=servers.*.cpu.user&hide=servers.web01.cpu.user";
    browser.open(&page(&daemon, &format!("{first}&panel=Values&target=servers.db01.Requests&table=1")));
    browser.wait_text(".legend .off", "servers.web01.cpu.user");
    browser.wait("one hidden series", "document.querySelectorAll('.legend .off').length === 1");
    browser.wait_text(".values th", "servers.db01.Requests");
    browser.wait("one plot", &format!("{DRAWN} === 1"));
    let live = "document.querySelector('.live').getAttribute('aria-pressed')";
    browser.wait("no Live", &format!("{live} === 'false'"));

    click_series(&browser, "servers.web02.cpu.user");
    browser.wait("two hidden series", "document.querySelectorAll('.legend .off').length === 2");
    browser.wait(
        "both in the link",
        "location.hash.includes('&hide=servers.web01.cpu.user&hide=servers.web02')",
    );
    browser.script("[...document.querySelectorAll('.options button')].findLast((one) => one.textContent === 'Table').click()");
    browser.wait("a second plot", &format!("{DRAWN} === 2 && !location.hash.includes('table')"));
    browser.click(".live");
    browser.wait("Live", &format!("{live} === 'true' && !location.hash.includes('live')"));
    browser.back();
    browser.wait("no Live again", &format!("{live} === 'false' && location.hash.includes('&live=0&')"));
    browser.back();
    browser.wait("the table again", &format!("{DRAWN} === 1 && location.hash.endsWith('&table=1')"));

    // `only` names a series that is shown alone, until the panel has other targets.
    browser.open("about:blank");
    browser.open(&page(&daemon, "#from=-1h&target=servers.*.cpu.user&only=servers.db01.cpu.user"));
    browser.wait("three hidden series", "document.querySelectorAll('.legend .off').length === 3");
    browser.script("location.hash = 'from=-1h&target=servers.*.Requests&only=servers.db01.cpu.user'");
    browser.wait_text(".legend", "servers.web01.Requests");
    browser.wait("no hidden series", "document.querySelectorAll('.legend .off').length === 0");
    browser.check_log(&[]);
}

/// The mark of a mistake shows what was expected at that position.
#[test]
fn a_mistake_says_what_was_expected() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=sumSeries(servers.web01.cpu.user"));
    browser.wait_text(".fault", "Expected , or ).");
    let mark = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-fault')";
    browser.wait("the mark in the editor", &format!("{mark}?.title === 'Expected , or ).'"));
    browser.script("location.hash = 'from=-1h&target=scale(servers.web01.cpu.user)'");
    browser.wait_text(".fault", "Expected factor: a number.");
    browser.check_log(&["400 (Bad Request)"]);
}
