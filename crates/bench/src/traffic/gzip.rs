//! Reads files that are compressed with gzip.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// The first bytes of a gzip file.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The largest factor by which a file may grow when it is decompressed. Logs and lines grow by a factor of
/// ten to fifty; more than a thousand is possible.
const RATIO_MAX: u64 = 400;
/// This many decompressed bytes are accepted whatever the size of the compressed file.
const PLAIN_BYTES_FREE: u64 = 16 << 20;

/// Decompresses a file, and refuses it if it becomes too long. The memory it needs does not depend on either
/// length.
pub(super) struct Plain<R> {
    decoder: MultiGzDecoder<Counted<R>>,
    bytes: u64,
}

impl<R: BufRead> Plain<R> {
    /// Makes the reader. `packed` begins with [`MAGIC`].
    pub(super) fn new(packed: R) -> Self {
        Self { decoder: MultiGzDecoder::new(Counted { reader: packed, bytes: 0 }), bytes: 0 }
    }
}

impl<R: BufRead> Read for Plain<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.decoder.read(into).map_err(|error| {
            io::Error::new(error.kind(), format!("the compressed file is cut or damaged: {error}"))
        })?;
        self.bytes += read as u64;
        let packed = self.decoder.get_ref().bytes;
        if self.bytes > PLAIN_BYTES_FREE.saturating_add(packed.saturating_mul(RATIO_MAX)) {
            let why = format!("it becomes more than {RATIO_MAX} times as long, so it is not read further");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(read)
    }
}

/// Counts the bytes that are read.
struct Counted<R> {
    reader: R,
    bytes: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.bytes += amount as u64;
        self.reader.consume(amount);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn read(file: &[u8]) -> io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        Plain::new(file).read_to_end(&mut plain).map(|_| plain)
    }

    #[test]
    fn several_parts_are_one_file() {
        let file = [packed(b"GET "), packed(b""), packed(b"/render")].concat();
        assert_eq!(read(&file).unwrap(), b"GET /render");
    }

    #[test]
    fn a_bomb_and_a_cut_file_are_refused() {
        // Zeros are compressed to a thousandth of their size.
        let zeros = vec![0; PLAIN_BYTES_FREE as usize * 2];
        let bomb = packed(&zeros);
        assert!((bomb.len() as u64) * RATIO_MAX < zeros.len() as u64 - PLAIN_BYTES_FREE);
        let said = read(&bomb).unwrap_err().to_string();
        assert!(said.contains("400 times"), "{said}");
        let whole = packed(b"GET /render");
        let said = read(&whole[..whole.len() - 9]).unwrap_err().to_string();
        assert!(said.contains("cut or damaged"), "{said}");
    }
}
