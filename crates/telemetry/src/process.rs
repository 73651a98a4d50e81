//! The processor time that this process uses.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

/// The processor time of the process so far, in user and system mode, in seconds.
pub fn cpu_seconds() -> f64 {
    // The call fails only for an unknown kind of usage.
    getrusage(UsageWho::RUSAGE_SELF)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_the_process_grows() {
        let before = cpu_seconds();
        let mut sum = 0_u64;
        while cpu_seconds() <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
