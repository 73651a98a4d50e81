//! Runs graphite-web's evaluation in a separate process.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use plumbago_tests::child::Guarded;
use plumbago_tests::counterpart;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cases::Case;
use crate::world;

/// The running process.
#[derive(Debug)]
pub(crate) struct Engine {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    _process: Guarded,
    _directory: TempDir,
}

/// How graphite-web treats wrong arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// graphite-web accepts them, which is its default.
    Plain,
    /// graphite-web refuses arguments that are wrong according to its own declarations.
    Strict,
}

impl Engine {
    /// Starts the process. `None` (a recorded skip) if Python or its packages are missing.
    pub(crate) fn start() -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("plumbago-functions-").tempdir().unwrap();
        let log = directory.path().join("engine.log");
        std::fs::create_dir_all(directory.path().join("log/webapp")).unwrap();
        let mut command = Command::new(counterpart::python()?);
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/python/functions.py"));
        command.env("GRAPHITE_STORAGE_DIR", directory.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("TMPDIR", directory.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        let mut process = Guarded::adopt(command.spawn().unwrap(), &log);
        let questions = process.child().stdin.take().unwrap();
        let answers = BufReader::new(process.child().stdout.take().unwrap());
        let mut engine = Self { questions, answers, _process: process, _directory: directory };
        engine.ask(&json!({"cmd": "world", "series": world::to_json(&world::world())}));
        Some(engine)
    }

    /// graphite-web's declarations.
    pub(crate) fn functions(&mut self) -> Value {
        self.ask(&json!({"cmd": "functions"}))
    }

    /// graphite-web's answer.
    pub(crate) fn evaluate(&mut self, case: &Case, mode: Mode) -> Value {
        self.ask(&json!({
            "cmd": "evaluate",
            "targets": case.targets,
            "from": case.from,
            "until": case.until,
            "now": world::NOW,
            "zone": case.zone,
            "server_zone": case.server_zone,
            "factor": case.factor,
            "width": case.width,
            "strict": mode == Mode::Strict,
        }))
    }

    fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").unwrap();
        let mut line = String::new();
        assert!(
            self.answers.read_line(&mut line).unwrap() > 0,
            "the engine ended: {}",
            self._process.output()
        );
        serde_json::from_str(&line).unwrap()
    }
}
