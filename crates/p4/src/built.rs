//! What `millrace p4 build` writes: a pipeline as text, and behind it the program that it was made of.
//!
//! ```text
//! program
//! ...
//! ; p4 {"millrace_p4":1,"program":"a.p4","files":{"a.p4":"..."}}
//! ```
//!
//! A pipeline has no names for a control plane, and a program has. Whoever takes such a text compiles the program again,
//! and refuses it if the pipeline is another one then: somebody has changed it, or another version wrote it.
//!
//! Checked by: the tests here; `tests/json.rs` of `p4-runtime`.

use crate::control::Control;
use crate::lower::Lowered;
use crate::packed::{self, Packed};

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
    Ok(format!("{}{MARK}{}\n", pipeline(lowered)?, packed.to_line()))
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
    text.starts_with("program ") || text.starts_with("; ")
}

/// The two parts of a text.
fn parts(text: &str) -> Result<(&str, &str), Refused> {
    let at = match text.rfind(&format!("\n{MARK}")) {
        Some(at) => at + 1,
        None => return Err(Refused::NoProgram),
    };
    Ok((&text[..at], text[at + MARK.len()..].trim_end()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preprocess::Options;
    use std::path::Path;

    const PROGRAM: &str = include_str!("../../../filetests/p4/profiles.p4");

    fn built() -> (Lowered, String) {
        crate::with_stack(|| {
            let (mut c, packed) =
                packed::pack(&Options::default(), Path::new("profiles.p4"), PROGRAM);
            let lowered = crate::lower::lower(&c.program, &mut c.diagnostics).unwrap();
            let text = text(lowered.clone(), &packed).unwrap();
            (lowered, text)
        })
    }

    #[test]
    fn a_pipeline_has_its_program_behind_it() {
        let (lowered, text) = built();
        assert!(is_built(&text) && !is_built(PROGRAM), "{}", &text[..80]);
        assert_eq!(unpack(&text).unwrap().path(), Path::new("profiles.p4"));
        assert_eq!(agrees(&text, lowered.clone()), Ok(()));
        // It still is a pipeline's text.
        ir::text::pipeline(&text).unwrap();
        let changed = text.replacen("capacity", "counters\n    capacity", 1);
        assert_ne!(changed, text);
        assert_eq!(agrees(&changed, lowered), Err(Refused::Differs));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert_eq!(unpack("program x\n"), Err(Refused::NoProgram));
        assert!(matches!(unpack("program x\n; p4 {}\n"), Err(Refused::Packed(_))));
        assert_eq!((program_bytes("program x\n"), program_bytes("; a\n; p4 {}\n")), (0, 2));
    }
}
