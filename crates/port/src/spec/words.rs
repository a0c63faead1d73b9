//! The words of specifications, as kinds of ports read them: interfaces, numbers, options.
//!
//! Every position is in bytes from the start of the specification, so that a refusal can point at its place.

use super::error::SpecError;

/// The refusal of a word that is none of those known.
pub fn unknown(at: usize, what: &'static str, word: &str, known: &[&'static str]) -> SpecError {
    let nearest = nearest(word, known);
    SpecError::Unknown { at, what, word: word.to_owned(), nearest, known: known.join(", ") }
}

/// An interface's name.
pub fn interface(word: &str, at: usize) -> Result<String, SpecError> {
    if word.is_empty() {
        let wanted = "KIND:INTERFACE";
        return Err(SpecError::Missing { at, what: "the interface", wanted });
    }
    match crate::check_interface_name(word) {
        Ok(()) => Ok(word.to_owned()),
        Err(_) => Err(SpecError::Interface { at, word: word.to_owned() }),
    }
}

/// The comma-separated words of a text, each with its position.
pub fn words(text: &str, at: usize) -> impl Iterator<Item = (usize, &str)> {
    text.split(',').scan(at, |next, word| {
        let at = *next;
        *next += word.len() + 1;
        Some((at, word))
    })
}

/// Text that may be any but none.
pub fn required(
    text: &str,
    at: usize,
    what: &'static str,
    wanted: &'static str,
) -> Result<String, SpecError> {
    match text.is_empty() {
        true => Err(SpecError::Missing { at, what, wanted }),
        false => Ok(text.to_owned()),
    }
}

/// A number within these bounds.
pub fn number(
    word: &str,
    at: usize,
    what: &'static str,
    min: u32,
    max: u32,
) -> Result<u32, SpecError> {
    let number = if word.starts_with('+') { None } else { word.parse().ok() };
    number.filter(|n| (min..=max).contains(n)).ok_or_else(|| SpecError::Number {
        at,
        what,
        word: word.to_owned(),
        min,
        max,
    })
}

/// An option's word, and its value if it has one.
pub fn split_option(word: &str) -> (&str, Option<&str>) {
    word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)))
}

/// The known word at the least edit distance, if it is near enough to be meant.
fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let near = known.iter().map(|&candidate| (distance(word, candidate), candidate)).min()?;
    (near.0 <= near.1.len().div_ceil(2)).then_some(near.1)
}

/// Insertions, deletions and substitutions of bytes between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, byte) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(byte != other);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
