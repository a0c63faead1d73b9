//! `--confine`: the process gives up what its configuration does not need, before it has a second thread.
//!
//! | module | gives up |
//! |---|---|
//! | [`capabilities`] | capabilities that no kind of its ports needs, for itself and all that it starts |
//! | [`files`] | files and folders that it does not name, by Landlock |
//! | [`calls`] | system calls outside a written list, by seccomp |
//!
//! A binary that [takes over](crate::upgrade) inherits all of it, and adds nothing: what the running one may not, it may not.
//!
//! In: options. Out: a process that is confined, or an error that says what this machine lacks.

mod calls;
mod capabilities;
mod files;

use crate::config::{Config, Options};
use crate::failure::Failure;
use std::sync::OnceLock;

/// Set in the environment of what a confined process starts.
pub(crate) const VARIABLE: &str = "MILLRACE_CONFINED";

/// What is left, in words; the capabilities come first.
static LEFT: OnceLock<String> = OnceLock::new();

/// Gives up what these options do not need, if they say so. To be called before any thread is started.
pub fn enter(options: &Options) -> Result<(), Failure> {
    if let Some(path) = options.config.as_deref().filter(|path| path.exists() && !path.is_file()) {
        // What a pipe holds is read once, by who starts.
        return match options.confine {
            true => Err(Failure::Usage(format!(
                "--confine reads the configuration twice: {} is no regular file",
                path.display()
            ))),
            false => Ok(()),
        };
    }
    let config = Config::new(options.clone())?;
    if !config.confine {
        return Ok(());
    }
    let cannot = |what: &str, why: String| Failure::Bad(format!("--confine: {what}: {why}"));
    if let Some(left) = std::env::var_os(VARIABLE) {
        // There is one.
        let _ = LEFT.set(left.to_string_lossy().into_owned());
        return Ok(());
    }
    let kept = capabilities::keep(&capabilities::wanted(&config))
        .map_err(|e| cannot("capabilities", e))?;
    let wanted = files::wanted(&config, options.config.as_deref());
    let files = wanted.and_then(|wanted| files::keep(&wanted));
    let files = files.map_err(|e| cannot("Landlock", e))?;
    calls::keep().map_err(|e| cannot("seccomp", e))?;
    // There is one.
    let _ = LEFT.set(format!("capabilities {kept}; {files}"));
    Ok(())
}

/// Refuses a port whose kind needs what was given up.
pub(crate) fn may_open(kind: &port::kind::Kind) -> Result<(), String> {
    let Some(left) = left() else { return Ok(()) };
    let kept = left.split(';').next().unwrap_or_default();
    let lacks = kind.capabilities.iter().find(|wanted| !kept.split(' ').any(|one| one == **wanted));
    lacks.map_or(Ok(()), |lacks| {
        let word = kind.word;
        Err(format!("this process is confined and has given up {lacks}, which a port of the kind {word} needs: name one in the \
                     configuration and start anew"))
    })
}

/// What a confined process has kept.
pub(crate) fn left() -> Option<&'static str> {
    LEFT.get().map(String::as_str)
}
