//! Wrappers that work around any store.

pub mod fault;

pub use fault::{Faults, Faulty};
