//! Frames of the native protocol (version 4), and the answers that differ between Cassandra and ScyllaDB.

use std::io::{self, Read};

use super::words::{self, Refusal};
use crate::cql::{ERROR, MAX_ANSWER, QUERY, RESULT};
use crate::release::Release;

const SUPPORTED: u8 = 0x06;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0a;

/// The codes of the kinds of results.
const ROWS: [u8; 4] = [0, 0, 0, 2];
const PREPARED: [u8; 4] = [0, 0, 0, 4];
/// The metadata flag of a result whose table name is stated only once.
const ONE_TABLE: [u8; 4] = [0, 0, 0, 1];
/// The type of a text column.
const VARCHAR: [u8; 2] = [0, 0x0d];
const NULL: [u8; 4] = [0xff; 4];

/// The release that ScyllaDB reports.
const RELEASE: &str = "3.0.8";

/// The options that ScyllaDB adds to those of Cassandra. Drivers recognise ScyllaDB by them. The stand-in
/// reports one shard, which is enough here.
const OPTIONS: [(&str, &str); 5] = [
    ("SCYLLA_SHARD", "0"),
    ("SCYLLA_NR_SHARDS", "1"),
    ("SCYLLA_SHARDING_IGNORE_MSB", "12"),
    ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
    ("SCYLLA_PARTITIONER", "org.apache.cassandra.dht.Murmur3Partitioner"),
];

/// A request or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    version: u8,
    flags: u8,
    pub(super) stream: u16,
    opcode: u8,
    body: Vec<u8>,
}

impl Frame {
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut header = [0; 9];
        from.read_exact(&mut header)?;
        let [version, flags, high, low, opcode, length @ ..] = header;
        let length = u32::from_be_bytes(length) as usize;
        if length > MAX_ANSWER {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        Ok(Self { version, flags, stream: u16::from_be_bytes([high, low]), opcode, body })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.version, self.flags];
        bytes.extend(self.stream.to_be_bytes());
        bytes.push(self.opcode);
        bytes.extend((self.body.len() as u32).to_be_bytes());
        bytes.extend(&self.body);
        bytes
    }

    /// The statement of a request. `prepared` looks a statement up by the id that the server assigned.
    pub(super) fn statement(&self, prepared: impl FnOnce(&[u8]) -> Option<String>) -> Option<String> {
        match self.opcode {
            QUERY | PREPARE => {
                let (length, rest) = self.body.split_first_chunk()?;
                let text = rest.get(..u32::from_be_bytes(*length) as usize)?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
            EXECUTE => prepared(short_bytes(&self.body)?),
            _ => None,
        }
    }

    /// Removes `USING TIMEOUT`, which ScyllaDB's drivers add to reads of the schema and only ScyllaDB understands.
    pub(super) fn without_timeout(mut self) -> Self {
        let Some(text) = self.statement(|_| None) else { return self };
        let Some((before, after)) = text.split_once(" USING TIMEOUT ") else { return self };
        let rest =
            after.split_once(char::is_whitespace).map_or(String::new(), |(_, rest)| format!(" {rest}"));
        let left = format!("{before}{rest}");
        let mut body = (left.len() as u32).to_be_bytes().to_vec();
        body.extend(left.as_bytes());
        body.extend(&self.body[4 + text.len()..]);
        self.body = body;
        self
    }

    /// The id that this answer assigns to a prepared statement.
    pub(super) fn prepared_id(&self) -> Option<Vec<u8>> {
        let after = self.body.strip_prefix(&PREPARED).filter(|_| self.opcode == RESULT && self.flags == 0)?;
        short_bytes(after).map(<[u8]>::to_vec)
    }

    /// The answer to this request that reports the refusal.
    pub(super) fn refused(&self, refusal: &Refusal) -> Self {
        let mut body = refusal.code.to_be_bytes().to_vec();
        string(&mut body, &refusal.message);
        Self { version: self.version | 0x80, flags: 0, stream: self.stream, opcode: ERROR, body }
    }

    /// Changes an answer into the form that ScyllaDB uses. `asked` is the statement, if it is known.
    pub(super) fn reshape(&mut self, asked: Option<&str>) {
        match self.opcode {
            SUPPORTED => self.body = supported(),
            RESULT => {
                self.replace_release();
                if let Some(columns) = asked.and_then(words::conditional_columns) {
                    self.add_old_row(&columns);
                }
            }
            _ => {}
        }
    }

    fn replace_release(&mut self) {
        let cell = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
        let own = cell(Release::V3_11.version());
        if let Some(at) = self.body.windows(own.len()).position(|bytes| bytes == own) {
            self.body.splice(at..at + own.len(), cell(RELEASE));
        }
    }

    /// Adds the old row to the answer to a conditional statement that was applied: ScyllaDB sends that row,
    /// Cassandra sends only `[applied]`. The types and values of the added columns are made up.
    fn add_old_row(&mut self, columns: &[String]) {
        let only_applied = [&ROWS[..], &ONE_TABLE, &[0, 0, 0, 1]].concat();
        if self.flags != 0 || !self.body.starts_with(&only_applied) {
            return;
        }
        let mut body = [&ROWS[..], &ONE_TABLE, &(1 + columns.len() as u32).to_be_bytes()].concat();
        // The metadata is followed by the number of rows (1), the length of the only cell (1) and the cell: 9
        // bytes in total.
        let (metadata, row) =
            self.body[only_applied.len()..].split_at(self.body.len() - only_applied.len() - 9);
        body.extend(metadata);
        for column in columns {
            string(&mut body, column);
            body.extend(VARCHAR);
        }
        body.extend(row);
        columns.iter().for_each(|_| body.extend(NULL));
        self.body = body;
    }
}

fn supported() -> Vec<u8> {
    let options = [("CQL_VERSION", "3.3.1"), ("PROTOCOL_VERSIONS", "4/v4")].into_iter().chain(OPTIONS);
    let mut body = (2 + OPTIONS.len() as u16).to_be_bytes().to_vec();
    for (name, value) in options {
        string(&mut body, name);
        body.extend(1_u16.to_be_bytes());
        string(&mut body, value);
    }
    body
}

fn string(body: &mut Vec<u8>, text: &str) {
    body.extend((text.len() as u16).to_be_bytes());
    body.extend(text.as_bytes());
}

fn short_bytes(body: &[u8]) -> Option<&[u8]> {
    let (length, rest) = body.split_first_chunk()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: Vec<u8>) -> Frame {
        Frame { version: 0x84, flags: 0, stream: 7, opcode: RESULT, body }
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let frame = answer(vec![1, 2, 3]);
        assert_eq!(Frame::read(&mut &frame.encode()[..]).unwrap(), frame);
    }

    #[test]
    fn an_applied_condition_comes_with_the_old_row() {
        let mut body = [&ROWS[..], &ONE_TABLE, &[0, 0, 0, 1]].concat();
        ["ks", "leases", "[applied]"].iter().for_each(|text| string(&mut body, text));
        body.extend([0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 1]);
        let mut frame = answer(body);
        frame.reshape(Some("INSERT INTO ks.leases (name, holder) VALUES (?, ?) IF NOT EXISTS USING TTL ?"));

        let mut wanted = [&ROWS[..], &ONE_TABLE, &[0, 0, 0, 3]].concat();
        ["ks", "leases", "[applied]"].iter().for_each(|text| string(&mut wanted, text));
        wanted.extend([0, 4]);
        for column in ["name", "holder"] {
            string(&mut wanted, column);
            wanted.extend(VARCHAR);
        }
        wanted.extend([0, 0, 0, 1, 0, 0, 0, 1, 1]);
        wanted.extend([NULL, NULL].concat());
        assert_eq!(frame.body, wanted);
    }

    #[test]
    fn the_timeout_is_taken_away() {
        let query = |text: &str| {
            let mut body = (text.len() as u32).to_be_bytes().to_vec();
            body.extend(text.as_bytes());
            body.extend([0, 1, 0]);
            Frame { version: 4, flags: 0, stream: 1, opcode: QUERY, body }
        };
        assert_eq!(
            query("SELECT a FROM t USING TIMEOUT 20000ms").without_timeout(),
            query("SELECT a FROM t")
        );
        assert_eq!(query("SELECT a FROM t").without_timeout(), query("SELECT a FROM t"));
    }

    #[test]
    fn the_release_is_scyllas() {
        let mut frame = answer([&[9, 9, 0, 0, 0, 7][..], b"3.11.19", &[1]].concat());
        frame.reshape(None);
        assert_eq!(frame.body, [&[9, 9, 0, 0, 0, 5][..], b"3.0.8", &[1]].concat());
    }
}
