//! Bundles: messages that are done together or not at all (1.4.1 §6.8, §7.3.9; ONF extension 230).

use bitflags::bitflags;

/// Names a bundle of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u32);

bitflags! {
    /// How a bundle is done.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct BundleFlags: u16 {
        /// Packets see all of it or nothing.
        const ATOMIC = 1 << 0;
        /// In the order of the messages.
        const ORDERED = 1 << 1;
        /// At a time that the commit says (1.5).
        const TIME = 1 << 2;
        /// Bits that the specification does not name.
        const _ = !0;
    }
}

/// What a bundle control message does or answers, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)] // the names are those of the specification
pub enum BundleControlType {
    OpenRequest = 0,
    OpenReply = 1,
    CloseRequest = 2,
    CloseReply = 3,
    CommitRequest = 4,
    CommitReply = 5,
    DiscardRequest = 6,
    DiscardReply = 7,
}

impl BundleControlType {
    /// Every type, by number.
    pub const ALL: [BundleControlType; 8] = [
        BundleControlType::OpenRequest,
        BundleControlType::OpenReply,
        BundleControlType::CloseRequest,
        BundleControlType::CloseReply,
        BundleControlType::CommitRequest,
        BundleControlType::CommitReply,
        BundleControlType::DiscardRequest,
        BundleControlType::DiscardReply,
    ];

    /// The reply to a request; a reply's is itself.
    pub fn reply(self) -> BundleControlType {
        BundleControlType::ALL[self as usize | 1]
    }
}

/// Opens, closes, commits or discards a bundle, or answers that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleControl {
    /// Which bundle.
    pub bundle_id: BundleId,
    /// What to do.
    pub control: BundleControlType,
    /// How the bundle is done.
    pub flags: BundleFlags,
    /// When to commit (1.5): seconds since 1970 and nanoseconds.
    pub time: Option<(u64, u32)>,
}

/// Adds a message to a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleAdd {
    /// Which bundle.
    pub bundle_id: BundleId,
    /// As of the bundle.
    pub flags: BundleFlags,
    /// The message with its header, as it came: what is wrong with it is answered by itself.
    pub message: Vec<u8>,
}
