//! Files that a program, an `#include` or a list of entries names: plain ones, and not too large.
//!
//! A device has no end, a FIFO may never have a beginning, and either would hold up whoever reads it,
//! which may be a running switch. So what is no plain file is refused before it is opened, opening
//! does not wait, and no more is read than is allowed, whatever the file's size says.

use crate::limits;
use rustix::fs::OFlags;
use std::fmt;
use std::fs::{FileType, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Why a file was not read.
#[derive(Debug)]
pub enum Unread {
    /// It cannot be opened or read.
    Io(io::Error),
    /// It is no plain file.
    Kind(&'static str),
    /// It has more than so many bytes.
    Large(u64),
}

impl Unread {
    /// There is no such file.
    pub fn missing(&self) -> bool {
        let kind = |e: &io::Error| {
            matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        };
        matches!(self, Unread::Io(e) if kind(e))
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Io(e) => write!(f, "{e}"),
            Unread::Kind(kind) => write!(f, "this is {kind}; only plain files are read"),
            Unread::Large(most) => {
                write!(f, "the file has more than {}", limits::bytes(u128::from(*most)))
            }
        }
    }
}

fn kind(t: FileType) -> &'static str {
    match t {
        t if t.is_dir() => "a directory",
        t if t.is_fifo() => "a FIFO or pipe",
        t if t.is_socket() => "a socket",
        t if t.is_char_device() => "a character device",
        t if t.is_block_device() => "a block device",
        _ => "no plain file",
    }
}

/// Reads a plain file of at most `most` bytes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Unread> {
    let judge = |meta: &std::fs::Metadata| match meta.file_type() {
        t if !t.is_file() => Err(Unread::Kind(kind(t))),
        _ if meta.len() > most => Err(Unread::Large(most)),
        _ => Ok(()),
    };
    judge(&std::fs::metadata(path).map_err(Unread::Io)?)?;
    let open =
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    let file = open.map_err(Unread::Io)?;
    judge(&file.metadata().map_err(Unread::Io)?)?;
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(Unread::Io)?;
    if bytes.len() as u64 > most {
        return Err(Unread::Large(most));
    }
    Ok(bytes)
}

/// As [`read`], as text; bytes that are no UTF-8 become U+FFFD.
pub fn read_text(path: &Path, most: u64) -> Result<String, Unread> {
    let bytes = read(path, most)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}
