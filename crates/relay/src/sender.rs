//! The task that sends a destination's queue.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plumbago_tls::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::connection::{self, Stream};
use crate::destination::Destination;
use crate::frame::Points;
use crate::queue::{Chunk, Next, Position, Queue};
use crate::stats::Stats;
use crate::wire;

/// Number of bytes of the queue that are read at once.
const READ_BYTES: usize = 256 << 10;
/// A connection is closed if it accepts no bytes for this long.
const STALLED_MAX: Duration = Duration::from_secs(30);
/// Pauses between two attempts to connect.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// How often the progress is saved, and a mark is added to [`Marks`].
const SAVE_EVERY: Duration = Duration::from_secs(1);

/// Sends the queue of one destination.
pub(crate) struct Sender {
    pub(crate) destination: Destination,
    pub(crate) tls: Option<Client>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) stats: Stats,
    pub(crate) status: Arc<Status>,
    /// After a connection breaks, everything that was sent within this time before the break is sent again.
    pub(crate) resend: Duration,
    /// Set when nothing more will be appended: the sender ends when the queue is empty.
    pub(crate) is_last: CancellationToken,
    /// Ends the sender at once.
    pub(crate) stop: CancellationToken,
}

/// The state of a sender.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// Why the destination accepts no points, and since when.
    trouble: Mutex<Option<(Instant, String)>>,
}

impl Status {
    /// Why the destination accepts no points, and for how long. `None` if it accepts them.
    pub(crate) fn trouble(&self) -> Option<(Duration, String)> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }

    fn fail(&self, why: String) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let since = trouble.take().map_or_else(Instant::now, |(since, _)| since);
        *trouble = Some((since, why));
    }

    fn recover(&self) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Recently reached positions in the queue, each with the time.
struct Marks {
    places: VecDeque<(Instant, Position)>,
    resend: Duration,
}

impl Marks {
    /// Notes that everything before `place` has now been written to the connection.
    fn reach(&mut self, place: Position) {
        let now = Instant::now();
        if self.places.back().is_none_or(|(time, _)| now - *time >= SAVE_EVERY) {
            self.places.push_back((now, place));
        }
        while self.places.get(1).is_some_and(|(time, _)| now - *time >= self.resend) {
            self.places.pop_front();
        }
    }

    /// The position from which points are sent again after a break. `None` if the connection is younger than
    /// the resend time. In that case the position does not change.
    fn keep(&self) -> Option<Position> {
        let (time, place) = self.places.front()?;
        (time.elapsed() >= self.resend).then_some(*place)
    }
}

impl Sender {
    /// Runs until it is stopped.
    pub(crate) async fn run(self) {
        let mut pause = PAUSE_MIN;
        while !self.stop.is_cancelled() && !self.is_done() {
            let connected =
                self.stop.run_until_cancelled(connection::connect(&self.destination, self.tls.as_ref()));
            let error = match connected.await {
                None => return,
                Some(Err(error)) => error,
                Some(Ok(stream)) => {
                    self.stats.connections.add(1);
                    self.set_connected(true);
                    let before = self.stats.sent.get();
                    let ended = self.stop.run_until_cancelled(self.send(stream)).await;
                    if self.stats.sent.get() > before {
                        pause = PAUSE_MIN;
                    }
                    match ended {
                        Some(Err(error)) => error,
                        Some(Ok(())) | None => break,
                    }
                }
            };
            self.set_connected(false);
            self.status.fail(error.to_string());
            let _ = self.stop.run_until_cancelled(sleep(pause)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        self.set_connected(false);
        self.save(self.queue.kept());
    }

    fn set_connected(&self, is_connected: bool) {
        self.stats.connected.set(f64::from(u8::from(is_connected)));
    }

    fn is_done(&self) -> bool {
        self.is_last.is_cancelled() && self.queue.size().waiting == 0
    }

    /// Sends until the connection breaks, or the queue is empty and closed.
    async fn send(&self, stream: Box<dyn Stream>) -> io::Result<()> {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let mut marks = Marks { places: VecDeque::new(), resend: self.resend };
        let (mut at, mut out) = (self.queue.kept(), Vec::new());
        let mut saved = Instant::now();
        loop {
            // Reads of at most a few hundred KiB, usually from the page cache.
            match tokio::task::block_in_place(|| self.queue.read(at, READ_BYTES))? {
                Next::Chunk(chunk) => {
                    self.write(&chunk, &mut out, &mut writing).await?;
                    at = self.note_sent(&chunk, at);
                }
                Next::Damaged(place) => at = self.skip(place),
                Next::End if self.is_done() => {
                    writing.flush().await?;
                    writing.shutdown().await?;
                    return Ok(());
                }
                Next::End => {
                    self.status.recover();
                    self.wait(&mut reading).await?;
                }
            }
            marks.reach(at);
            if saved.elapsed() >= SAVE_EVERY {
                self.save(marks.keep().unwrap_or(self.queue.kept()));
                saved = Instant::now();
            }
        }
    }

    /// Waits until there may be more to send. A server that closes the connection meanwhile is an error.
    async fn wait(&self, stream: &mut (impl AsyncReadExt + Unpin)) -> io::Result<()> {
        let mut answer = [0; 1024];
        tokio::select! {
            () = self.queue.more() => Ok(()),
            () = self.is_last.cancelled() => Ok(()),
            () = sleep(SAVE_EVERY) => Ok(()),
            // No carbon server answers, so bytes other than the end have no meaning.
            read = stream.read(&mut answer) => match read? {
                0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                _ => Ok(()),
            },
        }
    }

    async fn write(
        &self,
        chunk: &Chunk,
        out: &mut Vec<u8>,
        stream: &mut (impl AsyncWriteExt + Unpin),
    ) -> io::Result<()> {
        out.clear();
        for frame in &chunk.frames {
            wire::write(self.destination.protocol, Points(&chunk.bytes[frame.points.clone()]), out);
        }
        let mut rest = &out[..];
        while !rest.is_empty() {
            let written = timeout(STALLED_MAX, stream.write(rest)).await.unwrap_or_else(|_| {
                Err(io::Error::new(io::ErrorKind::TimedOut, "it has accepted nothing for 30 s"))
            })?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            rest = &rest[written..];
        }
        timeout(STALLED_MAX, stream.flush()).await?
    }

    /// Counts the sent points. Returns the position after them.
    fn note_sent(&self, chunk: &Chunk, mut at: Position) -> Position {
        self.status.recover();
        for frame in &chunk.frames {
            let is_first_time = self.queue.set_sent(frame);
            let counter = if is_first_time { &self.stats.sent } else { &self.stats.resent };
            counter.add(u64::from(frame.header.points));
            at = frame.end;
        }
        at
    }

    fn skip(&self, place: Position) -> Position {
        let (next, lost) = self.queue.skip(place);
        if lost > 0 {
            self.stats.dropped_damaged.add(lost);
            tracing::error!(
                destination = self.destination.address(),
                points = lost,
                "a file of the relay in {} is damaged; these points are not sent to this destination",
                self.queue.dir().display()
            );
        }
        next
    }

    fn save(&self, keep: Position) {
        if let Err(error) = tokio::task::block_in_place(|| self.queue.keep_from(keep)) {
            static FAILED: plumbago_telemetry::Throttle = plumbago_telemetry::Throttle::new(60_000);
            if let Some(suppressed) = FAILED.pass_now() {
                tracing::warn!(
                    destination = self.destination.address(),
                    suppressed,
                    "cannot save the progress of the relay in {}: {error}; after a restart points are sent again",
                    self.queue.dir().display()
                );
            }
        }
    }
}
