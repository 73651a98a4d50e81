//! Why a job is refused. The list of jobs and the lists of verbs and questions share this type.

/// Largest number of runs that have not ended.
pub(crate) const OPEN_MAX: usize = 50;

/// Why a job was not started, or does not exist.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such verb.
    #[error("there is no job {job:?}; the jobs are {known}")]
    UnknownJob {
        /// The requested name.
        job: String,
        /// The names of all verbs.
        known: String,
    },
    /// The parameters are not valid.
    #[error("{job}: {why}")]
    Invalid {
        /// The name of the verb.
        job: String,
        /// The problem, as text.
        why: String,
    },
    /// Too many runs have not ended.
    #[error("{OPEN_MAX} jobs are running or waiting, which is the limit; try again later, or cancel some")]
    TooMany,
    /// There is no run with this id.
    #[error(
        "there is no job with the id {0:?}; it belonged to an earlier process, or newer jobs have replaced \
         it in the list"
    )]
    UnknownId(String),
}
