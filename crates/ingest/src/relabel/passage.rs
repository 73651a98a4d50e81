//! What happens to a received name, step by step.

use super::{List, Relabel, Rewrites};
use crate::name::{NameOptions, finish};
use crate::reject::Reject;

/// The kind of list or rule that applies to a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// A line of the blacklist.
    Blacklist,
    /// A line of the whitelist.
    Whitelist,
    /// A rewrite rule on arrival.
    Rewrite,
    /// A rewrite rule under `[post]`, if those are applied after aggregation.
    Post,
}

/// A line of the lists or rules that applies to a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The kind of its list or rule.
    pub taker: Taker,
    /// The file as configured.
    pub file: String,
    /// The line, counted from 1; 0 if no line of the whitelist matches the name.
    pub line: usize,
    /// The line as written, without blanks around it.
    pub rule: String,
    /// The name after this step; `None` if the name is refused here.
    pub name: Option<String>,
}

/// The steps of a name from its arrival to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// The lines that apply to it, in order.
    pub steps: Vec<Step>,
    /// The name that is stored, or why points of this name are refused.
    pub stored: Result<String, Reject>,
}

impl Relabel {
    /// Follows a received name through all steps.
    pub fn explain(&self, name: &str, names: NameOptions) -> Passage {
        let mut steps = Vec::new();
        let stored = self.follow(name, names, &mut steps);
        Passage { steps, stored }
    }

    fn follow(&self, name: &str, names: NameOptions, steps: &mut Vec<Step>) -> Result<String, Reject> {
        let [blacklist, whitelist, rewrites] = &self.files;
        let listed = |taker: Taker, file: &str, line: usize, rule: &str, name: Option<&str>| Step {
            taker,
            file: file.to_owned(),
            line,
            rule: rule.to_owned(),
            name: name.map(str::to_owned),
        };
        if let Some((line, rule, is_match)) = taken(&self.blacklist, name) {
            steps.push(listed(Taker::Blacklist, blacklist, line, rule, None));
            return Err(if is_match { Reject::Blacklist } else { Reject::Rule });
        }
        match taken(&self.whitelist, name) {
            _ if self.whitelist.is_empty() => {}
            Some((line, rule, true)) => {
                steps.push(listed(Taker::Whitelist, whitelist, line, rule, Some(name)));
            }
            Some((line, rule, false)) => {
                steps.push(listed(Taker::Whitelist, whitelist, line, rule, None));
                return Err(Reject::Rule);
            }
            None => {
                steps.push(listed(Taker::Whitelist, whitelist, 0, "", None));
                return Err(Reject::Whitelist);
            }
        }
        let mut rewritten = |rules: &Rewrites, name: &str, taker: Taker| {
            rules.follow(name, |line, rule, after| {
                steps.push(listed(taker, rewrites, line, rule, after));
            })
        };
        let name = normal(&rewritten(&self.rewrites, name, Taker::Rewrite)?, names)?;
        if self.post.is_empty() {
            return Ok(name);
        }
        normal(&rewritten(&self.post, &name, Taker::Post)?, names)
    }
}

/// The first line of a list whose pattern is found in the name (`true`) or whose pattern exceeds the step
/// limit (`false`).
fn taken<'a>(list: &'a List, name: &str) -> Option<(usize, &'a str, bool)> {
    match list.first(name) {
        Ok(line) => line.map(|line| (line.number, line.text.as_str(), true)),
        Err(line) => Some((line.number, line.text.as_str(), false)),
    }
}

/// The normal form of a name that the rules have made.
fn normal(name: &str, names: NameOptions) -> Result<String, Reject> {
    let mut stored = Vec::new();
    finish(name, names, |name| stored.extend_from_slice(name))?;
    String::from_utf8(stored).map_err(|_| Reject::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::relabel::Rules;

    type Explained = (Vec<(Taker, usize, Option<String>)>, Result<String, Reject>);

    fn explained(relabel: &Relabel, name: &str) -> Explained {
        let Passage { steps, stored } = relabel.explain(name, NameOptions::default());
        (steps.into_iter().map(|step| (step.taker, step.line, step.name)).collect(), stored)
    }

    fn refused(taker: Taker, line: usize, why: Reject) -> Explained {
        (vec![(taker, line, None)], Err(why))
    }

    fn some(name: &str) -> Option<String> {
        Some(name.to_owned())
    }

    #[test]
    fn lists_are_named_with_their_lines() {
        let (relabel, _) = Relabel::parse("# no\n\n^test\\.\ndebug\n", "^prod\\.\n^test\n", "");
        assert_eq!(explained(&relabel, "test.a"), refused(Taker::Blacklist, 3, Reject::Blacklist));
        assert_eq!(explained(&relabel, "prod.debug"), refused(Taker::Blacklist, 4, Reject::Blacklist));
        assert_eq!(explained(&relabel, "other"), refused(Taker::Whitelist, 0, Reject::Whitelist));
        let stored = (vec![(Taker::Whitelist, 1, some("prod.a"))], Ok("prod.a".to_owned()));
        assert_eq!(explained(&relabel, "prod.a"), stored);
        let (slow, _) = Relabel::parse("^((a|aa)*)*\\1b$", "", "");
        assert_eq!(explained(&slow, &("a".repeat(40) + "c")), refused(Taker::Blacklist, 1, Reject::Rule));
    }

    #[test]
    fn rewrite_rules_are_named_with_the_names_that_they_make() {
        let rules =
            "[pre]\n# hosts\n^collectd\\.([^.]+) = hosts.\\1\nnothing = x\n_ = .\n[post]\n^hosts = h\n";
        let (relabel, _) = Relabel::parse("", "", rules);
        let passage = relabel.explain("collectd.web_1.cpu", NameOptions::default());
        let shown: Vec<_> =
            passage.steps.iter().map(|step| (step.line, step.rule.as_str(), step.name.as_deref())).collect();
        assert_eq!(
            shown,
            [
                (3, "^collectd\\.([^.]+) = hosts.\\1", Some("hosts.web_1.cpu")),
                (5, "_ = .", Some("hosts.web.1.cpu")),
                (7, "^hosts = h", Some("h.web.1.cpu")),
            ]
        );
        assert_eq!(passage.stored.as_deref(), Ok("h.web.1.cpu"));
        assert_eq!(explained(&relabel, "..a..b."), (Vec::new(), Ok("a.b".to_owned())));
        assert_eq!(
            explained(&relabel, "nothing"),
            (vec![(Taker::Rewrite, 4, some("x"))], Ok("x".to_owned()))
        );
        let (relabel, _) = Relabel::parse("", "", "[pre]\n.* =\n");
        assert_eq!(explained(&relabel, "a").1, Err(Reject::NameEmpty));
    }

    #[test]
    fn files_are_named_and_post_comes_later_with_aggregation() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let config = Config {
            blacklist: file("black", "^no\n"),
            rewrite_rules: file("rewrite", "[post]\na = b\n[pre]\nb = a\n"),
            ..Config::default()
        };
        for (rules, taker) in [
            (Rules::load(config.rule_files()).unwrap(), Taker::Rewrite),
            (Rules::load_post_later(config.rule_files()).unwrap(), Taker::Post),
        ] {
            let passage = rules.explain("b.c", config.names());
            let step = |taker: Taker, line: usize, name: &str| (taker, line, some(name));
            let found: Vec<_> = passage.steps.iter().map(|s| (s.taker, s.line, s.name.clone())).collect();
            assert_eq!(found, [step(Taker::Rewrite, 4, "a.c"), step(taker, 2, "b.c")]);
            assert!(passage.steps.iter().all(|step| step.file == config.rewrite_rules), "{passage:?}");
            assert_eq!(passage.stored.as_deref(), Ok("b.c"));
            assert_eq!(rules.explain("no", config.names()).steps[0].file, config.blacklist);
        }
    }
}
