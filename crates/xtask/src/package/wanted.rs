//! What is asked for.

use std::path::{Path, PathBuf};

/// What is to be packaged.
#[derive(Debug)]
pub struct Wanted {
    /// The root of the project.
    pub root: PathBuf,
    /// The binary.
    pub binary: PathBuf,
    /// A binary that runs here, which writes manual pages and completions.
    pub tool: PathBuf,
    /// Debian's name of the binary's architecture.
    pub arch: String,
    /// The version of the package.
    pub version: String,
    /// Where the packages come.
    pub out: PathBuf,
}

impl Wanted {
    /// From arguments: `--binary FILE`, `--tool FILE`, `--arch ARCH`, `--version VERSION`, `--out DIR`.
    pub fn read(root: &Path, args: &[&str]) -> Result<Wanted, String> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let out = root.join(target).join("dist");
        let mut wanted = Wanted {
            root: root.to_owned(),
            binary: out.join("millrace"),
            tool: PathBuf::new(),
            arch: "amd64".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            out,
        };
        let mut args = args.iter();
        while let Some(option) = args.next() {
            let value = args.next().ok_or_else(|| format!("{option} wants a value"))?;
            match *option {
                "--binary" => wanted.binary = value.into(),
                "--tool" => wanted.tool = value.into(),
                "--arch" => wanted.arch = (*value).to_owned(),
                "--version" => wanted.version = (*value).to_owned(),
                "--out" => wanted.out = value.into(),
                _ => return Err(format!("no such option: {option}")),
            }
        }
        if !["amd64", "arm64"].contains(&&*wanted.arch) {
            return Err(format!("--arch {}: amd64 or arm64 was expected", wanted.arch));
        }
        if wanted.tool.as_os_str().is_empty() {
            wanted.tool.clone_from(&wanted.binary);
        }
        Ok(wanted)
    }
}
