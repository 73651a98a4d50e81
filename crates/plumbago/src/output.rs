//! Writing to standard output, which may be a closed pipe (`plumbago config default | head`).

use std::io::{self, ErrorKind, Write};

use serde::Serialize;

use crate::error::Failure;

/// Writes `text` to standard output and flushes it. A closed pipe is not an error.
///
/// # Errors
///
/// Any other error of the write.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a line to standard output. A failed write (closed pipe, full disk) is ignored, so that the daemon continues, and
/// stops as it should.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes a line to standard error. A failed write is ignored.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A word of a command line, in quotation marks for a shell.
pub fn quoted_for_shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Prints a row as a line of JSON.
///
/// # Errors
///
/// If standard output cannot be written.
pub fn print_json(row: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(row).map_err(anyhow::Error::from)?;
    Ok(print(&format!("{text}\n"))?)
}
