//! The figures H1 to H19: their numbers, what they measure and their targets.

/// What is known about a figure before it is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) number: u8,
    pub(super) what: &'static str,
    pub(super) target: &'static str,
    /// Why the figure is not measured; empty if it is.
    pub(super) absent: &'static str,
}

const fn entry(number: u8, what: &'static str, target: &'static str) -> Entry {
    Entry { number, what, target, absent: "" }
}

const fn absent(number: u8, what: &'static str, target: &'static str, absent: &'static str) -> Entry {
    Entry { number, what, target, absent }
}

/// Why the figures of Cassandra's tables are missing.
const OF_CASSANDRA: &str = "about Cassandra's tables; the embedded store has none";

/// All figures, by number.
pub(super) const ALL: [Entry; 19] = [
    entry(
        1,
        "search for one name at depths of 3 to 70 components",
        "flat latency (63 at most twice 3); deeper than 63 found or refused and counted",
    ),
    entry(
        2,
        "six globs among ever more names",
        "no knee: twice the names take at most three times as long at the largest step",
    ),
    entry(
        3,
        "two tags, one of them on 1 to 1,000 times as many series",
        "time follows the smaller set: 1:1,000 at most twice 1:1",
    ),
    entry(4, "nodes visited for each name that `a.x*z.c` returns", "at most 2"),
    entry(5, "bytes of keys for each point", "at most BigGraphite's 0.012 B, at 60 s and at 1 h"),
    entry(6, "bytes for each point at 60 s, in merged blocks", "at most 1.3 B"),
    absent(7, "largest partition at 1 s", "below 1 MB", OF_CASSANDRA),
    entry(
        8,
        "names written for each three weeks of a year, for three metrics of 300,000 cities",
        "each name once: none in later periods",
    ),
    entry(9, "search for one city in three metrics", "3 series, p99 below 1 ms"),
    entry(
        10,
        "1, 2, 10 and 100 cities of one metric as targets of one request",
        "cost at most in proportion to the targets",
    ),
    entry(
        11,
        "deletion of a week of one city",
        "cost of its own series only: at most twice that without other cities",
    ),
    entry(
        12,
        "drawing a year of one series after 10, 50 and 90 % of it were deleted",
        "at most 1.2 times the time before",
    ),
    absent(13, "expiry of whole tables", "0 expired cells read", OF_CASSANDRA),
    absent(
        14,
        "the newest points without a sort",
        "descending order at least 1.5 times as fast",
        OF_CASSANDRA,
    ),
    absent(15, "altering a table", "below 1 s, whatever its size", OF_CASSANDRA),
    absent(16, "sparse columns", "within 2 % of a table of 4 columns", OF_CASSANDRA),
    entry(17, "hourly sums after a kill within the hour; one daemon, so no replicas", "every sum exact"),
    entry(18, "8 senders create the same names at once", "each name once"),
    entry(19, "directories left after 99 % of the metrics were deleted", "none left, no live one harmed"),
];

/// Reads the number of a figure, like `H8`.
///
/// # Errors
/// If there is no such figure.
pub fn parse(text: &str) -> Result<u8, String> {
    let digits = text.trim().trim_start_matches(['H', 'h']);
    let known = |number: &u8| ALL.iter().any(|entry| entry.number == *number);
    digits
        .parse()
        .ok()
        .filter(known)
        .ok_or_else(|| format!("{text:?} is not a figure; the figures are H1 to H19"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_numbered_from_one() {
        assert!(ALL.iter().zip(1..).all(|(entry, number)| entry.number == number));
        assert_eq!((parse("H8"), parse(" h19"), parse("1")), (Ok(8), Ok(19), Ok(1)));
        assert!(parse("H20").is_err() && parse("H0").is_err() && parse("").is_err());
    }
}
