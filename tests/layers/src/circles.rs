//! Finds modules of a crate that need each other in a circle. Modules side by side are compared, each with all modules
//! below it. A module and those below it may need each other: they are one piece.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::code::Code;
use crate::metadata::{Metadata, Package};
use crate::unused::read;

/// Circles that may stay: the crate, modules, and why. A circle of some of these modules may stay too.
const ALLOWED: &[(&str, &[&str], &str)] = &[(
    "plumbago-telemetry",
    &["conditions", "damage", "registry"],
    "all handles of a registry share its list of damage, whose condition is a gauge of the registry",
)];

/// How many imports of imports are followed.
const DEPTH_MAX: usize = 8;

/// One message per circle that may not stay, and per entry of the list that allows none.
///
/// # Errors
/// If a file cannot be read.
pub fn check(metadata: &Metadata) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    let mut needed = BTreeSet::new();
    for package in metadata.members() {
        for circle in circles(&modules(package)?) {
            let is_within = |(name, allowed, _): &(&str, &[&str], &str)| {
                *name == package.name
                    && circle.modules.iter().all(|module| allowed.contains(&module.as_str()))
            };
            match ALLOWED.iter().position(is_within) {
                Some(at) => {
                    needed.insert(at);
                }
                None => problems.push(format!("{}: {}", package.name, circle.text())),
            }
        }
    }
    for (at, (name, modules, _)) in ALLOWED.iter().enumerate() {
        if !needed.contains(&at) {
            problems
                .push(format!("{name}: {} need each other no longer; remove the entry", modules.join(", ")));
        }
    }
    Ok(problems)
}

/// A module in a file of its own.
struct Module {
    /// The path of the module in the crate; empty for the root.
    path: Vec<String>,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// The paths of the names that it imports.
    imports: BTreeMap<String, Vec<String>>,
    code: Code,
}

/// All modules of a crate, the root first. A library and a program beside it are one crate here.
fn modules(package: &Package) -> Result<Vec<Module>, String> {
    let source = package.manifest_path.parent().unwrap_or(Path::new("")).join("src");
    let mut modules = Vec::new();
    for root in ["lib.rs", "main.rs"] {
        let file = source.join(root);
        if file.exists() {
            add(&file, &source, (Vec::new(), None), &mut modules)?;
            break;
        }
    }
    Ok(modules)
}

/// Adds the module of a file and those below it, whose files are in `directory`. Returns its position.
fn add(
    file: &Path,
    directory: &Path,
    (path, parent): (Vec<String>, Option<usize>),
    modules: &mut Vec<Module>,
) -> Result<usize, String> {
    let code = Code::read(&read(file)?);
    let imports = names_of(&code);
    let below = code.modules.clone();
    let own = modules.len();
    modules.push(Module { path: path.clone(), parent, children: BTreeMap::new(), imports, code });
    for name in below {
        let inner = directory.join(&name);
        let files = [directory.join(format!("{name}.rs")), inner.join("mod.rs")];
        // A module that is written within this file has no file of its own.
        let Some(file) = files.iter().find(|file| file.exists()) else { continue };
        let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
        let child = add(file, &inner, (path, Some(own)), modules)?;
        modules[own].children.insert(name, child);
    }
    Ok(own)
}

/// The names that a file imports, with their paths.
fn names_of(code: &Code) -> BTreeMap<String, Vec<String>> {
    let imports = code.imports.iter().filter(|import| import.name != "*");
    imports.map(|import| (import.name.clone(), import.path.clone())).collect()
}

/// The module that a path leads to, and whether it names an item there. `None` for a path out of the crate.
fn resolve(modules: &[Module], from: usize, path: &[String], depth: usize) -> Option<(usize, bool)> {
    let (mut at, mut rest) = (from, path);
    match path.first()?.as_str() {
        "crate" => (at, rest) = (0, &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while let Some(("super", tail)) = rest.split_first().map(|(first, tail)| (first.as_str(), tail)) {
                (at, rest) = (modules[at].parent?, tail);
            }
        }
        name if modules[at].children.contains_key(name) || modules[at].imports.contains_key(name) => {}
        _ => return None,
    }
    while let Some((name, tail)) = rest.split_first() {
        let module = &modules[at];
        if let Some(child) = module.children.get(name) {
            (at, rest) = (*child, tail);
            continue;
        }
        let import =
            module.imports.get(name).filter(|import| depth < DEPTH_MAX && import.first() != Some(name));
        let Some(import) = import else { return Some((at, true)) };
        let (found, is_item) = resolve(modules, at, import, depth + 1)?;
        if is_item {
            return Some((found, true));
        }
        (at, rest) = (found, tail);
    }
    Some((at, false))
}

/// The modules whose items a module uses, each with a path that uses it. An import that only serves other
/// modules does not count as a use.
fn uses(modules: &[Module], of: usize) -> BTreeMap<usize, String> {
    let code = &modules[of].code;
    let imports = code.imports.iter().filter(|import| !import.is_public || code.names(&import.name));
    let paths = imports.map(|import| &import.path).chain(&code.paths);
    let mut found = BTreeMap::new();
    for path in paths {
        if let Some((module, true)) = resolve(modules, of, path, 0).filter(|(module, _)| *module != of) {
            found.entry(module).or_insert_with(|| path.join("::"));
        }
    }
    found
}

/// The uses between the child modules of one parent: the using module, the used module, and a path that uses
/// it.
type Level = BTreeMap<String, BTreeMap<String, String>>;

struct Circle {
    parent: Vec<String>,
    modules: Vec<String>,
    uses: Vec<String>,
}

impl Circle {
    fn text(&self) -> String {
        let place = if self.parent.is_empty() { "crate".to_owned() } else { self.parent.join("::") };
        let (modules, uses) = (self.modules.join(", "), self.uses.join("; "));
        format!("in {place}, {modules} need each other; give what two of them use a file of its own ({uses})")
    }
}

fn circles(modules: &[Module]) -> Vec<Circle> {
    let mut levels: BTreeMap<Vec<String>, Level> = BTreeMap::new();
    for (of, module) in modules.iter().enumerate() {
        for (other, by) in uses(modules, of) {
            let (from, to) = (&module.path, &modules[other].path);
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            // If one path ends here, one of the two modules is below the other.
            let (Some(a), Some(b)) = (from.get(common), to.get(common)) else { continue };
            let level = levels.entry(from[..common].to_vec()).or_default();
            level.entry(a.clone()).or_default().entry(b.clone()).or_insert(by);
        }
    }
    levels.iter().flat_map(|(parent, level)| circles_of(parent, level)).collect()
}

fn circles_of(parent: &[String], level: &Level) -> Vec<Circle> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        level.keys().map(|from| (from, reach(level, from))).collect();
    let reaches = |from: &String, to: &String| reached.get(from).is_some_and(|reach| reach.contains(to));
    let mut seen: BTreeSet<&String> = BTreeSet::new();
    let mut circles = Vec::new();
    for first in level.keys() {
        if seen.contains(first) || !reaches(first, first) {
            continue;
        }
        let circle: Vec<&String> =
            level.keys().filter(|to| reaches(first, to) && reaches(to, first)).collect();
        let mut uses = Vec::new();
        for from in &circle {
            let inner = level.get(*from).into_iter().flatten().filter(|(to, _)| circle.contains(to));
            uses.extend(inner.map(|(to, by)| format!("{from} → {to} by {by}")));
        }
        seen.extend(&circle);
        let modules = circle.into_iter().cloned().collect();
        circles.push(Circle { parent: parent.to_vec(), modules, uses });
    }
    circles
}

/// All modules that a module needs, directly or through others.
fn reach<'a>(level: &'a Level, from: &'a String) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(next) = open.pop() {
        let new = level.get(next).into_iter().flat_map(BTreeMap::keys).filter(|to| found.insert(*to));
        open.extend(new);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate with these files: name and code, parents first.
    fn circles_in(files: &[(&str, &str)]) -> Vec<(Vec<String>, Vec<String>)> {
        let mut modules: Vec<Module> = Vec::new();
        for (name, text) in files {
            let path: Vec<String> =
                name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let parent =
                path.split_last().and_then(|(_, above)| modules.iter().position(|m| m.path == above));
            let code = Code::read(text);
            let imports = names_of(&code);
            let own = modules.len();
            if let (Some(parent), Some(last)) = (parent, path.last()) {
                modules[parent].children.insert(last.clone(), own);
            }
            modules.push(Module { path, parent, children: BTreeMap::new(), imports, code });
        }
        circles(&modules).into_iter().map(|circle| (circle.parent, circle.modules)).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn modules_side_by_side_that_need_each_other() {
        let found = circles_in(&[
            ("", "pub use a::A;"),
            ("a", "use crate::b::B; pub struct A(B);"),
            ("b", "use crate::A; pub struct B(Box<A>);"),
            ("c", "fn c() { crate::a::d(); }"),
        ]);
        assert_eq!(found, [(Vec::<String>::new(), names(&["a", "b"]))]);
    }

    #[test]
    fn a_module_needs_those_below_its_neighbour() {
        let found = circles_in(&[
            ("", ""),
            ("a", "use crate::b::c::C;"),
            ("b", ""),
            ("b/c", "use super::d::D; pub struct C(D);"),
            ("b/d", "pub struct D(crate::a::E);"),
        ]);
        assert_eq!(found, [(Vec::<String>::new(), names(&["a", "b"]))]);
    }

    #[test]
    fn a_module_and_those_below_it_are_one_piece() {
        let found = circles_in(&[
            ("", ""),
            ("a", "use b::B; pub struct A(B); pub struct D;"),
            ("a/b", "pub struct B(super::D);"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn an_import_for_others_is_no_use() {
        let found =
            circles_in(&[("", ""), ("a", "pub use crate::b::B; pub struct A;"), ("b", "use crate::a::A;")]);
        assert!(found.is_empty(), "{found:?}");
    }
}
