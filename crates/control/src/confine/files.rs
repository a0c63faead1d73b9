//! Files and folders that a configuration names, and those of the system that every process reads.

use crate::config::Config;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use std::collections::BTreeSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The newest version of Landlock whose rights are known here; older kernels have some of them.
const NEWEST: ABI = ABI::V6;

/// What is read: libraries, the system's settings, what the kernel tells. What may be run is among it.
const READ: [&str; 9] =
    ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/proc", "/sys", "/run/systemd/resolve"];
/// Devices are opened for writing.
const WRITTEN: [&str; 1] = ["/dev"];

/// Folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    read: BTreeSet<PathBuf>,
    written: BTreeSet<PathBuf>,
}

/// The folder that a file is in, or is to be in.
fn folder(file: &Path) -> Option<PathBuf> {
    std::path::absolute(file).ok()?.parent().map(Path::to_owned)
}

/// A folder that is written, which is there: what is above it must not be given in its place.
fn made(folder: &Path, make: bool) -> Result<PathBuf, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let folder = std::path::absolute(folder).map_err(failed)?;
    if make {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    }
    match folder.is_dir() {
        true => Ok(folder),
        false => Err(format!("{}: there is no such folder", folder.display())),
    }
}

/// What this configuration names. The folder of `--persist` is made if it is not there.
pub(super) fn wanted(config: &Config, file: Option<&Path>) -> Result<Wanted, String> {
    let mut read: BTreeSet<PathBuf> = READ.iter().map(PathBuf::from).collect();
    let mut written: BTreeSet<PathBuf> = WRITTEN.iter().map(PathBuf::from).collect();
    read.extend(file.into_iter().chain(config.files_read()).filter_map(folder));
    read.extend(crate::upgrade::binary::own_path().ok().as_deref().and_then(folder));
    written.extend(config.files_written().filter_map(|file| folder(&file)));
    for (folder, make) in config.folders_written() {
        written.insert(made(folder, make)?);
    }
    let sockets = config.channels().flat_map(|channel| &channel.listeners);
    written.extend(sockets.filter_map(of_channel::Listen::path).filter_map(folder));
    for attached in config.attachments() {
        written.extend(attached.files().iter().filter_map(|file| folder(file)));
        written.extend(attached.kind().folders.iter().map(PathBuf::from));
    }
    Ok(Wanted { read, written })
}

/// From now on nothing else can be opened; in words, what can.
pub(super) fn keep(wanted: &Wanted) -> Result<String, String> {
    let failed = |e: &dyn std::fmt::Display| e.to_string();
    let handled = Ruleset::default().handle_access(AccessFs::from_all(NEWEST));
    // Signals to others, and their abstract sockets.
    let handled = handled.and_then(|rules| rules.scope(Scope::Signal | Scope::AbstractUnixSocket));
    let mut rules = handled.and_then(Ruleset::create).map_err(|e| failed(&e))?;
    for (paths, access) in
        [(&wanted.read, AccessFs::from_read(NEWEST)), (&wanted.written, AccessFs::from_all(NEWEST))]
    {
        rules = add(rules, paths, access)?;
    }
    let status = rules.restrict_self().map_err(|e| failed(&e))?;
    if status.ruleset == RulesetStatus::NotEnforced {
        let text = "this kernel has none (CONFIG_SECURITY_LANDLOCK, and `landlock` in lsm=): leave --confine out";
        return Err(text.to_owned());
    }
    let words = |paths: &BTreeSet<PathBuf>| {
        let all: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        all.join(" ")
    };
    let partly = if status.ruleset == RulesetStatus::PartiallyEnforced { " (in part)" } else { "" };
    Ok(format!("reads {}; writes{partly} {}", words(&wanted.read), words(&wanted.written)))
}

fn add(
    rules: landlock::RulesetCreated,
    paths: &BTreeSet<PathBuf>,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, String> {
    paths.iter().try_fold(rules, |rules, path| {
        match PathFd::new(path) {
            Ok(fd) => rules
                .add_rule(PathBeneath::new(fd, access))
                .map_err(|e| format!("{}: {e}", path.display())),
            // What is not there cannot be opened either.
            Err(_) => Ok(rules),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Options;

    #[test]
    fn folders_are_those_of_what_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let options = Options {
            ports: vec![format!("pcap:rx={}", path("in/a.pcap").display()), "memory:b".into()],
            listeners: vec![format!("punix:{}", path("of/br0.mgmt").display())],
            flows: vec![path("flows/flows.txt")],
            persist: Some(path("kept")),
            confine_paths: vec![path("more")],
            ..Options::default()
        };
        std::fs::create_dir(path("more")).unwrap();
        let config = Config::new(options.clone()).unwrap();
        let wanted = wanted(&config, Some(&path("etc/switch.toml"))).unwrap();
        for folder in ["flows", "etc"] {
            assert!(wanted.read.contains(&path(folder)), "{folder}: {wanted:?}");
        }
        for folder in ["in", "of", "kept", "more"] {
            assert!(wanted.written.contains(&path(folder)), "{folder}: {wanted:?}");
        }
        assert!(path("kept").is_dir(), "it is made, and not what is above it opened");
        let above = |folder: &PathBuf| dir.path().starts_with(folder);
        assert!(!wanted.written.iter().chain(&wanted.read).any(above), "{wanted:?}");
        let missing = Options { confine_paths: vec![path("no/such")], ..options };
        let refused = super::wanted(&Config::new(missing).unwrap(), None).unwrap_err();
        assert!(refused.contains("no such folder"), "{refused}");
    }
}
