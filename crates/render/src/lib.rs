//! Graphite's target language and its times, evaluated over series that somebody else fetched.
//!
//! Pure and synchronous. Must not know: tokio, stores, the index, HTTP. The caller parses targets
//! ([`target::parse`]), makes a [`plan::Plan`], fetches what it names, and hands the series to
//! [`eval::evaluate`]. Start at [`target`] (what was asked) and [`request::Request`] (for when).

pub mod attime;
pub mod consolidate;
pub mod eval;
mod function;
mod functions;
pub mod fuzzing;
mod number;
pub mod plan;
pub mod request;
pub mod series;
pub mod target;
pub mod template;

pub use attime::{TimeError, TimeZone};
pub use consolidate::Points;
pub use eval::{EvalError, Fetched, TargetError, evaluate};
pub use number::python_float;
pub use plan::{Fetch, Plan, Source};
pub use request::{Request, TimeRange};
pub use series::{Consolidation, Tags, TimeSeries};
pub use target::{Expr, ExprKind, Literal, ParseError, Target, parse};
