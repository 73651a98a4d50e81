//! The guides of `docs/`: their fenced blocks ([`page`]), and a reader that runs their commands ([`Reader`]).
//!
//! The words after the opening fence define how the tests treat a block:
//!
//! | fence | what the tests do |
//! |---|---|
//! | `console` | run each line that begins with `$` and compare its output with the lines below it |
//! | `console repeat` | the same, until the output is as shown |
//! | `console exit=N` | the same; the last command ends with N |
//! | `console terminal=NAME` | run it in a terminal of its own, where it stays; wait for the output shown |
//! | `TYPE file=PATH` | write the block to this file; `append=PATH` appends it |
//! | `TYPE example` | an extract; those in TOML are checked as a configuration |
//! | `sh by-hand` | what no test can do, such as `apt-get`; commands of `plumbago` in it are parsed |
//!
//! In the output, `…` stands for any text, and a line of `…` alone for any number of lines. A comment `<!-- test: stop
//! NAME -->` ends the program in a terminal as Ctrl-C does, and `<!-- test: run COMMAND -->` and `<!-- test: terminal
//! NAME WORD COMMAND -->` do what is described in words or stands in a block `by-hand`; the latter waits for
//! a line with the word.

mod page;
mod reader;

pub use page::{Block, Item, Kind, Shown, page};
pub use reader::Reader;
