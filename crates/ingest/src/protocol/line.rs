//! The line protocol: `name value timestamp`, terminated by LF.

use memchr::{memchr, memrchr};

use super::compressed::Stream;
use super::compression::Compression;
use super::number;
use super::parser::{Context, Intake, MessageLimit, Protocol, Step, Talk, TcpProtocol};
use crate::reject::Reject;

/// Lines over TCP.
pub const TCP: TcpProtocol = TcpProtocol {
    name: "line",
    listen: "127.0.0.1:2003",
    limit: MessageLimit::LINE,
    is_compressible: true,
    talk: Talk::Stream(connect),
};

pub(super) fn connect(line_bytes_max: usize, compression: Compression) -> Box<dyn Protocol> {
    let lines = Lines::new(line_bytes_max);
    match compression {
        Compression::None => Box::new(lines),
        _ => Box::new(Stream::new(lines, compression)),
    }
}

/// A stream of lines.
#[derive(Debug)]
pub struct Lines {
    /// The start of a line whose end has not arrived yet.
    tail: Vec<u8>,
    /// Whether the position is in the middle of a line that is too long. The rest of that line is not kept.
    skipping: bool,
    line_bytes_max: usize,
}

impl Lines {
    /// A stream of lines of at most `line_bytes_max` bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self { tail: Vec::new(), skipping: false, line_bytes_max }
    }

    /// Appends to the unfinished line, or starts to skip it once it is too long.
    fn keep(&mut self, part: &[u8], intake: &mut Intake) {
        if self.skipping || part.is_empty() {
            return;
        }
        if self.tail.len() + part.len() > self.line_bytes_max {
            self.tail.extend_from_slice(&part[..part.len().min(256)]);
            intake.messages += 1;
            intake.tally.reject(Reject::LineTooLong, &self.tail);
            self.tail = Vec::new();
            self.skipping = true;
        } else {
            self.tail.extend_from_slice(part);
        }
    }

    /// Completes the line that an earlier chunk began.
    fn complete(&mut self, context: &Context<'_>, intake: &mut Intake) {
        if self.skipping {
            self.skipping = false;
            return;
        }
        one(&self.tail, self.line_bytes_max, context, intake);
        self.tail = Vec::new();
    }
}

impl Protocol for Lines {
    fn feed(&mut self, mut chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        if self.skipping || !self.tail.is_empty() {
            let Some(end) = memchr(b'\n', chunk) else {
                self.keep(chunk, intake);
                return Step::Read;
            };
            self.keep(&chunk[..end], intake);
            self.complete(context, intake);
            chunk = &chunk[end + 1..];
        }
        let whole = memrchr(b'\n', chunk).map_or(0, |end| end + 1);
        each(&chunk[..whole], self.line_bytes_max, context, intake);
        self.keep(&chunk[whole..], intake);
        Step::Read
    }

    fn again(&mut self, _: &Context<'_>, _: &mut Intake) -> Step {
        Step::Read
    }

    fn finish(&mut self, intake: &mut Intake) {
        if !trim(&self.tail).is_empty() {
            intake.messages += 1;
            intake.tally.reject(Reject::HalfLine, &self.tail);
        }
        *self = Self::new(self.line_bytes_max);
    }

    fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

/// Parses a datagram of lines. The last one needs no LF.
pub fn datagram(bytes: &[u8], line_bytes_max: usize, context: &Context<'_>, intake: &mut Intake) {
    each(bytes, line_bytes_max, context, intake);
}

fn each(mut bytes: &[u8], line_bytes_max: usize, context: &Context<'_>, intake: &mut Intake) {
    while !bytes.is_empty() {
        let end = memchr(b'\n', bytes).unwrap_or(bytes.len());
        one(&bytes[..end], line_bytes_max, context, intake);
        bytes = bytes.get(end + 1..).unwrap_or_default();
    }
}

#[inline]
fn one(line: &[u8], line_bytes_max: usize, context: &Context<'_>, intake: &mut Intake) {
    intake.messages += 1;
    let outcome =
        if line.len() > line_bytes_max { Err(Reject::LineTooLong) } else { parse(line, context, intake) };
    if let Err(reason) = outcome {
        intake.tally.reject(reason, line);
    }
}

#[inline]
fn parse(line: &[u8], context: &Context<'_>, intake: &mut Intake) -> Result<(), Reject> {
    let line = trim(line);
    if line.is_empty() {
        return Ok(());
    }
    let (rest, timestamp) = timestamp_field(line).or_else(|| last_field(line)).ok_or(Reject::Fields)?;
    let (name, value) = last_field(rest).ok_or(Reject::Fields)?;
    let too_many = || name.iter().any(|b| is_blank(*b)).then_some(Reject::Fields);
    // Rewrite rules could remove the blanks, but carbon counts the fields before it applies them.
    if context.relabel.is_some() && has_blank_field(name, context.names.blanks_in_tags) {
        return Err(Reject::Fields);
    }
    let value = number::value(value).ok_or(Reject::Value);
    let timestamp = number::timestamp(timestamp, context.now);
    match (value, timestamp) {
        (Ok(value), Ok(timestamp)) => match intake.offer(name, timestamp, value, context) {
            Err(Reject::NameControl) => Err(too_many().unwrap_or(Reject::NameControl)),
            outcome => outcome,
        },
        // If there is a field too many, the reason "value" would be misleading.
        (Err(reason), _) | (_, Err(reason)) => Err(too_many().unwrap_or(reason)),
    }
}

/// Whether the name contains a blank. Blanks in tags do not count if they are allowed.
fn has_blank_field(name: &[u8], blanks_in_tags: bool) -> bool {
    let tags = memchr(b';', name).filter(|_| blanks_in_tags);
    name[..tags.unwrap_or(name.len())].iter().any(|b| is_blank(*b))
}

/// Fast path of [`last_field`] for the usual case: a blank followed by ten bytes.
#[inline]
fn timestamp_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, field) = line.split_last_chunk::<11>()?;
    let (blank, field) = field.split_first()?;
    (is_blank(*blank) && !field.iter().any(|b| is_blank(*b))).then(|| (trim_end(head), field))
}

/// Splits off the last field. The blanks before it are dropped.
#[inline]
fn last_field(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().rposition(|b| is_blank(*b))?;
    Some((trim_end(&text[..at]), &text[at + 1..]))
}

#[inline]
fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// Removes surrounding blanks, and the CR of senders that terminate lines with CR LF.
#[inline]
fn trim(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., b' ' | b'\t' | b'\r'] = line {
        line = rest;
    }
    while let [b' ' | b'\t' | b'\r', rest @ ..] = line {
        line = rest;
    }
    line
}

#[inline]
fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

#[cfg(test)]
mod tests;
