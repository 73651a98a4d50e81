//! One TCP connection: read, parse, push, again.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::lease::Lease;
use super::peers::Place;
use super::{READ_BYTES, Shared};
use crate::protocol::{Intake, Protocol, Step};
use crate::reject::Reject;
use crate::stats::{Closed, ListenerStats};

/// An unfinished large frame that gets no byte for so long gives its memory back.
const LARGE_FRAME_PAUSE: Duration = Duration::from_secs(60);

/// At shutdown, what the kernel already took from the sender is still read: until nothing comes for
/// this long, or for so many reads.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);
const DRAIN_READS: usize = 64;

thread_local! {
    /// One buffer for all connections of a worker thread: they are parsed before the next one reads, so
    /// that a silent connection holds no buffer, and a busy one gets a large one.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

pub(super) struct Connection<'a, S> {
    stream: S,
    protocol: Box<dyn Protocol>,
    intake: Intake,
    idle_timeout: Option<Duration>,
    /// The right to have a batch on its way to the sink.
    turn: Option<SemaphorePermit<'a>>,
    lease: Lease<'a>,
    place: &'a Place,
    shared: &'a Shared,
    stats: &'a ListenerStats,
}

/// What a read gave.
enum Read {
    Chunk(Step),
    End,
    /// Too many batches wait for the sink.
    NoTurn,
}

impl<'a, S: AsyncRead + Unpin> Connection<'a, S> {
    pub(super) fn new(
        stream: S,
        protocol: Box<dyn Protocol>,
        origin: SocketAddr,
        idle_timeout: Option<Duration>,
        place: &'a Place,
        shared: &'a Shared,
        stats: &'a ListenerStats,
    ) -> Self {
        let mut intake = Intake::default();
        intake.tally.origin = Some(origin);
        let lease = Lease::new(&shared.frame_memory);
        Self { stream, protocol, intake, idle_timeout, turn: None, lease, place, shared, stats }
    }

    /// Runs until the connection ends, and says why.
    pub(super) async fn run(mut self) -> Closed {
        let place = self.place;
        let mut cause = loop {
            // Only the wait for bytes may be cut short: a chunk that was read is pushed.
            let read = tokio::select! {
                biased;
                read = self.read_in_time() => read,
                () = place.stopped() => break place.cause(),
            };
            match read {
                Ok(read) => {
                    if let Err(cause) = self.take(read).await {
                        break cause;
                    }
                }
                Err(cause) => break cause,
            }
            if place.is_stopped() {
                break place.cause();
            }
        };
        if matches!(cause, Closed::Shutdown | Closed::Evicted) {
            cause = self.drain(cause).await;
        }
        self.protocol.finish(&mut self.intake);
        self.count(0);
        cause
    }

    async fn drain(&mut self, cause: Closed) -> Closed {
        for _ in 0..DRAIN_READS {
            let Ok(Ok(read)) = timeout(DRAIN_PAUSE, self.read()).await else { break };
            if let Err(cause) = self.take(read).await {
                return cause;
            }
        }
        cause
    }

    /// Does what a read asks for; an error says why the connection ends.
    async fn take(&mut self, read: Read) -> Result<(), Closed> {
        match read {
            Read::Chunk(step) => match self.deliver(step).await {
                Step::Close => Err(Closed::Refused),
                Step::Read | Step::Again => Ok(()),
            },
            Read::End => Err(Closed::End),
            Read::NoTurn => {
                self.turn = self.shared.in_flight.acquire().await.ok();
                Ok(())
            }
        }
    }

    async fn read_in_time(&mut self) -> Result<Read, Closed> {
        let pause = if self.lease.is_empty() { None } else { Some(LARGE_FRAME_PAUSE) };
        let limit = self.idle_timeout.into_iter().chain(pause).min();
        let read = match limit {
            None => self.read().await,
            Some(limit) => timeout(limit, self.read()).await.map_err(|_| Closed::Idle)?,
        };
        read.map_err(|_| Closed::Error)
    }

    async fn read(&mut self) -> io::Result<Read> {
        poll_fn(|cx| {
            let Some(turn) = self.turn.take().or_else(|| self.shared.in_flight.try_acquire().ok()) else {
                return Poll::Ready(Ok(Read::NoTurn));
            };
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
                if buffer.filled().is_empty() {
                    return Poll::Ready(Ok(Read::End));
                }
                self.turn = Some(turn);
                Poll::Ready(Ok(Read::Chunk(self.parse(buffer.filled()))))
            })
        })
        .await
    }

    fn parse(&mut self, chunk: &[u8]) -> Step {
        let mut intake = Intake::for_bytes(chunk.len());
        intake.tally.origin = self.intake.tally.origin;
        let relabel = self.shared.rules.current();
        let step = self.protocol.feed(chunk, &self.shared.context(&relabel), &mut intake);
        self.intake = intake;
        self.count(chunk.len());
        self.place.active(self.shared.clock.now_ms());
        step
    }

    /// Pushes what was parsed, and what is left of it; then looks at the memory that waits.
    async fn deliver(&mut self, mut step: Step) -> Step {
        loop {
            let points = std::mem::take(&mut self.intake.points);
            if !points.is_empty() {
                let count = points.len();
                if self.shared.sink.push(points).await {
                    self.stats.pushed(count);
                } else {
                    self.stats.dropped(count, self.shared.clock.now_ms());
                }
            }
            if step != Step::Again {
                break;
            }
            let relabel = self.shared.rules.current();
            step = self.protocol.again(&self.shared.context(&relabel), &mut self.intake);
            drop(relabel);
            self.count(0);
        }
        self.turn = None;
        if step == Step::Read && !self.lease.resize(self.protocol.held_bytes()).await {
            self.intake.tally.reject(Reject::Memory, b"");
            self.count(0);
            return Step::Close;
        }
        step
    }

    fn count(&mut self, bytes: usize) {
        self.stats.parsed(bytes, &mut self.intake, self.shared.clock.now_ms());
    }
}
