//! Connection tracking and address translation (ovs-actions(7), `ct` and `nat`): two services of one tracker.

/// Name of the service that only looks.
pub const NAME: &str = "ct";
/// Name of the service that may translate.
pub const NAT_NAME: &str = "ct_nat";

/// What `ct` is told: names and widths.
pub const ARGS: [(&str, u32); 8] = [
    ("zone", 16),
    ("flags", 8),
    ("mark", 32),
    ("mark_mask", 32),
    ("label", 128),
    ("label_mask", 128),
    // What an earlier call said of the packet.
    ("state", 8),
    ("tracked_zone", 16),
];
/// What `ct_nat` is told besides: [`kind`], addresses and ports from the first to the last; addresses of 0 stay as they are, no ports are
/// `0..=0`, which leaves the choice to the translator.
pub const NAT_ARGS: [(&str, u32); 5] =
    [("kind", 8), ("first", 128), ("last", 128), ("first_port", 16), ("last_port", 16)];
/// What both answer. Of a connection's two sides, these are the opener's packets' fields.
pub const RESULTS: [(&str, u32); 11] = [
    ("state", 32),
    ("mark", 32),
    ("label", 128),
    ("zone", 16),
    ("nw_src", 32),
    ("nw_dst", 32),
    ("ipv6_src", 128),
    ("ipv6_dst", 128),
    ("nw_proto", 8),
    ("tp_src", 16),
    ("tp_dst", 16),
];

/// Bits of the argument `flags`.
pub mod flags {
    /// A new connection is kept.
    pub const COMMIT: u8 = 1;
    /// A connection that goes the other way is replaced.
    pub const FORCE: u8 = 2;
    /// A new connection is one of FTP, which announces others.
    pub const FTP: u8 = 4;
    /// Or one of TFTP.
    pub const TFTP: u8 = 8;
}

/// Values of the argument `kind`.
pub mod kind {
    /// Packets of connections that are translated.
    pub const EXISTING: u8 = 0;
    /// And new connections' source.
    pub const SOURCE: u8 = 1;
    /// And new connections' destination.
    pub const DESTINATION: u8 = 2;
    /// Beside one of those: the addresses are IPv6's.
    pub const IPV6: u8 = 4;
}
