//! The versions of carbonapi's protocol, and the names of formats by which requests choose a version.
//! `format/protobuf.rs` writes the messages.

/// The versions of carbonapi's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// `carbonapi_v2_pb`.
    V2,
    /// `carbonapi_v3_pb`.
    V3,
}

impl Version {
    /// Parses the names that go-carbon and carbonapi use.
    pub(crate) fn named(format: &str) -> Option<Self> {
        match format {
            "protobuf" | "protobuf3" | "carbonapi_v2_pb" | "pb" => Some(Self::V2),
            "carbonapi_v3_pb" | "proto3" | "pb3" => Some(Self::V3),
            _ => None,
        }
    }

    /// Content type of the protocol's messages.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::V2 => "application/x-protobuf",
            Self::V3 => "application/x-carbonapi-v3-pb",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_formats() {
        assert_eq!(Version::named("protobuf"), Some(Version::V2));
        assert_eq!(Version::named("carbonapi_v2_pb"), Some(Version::V2));
        assert_eq!(Version::named("carbonapi_v3_pb"), Some(Version::V3));
        assert_eq!(Version::named("json"), None);
    }
}
