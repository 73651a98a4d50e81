//! The commands of the command line, one file or directory each.

pub mod bench;
pub mod config;
pub mod dev;
pub mod maintain;
pub mod replay;
pub mod schema;
pub mod serve;

use plumbago_model::{Clock as _, Period, SystemClock};

/// Parses a time on the command line: a period back from now, or seconds since the epoch.
fn since(text: &str) -> Result<i64, String> {
    if let Ok(epoch) = text.parse::<i64>() {
        return Ok(epoch);
    }
    let back: Period = text.parse().map_err(|_| {
        format!("{text:?} is neither a time back from now, like 30m, nor seconds since the epoch")
    })?;
    Ok(SystemClock.now() - back.as_secs() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_period_or_an_epoch() {
        assert_eq!(since("1700000000"), Ok(1_700_000_000));
        let ago = SystemClock.now() - since("2h").unwrap();
        assert!((7199..7300).contains(&ago), "{ago}");
        assert!(since("lately").unwrap_err().contains("30m"));
    }
}
