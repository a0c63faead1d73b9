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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType as Kind, Mode, mknodat};
    use std::fs::File;
    use std::os::unix::net::UnixListener;

    /// A folder of its own, removed in the end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("p4-file-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn refused(path: &Path, most: u64) -> String {
        read(path, most).map(|bytes| bytes.len()).unwrap_err().to_string()
    }

    #[test]
    fn only_plain_files_are_read() {
        let folder = Folder::new("kinds");
        let path = |name: &str| folder.0.join(name);
        assert_eq!(refused(&folder.0, 9), "this is a directory; only plain files are read");
        // Nobody writes into it: opening it in the usual way would not return.
        mknodat(CWD, path("fifo"), Kind::Fifo, Mode::RWXU, 0).unwrap();
        assert_eq!(refused(&path("fifo"), 9), "this is a FIFO or pipe; only plain files are read");
        let _listener = UnixListener::bind(path("socket")).unwrap();
        assert_eq!(refused(&path("socket"), 9), "this is a socket; only plain files are read");
        let device = refused(Path::new("/dev/zero"), 9);
        assert_eq!(device, "this is a character device; only plain files are read");
        // Nor by another name.
        std::os::unix::fs::symlink("/dev/zero", path("link")).unwrap();
        assert_eq!(refused(&path("link"), 9), device);
        std::os::unix::fs::symlink(path("loop"), path("loop")).unwrap();
        assert!(refused(&path("loop"), 9).contains("symbolic links"));
    }

    #[test]
    fn no_more_is_read_than_is_allowed() {
        let folder = Folder::new("sizes");
        let path = folder.0.join("file");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, 10).unwrap(), b"0123456789");
        assert_eq!(refused(&path, 9), "the file has more than 9 bytes");
        // Larger than memory, and nothing of it is on the disk.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        assert_eq!(refused(&path, 1 << 20), "the file has more than 1 MiB");
        // The kernel says that it is empty.
        let maps = Path::new("/proc/self/maps");
        assert_eq!(std::fs::metadata(maps).unwrap().len(), 0);
        assert_eq!(refused(maps, 5), "the file has more than 5 bytes");
        assert!(!read(maps, 1 << 20).unwrap().is_empty());
    }

    #[test]
    fn what_is_not_there_is_told_from_what_cannot_be_read() {
        let folder = Folder::new("missing");
        let path = folder.0.join("file");
        assert!(read(&path, 9).unwrap_err().missing());
        std::fs::write(&path, [0xff, b'a']).unwrap();
        assert!(read(&path.join("below"), 9).unwrap_err().missing());
        assert!(!read(&folder.0, 9).unwrap_err().missing());
        assert_eq!(read_text(&path, 9).unwrap(), "\u{fffd}a");
    }
}
