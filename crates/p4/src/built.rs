//! What `millrace p4 build` writes: a pipeline as text, and behind it the program that it was made of.
//!
//! ```text
//! ; a pipeline, and behind it the program that it was made of
//! ...
//! ; p4 {"millrace_p4":1,"program":"a.p4","files":{"a.p4":"..."}}
//! ```
//!
//! A pipeline has no names for a control plane, and a program has. Whoever takes such a text compiles the program again,
//! and refuses it if the pipeline is another one then: somebody has changed it, or another version wrote it.
//!
//! Checked by: `tests/built.rs` of `p4-runtime`.

use crate::control::Control;
use crate::lower::Lowered;
use crate::packed::{self, Packed};

/// The first line.
const HEAD: &str = "; a pipeline, and behind it the program that it was made of\n";
/// What the program's line begins with.
const MARK: &str = "; p4 ";

/// Why a text is not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refused {
    /// The program is missing.
    #[error(
        "a pipeline alone has no names for a control plane; `millrace p4 build` writes the program behind it"
    )]
    NoProgram,
    /// The program is none.
    #[error("behind the pipeline: {0}")]
    Packed(#[from] packed::Refused),
    /// They differ.
    #[error(
        "the pipeline is not the one that its program gives: it was changed, or another version wrote it; build it anew"
    )]
    Differs,
}

/// A pipeline as text, and the program that it was made of.
pub fn text(lowered: Lowered, packed: &Packed) -> Result<String, String> {
    Ok(format!("{HEAD}{}{MARK}{}\n", pipeline(lowered)?, packed.to_line()))
}

fn pipeline(lowered: Lowered) -> Result<String, String> {
    let control = Control::new(lowered).map_err(|e| e.to_string())?;
    let mut text = ir::text::print_pipeline(&control.pipeline);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// Whether a text looks like such a one.
pub fn is_built(text: &str) -> bool {
    text.starts_with(';')
}

/// The two parts of a text.
fn parts(text: &str) -> Result<(&str, &str), Refused> {
    let at = match text.rfind(&format!("\n{MARK}")) {
        Some(at) => at + 1,
        None => return Err(Refused::NoProgram),
    };
    let before = &text[..at];
    Ok((before.strip_prefix(HEAD).unwrap_or(before), text[at + MARK.len()..].trim_end()))
}

/// Bytes of the program behind a pipeline.
pub fn program_bytes(text: &str) -> usize {
    parts(text).map_or(0, |(_, program)| program.len())
}

/// The program behind a pipeline.
pub fn unpack(text: &str) -> Result<Packed, Refused> {
    Ok(packed::unpack(parts(text)?.1)?)
}

/// What was compiled of the program gives the pipeline before it.
pub fn agrees(text: &str, lowered: Lowered) -> Result<(), Refused> {
    let (before, _) = parts(text)?;
    match pipeline(lowered).is_ok_and(|own| own == before) {
        true => Ok(()),
        false => Err(Refused::Differs),
    }
}
