//! Parts that the summaries of several commands share.

use plumbago_maintenance::counts::SkipCounts;

/// Adds a line for each count that is not 0.
pub(super) fn add_counts(text: &mut String, counts: &[(u64, &str)]) {
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("  {count} {what}\n"));
    }
}

/// Adds the number of skipped items by reason, with examples of each. `what` is the heading, like "files need
/// attention".
pub(super) fn add_skipped(text: &mut String, what: &str, skips: &SkipCounts) {
    for (reason, count) in &skips.skipped {
        text.push_str(&format!("  {count} {what}: {reason}\n"));
        for example in skips.examples.get(reason).into_iter().flatten() {
            text.push_str(&format!("    {example}\n"));
        }
    }
}

/// Adds a line that says that nothing was changed, for a dry run.
pub(super) fn add_dry_run(text: &mut String, dry_run: bool) {
    if dry_run {
        text.push_str("dry run, nothing is changed\n");
    }
}
