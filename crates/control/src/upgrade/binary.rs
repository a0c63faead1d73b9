//! The binary that is to run in place of the running one.

use std::io::{Error, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A binary may take so long to tell its version.
const VERSION_MAX: Duration = Duration::from_secs(10);
/// Octets of what it says that are looked at.
const SAID_MAX: u64 = 4096;

/// Where the running binary was started from: another file may be there now.
pub(crate) fn own_path() -> Result<PathBuf, String> {
    let path = std::env::current_exe().map_err(|e| format!("the running binary: {e}"))?;
    // What the kernel says of a file whose name another one has.
    Ok(path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"))
        .map_or(path.clone(), PathBuf::from))
}

/// Whether the file there is the one that runs.
pub(crate) fn is_running(path: &Path) -> Result<bool, String> {
    let of = |path: &Path| {
        let found = std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok::<_, String>((found.dev(), found.ino()))
    };
    Ok(of(path)? == of(Path::new("/proc/self/exe"))?)
}

/// Its version, as it tells it: a file that cannot run here, or is something else, is refused with the reason.
pub(crate) fn version(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let mut command = Command::new(path);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("{shown} does not start: {e}"))?;
    let until = Instant::now() + VERSION_MAX;
    let status = loop {
        match child.try_wait().map_err(|e: Error| format!("{shown}: {e}"))? {
            Some(status) => break status,
            None if Instant::now() > until => {
                // It is ours, and goes.
                let _ = child.kill().and_then(|()| child.wait());
                return Err(format!(
                    "{shown} --version does not end within {} seconds",
                    VERSION_MAX.as_secs()
                ));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let mut said = Vec::new();
    if let Some(out) = child.stdout.take() {
        out.take(SAID_MAX).read_to_end(&mut said).map_err(|e| format!("{shown}: {e}"))?;
    }
    let said = String::from_utf8_lossy(&said);
    match said.lines().next().and_then(|line| line.strip_prefix("millrace ")) {
        Some(version) if status.success() => Ok(version.to_owned()),
        _ => Err(format!("{shown} is no millrace: --version ends with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_millrace_is_refused() {
        assert!(version(Path::new("/nonexistent")).unwrap_err().contains("does not start"));
        assert!(version(Path::new("/bin/true")).unwrap_err().contains("is no millrace"));
        assert!(version(Path::new("/bin/false")).unwrap_err().contains("exit status: 1"));
        assert!(version(Path::new("/etc/passwd")).unwrap_err().contains("does not start"));
    }

    #[test]
    fn the_running_binary_is_told_from_others() {
        let own = own_path().unwrap();
        assert_eq!(is_running(&own), Ok(true));
        assert_eq!(is_running(Path::new("/bin/true")), Ok(false));
        assert!(is_running(Path::new("/nonexistent")).unwrap_err().starts_with("/nonexistent: "));
    }
}
