//! Standard output, which may be a pipe whose reader has left.

use std::io::{self, ErrorKind, Write};

/// Writes to standard output; a reader that has left is no error.
pub fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
