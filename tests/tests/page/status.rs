//! The view *Status*.

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

use super::{DRAWN, EVIL, NOW, daemon, page};

/// The status shows what happened to the points, and shows refused points as text. Without access, the page
/// asks for the token.
#[test]
fn the_status_is_shown() {
    let Some(browser) = Browser::start() else { return };
    let (mut setup, daemon) = daemon();
    let port = daemon.api().port();
    daemon.flush();
    daemon.sender().try_bytes(format!("{EVIL} no-number {NOW}\n").as_bytes()).unwrap();
    wait_until("the refusal", || daemon.get("/plumbago/status").body.contains("no-number"));
    browser.open(&page(&daemon, "#target=servers.db01.Requests"));
    browser.wait_text(".legend", "servers.db01.Requests");
    browser.click_button(".tools", "Status");
    browser.wait_text(".status h2", "Ready");
    browser.wait_text(".status .note", "missing 0");
    browser.wait_text(".status", "onerror=alert(1)");
    browser.wait_text(".status [aria-label='Store by stage'] th", "1min:1d");
    browser.wait_text(".status [aria-label='Store by stage'] td", "windows");
    browser.wait(
        "a rate",
        "[...document.querySelectorAll('.status td')].some((cell) => cell.textContent === '0')",
    );
    browser.picture("status");
    assert_eq!(browser.script("return document.querySelectorAll('script, img').length"), 1);
    assert!(browser.url().ends_with("#status"), "{}", browser.url());
    browser.back();
    browser.wait("the graph again", &format!("{DRAWN} === 1 && document.querySelector('.status') === null"));
    browser.check_log(&[]);
    daemon.stop_well();
    setup.set("api.page.status", "token").set("api.listen", &format!("127.0.0.1:{port}"));
    let daemon = setup.start();
    browser.open("about:blank");
    browser.open(&page(&daemon, "#status"));
    browser.wait_text(".status .problem", "admin.token");
    browser.type_into(".token input", &daemon.secret());
    browser.press(&Key::Enter.to_string());
    browser.wait_text(".status h2", "Ready");
    browser.check_log(&["401 (Unauthorized)"]);
}

/// The history of a listener is drawn from the daemon's own metrics.
#[test]
fn the_history_of_a_listener_is_plotted() {
    let Some(browser) = Browser::start() else { return };
    let (mut setup, daemon) = daemon();
    daemon.stop_well();
    setup.set("self_metrics.interval", "1s");
    let daemon = setup.start();
    daemon.put(&[Point::new("servers.web01.Requests", NOW, 1.0)]);
    let is_of_line = |name: &String| name.ends_with("-a.listeners.line.metricsReceived");
    wait_until("the metrics of the listener", || daemon.names().iter().any(is_of_line));
    browser.open(&page(&daemon, "#status"));
    browser.wait_text("[aria-label='Listeners and their points'] th", "line");
    browser.click_button("[aria-label='Listeners and their points']", "Plot");
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.wait_text(".legend", "-a.listeners.line.metricsReceived");
    browser.wait_text(".legend", "-a.listeners.line.errors");
    browser.check_log(&[]);
}
