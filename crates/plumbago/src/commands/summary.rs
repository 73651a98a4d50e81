//! Parts that the summaries of several commands have.

use std::collections::BTreeMap;

/// Adds a line for each count that is not 0.
pub(super) fn add_counts(text: &mut String, counts: &[(u64, &str)]) {
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("  {count} {what}\n"));
    }
}

/// Adds the number of skipped items by reason, with examples of each. `what` is the heading, like "files need
/// attention".
pub(super) fn add_skipped(
    text: &mut String,
    what: &str,
    skipped: &BTreeMap<String, u64>,
    examples: &BTreeMap<String, Vec<String>>,
) {
    for (reason, count) in skipped {
        text.push_str(&format!("  {count} {what}: {reason}\n"));
        for example in examples.get(reason).into_iter().flatten() {
            text.push_str(&format!("    {example}\n"));
        }
    }
}
