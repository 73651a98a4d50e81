//! Writing to standard output, which may be a closed pipe (`plumbago config default | head`).

use std::io::{self, ErrorKind, Write};

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
