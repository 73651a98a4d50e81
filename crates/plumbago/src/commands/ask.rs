//! Asks a question. The daemon that has the data directory open answers it, or this process if there is no
//! such daemon.

use anyhow::anyhow;
use plumbago_maintenance::question::{Line, Question, ask};
use plumbago_maintenance::verb::VerbError;

use super::expect_data;
use super::verb::{Bar, Daemon, at_rest, failure};
use crate::config::{Loaded, StoreKind};
use crate::error::{Exit, Failure};
use crate::held::is_held;

/// Asks a question and passes each row of the answer to `each`, as it arrives.
///
/// # Errors
///
/// If the question has an error, the store or the daemon cannot be reached, the answer breaks off, or `each` fails.
pub(super) fn rows<Q: Question>(
    question: Q,
    loaded: Loaded,
    mut each: impl FnMut(Q::Row) -> Result<(), Failure>,
) -> Result<(), Failure> {
    question.check().map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
    let mut reading = Reading { bar: Bar::new(Q::NAME), each: &mut each, ended: None };
    if is_held(&loaded.config) {
        Daemon::of(&loaded.config)?.ask(&question, &mut |line| reading.line(line))?;
    } else {
        if loaded.config.store.kind == StoreKind::Embedded {
            expect_data(&loaded.config, "store")?;
        }
        at_rest(loaded, async |work| {
            let mut lines = ask(question, &work);
            while let Some(line) = lines.recv().await {
                if !reading.line(&line) {
                    break;
                }
            }
            if work.stop().is_cancelled() { Err(Failure::from(VerbError::Cancelled)) } else { Ok(()) }
        })?;
    }
    reading.end()
}

/// An answer that is being read.
struct Reading<'a, R> {
    bar: Bar,
    each: &'a mut dyn FnMut(R) -> Result<(), Failure>,
    /// The result of the answer, once its last line has been read.
    ended: Option<Result<(), Failure>>,
}

impl<R: serde::de::DeserializeOwned> Reading<'_, R> {
    /// Takes a line. Returns `false` after the last one.
    fn line(&mut self, line: &str) -> bool {
        match serde_json::from_str::<Line<R>>(line) {
            Ok(Line::Row(row)) => {
                if let Err(failure) = (self.each)(row) {
                    self.ended = Some(Err(failure));
                }
            }
            Ok(Line::Progress(moment)) => self.bar.show(&moment),
            Ok(Line::Error { text, kind }) => self.ended = Some(Err(failure(kind, text))),
            Ok(Line::End) => self.ended = Some(Ok(())),
            Err(error) => self.ended = Some(Err(anyhow!("cannot read a line of the answer: {error}").into())),
        }
        self.ended.is_none()
    }

    fn end(self) -> Result<(), Failure> {
        self.bar.end();
        let cut = || anyhow!("the answer was cut off: the daemon ended meanwhile. Run the command again");
        self.ended.unwrap_or_else(|| Err(Failure::new(Exit::Store, cut())))
    }
}
