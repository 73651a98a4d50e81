//! Reads lines of a limited length.

use std::io::{self, BufRead, Read};

use super::{Skipped, reason};

/// Longest line that is kept, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Reads the next line, without its line break; `None` at the end. Lines that are too long are left out.
/// Bytes that are not UTF-8 are replaced.
///
/// # Errors
///
/// If the reader fails.
pub(super) fn next_line(reader: &mut dyn BufRead, skipped: &mut Skipped) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let read = (&mut *reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        if read as u64 == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            *skipped.entry(reason::LONG).or_default() += 1;
            skip_rest(reader)?;
            continue;
        }
        return Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()));
    }
}

fn skip_rest(reader: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |at| at + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn long_lines_are_left_out() {
        let long = "x".repeat(LINE_BYTES_MAX as usize + 5);
        let mut reader = Cursor::new(format!("a\r\n{long}\nb"));
        let mut skipped = Skipped::new();
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut reader, &mut skipped).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["a", "b"]);
        assert_eq!(skipped[reason::LONG], 1);
    }
}
