//! Debian's package: the binary, the service and its user, manual pages, completions, AppArmor's profile.

use super::documents::{self, compress};
use super::tools::{epoch, run};
use super::tree::Staged;
use super::wanted::Wanted;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of `packaging/`, where they come, and their modes.
const FILES: [(&str, &str, u32); 6] = [
    ("debian/lintian-overrides", "usr/share/lintian/overrides/millrace", 0o644),
    ("systemd/millrace.service", "lib/systemd/system/millrace.service", 0o644),
    ("debian/millrace.toml", "etc/millrace/millrace.toml", 0o644),
    ("apparmor/millrace", "etc/apparmor.d/millrace", 0o644),
    ("udev/60-millrace.rules", "lib/udev/rules.d/60-millrace.rules", 0o644),
    ("sysctl/millrace.conf", "usr/share/doc/millrace/examples/sysctl.conf", 0o644),
];

/// Where documents come.
const DOC: &str = "usr/share/doc/millrace";

/// Settings that an upgrade leaves alone.
const CONFFILES: &str = "/etc/apparmor.d/millrace\n/etc/millrace/millrace.toml\n";

/// Scripts of the package.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Libraries that the binary may want, and the package of each.
const LIBRARIES: [(&str, &str); 7] = [
    ("libc.so.6", "libc6 (>= 2.36)"),
    ("libm.so.6", "libc6 (>= 2.36)"),
    ("libdl.so.2", "libc6 (>= 2.36)"),
    ("libpthread.so.0", "libc6 (>= 2.36)"),
    ("ld-linux-x86-64.so.2", "libc6 (>= 2.36)"),
    ("ld-linux-aarch64.so.1", "libc6 (>= 2.36)"),
    ("libgcc_s.so.1", "libgcc-s1 (>= 4.2)"),
];

/// Makes it.
pub(super) fn make(wanted: &Wanted) -> Result<PathBuf, String> {
    let packaging = wanted.root.join("packaging");
    let staged = Staged::new(&wanted.out, "deb")?;
    staged.copy(&wanted.binary, "usr/bin/millrace", 0o755)?;
    for (from, to, mode) in FILES {
        staged.copy(&packaging.join(from), to, mode)?;
    }
    staged.copy(&wanted.root.join("README.md"), &format!("{DOC}/README.md"), 0o644)?;
    documents::add(wanted, &staged, "usr/share")?;
    let time = epoch(&wanted.root);
    let maintainer = "millrace maintainers <maintainers@millrace.invalid>";
    let date = run(Command::new("date").args(["-u", "-R", "-d"]).arg(format!("@{time}")))?;
    let date = String::from_utf8_lossy(&date).trim().to_owned();
    let version = &wanted.version;
    let changes = format!(
        "millrace ({version}) unstable; urgency=medium\n\n  * What has changed is in CHANGELOG.md of the sources.\n\n \
         -- {maintainer}  {date}\n"
    );
    staged.file(&format!("{DOC}/changelog"), 0o644, changes.as_bytes())?;
    compress(&staged.path().join(DOC).join("changelog"))?;
    let license = std::fs::read_to_string(packaging.join("debian/copyright"));
    let license = license.map_err(|e| format!("packaging/debian/copyright: {e}"))?;
    staged.file(&format!("{DOC}/copyright"), 0o644, license.as_bytes())?;
    let control = std::fs::read_to_string(packaging.join("debian/control.in"));
    let control = control.map_err(|e| format!("packaging/debian/control.in: {e}"))?;
    let control = control
        .replace("@VERSION@", version)
        .replace("@ARCHITECTURE@", &wanted.arch)
        .replace("@SIZE@", &staged.size().div_ceil(1024).to_string())
        .replace("@DEPENDS@", &depends(&wanted.binary)?);
    staged.file("DEBIAN/control", 0o644, control.as_bytes())?;
    staged.file("DEBIAN/conffiles", 0o644, CONFFILES.as_bytes())?;
    for script in SCRIPTS {
        staged.copy(&packaging.join("debian").join(script), &format!("DEBIAN/{script}"), 0o755)?;
    }
    md5sums(&staged)?;
    let made = wanted.out.join(format!("millrace_{version}_{}.deb", wanted.arch));
    let mut command = Command::new("dpkg-deb");
    command.env("SOURCE_DATE_EPOCH", &time).args(["--root-owner-group", "-Zxz", "--build"]);
    run(command.arg(staged.path()).arg(&made))?;
    Ok(made)
}

/// The packages of the libraries that it is linked to, each behind a comma.
fn depends(binary: &Path) -> Result<String, String> {
    let told = run(Command::new("readelf").args(["-d", "-W"]).arg(binary))?;
    packages(&String::from_utf8_lossy(&told))
}

fn packages(told: &str) -> Result<String, String> {
    let wanted = told.lines().filter(|line| line.contains("(NEEDED)"));
    let wanted = wanted.filter_map(|line| line.split_once('[')?.1.split(']').next());
    let of = |library: &str| {
        let found =
            LIBRARIES.iter().find(|(name, _)| *name == library).map(|(_, package)| *package);
        found.ok_or_else(|| {
            format!("the binary wants {library}: build it without the feature that does")
        })
    };
    let all: BTreeSet<&str> = wanted.map(of).collect::<Result<_, _>>()?;
    Ok(all.into_iter().map(|package| format!(", {package}")).collect())
}

fn md5sums(staged: &Staged) -> Result<(), String> {
    let mut command = Command::new("sh");
    command
        .current_dir(staged.path())
        .args(["-c", "find usr lib -type f | LC_ALL=C sort | xargs md5sum"]);
    let sums = run(&mut command)?;
    staged.file("DEBIAN/md5sums", 0o644, &sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_become_packages() {
        let line = |name: &str| format!(" 0x1 (NEEDED)  Shared library: [{name}]\n");
        let told = [line("libc.so.6"), line("libm.so.6"), line("libgcc_s.so.1")].concat();
        assert_eq!(packages(&told).unwrap(), ", libc6 (>= 2.36), libgcc-s1 (>= 4.2)");
        assert_eq!(packages("").unwrap(), "", "a static one wants nothing");
        assert!(packages(&line("librte_eal.so.23")).unwrap_err().contains("librte_eal.so.23"));
    }

    /// Whoever adds a setting to the service's configuration finds out here that it is none.
    #[test]
    fn all_that_is_packaged_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
        let scripts = SCRIPTS.map(|script| format!("debian/{script}"));
        let files = FILES.iter().map(|(from, ..)| (*from).to_owned()).chain(scripts);
        for file in files.chain(["debian/control.in".to_owned(), "debian/copyright".to_owned()]) {
            assert!(root.join(&file).is_file(), "{file}");
        }
    }
}
