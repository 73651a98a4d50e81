//! `template()`: replaces `$name` in paths before they are looked up.

use crate::target::{Literal, TARGET_BYTES_MAX};

/// The parameters that apply to a part of a target.
#[derive(Debug, Clone, Default)]
pub struct Replacements(Vec<(String, Literal)>);

/// A path after its parameters are replaced.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved {
    /// A name or glob.
    Path(String),
    /// A constant: the path was a single parameter.
    Literal(Literal),
}

impl Replacements {
    /// The parameters of a `template()`. Those of the request override them.
    pub fn new(params: &[(String, Literal)], overrides: &[(String, String)]) -> Self {
        let mut all = params.to_vec();
        for (name, text) in overrides {
            let value = Literal::String(text.clone());
            match all.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = value,
                None => all.push((name.clone(), value)),
            }
        }
        Self(all)
    }

    /// Replaces the parameters in a path, in order.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] if the result is longer than a target may be.
    pub fn resolve(&self, path: &str) -> Result<Resolved, TooLong> {
        let mut resolved = path.to_owned();
        for (name, value) in &self.0 {
            let variable = format!("${name}");
            if resolved == variable {
                return Ok(Resolved::Literal(constant(value)));
            }
            let places = resolved.matches(&variable).count();
            if places > 0 {
                let text = value.python();
                if places.saturating_mul(text.len()) + resolved.len() > TARGET_BYTES_MAX {
                    return Err(TooLong);
                }
                resolved = resolved.replace(&variable, &text);
            }
        }
        Ok(Resolved::Path(resolved))
    }
}

/// The parameters make a path longer than a target may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the parameters of template() make a path longer than {TARGET_BYTES_MAX} bytes")]
pub struct TooLong;

/// The value of a path that is a single parameter. A text that looks like a number is one.
fn constant(value: &Literal) -> Literal {
    if let Literal::String(text) = value {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
            && let Ok(number) = text.parse()
        {
            return Literal::Float(number);
        }
    }
    value.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_fill_paths() {
        let params = [
            ("1".to_owned(), Literal::String("web".to_owned())),
            ("n".to_owned(), Literal::String("5".to_owned())),
        ];
        let replacements = Replacements::new(&params, &[("1".to_owned(), "db".to_owned())]);
        let resolve = |path| replacements.resolve(path).unwrap();
        assert_eq!(resolve("a.$1.b$n"), Resolved::Path("a.db.b5".to_owned()));
        assert_eq!(resolve("$n"), Resolved::Literal(Literal::Float(5.0)));
        assert_eq!(resolve("$1"), Resolved::Literal(Literal::String("db".to_owned())));
    }

    #[test]
    fn parameters_cannot_blow_up_a_path() {
        let params = [("1".to_owned(), Literal::String("x".repeat(100_000)))];
        assert_eq!(Replacements::new(&params, &[]).resolve("$1.$1.$1"), Err(TooLong));
    }
}
