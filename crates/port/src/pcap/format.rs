//! What both formats have in common.

/// The longest packet record accepted, in bytes.
pub const RECORD_MAX: usize = 256 * 1024;
/// Link type of Ethernet.
pub const LINKTYPE_ETHERNET: u32 = 1;
