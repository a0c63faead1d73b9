//! Markdown, as far as the rules read it.

/// The lines of a document's section, with their numbers: from its heading to the next of any level.
pub(crate) fn section<'a>(text: &'a str, heading: &str) -> Vec<(usize, &'a str)> {
    let mut lines = text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let is_heading = |line: &str| line.starts_with('#');
    let found = lines
        .by_ref()
        .find(|(_, line)| is_heading(line) && line.trim_start_matches('#').trim() == heading);
    if found.is_none() {
        return Vec::new();
    }
    lines.take_while(|(_, line)| !is_heading(line)).collect()
}

/// What stands between backticks in a line.
pub(crate) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The line of the first of these texts in a file, or 0.
pub(crate) fn line_of(text: &str, wanted: impl Fn(&str) -> bool) -> usize {
    text.lines().position(wanted).map_or(0, |at| at + 1)
}
