//! What people install: a package for Debian, an image for containers, and sums of both, in `target/dist`.
//!
//! In: a binary that was built, and `packaging/`. Out: files that are the same for the same input. Debian's tools make what is
//! Debian's (`dpkg-deb`), and `tar` what is in archives.
//!
//! | module | makes |
//! |---|---|
//! | [`deb`] | `millrace_VERSION_ARCH.deb` |
//! | [`tar`] | `millrace-VERSION-ARCH.tar.xz`, a static binary with manual pages and completions |
//! | [`oci`] | `millrace-VERSION-ARCH.oci.tar`, an image from scratch, as the OCI's specification has it |
//! | [`documents`] | manual pages and completions |
//! | [`tree`], [`tools`], [`wanted`] | folders of files with their modes; programs; what is asked for |
//!
//! `lab/package` installs, upgrades and removes the package in a clean Debian with its own systemd.

mod deb;
mod documents;
mod oci;
mod tar;
mod tools;
mod tree;
mod wanted;

pub use wanted::Wanted;

use std::path::{Path, PathBuf};
use std::process::Command;
use tools::run;

/// Makes one of them; the file.
pub fn make(kind: &str, wanted: &Wanted) -> Result<PathBuf, String> {
    std::fs::create_dir_all(&wanted.out).map_err(|e| format!("{}: {e}", wanted.out.display()))?;
    let made = match kind {
        "deb" => deb::make(wanted)?,
        "oci" => oci::make(wanted)?,
        "tar" => tar::make(wanted)?,
        _ => return Err(format!("no such package: {kind}; there are deb, oci and tar")),
    };
    sums(&wanted.out)?;
    println!("{}", made.display());
    Ok(made)
}

/// Writes the sums of all that is there.
fn sums(folder: &Path) -> Result<(), String> {
    let shown = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map_err(shown)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            name == "millrace"
                || [".deb", ".oci.tar", ".tar.xz", ".cdx.json"]
                    .iter()
                    .any(|end| name.ends_with(end))
        })
        .collect();
    names.sort();
    let text = run(Command::new("sha256sum").current_dir(folder).args(&names))?;
    std::fs::write(folder.join("SHA256SUMS"), text).map_err(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let read = |args: &[&str]| Wanted::read(Path::new("/project"), args);
        let wanted = read(&["--binary", "b", "--arch", "arm64", "--version", "9"]).unwrap();
        assert_eq!((wanted.tool, wanted.version), ("b".into(), "9".to_owned()));
        assert!(read(&["--arch", "vax"]).unwrap_err().contains("amd64 or arm64"));
        assert!(read(&["--arch"]).unwrap_err().contains("wants a value"));
        assert!(read(&["--x", "1"]).unwrap_err().contains("no such option"));
        assert!(
            make("rpm", &read(&["--out", "/tmp"]).unwrap())
                .unwrap_err()
                .contains("deb, oci and tar")
        );
    }
}
