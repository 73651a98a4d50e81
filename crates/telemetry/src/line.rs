//! The text of a log line: the message, then `key=value` for each field. An error is written with its causes,
//! without repetitions. Whatever a field contains, the result is always a single line.

use std::error::Error;
use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes the fields of log events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line { writer, is_empty: true, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct Line<W> {
    writer: W,
    is_empty: bool,
    result: fmt::Result,
}

impl<W: Write> Line<W> {
    fn field(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        if self.result.is_err() {
            return;
        }
        let space = if self.is_empty { "" } else { " " };
        self.is_empty = false;
        let text = clean(&text.to_string());
        self.result = match field.name() {
            "message" => write!(self.writer, "{space}{text}"),
            name => write!(self.writer, "{space}{}={text}", name.trim_start_matches("r#")),
        };
    }
}

impl<W: Write> Visit for Line<W> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.field(field, format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.field(field, format_args!("{value}")),
            _ => self.field(field, format_args!("{value:?}")),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.field(field, format_args!("{:?}", with_causes(value)));
    }
}

/// An error with its causes, as `what: why: why`. A cause that is already contained in the text before it is
/// left out, because many errors of libraries repeat their causes.
pub fn with_causes(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// Replaces each line break, with the blanks around it, by ` | `, and writes other control characters as escapes.
fn clean(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_owned();
    }
    let parts = text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty());
    let line = parts.collect::<Vec<_>>().join(" | ");
    let escape = |c: char| if c.is_control() { c.escape_default().collect() } else { c.to_string() };
    line.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// An error that repeats its cause, as those of many libraries do.
    #[derive(Debug)]
    struct Outer(fmt::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "cannot open the door: {}", self.0)
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line_and_says_each_cause_once() {
        let written = Written::default();
        let writer = written.clone();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(Fields)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let error = Outer(fmt::Error);
            tracing::warn!(error = &error as &dyn Error, name = "a\nb", count = 3, "not\n  opened\x1b[1m");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let expected = format!(
            " WARN not | opened\\u{{1b}}[1m error=\"cannot open the door: {}\" name=\"a\\nb\" count=3\n",
            fmt::Error
        );
        assert_eq!(text, expected);
    }
}
