//! `millrace p4 check`: what is wrong with a P4-16 program, and what would be right. `millrace p4
//! build`: the program in the pipeline language, with its own entries.
//!
//! Diagnoses go to standard error as text, or to standard output as one JSON object; status 1 if there
//! are errors.

use crate::Failure;
use crate::cli::{P4BuildOptions, P4CheckOptions, P4Command, P4Source};
use ::p4::preprocess::{Disk, Options};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(command: P4Command) -> Result<(), Failure> {
    match command {
        P4Command::Check(options) => check(options),
        P4Command::Build(options) => build(options),
    }
}

/// The preprocessor's options.
pub(crate) fn options(source: &P4Source) -> Options {
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.clone(), "1".to_string()),
    };
    Options { include: source.include.clone(), define: source.define.iter().map(define).collect() }
}

/// The program's text.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) => Err(Failure::usage(format!("{}: {e}", path.display()))),
    }
}

/// A program compiled; what is wrong with it goes to standard error.
pub(crate) fn compile(source: &P4Source) -> Result<::p4::lower::Lowered, Failure> {
    let text = read(&source.file)?;
    let preprocess = options(source);
    let (lowered, told) = ::p4::with_stack(|| {
        let mut c = ::p4::front(&Disk, &preprocess, &source.file, &text);
        let lowered = match c.diagnostics.errors() {
            0 => ::p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        (lowered, c.diagnostics.render(&c.map))
    });
    eprint!("{told}");
    lowered.ok_or_else(|| Failure::bad(format!("{} was not compiled", source.file.display())))
}

fn build(build: P4BuildOptions) -> Result<(), Failure> {
    let control = ::p4::control::Control::new(compile(&build.source)?).map_err(Failure::bad)?;
    let text = ir::text::print_pipeline(&control.pipeline);
    match build.out {
        Some(path) => std::fs::write(&path, text)
            .map_err(|e| Failure::bad(format!("{}: {e}", path.display()))),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn check(check: P4CheckOptions) -> Result<(), Failure> {
    let text = read(&check.source.file)?;
    let preprocess = options(&check.source);
    let (errors, warnings, told, json) = ::p4::with_stack(|| {
        let c = ::p4::front(&Disk, &preprocess, &check.source.file, &text);
        let errors = c.diagnostics.errors();
        let warnings =
            c.diagnostics.list().len().saturating_sub(errors.min(c.diagnostics.list().len()));
        let json = check.json.then(|| c.diagnostics.json(&c.map));
        (errors, warnings, c.diagnostics.render(&c.map), json)
    });
    let name = check.source.file.display();
    match json {
        Some(diagnostics) => {
            let report = serde_json::json!({
                "file": name.to_string(),
                "errors": errors,
                "warnings": warnings,
                "diagnostics": diagnostics,
            });
            println!("{report}");
        }
        None => eprint!("{told}"),
    }
    if errors > 0 {
        let plural = if errors == 1 { "" } else { "s" };
        return Err(Failure::bad(format!("{name}: {errors} error{plural}")));
    }
    Ok(())
}
