use proptest::prelude::*;
use serde_json::Value;

use super::*;

const TABLE: &str = include_str!("../../testdata/times.json");

#[test]
fn times_are_read_as_graphite_web_reads_them() {
    let table: Vec<Value> = serde_json::from_str(TABLE).unwrap();
    let mut wrong = Vec::new();
    for row in &table {
        let text = row["text"].as_str().unwrap();
        if text.starts_with("12") && (text.ends_with("am") || text.ends_with("pm")) {
            continue; // twelve o'clock, below
        }
        let zone = TimeZone::named(row["zone"].as_str().unwrap()).unwrap();
        let ours = parse(text, row["now"].as_i64().unwrap(), &zone);
        if ours.as_ref().ok().copied() != row["seconds"].as_i64() {
            wrong.push(format!(
                "{text:?} {} {}: ours {ours:?}, Graphite's {}",
                row["zone"], row["now"], row["seconds"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
    assert!(table.len() > 1000);
}

#[test]
fn twelve_oclock_is_what_it_says() {
    let now = 1_705_329_296; // 2024-01-15 14:34:56
    for (text, hour, minute) in
        [("12am", 0, 0), ("12pm", 12, 0), ("12:30am", 0, 30), ("12:30pm", 12, 30), ("11pm", 23, 0)]
    {
        let seconds = parse(text, now, &TimeZone::utc()).unwrap();
        assert_eq!(seconds, 1_705_276_800 + hour * 3600 + minute * 60, "{text}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    for (text, reason) in [
        ("-1m", "m is not a unit: write min for minutes or mon for months"),
        ("-90", "a number without a unit (s, min, h, d, w, mon, y)"),
        ("-1parsec", "\"parsec\" is not a unit (s, min, h, d, w, mon, y)"),
        ("-1d-2h", "expected a number at \"-2h\""),
        ("someday", "\"someday\" is not a day"),
        ("25:00", "there is no 25:00"),
        ("02/30/24", "there is no 2024-02-30"),
        ("99999999999999", "outside of the years 1 to 9999"),
        ("now-99999999999999999y", "the amount of time is too large"),
    ] {
        assert_eq!(parse(text, 1_705_329_296, &TimeZone::utc()).unwrap_err().reason, reason, "{text}");
    }
    assert!(parse(&"1".repeat(1000), 0, &TimeZone::utc()).is_err());
}

#[test]
fn local_times_in_a_zone() {
    let rome = TimeZone::named("europe/rome").unwrap();
    let local = rome.local(1_711_893_599).unwrap();
    assert_eq!((local.date, local.time), ((2024, 3, 31), (15, 59, 59)));
    assert!(TimeZone::named("Europe/Atlantis").is_none());
    assert_eq!(TimeZone::utc().local(i64::MAX), None);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        crate::fuzzing::time(text.as_bytes());
    }

    #[test]
    fn text_like_times_is_read_or_refused(
        text in "[0-9:/_ ]{0,9}(am|pm|noon|jan|mon|today|now|/|:)?[0-9]{0,8}([+-][0-9]{0,22}(s|min|m|h|d|y)?){0,2}",
        now in -100_000_000_000_000i64..100_000_000_000_000,
    ) {
        let zone = TimeZone::named("America/New_York").unwrap();
        let _ = parse(&text, now, &zone);
    }

    #[test]
    fn offsets_add_up(days in 0i64..1000, minutes in 0i64..1000) {
        let text = format!("-{days}d{minutes}min");
        prop_assert_eq!(parse_offset(&text), Ok(-(days * 86_400 + minutes * 60)));
    }
}
