//! Selects the response format of `/render`.

use crate::carbonapi::Version;
use crate::error::{ApiError, quoted};
use crate::params::Params;

/// A response format of `/render`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Columns,
    Csv,
    Raw,
    Pickle,
    MsgPack,
    Dygraph,
    Rickshaw,
    Protobuf(Version),
    Png,
    Svg,
}

impl Format {
    /// The list of formats for error messages.
    const KNOWN: &str = "json, columns, csv, raw, pickle, msgpack, dygraph, rickshaw, carbonapi_v2_pb (protobuf), carbonapi_v3_pb, png, svg";

    /// The format that the parameters select; PNG by default, as in Graphite.
    pub(super) fn of(params: &Params) -> Result<Self, ApiError> {
        match params.get("format") {
            Some(name) => Self::named(name).ok_or_else(|| {
                ApiError::Invalid(format!("format={} is not available; use {}", quoted(name), Self::KNOWN))
            }),
            None if params.has("rawData") => Ok(Self::Raw),
            None if params.has("pickle") => Ok(Self::Pickle),
            None => Ok(Self::Png),
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "columns" => Some(Self::Columns),
            "csv" => Some(Self::Csv),
            "raw" => Some(Self::Raw),
            "pickle" => Some(Self::Pickle),
            "msgpack" => Some(Self::MsgPack),
            "dygraph" => Some(Self::Dygraph),
            "rickshaw" => Some(Self::Rickshaw),
            "png" => Some(Self::Png),
            "svg" => Some(Self::Svg),
            other => Version::named(other).map(Self::Protobuf),
        }
    }

    /// Whether the format is a picture.
    pub(super) fn is_picture(self) -> bool {
        matches!(self, Self::Png | Self::Svg)
    }

    /// Whether the format is one for front ends such as graphite-web and carbonapi.
    pub(super) fn is_of_front_ends(self) -> bool {
        matches!(self, Self::Pickle | Self::MsgPack | Self::Protobuf(_))
    }
}
