//! Graphite's target language and its times, evaluated over series that somebody else fetched.
//!
//! Pure and synchronous. Must not know: tokio, stores, the index, HTTP. The caller parses targets
//! ([`target::parse`]), makes a [`plan::Plan`], fetches what it names, and hands the series to
//! [`eval::evaluate`], which answers or names what else it needs; then it is called again. Start at
//! [`target`] (what was asked) and [`request::Request`] (for when).

mod aggregate;
pub mod attime;
pub mod consolidate;
mod context;
pub mod eval;
mod fourier;
mod function;
mod functions;
pub mod fuzzing;
mod grid;
mod node;
mod number;
mod pattern;
pub mod plan;
mod printf;
pub mod request;
mod rows;
pub mod series;
mod tags;
pub mod target;
pub mod template;
mod watch;

pub use attime::{TimeError, TimeZone};
pub use consolidate::Points;
pub use eval::{EvalError, Fetched, Step, TargetError, evaluate, evaluate_watched};
pub use function::describe;
pub use number::python_float;
pub use plan::{Fetch, Plan, Source};
pub use request::{Limited, Limits, Request, TimeRange};
pub use series::{Consolidation, DrawOptions, TimeSeries};
pub use tags::Tags;
pub use target::{Expr, ExprKind, Literal, ParseError, Target, parse};
pub use watch::Watch;
