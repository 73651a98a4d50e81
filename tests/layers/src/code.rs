//! Reads Rust as text: what a file imports and which paths it names. Rough, but it needs no compiler. Comments, texts and
//! tests do not count.

/// An import: `use path as name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The segments of the path.
    pub path: Vec<String>,
    /// The name that the import brings in; `*` for all names.
    pub name: String,
    /// Whether other modules can use the name through this one.
    pub is_public: bool,
}

/// What one file needs from others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Names of the modules that the file declares and that have files of their own.
    pub modules: Vec<String>,
    /// The imports of the file.
    pub imports: Vec<Import>,
    /// Paths in the rest of the code.
    pub paths: Vec<Vec<String>>,
    /// The rest of the code.
    rest: String,
}

impl Code {
    /// Reads a file.
    pub fn read(text: &str) -> Self {
        let mut rest = without_tests(without_texts(text));
        let mut code = Self::default();
        while let Some((start, end)) = next_use(&rest) {
            let before = rest[..start].rsplit([';', '{', '}', '\n']).next().unwrap_or_default();
            let is_public = before.trim_start().starts_with("pub");
            let mut found = Vec::new();
            expand(&rest[start + "use ".len()..end], &[], &mut found);
            code.imports.extend(found.into_iter().map(|(path, name)| Import { path, name, is_public }));
            rest.replace_range(start..=end, " ");
        }
        let statements = rest.split([';', '{', '}', ']']);
        code.modules = statements.filter_map(module_of).collect();
        code.paths = rest.split(|c: char| !is_word(c) && c != ':').filter_map(path).collect();
        code.rest = rest;
        code
    }

    /// Whether a name occurs outside the imports.
    pub fn names(&self, name: &str) -> bool {
        self.rest.split(|c: char| !is_word(c)).any(|word| word == name)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The code without comments, texts and characters.
fn without_texts(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match text_len(rest) {
            Some(length) => {
                code.push(' ');
                rest = rest.get(length..).unwrap_or_default();
            }
            None => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment, text or character at the start of `rest`; `None` if there is none.
fn text_len(rest: &str) -> Option<usize> {
    let until = |from: usize, end: &str| {
        let found = rest.get(from..).and_then(|rest| rest.find(end));
        found.map_or(rest.len(), |at| from + at + end.len())
    };
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(until(2, "*/"));
    }
    if let Some(raw) = rest.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            return Some(until(hashes + 2, &format!("\"{}", "#".repeat(hashes))));
        }
    }
    if rest.starts_with('"') {
        let mut is_escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        return Some(end.map_or(rest.len(), |(at, _)| at + 1));
    }
    let character = rest.strip_prefix('\'')?;
    if character.starts_with('\\') {
        return Some(until(3, "'"));
    }
    // Otherwise it is a lifetime.
    let mut characters = character.chars();
    let first = characters.next()?;
    (characters.next() == Some('\'')).then(|| 2 + first.len_utf8())
}

/// The code without the items that exist only in tests.
fn without_tests(mut code: String) -> String {
    while let Some(start) = ["#[cfg(test)]", "#[cfg(all(test"].iter().filter_map(|test| code.find(test)).min()
    {
        let item = &code[start..];
        let brace = item.find('{').unwrap_or(item.len());
        let semicolon = item.find(';').unwrap_or(item.len());
        let is_use = item[..brace].split_whitespace().any(|word| word == "use");
        let length = if brace < semicolon && !is_use { block_end(item, brace) } else { semicolon + 1 };
        code.replace_range(start..(start + length).min(code.len()), " ");
    }
    code
}

/// Where the block that begins at `start` ends.
fn block_end(code: &str, start: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return start + at + 1;
        }
    }
    code.len()
}

/// The first import: where its `use` begins, and where its semicolon is.
fn next_use(code: &str) -> Option<(usize, usize)> {
    let is_start = |at: &usize| !code[..*at].ends_with(is_word);
    let start = code.match_indices("use ").map(|(at, _)| at).find(is_start)?;
    let end = code[start..].find(';')?;
    Some((start, start + end))
}

/// The paths of an import with the names that they bring in.
fn expand(tree: &str, prefix: &[String], found: &mut Vec<(Vec<String>, String)>) {
    if let Some((head, list)) = tree.split_once('{') {
        let prefix = [prefix, segments(head).as_slice()].concat();
        let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
        let mut depth = 0;
        let parts = list.split(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        });
        parts.filter(|part| !part.trim().is_empty()).for_each(|part| expand(part, &prefix, found));
        return;
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, alias)| (path, Some(alias)));
    let mut path = [prefix, segments(path).as_slice()].concat();
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let name = alias.map(|alias| alias.trim().to_owned()).or_else(|| path.last().cloned());
    found.extend(name.map(|name| (path, name)));
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
}

/// The name in `mod name`, at the end of a statement.
fn module_of(statement: &str) -> Option<String> {
    let mut words = statement.split_whitespace().rev();
    let name = words.next()?;
    (words.next() == Some("mod")).then(|| name.to_owned())
}

/// The segments of a path in the code; `None` for a single word.
fn path(words: &str) -> Option<Vec<String>> {
    let path = segments(words);
    (path.len() > 1 && !words.starts_with(':')).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str) -> Vec<String> {
        segments(path)
    }

    #[test]
    fn imports_of_a_file() {
        let code = Code::read(
            "//! use crate::comment::No;\nuse std::fmt;\nuse crate::{a::{self, B as C}, d::*};\n\
             pub(crate) use super::e::F;\nmod g;\n#[cfg(test)]\nmod h;\nfn i() { let _ = \"use crate::text::No;\"; }",
        );
        let import = |path: &str, name: &str, is_public| Import {
            path: words(path),
            name: name.to_owned(),
            is_public,
        };
        assert_eq!(
            code.imports,
            [
                import("std::fmt", "fmt", false),
                import("crate::a", "a", false),
                import("crate::a::B", "C", false),
                import("crate::d::*", "*", false),
                import("super::e::F", "F", true),
            ]
        );
        assert_eq!(code.modules, ["g"]);
        assert_eq!(code.paths, Vec::<Vec<String>>::new());
        assert!(code.names("i") && !code.names("F"));
    }

    #[test]
    fn paths_of_the_code_but_not_of_tests() {
        let text = "fn a<'a>(b: &'a crate::c::D) { e::f('\"', '\\'', r#\"crate::text::No\"#); }\n\
                    #[cfg(test)]\nmod tests { fn g() { crate::test::no(); } }\nfn h() { Vec::<u8>::new(); }";
        let paths: Vec<String> = Code::read(text).paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::c::D", "e::f"]);
    }
}
