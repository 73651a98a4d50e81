//! The messages between peers. Numbers are little-endian. Each text and list is preceded by its length.
//!
//! A message begins with four bytes that name its kind and version. A daemon refuses a message that begins
//! with any other bytes, so a newer daemon may send any request to an older one.

mod events;

use std::sync::Arc;

use plumbago_model::Stage;
use plumbago_store::{EventQuestion, FetchRequest, PeerAnswer, PendingRows, RowCount, WindowRow};

pub use events::{events_answer, events_request, read_events_answer};

/// The largest number of metrics, or of tags, in a request.
pub const NAMES_MAX: usize = 65_536;
/// The largest size of an answer in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

const REQUEST: &[u8; 4] = b"PBQ1";
const ANSWER: &[u8; 4] = b"PBA1";

/// The bytes are not a valid message of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is damaged or of another protocol version")]
pub struct Malformed;

/// The answer would exceed [`ANSWER_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is larger than {ANSWER_BYTES_MAX} bytes")]
pub struct TooLarge;

/// What a peer requests.
#[derive(Debug)]
pub enum Asked {
    /// The pending rows of some metrics.
    Points(FetchRequest),
    /// The events of the daemon.
    Events(EventQuestion),
}

/// Decodes a request of any kind.
///
/// # Errors
/// If the bytes are not exactly one valid request, or a list in it is longer than [`NAMES_MAX`].
pub fn read_asked(bytes: &[u8]) -> Result<Asked, Malformed> {
    if bytes.starts_with(events::REQUEST) {
        return events::read_request(bytes).map(Asked::Events);
    }
    read_request(bytes).map(Asked::Points)
}

/// Encodes a request for pending rows.
pub fn request(request: &FetchRequest) -> Vec<u8> {
    let mut out = REQUEST.to_vec();
    for time in [request.from, request.until, request.now] {
        out.extend(time.to_le_bytes());
    }
    out.extend((request.names.len() as u32).to_le_bytes());
    for name in &request.names {
        out.extend((name.len() as u32).to_le_bytes());
        out.extend(name.as_bytes());
    }
    out
}

/// Decodes a request for pending rows.
///
/// # Errors
/// If the bytes are not exactly one valid request, or it has more than [`NAMES_MAX`] names.
pub fn read_request(bytes: &[u8]) -> Result<FetchRequest, Malformed> {
    let mut input = Input(bytes);
    input.expect(REQUEST)?;
    let [from, until, now] = [input.time()?, input.time()?, input.time()?];
    let count = input.number()? as usize;
    // Each name takes at least four bytes. This check keeps a wrong count from allocating too much memory.
    if count > NAMES_MAX || count > input.0.len() / 4 {
        return Err(Malformed);
    }
    let mut names: Vec<Arc<str>> = Vec::with_capacity(count);
    for _ in 0..count {
        let length = input.number()? as usize;
        names.push(std::str::from_utf8(input.take(length)?).map_err(|_| Malformed)?.into());
    }
    input.end()?;
    Ok(FetchRequest { names, from, until, now, slots_max: usize::MAX })
}

/// Encodes an answer with pending rows.
///
/// # Errors
/// If the answer would be larger than `ANSWER_BYTES_MAX`.
pub fn answer(answer: &PeerAnswer) -> Result<Vec<u8>, TooLarge> {
    let mut out = ANSWER.to_vec();
    out.push(answer.replica);
    out.extend(answer.writer.to_le_bytes());
    out.extend((answer.series.len() as u32).to_le_bytes());
    for pending in &answer.series {
        for number in [pending.name_index, pending.stage.resolution, pending.stage.points] {
            out.extend(number.to_le_bytes());
        }
        out.push(pending.stage_index);
        out.extend((pending.rows.len() as u32).to_le_bytes());
        for (slot, row) in &pending.rows {
            out.extend(slot.to_le_bytes());
            out.extend(row.value.to_bits().to_le_bytes());
            if pending.stage_index > 0 {
                out.extend(row.count.to_bits().to_le_bytes());
            }
        }
        if out.len() > ANSWER_BYTES_MAX {
            return Err(TooLarge);
        }
    }
    Ok(out)
}

/// Decodes an answer with pending rows.
///
/// # Errors
/// If the bytes are not exactly one valid answer, or its series or rows are not in order.
pub fn read_answer(bytes: &[u8]) -> Result<PeerAnswer, Malformed> {
    let mut input = Input(bytes);
    input.expect(ANSWER)?;
    let (replica, writer) = (input.byte()?, input.short()?);
    let mut answer = PeerAnswer { replica, writer, series: Vec::new() };
    for _ in 0..input.number()? {
        let [place, resolution, points] = [input.number()?, input.number()?, input.number()?];
        let stage_index = input.byte()?;
        let count = input.number()? as usize;
        // Each row takes at least twelve bytes. This check keeps a wrong count from allocating too much
        // memory.
        if count > input.0.len() / 12 {
            return Err(Malformed);
        }
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let (slot, value) = (input.number()?, f64::from_bits(input.long()?));
            let count = if stage_index > 0 { RowCount::from_bits(input.number()?) } else { RowCount::ONE };
            rows.push((slot, WindowRow { value, count }));
        }
        // Merging the rows relies on their order.
        let in_order = rows.is_sorted_by(|a, b| a.0 < b.0);
        if !in_order || answer.series.last().is_some_and(|last| last.name_index >= place) {
            return Err(Malformed);
        }
        answer.series.push(PendingRows {
            name_index: place,
            stage: Stage { resolution, points },
            stage_index,
            rows,
        });
    }
    input.end()?;
    Ok(answer)
}

/// The rest of a message that is being decoded. Each call takes bytes from its start.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn expect(&mut self, heading: &[u8; 4]) -> Result<(), Malformed> {
        if self.array()? == *heading { Ok(()) } else { Err(Malformed) }
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn time(&mut self) -> Result<i64, Malformed> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let length = self.number()? as usize;
        std::str::from_utf8(self.take(length)?).map(str::to_owned).map_err(|_| Malformed)
    }

    /// The length of a list whose items take at least `item_bytes` each. A wrong length must not allocate too
    /// much memory.
    fn length(&mut self, item_bytes: usize) -> Result<usize, Malformed> {
        let length = self.number()? as usize;
        if length > self.0.len() / item_bytes { Err(Malformed) } else { Ok(length) }
    }

    fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn series() -> impl Strategy<Value = Vec<PendingRows>> {
        let rows = prop::collection::btree_map(any::<u32>(), (any::<f64>(), 1..u32::MAX), 0..5);
        let pending = (rows, 1..100u32, 1..100u32, 0..3u8);
        prop::collection::btree_map(any::<u32>(), pending, 0..5).prop_map(|all| {
            let one = |(place, (rows, resolution, points, stage_index))| {
                let rows: std::collections::BTreeMap<u32, (f64, u32)> = rows;
                let count = |count| if stage_index == 0 { RowCount::ONE } else { RowCount::from_bits(count) };
                let rows =
                    rows.into_iter().map(|(slot, (value, n))| (slot, WindowRow { value, count: count(n) }));
                PendingRows {
                    name_index: place,
                    stage: Stage { resolution, points },
                    stage_index,
                    rows: rows.collect(),
                }
            };
            all.into_iter().map(one).collect()
        })
    }

    proptest! {
        #[test]
        fn messages_come_back(
            names in prop::collection::vec(".{0,9}", 0..9),
            times in any::<[i64; 3]>(),
            series in series(),
            replica in 0..4u8,
            writer in any::<u16>(),
            cut in any::<prop::sample::Index>(),
        ) {
            let names = names.iter().map(|name| Arc::from(name.as_str())).collect();
            let asked = FetchRequest { names, from: times[0], until: times[1], now: times[2], slots_max: usize::MAX };
            let bytes = request(&asked);
            let read = read_request(&bytes).unwrap();
            prop_assert_eq!(format!("{asked:?}"), format!("{read:?}"));
            prop_assert!(read_request(&bytes[..cut.index(bytes.len())]).is_err());

            let answered = PeerAnswer { replica, writer, series };
            let bytes = answer(&answered).unwrap();
            prop_assert_eq!(&read_answer(&bytes).unwrap(), &answered);
            prop_assert!(read_answer(&bytes[..cut.index(bytes.len())]).is_err());
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in prop::collection::vec(any::<u8>(), 0..200), is_answer: bool) {
            let mut message = if is_answer { ANSWER.to_vec() } else { REQUEST.to_vec() };
            message.extend(bytes);
            let _ = (read_request(&message), read_answer(&message));
        }
    }
}
