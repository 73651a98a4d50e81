//! Large directories in the tree, compared with graphite-web's composer.

use std::path::Path;

use plumbago_tests::browser::Browser;
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::graphite_web::GraphiteWeb;
use plumbago_tests::send::Point;
use plumbago_tests::wait::wait_until;
use plumbago_tests::whisper_files::WhisperFiles;

use super::super::{amount, median_and_worst};
use super::{FRAME_MAX, NOW, feed, figure, in_page, open, percentile, print_table, remark, sorted};

const TRIES: usize = 9;
const COMPOSER_TRIES: usize = 3;

/// A script that opens the directory, scrolls to its last name, and closes it, several times. Returns the
/// milliseconds from the click until the first names were painted, and until the last one was.
const OPEN: &str = "
  const box = document.querySelector('.tree');
  const names = () => [...document.querySelectorAll('.tree .row .name')];
  const directory = () => names().find((one) => one.textContent === 'NAME');
  const has = (text) => names().some((one) => one.textContent === text);
  const until = async (condition) => { while (!condition()) await frame(); };
  const [first, last] = [[], []];
  for (let turn = 0; turn < TURNS; turn++) {
    const began = performance.now();
    directory().click();
    await until(() => has('child-000000'));
    await frame();
    first.push(performance.now() - began);
    box.scrollTop = box.scrollHeight;
    await until(() => has('LAST'));
    await frame();
    last.push(performance.now() - began);
    box.scrollTop = 0;
    await until(() => directory() && has('child-000000'));
    directory().click();
    await until(() => !has('child-000000'));
  }
  return {first, last};
";

/// A script that scrolls for three seconds, thirty rows per frame. Returns the milliseconds between frames
/// and the largest number of elements.
const SCROLL: &str = "
  const box = document.querySelector('.tree');
  const names = () => [...document.querySelectorAll('.tree .row .name')].map((one) => one.textContent);
  const directory = [...document.querySelectorAll('.tree .row .name')].find((one) => one.textContent === 'wide');
  directory.click();
  while (!names().includes('child-000001')) await frame();
  const frames = [];
  let most = 0;
  let last = await frame();
  const began = last;
  while (last - began < 3000) {
    box.scrollTop += 780;
    const now = await frame();
    frames.push(now - last);
    last = now;
    most = Math.max(most, document.querySelectorAll('*').length);
  }
  return {frames, most, way: box.scrollTop};
";

/// A script that opens the directory in graphite-web's composer. Returns the milliseconds until all its nodes
/// exist and are painted.
const COMPOSER: &str = "
  while (typeof Browser !== 'object' || !Browser.trees?.graphite?.rendered) await frame();
  const metrics = Browser.trees.graphite;
  metrics.expand();
  while (!metrics.findChild('text', 'narrow')) await frame();
  const directory = metrics.findChild('text', 'narrow');
  const began = performance.now();
  directory.expand();
  while (directory.childNodes.length < COUNT || !directory.lastChild.ui.rendered) await frame();
  await frame();
  return performance.now() - began;
";

#[test]
#[ignore = "a figure"]
fn large_directories() {
    let Some(browser) = Browser::start() else { return };
    let (wide, narrow) = (amount("DIRECTORY", 100_000), amount("COMPOSER", 10_000));
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).start();
    let children = |directory: &'static str, count: usize| {
        (0..count).map(move |n| Point::new(format!("{directory}.child-{n:06}"), NOW, 1.0))
    };
    feed(&daemon, children("wide", wide).chain(children("narrow", narrow)));
    wait_until("the names to be indexed", || {
        daemon.counters().sum("plumbago_index_names") >= (wide + narrow) as u64
    });
    let (first, last) = opened(&browser, &daemon, "wide", wide);
    let what = format!("a directory of {wide} opens");
    figure(&what, "150 ms", &format!("{first:.0} ms; its last name {last:.0} ms"), first <= 150.0);
    scrolled(&browser);
    let (first, last) = opened(&browser, &daemon, "narrow", narrow);
    beside_composer(&browser, narrow, (first, last));
    print_table();
}

/// Medians of the time until the first names of a directory are on the screen, and until the last one is.
fn opened(browser: &Browser, daemon: &Daemon, name: &str, count: usize) -> (f64, f64) {
    open(browser, daemon, "");
    browser.wait_text(".tree .row", name);
    let turns = TRIES.to_string();
    let body = OPEN.replace("NAME", name).replace("TURNS", &turns);
    let times = in_page(browser, &body.replace("LAST", &format!("child-{:06}", count - 1)));
    (percentile(&sorted(&times["first"]), 50), percentile(&sorted(&times["last"]), 50))
}

fn scrolled(browser: &Browser) {
    let scrolled = in_page(browser, SCROLL);
    let frames = sorted(&scrolled["frames"]);
    let (p95, worst) = (percentile(&frames, 95), percentile(&frames, 100));
    let way = scrolled["way"].as_f64().unwrap();
    assert!(way >= 780.0, "the tree did not scroll");
    let text = format!("{p95:.1} ms, worst of {} {worst:.1}", frames.len());
    figure("frames while it scrolls, p95", "33 ms", &text, p95 <= FRAME_MAX);
    let most = scrolled["most"].as_u64().unwrap();
    figure("elements while it scrolls", "2,000", &most.to_string(), most <= 2000);
}

fn beside_composer(browser: &Browser, count: usize, (first, last): (f64, f64)) {
    let storage = tempfile::tempdir().unwrap();
    if whisper_files(storage.path(), count).is_none() {
        return;
    }
    let Some(web) = GraphiteWeb::start(storage.path()) else { return };
    let once = |_| {
        browser.open("about:blank");
        browser.open(&format!("http://{}/composer", web.address()));
        in_page(browser, &COMPOSER.replace("COUNT", &count.to_string())).as_f64().unwrap()
    };
    let theirs = median_and_worst(&mut (0..COMPOSER_TRIES).map(once).collect::<Vec<_>>()).0;
    let ratio = theirs / last;
    let what = format!("a directory of {count}, to its last name, beside the composer");
    figure(&what, "10 ×", &format!("{ratio:.0} ×: {last:.0} ms, {theirs:.0} ms"), ratio >= 10.0);
    remark("the same until its first names are on the screen", &format!("{first:.0} ms"));
}

/// Makes small whisper files below `narrow`. `None` if there is no whisper.
fn whisper_files(storage: &Path, count: usize) -> Option<()> {
    let directory = storage.join("whisper/narrow");
    let file = |n: usize| directory.join(format!("child-{n:06}.wsp"));
    WhisperFiles::start(storage)?.write(&file(0), &[(60, 10)], "average", NOW, &[(NOW, 1.0)]);
    for n in 1..count {
        std::fs::copy(file(0), file(n)).unwrap();
    }
    Some(())
}
