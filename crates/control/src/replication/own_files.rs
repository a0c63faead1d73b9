//! A thread with a table of descriptors of its own: it is emptied when the thread ends, and not when its process has.
//!
//! The kernel closes the descriptors of a process that is killed behind freeing its memory, and packet sockets wait for each
//! other. That takes longer than all else of a takeover.
#![allow(unsafe_code)]

use std::io;
use std::thread::JoinHandle;

/// The first descriptor behind standard input, output and error.
const FIRST: libc::c_uint = 3;

/// Runs in a new thread that has a table of its own, with nothing in it but standard input, output and error. `act` is told why, if
/// the kernel has none for it: before 5.9.
///
/// # Errors
/// If there is no thread.
pub(super) fn spawn(
    name: &str,
    act: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || act(unshare()))
}

fn unshare() -> io::Result<()> {
    // SAFETY: the call reads no memory. Other threads' descriptors stay as they are, since the table is copied first. This
    // thread has opened none before, and what `act` has taken along must be no descriptor: of who calls `spawn`, addresses alone are.
    let done = unsafe {
        libc::close_range(FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_UNSHARE as libc::c_int)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
