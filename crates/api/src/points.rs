//! Points that arrive in HTTP requests.

use std::fmt::Debug;
use std::ops::Range;

use plumbago_boxed_futures::boxed_futures;
use plumbago_kairosdb::point::Points;

/// Takes points that arrived in a request, and deletes series.
#[boxed_futures]
pub trait PointWriter: Send + Sync + Debug {
    /// Takes the points of a body of `bytes` bytes. Lists, rewrite rules and limits apply to them, and what the parser
    /// refused is counted. Once it returns, a kill of the process cannot lose what was accepted.
    ///
    /// # Errors
    ///
    /// If not all points were taken; the client has to send them again.
    async fn write(&self, points: Points, bytes: usize) -> Result<(), NotTaken>;

    /// Deletes whole series: their points, names and tags. With a range of time (seconds since the epoch, end
    /// excluded) it deletes only the points in it. Unknown names are ignored.
    ///
    /// # Errors
    ///
    /// If not all were deleted; the client has to ask again.
    async fn delete(&self, names: Vec<String>, times: Option<Range<i64>>) -> Result<(), NotTaken>;

    /// Counts a body that cannot be read.
    fn refuse(&self, fault: BodyFault, text: &str);
}

/// Why points were not taken.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotTaken(pub String);

/// Why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFault {
    /// The body is larger than `api.limits.body`, as received or decompressed.
    TooLarge,
    /// The body cannot be decompressed.
    Damaged,
    /// The body did not arrive completely, or not in time.
    Half,
    /// There is not enough memory for the body now.
    Memory,
}

/// For servers that only read: refuses all points.
#[derive(Debug)]
pub struct NoWriter;

#[boxed_futures]
impl PointWriter for NoWriter {
    async fn write(&self, _: Points, _: usize) -> Result<(), NotTaken> {
        Err(NotTaken("this server accepts no points here".to_owned()))
    }

    async fn delete(&self, _: Vec<String>, _: Option<Range<i64>>) -> Result<(), NotTaken> {
        Err(NotTaken("this server deletes no points here".to_owned()))
    }

    fn refuse(&self, _: BodyFault, _: &str) {}
}
