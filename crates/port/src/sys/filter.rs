//! What a netlink socket is woken for: a filter of the kernel's (`socket(7)`, `SO_ATTACH_FILTER`).

use super::packet::set_option;
use std::io;
use std::os::fd::BorrowedFd;

/// Where a message about a link has the link's number: behind `nlmsghdr`, in `ifinfomsg`.
const IFINDEX_AT: u32 = 16 + 4;
const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Delivers what is told of the link of this number alone, or of all again. What waits in the socket stays there.
pub(crate) fn set_link(fd: BorrowedFd<'_>, ifindex: Option<u32>) -> io::Result<()> {
    let Some(ifindex) = ifindex else {
        return set_option::<libc::c_int>(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0);
    };
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // A filter loads words as the network writes them.
    let wanted = u32::from_be_bytes(ifindex.to_ne_bytes());
    let mut steps = [
        step(LOAD_WORD, 0, 0, IFINDEX_AT),
        step(IF_EQUAL, 0, 1, wanted),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}
