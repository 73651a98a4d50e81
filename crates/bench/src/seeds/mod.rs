//! The figures H1 to H19 from the start of the project, measured on one machine with the embedded store.
//!
//! Each group of figures starts a daemon on a directory of its own. The group moves the clock of the daemon,
//! so that a year of points takes seconds. Start at [`measure`].

mod bytes;
mod catalogue;
mod cities;
mod creation;
mod figure;
mod names;
mod site;
mod tags;
mod year;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};

pub use self::catalogue::parse;
pub use self::figure::{Figure, json_list, text};
use crate::BenchError;

/// The disk use of a stopped daemon.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk {
    /// The number of rows of the raw stages.
    pub rows: u64,
    /// The number of points in these rows.
    pub points: u64,
    /// The size of the tables with these rows, in bytes.
    pub bytes: u64,
    /// The size of the tables with names, in bytes.
    pub names_bytes: u64,
}

/// How to measure.
pub struct Setup<'a> {
    /// The program that is started as `PROGRAM serve`.
    pub program: &'a Path,
    /// The configuration file of the daemons.
    pub config_file: Option<&'a Path>,
    /// The directory in which the daemons' directories are made.
    pub directory: &'a Path,
    /// The numbers of the figures to measure; empty for all.
    pub only: &'a [u8],
    /// A factor for all sizes.
    pub scale: f64,
    /// Measures the disk use of a stopped daemon's data directory. If the flag is `true`, merges the
    /// directory's tables first.
    pub disk: &'a dyn Fn(&Path, bool) -> Result<Disk, BenchError>,
}

/// Measures the chosen figures, and returns them by number. A bar on the terminal shows the progress.
///
/// # Errors
/// If a daemon cannot be started or stopped, or does not answer.
pub fn measure(setup: &Setup<'_>) -> Result<Vec<Figure>, BenchError> {
    type Group = (&'static str, &'static [u8], fn(&Setup<'_>) -> Result<Vec<Figure>, BenchError>);
    static GROUPS: [Group; 7] = [
        ("cities", &[8, 9, 10, 11, 12], cities::measure),
        ("bytes", &[5, 6], bytes::measure),
        ("depths", &[1], names::depths),
        ("globs", &[2, 4], names::globs),
        ("two tags", &[3], tags::measure),
        ("a kill", &[17], creation::a_kill),
        ("creation and deletion", &[18, 19], creation::measure),
    ];
    let chosen: Vec<u8> = catalogue::ALL.iter().map(|e| e.number).filter(|n| setup.wants(*n)).collect();
    let groups: Vec<_> =
        GROUPS.iter().filter(|group| group.1.iter().any(|number| chosen.contains(number))).collect();
    let bar = ProgressBar::new(groups.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    let mut measured = Vec::new();
    for (name, _, group) in groups {
        bar.set_message(*name);
        measured.extend(group(setup)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let of = |number: u8| {
        let found = measured.iter().find(|figure| figure.number() == number);
        found.cloned().unwrap_or_else(|| Figure::new(number))
    };
    Ok(chosen.into_iter().map(of).collect())
}

impl Setup<'_> {
    fn wants(&self, number: u8) -> bool {
        self.only.is_empty() || self.only.contains(&number)
    }

    /// A size of the full measurement multiplied by the scale, but at least `least`.
    fn scaled(&self, full: u64, least: u64) -> u64 {
        scaled(full, self.scale).max(least)
    }
}

fn scaled(full: u64, scale: f64) -> u64 {
    (full as f64 * scale).round().max(0.0) as u64
}

/// The machine's time in seconds since the epoch.
fn wall_clock() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs().cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_scaled() {
        assert_eq!((scaled(300_000, 0.01), scaled(300_000, 1.0), scaled(10, 0.01)), (3000, 300_000, 0));
    }
}
