//! Compresses columns of values without loss.
//!
//! Most values are short decimals: counters, percentages, sizes in bytes. So a column is scaled by the
//! smallest power of ten at which all values are integers. The integers are packed as offsets from the
//! smallest one, or as differences, at the width of the widest. Values that are not short decimals are packed
//! by their bits, or by XOR with the previous value if values repeat. NaN is an unknown slot. Presence costs
//! one bit per slot, or nothing if the known slots are contiguous.
//!
//! The first byte of a column: bits 0–1 are the [`Scheme`], 2–3 the presence, 4–7 the exponent ([`RAW_BITS`]
//! means that the integers are the bits of floats). Numbers are little-endian; bits are filled from the low
//! end.

mod bits;

use bits::{BitReader, BitWriter, read_varint, unzigzag, varint_len, write_varint, zigzag};

/// This exponent says that the integers are the bits of the values.
const RAW_BITS: u8 = 15;
const EXPONENT_MAX: u8 = 14;

const POWERS: [f64; 15] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14];

/// Above this limit a scaled value may be off by half an integer or more.
const SCALED_MAX: f64 = (1_u64 << 50) as f64;
/// Adding this number leaves the nearest integer in the low bits of the mantissa.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

const FULL: u8 = 0;
const ONE_RUN: u8 = 1;
const BITMAP: u8 = 2;
const NOTHING: u8 = 3;

/// A flag in the byte of the width: the next byte is a shift.
const SHIFTED: u8 = 0x80;

/// How the known values are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    /// Offsets from the smallest integer, all of one width.
    Offsets = 0,
    /// Differences of neighbours, as offsets from the smallest difference.
    Deltas = 1,
    /// XOR with the previous value; used for the bits of floats that repeat.
    Xor = 2,
}

/// The bytes are not a column of the requested length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the column of values is damaged")]
pub struct CodecError;

/// Appends the column of `values` to `out`. NaN is an unknown slot. Allocates only in `out`.
pub fn encode(values: &[f64], out: &mut Vec<u8>) {
    let known = || values.iter().copied().filter(|v| !v.is_nan());
    let Some(first) = known().next() else {
        out.push(NOTHING << 2);
        return;
    };
    let header = out.len();
    out.push(0);
    let presence = write_presence(values, out);
    let (scheme, exponent) = match exponent_of(known()) {
        Some(0) => (write_integers(|| known().map(|v| v as i64), 0, out), 0),
        Some(e) => (write_integers(|| known().map(|v| scaled(v, e)), e, out), e),
        None => (write_bits(known, first, out), RAW_BITS),
    };
    out[header] = scheme as u8 | presence << 2 | exponent << 4;
}

/// The smallest power of ten, up to 14, at which all known values are integers and scaling back gives the
/// same bits. `None` if there is none. Used by formats that store integers in less space than floats.
pub fn exponent(values: &[f64]) -> Option<u8> {
    exponent_of(values.iter().copied().filter(|v| !v.is_nan()))
}

/// The integer of a value at its column's [`exponent`].
#[inline]
pub fn to_integer(value: f64, exponent: u8) -> i64 {
    if exponent == 0 { value as i64 } else { scaled(value, exponent) }
}

/// The value of an integer at its column's [`exponent`].
#[inline]
pub fn to_value(integer: i64, exponent: u8) -> f64 {
    match exponent {
        0 => integer as f64,
        RAW_BITS => f64::from_bits(integer as u64),
        _ => integer as f64 / POWERS[usize::from(exponent.min(EXPONENT_MAX))],
    }
}

/// Appends the `len` values of a column to `out`, and returns the length of the column in bytes.
///
/// # Errors
///
/// Returns [`CodecError`] if the bytes are damaged, or if the column has another length. `out` is unchanged
/// then.
pub fn decode(bytes: &[u8], len: usize, out: &mut Vec<f64>) -> Result<usize, CodecError> {
    let before = out.len();
    let result = decode_column(bytes, len, out);
    if result.is_err() {
        out.truncate(before);
    }
    result
}

fn decode_column(bytes: &[u8], len: usize, out: &mut Vec<f64>) -> Result<usize, CodecError> {
    let mut input = bytes;
    let header = take_byte(&mut input)?;
    let presence = header >> 2 & 3;
    let start = out.len();
    if presence == NOTHING {
        out.resize(start + len, f64::NAN);
        return Ok(1);
    }
    let (skip, known, bitmap) = read_presence(presence, len, &mut input)?;
    out.reserve(len);
    out.resize(start + skip, f64::NAN);
    match (header & 3, header >> 4) {
        (2, _) => read_xor(&mut input, known, out)?,
        (scheme @ (0 | 1), exponent) => read_integers(&mut input, known, scheme == 1, exponent, out)?,
        _ => return Err(CodecError),
    }
    out.resize(start + len, f64::NAN);
    if let Some(bitmap) = bitmap {
        spread(&mut out[start..], known, bitmap);
    }
    Ok(bytes.len() - input.len())
}

/// Moves the known values from the front to their slots, the last one first.
fn spread(slots: &mut [f64], known: usize, bitmap: &[u8]) {
    let mut from = known;
    for to in (0..slots.len()).rev() {
        if bitmap[to / 8] & 1 << (to % 8) != 0 {
            from -= 1;
            slots[to] = slots[from];
        } else {
            slots[to] = f64::NAN;
        }
    }
}

fn write_presence(values: &[f64], out: &mut Vec<u8>) -> u8 {
    let known = values.iter().filter(|v| !v.is_nan()).count();
    if known == values.len() {
        return FULL;
    }
    let skip = values.iter().take_while(|v| v.is_nan()).count();
    if values[skip..skip + known].iter().all(|v| !v.is_nan()) {
        write_varint(skip as u64, out);
        write_varint(known as u64, out);
        return ONE_RUN;
    }
    for slots in values.chunks(8) {
        out.push(slots.iter().enumerate().fold(0, |byte, (i, v)| byte | u8::from(!v.is_nan()) << i));
    }
    BITMAP
}

/// The number of unknown slots at the front, the number of known slots, and a bitmap if the known slots are
/// scattered.
type Presence<'a> = (usize, usize, Option<&'a [u8]>);

fn read_presence<'a>(kind: u8, len: usize, input: &mut &'a [u8]) -> Result<Presence<'a>, CodecError> {
    match kind {
        FULL => Ok((0, len, None)),
        ONE_RUN => {
            let skip = read_varint(input).ok_or(CodecError)?;
            let known = read_varint(input).ok_or(CodecError)?;
            let fits = skip.checked_add(known).is_some_and(|end| end <= len as u64);
            if fits { Ok((skip as usize, known as usize, None)) } else { Err(CodecError) }
        }
        _ => {
            let (bitmap, rest) = input.split_at_checked(len.div_ceil(8)).ok_or(CodecError)?;
            *input = rest;
            let known: u32 = bitmap.iter().map(|b| b.count_ones()).sum();
            let beyond = !len.is_multiple_of(8) && bitmap[len / 8] >> (len % 8) != 0;
            if beyond { Err(CodecError) } else { Ok((0, known as usize, Some(bitmap))) }
        }
    }
}

/// The smallest power of ten at which all values are integers and scaling back gives the same bits.
fn exponent_of(known: impl Iterator<Item = f64>) -> Option<u8> {
    let mut exponent = 0;
    let mut largest: f64 = 0.0;
    for value in known {
        while !is_exact(value, exponent) {
            exponent += 1;
            if exponent > EXPONENT_MAX {
                return None;
            }
        }
        largest = largest.max(value.abs());
    }
    // A value that was exact at a smaller exponent stays exact while it is below the limit.
    let fits = exponent == 0 || largest * POWERS[exponent as usize] < SCALED_MAX;
    fits.then_some(exponent)
}

#[inline]
fn is_exact(value: f64, exponent: u8) -> bool {
    if exponent == 0 {
        return (value as i64 as f64).to_bits() == value.to_bits();
    }
    let power = POWERS[exponent as usize];
    (value * power).abs() < SCALED_MAX
        && (scaled(value, exponent) as f64 / power).to_bits() == value.to_bits()
}

/// The value scaled by a power of ten and rounded to the nearest integer.
#[inline]
fn scaled(value: f64, exponent: u8) -> i64 {
    ((value * POWERS[exponent as usize] + ROUNDER).to_bits() as i64).wrapping_sub(ROUNDER.to_bits() as i64)
}

/// Properties of a column of integers, found in one pass.
struct Shape {
    count: usize,
    first: i64,
    min: i64,
    max: i64,
    min_delta: i64,
    max_delta: i64,
    /// The number of low bits in which all integers agree.
    shift: u32,
}

impl Shape {
    fn of(integers: impl Iterator<Item = i64>) -> Self {
        let mut shape = Self {
            count: 0,
            first: 0,
            min: i64::MAX,
            max: i64::MIN,
            min_delta: i64::MAX,
            max_delta: i64::MIN,
            shift: 0,
        };
        let mut last = 0_i64;
        let mut differ = 0;
        for integer in integers {
            if shape.count == 0 {
                shape.first = integer;
            } else {
                let delta = integer.wrapping_sub(last);
                shape.min_delta = shape.min_delta.min(delta);
                shape.max_delta = shape.max_delta.max(delta);
                differ |= integer ^ shape.first;
            }
            shape.min = shape.min.min(integer);
            shape.max = shape.max.max(integer);
            last = integer;
            shape.count += 1;
        }
        shape.shift = if differ == 0 { 0 } else { differ.trailing_zeros() };
        if shape.count < 2 {
            (shape.min_delta, shape.max_delta) = (0, 0);
        }
        shape
    }

    fn offset_width(&self) -> u32 {
        width(self.max.wrapping_sub(self.min) as u64 >> self.shift)
    }

    fn delta_width(&self) -> u32 {
        width(self.max_delta.wrapping_sub(self.min_delta) as u64 >> self.shift)
    }

    fn offset_bytes(&self, exponent: u8) -> usize {
        base_len(self.min, exponent) + (self.count * self.offset_width() as usize).div_ceil(8)
    }

    fn delta_bytes(&self, exponent: u8) -> usize {
        base_len(self.first, exponent)
            + base_len(self.min_delta, exponent)
            + ((self.count - 1) * self.delta_width() as usize).div_ceil(8)
    }
}

fn width(range: u64) -> u32 {
    64 - range.leading_zeros()
}

/// Bits of floats use all eight bytes, decimals rarely do.
fn base_len(base: i64, exponent: u8) -> usize {
    if exponent == RAW_BITS { 8 } else { varint_len(zigzag(base)) }
}

fn write_base(base: i64, exponent: u8, out: &mut Vec<u8>) {
    if exponent == RAW_BITS {
        out.extend_from_slice(&base.to_le_bytes());
    } else {
        write_varint(zigzag(base), out);
    }
}

fn write_integers<I: Iterator<Item = i64>>(
    integers: impl Fn() -> I,
    exponent: u8,
    out: &mut Vec<u8>,
) -> Scheme {
    let shape = Shape::of(integers());
    write_shaped(&shape, integers(), exponent, out)
}

fn write_shaped(
    shape: &Shape,
    mut integers: impl Iterator<Item = i64>,
    exponent: u8,
    out: &mut Vec<u8>,
) -> Scheme {
    let deltas = shape.delta_bytes(exponent) < shape.offset_bytes(exponent);
    let width = if deltas { shape.delta_width() } else { shape.offset_width() };
    let shift = if width == 0 { 0 } else { shape.shift };
    out.push(width as u8 | if shift > 0 { SHIFTED } else { 0 });
    if shift > 0 {
        out.push(shift as u8);
    }
    if deltas {
        write_base(shape.first, exponent, out);
        write_base(shape.min_delta, exponent, out);
        integers.next();
        let mut last = shape.first;
        let offsets = integers.map(|integer| {
            let delta = integer.wrapping_sub(last);
            last = integer;
            delta.wrapping_sub(shape.min_delta) as u64 >> shift
        });
        pack(offsets, width, out);
        Scheme::Deltas
    } else {
        write_base(shape.min, exponent, out);
        pack(integers.map(|i| i.wrapping_sub(shape.min) as u64 >> shift), width, out);
        Scheme::Offsets
    }
}

fn pack(numbers: impl Iterator<Item = u64>, width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let mut writer = BitWriter::new(out);
    numbers.for_each(|n| writer.write(n, width));
    writer.finish();
}

fn write_bits<I: Iterator<Item = f64>>(known: impl Fn() -> I, first: f64, out: &mut Vec<u8>) -> Scheme {
    let integers = || known().map(|v| v.to_bits() as i64);
    let shape = Shape::of(integers());
    let packed = 2 + shape.offset_bytes(RAW_BITS).min(shape.delta_bytes(RAW_BITS));
    let start = out.len();
    // XOR can only win if values repeat.
    let repeats = known().zip(known().skip(1)).any(|(a, b)| a.to_bits() == b.to_bits());
    if repeats && shape.offset_width() > 0 {
        write_xor(known(), first, out);
        if out.len() - start < packed {
            return Scheme::Xor;
        }
        out.truncate(start);
    }
    write_shaped(&shape, integers(), RAW_BITS, out)
}

/// Writes the values after the first one: a `0` bit for the same value again; otherwise `1`, the number of
/// leading zeros (six bits), the number of differing bits minus one (six bits), and the differing bits.
fn write_xor(mut known: impl Iterator<Item = f64>, first: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&first.to_le_bytes());
    known.next();
    let mut last = first.to_bits();
    let mut writer = BitWriter::new(out);
    for value in known {
        let differ = value.to_bits() ^ last;
        last = value.to_bits();
        if differ == 0 {
            writer.write(0, 1);
            continue;
        }
        let (leading, trailing) = (differ.leading_zeros(), differ.trailing_zeros());
        let len = 64 - leading - trailing;
        writer.write(1 | u64::from(leading) << 1 | u64::from(len - 1) << 7, 13);
        writer.write(differ >> trailing, len);
    }
    writer.finish();
}

fn read_xor(input: &mut &[u8], known: usize, out: &mut Vec<f64>) -> Result<(), CodecError> {
    if known == 0 {
        return Err(CodecError);
    }
    let mut last = u64::from_le_bytes(take(input)?);
    out.push(f64::from_bits(last));
    let mut reader = BitReader::new(input);
    for _ in 1..known {
        if reader.read(1).ok_or(CodecError)? == 1 {
            let leading = reader.read(6).ok_or(CodecError)? as u32;
            let len = reader.read(6).ok_or(CodecError)? as u32 + 1;
            let trailing = 64_u32.checked_sub(leading + len).ok_or(CodecError)?;
            last ^= reader.read(len).ok_or(CodecError)? << trailing;
        }
        out.push(f64::from_bits(last));
    }
    *input = reader.rest();
    Ok(())
}

fn read_integers(
    input: &mut &[u8],
    known: usize,
    deltas: bool,
    exponent: u8,
    out: &mut Vec<f64>,
) -> Result<(), CodecError> {
    let width_byte = take_byte(input)?;
    let width = u32::from(width_byte & !SHIFTED);
    let shift = if width_byte & SHIFTED != 0 { u32::from(take_byte(input)?) } else { 0 };
    if shift > 63 || width + shift > 64 || known == 0 {
        return Err(CodecError);
    }
    let base = read_base(input, exponent)?;
    let min_delta = if deltas { read_base(input, exponent)? } else { 0 };
    let packed = known - usize::from(deltas);
    let len = packed.checked_mul(width as usize).ok_or(CodecError)?.div_ceil(8);
    let (bytes, rest) = input.split_at_checked(len).ok_or(CodecError)?;
    *input = rest;

    let mut integer = base;
    if deltas {
        out.push(to_value(base, exponent));
    }
    let step = |offset: u64| {
        if deltas {
            integer = integer.wrapping_add(min_delta.wrapping_add((offset << shift) as i64));
            integer
        } else {
            base.wrapping_add((offset << shift) as i64)
        }
    };
    let offsets = bits::unpack(bytes, packed, width).map(step);
    match exponent {
        0 => out.extend(offsets.map(|i| i as f64)),
        RAW_BITS => out.extend(offsets.map(|i| f64::from_bits(i as u64))),
        _ => {
            let power = POWERS[exponent as usize];
            out.extend(offsets.map(|i| i as f64 / power));
        }
    }
    Ok(())
}

fn read_base(input: &mut &[u8], exponent: u8) -> Result<i64, CodecError> {
    if exponent == RAW_BITS {
        take(input).map(i64::from_le_bytes)
    } else {
        read_varint(input).map(unzigzag).ok_or(CodecError)
    }
}

fn take_byte(input: &mut &[u8]) -> Result<u8, CodecError> {
    take::<1>(input).map(|[byte]| byte)
}

fn take<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], CodecError> {
    let (head, rest) = input.split_first_chunk().ok_or(CodecError)?;
    *input = rest;
    Ok(*head)
}

#[cfg(test)]
mod tests;
