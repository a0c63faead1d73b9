//! UNIX sockets to listen on, and their files.
//!
//! A socket is for its owner alone, from the moment that its file is there: whoever can connect commands the
//! switch. Its file goes when the socket goes, unless another has taken its place: device and inode tell. A socket
//! that was left by a process that was killed is replaced. Anything else in its place is an error and stays.

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A socket that nobody listens on may be one that somebody is just about to listen on, if its file is younger.
const YOUNG: Duration = Duration::from_secs(1);
/// How long to wait before looking at a young one again.
const AGAIN: Duration = Duration::from_millis(20);

/// Which file: device and inode.
pub type Identity = (u64, u64);

/// Which file is under this path now, a symbolic link not followed.
pub fn identity(path: &Path) -> Option<Identity> {
    std::fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// The file of a UNIX socket; removed when dropped, unless another has taken its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<Identity>,
}

impl SocketFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It is under its path, and not another file.
    pub fn is_there(&self) -> bool {
        self.identity.is_some() && identity(&self.path) == self.identity
    }

    /// Gives it another name, in place of what is there.
    pub fn rename(&mut self, to: &Path) -> io::Result<()> {
        if !self.is_there() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the socket's file has been removed",
            ));
        }
        std::fs::rename(&self.path, to)?;
        self.path = to.to_path_buf();
        Ok(())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_there() {
            // Gone already is as good.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What is in a socket's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// A socket that nobody listens on.
    Stale,
    /// A socket that somebody listens on, or that we may not ask.
    Live,
    /// A file that is no socket.
    Other,
}

/// Looks at what is in a socket's place, and waits for nobody.
pub fn look(path: &Path) -> io::Result<Found> {
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Ok(Found::Other);
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => Ok(Found::Stale),
        Err(Errno::NOENT) => Ok(Found::Nothing),
        // Ok, or so many wait that there is no room, or we may not.
        _ => Ok(Found::Live),
    }
}

/// Tells what would stop a socket from being there, but for one that lives, whose place may become free.
pub fn may_bind(path: &Path) -> io::Result<()> {
    SocketAddrUnix::new(path)?;
    if look(path)? == Found::Other {
        return Err(no_socket());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
    Ok(())
}

fn no_socket() -> io::Error {
    let text = "there is a file that is no socket; remove it or choose another path";
    io::Error::new(io::ErrorKind::AlreadyExists, text)
}

fn is_young(path: &Path) -> bool {
    let changed = std::fs::symlink_metadata(path).and_then(|m| m.modified());
    let age = changed.map(|at| SystemTime::now().duration_since(at));
    matches!(age, Ok(Ok(age)) if age < YOUNG)
}

/// Removes a socket on which nobody listens any more. A file that is no socket is an error, and stays; so does a
/// socket that lives, which is none: to bind there says it.
pub fn clear(path: &Path) -> io::Result<()> {
    loop {
        let before = identity(path);
        match look(path)? {
            Found::Nothing | Found::Live => return Ok(()),
            Found::Other => return Err(no_socket()),
            Found::Stale if is_young(path) => std::thread::sleep(AGAIN),
            Found::Stale if identity(path) == before => return std::fs::remove_file(path),
            // Another has come meanwhile.
            Found::Stale => {}
        }
    }
}

/// Listens there, for the owner alone.
pub fn bind(path: &Path, mode: Mode, backlog: u32) -> io::Result<(UnixListener, SocketFile)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // Linux gives the file the mode that the socket has when it is bound: no moment in which others
    // could connect.
    rustix::fs::fchmod(&socket, mode)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let file = SocketFile { path: path.to_path_buf(), identity: identity(path) };
    rustix::net::listen(&socket, backlog.cast_signed())?;
    Ok((socket.into(), file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// What a killed process leaves, long ago.
    fn leave(path: &Path) {
        drop(UnixListener::bind(path).unwrap());
        let file = rustix::fs::Timestamps {
            last_access: rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 0 },
            last_modification: rustix::fs::Timespec { tv_sec: 1_000_000, tv_nsec: 0 },
        };
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::utimensat(rustix::fs::CWD, path, &file, flags).unwrap();
    }

    #[test]
    fn what_is_in_the_place_is_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        leave(&path("stale"));
        let _live = UnixListener::bind(path("live")).unwrap();
        let _other = std::os::unix::net::UnixDatagram::bind(path("datagrams")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        std::os::unix::fs::symlink(path("live"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("nowhere"), path("dangling")).unwrap();
        std::fs::create_dir(path("folder")).unwrap();
        for (name, found) in [
            ("nothing", Found::Nothing),
            ("stale", Found::Stale),
            ("live", Found::Live),
            ("datagrams", Found::Live),
            ("file", Found::Other),
            ("link", Found::Other),
            ("dangling", Found::Other),
            ("folder", Found::Other),
        ] {
            assert_eq!(look(&path(name)).unwrap(), found, "{name}");
            let before = identity(&path(name));
            let cleared = clear(&path(name));
            assert_eq!(cleared.is_err(), found == Found::Other, "{name}: {cleared:?}");
            let stays = before.is_some() && found != Found::Stale;
            assert_eq!(identity(&path(name)), before.filter(|_| stays), "{name}");
        }
    }

    #[test]
    fn a_listener_with_a_full_backlog_is_alive_and_nobody_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let (_listener, _file) = bind(&path, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // So many that none has room any more: each look is one more that waits.
        for _ in 0..5 {
            assert_eq!(look(&path).unwrap(), Found::Live);
        }
    }

    #[test]
    fn a_name_changes_and_what_took_the_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let (_first, first) = bind(&other, Mode::RUSR | Mode::WUSR, 1).unwrap();
        let (_second, mut second) = bind(&one, Mode::RUSR | Mode::WUSR, 1).unwrap();
        let mode = std::fs::metadata(&one).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        second.rename(&other).unwrap();
        assert!(!one.exists() && second.is_there() && !first.is_there());
        drop(first);
        assert!(second.is_there(), "the first one's file is no more, this is another");
        std::fs::remove_file(&other).unwrap();
        assert!(second.rename(&one).is_err());
        std::fs::write(&other, "another's").unwrap();
        drop(second);
        assert!(other.exists());
    }
}
