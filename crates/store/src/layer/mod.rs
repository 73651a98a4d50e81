//! Wrappers that can be put around any store.

pub mod fault;

pub use fault::{Faults, Faulty};
