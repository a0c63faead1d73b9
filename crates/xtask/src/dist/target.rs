//! What a binary is built for: this machine, a static one (musl), the second instruction set.
//!
//! | target | is linked by | is run here by |
//! |---|---|---|
//! | none named | rustc's choice | itself |
//! | `x86_64-unknown-linux-musl` | the toolchain's lld, through Debian's musl-tools | itself |
//! | `aarch64-unknown-linux-gnu` | the toolchain's lld, through Debian's gcc-aarch64-linux-gnu | qemu-aarch64-static |

use std::path::{Path, PathBuf};
use std::process::Command;

/// Static, for containers and machines of any distribution.
const STATIC: &str = "x86_64-unknown-linux-musl";
/// The second instruction set.
const ARM: &str = "aarch64-unknown-linux-gnu";

/// What a binary is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The machine that builds.
    Here,
    /// [`STATIC`].
    Static,
    /// [`ARM`].
    Arm,
}

impl Target {
    /// By rustc's name.
    pub fn read(triple: &str) -> Result<Target, String> {
        match triple {
            STATIC => Ok(Target::Static),
            ARM => Ok(Target::Arm),
            _ => Err(format!("--target {triple}: {STATIC} or {ARM} was expected")),
        }
    }

    /// rustc's name, where it is another than the machine's.
    pub fn triple(self) -> Option<&'static str> {
        match self {
            Target::Here => None,
            Target::Static => Some(STATIC),
            Target::Arm => Some(ARM),
        }
    }

    /// Refuses features that a binary for it cannot have.
    pub fn may_have(self, features: Option<&str>) -> Result<(), String> {
        let dpdk = features
            .into_iter()
            .flat_map(|list| list.split([',', ' ']))
            .any(|f| f == "dpdk" || f.ends_with("/dpdk"));
        match (self, dpdk) {
            (_, false) | (Target::Here, true) => Ok(()),
            (Target::Static, true) => Err(format!(
                "the feature dpdk loads drivers as shared libraries, which a static binary cannot: leave it out, or build without \
                 --target {STATIC}"
            )),
            (Target::Arm, true) => Err(format!(
                "the feature dpdk wants libdpdk of the target's, which is not looked for: build it on a machine of that kind, without \
                 --target {ARM}"
            )),
        }
    }

    /// What the last step of the build is told. Cargo itself strips no binary whose package has a profile of its own.
    pub(super) fn link(self) -> Result<Vec<String>, String> {
        let mut all = vec!["-Cstrip=symbols".to_owned()];
        match self {
            // Packed relocations want glibc 2.36 or later, which is Debian 12's. The toolchain's linker here is lld.
            Target::Here if cfg!(all(target_arch = "x86_64", target_os = "linux")) => {
                all.extend(["--icf=all", "-z,pack-relative-relocs"].map(linker));
            }
            Target::Here => (),
            Target::Static | Target::Arm => {
                // What rustc does by itself for the machine's own target.
                let lld = lld()?;
                all.push(format!("-Clink-arg=-B{}", lld.display()));
                all.push("-Clink-arg=-fuse-ld=lld".to_owned());
                all.push(linker("--icf=all"));
            }
        }
        Ok(all)
    }

    /// Tells cargo which compilers to use, unless the environment does.
    pub(super) fn compilers(self, command: &mut Command) {
        let all: &[(&str, &str)] = match self {
            Target::Here => &[],
            // Rust brings musl's start files along; C is compiled against Debian's.
            Target::Static => &[("CC_x86_64_unknown_linux_musl", "musl-gcc")],
            Target::Arm => &[
                ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc"),
                ("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc"),
            ],
        };
        for (name, compiler) in all.iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
            command.env(name, compiler);
        }
    }

    /// Where cargo leaves what it builds, below its folder of targets.
    pub(super) fn folder(self, targets: &Path) -> PathBuf {
        self.triple().map_or_else(|| targets.to_owned(), |triple| targets.join(triple)).join("dist")
    }

    /// What runs a binary of it here: words before its name.
    pub(super) fn runner(self) -> &'static [&'static str] {
        match self {
            Target::Arm if cfg!(not(target_arch = "aarch64")) => {
                &["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]
            }
            _ => &[],
        }
    }
}

/// An option for the linker itself.
fn linker(option: &str) -> String {
    format!("-Clink-arg=-Wl,{option}")
}

/// The folder of the toolchain's own lld, under the name that C compilers look for.
fn lld() -> Result<PathBuf, String> {
    let rustc = |what: &[&str]| {
        let out = Command::new("rustc").args(what).output().map_err(|e| format!("rustc: {e}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let version = rustc(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    let root = rustc(&["--print", "sysroot"])?;
    let folder = Path::new(root.trim()).join("lib/rustlib").join(host).join("bin/gcc-ld");
    match folder.join("ld.lld").exists() {
        true => Ok(folder),
        false => Err(format!("{}: the toolchain has no ld.lld there", folder.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_others_refused() {
        assert_eq!(Target::read(STATIC), Ok(Target::Static));
        assert_eq!(Target::read(ARM).unwrap().triple(), Some(ARM));
        assert!(Target::read("vax").unwrap_err().contains(STATIC));
        assert_eq!(Target::Static.folder(Path::new("t")), Path::new("t").join(STATIC).join("dist"));
        assert_eq!(Target::Here.folder(Path::new("t")), Path::new("t/dist"));
    }

    #[test]
    fn dpdk_is_for_the_machine_that_has_it() {
        for features in ["dpdk", "wasm,dpdk", "port-dpdk/dpdk"] {
            assert!(Target::Static.may_have(Some(features)).unwrap_err().contains("static"));
            assert!(Target::Arm.may_have(Some(features)).unwrap_err().contains("libdpdk"));
            assert_eq!(Target::Here.may_have(Some(features)), Ok(()));
        }
        assert_eq!(Target::Static.may_have(Some("wasm")), Ok(()));
        assert_eq!(Target::Static.may_have(None), Ok(()));
    }
}
