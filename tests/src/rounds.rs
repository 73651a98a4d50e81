//! Runs a scenario several times, each time with another seed, and reads the numbers that people choose for a run.

use std::fmt::Debug;
use std::ops::Range;
use std::str::FromStr;

/// The environment variable that sets the number of rounds of all scenarios.
pub const VARIABLE: &str = "PLUMBAGO_ROUNDS";

/// Whether `PLUMBAGO_LONG` is set. Tests then repeat a kind of fault more often, or draw several times as many cases.
pub fn is_long() -> bool {
    std::env::var_os("PLUMBAGO_LONG").is_some()
}

/// The number in an environment variable, or `None` if it is not set. Panics if it contains anything else.
pub fn number<T: FromStr<Err: Debug>>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text} is not a number: {error:?}")))
}

/// The seeds of a scenario, one for each round: `first` and the numbers after it. There are `usual` rounds
/// unless `PLUMBAGO_ROUNDS` contains another number. Panics if that is not a number above zero, because no
/// round would run.
pub fn seeds(first: u64, usual: u64) -> Range<u64> {
    let rounds = number(VARIABLE).unwrap_or(usual);
    assert!(rounds > 0, "{VARIABLE} is a number above zero");
    first..first + rounds
}

/// Runs a scenario once for each of its [`seeds`], and prints the seed first, so that a failed round can be repeated.
pub fn each(first: u64, usual: u64, mut scenario: impl FnMut(u64)) {
    for seed in seeds(first, usual) {
        println!("seed {seed}");
        scenario(seed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_has_a_seed_of_its_own() {
        let mut seen = Vec::new();
        each(61, 2, |seed| seen.push(seed));
        let rounds: u64 = number(VARIABLE).unwrap_or(2);
        assert_eq!(seen, (61..61 + rounds).collect::<Vec<u64>>());
    }
}
