//! Carbon's pickle protocol: frames with a list of `(name, (timestamp, value))`.
//!
//! The decoder is our own. [`crate::carbonlink`] uses it too, to read requests. It supports plain data only,
//! neither classes nor calls, and needs no recursion. Whatever the frame contains, it takes at most about
//! twelve bytes of memory per byte of the frame. It creates no values: a node is the position of its opcode,
//! which is decoded when the point is needed.

mod atom;
mod machine;
#[cfg(test)]
mod tests;

use super::emit::{Emitter, Flow, outcome};
use super::frame::{Cursor, Decode, Framed};
use super::number;
use super::parser::{Context, Intake, MessageLimit, Talk, TcpProtocol};
use crate::reject::Reject;
pub use machine::Broken;
pub(crate) use machine::{Kind, Node, Tree, run};

/// Pickles over TCP.
pub const TCP: TcpProtocol = TcpProtocol {
    name: "pickle",
    listen: "127.0.0.1:2004",
    limit: MessageLimit::FRAME,
    is_compressible: false,
    talk: Talk::Stream(|frame_bytes_max, _| Box::new(Framed::new(Pickle, frame_bytes_max))),
};

/// Decodes pickled points.
#[derive(Debug, Default)]
pub struct Pickle;

impl Decode for Pickle {
    fn decode(
        &mut self,
        frame: &[u8],
        from: Cursor,
        context: &Context<'_>,
        intake: &mut Intake,
    ) -> Option<Cursor> {
        match run(frame) {
            Ok(tree) => {
                let mut emitter = Emitter::new(frame.len(), from, context, intake);
                outcome(frame_of(&tree, &mut emitter))
            }
            Err(broken) => {
                intake.tally.reject(Reject::Frame, broken.to_string().as_bytes());
                None
            }
        }
    }
}

fn frame_of(tree: &Tree<'_>, emitter: &mut Emitter<'_>) -> Flow {
    match tree.kind(tree.root()) {
        Kind::Sequence(items) => {
            for item in items {
                item_of(tree, item, emitter)?;
            }
        }
        // Carbon iterates over any container. A dictionary gives it an error for each entry.
        Kind::Dict(entries) => {
            for _ in entries.step_by(2) {
                emitter.refused(b"entry of a dict", Reject::Item)?;
            }
        }
        Kind::Atom => emitter.refused(b"neither list nor tuple", Reject::Item)?,
    }
    Flow::Continue(())
}

/// `(name, (timestamp, value), …)`. Carbon sends one point per item; go-carbon accepts several.
fn item_of(tree: &Tree<'_>, item: Node, emitter: &mut Emitter<'_>) -> Flow {
    let Kind::Sequence(mut parts) = tree.kind(item) else {
        return emitter.refused(b"an item that is not a pair", Reject::Item);
    };
    let node = parts.next();
    let Some(name) = node.and_then(|node| tree.text(node)) else {
        let raw = node.map_or(&b""[..], |node| tree.raw(node));
        let sample = if raw.is_empty() { b"an item without a name" } else { raw };
        return emitter.refused(sample, Reject::Item);
    };
    let now = emitter.now();
    let mut empty = true;
    for part in parts {
        empty = false;
        emitter.entry(&name, || point_of(tree, part, now))?;
    }
    if empty { emitter.refused(&name, Reject::Item) } else { Flow::Continue(()) }
}

fn point_of(tree: &Tree<'_>, point: Node, now: u32) -> Result<(u32, f64), Reject> {
    let Kind::Sequence(mut pair) = tree.kind(point) else {
        return Err(Reject::Item);
    };
    let (Some(timestamp), Some(value), None) = (pair.next(), pair.next(), pair.next()) else {
        return Err(Reject::Item);
    };
    let value = tree.number(value).ok_or(Reject::Value)?;
    let timestamp = tree.number(timestamp).ok_or(Reject::Timestamp)?;
    Ok((number::timestamp_of(timestamp, now)?, value))
}
