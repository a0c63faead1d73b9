//! `millrace upgrade`: the running process starts another binary with its own arguments, which
//! [takes over](crate::takeover) from it.
//!
//! The new process is a child of the running one. It has the same folder, environment and place in the service manager's
//! eyes, which is told of it before the running one ends. If it fails before there is no way back, the running one
//! goes on, and whoever asked is told why.
//!
//! | module | is |
//! |---|---|
//! | [`binary`] | what is on the disk: the same file, another one, one that cannot run |
//! | [`child`] | the new process, from its start to its end or ours |
//! | [`reason`] | how it tells why it has failed |

pub mod binary;
pub(crate) mod child;
pub mod reason;
