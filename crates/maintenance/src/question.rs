//! Questions, with which a command requests information. Like a verb, a question is answered by the daemon
//! that has the data directory open, or by the process of the command. The answer is sent row by row while it
//! is computed, so it may be larger than the memory.
//!
//! To add one: a file in `questions` with a type that implements [`Question`], a line in
//! [`crate::questions::CATALOGUE`], and a file in the binary's `commands`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use plumbago_boxed_futures::boxed_futures;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::paced_names::PacedNames;
use crate::verb::{FailureKind, Moment, VerbError, Work};

/// Number of lines that may wait for a slow reader.
const LINES: usize = 64;
/// How often the progress is reported.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// A question with its parameters, which are the fields of the type.
#[boxed_futures]
pub trait Question: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The name of the question.
    const NAME: &'static str;
    /// A row of the answer. It should be small, because a few rows wait in memory.
    type Row: Serialize + DeserializeOwned + Send + Sync;

    /// Checks the parameters.
    ///
    /// # Errors
    /// Why the parameters are not valid.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Maximum number of metrics per second; 0 for no limit.
    fn rate(&self) -> u32 {
        0
    }

    /// Computes the answer and sends its rows.
    ///
    /// # Errors
    /// See [`VerbError`]. Some rows may already have been sent then.
    async fn answer(&self, work: &Work, rows: &Rows<Self::Row>) -> Result<(), VerbError>;
}

/// A line of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line<R> {
    /// A row.
    Row(R),
    /// The progress of the search for the answer.
    Progress(Moment),
    /// The search failed. This is the last line.
    Error {
        /// What went wrong.
        text: String,
        /// What can be done about it.
        kind: FailureKind,
    },
    /// All rows were sent. This is the last line; without it, the answer was cut off.
    End,
}

/// Receives the rows of an answer.
#[derive(Debug)]
pub struct Rows<R> {
    lines: mpsc::Sender<String>,
    row: PhantomData<fn(R)>,
}

impl<R: Serialize> Rows<R> {
    /// Sends a row. Waits while the reader is slow.
    ///
    /// # Errors
    /// [`VerbError::Cancelled`] if the reader has closed the channel.
    pub async fn send(&self, row: R) -> Result<(), VerbError> {
        tell(&self.lines, &Line::Row(row)).await
    }
}

async fn tell<R: Serialize>(lines: &mpsc::Sender<String>, line: &Line<R>) -> Result<(), VerbError> {
    let mut text = serde_json::to_string(line).map_err(|error| VerbError::Failed(error.to_string()))?;
    text.push('\n');
    lines.send(text).await.map_err(|_| VerbError::Cancelled)
}

/// Begins to answer a question. Returns the lines of the answer, each a [`Line`] in JSON. The search ends
/// when the receiver is dropped.
pub fn ask<Q: Question>(question: Q, work: &Work) -> mpsc::Receiver<String> {
    let (lines, receiver) = mpsc::channel(LINES);
    let stop = work.stop().child_token();
    let mut work = work.for_run(stop.clone());
    if question.rate() > 0 {
        work.names = Arc::new(PacedNames::new(Arc::clone(&work.names), question.rate()));
    }
    tokio::spawn(async move {
        let rows = Rows { lines: lines.clone(), row: PhantomData };
        let result = {
            let searching = question.answer(&work, &rows);
            let telling = tell_progress(&work, &lines);
            tokio::select! {
                result = searching => result,
                () = telling => Err(VerbError::Cancelled),
                () = stop.cancelled() => Err(VerbError::Cancelled),
            }
        };
        let last: Line<()> = match result {
            Ok(()) => Line::End,
            Err(error) => Line::Error { text: error.text(), kind: error.kind() },
        };
        // An error means that the reader has closed the channel.
        let _ = tell(&lines, &last).await;
    });
    receiver
}

/// Reports the progress at intervals, while there is some. Ends when the reader has closed the channel.
async fn tell_progress(work: &Work, lines: &mpsc::Sender<String>) {
    loop {
        tokio::select! {
            () = lines.closed() => return,
            () = tokio::time::sleep(TELL_EVERY) => {}
        }
        let moment = work.progress.moment();
        // Rows have priority; a reader that is busy with them needs no progress reports.
        if !moment.phase.is_empty()
            && let Ok(place) = lines.try_reserve()
            && let Ok(text) = serde_json::to_string(&Line::<()>::Progress(moment))
        {
            place.send(text + "\n");
        }
    }
}

/// Begins to answer the question with this name and these parameters.
pub type Ask = fn(Value, &Work) -> Result<mpsc::Receiver<String>, String>;

/// Reads the parameters of a question and begins to answer it.
pub(crate) fn read<Q: Question>(parameters: Value, work: &Work) -> Result<mpsc::Receiver<String>, String> {
    let question: Q = serde_json::from_value(parameters).map_err(|error| format!("parameters: {error}"))?;
    question.check()?;
    Ok(ask(question, work))
}
