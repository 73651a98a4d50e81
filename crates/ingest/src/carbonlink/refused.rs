//! Reasons to refuse a request.

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Refused {
    /// The frame is longer than `frame_bytes_max`. Closes the connection.
    FrameTooLarge,
    /// The connection ended within a frame.
    HalfFrame,
    /// A frame did not arrive in time. Closes the connection.
    SlowFrame,
    /// The frame is not a pickle of plain data. Closes the connection.
    Frame,
    /// The pickle is not a dictionary, or lacks a field that its type of request needs. Closes the
    /// connection.
    Request,
    /// A request of an unknown type.
    Type,
    /// A bulk request for more than `metrics_max` metrics.
    Metrics,
    /// The reply would be larger than half of `memory_bytes`.
    Reply,
    /// There was no memory for the request or its reply.
    Memory,
    /// The client did not take the reply in time. Closes the connection.
    SlowReader,
    /// The points could not be read, or the setting of a metric could not be read or changed.
    Failed,
}

impl Refused {
    /// All reasons with their names, in the order of their numbers.
    pub(super) const ALL: [(Self, &'static str); 11] = [
        (Self::FrameTooLarge, "frame_too_large"),
        (Self::HalfFrame, "half_frame"),
        (Self::SlowFrame, "slow_frame"),
        (Self::Frame, "frame"),
        (Self::Request, "request"),
        (Self::Type, "type"),
        (Self::Metrics, "metrics"),
        (Self::Reply, "reply"),
        (Self::Memory, "memory"),
        (Self::SlowReader, "slow_reader"),
        (Self::Failed, "failed"),
    ];
}
