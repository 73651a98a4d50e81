//! The values of arguments and calls.

use crate::series::TimeSeries;
use crate::target::Literal;

/// The value of an argument or of a call.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Series(Vec<TimeSeries>),
    /// Groups of series. Only `reduceSeries` takes them.
    Lists(Vec<Vec<TimeSeries>>),
    Literal(Literal),
    /// Series that are not fetched yet. Other arguments are nevertheless checked.
    Missing,
}

impl From<Vec<TimeSeries>> for Value {
    fn from(series: Vec<TimeSeries>) -> Self {
        Self::Series(series)
    }
}

impl Value {
    pub(crate) fn points(&self) -> usize {
        let points = |series: &Vec<TimeSeries>| series.iter().map(|s| s.values.len()).sum::<usize>();
        match self {
            Self::Series(series) => points(series),
            Self::Lists(lists) => lists.iter().map(points).sum(),
            Self::Literal(_) | Self::Missing => 0,
        }
    }

    /// The memory of this value, in bytes. Shared values do not count: they were fetched.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |series: &Vec<TimeSeries>| series.iter().map(TimeSeries::own_bytes).sum::<usize>();
        match self {
            Self::Series(series) => bytes(series),
            Self::Lists(lists) => lists.iter().map(bytes).sum(),
            Self::Literal(_) | Self::Missing => 0,
        }
    }
}
