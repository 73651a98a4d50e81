//! Test vectors from KairosDB, and damaged bytes.

use proptest::prelude::*;

use super::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

/// `Temperature` of the city Antalya, 33 at 1501672887988.
fn antalya(kind: &str) -> RowKey {
    RowKey {
        metric: "Temperature".to_owned(),
        row_time_ms: 1_500_508_800_000,
        kind: kind.to_owned(),
        tags: vec![("city".to_owned(), "Antalya".to_owned())],
    }
}

#[test]
fn row_keys() {
    for (bytes, kind) in [
        (
            "54656d7065726174757265000000015d5d4b4400000b6b6169726f735f6c6f6e67636974793d416e74616c79613a",
            "kairos_long",
        ),
        (
            "54656d7065726174757265000000015d5d4b4400000d6b6169726f735f646f75626c65636974793d416e74616c79613a",
            "kairos_double",
        ),
        ("54656d7065726174757265000000015d5d4b4400636974793d416e74616c79613a", "kairos_legacy"),
    ] {
        assert_eq!(RowKey::read(&hex(bytes)), Ok(antalya(kind)));
        assert_eq!(antalya(kind).bytes(), hex(bytes));
    }
    let tags = [("a:b", "c=d"), ("z", "x:y")].map(|(tag, value)| (tag.to_owned(), value.to_owned()));
    let key = RowKey { tags: tags.to_vec(), ..antalya("kairos_long") };
    assert!(key.bytes().ends_with(b"a::b=c==d:z=x=:y:"));
    assert_eq!(RowKey::read(&key.bytes()), Ok(key));
    // Java sorts a letter beyond 16 bits before U+FF5E.
    let tags = [("\u{ff5e}", "1"), ("\u{1d11e}", "2")].map(|(tag, value)| (tag.to_owned(), value.to_owned()));
    let key = RowKey { tags: tags.to_vec(), ..antalya("kairos_long") };
    assert!(key.bytes().ends_with("\u{1d11e}=2:\u{ff5e}=1:".as_bytes()));
}

#[test]
fn a_tag_has_one_value() {
    let tags = [("a", "1"), ("b", "2"), ("a", "3")].map(|(tag, value)| (tag.to_owned(), value.to_owned()));
    let key = RowKey { tags: tags.to_vec(), ..antalya("kairos_long") };
    let refused = key.read_cells(TimeUnit::Legacy, std::iter::empty(), &mut Entry::default());
    assert!(refused.unwrap_err().contains("two values"));
}

#[test]
fn damaged_row_keys() {
    for (bytes, why) in [
        (&b"metric"[..], "it has no end of the metric"),
        (b"m\0\0\0\0", "it has no row time"),
        (b"m\0\0\0\0\0\0\0\0\0\0", "it has no type"),
        (b"m\0\0\0\0\0\0\0\0\0\0\x0blong", "its type is cut off"),
        (b"m\0\0\0\0\0\0\0\0\0a=b", "its tags are cut off"),
        (b"m\0\0\0\0\0\0\0\0\0a", "its tags are cut off"),
        (b"\xff\0\0\0\0\0\0\0\0\0a=b:", "it is not UTF-8"),
    ] {
        assert_eq!(RowKey::read(bytes), Err(why));
    }
}

/// What one cell is read as.
fn read(kind: &str, unit: TimeUnit, column: u32, value: &str) -> Option<(i64, f64)> {
    let mut entry = Entry::default();
    let value = hex(value);
    let cell = Cell { column, value: &value, has_ttl: false };
    antalya(kind).read_cells(unit, [cell].into_iter(), &mut entry).unwrap();
    assert_eq!(entry.name, "Temperature;city=Antalya");
    entry.points.first().map(|point| (point.time_ms, point.value))
}

#[test]
fn column_names() {
    let time = 1_501_672_887_988;
    assert_eq!(read("kairos_long", TimeUnit::Legacy, 0x8ac5_2568, "42"), Some((time, 33.0)));
    assert_eq!(read("kairos_long", TimeUnit::Milliseconds, 0x4562_92b4, "42"), Some((time, 33.0)));
    assert_eq!(read("kairos_long", TimeUnit::Seconds, 0x0011_c337, "42"), Some((time - 988, 33.0)));
    // The last column of a row takes more than 31 bits.
    let last = 1_814_399_999;
    let read = read("kairos_double", TimeUnit::Legacy, last << 1, "4040800000000000");
    assert_eq!(read, Some((1_500_508_800_000 + i64::from(last), 33.0)));
}

#[test]
fn values() {
    for (bytes, value) in [
        ("00", 0.0),
        ("01", -1.0),
        ("8001", 64.0),
        ("d804", 300.0),
        ("8080808010", 2_147_483_648.0),
        ("feffffffffffffffff01", 9_223_372_036_854_775_807.0),
        ("ffffffffffffffffff01", -9_223_372_036_854_775_808.0),
    ] {
        let read = read("kairos_long", TimeUnit::Milliseconds, 0, bytes);
        assert_eq!(read.map(|(_, value)| value), Some(value), "{bytes}");
    }
    for (bytes, low_bit, value) in [
        ("", 0, 0.0),
        ("21", 0, 33.0),
        ("0100", 0, 256.0),
        ("fffffffffffffffe", 0, -2.0),
        ("0142040000", 1, 33.0),
        ("024040800000000000", 1, 33.0),
    ] {
        let read = read("kairos_legacy", TimeUnit::Legacy, 2000 + low_bit, bytes);
        assert_eq!(read, Some((1_500_508_801_000, value)), "{bytes}");
    }
    for (kind, low_bit, bytes) in [
        ("kairos_long", 0, ""),
        ("kairos_long", 0, "80"),
        ("kairos_long", 0, "0000"),
        ("kairos_long", 0, "ffffffffffffffffffff01"),
        ("kairos_double", 0, "40"),
        ("kairos_double", 0, "7ff8000000000000"),
        ("kairos_legacy", 0, "000000000000000001"),
        ("kairos_legacy", 1, "0340"),
        ("kairos_legacy", 1, ""),
        ("kairos_string", 0, "000161"),
    ] {
        assert_eq!(read(kind, TimeUnit::Legacy, low_bit, bytes), None, "{kind} {bytes}");
    }
}

#[test]
fn what_is_not_kept_is_counted() {
    let cell = |value| Cell { column: 0, value, has_ttl: true };
    let mut entry = Entry::default();
    let cells = [cell(b"\0\x01a"), cell(b"")];
    antalya("kairos_string").read_cells(TimeUnit::Seconds, cells.into_iter(), &mut entry).unwrap();
    assert_eq!((entry.not_kept_len(), entry.not_kept["string"], entry.with_ttl), (2, 2, 0));
    let cells = [cell(b"\x02"), cell(b"\x80")];
    antalya("kairos_long").read_cells(TimeUnit::Seconds, cells.into_iter(), &mut entry).unwrap();
    assert_eq!((entry.points.len(), entry.with_ttl, entry.refused[&Reason::Value]), (1, 1, 1));
}

proptest! {
    #[test]
    fn any_tags_go_there_and_back(
        metric in "[^\0]{1,8}",
        time in any::<i64>(),
        kind in prop::sample::select(vec!["kairos_long", "kairos_complex", "kairos_legacy"]),
        tags in prop::collection::btree_map("[a:=é]{1,5}", "[b:=ü]{0,5}", 0..4),
    ) {
        let key = RowKey { metric, row_time_ms: time, kind: kind.to_owned(), tags: tags.into_iter().collect() };
        prop_assert_eq!(RowKey::read(&key.bytes()), Ok(key));
    }

    #[test]
    fn any_bytes_are_refused_or_read(key in any::<Vec<u8>>(), column in any::<u32>(), value in any::<Vec<u8>>()) {
        if let Ok(key) = RowKey::read(&key) {
            let cell = Cell { column, value: &value, has_ttl: false };
            drop(key.read_cells(TimeUnit::Legacy, [cell].into_iter(), &mut Entry::default()));
        }
    }
}
