//! Manual pages and completions, which a binary that runs here writes.

use super::tools::run;
use super::tree::Staged;
use super::wanted::Wanted;
use std::path::Path;
use std::process::Command;

/// Shells, and where their completions come below `share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/millrace"),
    ("zsh", "zsh/vendor-completions/_millrace"),
    ("fish", "fish/vendor_completions.d/millrace.fish"),
];

/// Adds them below this folder.
pub(super) fn add(wanted: &Wanted, staged: &Staged, share: &str) -> Result<(), String> {
    let name = format!("{share}/man/man1");
    let folder = staged.folder(&name)?;
    run(Command::new(&wanted.tool).arg("man").arg(&folder))?;
    for page in staged.names(&name)? {
        compress(&folder.join(page))?;
    }
    for (shell, to) in COMPLETIONS {
        let script = run(Command::new(&wanted.tool).args(["completions", shell]))?;
        staged.file(&format!("{share}/{to}"), 0o644, &script)?;
    }
    Ok(())
}

/// As Debian has it: the best, without name and time.
pub(super) fn compress(file: &Path) -> Result<(), String> {
    run(Command::new("gzip").args(["-9", "-n"]).arg(file)).map(|_| ())
}
