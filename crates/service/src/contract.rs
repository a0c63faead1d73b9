//! What programs call services by: names, arguments and results, each declared once.
//!
//! A program declares a service with these columns, in whichever language it was written; the datapath answers by
//! their positions. Names come with widths in bits.

/// Connection tracking ([`NAME`](ct::NAME)), and the same with address translation ([`NAT_NAME`](ct::NAT_NAME)).
pub mod ct {
    /// Name of the service that only looks.
    pub const NAME: &str = "ct";
    /// Name of the service that may translate.
    pub const NAT_NAME: &str = "ct_nat";

    /// Arguments of `ct`. [`flags`] says what becomes of the connection. `state` and `tracked_zone` are results of an
    /// earlier call for the packet.
    pub const ARGS: [(&str, u32); 8] = [
        ("zone", 16),
        ("flags", 8),
        ("mark", 32),
        ("mark_mask", 32),
        ("label", 128),
        ("label_mask", 128),
        ("state", 8),
        ("tracked_zone", 16),
    ];
    /// Further arguments of `ct_nat`: [`kind`], then addresses and ports from the first to the last. An address of 0
    /// stays as it is. Ports `0..=0` leave the choice to the translator.
    pub const NAT_ARGS: [(&str, u32); 5] =
        [("kind", 8), ("first", 128), ("last", 128), ("first_port", 16), ("last_port", 16)];
    /// Results of both. Addresses and ports are those of the packets of the connection's opener.
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
}

/// Asks whether an entry that the packet makes will be there. Its arguments are those of the digest that follows.
pub mod learn_admits {
    /// Name of the service.
    pub const NAME: &str = "learn_admits";
    /// Results.
    pub const RESULTS: [(&str, u32); 1] = [("learnt", 1)];
}
