//! Programs that make packages.

use std::path::Path;
use std::process::Command;

/// When the sources were last changed, in seconds: all files are of that time.
pub(super) fn epoch(root: &Path) -> String {
    let git = Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]).output();
    let told = git.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    std::env::var("SOURCE_DATE_EPOCH")
        .or(told)
        .ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "0".into())
}

/// Runs a program to its end; what it printed.
pub(super) fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            format!("{name} is not installed; packages are made on Debian")
        }
        _ => format!("{name}: {e}"),
    })?;
    match out.status.success() {
        true => Ok(out.stdout),
        false => {
            Err(format!("{name}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim()))
        }
    }
}
