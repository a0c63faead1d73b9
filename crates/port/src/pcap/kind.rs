//! The kind `pcap`.

use super::Pcap;
use crate::doctor::Finding;
use crate::error::Error;
use crate::kind::{Attached, Attachment, Environment, Kind, OffWire, TakeOver};
use crate::port::Port;
use crate::spec::error::SpecError;
use crate::spec::words::{split_option, unknown, words};
use std::fmt;
use std::path::{Path, PathBuf};

/// `pcap:[rx=FILE][,tx=FILE][,loop]`, at least one of the files.
pub static KIND: Kind = Kind {
    form: "pcap:rx=FILE[,tx=FILE][,loop]",
    about: "capture files: frames come from one and go to the other",
    use_for: "tests; needs no privilege",
    diagnose: Some(|_| diagnose()),
    unprivileged: true,
    off_wire: Some(OffWire {
        why: "a file is no wire to a switch",
        instead: Some(
            "--trace FILE sends the frames of one, --capture FILE writes those that come out to one",
        ),
    }),
    ..Kind::plain("pcap", parse)
};

/// Capture files.
struct Files {
    /// To receive from.
    rx: Option<PathBuf>,
    /// To write to.
    tx: Option<PathBuf>,
    /// Whether to start again at the end.
    repeat: bool,
}

fn parse(text: &str, start: usize) -> Result<Attached, SpecError> {
    let (mut rx, mut tx, mut repeat) = (None, None, None);
    for (at, word) in words(text, start) {
        let (option, value) = split_option(word);
        let twice = match (option, value) {
            ("rx" | "tx", Some("")) => {
                let (at, what) = (at + option.len() + 1, "the file's name");
                return Err(SpecError::Missing { at, what, wanted: "rx=FILE or tx=FILE" });
            }
            ("rx", Some(file)) => rx.replace(PathBuf::from(file)).is_some(),
            ("tx", Some(file)) => tx.replace(PathBuf::from(file)).is_some(),
            ("loop", None) => repeat.replace(true).is_some(),
            ("rx" | "tx" | "loop", _) => {
                let takes_value = option != "loop";
                return Err(SpecError::Value { at, word: option.to_owned(), takes_value });
            }
            ("", None) if text.is_empty() => false,
            _ => return Err(unknown(at, "option of pcap", option, &["rx", "tx", "loop"])),
        };
        if twice {
            return Err(SpecError::Twice { at, word: option.to_owned() });
        }
    }
    if rx.is_none() && tx.is_none() {
        let wanted = "pcap:rx=FILE[,tx=FILE][,loop]";
        return Err(SpecError::Missing { at: start, what: "the file", wanted });
    }
    Ok(Attached::new(Files { rx, tx, repeat: repeat.unwrap_or(false) }))
}

impl fmt::Display for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rx = self.rx.iter().map(|file| format!("rx={}", file.display()));
        let tx = self.tx.iter().map(|file| format!("tx={}", file.display()));
        let repeat = self.repeat.then(|| "loop".to_owned());
        let options: Vec<String> = rx.chain(tx).chain(repeat).collect();
        write!(f, "pcap:{}", options.join(","))
    }
}

impl Attachment for Files {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn default_name(&self) -> &str {
        KIND.word
    }

    fn files(&self) -> Vec<PathBuf> {
        self.rx.iter().chain(&self.tx).cloned().collect()
    }

    fn open(&self, name: &str, _: &Environment) -> Result<Box<dyn Port>, Error> {
        Ok(Box::new(Pcap::open(name, self.rx.as_deref(), self.tx.as_deref(), self.repeat)?))
    }

    fn check(&self, name: &str) -> Result<(), String> {
        if let Some(rx) = &self.rx {
            Pcap::open(name, Some(rx), None, false).map_err(|e| e.to_string())?;
        }
        if let Some(tx) = &self.tx {
            writable(tx).map_err(|e| format!("{}: {e}", tx.display()))?;
        }
        Ok(())
    }

    /// A capture that is written is made anew by who opens it.
    fn take_over(&self) -> TakeOver {
        if self.tx.is_none() { TakeOver::Shared } else { TakeOver::Anew }
    }

    fn writes(&self) -> Option<&Path> {
        self.tx.as_deref()
    }
}

/// A file could be made there, or written: neither is done.
fn writable(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{Access, access};
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(std::io::ErrorKind::IsADirectory.into()),
        Ok(_) => Ok(access(path, Access::WRITE_OK)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            if !std::fs::metadata(folder)?.is_dir() {
                return Err(std::io::ErrorKind::NotADirectory.into());
            }
            Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
        }
        Err(error) => Err(error),
    }
}

fn diagnose() -> Finding {
    let file = std::env::temp_dir().join(format!("millrace-doctor-{}.pcap", std::process::id()));
    let works = Pcap::open("doctor", None, Some(&file), false).map(drop);
    // Not there if it could not be made.
    let _ = std::fs::remove_file(&file);
    match works {
        Ok(()) => Finding::good("needs no privilege beyond access to the files"),
        Err(error) => {
            let mend = "mkdir -p ~/tmp && export TMPDIR=~/tmp".to_string();
            Finding::bad(error.to_string(), Some(mend))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_for_everyone() {
        assert!(diagnose().works, "{:?}", diagnose());
    }
}
