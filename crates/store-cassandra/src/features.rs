//! The optional features of a server, as a check of its schema found them.

/// Which optional features the server allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// The change feed can be used. Without it, daemons read all names again from time to time.
    pub changes: bool,
    /// Series can be hidden.
    pub tags: bool,
    /// Daemons can take leases.
    pub leases: bool,
    /// Daemons can register their writer ids.
    pub writers: bool,
    /// Names can be found by SASI indexes.
    pub sasi: bool,
    /// An index can find the metrics below a directory, which the clean-up of directories needs.
    pub parents: bool,
}
