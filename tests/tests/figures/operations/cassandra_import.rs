//! The import of whisper files into Cassandra, compared with a bare client that writes the same rows.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plumbago_tests::whisper_files::WhisperFiles;
use serde_json::json;

use super::super::bare::{Bare, table};
use super::super::{Took, amount, config, cpu_of, heading, node, setup, show, took};
use super::{at_least, columns, median};
use crate::whisper_import::{import, rendered};

const KEYSPACE: &str = "whisper_rows";
const SCHEMAS: &str = "[all]\npattern = .*\nretentions = 1m:1d,1h:30d\n";
/// The step and the number of slots of each archive.
const ARCHIVES: [(i64, i64); 2] = [(60, 1440), (3600, 720)];
/// Number of files with different points. All other files are copies of these.
const KINDS: usize = 10;
/// Number of rows that the bare client writes in a request, as in the other figures.
const REQUEST: u32 = 60;
const ROUNDS: usize = 3;
/// Number of slots at each end that are not compared: the oldest may expire between two reads, and the newest
/// windows are open.
const AT_THE_ENDS: usize = 3;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs().cast_signed()
}

/// Writes the rows of both stages, as the import has to.
fn bare_rows(bare: &Bare, names: &[String], now: i64) {
    for ((step, slots), coarse) in ARCHIVES.into_iter().zip([false, true]) {
        let first = (now / step - slots + 1) as u32;
        for row in (0..slots as u32).step_by(REQUEST as usize) {
            bare.points(table(step as u32, slots as u32, coarse), names, first + row, REQUEST);
        }
    }
}

/// Makes files with a value in each slot.
fn make(whisper: &mut WhisperFiles, root: &Path, count: usize, now: i64) {
    let path = |n: usize| root.join(format!("imported/h{}/m{n}.wsp", n / 100));
    for n in 0..count {
        std::fs::create_dir_all(path(n).parent().unwrap()).unwrap();
        if n >= KINDS {
            std::fs::copy(path(n % KINDS), path(n)).unwrap();
            continue;
        }
        let value = |time: i64| (time, ((time / 60 * (n as i64 + 3)) % 1000) as f64 / 8.0);
        let hours = (1..=720).rev().map(|hour| value(now - hour * 3600 + 60));
        let hours = hours.filter(|(time, _)| *time < now - 86_400);
        let points: Vec<(i64, f64)> =
            hours.chain((0..1440).rev().map(|minute| value(now - minute * 60))).collect();
        whisper.write(&path(n), &ARCHIVES, "average", now, &points);
    }
}

/// The time of the import includes the metadata of new metrics, and runs until the server has acknowledged all rows and
/// the command has ended.
#[test]
#[ignore = "a figure"]
fn whisper_rows_beside_a_bare_loop() {
    let files = amount("CASSANDRA_FILES", 600);
    let Some(node) = node() else { return };
    let mut setup = setup(&node, KEYSPACE, SCHEMAS);
    let Some(mut whisper) = WhisperFiles::start(setup.path()) else { return };
    let (root, made) = (setup.path().join("whisper"), now());
    make(&mut whisper, &root, files, made);
    // The last rows do not wait long for more rows to fill a request.
    let daemon = setup.set("spool.linger", "1s").start_for_commands();
    let bare = Bare::connect(&node, config(&node, KEYSPACE));
    warm(&bare);
    let mut ratios = Vec::new();
    for round in 1..=ROUNDS {
        let prefix = format!("r{round}");
        let (begun, cpu) = (Instant::now(), cpu_of(daemon.id()));
        let report = import(&setup, &["--prefix", &prefix, "--workers", "4", root.to_str().unwrap()]);
        let ours = Took { seconds: begun.elapsed().as_secs_f64(), cpu: cpu_of(daemon.id()) - cpu };
        let rows = report["stored"].as_u64().unwrap() as usize;
        assert_eq!((&report["created"], &report["skipped"]), (&json!(files), &json!({})), "{report}");

        let names: Vec<String> = (0..files).map(|n| format!("bare.r{round}.m{n}")).collect();
        let bares = took(std::process::id(), || bare_rows(&bare, &names, made));
        let bare_count = files * ARCHIVES.iter().map(|(_, slots)| *slots as usize).sum::<usize>();
        heading(&format!("round {round}: {files} files, rows"));
        show("import-whisper", rows, &ours);
        show("a bare loop", bare_count, &bares);
        ratios.push(rows as f64 / ours.seconds / (bare_count as f64 / bares.seconds));
        assert!(rows * 100 >= bare_count * 98, "{rows} of {bare_count} rows: {report}");
    }
    // The daemon shows the same as whisper-fetch.
    let at = now();
    let theirs = whisper.fetch(&[root.join("imported/h0/m7.wsp")], at);
    for (step, slots) in &theirs[0] {
        let slots_of_stage = ARCHIVES.iter().find(|(other, _)| other == step).unwrap().1;
        let ours = rendered(&daemon, "r1.imported.h0.m7", step * slots_of_stage, at);
        let ours = &ours["r1.imported.h0.m7"];
        assert_eq!(ours.len(), slots.len(), "the archive of {step} s");
        let inner = AT_THE_ENDS..slots.len() - AT_THE_ENDS;
        assert_eq!(ours[inner.clone()], slots[inner], "the archive of {step} s");
    }
    columns();
    at_least("rows/s of the import into Cassandra, to a bare loop's", 0.75, median(ratios));
    daemon.stop_well();
}

/// The first requests to a new server are slow.
fn warm(bare: &Bare) {
    let names: Vec<String> = (0..500).map(|n| format!("warm.m{n}")).collect();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        bare_rows(bare, &names, now());
    }
}
