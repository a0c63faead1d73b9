//! `millrace stf`: runs p4c's packet tests on a P4 program.
//!
//! Each file runs on every engine of this build, or on the one that `--engine` names, from the program
//! as it was compiled. A line a file and engine, what went otherwise than expected with file and line;
//! status 1 if anything did.

use crate::cli::StfOptions;
use control::engine::EngineName;
use control::failure::Failure;
use control::program::p4_file::{compile, read};
use datapath::filetest::Compiled;
use interp::filetest::Interpreter;
use ir::text::filetest::Engine;
use serde_json::json;

/// Runs the command.
pub(crate) fn run(options: StfOptions) -> Result<(), Failure> {
    let lowered = compile(&options.source)?;
    let engines = match options.engine {
        Some(one) => vec![one],
        None => vec![EngineName::Interp, EngineName::Jit],
    };
    let mut rows = Vec::new();
    let mut failed = 0;
    for file in &options.files {
        let text = read(file)?;
        for name in &engines {
            let word = if *name == EngineName::Jit { "jit" } else { "interp" };
            let mut control = ::p4::control::Control::new(lowered.clone()).map_err(Failure::bad)?;
            let mut engine: Box<dyn Engine> = match name {
                EngineName::Interp => Box::new(Interpreter::new()),
                EngineName::Jit => Box::new(
                    Compiled::new(datapath::compiled::Options::default()).map_err(Failure::bad)?,
                ),
            };
            let how = ::p4::stf::Options { check_sequence: options.check_sequence };
            let (checks, failures) = ::p4::stf::run_with(&text, &mut control, &mut *engine, how);
            if !options.json {
                if failures.is_empty() {
                    println!("{}: {word}: ok, {checks} checks", file.display());
                } else {
                    println!("{}: {word}: FAILED", file.display());
                }
                for f in &failures {
                    println!("  {}:{}: {}", file.display(), f.line, f.text);
                }
            }
            failed += usize::from(!failures.is_empty());
            rows.push(json!({
                "file": file.display().to_string(),
                "engine": word,
                "checks": checks,
                "failures": failures.iter().map(|f| json!({"line": f.line, "text": f.text})).collect::<Vec<_>>(),
            }));
        }
    }
    if options.json {
        println!("{}", json!({"runs": rows, "failed": failed}));
    }
    if failed > 0 {
        return Err(Failure::bad(format!("{failed} of {} runs failed", rows.len())));
    }
    Ok(())
}
