//! The history of series in files: the lines that KairosDB's `export` and OpenTSDB's `scan --import` write.
//!
//! A line of KairosDB is an object with the points of one storage row, a line of OpenTSDB has one point.
//! Times keep their milliseconds here, because the last point of a slot decides its value.

mod export;

use std::collections::BTreeMap;

use plumbago_model::name::NAME_BYTES_MAX;

use crate::names;
use crate::number::Number;
use crate::opentsdb::line::Lines;
use crate::point::{Reason, Tag};

/// Maximum number of types that are counted separately among values that are not kept.
const KINDS_MAX: usize = 32;

/// A point of a history.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HistoryPoint {
    /// The time, in milliseconds since the epoch.
    pub time_ms: i64,
    /// The value; finite.
    pub value: f64,
    /// Whether it was stored as a floating point number. If two points have the same millisecond, this kind
    /// wins over a whole number.
    pub is_double: bool,
}

/// Points of one series, and the counts that belong to them. Reading another line reuses the memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Entry {
    /// The name in Graphite's form.
    pub name: String,
    /// The points, in the order of the line.
    pub points: Vec<HistoryPoint>,
    /// Values that are not kept, by type. These are texts and types of plug-ins.
    pub not_kept: BTreeMap<String, u64>,
    /// Refused points, by reason.
    pub refused: BTreeMap<Reason, u64>,
    /// Whole numbers beyond 2⁵³ that are kept as the nearest double.
    pub rounded: u64,
    /// Number of points with a time to live. The time to live is not kept.
    pub with_ttl: u64,
}

impl Entry {
    /// Removes all content.
    pub fn clear(&mut self) {
        self.name.clear();
        self.points.clear();
        self.not_kept.clear();
        self.refused.clear();
        (self.rounded, self.with_ttl) = (0, 0);
    }

    /// Number of values that are not kept.
    pub fn not_kept_len(&self) -> u64 {
        self.not_kept.values().sum()
    }

    /// Appends the content of another entry of the same series. The other entry is empty afterwards.
    pub fn append(&mut self, other: &mut Self) {
        self.points.append(&mut other.points);
        for (kind, count) in std::mem::take(&mut other.not_kept) {
            *self.not_kept.entry(kind).or_default() += count;
        }
        for (reason, count) in std::mem::take(&mut other.refused) {
            *self.refused.entry(reason).or_default() += count;
        }
        self.rounded += other.rounded;
        self.with_ttl += other.with_ttl;
        other.clear();
    }

    /// Adds a point.
    pub(crate) fn add(&mut self, time_ms: i64, number: Number, is_double: bool) {
        let (value, is_rounded) = number.to_double();
        self.rounded += u64::from(is_rounded);
        match () {
            () if time_ms < 0 => self.refuse(Reason::Timestamp),
            () if !value.is_finite() => self.refuse(Reason::Nan),
            () => self.points.push(HistoryPoint { time_ms, value, is_double }),
        }
    }

    pub(crate) fn refuse(&mut self, reason: Reason) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Counts a value of a type that is not kept.
    pub(crate) fn leave_out(&mut self, kind: &str) {
        let is_known = self.not_kept.contains_key(kind);
        let kind = if is_known || self.not_kept.len() < KINDS_MAX { kind } else { "others" };
        *self.not_kept.entry(kind.to_owned()).or_default() += 1;
    }

    /// Names the series.
    ///
    /// # Errors
    /// The error says what is wrong with the name.
    pub(crate) fn set_name(&mut self, metric: &str, tags: &mut [Tag<'_>]) -> Result<(), String> {
        names::append(&mut self.name, metric, tags);
        if self.name.len() > NAME_BYTES_MAX {
            return Err("name and tags are longer than the name of a series can be".to_owned());
        }
        Ok(())
    }
}

/// Reads history lines of KairosDB and OpenTSDB, in any order.
#[derive(Debug, Default)]
pub struct HistoryLines {
    opentsdb: Lines,
}

impl HistoryLines {
    /// Reads a line into an entry. An empty line gives an empty entry.
    ///
    /// # Errors
    /// The error says why the line cannot be read. In that case the entry must not be used.
    pub fn read(&mut self, line: &[u8], entry: &mut Entry) -> Result<(), String> {
        entry.clear();
        let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
        match text.trim_ascii_start().as_bytes().first() {
            None => Ok(()),
            Some(b'{') => export::read(text, entry),
            Some(_) => self.opentsdb(text, entry),
        }
    }

    fn opentsdb(&mut self, line: &str, entry: &mut Entry) -> Result<(), String> {
        let (time_ms, number, has_ttl) = self.opentsdb.import(line)?;
        entry.name.push_str(self.opentsdb.name());
        entry.add(time_ms, number, matches!(number, Number::Real(_)));
        entry.with_ttl = u64::from(has_ttl);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Entry, String> {
        let mut entry = Entry::default();
        HistoryLines::default().read(line.as_bytes(), &mut entry).map(|()| entry)
    }

    fn point(time_ms: i64, value: f64, is_double: bool) -> HistoryPoint {
        HistoryPoint { time_ms, value, is_double }
    }

    #[test]
    fn a_line_of_kairosdb_is_a_storage_row() {
        let line = r#"{"name":"Temp","tags":{"city":"A b","a":"1"},
            "datapoints":[[1501672887988,33,"long"],[1501672887989,33,"double"],[5,9007199254740993,"long"]]}"#;
        let entry = read(line).unwrap();
        assert_eq!(entry.name, "Temp;a=1;city=A%20b");
        let points = [
            point(1_501_672_887_988, 33.0, false),
            point(1_501_672_887_989, 33.0, true),
            point(5, 9_007_199_254_740_992.0, false),
        ];
        assert_eq!((entry.points.as_slice(), entry.rounded), (&points[..], 1));
    }

    #[test]
    fn what_is_no_number_is_counted() {
        let line = r#"{"name":"m","tags":{"a":"b"},"datapoints":[[1,"x","string"],[2,{"re":1},"complex"],[3,"y","string"],
            [-4,1,"long"],[5,"1e999","double"],[6],[7,"NaN","double"],[8,2.5,"double"],["z",1,"long"]]}"#;
        let entry = read(line).unwrap();
        assert_eq!(entry.points, [point(8, 2.5, true)]);
        assert_eq!(entry.not_kept, BTreeMap::from([("complex".to_owned(), 1), ("string".to_owned(), 2)]));
        let refused = [(Reason::Item, 1), (Reason::Timestamp, 2), (Reason::Value, 1), (Reason::Nan, 1)];
        assert_eq!(entry.refused, BTreeMap::from(refused));
    }

    #[test]
    fn a_line_of_opentsdb_is_a_point() {
        for (line, name, point) in [
            (
                "sys.cpu 1356998400 42 host=web01 cpu=0",
                "sys.cpu;cpu=0;host=web01",
                point(1_356_998_400_000, 42.0, false),
            ),
            ("m 1356998400250 4.5E-1 h=a\r", "m;h=a", point(1_356_998_400_250, 0.45, true)),
        ] {
            let entry = read(line).unwrap();
            assert_eq!((entry.name.as_str(), entry.points.as_slice()), (name, &[point][..]), "{line}");
        }
        assert_eq!(read("").unwrap(), Entry::default());
    }

    #[test]
    fn bad_lines_are_refused_with_a_reason() {
        for (line, why) in [
            (r#"{"name":"m","tags":{"a":"b"},"datapoints":[[1,"#, "EOF"),
            (r#"{"tags":{"a":"b"},"datapoints":[[1,2,"long"]]}"#, "it has no name"),
            (r#"{"name":"m","tags":{"a":""},"datapoints":[[1,2,"long"]]}"#, "tag[a].value may not be empty"),
            (r#"{"name":"m","datapoints":7}"#, "an array of datapoints"),
            ("m 1356998400", "not enough arguments"),
            ("m yesterday 1 h=a", "invalid timestamp"),
            ("m 1 x h=a", "invalid value"),
            ("m 1 1 h=a h=b", "duplicate tag"),
        ] {
            let refused = read(line).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }
}
