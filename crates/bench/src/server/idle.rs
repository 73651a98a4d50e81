//! Waits until a server has finished the work that it received.

use std::collections::VecDeque;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::metrics::{Metrics, RECEIVED};
use super::process::{self, cpu_seconds};
use crate::{BenchError, Client};

/// A server is idle once it has used less than [`QUIET_SHARE`] of a core for this long.
const QUIET: Duration = Duration::from_secs(3);
const QUIET_SHARE: f64 = 0.1;
const POLL: Duration = Duration::from_millis(200);
/// Ends a wait for a server that never becomes idle.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// How a server can be observed. Both ways are optional; figures that need a missing way are left out.
#[derive(Debug)]
pub struct Server {
    /// Process id, if the server runs on this machine.
    pub pid: Option<u32>,
    /// The client of the admin port, if the server has one like Plumbago's.
    pub admin: Option<Client>,
}

/// When the server became idle.
#[derive(Debug, Clone, Copy)]
pub struct Idle {
    /// The start of the quiet period.
    pub since: Instant,
    /// Processor seconds that the server had used by then; NaN if its process id is unknown.
    pub cpu_seconds: f64,
}

/// One observation of a server.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    cpu_seconds: f64,
    received: Option<f64>,
}

impl Server {
    /// The daemon's metrics; `None` if there is no admin port or it does not answer.
    pub fn metrics(&self) -> Option<Metrics> {
        Metrics::fetch(self.admin.as_ref()?).ok()
    }

    /// Processor seconds that the server has used so far; NaN if its process id is unknown.
    pub fn cpu_seconds(&self) -> f64 {
        self.pid.and_then(|pid| cpu_seconds(pid).ok()).unwrap_or(f64::NAN)
    }

    pub(crate) fn memory(&self) -> Option<process::Memory> {
        process::memory(self.pid?).ok()
    }

    /// Waits until the server uses almost no processor time. If its process id is unknown, waits until the
    /// number of received points stops growing.
    ///
    /// # Errors
    /// [`BenchError::Timeout`] if the server is still busy after half an hour.
    pub fn wait_until_idle(&self) -> Result<Idle, BenchError> {
        let begun = Instant::now();
        let mut samples: VecDeque<Sample> = VecDeque::new();
        while begun.elapsed() < TIMEOUT {
            samples.push_back(self.sample());
            while samples.len() > 2 && samples[1].at.elapsed() >= QUIET {
                samples.pop_front();
            }
            if let Some(idle) = idle(&samples) {
                return Ok(idle);
            }
            sleep(POLL);
        }
        Err(BenchError::Timeout { what: "for the server to become idle", seconds: TIMEOUT.as_secs() })
    }

    fn sample(&self) -> Sample {
        let received = match self.pid {
            Some(_) => None,
            None => self.metrics().and_then(|metrics| metrics.sum(RECEIVED)),
        };
        Sample { at: Instant::now(), cpu_seconds: self.cpu_seconds(), received }
    }
}

fn idle(samples: &VecDeque<Sample>) -> Option<Idle> {
    let (first, last) = (samples.front()?, samples.back()?);
    let elapsed = last.at.duration_since(first.at);
    let used = last.cpu_seconds - first.cpu_seconds;
    let quiet = match used.is_nan() {
        true => first.received == last.received,
        false => used < QUIET_SHARE * elapsed.as_secs_f64(),
    };
    (elapsed >= QUIET && quiet).then_some(Idle { since: first.at, cpu_seconds: first.cpu_seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_after_three_seconds_of_little_work() {
        let now = Instant::now();
        let at = |seconds: u64, cpu_seconds: f64| Sample {
            at: now + Duration::from_secs(seconds),
            cpu_seconds,
            received: None,
        };
        assert!(idle(&VecDeque::from([at(0, 5.0), at(2, 5.0)])).is_none());
        assert!(idle(&VecDeque::from([at(0, 5.0), at(3, 5.5)])).is_none());
        let idle = idle(&VecDeque::from([at(0, 5.0), at(3, 5.1)])).unwrap();
        assert_eq!((idle.since, idle.cpu_seconds), (now, 5.0));
    }

    #[test]
    fn without_a_process_idle_when_nothing_more_arrives() {
        let now = Instant::now();
        let at = |seconds: u64, received: f64| Sample {
            at: now + Duration::from_secs(seconds),
            cpu_seconds: f64::NAN,
            received: Some(received),
        };
        assert!(idle(&VecDeque::from([at(0, 5.0), at(3, 6.0)])).is_none());
        assert!(idle(&VecDeque::from([at(0, 6.0), at(3, 6.0)])).is_some());
    }
}
