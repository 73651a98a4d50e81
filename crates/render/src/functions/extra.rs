//! What carbonapi has beyond graphite-web.

use crate::function::Function;

pub(super) const ALL: &[&[Function]] = &[];
