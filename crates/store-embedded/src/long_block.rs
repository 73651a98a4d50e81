//! Encodes long columns of values, with pco where that is smaller. It is smaller from a few hundred values on.
//!
//! The first byte of a long column has both low bits set; that of a short one never has. If bit 2 is set, a
//! column of ones for the known slots comes first. Bits 4–7 are the exponent of ten at which the values are
//! integers, because pco packs integers better; 15 means that they are not integers. The rest is pco's chunk.

use pco::ChunkConfig;
use pco::data_types::Number;
use pco::errors::PcoResult;
use pco::wrapped::{FileCompressor, FileDecompressor};
use plumbago_model::codec;

/// Columns with fewer slots are smaller without pco.
const PCO_SLOTS_MIN: usize = 360;

const LONG: u8 = 3;
const WITH_GAPS: u8 = 4;
const FLOATS: u8 = 15;

/// The bytes of a row are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Appends the column in the smaller of both encodings.
pub(crate) fn encode(values: &[f64], effort: u8, out: &mut Vec<u8>) {
    let start = out.len();
    codec::encode(values, out);
    let end = out.len();
    let known: Vec<f64> = values.iter().copied().filter(|v| !v.is_nan()).collect();
    // A column of fewer than 16 bytes cannot become smaller, because pco's header alone is about as large.
    if known.len() < PCO_SLOTS_MIN || end - start < 16 {
        return;
    }
    if encode_long(values, &known, effort, out).is_ok() && out.len() - end < end - start {
        out.drain(start..end);
    } else {
        out.truncate(end);
    }
}

fn encode_long(values: &[f64], known: &[f64], effort: u8, out: &mut Vec<u8>) -> PcoResult<()> {
    let gaps = known.len() < values.len();
    let exponent = codec::exponent(known);
    out.push(LONG | if gaps { WITH_GAPS } else { 0 } | exponent.unwrap_or(FLOATS) << 4);
    if gaps {
        let ones: Vec<f64> = values.iter().map(|v| if v.is_nan() { f64::NAN } else { 1.0 }).collect();
        codec::encode(&ones, out);
    }
    match exponent {
        Some(exponent) => {
            let integers: Vec<i64> = known.iter().map(|v| codec::to_integer(*v, exponent)).collect();
            compress(&integers, effort, out)
        }
        None => compress(known, effort, out),
    }
}

fn compress<T: Number>(numbers: &[T], effort: u8, out: &mut Vec<u8>) -> PcoResult<()> {
    let config = ChunkConfig::default().with_compression_level(usize::from(effort));
    let file = FileCompressor::default();
    file.write_header(&mut *out)?;
    let mut chunk = file.chunk_compressor(numbers, &config)?;
    chunk.write_meta(&mut *out)?;
    chunk.write_page(0, out)?;
    Ok(())
}

/// Decodes a column and appends its `len` values. The column must fill `bytes`.
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
    let slots = out[start..].iter_mut().filter(|v| !v.is_nan());
    let exponent = first >> 4;
    if exponent == FLOATS {
        let values: Vec<f64> = decompress(rest, known)?;
        slots.zip(values).for_each(|(slot, value)| *slot = value);
    } else {
        let integers: Vec<i64> = decompress(rest, known)?;
        slots.zip(integers).for_each(|(slot, integer)| *slot = codec::to_value(integer, exponent));
    }
    Ok(())
}

fn decompress<T: Number>(bytes: &[u8], count: usize) -> Result<Vec<T>, Damaged> {
    let mut numbers = vec![T::default(); count];
    let read = || -> PcoResult<bool> {
        let (file, rest) = FileDecompressor::new(bytes)?;
        let (mut chunk, rest) = file.chunk_decompressor(rest)?;
        let mut page = chunk.page_decompressor(rest, count)?;
        let progress = page.read(&mut numbers)?;
        Ok(progress.n_processed == count && progress.finished)
    };
    match { read }() {
        Ok(true) => Ok(numbers),
        _ => Err(Damaged),
    }
}
