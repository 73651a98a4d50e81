//! Waiting until a server has worked off what it was sent.

use std::collections::VecDeque;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::admin::{Metrics, RECEIVED};
use super::http::Client;
use super::process::cpu_seconds;

/// A server is idle when it used less than a tenth of a core for this long.
const QUIET: Duration = Duration::from_secs(3);
const QUIET_SHARE: f64 = 0.1;
const POLL: Duration = Duration::from_millis(200);
/// Guard against a server that never rests.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What is known about the server.
#[derive(Debug)]
pub struct Server {
    /// Its process, when it is on this machine.
    pub pid: Option<u32>,
    /// Its admin port, when it has one like ours.
    pub admin: Option<Client>,
}

/// When the server was done.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// The begin of the quiet time.
    pub at: Instant,
    /// Processor seconds used until then; NaN when its process is not known.
    pub cpu_seconds: f64,
}

impl Server {
    /// The daemon's metrics; `None` when it has no admin port.
    pub fn metrics(&mut self) -> Option<Metrics> {
        Metrics::fetch(self.admin.as_mut()?).ok()
    }

    /// Processor seconds used so far; NaN when its process is not known.
    pub fn cpu(&self) -> f64 {
        self.pid.and_then(|pid| cpu_seconds(pid).ok()).unwrap_or(f64::NAN)
    }

    /// Waits until the server rests. Without a process id the counter of received points has to stand
    /// still instead.
    pub fn settle(&mut self) -> io::Result<Settled> {
        let begun = Instant::now();
        let mut history: VecDeque<(Instant, f64, Option<f64>)> = VecDeque::new();
        while begun.elapsed() < PATIENCE {
            let received = match self.pid {
                Some(_) => None,
                None => self.metrics().and_then(|metrics| metrics.sum(RECEIVED)),
            };
            history.push_back((Instant::now(), self.cpu(), received));
            while history.len() > 2 && history[1].0.elapsed() >= QUIET {
                history.pop_front();
            }
            if let Some(settled) = quiet(&history) {
                return Ok(settled);
            }
            sleep(POLL);
        }
        Err(io::Error::other("the server does not come to rest"))
    }
}

fn quiet(history: &VecDeque<(Instant, f64, Option<f64>)>) -> Option<Settled> {
    let (first, last) = (history.front()?, history.back()?);
    let elapsed = last.0.duration_since(first.0);
    let used = last.1 - first.1;
    let resting = if used.is_nan() { first.2 == last.2 } else { used < QUIET_SHARE * elapsed.as_secs_f64() };
    (elapsed >= QUIET && resting).then_some(Settled { at: first.0, cpu_seconds: first.1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_after_three_seconds_of_little_work() {
        let now = Instant::now();
        let at = |seconds: u64, cpu: f64| (now + Duration::from_secs(seconds), cpu, None);
        assert!(quiet(&VecDeque::from([at(0, 5.0), at(2, 5.0)])).is_none());
        assert!(quiet(&VecDeque::from([at(0, 5.0), at(3, 5.5)])).is_none());
        let settled = quiet(&VecDeque::from([at(0, 5.0), at(3, 5.1)])).unwrap();
        assert_eq!((settled.at, settled.cpu_seconds), (now, 5.0));
    }
}
