//! What is wrong with a text, where, and what would be right.

use crate::flow_match::MatchError;
use crate::version::Version;
use std::fmt;

/// Longest part of a text that an error repeats, in characters.
const WORD_MAX: usize = 60;

/// A text that is not the syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where the offending word begins: bytes from the line's beginning, the first is 1.
    pub column: usize,
    /// The offending word, cut to 60 characters; empty where the text ends too soon.
    pub word: String,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No such word.
    Unknown {
        /// What kind of word belongs there.
        what: &'static str,
        /// The known word that is most like it, if one is.
        nearest: Option<&'static str>,
    },
    /// Something else belongs there.
    Expected(String),
    /// The word is right as such, yet not here.
    Refused(String),
    /// The version has nothing like it.
    NotIn {
        /// Which version.
        version: Version,
        /// What kind of thing it is.
        what: &'static str,
    },
    /// A word of an extension of Open vSwitch.
    Extension,
    /// It was said before.
    Twice,
    /// The match cannot be so.
    Match(MatchError),
}

impl SyntaxError {
    pub(crate) fn new(at: usize, word: &str, fault: Fault) -> SyntaxError {
        SyntaxError { column: at + 1, word: word.chars().take(WORD_MAX).collect(), fault }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: ", self.column)?;
        let word = self.word.escape_debug();
        match &self.fault {
            Fault::Unknown { what, nearest: Some(nearest) } => {
                write!(f, "unknown {what} `{word}`; did you mean `{nearest}`?")
            }
            Fault::Unknown { what, nearest: None } => write!(f, "unknown {what} `{word}`"),
            Fault::Expected(what) if self.word.is_empty() => {
                write!(f, "expected {what}, found nothing")
            }
            Fault::Expected(what) => write!(f, "expected {what}, found `{word}`"),
            Fault::Refused(why) => write!(f, "`{word}`: {why}"),
            Fault::NotIn { version, what } => write!(f, "`{word}`: {version} has no such {what}"),
            Fault::Extension => write!(f, "`{word}`: Nicira extension not supported yet"),
            Fault::Twice => write!(f, "`{word}` is there twice; once is right"),
            Fault::Match(error) => write!(f, "`{word}`: {error}"),
        }
    }
}

impl std::error::Error for SyntaxError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.fault {
            Fault::Match(error) => Some(error),
            _ => None,
        }
    }
}

/// The known word that `word` is likely meant to be: fewest edits, at most a third of its length
/// (but two for words of three letters or more); the first of equals.
pub(crate) fn nearest(
    word: &str,
    known: impl IntoIterator<Item = &'static str>,
) -> Option<&'static str> {
    // No known word is that long, so none is near.
    if word.len() > 32 {
        return None;
    }
    let length = word.chars().count();
    let most = if length < 3 { 1 } else { (length / 3).max(2) };
    known
        .into_iter()
        .map(|k| (distance(word, k), k))
        .filter(|(d, k)| *d <= most && *d < length.min(k.len()))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Insertions, deletions, replacements and swaps of neighbours that make `b` of `a`, letter case
/// ignored.
fn distance(a: &str, b: &str) -> usize {
    let lower = |s: &str| s.chars().map(|c| c.to_ascii_lowercase()).collect::<Vec<_>>();
    let (a, b) = (lower(a), lower(b));
    // Row i: the distances of a[..i] to every b[..j].
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("nw_scr", "NW_SRC"), 1);
        assert_eq!(nearest("nw_sorc", ["nw_dst", "nw_src"]), Some("nw_src"));
        assert_eq!(nearest("zebra", ["nw_dst", "nw_src"]), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
