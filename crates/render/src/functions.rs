//! The functions of the target language, a file per family.

pub(crate) mod alias;
pub(crate) mod combine;
pub(crate) mod special;
#[cfg(test)]
mod tests;
pub(crate) mod transform;
