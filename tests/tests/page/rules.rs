//! The view *Rules*.

use nix::sys::signal::Signal;
use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::wait::wait_until;

use super::{DRAWN, EVIL, daemon, page};

/// For a name the page explains the rules, and shows an existing metric that differs and the command for it.
/// Edited rules can be tested. Names with HTML are shown as text, and everything works by keyboard.
#[test]
fn the_rules_are_explained_and_tried() {
    let Some(browser) = Browser::start() else { return };
    let (mut setup, daemon) = daemon();
    let port = daemon.api().port();
    setup.file(
        "storage-schemas.conf",
        "[db]\npattern = db\nretentions = 1m:9d\n[all]\npattern = .*\nretentions = 1m:1d,5m:30d\n",
    );
    daemon.signal(Signal::SIGHUP);
    wait_until("the new rules", || daemon.get("/plumbago/rules").body.contains("[db]"));
    browser.open(&page(&daemon, "#target=servers.db01.Requests"));
    browser.wait_text(".legend", "servers.db01.Requests");
    browser.click_button(".tools", "Rules");
    assert!(browser.url().ends_with("#rules"), "{}", browser.url());
    browser.type_into("#rule-name", "servers.db01.Requests");
    browser.press(&Key::Enter.to_string());
    browser.wait_text(".explanation tbody tr", "dbdecides11m:9ddb1 of 2");
    browser.wait_text(".explanation tbody tr", "alllater");
    browser.wait_text(".explanation", "when all are full");
    browser.wait_text(".explanation tbody tr", "retention1m:1d,5m:30d1m:9d");
    browser.wait_text(".explanation .command code", "plumbago rules apply 'servers.db01.Requests'");
    browser.picture("rules");
    browser.script("document.getElementById('rule-name').value = ''");
    browser.type_into("#rule-name", EVIL);
    browser.press(&Key::Enter.to_string());
    browser.wait_text(".explanation code", EVIL);
    // The keyboard leads from the field of the name to its button and to the text of the rules.
    browser.press(&format!("{}{}", Key::Tab, Key::Tab));
    browser.wait("the focus", "document.activeElement.closest('.values, textarea') !== null");
    browser.script(
        "const text = document.getElementById('rule-schemas'); text.focus(); text.setSelectionRange(0, 0)",
    );
    browser.press("[web]\u{e007}pattern = web\u{e007}retentions = 1m:2d\u{e007}");
    browser.click_button(".rules form", "Try");
    browser.wait_text(".tried tbody tr", "web1");
    browser.wait_text(".tried", "18 metrics counted");
    browser.wait_text(".tried", "would change with plumbago rules apply");
    browser.wait_text(".tried .command code", "plumbago rules apply --dry-run");
    browser.picture("rules-tried");
    assert_eq!(browser.script("return document.querySelectorAll('script, img').length"), 1);
    browser.script(
        "const text = document.getElementById('rule-schemas'); text.focus(); text.setSelectionRange(0, 0)",
    );
    browser.press("[broken]\u{e007}pattern = (\u{e007}retentions = 1m:2d\u{e007}");
    browser.click_button(".rules form", "Try");
    browser.wait_text(".rules .problem", "storage-schemas.conf line 2: [broken] error: pattern");
    browser.back();
    browser.wait("the graph again", &format!("{DRAWN} === 1 && document.querySelector('.rules') === null"));
    browser.check_log(&["400 (Bad Request)"]);
    daemon.stop_well();
    setup.set("api.page.status", "token").set("api.listen", &format!("127.0.0.1:{port}"));
    let daemon = setup.start();
    browser.open("about:blank");
    browser.open(&page(&daemon, "#rules"));
    browser.wait_text(".rules .problem", "admin.token");
    browser.type_into(".token input", &daemon.secret());
    browser.press(&Key::Enter.to_string());
    browser.wait("the rules", "document.getElementById('rule-schemas')?.value.includes('[db]')");
    browser.check_log(&["401 (Unauthorized)"]);
}
