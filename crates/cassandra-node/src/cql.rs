//! A minimal, blocking client for Cassandra's native protocol (version 4). It is used by tests, and to check
//! whether a node answers. It sends one query at a time and does not page.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::NodeError;

/// User and password of the account that a new server with authentication creates.
pub const SUPERUSER: (&str, &str) = ("cassandra", "cassandra");

const REQUEST: u8 = 0x04;
pub(crate) const ERROR: u8 = 0x00;
const STARTUP: u8 = 0x01;
const READY: u8 = 0x02;
const AUTHENTICATE: u8 = 0x03;
pub(crate) const QUERY: u8 = 0x07;
pub(crate) const RESULT: u8 = 0x08;
const AUTH_RESPONSE: u8 = 0x0f;
const AUTH_SUCCESS: u8 = 0x10;

/// Largest accepted response, in bytes.
pub(crate) const MAX_ANSWER: usize = 256 << 20;

/// How many replicas must respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// One replica.
    One = 1,
    /// More than half of the replicas.
    Quorum = 4,
    /// All replicas.
    All = 5,
}

/// An open connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
}

impl Connection {
    /// Connects, and logs in with `(user, password)` if the server requires it.
    ///
    /// # Errors
    ///
    /// [`NodeError::Io`] if the server cannot be reached, [`NodeError::Cql`] if it refuses the login,
    /// [`NodeError::Protocol`] if it answers unexpectedly.
    pub fn open(server: SocketAddr, credentials: Option<(&str, &str)>) -> Result<Self, NodeError> {
        let stream = TcpStream::connect_timeout(&server, Duration::from_secs(5))
            .map_err(NodeError::io(format!("connecting to {server}")))?;
        let timeout = Some(Duration::from_secs(120));
        stream.set_read_timeout(timeout).map_err(NodeError::io("setting a timeout"))?;
        let mut connection = Self { stream };
        let mut body = 1_u16.to_be_bytes().to_vec();
        for text in ["CQL_VERSION", "3.0.0"] {
            body.extend((text.len() as u16).to_be_bytes());
            body.extend(text.as_bytes());
        }
        match connection.ask(STARTUP, &body)?.0 {
            READY => Ok(connection),
            AUTHENTICATE => {
                connection.authenticate(credentials.unwrap_or(("", "")))?;
                Ok(connection)
            }
            _ => Err(NodeError::Protocol("the server answered STARTUP with neither READY nor AUTHENTICATE")),
        }
    }

    fn authenticate(&mut self, (user, password): (&str, &str)) -> Result<(), NodeError> {
        let token = format!("\0{user}\0{password}");
        let mut body = (token.len() as i32).to_be_bytes().to_vec();
        body.extend(token.as_bytes());
        match self.ask(AUTH_RESPONSE, &body)?.0 {
            AUTH_SUCCESS => Ok(()),
            _ => Err(NodeError::Protocol("the login was not confirmed")),
        }
    }

    /// Runs a statement at consistency ONE and returns all its rows.
    ///
    /// # Errors
    ///
    /// As [`Connection::query_at`].
    pub fn query(&mut self, statement: &str) -> Result<Rows, NodeError> {
        self.query_at(Consistency::One, statement)
    }

    /// Runs a statement and returns all its rows. Returns none for statements other than `SELECT`.
    ///
    /// # Errors
    ///
    /// [`NodeError::Cql`] if the server reports an error, [`NodeError::Io`] if the connection fails or no
    /// answer comes within two minutes, [`NodeError::Protocol`] if the response cannot be read.
    pub fn query_at(&mut self, consistency: Consistency, statement: &str) -> Result<Rows, NodeError> {
        let mut body = (statement.len() as i32).to_be_bytes().to_vec();
        body.extend(statement.as_bytes());
        body.extend([0, consistency as u8, 0]); // no flags
        match self.ask(QUERY, &body)? {
            (RESULT, answer) => Rows::read(&answer),
            _ => Err(NodeError::Protocol("the response to a query is not a result")),
        }
    }

    fn ask(&mut self, opcode: u8, body: &[u8]) -> Result<(u8, Vec<u8>), NodeError> {
        let mut frame = vec![REQUEST, 0, 0, 0, opcode];
        frame.extend((body.len() as i32).to_be_bytes());
        frame.extend(body);
        self.stream.write_all(&frame).map_err(NodeError::io("sending a request to the server"))?;
        let mut header = [0; 9];
        self.stream.read_exact(&mut header).map_err(NodeError::io("waiting for a response of the server"))?;
        let length = u32::from_be_bytes([header[5], header[6], header[7], header[8]]) as usize;
        if length > MAX_ANSWER {
            return Err(NodeError::Protocol("the response is too long"));
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).map_err(NodeError::io("reading a response of the server"))?;
        if header[4] == ERROR {
            let mut reader = Reader(&answer);
            return Err(NodeError::Cql { code: reader.int()?, message: reader.string()? });
        }
        // If the flag for warnings is set, warnings precede the body.
        Ok((header[4], if header[1] & 0x08 == 0 { answer } else { skip_warnings(&answer)? }))
    }
}

fn skip_warnings(answer: &[u8]) -> Result<Vec<u8>, NodeError> {
    let mut reader = Reader(answer);
    let warnings = reader.short()?;
    reader.skip_strings(warnings)?;
    Ok(reader.0.to_vec())
}

/// The result of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    columns: Vec<String>,
    rows: Vec<Row>,
}

impl Rows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Iterates over the rows.
    pub fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// The first column of every row as text. Null and invalid UTF-8 become an empty string.
    pub fn texts(&self) -> Vec<String> {
        self.rows.iter().map(|row| row.text(0).unwrap_or_default().to_owned()).collect()
    }

    fn read(answer: &[u8]) -> Result<Self, NodeError> {
        const ROWS: i32 = 2;
        let mut reader = Reader(answer);
        if reader.int()? != ROWS {
            return Ok(Self::default());
        }
        let flags = reader.int()?;
        let count = reader.int()?;
        let one_table = flags & 1 != 0;
        if one_table {
            reader.skip_strings(2)?;
        }
        let mut columns = Vec::new();
        for _ in 0..count {
            if !one_table {
                reader.skip_strings(2)?;
            }
            columns.push(reader.string()?);
            reader.skip_type()?;
        }
        let mut rows = Vec::new();
        for _ in 0..reader.int()? {
            let cells = columns.iter().map(|_| reader.bytes()).collect::<Result<_, _>>()?;
            rows.push(Row { cells });
        }
        Ok(Self { columns, rows })
    }
}

/// One row. Its cells are decoded when they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    cells: Vec<Option<Vec<u8>>>,
}

impl Row {
    /// The bytes of a cell. Columns are counted from 0. `None` for null or a column that does not exist.
    pub fn bytes(&self, column: usize) -> Option<&[u8]> {
        self.cells.get(column)?.as_deref()
    }

    /// A cell as text. `None` for null and for bytes that are not UTF-8.
    pub fn text(&self, column: usize) -> Option<&str> {
        std::str::from_utf8(self.bytes(column)?).ok()
    }

    /// A cell of type `tinyint`, `smallint`, `int` or `bigint`. `None` for null.
    pub fn integer(&self, column: usize) -> Option<i64> {
        let bytes = self.bytes(column)?;
        let negative = bytes.first()? & 0x80 != 0;
        let start = if negative { -1_i64 } else { 0 };
        Some(bytes.iter().fold(start, |value, byte| value << 8 | i64::from(*byte)))
    }

    /// A cell of type `double`. `None` for null and for cells that are not 8 bytes long.
    pub fn double(&self, column: usize) -> Option<f64> {
        Some(f64::from_be_bytes(self.bytes(column)?.try_into().ok()?))
    }
}

/// Decodes the protocol's data types from the start of a byte slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], NodeError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(NodeError::Protocol("the response is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn short(&mut self) -> Result<u16, NodeError> {
        Ok(self.take(2)?.iter().fold(0, |value, byte| value << 8 | u16::from(*byte)))
    }

    fn int(&mut self) -> Result<i32, NodeError> {
        Ok(self.take(4)?.iter().fold(0, |value, byte| value << 8 | i32::from(*byte)))
    }

    fn string(&mut self) -> Result<String, NodeError> {
        let length = self.short()?;
        Ok(String::from_utf8_lossy(self.take(length.into())?).into_owned())
    }

    fn bytes(&mut self) -> Result<Option<Vec<u8>>, NodeError> {
        match usize::try_from(self.int()?) {
            Ok(length) => Ok(Some(self.take(length)?.to_vec())),
            Err(_) => Ok(None),
        }
    }

    fn skip_strings(&mut self, count: u16) -> Result<(), NodeError> {
        for _ in 0..count {
            self.string()?;
        }
        Ok(())
    }

    fn skip_type(&mut self) -> Result<(), NodeError> {
        match self.short()? {
            0x00 => self.skip_strings(1)?,
            0x20 | 0x22 => self.skip_type()?, // list, set
            0x21 => {
                self.skip_type()?; // map
                self.skip_type()?;
            }
            0x30 => {
                self.skip_strings(2)?;
                for _ in 0..self.short()? {
                    self.string()?;
                    self.skip_type()?;
                }
            }
            0x31 => {
                for _ in 0..self.short()? {
                    self.skip_type()?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_sign() {
        let of = |bytes: &[u8]| Row { cells: vec![Some(bytes.to_vec())] }.integer(0);
        assert_eq!(of(&[0x80, 0]), Some(-32768));
        assert_eq!(of(&[0x7f, 0xff]), Some(32767));
        assert_eq!(of(&(-2_i64).to_be_bytes()), Some(-2));
        assert_eq!(of(&[0, 0, 0, 5]), Some(5));
    }

    #[test]
    fn a_short_response_is_an_error() {
        assert!(Rows::read(&[0, 0, 0, 2, 0, 0]).is_err());
        assert_eq!(Rows::read(&[0, 0, 0, 1]).unwrap(), Rows::default());
    }
}
