//! The system calls that the safe wrappers of `rustix` do not cover, a page for each family; and the
//! buffers of frames.
//!
//! The only `unsafe` of this crate. What goes in and out is safe: borrowed descriptors, slices,
//! plain values.

pub(crate) mod borrowed;
pub(crate) mod buffer;
pub(crate) mod filter;
pub(crate) mod ioctl;
pub(crate) mod packet;
