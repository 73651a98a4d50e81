//! Evaluates Graphite's target language, and parses its times.
//!
//! No I/O. Must not know: tokio, stores, the index, HTTP. The caller parses targets ([`target::parse`]),
//! makes a [`fetch::FetchPlan`], fetches its series, and passes them to [`eval::evaluate`]. This returns the
//! answer, or a plan of further series that are needed; then it is called again. Start at [`target`] (the
//! parsed targets) and [`request::Request`] (the rest of the request).

mod aggregate;
pub mod attime;
pub mod consolidate;
mod context;
pub mod describe;
pub mod eval;
mod fault;
pub mod fetch;
mod fourier;
mod function;
mod functions;
pub mod fuzzing;
mod grid;
mod node;
mod number;
mod pattern;
mod printf;
pub mod request;
mod rows;
pub mod series;
mod tags;
pub mod target;
pub mod template;
mod value;
mod watch;

pub use attime::{TimeError, TimeZone};
pub use consolidate::Points;
pub use eval::{EvalError, Step, TargetError, evaluate, evaluate_observed, evaluate_watched};
pub use fetch::{Fetch, FetchPlan, Fetched, Source};
pub use number::python_float;
pub use request::{Limited, Limits, Request, TimeRange};
pub use series::{Consolidation, DrawOptions, TimeSeries};
pub use tags::Tags;
pub use target::{Expr, ExprKind, Literal, ParseError, Target, parse};
pub use watch::{Observer, Place, Watch};
