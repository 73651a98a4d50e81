//! The view *Costs*.

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::wait::wait_until;

use super::{DRAWN, EVIL, NOW, daemon, page};

const LATER: i64 = NOW + 5 * 86_400;

/// The page shows big, new and unused metrics with the commands for them. A directory opens by keyboard,
/// names with HTML are shown as text, and without access the page asks for the token.
#[test]
fn what_costs_is_shown() {
    let Some(browser) = Browser::start() else { return };
    let (mut setup, daemon) = daemon();
    let port = daemon.api().port();
    wait_until("all metrics", || daemon.get("/plumbago/costs").body.contains("\"metrics\":18,"));
    browser.open(&page(&daemon, "#target=servers.db01.Requests"));
    browser.wait_text(".legend", "servers.db01.Requests");
    browser.click_button(".tools", "Costs");
    assert!(browser.url().ends_with("#costs"), "{}", browser.url());
    browser.wait_text(".costs p", "18 metrics");
    browser.wait_text(".costs caption", "Directories with the most bytes when full, 2 of 2");
    browser.wait_text(".costs tbody tr", "plumbago du 'servers'");
    browser.wait_text(".costs .note", "reads have been recorded for 0 days only");
    browser.wait_text(".costs caption", "Metrics that were created last");
    browser.wait_text(".costs bdi", EVIL);
    browser.wait_text(".costs td", "all (storage-schemas.conf:1)");
    browser.picture("costs");
    assert_eq!(browser.script("return document.querySelectorAll('script, img').length"), 1);
    browser.script("document.querySelector('.costs [aria-label=\"Open servers\"]').focus()");
    browser.press(&Key::Enter.to_string());
    browser.wait_text(".costs p", "12 metrics below servers");
    browser.wait_text(".costs tbody tr", "plumbago du 'servers.web01'");
    browser.wait_text(".costs .path b", "servers");
    browser.wait("the focus", "document.activeElement.textContent === 'What costs'");
    browser.click_button(".costs .path", "Everything");
    browser.wait_text(".costs p", "18 metrics,");
    browser.click_button(".costs th", "host");
    browser.wait_text(".costs caption", "Values of host that most series have, 4 of 4");
    browser.wait_text(".costs td", "plumbago list --tag='host=web01'");
    // Five days after the last points.
    daemon.flush();
    daemon.set_clock(LATER);
    browser.script("const days = document.getElementById('costs-days'); days.focus(); days.select()");
    browser.press(&format!("3{}", Key::Enter));
    browser.wait_text(".costs p", "Not written for 3 days: 18 of 18 metrics");
    browser.wait_text(".costs p", "Neither written nor read for 3 days");
    browser.wait_text(".costs tbody tr", "plumbago list 'servers.**' --silent 3d --unread 3d");
    browser.wait_text(
        ".costs .command code",
        "plumbago list '**' --silent 3d --unread 3d | plumbago delete --names - --dry-run",
    );
    browser.picture("costs-unused");
    browser.back();
    browser.wait("the graph again", &format!("{DRAWN} === 1 && document.querySelector('.costs') === null"));
    browser.check_log(&[]);
    daemon.stop_well();
    setup.set("api.page.status", "token").set("api.listen", &format!("127.0.0.1:{port}")).clock(LATER);
    let daemon = setup.start();
    browser.open("about:blank");
    browser.open(&page(&daemon, "#costs"));
    browser.wait_text(".costs .problem", "admin.token");
    browser.type_into(".token input", &daemon.secret());
    browser.press(&Key::Enter.to_string());
    browser.wait_text(".costs p", "18 metrics");
    browser.check_log(&["401 (Unauthorized)"]);
}
