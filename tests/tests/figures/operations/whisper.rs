//! Whisper files of all kinds, imported and exported again. Also compares the speed of the import with that of the
//! line protocol.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use plumbago_tests::daemon::Setup;
use plumbago_tests::whisper_files::WhisperFiles;

use super::super::{amount, heading};
use super::{at_least, columns, figure};
use crate::whisper_import::{Archives, NOW, RoundTrip, compare_rendered, name_of, round_trip};

/// Number of files whose points are sent as lines in one write.
const FILES: usize = 200;

/// storage-schemas.conf with the retention of each kind of file.
fn schemas(retentions: &[Vec<(i64, i64)>]) -> String {
    let mut text = String::new();
    for (kind, archives) in retentions.iter().enumerate() {
        let stages: Vec<String> =
            archives.iter().map(|(step, slots)| format!("{step}s:{}s", step * slots)).collect();
        let _ = writeln!(text, "[k{kind}]\npattern = ^gen\\.k{kind}\\.\nretentions = {}", stages.join(","));
    }
    text
}

/// Sends the points of each file's finest archive to a new daemon, and compares its slots with the files.
/// Returns the number of points, and the seconds until all were stored.
fn by_lines(trip: &RoundTrip) -> (usize, f64) {
    let with_points = trip.paths.iter().zip(&trip.theirs).filter_map(|(path, archives)| {
        let finest: Archives = archives[..1].to_vec();
        finest[0].1.iter().any(|slot| slot.1.is_some()).then(|| (path.clone(), finest))
    });
    let (paths, finest): (Vec<PathBuf>, Vec<Archives>) = with_points.unzip();
    let (mut texts, mut points) = (Vec::new(), 0);
    for (paths, files) in paths.chunks(FILES).zip(finest.chunks(FILES)) {
        let mut text = String::new();
        for (path, archives) in paths.iter().zip(files) {
            let name = name_of(&trip.root, path);
            for (time, value) in archives[0].1.iter().filter_map(|(time, value)| Some((time, (*value)?))) {
                // In a notation that uses an exponent for the smallest and the largest values.
                let _ = writeln!(text, "{name} {value:?} {time}");
                points += 1;
            }
        }
        texts.push(text);
    }
    let mut setup = Setup::new();
    let daemon = setup.clock(NOW).set("log.level", "warn").schemas(&schemas(&trip.retentions)).start();
    let begun = Instant::now();
    let mut sender = daemon.sender();
    texts.iter().for_each(|text| sender.try_bytes(text.as_bytes()).unwrap());
    daemon.applied_at(points as u64);
    daemon.flush();
    let seconds = begun.elapsed().as_secs_f64();
    let ledger = daemon.ledger();
    assert!(ledger.balances() && ledger.rejected == 0, "{ledger:?}");
    daemon.wait_names(paths.len());
    compare_rendered(&daemon, &trip.root, &trip.retentions, &paths, &finest);
    daemon.stop_well();
    (points, seconds)
}

#[test]
#[ignore = "a figure"]
fn whisper_files_beside_lines() {
    let count = amount("WHISPER_FILES", 2000);
    let mut setup = Setup::new();
    setup.clock(NOW).set("log.level", "warn");
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let trip = round_trip(&setup, &mut whisper, count);
    let (stored, seconds) =
        (trip.report["stored"].as_u64().unwrap(), trip.report["seconds"].as_f64().unwrap());
    let imported = stored as f64 / seconds;
    let (points, took) = by_lines(&trip);
    let sent = points as f64 / took;
    heading(&format!("{count} files"));
    println!("{:<52} {imported:>12.0}", format!("import of {stored} points of all archives"));
    println!("{:<52} {sent:>12.0}", format!("the {points} points of the finest archives as lines"));
    columns();
    let measured = format!("{} slots of {count} files are equal, imported and exported", trip.compared);
    figure("archives in /render and in exported files", "as whisper-fetch shows", &measured, true);
    figure("points/s of storing", "≥ 2 M", &format!("{:.2} M", imported / 1e6), imported >= 2e6);
    at_least("points/s of the import, to those of the line protocol", 0.5, imported / sent);
}
