//! bmv2's programs by their names: what [`bmv2`] makes of their words is done as `millrace`.

use bmv2::dataplane::Dataplane;
use bmv2::names::{Call, Program};
use bmv2::{Refused, compiler, shell, switch};
use control::failure::Failure;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where control sockets are.
fn folder() -> PathBuf {
    let path = control::dial::default_path();
    path.parent().map(PathBuf::from).unwrap_or_default()
}

/// Why there is no stand-in of this name; those that there are never come so far.
pub(crate) fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = bmv2::names::PROGRAMS.iter().map(|(name, _)| *name).collect();
    Failure::Usage(format!("there is no stand-in {name:?}; there are {}", names.join(", ")))
}

/// Does a call.
pub(crate) fn run(call: &Call) -> ExitCode {
    let name = call.words[0].to_string_lossy().into_owned();
    match act(call) {
        Ok(status) => status,
        // Help and versions go to standard output, with status 0.
        Err(Refused::Words(error)) => {
            let status = u8::try_from(error.exit_code()).unwrap_or(2);
            match status {
                0 => println!("{error}"),
                _ => eprint!("{error}"),
            }
            ExitCode::from(status)
        }
        Err(Refused::Usage(text)) => {
            eprintln!("{name}: {text}");
            ExitCode::from(2)
        }
        Err(Refused::Bad(text)) => {
            eprintln!("{name}: {text}");
            ExitCode::from(1)
        }
    }
}

fn tell(name: &str, told: &[String]) {
    told.iter().for_each(|line| eprintln!("{name}: {line}"));
}

fn act(call: &Call) -> Result<ExitCode, Refused> {
    let name = call.words[0].to_string_lossy();
    match call.program {
        Program::CompilerForBmv2 | Program::Compiler => {
            let told = compiler::run(&call.words, call.program == Program::Compiler)?;
            eprint!("{told}");
            Ok(ExitCode::SUCCESS)
        }
        Program::Shell => {
            let (words, told) = shell::words(&call.words, &folder())?;
            tell(&name, &told);
            Ok(command(words))
        }
        Program::Switch => {
            let asked = switch::switch(&call.words, &folder())?;
            tell(&name, &asked.told);
            let dataplane = asked.by_grpc.as_ref().map(Dataplane::start).transpose();
            let dataplane = dataplane.map_err(|e| Refused::Bad(e.to_string()))?;
            let status = command(asked.words);
            drop(dataplane);
            Ok(status)
        }
    }
}

fn command(words: Vec<OsString>) -> ExitCode {
    crate::command(words)
}
