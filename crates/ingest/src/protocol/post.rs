//! The bodies of HTTP POST, as go-carbon's receiver takes them: lines, a pickle, or a protobuf message.

use super::frame::{Cursor, Decode};
use super::line::Lines;
use super::parser::{Context, Intake, MessageLimit, Protocol, Step, Talk, TcpProtocol};
use super::pickle::Pickle;
use super::protobuf::Protobuf;

/// Requests over HTTP. Off by default; the customary port is 2007.
pub const TCP: TcpProtocol = TcpProtocol {
    name: "http",
    listen: "",
    limit: MessageLimit::BODY,
    is_compressible: false,
    talk: Talk::Http,
};

/// Number of bytes of lines that are parsed before their points are pushed.
const STEP_BYTES: usize = 256 << 10;

/// What a body contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Lines. The last one needs no LF.
    Lines,
    /// One pickle, without a length in front.
    Pickle,
    /// One protobuf message, without a length in front.
    Protobuf,
}

impl Content {
    /// The content that a header `Content-Type` announces.
    pub fn of(content_type: &str) -> Self {
        match content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/python-pickle" => Self::Pickle,
            "application/protobuf" | "application/x-protobuf" => Self::Protobuf,
            _ => Self::Lines,
        }
    }
}

/// The parser of one body.
pub struct Posted<'a> {
    rest: &'a [u8],
    kind: Kind,
}

enum Kind {
    Lines(Lines),
    Frame(Box<dyn Decode>, Cursor),
}

impl<'a> Posted<'a> {
    /// The parser of `body`. The limit on its lines is the default limit of the other listeners.
    pub fn new(content: Content, body: &'a [u8]) -> Self {
        let kind = match content {
            Content::Lines => Kind::Lines(Lines::new(MessageLimit::LINE.default as usize)),
            Content::Pickle => Kind::Frame(Box::new(Pickle), Cursor::default()),
            Content::Protobuf => Kind::Frame(Box::new(Protobuf), Cursor::default()),
        };
        Self { rest: body, kind }
    }

    /// Parses the next part. Returns false at the end of the body.
    pub fn part(&mut self, context: &Context<'_>, intake: &mut Intake) -> bool {
        match &mut self.kind {
            Kind::Lines(lines) => {
                let (part, rest) = self.rest.split_at(self.rest.len().min(STEP_BYTES));
                self.rest = rest;
                let step = lines.feed(part, context, intake);
                debug_assert_eq!(step, Step::Read, "lines are always read at once");
                if rest.is_empty() && part.last().is_some_and(|last| *last != b'\n') {
                    lines.feed(b"\n", context, intake);
                }
                !rest.is_empty()
            }
            Kind::Frame(decoder, cursor) => {
                if *cursor == Cursor::default() {
                    intake.messages += 1;
                }
                let next = decoder.decode(self.rest, *cursor, context, intake);
                *cursor = next.unwrap_or_default();
                next.is_some()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::NameOptions;

    fn parsed(content: Content, body: &[u8]) -> (Vec<String>, u64) {
        let context = Context { now: 1_700_000_000, names: NameOptions::default(), relabel: None };
        let (mut names, mut refused) = (Vec::new(), 0);
        let mut posted = Posted::new(content, body);
        loop {
            let mut intake = Intake::default();
            let more = posted.part(&context, &mut intake);
            names.extend(intake.points.points().iter().map(|point| intake.points.name(point).to_owned()));
            refused += intake.tally.total();
            if !more {
                return (names, refused);
            }
        }
    }

    #[test]
    fn the_type_says_what_a_body_contains() {
        for (text, content) in [
            ("", Content::Lines),
            ("text/plain; charset=utf-8", Content::Lines),
            ("application/x-www-form-urlencoded", Content::Lines),
            ("application/python-pickle", Content::Pickle),
            ("Application/Protobuf; proto=carbon", Content::Protobuf),
        ] {
            assert_eq!(Content::of(text), content, "{text}");
        }
    }

    #[test]
    fn bodies_of_all_kinds() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let lines = b"a 1 1700000000\nbad\n\nb 2 1700000000\r\nc 3 -1";
        assert_eq!(parsed(Content::Lines, lines), (names(&["a", "b", "c"]), 1));
        assert_eq!(parsed(Content::Lines, b""), (vec![], 0));
        let pickle = b"(l(S'a'\n(L1700000003L\nS'5.5'\ntta.";
        assert_eq!(parsed(Content::Pickle, pickle), (names(&["a"]), 0));
        assert_eq!(parsed(Content::Pickle, &pickle[..20]), (vec![], 1));
        let message = b"\x0a\x16\x0a\x03a.b\x12\x0f\x08\x80\xe2\xcf\xaa\x06\x11\0\0\0\0\0\0\xf8\x3f";
        assert_eq!(parsed(Content::Protobuf, message), (names(&["a.b"]), 0));
        assert_eq!(parsed(Content::Protobuf, b""), (vec![], 1));
    }

    #[test]
    fn large_bodies_come_in_parts() {
        let lines = (0..40_000).map(|i| format!("some.name{i} 1 1700000000\n")).collect::<String>();
        let (names, refused) = parsed(Content::Lines, lines.as_bytes());
        assert_eq!((names.len(), refused), (40_000, 0));
        let item = |i: usize| format!("(S'{}.{i}'\n(I1700000000\nI1\ntta", "n".repeat(60));
        let pickle = format!("(l{}.", (0..20_000).map(item).collect::<String>());
        let (names, refused) = parsed(Content::Pickle, pickle.as_bytes());
        assert_eq!((names.len(), refused), (20_000, 0));
    }

    proptest! {
        #[test]
        fn any_body_is_parsed_or_counted(body in prop::collection::vec(any::<u8>(), 0..300)) {
            for content in [Content::Lines, Content::Pickle, Content::Protobuf] {
                parsed(content, &body);
            }
        }
    }
}
