//! The commands of the command line, one file or directory each.

mod ask;
pub mod backup;
pub mod bench;
mod cassandra;
pub mod config;
pub mod config_import;
pub mod copies;
pub mod delete;
pub mod dev;
pub mod diff;
pub mod graphite;
pub mod kairosdb;
pub mod list;
pub mod maintain;
pub mod names;
pub mod other_store;
mod own_file;
mod paths;
pub mod replay;
pub mod rescue;
pub mod restore;
pub mod rules;
pub mod schema;
pub mod serve;
pub mod show;
pub mod stats;
mod summary;
pub mod test;
pub mod traffic;
mod verb;
mod which;
pub mod whisper;

use anyhow::anyhow;
use plumbago_model::{Clock as _, Period, SystemClock};
use plumbago_render::attime::TimeZone;

use crate::config::Config;
use crate::error::{Exit, Failure};

/// The earliest time that a number on the command line can mean, in 2001. A smaller number is a period whose unit
/// was forgotten.
const EARLIEST: i64 = 1_000_000_000;

/// Parses a time on the command line: a period back from now, or seconds since the epoch.
fn since(text: &str) -> Result<i64, String> {
    let now = SystemClock.now();
    match (text.parse::<i64>(), text.parse::<Period>()) {
        (Ok(epoch), _) if (EARLIEST..=now).contains(&epoch) => Ok(epoch),
        (Ok(epoch), _) if epoch > now => Err(format!(
            "{text} is in the future; write seconds since the epoch, like {}, or a period back from now, like 30m",
            now - 1800
        )),
        (Ok(_), _) => {
            let number = text.trim_start_matches('-');
            Err(format!("{text} has no unit; write a period back from now, like {number}m or {number}h"))
        }
        (_, Ok(back)) => Ok(now.saturating_sub(i64::try_from(back.as_secs()).unwrap_or(i64::MAX)).max(0)),
        _ => {
            Err(format!("{text:?} is neither a period back from now, like 30m, nor seconds since the epoch"))
        }
    }
}

/// Parses a point in time on the command line, past or future: seconds since the epoch, a period back from now, an
/// ISO date with or without a time, or Graphite's notation. Times without a zone are in UTC.
fn moment(text: &str) -> Result<i64, String> {
    if text.trim().is_empty() {
        return Err("it is empty; write a time like 2024-01-15T10:30, 2h or an epoch".to_owned());
    }
    let zoned = text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_second);
    let in_utc = || text.parse::<jiff::civil::DateTime>()?.to_zoned(jiff::tz::TimeZone::UTC);
    let is_iso = text.get(..5).is_some_and(|year| year.ends_with('-') && year[..4].parse::<u16>().is_ok());
    if is_iso {
        let iso = zoned.or_else(|_| in_utc().map(|time| time.timestamp().as_second()));
        return iso.map_err(|_| {
            format!(
                "{text:?} is not a date; write it like 2024-01-15, 2024-01-15T10:30 or 2024-01-15T10:30:00Z"
            )
        });
    }
    let is_date = || text.len() == 8;
    match (text.parse::<i64>(), text.parse::<Period>()) {
        (Ok(epoch), _) if epoch >= EARLIEST => Ok(epoch),
        (Ok(_), _) if !is_date() => since(text),
        (_, Ok(_)) => since(text),
        _ => plumbago_render::attime::parse(text, SystemClock.now(), &TimeZone::utc())
            .map_err(|error| error.to_string()),
    }
}

/// Refuses to work on a data directory that no daemon has used, so that a wrong path does not create an empty
/// store. `part` is the directory inside it that the command needs.
///
/// # Errors
///
/// If there is no such part.
fn expect_data(config: &Config, part: &str) -> Result<(), Failure> {
    if config.data_dir.join(part).is_dir() {
        return Ok(());
    }
    let dir = crate::config::shown_dir(&config.data_dir);
    let what = if dir.exists() { format!("has no directory {part}") } else { "does not exist".to_owned() };
    let error = anyhow!(
        "no data found: the data directory {} {what}. Nothing was created. Name the daemon's configuration \
         with \
         --config, or its directory with data_dir",
        dir.display()
    );
    Err(Failure::new(Exit::Store, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_period_or_an_epoch() {
        assert_eq!(since("1700000000"), Ok(1_700_000_000));
        let ago = SystemClock.now() - since("2h").unwrap();
        assert!((7199..7300).contains(&ago), "{ago}");
        assert_eq!(since("5").unwrap_err(), "5 has no unit; write a period back from now, like 5m or 5h");
        assert!(since("-5").unwrap_err().contains("like 5m"));
        for wrong in ["1700000000000", "99999999999"] {
            assert!(since(wrong).unwrap_err().contains("in the future"), "{wrong}");
        }
        assert!(since("lately").unwrap_err().contains("30m"));
        assert_eq!(since("300000w"), Ok(0));
    }

    #[test]
    fn a_moment_is_an_epoch_a_period_a_date_or_an_at_time() {
        let morning = 1_705_314_600;
        for text in [
            "1705314600",
            "2024-01-15T10:30",
            "2024-01-15T10:30:00Z",
            "2024-01-15T11:30:00+01:00",
            "10:30_20240115",
        ] {
            assert_eq!(moment(text), Ok(morning), "{text}");
        }
        for text in ["2024-01-15", "20240115"] {
            assert_eq!(moment(text), Ok(morning - 37_800), "{text}");
        }
        for text in ["2h", "-2h"] {
            let ago = SystemClock.now() - moment(text).unwrap();
            assert!((7199..7300).contains(&ago), "{text}: {ago}");
        }
        assert!(moment("99999999999").is_ok());
        for wrong in ["5", "-5", "2024-13-01", "soon", ""] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_directory_without_data_is_refused_and_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let config = Config { data_dir: directory.path().join("typo"), ..Config::default() };
        let said = expect_data(&config, "store").unwrap_err().to_string();
        assert!(said.contains("typo does not exist"), "{said}");
        assert!(!config.data_dir.exists());
        std::fs::create_dir_all(config.data_dir.join("journal")).unwrap();
        assert!(expect_data(&config, "store").unwrap_err().to_string().contains("has no directory store"));
        assert!(expect_data(&config, "journal").is_ok());
    }
}
