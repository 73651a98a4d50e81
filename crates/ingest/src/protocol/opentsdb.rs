//! The lines of port 4242, as KairosDB and OpenTSDB take them: `put metric time value tag=value`. A bad line is
//! answered with one line, as OpenTSDB does, and a good one with nothing.

use memchr::memchr;
use plumbago_kairosdb::VERSION;
use plumbago_kairosdb::opentsdb::{Line, LineFault, Lines, Put};

use super::compression::Compression;
use super::parser::{Context, Intake, MessageLimit, Protocol, Step, Talk, TcpProtocol};
use crate::reject::{Reject, reject_of};

/// Lines and requests on one port. Off by default; the customary port is 4242.
pub const TCP: TcpProtocol = TcpProtocol {
    name: "opentsdb",
    listen: "",
    limit: MessageLimit::LINE,
    is_compressible: false,
    talk: Talk::LinesOrHttp(connect),
};

const HELP: &str = "available commands: put putm version stats help exit";

fn connect(line_bytes_max: usize, _: Compression) -> Box<dyn Protocol> {
    Box::new(OpenTsdb::new(line_bytes_max))
}

/// The lines of one connection.
#[derive(Debug)]
pub struct OpenTsdb {
    lines: Lines,
    /// The start of a line whose end has not arrived yet.
    tail: Vec<u8>,
    /// Whether the position is in the middle of a line that is too long. The rest of that line is not kept.
    skipping: bool,
    line_bytes_max: usize,
    taken: u64,
    refused: u64,
}

impl OpenTsdb {
    /// A connection whose lines have at most `line_bytes_max` bytes.
    pub fn new(line_bytes_max: usize) -> Self {
        Self {
            lines: Lines::default(),
            tail: Vec::new(),
            skipping: false,
            line_bytes_max,
            taken: 0,
            refused: 0,
        }
    }

    /// Appends to the unfinished line, or starts to skip it once it is too long.
    fn keep(&mut self, part: &[u8], intake: &mut Intake) {
        if self.skipping {
            return;
        }
        if self.tail.len() + part.len() > self.line_bytes_max {
            intake.messages += 1;
            self.refuse(
                &part[..part.len().min(256)],
                Reject::LineTooLong,
                "put: the line is too long",
                intake,
            );
            self.tail = Vec::new();
            self.skipping = true;
        } else {
            self.tail.extend_from_slice(part);
        }
    }

    fn refuse(&mut self, line: &[u8], reason: Reject, answer: &str, intake: &mut Intake) {
        self.refused += 1;
        intake.tally.reject(reason, line);
        intake.answer(answer);
    }

    fn line(&mut self, line: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        intake.messages += 1;
        if line.len() > self.line_bytes_max {
            self.refuse(line, Reject::LineTooLong, "put: the line is too long", intake);
            return Step::Read;
        }
        let Ok(text) = str::from_utf8(line) else {
            self.refuse(line, Reject::Encoding, "put: illegal argument: the line is not UTF-8", intake);
            return Step::Read;
        };
        match self.lines.read(text) {
            Ok(Line::Put(put)) => self.put(put, line, context, intake),
            Ok(Line::Empty) => {}
            Ok(Line::Version) => intake.answer(VERSION),
            Ok(Line::Help) => intake.answer(HELP),
            Ok(Line::Stats) => self.stats(context, intake),
            Ok(Line::Exit) => return Step::End,
            Err(LineFault { reason, answer }) => self.refuse(line, reject_of(reason), &answer, intake),
        }
        Step::Read
    }

    #[inline]
    fn put(&mut self, put: Put, line: &[u8], context: &Context<'_>, intake: &mut Intake) {
        match intake.offer_series(self.lines.name(), put.timestamp, put.value, context) {
            Ok(()) => {
                self.taken += 1;
                intake.losses.cut += u64::from(put.is_cut);
                intake.losses.with_ttl += u64::from(put.has_ttl);
                intake.losses.rounded += u64::from(put.is_rounded);
            }
            // The operator wants these points to be dropped, so the sender is not informed.
            Err(reason @ (Reject::Blacklist | Reject::Whitelist)) => intake.tally.reject(reason, line),
            Err(reason) => {
                self.refuse(line, reason, &format!("put: illegal argument: refused ({reason})"), intake);
            }
        }
    }

    /// The counters of the connection, in OpenTSDB's form.
    fn stats(&self, context: &Context<'_>, intake: &mut Intake) {
        for (name, count) in [("taken", self.taken), ("refused", self.refused)] {
            intake.answer(&format!("plumbago.connection.points {} {count} became={name}", context.now));
        }
    }
}

impl Protocol for OpenTsdb {
    fn feed(&mut self, mut chunk: &[u8], context: &Context<'_>, intake: &mut Intake) -> Step {
        while let Some(end) = memchr(b'\n', chunk) {
            let (line, rest) = (&chunk[..end], &chunk[end + 1..]);
            let step = if self.skipping {
                self.skipping = false;
                Step::Read
            } else if self.tail.is_empty() {
                self.line(line, context, intake)
            } else {
                self.keep(line, intake);
                let whole = std::mem::take(&mut self.tail);
                if std::mem::take(&mut self.skipping) {
                    Step::Read
                } else {
                    self.line(&whole, context, intake)
                }
            };
            if step != Step::Read {
                return step;
            }
            chunk = rest;
        }
        if !chunk.is_empty() {
            self.keep(chunk, intake);
        }
        Step::Read
    }

    fn again(&mut self, _: &Context<'_>, _: &mut Intake) -> Step {
        Step::Read
    }

    fn finish(&mut self, intake: &mut Intake) {
        if !self.tail.trim_ascii().is_empty() {
            intake.messages += 1;
            intake.tally.reject(Reject::HalfLine, &self.tail);
        }
        self.tail = Vec::new();
    }

    fn held_bytes(&self) -> usize {
        self.tail.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::NameOptions;

    /// Points, answers, refusals and the last step of chunks.
    fn feed(chunks: &[&str]) -> (Vec<String>, String, u64, Step) {
        let context = Context { now: 1_700_000_000, names: NameOptions::default(), relabel: None };
        let (mut protocol, mut intake) = (OpenTsdb::new(64), Intake::default());
        let mut step = Step::Read;
        for chunk in chunks {
            step = protocol.feed(chunk.as_bytes(), &context, &mut intake);
        }
        protocol.finish(&mut intake);
        let points = intake.points.points().iter();
        let points =
            points.map(|p| format!("{} {} {}", intake.points.name(p), p.timestamp, p.value)).collect();
        let answers = String::from_utf8(std::mem::take(&mut intake.answers)).unwrap();
        (points, answers, intake.tally.total(), step)
    }

    #[test]
    fn good_lines_are_silent_and_bad_ones_answered() {
        let (points, answers, refused, step) = feed(&[
            "put a 15 1 h=a\nput a 16",
            " 2 h=a\r\n\nput a x 1\nversion\nfoo\nput b 1 2\nexit\nput c 1 1\n",
        ]);
        assert_eq!(points, ["a;h=a 15 1", "a;h=a 16 2", "b 1 2"]);
        assert_eq!((refused, step), (2, Step::End));
        let answers: Vec<_> = answers.lines().collect();
        assert_eq!(answers.len(), 3);
        assert!(answers[0].starts_with("put: illegal argument: invalid timestamp: x"), "{answers:?}");
        assert!(answers[1].starts_with("KairosDB"), "{answers:?}");
        assert_eq!(answers[2], "unknown command: foo.  Try `help'.");
    }

    proptest::proptest! {
        #[test]
        fn chunks_do_not_matter(text in "(put[ms]? [a-z;~.=]{0,9} [0-9.]{0,12} [0-9.e-]{0,5}( [a-z=;]{0,5}){0,3}\r?\n|exit\n|\\PC{0,80}\n){0,6}") {
            crate::fuzzing::opentsdb(text.as_bytes());
        }
    }

    #[test]
    fn long_and_half_lines() {
        let long = format!("put {} 1 1 h=a\n", "n".repeat(100));
        let (points, answers, refused, _) =
            feed(&[&long[..50], &long[50..], "put a 1 1\n", &long, "put b 1"]);
        assert_eq!((points.len(), refused), (1, 3));
        assert_eq!(answers.lines().count(), 2);
    }
}
