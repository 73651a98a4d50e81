//! Carries out a verb: as a job of the daemon that has the data directory open, or in this process if there
//! is no such daemon.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use plumbago_bench::{Answer, Client};
use plumbago_maintenance::backup::BackupError;
use plumbago_maintenance::question::Question;
use plumbago_maintenance::runs::{RunState, RunStatus};
use plumbago_maintenance::verb::{FailureKind, Moment, Tracker, Verb, VerbError, Work};
use plumbago_telemetry::{DAMAGED_TEXT, Damage, Found, log, with_causes};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::expect_data;
use crate::config::{self, Config, Loaded, StoreKind};
use crate::error::{Exit, Failure};
use crate::held::is_held;
use crate::output::{complain, print, print_json, quoted_for_shell};
use crate::secret;
use crate::serve;

/// Pause between two requests for the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How many progress requests may fail in a row while the daemon still has the data directory open.
const LOOKS_MAX: u32 = 20;

/// The answer of a verb.
#[derive(Debug)]
pub(super) struct Outcome<T> {
    pub(super) answer: T,
    /// One line for each damaged file that is known at present.
    pub(super) damage: Vec<String>,
}

impl<T: Serialize> Outcome<T> {
    /// Prints the answer as JSON or as a text, and the damage that is known at present. `is_whole` says that
    /// nothing was skipped.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written; with exit code 5 if something was skipped or is damaged.
    pub(super) fn show(
        &self,
        json: bool,
        text: impl FnOnce(&T) -> String,
        is_whole: impl FnOnce(&T) -> bool,
    ) -> Result<(), Failure> {
        match json {
            true => print_json(&self.answer)?,
            false => print(&text(&self.answer))?,
        }
        self.damage.iter().for_each(|line| complain(line));
        if is_whole(&self.answer) && self.damage.is_empty() { Ok(()) } else { Err(Failure::said(Exit::Data)) }
    }
}

/// Loads the configuration.
///
/// # Errors
///
/// If the configuration has errors.
pub(super) fn load(file: Option<&Path>) -> Result<Loaded, Failure> {
    config::load(file).map_err(|problems| Failure::new(Exit::Config, problems))
}

/// Carries out a verb and waits for its answer. Shows the progress on a terminal. Ctrl-C cancels the verb. A
/// second Ctrl-C ends the command and leaves a daemon's job running.
///
/// # Errors
///
/// If the parameters cannot be used, the store or the daemon cannot be reached, or the verb fails or is cancelled.
pub(super) fn carry_out<V: Verb>(verb: &V, mut loaded: Loaded) -> Result<Outcome<V::Answer>, Failure> {
    verb.check().map_err(|why| Failure::new(Exit::Usage, anyhow!(why)))?;
    if is_held(&loaded.config) {
        return Daemon::of(&loaded.config)?.carry_out(verb);
    }
    if V::NEEDS_DATA {
        expect(&loaded)?;
    }
    // The directory is removed when the run has ended.
    let _scratch = scratch(verb, &mut loaded.config)?;
    at_rest(loaded, async |work| {
        let bar = Bar::new(V::NAME);
        let watched = watch(&bar, &work);
        let result = Verb::run(verb, &work).await;
        watched.abort();
        bar.end();
        Ok(result?)
    })
}

/// Makes a temporary data directory for a dry run if no daemon has used the one of the configuration, so that
/// the run leaves nothing behind.
fn scratch<V: Verb>(verb: &V, config: &mut Config) -> Result<Option<TempDir>, Failure> {
    if !verb.is_dry_run() || config::is_used(&config.data_dir) {
        return Ok(None);
    }
    let made = tempfile::Builder::new().prefix("plumbago-dry-run-").tempdir();
    let made =
        made.context("cannot create a temporary directory for the dry run; TMPDIR may name another place");
    let made = made.map_err(|error| Failure::new(Exit::Store, error))?;
    config.data_dir = made.path().to_owned();
    Ok(Some(made))
}

/// Refuses a data directory that no daemon has used.
fn expect(loaded: &Loaded) -> Result<(), Failure> {
    match loaded.config.store.kind {
        StoreKind::Embedded => expect_data(&loaded.config, "store"),
        _ if loaded.config.data_dir.is_dir() => Ok(()),
        _ => expect_data(&loaded.config, "spool"),
    }
}

/// Opens the stores in this process, does the work and closes them. Ctrl-C cancels it.
///
/// # Errors
///
/// If the stores cannot be opened or closed, or the work fails.
pub(super) fn at_rest<T>(
    loaded: Loaded,
    work: impl AsyncFnOnce(Work) -> Result<T, Failure>,
) -> Result<Outcome<T>, Failure> {
    let mut answer = None;
    let place = &mut answer;
    let work: serve::AtRestWork<'_> = Box::new(move |parts| {
        Box::pin(async move {
            *place = Some(work(parts).await?);
            Ok(())
        })
    });
    let damage = run_at_rest(loaded, work)?;
    let answer = answer.context("the work ended without an answer")?;
    let line = |Found { path, text }: Found| format!("{} is damaged: {text}", path.display());
    Ok(Outcome { answer, damage: damage.list().into_iter().map(line).collect() })
}

/// The part of [`at_rest`] that is the same for all work, so that it is compiled once.
fn run_at_rest(loaded: Loaded, work: serve::AtRestWork<'_>) -> Result<Damage, Failure> {
    log::init("warn");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        if loaded.config.store.kind == StoreKind::Cassandra {
            // When a server cannot be reached, the stores keep trying for a long time. The user of a command
            // should get an error soon.
            super::cassandra::connect(&loaded.config.store.cassandra).await?;
        }
        let stop = CancellationToken::new();
        let cancelled = stop.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                complain("cancelling ...");
                cancelled.cancel();
            }
        });
        serve::work_at_rest(loaded, Box::new(move |parts| work(parts.for_run(stop)))).await
    })
}

fn watch(bar: &Bar, work: &Work) -> tokio::task::JoinHandle<()> {
    let (bar, progress) = (bar.clone(), work.progress.clone());
    tokio::spawn(async move {
        loop {
            bar.show(&progress.moment());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    })
}

/// The failure of a verb, with its exit code.
pub(super) fn failure(kind: FailureKind, text: String) -> Failure {
    let (exit, text) = match kind {
        FailureKind::Invalid => (Exit::Usage, text),
        FailureKind::Store => (Exit::Store, text),
        FailureKind::NotFound | FailureKind::Data => (Exit::Data, text),
        FailureKind::Failed => (Exit::Internal, text),
        FailureKind::Cancelled if text.contains("cancelled") => (Exit::Internal, text),
        FailureKind::Cancelled => {
            (Exit::Internal, format!("{text}; the next run continues where this one stopped"))
        }
    };
    Failure::new(exit, anyhow!(text))
}

/// The failure of a backup, with its exit code.
pub(super) fn backup_failure(error: BackupError) -> Failure {
    VerbError::from(error).into()
}

/// Does some work on files in this process, and shows its progress. Ctrl-C cancels the work.
///
/// # Errors
///
/// If the work fails.
pub(super) fn on_files<T: Send>(
    name: &'static str,
    work: impl FnOnce(&Tracker, &CancellationToken) -> Result<T, BackupError> + Send,
) -> Result<T, Failure> {
    log::init("warn");
    let (progress, stop) = (Tracker::default(), CancellationToken::new());
    let interrupts = count_interrupts();
    let bar = Bar::new(name);
    let result = thread::scope(|scope| {
        let working = scope.spawn(|| work(&progress, &stop));
        while !working.is_finished() {
            bar.show(&progress.moment());
            if interrupts.load(Ordering::Relaxed) > 0 {
                stop.cancel();
            }
            thread::park_timeout(LOOK_EVERY / 4);
        }
        working.join()
    });
    bar.end();
    let result = result.map_err(|_| Failure::new(Exit::Internal, anyhow!("{name} failed unexpectedly")))?;
    Ok(result.map_err(VerbError::from)?)
}

impl From<VerbError> for Failure {
    fn from(error: VerbError) -> Self {
        failure(error.kind(), error.text())
    }
}

/// The daemon that has a data directory open.
pub(super) struct Daemon<'a> {
    config: &'a Config,
    client: Client,
}

impl<'a> Daemon<'a> {
    /// The daemon of this configuration. No request is sent yet.
    ///
    /// # Errors
    ///
    /// If the secret of the data directory cannot be read.
    pub(super) fn of(config: &'a Config) -> Result<Self, Failure> {
        let hint =
            || format!("a daemon uses {}, but its admin port cannot be used", config.data_dir.display());
        let token = secret::for_requests(config).with_context(hint);
        let token = token.map_err(|error| Failure::new(Exit::Store, error))?;
        Ok(Self { config, client: Client::new(&config.admin.listen).with_token(&token) })
    }

    /// The failure of a request to the daemon, with the data directory that the daemon uses.
    fn failed(&self, error: anyhow::Error) -> Failure {
        let hint =
            format!("a daemon uses {}, but its admin port cannot be used", self.config.data_dir.display());
        Failure::new(Exit::Store, error.context(hint))
    }

    /// Makes the daemon carry out a verb.
    ///
    /// # Errors
    ///
    /// As [`carry_out`].
    pub(super) fn carry_out<V: Verb>(&self, verb: &V) -> Result<Outcome<V::Answer>, Failure> {
        let parameters = serde_json::to_string(verb).map_err(anyhow::Error::from)?;
        let path = format!("/admin/jobs?job={}", V::NAME);
        let started: RunStatus = self.post(&path, &parameters)?;
        let ended = self.follow(V::NAME, &started.id)?;
        match (ended.state, ended.result) {
            (RunState::Done, Some(result)) => {
                let answer = serde_json::from_value(result).context("cannot read the job's result")?;
                Ok(Outcome { answer, damage: self.damage()? })
            }
            _ => Err(failure(ended.failure.unwrap_or(FailureKind::Failed), ended.error.unwrap_or_default())),
        }
    }

    /// Asks the daemon a question and passes the lines of the answer to `each`, until that returns `false`.
    pub(super) fn ask<Q: Question>(
        &self,
        question: &Q,
        each: &mut dyn FnMut(&str) -> bool,
    ) -> Result<(), Failure> {
        let parameters = serde_json::to_string(question).map_err(anyhow::Error::from)?;
        let path = format!("/admin/questions?name={}", Q::NAME);
        let answer = self.client.post_for_lines(&path, &parameters, each);
        let answer = answer.map_err(|error| self.failed(error.into()))?;
        self.accepted(answer).map(|_| ())
    }

    /// The text of an answer; an answer with an error status is an error.
    fn accepted(&self, answer: Answer) -> Result<String, Failure> {
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        match answer.status {
            200 => Ok(text),
            400 => Err(Failure::new(Exit::Usage, anyhow!("{}", text.trim()))),
            status => Err(self.failed(anyhow!("the daemon answered {status}: {}", text.trim()))),
        }
    }

    /// Posts a JSON text and reads the JSON answer.
    fn post<T: DeserializeOwned>(&self, path: &str, json: &str) -> Result<T, Failure> {
        let answer = self.client.post_json(path, json).map_err(|error| self.failed(error.into()))?;
        let text = String::from_utf8_lossy(&answer.body);
        match answer.status {
            200 => {
                serde_json::from_str(&text).context("cannot read the daemon's answer").map_err(Failure::from)
            }
            400 => Err(Failure::new(Exit::Usage, anyhow!("{}", text.trim()))),
            status => Err(self.failed(anyhow!("the daemon answered {status}: {}", text.trim()))),
        }
    }

    /// Waits until a job has ended, and shows its progress.
    fn follow(&self, verb: &'static str, id: &str) -> Result<RunStatus, Failure> {
        let bar = Bar::new(verb);
        let interrupts = count_interrupts();
        let (mut failures, mut is_cancelled) = (0, false);
        loop {
            match self.look(id) {
                Ok(Some(status)) if status.state.is_over() => {
                    bar.end();
                    return Ok(status);
                }
                Ok(Some(status)) => {
                    failures = 0;
                    bar.show(&status.moment);
                }
                Ok(None) => return Err(self.died(verb, "the daemon was restarted")),
                Err(error) => {
                    failures += 1;
                    if failures > LOOKS_MAX || !is_held(self.config) {
                        return Err(self.died(verb, &with_causes(&*error)));
                    }
                }
            }
            match interrupts.load(Ordering::Relaxed) {
                0 => {}
                1 if !is_cancelled => {
                    is_cancelled = true;
                    complain(&format!(
                        "cancelling the job {id} of the daemon; press Ctrl-C again to leave at once"
                    ));
                    let _: Value = self.post(&format!("/admin/jobs/{id}/cancel"), "")?;
                }
                1 => {}
                _ => {
                    return Err(Failure::new(
                        Exit::Internal,
                        anyhow!("stopped waiting; the daemon is still cancelling the job {id}"),
                    ));
                }
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Asks for the state of a job; `None` if the daemon does not know the job.
    fn look(&self, id: &str) -> anyhow::Result<Option<RunStatus>> {
        let answer = self.client.get(&format!("/admin/jobs/{id}"))?;
        match answer.status {
            200 => Ok(Some(serde_json::from_slice(&answer.body)?)),
            404 => Ok(None),
            status => anyhow::bail!("the daemon answered {status}"),
        }
    }

    /// The error for a daemon that died during a command: what happened, and which command to repeat.
    fn died(&self, verb: &str, why: &str) -> Failure {
        let words = std::env::args_os().skip(1);
        let command: Vec<String> = words.map(|word| for_shell(&word.to_string_lossy())).collect();
        let error = anyhow!(
            "the daemon that uses {} ended while its job {verb} was running ({why}). The work that the job had \
             done is kept. \
             Run the same command again: plumbago {}",
            self.config.data_dir.display(),
            command.join(" ")
        );
        Failure::new(Exit::Store, error)
    }

    /// The damaged files that the daemon reports.
    fn damage(&self) -> Result<Vec<String>, Failure> {
        let answer = self.client.get("/readyz").map_err(|error| self.failed(error.into()))?;
        let ready: Value = serde_json::from_slice(&answer.body).context("cannot read /readyz")?;
        let warnings = ready["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str);
        Ok(warnings.filter(|warning| warning.starts_with(DAMAGED_TEXT)).map(str::to_owned).collect())
    }
}

/// A word of a command line in the notation of a shell.
fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => quoted_for_shell(word),
    }
}

/// Counts Ctrl-C from now on.
fn count_interrupts() -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
    });
    count
}

/// The progress of a verb. It shows nothing if standard error is not a terminal.
#[derive(Clone)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new(verb: &'static str) -> Self {
        let bar = ProgressBar::new_spinner().with_prefix(verb);
        bar.enable_steady_tick(LOOK_EVERY);
        Self(bar)
    }

    pub(super) fn show(&self, moment: &Moment) {
        let Moment { phase, done, total, rate, note } = moment;
        let template = match total {
            Some(_) => "{spinner} {prefix}: {wide_bar} {msg}  {elapsed}, {eta} left",
            None => "{spinner} {prefix}: {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
        if let Some(total) = total {
            self.0.set_length(*total);
        }
        self.0.set_position(*done);
        let of = total.map_or_else(String::new, |total| format!(" of {total}"));
        let note = if note.is_empty() { String::new() } else { format!(", {note}") };
        self.0.set_message(format!("{phase} {done}{of} ({rate:.0}/s){note}"));
    }

    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}
