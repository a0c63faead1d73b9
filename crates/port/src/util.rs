//! Small things that several kinds of ports need.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::sys;

/// Waits until `fd` is readable, for at most `timeout`; says whether it is.
pub fn wait_readable(fd: BorrowedFd<'_>, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).ok();
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    // An interrupted wait is a short one.
    poll(&mut fds, timeout.as_ref()).is_ok_and(|n| n > 0)
}

/// Nanoseconds since the Unix epoch.
pub fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Whether the kernel would take it as an interface's name (`dev_valid_name`).
pub fn check_interface_name(name: &str) -> Result<(), Error> {
    let fits = (1..=sys::ioctl::NAME_MAX).contains(&name.len()) && name != "." && name != "..";
    if fits && !name.contains(|c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace()) {
        return Ok(());
    }
    Err(Error::BadInterfaceName { name: name.to_owned() })
}

/// A stable, locally administered unicast address made from a name.
pub(crate) fn mac_of_name(name: &str) -> [u8; 6] {
    // FNV-1a, 64 bits.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    let [.., a, b, c, d, e] = hash.to_be_bytes();
    [0x02, a, b, c, d, e]
}
