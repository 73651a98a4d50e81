//! The page at `/` in a real browser: names are found and plotted, plots are zoomed, names full of HTML stay text,
//! everything works by keyboard, and axe-core finds no violation.

mod axe;
mod costs;
mod explain;
mod keeps;
mod link;
mod plots;
mod rules;
mod status;
mod trouble;

use std::time::Instant;

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::http;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;

/// A whole minute.
const NOW: i64 = 1_790_000_040;
const HOSTS: [&str; 4] = ["web01", "web02", "web03", "db01"];
const EVIL: &str = "evil.<img/src=x/onerror=alert(1)><script>alert(2)</script>";

/// A daemon with an hour of points of a few hosts, and a name that contains HTML.
fn daemon() -> (Setup, Daemon) {
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 1m:1d,5m:30d\n");
    let daemon = setup.start();
    let mut points = Vec::new();
    for minute in 0..60 {
        let time = NOW - minute * 60;
        for (number, host) in HOSTS.iter().enumerate() {
            let wave = (minute as f64 / 7.0 + number as f64).sin() * 20.0 + 30.0 + 10.0 * number as f64;
            points.push(Point::new(format!("servers.{host}.cpu.user"), time, wave));
            points.push(Point::new(format!("servers.{host}.cpu.system"), time, wave / 4.0));
            points.push(Point::new(format!("servers.{host}.Requests"), time, wave * 1000.0));
            if !(20..=30).contains(&minute) {
                points.push(Point::new(format!("http.status;dc=eu;host={host}"), time, wave * 3.0));
            }
        }
        points.push(Point::new(EVIL, time, minute as f64));
        points.push(Point::new("evil.\u{202e}\u{5d0}\u{5d1}", time, minute as f64));
    }
    daemon.put(&points);
    daemon.wait_names(HOSTS.len() * 3 + 2);
    (setup, daemon)
}

fn page(daemon: &Daemon, state: &str) -> String {
    format!("http://{}/{state}", daemon.api())
}

const DRAWN: &str = "document.querySelectorAll('.u-over').length";

/// The tree opens, the search finds in any order and case, Enter plots, Shift+Enter adds, and dragging zooms
/// until Back.
#[test]
fn names_are_found_and_plotted() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, ""));
    browser.wait_text(".row", "servers");
    browser.picture("empty");
    browser.click("#row-1");
    browser.wait_text(".row", "web02");
    browser.wait_text(".below", "3");
    browser.press("/");
    browser.press("user WEB");
    browser.wait("three names", "document.querySelectorAll('#found li').length === 3");
    browser.picture("search");
    browser.press(&Key::Enter.to_string());
    browser.wait("a plot", &format!("{DRAWN} === 1"));
    browser.wait_text(".legend", "servers.web01.cpu.user");
    browser.wait_text(".legend", "stage 0 of 1min:1d");
    assert!(browser.url().ends_with("#from=-1h&target=servers.web01.cpu.user"), "{}", browser.url());
    browser.press(&Key::Down.to_string());
    browser.press_with(Key::Shift, &Key::Enter.to_string());
    browser.wait_text(".legend", "servers.web02.cpu.user");
    browser.press(&Key::Escape.to_string());
    browser.hover(".u-over", 300, 100);
    browser.wait_text(".tip", "servers.web02.cpu.user");
    browser.picture("crosshair");
    browser.drag(".u-over", 200, 300);
    browser.wait("a zoom", "location.hash.startsWith('#from=17')");
    browser.back();
    browser.wait("the view before", "location.hash.startsWith('#from=-1h&')");
    browser.check_log(&[]);
}

/// The link contains the state of the page: panels, shapes, drawing options, tags, gaps.
#[test]
fn a_link_shows_what_it_says() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    let first = "?from=-1h&title=CPU&target=servers.*.cpu.user&areaMode=stacked";
    let others = "&panel=Requests&target=secondYAxis(servers.web01.Requests)&target=color(dashed(servers.db01.Requests),'red')\
                  &target=threshold(40000,'limit','orange')&target=drawAsInfinite(timeShift(servers.web01.none,'1h'))\
                  &panel=Tags&target=seriesByTag('name=http.status','dc=eu')&lineMode=staircase";
    // If `render` is removed from the address of a picture, the address opens the page with the same graph.
    browser.open(&page(&daemon, &format!("{first}{}", others.replace('\'', "%27"))));
    browser.wait("three plots", &format!("{DRAWN} === 3"));
    browser.wait_text(".legend", "http.status;dc=eu;host=db01");
    browser
        .wait("the state in the fragment", "location.search === '' && location.hash.includes('panel=Tags')");
    browser.hover(".u-over", 500, 120);
    browser.wait("a crosshair through all panels", "document.querySelectorAll('.tip').length === 3");
    browser.picture("panels-dark");
    browser.look(1440, 1400, false);
    browser.picture("panels-light");
    browser.check_log(&[]);
    // The parameters of a picture's address also work with the addresses of graphite-web's composer and dashboard.
    for way in ["composer?target=servers.db01.Requests", "dashboard/?target=servers.db01.Requests"] {
        browser.open(&page(&daemon, way));
        browser.wait_text(".legend", "servers.db01.Requests");
    }
    browser.check_log(&[]);
}

/// Names, titles and targets full of HTML are shown as text, everywhere.
#[test]
fn nothing_that_was_stored_becomes_html() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    let evil = http::encode("<script>alert(3)</script><img src=x onerror=alert(4)>");
    let target = http::encode(&format!("alias(servers.web01.Requests,'{EVIL}')"));
    browser.open(&page(
        &daemon,
        &format!("#from=-1h&title={evil}&target={target}&target=evil.*&panel={evil}&target={evil}("),
    ));
    browser.wait_text(".legend", EVIL);
    browser.wait_text(".legend", "\\u202e");
    browser.wait_text(".problem", "<script>alert(3)");
    browser.click("#row-0");
    browser.wait_text(".row", "<script>alert(2)");
    browser.type_into("#search", "SCRIPT");
    browser.wait_text("#found li", "<script>alert(2)");
    browser.hover(".u-over", 300, 100);
    browser.wait_text(".tip", EVIL);
    browser.picture("evil");
    let made = browser.script("return document.querySelectorAll('script, img').length");
    assert_eq!(made, 1, "only the script of the page itself");
    browser.check_log(&["400 (Bad Request)"]);
}

/// A mistake in a target is reported and marked. The typed text stays, and Ctrl+Enter runs it once it is corrected.
#[test]
fn a_mistake_is_marked_and_nothing_typed_is_lost() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, "#from=-1h&target=sumSeris(servers.*.cpu.user)"));
    browser.wait_text(".problem", "unknown function sumSeris");
    browser.wait_text(".fault mark", "sumSeris");
    browser.wait_text(".fault", "sumSeries");
    browser.picture("mistake");
    let editor = "document.querySelector('.editor').shadowRoot.querySelector('.cm-content')";
    browser.wait("the editor", "document.querySelector('.editor')?.shadowRoot !== null");
    browser
        .wait("the mark in it", &format!("{editor}.querySelector('.cm-fault').textContent === 'sumSeris'"));
    browser.script(&format!("{editor}.focus()"));
    browser.press(&format!("{}{}e", Key::Home, Key::Right.to_string().repeat(7)));
    browser.press_with(Key::Control, &Key::Enter.to_string());
    browser.wait_text(".legend", "sumSeries(servers.*.cpu.user)");
    // The editor completes functions and names.
    browser.press(&Key::End.to_string());
    browser.press_with(Key::Shift, &Key::Home.to_string());
    browser.press("servers.web01.");
    browser.wait("the names there", &format!("[...{editor}.getRootNode().querySelectorAll('.cm-tooltip li')].some((e) => e.textContent.includes('Requests'))"));
    browser.picture("completion");
    browser.press(&Key::Escape.to_string());
    browser.check_log(&["400 (Bad Request)"]);
}

/// Choosing tags and values, which are shown with counts, builds a `seriesByTag`.
#[test]
fn tags_build_a_target() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, ""));
    browser.click("#tab-tags");
    browser.wait_text(".tag", "dc");
    browser
        .script("[...document.querySelectorAll('.tag')].find((b) => b.textContent.includes('dc')).click()");
    browser.wait_text(".value", "4");
    browser.click(".value");
    browser.wait_text(".building", "4 series");
    browser.picture("tags");
    browser.click(".building button");
    browser.wait_text(".legend", "http.status;dc=eu;host=web01");
    browser.type_into("#search", "dc=eu web0");
    browser.wait("three series", "document.querySelectorAll('#found li').length === 3");
    // Of many tags and values the first are shown, and a filter finds the others.
    let points: Vec<Point> = (0..600)
        .flat_map(|n| [format!("a;tag{n:03}=x"), format!("b;node=n.{n:03}")])
        .map(|name| Point::new(name, NOW, 1.0))
        .collect();
    daemon.put(&points);
    wait_until("the tags", || daemon.get("/tags/node").body.contains("n.599"));
    browser.click("#tab-names");
    browser.click("#tab-tags");
    browser.wait_text(".tags > .note", "more; filter to see them");
    assert_eq!(browser.script("return document.querySelectorAll('.tag').length"), 300);
    browser.type_into(".tags > .filter", "NOD");
    browser.wait("one tag", "document.querySelectorAll('.tag').length === 1");
    browser.click(".tag");
    browser.wait_text(".tag-list .note", "The first 500 values");
    browser.type_into(".tag-list .filter", "N.59");
    browser.wait("ten values", "document.querySelectorAll('.value').length === 10");
    browser.wait_text(".value", "n.599");
    browser.check_log(&[]);
}

/// A plot follows new points, and survives a restart of the daemon.
#[test]
fn a_live_plot_follows_and_comes_back() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    setup.clock(NOW).schemas("[all]\npattern = .*\nretentions = 1s:1d\n");
    let daemon = setup.start();
    let port = daemon.api().port();
    daemon.put(&[Point::new("live.a", NOW - 5, 1.0)]);
    daemon.wait_names(1);
    browser.open(&page(&daemon, "#from=-1min&target=live.a"));
    browser.wait_text(".legend td", "1");
    daemon.put(&[Point::new("live.a", NOW, 123.0)]);
    browser.wait_text(".legend td", "123");
    daemon.stop();
    browser.wait_text(".problem", "does not answer");
    browser.picture("gone");
    browser.wait_text(".legend td", "123");
    setup.set("api.listen", &format!("127.0.0.1:{port}"));
    let daemon = setup.start();
    daemon.put(&[Point::new("live.a", NOW + 1, 456.0)]);
    daemon.set_clock(NOW + 2);
    browser.wait_text(".legend td", "456");
    browser.wait("no problem any more", "document.querySelector('.problem') === null");
}

/// A directory of 100,000 names opens with few elements, and one key leads to its end.
#[test]
fn a_large_directory_opens_at_once() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).start();
    let point = |n: usize| Point::new(format!("wide.child-{n:06}"), NOW, 1.0);
    daemon.put(&(0..100_000).map(point).collect::<Vec<_>>());
    wait_until("the names to be indexed", || {
        daemon.get("/plumbago/browse?path=wide&limit=1").body.contains("\"total\":100000,")
    });
    browser.open(&page(&daemon, ""));
    browser.wait_text(".row", "100,000");
    let started = Instant::now();
    browser.click("#row-0");
    browser.wait_text(".row", "child-000001");
    println!("a directory of 100,000 opened in {:?}, with the driver's own time", started.elapsed());
    browser.script("document.querySelector('.tree').focus()");
    browser.press(&Key::End.to_string());
    browser.wait_text(".row", "child-099999");
    browser.press(&Key::Home.to_string());
    browser.type_into(".row .filter", "77_none");
    browser.wait_text(".row", "nothing matches");
    browser.script("const f = document.querySelector('.row .filter'); f.select(); f.focus()");
    browser.press("d-0544");
    browser.wait_text(".row", "child-054400");
    let elements = browser.script("return document.querySelectorAll('*').length").as_u64().unwrap();
    assert!(elements < 2000, "{elements} elements");
    browser.check_log(&[]);
}

/// The keyboard alone leads from the empty page to a zoomed plot whose values are read out.
#[test]
fn everything_works_by_keyboard() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, ""));
    browser.wait_text(".row", "servers");
    let focused = |what: &str, selector: &str| {
        for _ in 0..40 {
            if browser.script(&format!("return document.activeElement.matches({selector:?})")) == true {
                return;
            }
            browser.press(&Key::Tab.to_string());
        }
        panic!("Tab does not reach {what}");
    };
    focused("the tree", ".tree");
    browser.press(&format!("{}{}", Key::Down, Key::Right));
    browser.wait_text(".row", "db01");
    browser.press(&Key::Down.to_string());
    browser.wait_text(".row.chosen", "db01");
    browser.press(&Key::Right.to_string());
    browser.wait_text(".row", "Requests");
    browser.press(&Key::Down.to_string());
    browser.wait_text(".row.chosen", "Requests");
    browser.press(&Key::Enter.to_string());
    browser.wait_text(".legend", "servers.db01.Requests");
    focused("the plot", ".plot");
    browser.press(&Key::Left.to_string());
    browser.wait_text("[aria-live]", "servers.db01.Requests");
    browser.press("+");
    browser.wait("a zoom", "location.hash.includes('from=17')");
    browser.press("?");
    browser.wait_text(".help", "search names");
    browser.picture("help");
    browser.check_log(&[]);
}

/// Dashboards of Grafana are imported with their variables. Unsupported parts are listed, and a panel can be
/// exported again.
#[test]
fn dashboards_are_imported() {
    let Some(browser) = Browser::start() else { return };
    let (_setup, daemon) = daemon();
    browser.open(&page(&daemon, ""));
    browser.click_button(".tools", "Import");
    browser.type_into(".import textarea", "https://grafana.example/d/abc/hosts");
    browser.wait_text(".import .problem", "JSON model");
    let evil = "<img src=x onerror=alert(5)>";
    let dashboard = serde_json::json!({
        "time": {"from": "now-30m", "to": "now"},
        "templating": {"list": [{"name": "host", "current": {"value": ["web01", "db01"]}}]},
        "panels": [
            {"title": evil, "targets": [{"refId": "A", "target": "servers.$host.cpu.user"}]},
            {"title": evil, "targets": [{"refId": "A", "expr": "up", "datasource": {"type": "prometheus"}}]},
        ],
    });
    let text = serde_json::Value::from(dashboard.to_string());
    browser.script(&format!(
        "const area = document.querySelector('.import textarea'); area.value = {text}; area.dispatchEvent(new Event('input', {{bubbles: true}}))"
    ));
    browser.wait_text(".import li", "no query of Graphite (prometheus)");
    browser.wait("the variable", "document.querySelector('.import fieldset input').value === '{web01,db01}'");
    browser.picture("import");
    browser.script(
        "const input = document.querySelector('.import fieldset input'); input.focus(); input.select()",
    );
    browser.press("web02");
    browser.click_button(".import", "Show");
    browser.wait_text(".legend", "servers.web02.cpu.user");
    browser.wait("the dialog to close", "document.querySelector('.import') === null");
    assert!(browser.url().contains("from=-30min"), "{}", browser.url());
    assert_eq!(browser.script("return document.querySelectorAll('script, img').length"), 1);
    // Drops a text on the page.
    browser.script(
        "const data = new DataTransfer(); data.setData('text/plain', '/render?target=servers.db01.Requests&from=-1h'); \
         document.querySelector('main').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}))",
    );
    browser.wait_text(".import [role=status]", "1 panel with 1 target");
    browser.click_button(".import", "Add");
    browser.wait_text(".legend", "servers.db01.Requests");
    // Files are read wherever they are dropped; one that cannot be read is named.
    let drop = |files: &str, place: &str| {
        browser.script(&format!(
            "const data = new DataTransfer(); for (const file of {files}) data.items.add(file); \
             const drop = new DragEvent('drop', {{dataTransfer: data, bubbles: true, cancelable: true}}); \
             document.querySelector({place:?}).dispatchEvent(drop)"
        ));
    };
    drop(
        "[new File(['/render?target=servers.db01.Requests&yMax=high'], 'a.txt'), new File(['x'], 'b.txt')]",
        "#search",
    );
    browser.wait_text(".import .problem", "Only the first of 2 files was read: a.txt");
    browser.wait_text(".import li", "yMax=high");
    browser.script("File.prototype.text = () => Promise.reject(new Error('a directory'))");
    drop("[new File(['x'], 'boards')]", "main");
    browser.wait_text(".import .problem", "boards cannot be read");
    browser.check_log(&[]);
}

/// Boards are read from files, and a changed file is read again.
#[test]
fn boards_are_read_from_files() {
    let Some(browser) = Browser::start() else { return };
    let (mut setup, daemon) = daemon();
    daemon.stop_well();
    std::fs::create_dir(setup.path().join("boards")).unwrap();
    let board = setup.file("boards/Web & more.txt", "target=servers.web01.Requests\n");
    setup.set("api.page.boards", board.parent().unwrap().to_str().unwrap());
    let daemon = setup.start();
    browser.open(&page(&daemon, ""));
    browser.click("#tab-boards");
    browser.wait_text(".boards button", "Web & more");
    browser.click(".boards button");
    browser.wait_text(".legend", "servers.web01.Requests");
    std::fs::write(
        &board,
        "#from=-2h&title=Both\ntarget=servers.db01.Requests\npanel=Second\ntarget=evil.*\n",
    )
    .unwrap();
    browser.click("#tab-names");
    browser.click("#tab-boards");
    browser.wait_text(".boards button", "Web & more");
    browser.click(".boards button");
    browser.wait_text(".legend", EVIL);
    browser.wait_text(".legend", "servers.db01.Requests");
    assert!(
        browser
            .url()
            .ends_with("#from=-2h&title=Both&target=servers.db01.Requests&panel=Second&target=evil.*"),
        "{}",
        browser.url()
    );
    // A board that is added while the list is open is shown too.
    setup.file("boards/Later.txt", "target=evil.*\n");
    browser.wait_text(".boards button", "Later");
    // Boards beyond the limit of the list are counted.
    for number in 0..501 {
        setup.file(&format!("boards/a{number:03}.txt"), "target=evil.*\n");
    }
    browser.wait_text(".boards [role=status]", "3 files after the first 500 (by name) are left out");
    let below = browser.script("return document.documentElement.scrollHeight - window.innerHeight");
    assert!(below.as_i64().unwrap() <= 0, "the list scrolls, not the page: {below} px too high");
    browser.check_log(&[]);
}
