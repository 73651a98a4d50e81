//! Whisper files that Python's whisper creates, writes and reads.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::counterpart;
use crate::json_lines::JsonLines;

/// Number of files that one request creates or fetches.
const FILES: usize = 200;

/// A slot: its time, and its value if it is known.
pub type Slot = (i64, Option<f64>);

/// A process of Python's whisper that makes and reads files.
pub struct WhisperFiles(JsonLines);

impl WhisperFiles {
    /// Starts the process. Returns `None` if whisper is not installed.
    pub fn start(directory: &Path) -> Option<Self> {
        let mut command = Command::new(counterpart::python()?);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/whisper_files.py"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        Some(Self(JsonLines::start(command, &directory.join("whisper.log"))))
    }

    /// Makes files of all kinds below `root`. Returns the retentions by kind.
    pub fn make(&mut self, root: &Path, count: usize, seed: u64, now: i64) -> Vec<Vec<(i64, i64)>> {
        let mut retentions = Value::Null;
        for part in (0..count).collect::<Vec<_>>().chunks(FILES) {
            let question = json!({"cmd": "make", "root": root, "files": part, "seed": seed, "now": now});
            retentions = self.0.ask(&question)["retentions"].clone();
        }
        serde_json::from_value(retentions).unwrap()
    }

    /// The path of a tagged series' file, relative to whisper's directory.
    pub fn hashed_path(&mut self, tagged: &str) -> String {
        self.0.ask(&json!({"cmd": "hash", "name": tagged}))["path"].as_str().unwrap().to_owned()
    }

    /// Makes a file, unless it exists, and writes points.
    pub fn write(
        &mut self,
        path: &Path,
        archives: &[(i64, i64)],
        method: &str,
        now: i64,
        points: &[(i64, f64)],
    ) {
        let question = json!({
            "cmd": "write", "path": path, "archives": archives, "method": method, "factor": 0.5, "now": now,
            "points": points
        });
        self.0.ask(&question);
    }

    /// The step and the slots of each archive of these files, as whisper-fetch shows them.
    pub fn fetch(&mut self, paths: &[PathBuf], now: i64) -> Vec<Vec<(i64, Vec<Slot>)>> {
        let mut all = Vec::new();
        for part in paths.chunks(FILES) {
            let answer = self.0.ask(&json!({"cmd": "fetch", "paths": part, "now": now}));
            all.extend(answer["files"].as_array().unwrap().iter().map(archives_of));
        }
        all
    }
}

fn archives_of(file: &Value) -> Vec<(i64, Vec<Slot>)> {
    let archive = |archive: &Value| {
        let (start, step) = (archive[0].as_i64().unwrap(), archive[1].as_i64().unwrap());
        let bits = |v: &Value| v.as_str().map(|text| f64::from_bits(u64::from_str_radix(text, 16).unwrap()));
        let slots = archive[2].as_array().unwrap().iter().enumerate();
        (step, slots.map(|(at, v)| (start + step * at as i64, bits(v))).collect())
    };
    file.as_array().unwrap().iter().map(archive).collect()
}
