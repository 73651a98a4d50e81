//! A child process that answers requests. Requests and answers are JSON objects, one per line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::child::Guarded;

/// The running child.
#[derive(Debug)]
pub struct JsonLines {
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    _process: Guarded,
}

impl JsonLines {
    /// Starts the child with standard error redirected to the file `log`. Its temporary files are beside that file.
    pub fn start(mut command: Command, log: &Path) -> Self {
        command.env("TMPDIR", log.parent().unwrap());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(log).unwrap());
        let mut process = Guarded::adopt(command.spawn().unwrap(), log);
        let questions = process.child().stdin.take().unwrap();
        let answers = BufReader::new(process.child().stdout.take().unwrap());
        Self { questions, answers, _process: process }
    }

    /// Sends a request and waits for the answer. Panics if the answer has a field `error`.
    pub fn ask(&mut self, question: &Value) -> Value {
        writeln!(self.questions, "{question}").unwrap();
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).unwrap();
        assert!(read > 0, "the child ended");
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer.get("error").is_none(), "asked {:.200}: {answer}", question.to_string());
        answer
    }
}
