//! The forms in which points are sent.

use std::io::Write;

use super::names::{self, Shape};

/// A protocol for points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Graphite's lines.
    Line,
    /// OpenTSDB's and KairosDB's lines (`put`).
    Put,
    /// Requests to KairosDB's `/api/v1/datapoints`.
    Datapoints,
    /// Requests to OpenTSDB's `/api/put`.
    ApiPut,
}

impl Protocol {
    /// The path of its requests; `None` for lines.
    pub(crate) fn path(self) -> Option<&'static str> {
        match self {
            Self::Line | Self::Put => None,
            Self::Datapoints => Some("/api/v1/datapoints"),
            Self::ApiPut => Some("/api/put"),
        }
    }

    /// Appends the part of a point before the first of its two numbers. Except with Graphite's lines, a metric has
    /// three tags instead of the first components of its name.
    pub(crate) fn write_head(self, out: &mut Vec<u8>, shape: Shape, prefix: &str, number: usize) {
        if self == Self::Line {
            names::write(out, shape, prefix, number);
            out.push(b' ');
            return;
        }
        let names::Tagged { metric, tags } = names::tagged(shape, prefix, number);
        // Writing to a vector cannot fail.
        let _ = match self {
            Self::Put => write!(out, "put {metric} "),
            _ => write!(
                out,
                "{{\"{}\":\"{metric}\",\"tags\":{{",
                if self == Self::ApiPut { "metric" } else { "name" }
            ),
        };
        if self == Self::Put {
            return;
        }
        for (at, (tag, value)) in tags.iter().enumerate() {
            let _ = write!(out, "{}\"{tag}\":\"{value}\"", if at == 0 { "" } else { "," });
        }
        let _ = match self {
            Self::ApiPut => out.write_all(b"},\"timestamp\":"),
            _ => out.write_all(b"},\"datapoints\":[["),
        };
    }

    /// Appends the part of a point after its two numbers.
    pub(crate) fn write_tail(self, out: &mut Vec<u8>, shape: Shape, prefix: &str, number: usize) {
        match self {
            Self::Line => out.push(b'\n'),
            Self::Put => {
                for (tag, value) in names::tagged(shape, prefix, number).tags {
                    let _ = write!(out, " {tag}={value}");
                }
                out.push(b'\n');
            }
            Self::Datapoints => out.extend_from_slice(b"]]}"),
            Self::ApiPut => out.push(b'}'),
        }
    }

    /// Appends the two numbers of a point.
    pub(crate) fn write_numbers(self, out: &mut Vec<u8>, time: u32, value: impl FnOnce(&mut Vec<u8>)) {
        let mut buffer = itoa::Buffer::new();
        let between: &[u8] = match self {
            Self::Line => {
                value(out);
                out.push(b' ');
                out.extend_from_slice(buffer.format(time).as_bytes());
                return;
            }
            Self::Put => b" ",
            Self::Datapoints => b"000,",
            Self::ApiPut => b",\"value\":",
        };
        out.extend_from_slice(buffer.format(time).as_bytes());
        out.extend_from_slice(between);
        value(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_have_the_form_of_their_protocol() {
        for (protocol, expected) in [
            (Protocol::Line, "x.servers.eu-west-1.frontend.frontend-00000.cpu.total.user 1.5 60\n"),
            (
                Protocol::Put,
                "put x.cpu.total.user 60 1.5 region=eu-west-1 role=frontend host=frontend-00000\n",
            ),
            (
                Protocol::Datapoints,
                r#"{"name":"x.cpu.total.user","tags":{"region":"eu-west-1","role":"frontend","host":"frontend-00000"},"datapoints":[[60000,1.5]]}"#,
            ),
            (
                Protocol::ApiPut,
                r#"{"metric":"x.cpu.total.user","tags":{"region":"eu-west-1","role":"frontend","host":"frontend-00000"},"timestamp":60,"value":1.5}"#,
            ),
        ] {
            let mut out = Vec::new();
            protocol.write_head(&mut out, Shape::Mixed, "x.", 0);
            protocol.write_numbers(&mut out, 60, |out| out.extend_from_slice(b"1.5"));
            protocol.write_tail(&mut out, Shape::Mixed, "x.", 0);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
