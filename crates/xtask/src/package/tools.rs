//! Programs that make packages.

use super::wanted::Wanted;
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

/// Refuses a binary that wants libraries: nothing else goes with it.
pub(super) fn is_static(wanted: &Wanted) -> Result<(), String> {
    let told = run(Command::new("readelf").args(["-d", "-W"]).arg(&wanted.binary))?;
    match String::from_utf8_lossy(&told).contains("(NEEDED)") {
        false => Ok(()),
        true => Err(format!(
            "{} wants libraries, and this package has none: build it with --target {}-unknown-linux-musl",
            wanted.binary.display(),
            // The machine of Debian's architecture, as rustc calls it.
            if wanted.arch == "arm64" { "aarch64" } else { "x86_64" }
        )),
    }
}

/// All of a folder in an archive, in order, of root's, and of this time.
pub(super) fn archive(
    folder: &Path,
    to: &Path,
    time: &str,
    options: &[&str],
) -> Result<(), String> {
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=pax"]);
    command.args(["--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime"]);
    command.args(options).arg(format!("--mtime=@{time}"));
    command.arg("-C").arg(folder).arg("-cf").arg(to).arg(".");
    run(&mut command).map(|_| ())
}
