//! The parts of a page that the tests use, in their order.

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A fenced block.
    Block(Block),
    /// A comment for the tests: its line number and its text.
    Comment(usize, String),
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line number of the opening fence, counted from 1.
    pub line: usize,
    /// The text after the opening fence, on the same line.
    pub info: String,
    /// The lines between the fences.
    pub text: String,
}

/// How the tests treat a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Commands that end by themselves. The first field is whether to repeat them until their output is as
    /// shown, the second is the exit code of the last command.
    Commands(bool, i32),
    /// Commands of which the last one keeps running in the terminal of this name.
    Terminal(String),
    /// The content of a file.
    File(String),
    /// Lines to append to a file.
    Append(String),
    /// An extract in this language, or output.
    Example(String),
    /// Commands that no test runs.
    ByHand,
}

/// A command and the output that the page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The command, without the prompt.
    pub command: String,
    /// The lines of output below the command.
    pub output: String,
}

impl Block {
    /// The kind of the block; `None` if the words after its fence define none.
    pub fn kind(&self) -> Option<Kind> {
        let (language, rest) = self.info.split_once(' ').unwrap_or((&self.info, ""));
        let option = |name: &str| rest.strip_prefix(name).map(str::to_owned);
        match (language, rest) {
            ("console", "") => Some(Kind::Commands(false, 0)),
            ("console", "repeat") => Some(Kind::Commands(true, 0)),
            ("console", _) if rest.starts_with("exit=") => {
                Some(Kind::Commands(false, option("exit=")?.parse().ok()?))
            }
            ("console", _) => option("terminal=").map(Kind::Terminal),
            ("sh", "by-hand") => Some(Kind::ByHand),
            (_, "example") => Some(Kind::Example(language.to_owned())),
            _ => option("file=").map(Kind::File).or_else(|| option("append=").map(Kind::Append)),
        }
    }

    /// The commands of a block `console` and what they print. A command continues after a backslash.
    pub fn commands(&self) -> Vec<Shown> {
        let mut all: Vec<Shown> = Vec::new();
        for line in self.text.lines() {
            let last = all.last_mut();
            match (line.strip_prefix("$ "), last) {
                (Some(command), _) => all.push(Shown { command: command.to_owned(), output: String::new() }),
                (None, Some(shown)) if shown.output.is_empty() && shown.command.ends_with('\\') => {
                    shown.command += &format!("\n{line}");
                }
                (None, Some(shown)) => shown.output += &format!("{line}\n"),
                (None, None) => panic!("line {}: a block begins with output", self.line),
            }
        }
        all
    }
}

/// All fenced blocks and comments for the tests of a page in Markdown.
pub fn page(text: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        match (&mut open, trimmed.strip_prefix("```")) {
            (None, Some(info)) => {
                open =
                    Some((Block { line: at + 1, info: info.trim().to_owned(), text: String::new() }, indent));
            }
            (None, None) => {
                let comment = trimmed.strip_prefix("<!-- test: ").and_then(|rest| rest.strip_suffix(" -->"));
                items.extend(comment.map(|comment| Item::Comment(at + 1, comment.to_owned())));
            }
            (Some(_), Some("")) => items.extend(open.take().map(|(block, _)| Item::Block(block))),
            (Some((block, indent)), _) => {
                let line = line.get(*indent..).unwrap_or_default();
                block.text += &format!("{line}\n");
            }
        }
    }
    assert!(open.is_none(), "the last block is not closed");
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_comments_are_found_in_order() {
        let text = "1. See:\n\n   ```console repeat\n   $ a \\\n     b\n   one\n   $ c\n   ```\n<!-- test: stop x -->\n\
                    ```toml file=a.toml\nx = 1\n```\n```sh\n```\n";
        let items = page(text);
        let [Item::Block(first), Item::Comment(9, comment), Item::Block(file), Item::Block(unmarked)] =
            &items[..]
        else {
            panic!("{items:?}")
        };
        assert_eq!((first.line, first.kind()), (3, Some(Kind::Commands(true, 0))));
        let shown = first.commands();
        assert_eq!((shown[0].command.as_str(), shown[0].output.as_str()), ("a \\\n  b", "one\n"));
        assert_eq!((shown[1].command.as_str(), shown[1].output.as_str()), ("c", ""));
        assert_eq!(comment, "stop x");
        assert_eq!((file.kind(), file.text.as_str()), (Some(Kind::File("a.toml".to_owned())), "x = 1\n"));
        assert_eq!(unmarked.kind(), None);
    }
}
