//! Source texts and places in them.
//!
//! All files of one compilation share one space of byte offsets, so a [`Span`] is two numbers and
//! knows its file. Offset 0 belongs to no file: a span of `0..0` means that there is no place.

use std::rc::Rc;

/// A range of bytes in the space of all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub lo: u32,
    /// After the last byte.
    pub hi: u32,
}

impl Span {
    /// From the start of this one to the end of the other.
    pub fn to(self, end: Span) -> Span {
        if self.lo == 0 {
            return end;
        }
        Span { lo: self.lo, hi: end.hi.max(self.hi) }
    }

    /// It points to no file.
    pub fn is_none(self) -> bool {
        self.lo == 0
    }
}

/// A text and where it begins in the space of offsets.
#[derive(Debug)]
pub struct SourceFile {
    /// Path as the user or an `#include` gave it.
    pub name: String,
    /// The text.
    pub text: Rc<str>,
    /// It comes with the compiler.
    pub embedded: bool,
    start: u32,
    /// Offsets of line starts within the text.
    lines: Vec<u32>,
}

/// Where a span begins, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The file's name.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// Column after the last character.
    pub end_column: u32,
}

/// All files of a compilation.
#[derive(Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

/// Bytes of all files together, at most.
const BYTES_MAX: usize = 1 << 28;

impl SourceMap {
    /// Adds a file; its index and where it begins. `None` if there is too much text in all.
    pub fn add(&mut self, name: &str, text: &str, embedded: bool) -> Option<(usize, u32)> {
        let start = self.files.last().map_or(1, |f| f.start as usize + f.text.len() + 1);
        if start + text.len() >= BYTES_MAX {
            return None;
        }
        let mut lines = vec![0];
        lines.extend(
            text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1),
        );
        let file = SourceFile {
            name: name.to_string(),
            text: text.into(),
            embedded,
            start: start as u32,
            lines,
        };
        self.files.push(file);
        Some((self.files.len() - 1, start as u32))
    }

    /// The file that a span begins in.
    pub fn file(&self, span: Span) -> Option<&SourceFile> {
        if span.is_none() {
            return None;
        }
        let i = self.files.partition_point(|f| f.start <= span.lo).checked_sub(1)?;
        self.files.get(i)
    }

    /// A file by its index.
    pub fn get(&self, index: usize) -> &SourceFile {
        &self.files[index]
    }

    /// The text of a span.
    pub fn text(&self, span: Span) -> &str {
        let Some(file) = self.file(span) else { return "" };
        let (lo, hi) = ((span.lo - file.start) as usize, (span.hi - file.start) as usize);
        file.text.get(lo..hi.min(file.text.len())).unwrap_or("")
    }

    /// Line and columns of a span.
    pub fn locate(&self, span: Span) -> Option<Location> {
        let file = self.file(span)?;
        let (line, column) = file.position(span.lo - file.start);
        let hi = (span.hi.max(span.lo) - file.start).min(file.text.len() as u32);
        let (end_line, end_column) = file.position(hi);
        Some(Location { file: file.name.clone(), line, column, end_line, end_column })
    }
}

impl SourceFile {
    /// Line and column, from 1, of an offset within the text.
    fn position(&self, offset: u32) -> (u32, u32) {
        let line = self.lines.partition_point(|l| *l <= offset).max(1);
        let start = self.lines[line - 1] as usize;
        let before = self.text.get(start..offset as usize).unwrap_or("");
        (line as u32, before.chars().count() as u32 + 1)
    }

    /// The text of a line (from 1), without its end.
    pub fn line(&self, line: u32) -> &str {
        let start = self.lines[line as usize - 1] as usize;
        let end = self.lines.get(line as usize).map_or(self.text.len(), |l| *l as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}
