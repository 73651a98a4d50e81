//! H3: searches with two tags, one of which occurs on a growing number of series.

use std::io::{self, Write};

use super::site::Site;
use super::{Figure, Setup, wall_clock};
use crate::BenchError;
use crate::http::encode;
use crate::query::Query;

const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d\n";
const RATIOS: [u64; 4] = [1, 10, 100, 1000];

pub(super) fn measure(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    let (now, few) = (wall_clock(), setup.scaled(1000, 5));
    let site = Site::new(setup, "two-tags", SCHEMAS)?;
    let running = site.start(now)?;
    running.send(|out| write(out, few, now))?;
    let series: u64 = RATIOS.iter().map(|ratio| ratio * few).sum();
    running.wait_for("plumbago_index_tagged", series as f64)?;
    let mut figure = Figure::new(3);
    let mut times = Vec::new();
    for ratio in RATIOS {
        let timing = running.time(both(ratio))?;
        figure.read(format!("1:{ratio}: found"), timing.results as f64, "series");
        figure.read(format!("1:{ratio}: p50"), timing.p50_ms, "ms");
        times.push(timing);
    }
    running.stop()?;
    let found = times.iter().all(|timing| timing.results as u64 == few);
    figure.judge(found && times[RATIOS.len() - 1].p50_ms <= 2.0 * times[0].p50_ms);
    Ok(vec![figure])
}

/// A search for the series of both tags.
fn both(ratio: u64) -> Query {
    let (small, large) = (encode(&format!("small=s{ratio}")), encode(&format!("large=l{ratio}")));
    Query::path(format!("1:{ratio}"), format!("/tags/findSeries?expr={large}&expr={small}"))
}

/// Writes series with two tags. The large tag is on `few` × `ratio` series. The first `few` of them have the
/// small tag too.
fn write(out: &mut dyn Write, few: u64, time: i64) -> io::Result<u64> {
    let mut points = 0;
    for ratio in RATIOS {
        for number in 0..few * ratio {
            let small = if number < few { format!("s{ratio}") } else { "none".to_owned() };
            writeln!(out, "two.m{number};large=l{ratio};small={small} 1 {time}")?;
            points += 1;
        }
    }
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ratio_has_as_many_series_of_both_tags() {
        let mut lines = Vec::new();
        assert_eq!(write(&mut lines, 5, 60).unwrap(), 5555);
        let lines = String::from_utf8(lines).unwrap();
        for ratio in RATIOS {
            let large = format!(";large=l{ratio};");
            let small = format!(";large=l{ratio};small=s{ratio} ");
            assert_eq!((lines.matches(&large).count() as u64, lines.matches(&small).count()), (5 * ratio, 5));
        }
    }
}
