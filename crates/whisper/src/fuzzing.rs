//! The entry point for fuzzers. The property tests use it too.

use crate::file::File;
use crate::write;

/// Reads a file and all its points as of several times, and writes them to a new file.
///
/// # Panics
/// If reading the written file gives another result.
pub fn file(data: &[u8]) {
    let Ok(file) = File::parse(data) else { return };
    let config = file.header.config();
    for now in [0, 1_000, 1_399, 1_700_000_000, i64::from(u32::MAX)] {
        let stages = 0..file.header.archives.len();
        let points: Vec<Vec<(u32, f64)>> = stages.map(|at| file.points(at, now).collect()).collect();
        let written = write(&config.retention, config.aggregation, config.x_files_factor, &points);
        let written = written.unwrap_or_default();
        let again = File::parse(&written).expect("a written file can be read");
        assert_eq!(again.header.config(), config);
        for (at, points) in points.iter().enumerate() {
            let read = again.points(at, now).map(|(time, value)| (time, value.to_bits()));
            assert!(read.eq(points.iter().map(|(time, value)| (*time, value.to_bits()))), "archive {at}");
        }
    }
}
