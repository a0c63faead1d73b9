//! What can be wrong with a capture file.

/// Why a capture file cannot be read, with the offset in bytes from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PcapError {
    /// Neither pcap nor pcapng.
    #[error(
        "begins with {0:#010x}, which is neither pcap (0xa1b2c3d4, 0xa1b23c4d) nor pcapng (0x0a0d0d0a)"
    )]
    Magic(u32),
    /// The file ends within something.
    #[error("at byte {at}: ends in the middle of {what}")]
    Truncated {
        /// Where that something starts.
        at: u64,
        /// What it is.
        what: &'static str,
    },
    /// Not Ethernet.
    #[error("at byte {at}: link type {linktype}, wanted 1 (Ethernet)")]
    LinkType {
        /// Where it stands.
        at: u64,
        /// The type found.
        linktype: u32,
    },
    /// A length that cannot be.
    #[error("at byte {at}: {what} of {len} bytes, wanted {wanted}")]
    Length {
        /// Where it stands.
        at: u64,
        /// What has the length.
        what: &'static str,
        /// The length found.
        len: u64,
        /// What would be right.
        wanted: &'static str,
    },
    /// A packet of an interface that was never described.
    #[error("at byte {at}: a packet of interface {interface}, but {described} are described")]
    Interface {
        /// Where the packet's block starts.
        at: u64,
        /// The interface it names.
        interface: u32,
        /// How many interfaces the section has described.
        described: usize,
    },
    /// A section's byte-order mark is wrong.
    #[error("at byte {at}: byte-order magic {magic:#010x}, wanted 0x1a2b3c4d in either order")]
    ByteOrder {
        /// Where the section starts.
        at: u64,
        /// What was found.
        magic: u32,
    },
    /// Reading failed.
    #[error("at byte {at}: reading failed: {kind}")]
    Io {
        /// How far it had come.
        at: u64,
        /// What the system said.
        kind: std::io::ErrorKind,
    },
}
