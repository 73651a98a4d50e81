//! A TCP connection that repeatedly reads, parses and pushes.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use super::lease::Lease;
use super::peers::Place;
use super::{READ_BYTES, Shared};
use crate::protocol::{Intake, Protocol, Step};
use crate::reject::Reject;
use crate::stats::{Closed, ListenerStats};

/// A connection with an incomplete large frame is closed if no byte arrives for this long, so that its
/// memory is released.
const LARGE_FRAME_PAUSE: Duration = Duration::from_secs(60);

/// At shutdown, bytes that the kernel has already received are still read. This ends when nothing arrives
/// for this long, or after this number of reads.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);
const DRAIN_READS: usize = 64;

thread_local! {
    /// One buffer for all connections of a worker thread. Each read is parsed before the next connection
    /// reads, so that idle connections need no buffer and busy ones have a large one.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

pub(super) struct Connection<'a, S> {
    stream: S,
    protocol: Box<dyn Protocol>,
    intake: Intake,
    idle_timeout: Option<Duration>,
    /// The permit for a batch that waits for the sink.
    permit: Option<SemaphorePermit<'a>>,
    lease: Lease<'a>,
    /// Answers that the kernel has not accepted yet. They never make the connection wait.
    answers: Vec<u8>,
    place: &'a Place,
    shared: &'a Shared,
    stats: &'a ListenerStats,
}

/// Maximum number of bytes of answers that are kept for a client that does not read. Further ones are dropped.
const ANSWERS_KEPT: usize = 64 << 10;

/// Result of a read.
enum Read {
    Chunk(Step),
    End,
    /// No permit is left: too many batches are waiting for the sink.
    NoPermit,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Connection<'a, S> {
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
        Self {
            stream,
            protocol,
            intake,
            idle_timeout,
            permit: None,
            lease,
            answers: Vec::new(),
            place,
            shared,
            stats,
        }
    }

    /// Reads until the connection ends. Returns the reason.
    pub(super) async fn run(mut self) -> Closed {
        let place = self.place;
        let mut cause = loop {
            // Only the wait for bytes may be cancelled: a chunk that has been read is always pushed.
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
        poll_fn(|cx| {
            self.write_answers(cx);
            Poll::Ready(())
        })
        .await;
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

    /// Handles the result of a read. An error is the reason why the connection ends.
    async fn take(&mut self, read: Read) -> Result<(), Closed> {
        match read {
            Read::Chunk(step) => match self.deliver(step).await {
                Step::Close => Err(Closed::Refused),
                Step::End => Err(Closed::End),
                Step::Read | Step::Again => Ok(()),
            },
            Read::End => Err(Closed::End),
            Read::NoPermit => {
                self.permit = self.shared.in_flight.acquire().await.ok();
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
            self.write_answers(cx);
            let Some(permit) = self.permit.take().or_else(|| self.shared.in_flight.try_acquire().ok()) else {
                return Poll::Ready(Ok(Read::NoPermit));
            };
            SCRATCH.with_borrow_mut(|scratch| {
                let mut buffer = ReadBuf::new(scratch);
                ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
                if buffer.filled().is_empty() {
                    return Poll::Ready(Ok(Read::End));
                }
                self.permit = Some(permit);
                Poll::Ready(Ok(Read::Chunk(self.parse(buffer.filled()))))
            })
        })
        .await
    }

    /// Writes as many answers as the kernel accepts now. If the client does not read, the rest is kept for
    /// later. If the connection is broken, all answers are dropped.
    fn write_answers(&mut self, cx: &mut Context<'_>) {
        while !self.answers.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.answers) {
                Poll::Ready(Ok(written)) if written > 0 => drop(self.answers.drain(..written)),
                Poll::Ready(_) => self.answers = Vec::new(),
                Poll::Pending => return,
            }
            if self.answers.is_empty() {
                // An encrypted stream may hold bytes back until it is flushed.
                let _ = Pin::new(&mut self.stream).poll_flush(cx);
            }
        }
    }

    fn parse(&mut self, chunk: &[u8]) -> Step {
        let mut intake = Intake::for_bytes(chunk.len());
        intake.tally.origin = self.intake.tally.origin;
        let relabel = self.shared.rules.current();
        let step = self.protocol.feed(chunk, &self.shared.context(&relabel), &mut intake);
        self.intake = intake;
        self.count(chunk.len());
        if self.answers.len() < ANSWERS_KEPT {
            self.answers.append(&mut self.intake.answers);
        }
        self.shared.stats.note(std::mem::take(&mut self.intake.losses));
        self.place.active(self.shared.clock.now_ms());
        step
    }

    /// Pushes the parsed points, parses and pushes the rest of the chunk, then adjusts the lease to the
    /// memory of an incomplete message.
    async fn deliver(&mut self, mut step: Step) -> Step {
        loop {
            let points = std::mem::take(&mut self.intake.points);
            self.shared.push(points, self.stats).await;
            if step != Step::Again {
                break;
            }
            // A message that makes no points, such as a long line of a compressed stream, must not keep other
            // connections waiting.
            tokio::task::yield_now().await;
            let relabel = self.shared.rules.current();
            step = self.protocol.again(&self.shared.context(&relabel), &mut self.intake);
            drop(relabel);
            self.count(0);
        }
        self.permit = None;
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
