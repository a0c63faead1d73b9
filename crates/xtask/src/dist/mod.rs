//! What ships: the binary of the profile `dist` (stripped, thin LTO) and its bill of materials; and all of that as packages.
//!
//! The linker makes one of functions whose code is the same, and for this machine packs relocations: 6 % less (2.2 of
//! 38.4 MB). What was built is run once: a binary that the loader refuses is no binary.
//!
//! | module | says |
//! |---|---|
//! | [`target`] | what a binary is built for, and how |
//!
//! Bills of materials come into `target/dist`, where packages are; a binary lies where cargo leaves it.

mod target;

pub use target::Target;

use crate::package::{self, Wanted};
use crate::sbom;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The most bytes of the binary, which has P4Runtime, gNMI, a web page, OpenTelemetry and a client of NATS in it.
pub const SIZE_MAX: u64 = 38_000_000;

/// What is to be built.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// What it is for.
    pub target: Target,
    /// Cargo's features, as a list with commas.
    pub features: Option<String>,
    /// For every target, and packages of each.
    pub all: bool,
}

impl Asked {
    /// From arguments: `--target TRIPLE`, `--features LIST`, `--all`.
    pub fn read(args: &[&str]) -> Result<Asked, String> {
        let mut asked = Asked { target: Target::Here, features: None, all: false };
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{option} wants a value"));
            match *option {
                "--target" => asked.target = Target::read(value()?)?,
                "--features" => asked.features = Some((*value()?).to_owned()),
                "--all" => asked.all = true,
                _ => return Err(format!("no such option: {option}")),
            }
        }
        if asked.all && (asked.features.is_some() || asked.target != Target::Here) {
            return Err("--all builds every target without features: leave out the others".into());
        }
        asked.target.may_have(asked.features.as_deref())?;
        Ok(asked)
    }
}

/// Builds what is asked for, and fails if it is too large.
pub fn make(root: &Path, asked: &Asked) -> Result<(), String> {
    if !asked.all {
        return build(root, asked.target, asked.features.as_deref()).map(|_| ());
    }
    let here = build(root, Target::Here, None)?;
    let fixed = build(root, Target::Static, None)?;
    let arm = build(root, Target::Arm, None)?;
    let package = |kind: &str, binary: &Path, arch: &str| {
        let mut wanted = Wanted::read(root, &["--arch", arch])?;
        wanted.binary = binary.to_owned();
        wanted.tool.clone_from(&here);
        package::make(kind, &wanted).map(|_| ())
    };
    let own = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    package("deb", &here, own)?;
    if own != "arm64" {
        package("deb", &arm, "arm64")?;
    }
    package("tar", &fixed, "amd64")?;
    package("oci", &fixed, "amd64")
}

/// Builds the binary for a target; where it is.
fn build(root: &Path, target: Target, features: Option<&str>) -> Result<PathBuf, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = Command::new(&cargo);
    command.current_dir(root).args(["rustc", "--profile", "dist", "--locked"]);
    command.args(["--package", sbom::ROOT, "--bin", sbom::ROOT]);
    if let Some(features) = features {
        command.args(["--features", features]);
    }
    if let Some(triple) = target.triple() {
        command.args(["--target", triple]);
    }
    target.compilers(&mut command);
    command.arg("--").args(target.link()?);
    let status = command.status().map_err(|e| format!("{cargo} rustc: {e}"))?;
    if !status.success() {
        return Err(format!("{cargo} rustc: {status}"));
    }
    let targets =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let targets = root.join(targets);
    let binary = target.folder(&targets).join(sbom::ROOT);
    let size = std::fs::metadata(&binary).map_err(|e| format!("{}: {e}", binary.display()))?.len();
    let bill = targets.join("dist").join(bill_of(target));
    if let Some(folder) = bill.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    std::fs::write(&bill, sbom::text(root, features, target.triple())? + "\n")
        .map_err(|e| format!("{}: {e}", bill.display()))?;
    starts(&binary, target.runner())?;
    println!("{}: {size} bytes", binary.display());
    println!("{}", bill.display());
    fits(size)?;
    Ok(binary)
}

/// The name of its bill of materials.
fn bill_of(target: Target) -> String {
    let of = target.triple().map(|triple| format!("-{triple}")).unwrap_or_default();
    format!("{}{of}.cdx.json", sbom::ROOT)
}

/// Whether it starts on this machine, and tells its version.
fn starts(binary: &Path, runner: &[&str]) -> Result<(), String> {
    let shown = binary.display();
    let mut command = match runner {
        [] => Command::new(binary),
        [emulator, options @ ..] => {
            let mut command = Command::new(emulator);
            command.args(options).arg(binary);
            command
        }
    };
    let output = command.arg("--version").output();
    let output = output.map_err(|e| match runner {
        [] => format!("{shown} does not start: {e}"),
        [emulator, ..] => format!("{emulator}, which runs {shown}: {e}; install qemu-user-static"),
    })?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() && told.starts_with(&format!("{} ", sbom::ROOT)) {
        true => Ok(()),
        false => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("{shown} --version: {}: {told}{why}", output.status))
        }
    }
}

fn fits(size: u64) -> Result<(), String> {
    match size {
        0..=SIZE_MAX => Ok(()),
        _ => Err(format!("the binary has {size} bytes, at most {SIZE_MAX}: find what has grown")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let refused = |args: &[&str]| Asked::read(args).unwrap_err();
        let asked = Asked::read(&["--target", "x86_64-unknown-linux-musl", "--features", "wasm"]);
        assert_eq!(asked.unwrap().target, Target::Static);
        assert!(Asked::read(&["--all"]).unwrap().all);
        assert!(refused(&["--all", "--features", "wasm"]).contains("without features"));
        assert!(refused(&["--target"]).contains("wants a value"));
        assert!(refused(&["--fast"]).contains("no such option"));
        let dpdk = ["--features", "dpdk", "--target", "x86_64-unknown-linux-musl"];
        assert!(refused(&dpdk).contains("a static binary cannot"));
    }

    #[test]
    fn a_binary_that_does_not_start_is_none() {
        let starts = |path: &str, by: &[&str]| super::starts(Path::new(path), by).unwrap_err();
        assert!(starts("/bin/false", &[]).contains("exit status: 1"));
        assert!(starts("/nonexistent", &[]).contains("does not start"));
        assert!(starts("/bin/true", &["/nonexistent"]).contains("qemu-user-static"));
    }

    #[test]
    fn a_binary_may_be_too_large() {
        assert!(super::fits(super::SIZE_MAX).is_ok());
        let refused = super::fits(super::SIZE_MAX + 1).unwrap_err();
        assert!(refused.contains(&format!("at most {}", super::SIZE_MAX)), "{refused}");
    }
}
