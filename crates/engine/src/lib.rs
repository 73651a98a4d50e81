//! The one writer and the one reader of points: registry, heads, downsampler, flush, reader.
//!
//! Must not know: protocols, HTTP, concrete stores.

pub mod fetch;

pub use fetch::{FetchError, FetchRequest, SeriesSource};
