//! Rows of figures, as a table of Markdown.

/// Prints the header of a table.
pub(super) fn head(columns: &[&str]) {
    let rule: Vec<&str> = columns.iter().map(|_| "---").collect();
    println!("\n{}\n{}", row(columns), row(&rule));
}

/// A row of a table.
pub(super) fn row(cells: &[&str]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// Whether a figure meets its target, as a cell.
pub(super) fn met(is_met: bool) -> &'static str {
    if is_met { "met" } else { "not met" }
}
