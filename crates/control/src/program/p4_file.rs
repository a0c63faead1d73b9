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
        .map(|w| match w.line {
            0 => format!("{}: {}", path.display(), w.text),
            line => format!("{}:{line}: {}", path.display(), w.text),
        })
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
    let (built, told) = lower(&source.file, &text, &Options { limits, ..options(source) })?;
    Ok((built.map(|built| built.lowered), told))
}

/// A program for a switch that runs: compiled, its P4Info, and a device configuration for P4Runtime that makes it again.
pub struct Loadable {
    /// The program.
    pub lowered: ::p4::lower::Lowered,
    /// Its own P4Info.
    pub info: Vec<u8>,
    /// Its text, with its files if it has some.
    pub config: Vec<u8>,
}

/// Such a program, unless something is wrong with it, and what is to be said of it.
pub fn loadable(source: &P4Source, limits: Limits) -> Result<(Option<Loadable>, String), Failure> {
    let text = read(&source.file)?;
    let options = Options { limits, ..options(source) };
    let (built, told) = lower(&source.file, &text, &options)?;
    let Some(Built { lowered, info }) = built else { return Ok((None, told)) };
    let config = match text.trim_start().starts_with('{') {
        true => text,
        false => {
            let packed = ::p4::with_stack(|| ::p4::packed::pack(&options, &source.file, &text).1);
            if packed.is_alone() { text } else { packed.to_json() }
        }
    };
    Ok((Some(Loadable { lowered, info, config: config.into_bytes() }), told))
}

/// A program compiled, its P4Info as bytes, and its text; what is wrong with it goes to standard error.
pub fn compile_with_info(
    source: &P4Source,
) -> Result<(::p4::lower::Lowered, Vec<u8>, String), Failure> {
    let text = read(&source.file)?;
    let (built, told) = lower(&source.file, &text, &options(source))?;
    eprint!("{told}");
    let built =
        built.ok_or_else(|| Failure::bad(format!("{} was not compiled", source.file.display())));
    built.map(|built| (built.lowered, built.info, text))
}

/// The text of a program by this name compiled, unless something is wrong with it.
pub fn compile_text(name: &Path, text: &str) -> Result<::p4::lower::Lowered, Failure> {
    let source = source(name);
    let (built, told) = lower(name, text, &options(&source))?;
    let built = built.ok_or_else(|| Failure::Bad(told.trim_end().to_owned()));
    built.map(|built| built.lowered)
}

/// A program that was compiled.
struct Built {
    lowered: ::p4::lower::Lowered,
    /// Its own P4Info.
    info: Vec<u8>,
}

/// Compiles a program of any form: P4's text, a packed program, bmv2's JSON.
fn lower(file: &Path, text: &str, options: &Options) -> Result<(Option<Built>, String), Failure> {
    if !text.trim_start().starts_with('{') {
        return Ok(checked(|| ::p4::front(&Disk, options, file, text)));
    }
    let name = file.display();
    if !options.include.is_empty() || !options.define.is_empty() {
        return Err(Failure::usage(format!(
            "{name} is JSON, which takes no -I and no -D: they were used when it was made"
        )));
    }
    if ::p4::packed::is_packed(text) {
        let packed = ::p4::packed::unpack(text);
        let packed = packed.map_err(|e| Failure::bad(format!("{name}: {e}")))?;
        return Ok(checked(|| packed.front(options.limits)));
    }
    // What p4c leaves out of it is in the P4Info that a client pushes; a file comes without.
    let hints = ::p4::bmv2::Hints::default();
    let compiled = ::p4::with_stack(|| {
        ::p4::bmv2::compile(text, &hints, options.limits)
            .map(|c| Built { lowered: c.lowered, info: c.info })
    });
    match compiled {
        Ok(built) => Ok((Some(built), String::new())),
        Err(refused) => Err(Failure::bad(format!("{name}: bmv2's JSON, {refused}"))),
    }
}

/// Compiles what `front` reads and checks.
fn checked(front: impl FnOnce() -> ::p4::Checked + Send) -> (Option<Built>, String) {
    ::p4::with_stack(|| {
        let mut c = front();
        let lowered = match c.diagnostics.errors() {
            0 => ::p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        let built = lowered.map(|lowered| {
            let info = ::p4::info::to_bytes(&c.program, &lowered);
            Built { lowered, info }
        });
        (built, c.diagnostics.render(&c.map))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");

    #[test]
    fn a_program_may_be_of_any_form() {
        let json = format!("{ROOT}filetests/p4/bmv2/router.json");
        let json = std::fs::read_to_string(json).unwrap();
        compile_text(Path::new("router.json"), &json).unwrap();
        let text = std::fs::read_to_string(format!("{ROOT}filetests/p4/everything.p4")).unwrap();
        let path = Path::new("everything.p4");
        let packed = ::p4::with_stack(|| ::p4::packed::pack(&Options::default(), path, &text).1);
        let plain = compile_text(path, &text).unwrap();
        let again = compile_text(Path::new("e.json"), &packed.to_json()).unwrap();
        assert_eq!(again.program.tables.len(), plain.program.tables.len());
    }

    #[test]
    fn what_is_wrong_with_json_is_told() {
        let text = |json: &str, define: Vec<(String, String)>| {
            let options = Options { define, ..Options::default() };
            match lower(Path::new("a.json"), json, &options) {
                Err(failure) => failure.text(),
                Ok(_) => panic!("{json} was compiled"),
            }
        };
        assert!(text("{}", Vec::new()).starts_with("a.json: bmv2's JSON, "));
        let form = text(r#"{"millrace_p4": 9}"#, Vec::new());
        assert!(form.starts_with("a.json: a packed program is no JSON of its form"), "{form}");
        let define = vec![("A".to_owned(), "1".to_owned())];
        assert!(text("{}", define).contains("takes no -I and no -D"));
    }
}
