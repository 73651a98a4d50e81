//! The list of jobs: the runs of verbs that were requested from this process. Some are running, some are
//! waiting, and the most recently ended ones are remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::run_error::OPEN_MAX;
use crate::verb::{AnyVerb, FailureKind, Moment, Tracker, VerbError, Work};
use crate::{questions, verbs};

pub use crate::run_error::RunError;

/// Number of runs at the same time; further ones wait.
const AT_ONCE: usize = 2;
/// Largest number of ended runs that are remembered.
const ENDED_MAX: usize = 100;
/// Parameters that take more bytes than this are not repeated in the list.
const PARAMETERS_BYTES_MAX: usize = 2000;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// The run waits for others to end.
    Waiting,
    /// The run is working.
    Running,
    /// The run finished.
    Done,
    /// The run ended early.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl RunState {
    /// Whether the run has ended.
    pub fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// A run, as the list shows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunStatus {
    /// The id, which no run of another process has.
    pub id: String,
    /// The name of the verb.
    pub job: String,
    /// The parameters of the verb, as JSON.
    pub parameters: Value,
    /// The state of the run.
    pub state: RunState,
    /// The current action of the run.
    #[serde(flatten)]
    pub moment: Moment,
    /// When the run was requested, in seconds since the epoch.
    pub asked_on: i64,
    /// When the run ended, in seconds since the epoch; `None` before that.
    pub ended_on: Option<i64>,
    /// The answer of a run that finished.
    pub result: Option<Value>,
    /// Why it ended early.
    pub error: Option<String>,
    /// The kind of that error.
    pub failure: Option<FailureKind>,
}

/// The list of jobs. Clones share the same list.
#[derive(Debug, Clone)]
pub struct Runs(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    work: Work,
    /// A number that identifies this process, so that the ids of different processes differ.
    process: u32,
    turns: Arc<Semaphore>,
    stop: CancellationToken,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    runs: VecDeque<Run>,
    last: u64,
}

#[derive(Debug)]
struct Run {
    status: RunStatus,
    progress: Tracker,
    stop: CancellationToken,
}

impl Run {
    fn status(&self) -> RunStatus {
        // The progress of a run that has ended stays as it was at the end.
        match self.status.state.is_over() {
            true => self.status.clone(),
            false => RunStatus { moment: self.progress.moment(), ..self.status.clone() },
        }
    }
}

impl Runs {
    /// An empty list. All its runs end when `stop` is cancelled.
    pub fn new(work: Work, stop: CancellationToken) -> Self {
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        Self(Arc::new(Inner { work, process: rand::random(), turns, stop, list: Mutex::default() }))
    }

    /// Starts a verb, or queues it. Returns the run.
    ///
    /// # Errors
    ///
    /// If there is no such verb, its parameters are not valid, or too many runs have not ended.
    pub fn start(&self, job: &str, parameters: Value) -> Result<RunStatus, RunError> {
        let verb = verbs::verb(job, parameters)?;
        let (status, work) = {
            let mut list = self.lock();
            if list.runs.iter().filter(|run| !run.status.state.is_over()).count() >= OPEN_MAX {
                return Err(RunError::TooMany);
            }
            list.last += 1;
            let id = format!("{:08x}-{}", self.0.process, list.last);
            let stop = self.0.stop.child_token();
            let work = self.0.work.for_run(stop.clone());
            let status = self.first_status(id, &*verb);
            list.runs.push_back(Run { status: status.clone(), progress: work.progress.clone(), stop });
            (status, work)
        };
        tokio::spawn(self.clone().carry_out(status.id.clone(), verb, work));
        Ok(status)
    }

    fn first_status(&self, id: String, verb: &dyn AnyVerb) -> RunStatus {
        let parameters = verb.parameters();
        let bytes = parameters.to_string().len();
        RunStatus {
            id,
            job: verb.name().to_owned(),
            parameters: if bytes > PARAMETERS_BYTES_MAX { json!({ "bytes": bytes }) } else { parameters },
            state: RunState::Waiting,
            moment: Moment::default(),
            asked_on: self.0.work.context.clock.now(),
            ended_on: None,
            result: None,
            error: None,
            failure: None,
        }
    }

    /// All runs, newest last.
    pub fn list(&self) -> Vec<RunStatus> {
        self.lock().runs.iter().map(Run::status).collect()
    }

    /// The run with this id.
    ///
    /// # Errors
    /// If there is none.
    pub fn get(&self, id: &str) -> Result<RunStatus, RunError> {
        let list = self.lock();
        let run = list.runs.iter().find(|run| run.status.id == id);
        run.map(Run::status).ok_or_else(|| RunError::UnknownId(id.to_owned()))
    }

    /// Begins to answer a question. Returns the lines of the answer, each a [`crate::question::Line`] in JSON.
    ///
    /// # Errors
    /// If there is no such question, or its parameters cannot be used.
    pub fn ask(&self, question: &str, parameters: Value) -> Result<mpsc::Receiver<String>, RunError> {
        questions::ask(question, parameters, &self.0.work.for_run(self.0.stop.child_token()))
    }

    /// Requests that a run end, and returns it. It may take a moment to end. A run that has ended is not
    /// changed.
    ///
    /// # Errors
    /// If there is none with this id.
    pub fn cancel(&self, id: &str) -> Result<RunStatus, RunError> {
        if let Some(run) = self.lock().runs.iter().find(|run| run.status.id == id) {
            run.stop.cancel();
        }
        self.get(id)
    }

    async fn carry_out(self, id: String, verb: Box<dyn AnyVerb>, work: Work) {
        let turns = Arc::clone(&self.0.turns);
        let result = match work.stop().run_until_cancelled(turns.acquire()).await {
            None => Err(VerbError::Cancelled),
            Some(_turn) => {
                self.change(&id, |status| status.state = RunState::Running);
                tracing::info!(job = verb.name(), id, "a job was started on request");
                // In a separate task, so that a panic ends the run and is reported.
                let running = tokio::spawn(async move { verb.run(&work).await });
                running.await.unwrap_or_else(|error| {
                    Err(VerbError::Failed(format!("the job ended unexpectedly: {error}")))
                })
            }
        };
        self.end(&id, result);
    }

    fn end(&self, id: &str, result: Result<Value, VerbError>) {
        match &result {
            Ok(_) => tracing::info!(id, "the job finished"),
            Err(error) => tracing::warn!(id, error = error.text(), "the job ended early"),
        }
        let now = self.0.work.context.clock.now();
        self.change(id, |status| {
            status.ended_on = Some(now);
            match result {
                Ok(answer) => (status.state, status.result) = (RunState::Done, Some(answer)),
                Err(error) => {
                    let is_cancelled = error.kind() == FailureKind::Cancelled;
                    status.state = if is_cancelled { RunState::Cancelled } else { RunState::Failed };
                    (status.error, status.failure) = (Some(error.text()), Some(error.kind()));
                }
            }
        });
        let mut list = self.lock();
        while list.runs.iter().filter(|run| run.status.state.is_over()).count() > ENDED_MAX {
            let Some(oldest) = list.runs.iter().position(|run| run.status.state.is_over()) else { return };
            list.runs.remove(oldest);
        }
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut RunStatus)) {
        if let Some(run) = self.lock().runs.iter_mut().find(|run| run.status.id == id) {
            run.status.moment = run.progress.moment();
            change(&mut run.status);
        }
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
