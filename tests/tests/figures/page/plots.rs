//! Measures a plot of many series: the time from Ctrl+Enter to the screen, and the frames while the mouse
//! moves.

use plumbago_tests::browser::{Browser, Key};
use plumbago_tests::daemon::{Daemon, Setup};
use plumbago_tests::send::Point;

use super::super::median_and_worst;
use super::{FRAME_MAX, NOW, feed, figure, in_page, open, percentile, print_table, sorted};

const SERIES: usize = 100;
/// Number of minutes in a day.
const SLOTS: usize = 1440;
const TRIES: usize = 9;

const EDITOR: &str = "document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')";

/// A script that records the milliseconds from Ctrl+Enter to the frame after the one that paints the plot and
/// its legend.
const PAINTED: &str = "
  window.painted = null;
  addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || !event.ctrlKey) return;
    const look = () => {
      const is = document.querySelector('.u-over') && document.querySelectorAll('.legend tbody tr').length === SERIES;
      if (!is) requestAnimationFrame(look);
      else requestAnimationFrame(() => { window.painted = performance.now() - event.timeStamp; });
    };
    requestAnimationFrame(look);
  }, true);
";

/// A script that moves the mouse through the plot for three seconds, once a frame, as browsers report it.
/// Returns the milliseconds between frames, and the number of different times that the crosshair showed.
const MOVE: &str = "
  const over = document.querySelector('.u-over');
  const {left, top, width, height} = over.getBoundingClientRect();
  const frames = [];
  const moments = new Set();
  let last = await frame();
  const began = last;
  for (let move = 0; last - began < 3000; move++) {
    const clientX = left + (20 + 7 * move) % (width - 40);
    const clientY = top + height * (0.5 + 0.4 * Math.sin(move / 15));
    over.dispatchEvent(new MouseEvent('mousemove', {clientX, clientY, bubbles: true}));
    const now = await frame();
    frames.push(now - last);
    last = now;
    moments.add(document.querySelector('.tip .when')?.textContent);
  }
  return {frames, moments: moments.size};
";

#[test]
#[ignore = "a figure"]
fn many_series() {
    let Some(browser) = Browser::start() else { return };
    let mut setup = Setup::new();
    setup.schemas("[all]\npattern = .*\nretentions = 1m:2d\n");
    let daemon = setup.clock(NOW).start();
    let point = |n: usize| {
        let (slot, series) = (n / SERIES, n % SERIES);
        let value = (slot as f64 / 60.0 + series as f64).sin() * 20.0 + series as f64;
        Point::new(format!("plot.host{series:03}"), NOW - 60 * (SLOTS - 1 - slot) as i64, value)
    };
    feed(&daemon, (0..SERIES * SLOTS).map(point));
    daemon.wait_names(SERIES);
    daemon.flush();
    let mut times: Vec<f64> = (0..TRIES).map(|_| painted(&browser, &daemon)).collect();
    let (median, worst) = median_and_worst(&mut times);
    let what = format!("{SERIES} series × 24 h at 1 min: Ctrl+Enter to painted");
    let text = format!("{median:.0} ms, worst of {TRIES} {worst:.0}");
    figure(&what, "500 ms", &text, median <= 500.0);
    crosshair(&browser);
    print_table();
}

/// Types the target into an empty panel and runs it.
fn painted(browser: &Browser, daemon: &Daemon) -> f64 {
    open(browser, daemon, "#from=-24h");
    browser.wait("the editor", &format!("!!{EDITOR}"));
    browser.script(&format!("{EDITOR}.focus(); {}", PAINTED.replace("SERIES", &SERIES.to_string())));
    browser.press("plot.*");
    browser.press_with(Key::Control, &Key::Enter.to_string());
    let painted = "while (window.painted === null) await frame(); return window.painted";
    in_page(browser, painted).as_f64().unwrap()
}

fn crosshair(browser: &Browser) {
    browser.hover(".u-over", 100, 100);
    browser.wait("the crosshair", "document.querySelector('.tip') !== null");
    let moved = in_page(browser, MOVE);
    let (frames, moments) = (sorted(&moved["frames"]), moved["moments"].as_u64().unwrap());
    assert!(moments as usize > frames.len() / 2, "the crosshair was at {moments} moments only");
    let (p95, median) = (percentile(&frames, 95), percentile(&frames, 50));
    let text = format!("{p95:.0} ms; median of {} {median:.0} ms", frames.len());
    figure("frames while the crosshair moves, p95", "33 ms", &text, p95 <= FRAME_MAX);
}
