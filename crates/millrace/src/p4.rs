//! `millrace p4 check`: what is wrong with a P4-16 program, and what would be right. `millrace p4
//! build`: the program in the pipeline language, with its own entries. `millrace p4 info`: its P4Info.
//! `millrace p4 do` and `millrace p4 load` ask a running switch for what [`Host`](control::program::host::Host) does.
//!
//! Diagnoses go to standard error as text, or to standard output as one JSON object; status 1 if there
//! are errors.

use crate::cli::{
    P4BuildOptions, P4CheckOptions, P4Command, P4DoOptions, P4InfoOptions, P4LoadOptions,
};
use crate::show::show;
use ::p4::preprocess::Disk;
use control::client::ask;
use control::failure::Failure;
use control::program::p4_file::{options, read};
use control::verbs::p4_do::P4Do;
use control::verbs::p4_load::P4Load;
use std::path::Path;

/// Runs the command.
pub(crate) fn run(command: P4Command) -> Result<(), Failure> {
    match command {
        P4Command::Check(options) => check(options),
        P4Command::Build(options) => build(options),
        P4Command::Info(options) => info(options),
        P4Command::Do(options) => commands(options),
        P4Command::Shell(options) => crate::p4_shell::run(&options),
        P4Command::Load(options) => load(options),
    }
}

/// `millrace p4 do`.
fn commands(options: P4DoOptions) -> Result<(), Failure> {
    let text = match &options.file {
        None => options.words.join(" "),
        Some(path) if path.as_os_str() == "-" => {
            std::io::read_to_string(std::io::stdin()).map_err(Failure::bad)?
        }
        Some(path) => read(path)?,
    };
    let value = ask(options.to.whom(), &P4Do { text })?;
    let wrong = value["wrong"].as_array().map_or(&[][..], Vec::as_slice);
    show::<P4Do>(value.clone(), options.json)?;
    if wrong.is_empty() {
        return Ok(());
    }
    let told = |w: &serde_json::Value| {
        let text = w["text"].as_str().unwrap_or("");
        match &options.file {
            Some(path) if w["line"] == 0 => format!("{}: {text}", path.display()),
            Some(path) => format!("{}:{}: {text}", path.display(), w["line"]),
            None => text.to_string(),
        }
    };
    let lines: Vec<String> = wrong.iter().map(told).collect();
    Err(Failure::Bad(lines.join("\nmillrace: ")))
}

/// `millrace p4 load`. The switch compiles: it may lie elsewhere than the command is run, so paths are made
/// absolute.
fn load(options: P4LoadOptions) -> Result<(), Failure> {
    let whole = |path: &Path| {
        std::fs::canonicalize(path).map_err(|e| Failure::Usage(format!("{}: {e}", path.display())))
    };
    let mut source = options.source;
    source.file = whole(&source.file)?;
    source.include = source.include.iter().map(|p| whole(p)).collect::<Result<_, _>>()?;
    let value = ask(options.to.whom(), &P4Load { source })?;
    show::<P4Load>(value, options.json)
}

fn build(build: P4BuildOptions) -> Result<(), Failure> {
    let (file, preprocess) = (&build.source.file, options(&build.source));
    let text = read(file)?;
    let (told, built) = ::p4::with_stack(|| {
        let (mut c, packed) = ::p4::packed::pack(&preprocess, file, &text);
        let lowered = match c.diagnostics.errors() {
            0 => ::p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        let built = lowered.map(|lowered| ::p4::built::text(lowered, &packed));
        (c.diagnostics.render(&c.map), built)
    });
    eprint!("{told}");
    let text = built.ok_or_else(|| Failure::bad(format!("{} was not compiled", file.display())))?;
    let text = text.map_err(Failure::bad)?;
    match build.out {
        Some(path) => std::fs::write(&path, text)
            .map_err(|e| Failure::bad(format!("{}: {e}", path.display()))),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

fn info(info: P4InfoOptions) -> Result<(), Failure> {
    let text = read(&info.source.file)?;
    let preprocess = options(&info.source);
    let (told, bytes) = ::p4::with_stack(|| {
        let mut c = ::p4::front(&Disk, &preprocess, &info.source.file, &text);
        let lowered = match c.diagnostics.errors() {
            0 => ::p4::lower::lower(&c.program, &mut c.diagnostics),
            _ => None,
        };
        let bytes = lowered.map(|lowered| match info.binary {
            true => ::p4::info::to_bytes(&c.program, &lowered),
            false => ::p4::info::to_text(&c.program, &lowered).into_bytes(),
        });
        (c.diagnostics.render(&c.map), bytes)
    });
    eprint!("{told}");
    let name = info.source.file.display();
    let bytes = bytes.ok_or_else(|| Failure::bad(format!("{name} was not compiled")))?;
    match &info.out {
        Some(path) => std::fs::write(path, bytes)
            .map_err(|e| Failure::bad(format!("{}: {e}", path.display())))?,
        None => control::output::say_bytes(&bytes),
    }
    Ok(())
}

fn check(check: P4CheckOptions) -> Result<(), Failure> {
    let text = read(&check.source.file)?;
    let preprocess = options(&check.source);
    let (errors, warnings, told, json) = ::p4::with_stack(|| {
        let mut c = ::p4::front(&Disk, &preprocess, &check.source.file, &text);
        // What cannot be built is no good program.
        if c.diagnostics.errors() == 0 {
            let _ = ::p4::lower::lower(&c.program, &mut c.diagnostics);
        }
        let (errors, warnings) = (c.diagnostics.errors(), c.diagnostics.warnings());
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
