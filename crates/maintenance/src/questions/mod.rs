//! The questions, one file each.

pub mod du;
pub mod info;
pub mod list;
pub mod read;
pub mod stats;
pub mod tags;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::question::{self, Ask, Question};
use crate::run_error::RunError;
use crate::verb::Work;

/// All questions that a daemon answers.
pub const CATALOGUE: &[(&str, Ask)] = &[
    entry::<list::List>(),
    entry::<info::Info>(),
    entry::<read::Read>(),
    entry::<read::ReadStage>(),
    entry::<du::Du>(),
    entry::<stats::Stats>(),
    entry::<tags::Tags>(),
];

const fn entry<Q: Question>() -> (&'static str, Ask) {
    (Q::NAME, question::read::<Q>)
}

/// Begins to answer the question of this name with these parameters, a JSON object.
///
/// # Errors
/// If there is no such question, or its parameters cannot be used.
pub fn ask(name: &str, parameters: Value, work: &Work) -> Result<mpsc::Receiver<String>, RunError> {
    let Some((_, ask)) = CATALOGUE.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = CATALOGUE.iter().map(|(name, _)| *name).collect();
        return Err(RunError::UnknownJob { job: name.to_owned(), known: known.join(", ") });
    };
    ask(parameters, work).map_err(|why| RunError::Invalid { job: name.to_owned(), why })
}

/// Whether a rate is 0. It is left out of the parameters then, so that a daemon that knows no rate accepts them.
fn is_zero(rate: &u32) -> bool {
    *rate == 0
}
