//! P4-16: from a program's text to a typed tree, and from that to the pipeline language.
//!
//! In: a program, folders for `#include`, macros. Out: everything wrong with it, each mistake told
//! once with its place; or the typed, resolved tree of what it says.
//!
//! | module | holds |
//! |---|---|
//! | [`source`], [`diag`] | places in texts; what is wrong there and what would be right |
//! | [`lex`], [`literal`], [`preprocess`] | tokens; numbers; `#include`, macros, conditions |
//! | [`file`], [`limits`] | plain files only; how large a program may be |
//! | [`ast`], [`parse`] | the syntax tree; the parser, which goes on after errors |
//! | [`lower`] | from the typed tree to the pipeline language; the v1model architecture |
//! | [`control`] | entries, groups, sessions by name; another program in place of the one that runs |
//! | [`bmv2`] | the JSON that p4c writes for bmv2, read as a program |
//! | [`commands`], [`stf`] | these as lines of text, in the manner of bmv2's; p4c's packet tests |
//! | [`types`], [`hir`], [`check`] | types; the typed tree; the checker, from one tree to the other |
//!
//! Invariants: any bytes end in a tree or an error, within bounded memory and stack; `core.p4` and
//! `v1model.p4` come with the crate, so that no file but the program is needed.

use std::path::Path;

mod annotations;
pub mod ast;
pub mod bmv2;
pub mod built;
pub mod check;
pub mod commands;
pub mod control;
pub mod diag;
pub mod file;
pub mod hir;
pub mod info;
pub mod lex;
pub mod limits;
pub mod literal;
pub mod lower;
pub mod packed;
pub mod parse;
pub mod preprocess;
pub mod source;
pub mod stf;
pub mod types;

/// A program that was read and checked, with all that was said of it.
#[derive(Debug)]
pub struct Checked {
    /// The files it came from.
    pub map: source::SourceMap,
    /// What was wrong with it.
    pub diagnostics: diag::Diagnostics,
    /// What it says; to be used only if there were no errors.
    pub program: hir::Program,
}

/// Reads and checks a program. To be called within [`with_stack`].
pub fn front(
    files: &dyn preprocess::Files,
    options: &preprocess::Options,
    path: &Path,
    text: &str,
) -> Checked {
    let mut map = source::SourceMap::default();
    let mut diagnostics = diag::Diagnostics::default();
    let tokens = preprocess::preprocess(&mut map, &mut diagnostics, files, options, path, text);
    let decls = parse::parse(&tokens, &mut diagnostics);
    let mut program = check::check(&decls, &mut diagnostics);
    program.limits = options.limits;
    Checked { map, diagnostics, program }
}

/// Stack for a compilation. The parser bounds how deep a program nests; this is enough for that.
const STACK_BYTES: usize = 512 << 20;

/// Runs `f` in a thread with the stack that deep programs need. Pages that are not used cost nothing.
///
/// # Panics
/// If `f` does, or if the system refuses a thread.
pub fn with_stack<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("p4".to_string())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, f)
            .expect("a thread for the compiler");
        match thread.join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// The body of the fuzz target: any bytes end in diagnoses or in a pipeline that reads back from its
/// text form. The fuzz target's thread is small, so this one makes its own.
///
/// # Panics
/// If they do not.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    with_stack(|| {
        let options = preprocess::Options::default();
        let path = Path::new("fuzz.p4");
        let mut c = front(&preprocess::NoFiles, &options, path, &text);
        let _ = (c.diagnostics.render(&c.map), c.diagnostics.json(&c.map));
        if c.diagnostics.errors() > 0 {
            return;
        }
        let Some(lowered) = lower::lower(&c.program, &mut c.diagnostics) else { return };
        let control = control::Control::new(lowered).expect("a lowered program is verified");
        let printed = ir::text::print_pipeline(&control.pipeline);
        match ir::text::pipeline(&printed) {
            Ok(again) => assert_eq!(printed, ir::text::print_pipeline(&again)),
            Err(e) => panic!("{e}\n{printed}"),
        }
    });
}
