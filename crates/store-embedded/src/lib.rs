//! Placeholder header, replaced with the crate's first code.
