//! P4 programs from files: read, compiled, and what is wrong with them told.

use crate::failure::Failure;
use ::p4::commands::Wrong;
use ::p4::limits::Limits;
use ::p4::preprocess::{Disk, Options};
use clap::Args;
use std::path::{Path, PathBuf};

/// Lines that went wrong that are told of a file, at most.
const WRONG_MAX: usize = 20;

/// A P4 program and how to read it.
#[derive(Args, Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct P4Source {
    /// The program
    pub file: PathBuf,
    /// A folder to search for included files; core.p4 and v1model.p4 come with millrace
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// A macro defined from the start
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    pub define: Vec<String>,
}

/// A program's file without folders or macros.
pub fn source(path: &Path) -> P4Source {
    P4Source { file: path.to_path_buf(), include: Vec::new(), define: Vec::new() }
}

/// Tells what is wrong with a file, if anything is.
pub fn refuse(path: &Path, wrong: &[Wrong]) -> Result<(), Failure> {
    if wrong.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = wrong
        .iter()
        .take(WRONG_MAX)
        .map(|w| format!("{}:{}: {}", path.display(), w.line, w.text))
        .collect();
    if wrong.len() > WRONG_MAX {
        lines.push(format!("and {} more", wrong.len() - WRONG_MAX));
    }
    Err(Failure::Bad(lines.join("\nmillrace: ")))
}

/// The preprocessor's options.
pub fn options(source: &P4Source) -> Options {
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.clone(), "1".to_string()),
    };
    Options {
        include: source.include.clone(),
        define: source.define.iter().map(define).collect(),
        limits: Limits::default(),
    }
}

/// Bytes of a file of entries or commands, at most.
const TEXT_BYTES_MAX: u64 = 1 << 30;

/// The text of a program, of entries, of packet tests: of a plain file.
pub fn read(path: &Path) -> Result<String, Failure> {
    ::p4::file::read_text(path, TEXT_BYTES_MAX)
        .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))
}

/// A program compiled; what is wrong with it goes to standard error.
pub fn compile(source: &P4Source) -> Result<::p4::lower::Lowered, Failure> {
    let (lowered, told) = compile_told(source, Limits::default())?;
    eprint!("{told}");
    lowered.ok_or_else(|| Failure::bad(format!("{} was not compiled", source.file.display())))
}

/// A program compiled, unless something is wrong with it, and what is to be said of it.
pub fn compile_told(
    source: &P4Source,
    limits: Limits,
) -> Result<(Option<::p4::lower::Lowered>, String), Failure> {
    let text = read(&source.file)?;
    Ok(lower(&source.file, &text, &Options { limits, ..options(source) }))
}

/// A program compiled, its P4Info as bytes, and its text; what is wrong with it goes to standard error.
pub fn compile_with_info(
    source: &P4Source,
) -> Result<(::p4::lower::Lowered, Vec<u8>, String), Failure> {
    let text = read(&source.file)?;
    let preprocess = options(source);
    let (built, told) = ::p4::with_stack(|| {
        let mut c = ::p4::front(&Disk, &preprocess, &source.file, &text);
        let lowered = match c.diagnostics.errors() {
            0 => ::p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        let built = lowered.map(|lowered| {
            let info = ::p4::info::to_bytes(&c.program, &lowered);
            (lowered, info)
        });
        (built, c.diagnostics.render(&c.map))
    });
    eprint!("{told}");
    let built =
        built.ok_or_else(|| Failure::bad(format!("{} was not compiled", source.file.display())));
    built.map(|(lowered, info)| (lowered, info, text))
}

/// The text of a program by this name compiled, unless something is wrong with it.
pub fn compile_text(name: &Path, text: &str) -> Result<::p4::lower::Lowered, Failure> {
    let source = source(name);
    let (lowered, told) = lower(name, text, &options(&source));
    lowered.ok_or_else(|| Failure::Bad(told.trim_end().to_owned()))
}

fn lower(file: &Path, text: &str, options: &Options) -> (Option<::p4::lower::Lowered>, String) {
    ::p4::with_stack(|| {
        let mut c = ::p4::front(&Disk, options, file, text);
        let lowered = match c.diagnostics.errors() {
            0 => ::p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        (lowered, c.diagnostics.render(&c.map))
    })
}
