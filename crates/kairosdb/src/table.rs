//! The bytes of KairosDB's table `data_points`: row keys, column names and values.
//!
//! A row contains the points of one series and one type in three weeks. Its start is read from the key and
//! never computed, because rows begin at other times in keyspaces that store times in seconds.

use std::borrow::Cow;

use crate::history::Entry;
use crate::number::Number;
use crate::point::Reason;

/// The type of rows without a type in their key, which the oldest versions wrote.
const LEGACY: &str = "kairos_legacy";

/// The unit of the time within a row of a keyspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds, shifted by one bit. Used by keyspaces that contained data before version 1.3.
    Legacy,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// The content of a row key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowKey {
    /// The name of the metric, as KairosDB writes it.
    pub metric: String,
    /// When the row begins, in milliseconds since the epoch.
    pub row_time_ms: i64,
    /// The type of the values, like `kairos_long`.
    pub kind: String,
    /// Tags and values, as written in the key.
    pub tags: Vec<(String, String)>,
}

/// A cell of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// The column name, which encodes the time of the point after the start of the row.
    pub column: u32,
    /// The encoded value; the row key says its type.
    pub value: &'a [u8],
    /// Whether it has a time to live.
    pub has_ttl: bool,
}

impl RowKey {
    /// Reads a row key.
    ///
    /// # Errors
    /// The error says what is wrong with it.
    pub fn read(key: &[u8]) -> Result<Self, &'static str> {
        let end = key.iter().position(|byte| *byte == 0).ok_or("it has no end of the metric")?;
        let (metric, rest) = (&key[..end], &key[end + 1..]);
        let (time, rest) = rest.split_first_chunk::<8>().ok_or("it has no row time")?;
        let (kind, tags) = match rest.split_first() {
            // A tag cannot begin with a zero byte, so this is the type.
            Some((0, typed)) => {
                let (length, rest) = typed.split_first().ok_or("it has no type")?;
                rest.split_at_checked(usize::from(*length)).ok_or("its type is cut off")?
            }
            _ => (LEGACY.as_bytes(), rest),
        };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "it is not UTF-8");
        Ok(Self {
            metric: text(metric)?,
            row_time_ms: i64::from_be_bytes(*time),
            kind: text(kind)?,
            tags: tags_of(&text(tags)?)?,
        })
    }

    /// The bytes of the key.
    pub fn bytes(&self) -> Vec<u8> {
        let mut key = self.metric.clone().into_bytes();
        key.push(0);
        key.extend(self.row_time_ms.to_be_bytes());
        if self.kind != LEGACY {
            key.push(0);
            key.push(self.kind.len() as u8);
            key.extend(self.kind.as_bytes());
        }
        // In the order of Java's strings, which compares UTF-16.
        let mut tags: Vec<&(String, String)> = self.tags.iter().collect();
        tags.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        for (tag, value) in tags {
            escape(tag, b':', &mut key);
            key.push(b'=');
            escape(value, b'=', &mut key);
            key.push(b':');
        }
        key
    }

    /// Reads cells of this row into an entry.
    ///
    /// # Errors
    /// The error says why the series cannot have a name here.
    pub fn read_cells<'a>(
        &self,
        unit: TimeUnit,
        cells: impl Iterator<Item = Cell<'a>>,
        entry: &mut Entry,
    ) -> Result<(), String> {
        entry.clear();
        let mut tags: Vec<(Cow<'_, str>, Cow<'_, str>)> =
            self.tags.iter().map(|(tag, value)| (tag.as_str().into(), value.as_str().into())).collect();
        if self.metric.is_empty() || tags.iter().any(|(tag, value)| tag.is_empty() || value.is_empty()) {
            return Err("its metric, a tag or a value is empty".to_owned());
        }
        let mut names: Vec<&str> = self.tags.iter().map(|(tag, _)| tag.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err("one of its tags has two values".to_owned());
        }
        entry.set_name(&self.metric, &mut tags)?;
        for cell in cells {
            self.read_cell(unit, cell, entry);
        }
        Ok(())
    }

    fn read_cell(&self, unit: TimeUnit, cell: Cell<'_>, entry: &mut Entry) {
        let is_legacy = self.kind == LEGACY;
        let offset_ms = match unit {
            unit if is_legacy || unit == TimeUnit::Legacy => i64::from(cell.column >> 1),
            TimeUnit::Milliseconds | TimeUnit::Legacy => i64::from(cell.column),
            TimeUnit::Seconds => i64::from(cell.column) * 1000,
        };
        let number = match &*self.kind {
            "kairos_long" => long(cell.value).map(Number::Whole),
            "kairos_double" => double(cell.value).map(Number::Real),
            LEGACY if cell.column & 1 == 0 => legacy_long(cell.value).map(Number::Whole),
            LEGACY => legacy_double(cell.value).map(Number::Real),
            other => return entry.leave_out(other.strip_prefix("kairos_").unwrap_or(other)),
        };
        let time_ms = self.row_time_ms.saturating_add(offset_ms);
        match number {
            None => entry.refuse(Reason::Value),
            Some(number) => {
                let before = entry.points.len();
                entry.add(time_ms, number, matches!(number, Number::Real(_)));
                entry.with_ttl += u64::from(cell.has_ttl && entry.points.len() > before);
            }
        }
    }
}

/// Appends a text with `with` before each `:` and `=`.
fn escape(text: &str, with: u8, key: &mut Vec<u8>) {
    for byte in text.bytes() {
        if matches!(byte, b':' | b'=') {
            key.push(with);
        }
        key.push(byte);
    }
}

/// Reads any number of `name=value:`. In a name, `:` escapes `:` and `=`. In a value, `=` escapes them.
fn tags_of(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut tags = Vec::new();
    let mut letters = text.chars();
    while !letters.as_str().is_empty() {
        let tag = part(&mut letters, ':', '=').ok_or("its tags are cut off")?;
        let value = part(&mut letters, '=', ':').ok_or("its tags are cut off")?;
        tags.push((tag, value));
    }
    Ok(tags)
}

/// Reads up to `end`. A character after `escape` is part of the text.
fn part(letters: &mut std::str::Chars<'_>, escape: char, end: char) -> Option<String> {
    let mut text = String::new();
    loop {
        match letters.next()? {
            letter if letter == escape => text.push(letters.next()?),
            letter if letter == end => return Some(text),
            letter => text.push(letter),
        }
    }
}

/// A zig-zag number in groups of seven bits, the lowest first.
fn long(bytes: &[u8]) -> Option<i128> {
    let mut raw: u64 = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let group = u64::from(byte & 0x7f);
        let shifted = group.checked_shl(7 * at as u32).filter(|shifted| shifted >> (7 * at) == group)?;
        raw |= shifted;
        if byte & 0x80 == 0 {
            let is_whole = at + 1 == bytes.len();
            return is_whole.then_some(i128::from((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()));
        }
    }
    None
}

fn double(bytes: &[u8]) -> Option<f64> {
    Some(f64::from_be_bytes(bytes.try_into().ok()?))
}

/// A number without its leading zero bytes. No bytes mean zero, and a negative number has eight bytes.
fn legacy_long(bytes: &[u8]) -> Option<i128> {
    let mut whole = [0; 8];
    whole[8_usize.checked_sub(bytes.len())?..].copy_from_slice(bytes);
    Some(i64::from_be_bytes(whole).into())
}

/// A flag and a number of four or of eight bytes.
fn legacy_double(bytes: &[u8]) -> Option<f64> {
    match bytes.split_first()? {
        (1, rest) => Some(f32::from_be_bytes(rest.try_into().ok()?).into()),
        (2, rest) => double(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
