//! Columns of values with pco where that is smaller, which it is from a few hundred values on.
//!
//! The first byte of a short column never has both low bits set; a long one has, and says in bit 2
//! whether a column of ones for the known slots comes before the pco chunk. pco takes the rest.

use pco::ChunkConfig;
use pco::standalone::{simple_compress, simple_decompress_into};
use plumbago_model::codec;

use crate::row::Damaged;

/// Shorter columns are smaller without pco, which costs 25 bytes a chunk.
const PCO_SLOTS_MIN: usize = 360;

const LONG: u8 = 3;
const WITH_GAPS: u8 = 4;

/// Appends the column in the smaller of both ways.
pub(crate) fn encode(values: &[f64], effort: u8, out: &mut Vec<u8>) {
    let start = out.len();
    codec::encode(values, out);
    let short = out.len() - start;
    if values.len() < PCO_SLOTS_MIN || short < 64 {
        return;
    }
    let known: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    let config = ChunkConfig::default().with_compression_level(usize::from(effort));
    let Ok(chunk) = simple_compress(&known, &config) else { return };
    let gaps = known.len() < values.len();
    if chunk.len() + 1 + if gaps { 4 } else { 0 } >= short {
        return;
    }
    let end = out.len();
    out.push(LONG | if gaps { WITH_GAPS } else { 0 });
    if gaps {
        let ones: Vec<f64> = values.iter().map(|v| if v.is_nan() { f64::NAN } else { 1.0 }).collect();
        codec::encode(&ones, out);
    }
    out.extend_from_slice(&chunk);
    if out.len() - end < short {
        out.drain(start..end);
    } else {
        out.truncate(end);
    }
}

/// Appends the column's `len` values; it must fill `bytes`.
pub(crate) fn decode(bytes: &[u8], len: usize, out: &mut Vec<f64>) -> Result<(), Damaged> {
    let (&first, mut rest) = bytes.split_first().ok_or(Damaged)?;
    if first & 3 != LONG {
        let used = codec::decode(bytes, len, out).map_err(|_| Damaged)?;
        return if used == bytes.len() { Ok(()) } else { Err(Damaged) };
    }
    let start = out.len();
    let mut known = len;
    if first & WITH_GAPS != 0 {
        let used = codec::decode(rest, len, out).map_err(|_| Damaged)?;
        rest = &rest[used..];
        known = out[start..].iter().filter(|v| !v.is_nan()).count();
    } else {
        out.resize(start + len, 0.0);
    }
    let mut packed = vec![0.0; known];
    let progress = simple_decompress_into(rest, &mut packed).map_err(|_| Damaged)?;
    if progress.n_processed != known || !progress.finished {
        return Err(Damaged);
    }
    let slots = out[start..].iter_mut().filter(|v| !v.is_nan());
    slots.zip(packed).for_each(|(slot, value)| *slot = value);
    Ok(())
}
