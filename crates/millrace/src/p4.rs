//! `millrace p4 check`: what is wrong with a P4-16 program, and what would be right.
//!
//! Diagnoses go to standard error as text, or to standard output as one JSON object; status 1 if there
//! are errors.

use crate::Failure;
use crate::cli::{P4CheckOptions, P4Command, P4Source};
use ::p4::preprocess::{Disk, Options};
use std::path::Path;

/// Runs the command.
pub(crate) fn run(command: P4Command) -> Result<(), Failure> {
    match command {
        P4Command::Check(options) => check(options),
    }
}

/// The preprocessor's options.
pub(crate) fn options(source: &P4Source) -> Options {
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.clone(), "1".to_string()),
    };
    Options {
        include: source.include.clone(),
        define: source.define.iter().map(define).collect(),
    }
}

/// The program's text.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) => Err(Failure::usage(format!("{}: {e}", path.display()))),
    }
}

fn check(check: P4CheckOptions) -> Result<(), Failure> {
    let text = read(&check.source.file)?;
    let preprocess = options(&check.source);
    let (errors, warnings, told, json) = ::p4::with_stack(|| {
        let c = ::p4::front(&Disk, &preprocess, &check.source.file, &text);
        let errors = c.diagnostics.errors();
        let warnings = c.diagnostics.list().len().saturating_sub(errors.min(c.diagnostics.list().len()));
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
