//! What becomes of a frame, and every reason for it.
//!
//! Each reason is one line below. From that line come its counter's name, its label in metrics, its
//! word in traces and its number; `stats`, `top` and the tests read the same words. Words are stable:
//! scripts rely on them.

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = $text] $variant,)*
        }

        impl $name {
            /// Every reason, in the order of its number.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The stable word: counter, label, trace.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// One sentence for a person.
            pub fn text(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// The reason with this word.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

reasons! {
    /// Why a frame was dropped.
    DropReason {
        Action = "action_drop", "An action said drop.";
        NoOutput = "no_output", "The pipeline ended and nothing had been output.";
        TableMiss = "table_miss", "No entry matched and the table's default is to drop.";
        ParserReject = "parser_reject", "The parser went to reject.";
        ChecksumBad = "checksum_bad", "A checksum that the program verifies was wrong.";
        Meter = "meter_drop", "A meter's drop band applied.";
        InvalidTtl = "invalid_ttl", "A TTL or hop limit would have become zero.";
        HeaderStackOverflow = "header_stack_overflow", "A header was pushed on a full header stack.";
        HeaderMissing = "header_missing", "An operation needed a header that the packet lacks.";
        RecirculationLimit = "recirculation_limit", "Resubmitted, recirculated or reparsed too often.";
        LoopLimit = "loop_limit", "A loop of the program ran too often.";
        Fragment = "fragment", "An IP fragment, and the switch is configured to drop those.";
        GroupUnknown = "group_unknown", "The group does not exist.";
        GroupDead = "group_no_live_bucket", "No bucket of the group is live.";
        GroupLoop = "group_chain_too_deep", "Groups refer to groups more deeply than is allowed.";
        PortUnknown = "port_unknown", "Output to a port that does not exist.";
        PortDown = "port_down", "Output to a port that is down.";
        PortNoForward = "port_no_fwd", "Output to a port that is configured not to forward.";
        Standby = "standby", "Received by a standby of a replicated group, whose active member has it.";
        PortNoReceive = "port_no_recv", "Received on a port that is configured to drop what it receives.";
        OutputToIngress = "output_to_ingress", "Output to the port the frame came in by, not asked for explicitly.";
        FrameTooShort = "frame_too_short", "Shorter than the least header of its kind.";
        FrameTooLong = "frame_too_long", "Longer than the port or the switch carries.";
        TxRingFull = "tx_ring_full", "The port's transmit queue was full.";
        TxError = "tx_error", "The port refused the frame.";
        PuntRingFull = "punt_ring_full", "The control plane did not keep up with punted frames.";
        PuntRateLimit = "punt_rate_limit", "More punts than the configured rate.";
        Service = "service_drop", "A service said so, which counts why.";
        Stopped = "switch_stopped", "The switch was stopping.";
        FragmentLost = "fragment_lost", "An IP fragment that waited for its datagram's first, which did not come in time, or for which there was no room.";
        VlanNotAllowed = "vlan_not_allowed", "NORMAL: the frame's VLAN is none of the port's that it came in by.";
        MirrorPort = "mirror_port", "NORMAL: it came in by a mirror's port.";
        Policed = "policed", "The port receives more than its ingress policing allows.";
        ProtectedPort = "protected_port", "It came in by a protected port, and only others of these would have got it.";
        BondMember = "bond_member", "NORMAL: it came in by a bond's member that takes no such frames.";
        BondReflected = "bond_reflected", "NORMAL: it came in by a bond that balances by source, and its source is elsewhere.";
        TunnelMap = "tunnel_map", "From a tunnel port, while the map of Geneve options changed.";
        BondDown = "bond_down", "NORMAL: it was for a bond of which no member is enabled.";
    }
}

reasons! {
    /// Why a frame, or a copy of it, was sent to the control plane.
    PuntReason {
        Action = "action", "An action said so.";
        TableMiss = "table_miss", "A table-miss entry said so.";
        InvalidTtl = "invalid_ttl", "A TTL or hop limit would have become zero.";
        ActionSet = "action_set", "The action set said so.";
        Group = "group", "A group's bucket said so.";
        PacketOut = "packet_out", "An injected packet's actions said so.";
        Digest = "digest", "A message to the control plane that is not a packet.";
        Control = "control", "A protocol that the switch itself speaks.";
    }
}

/// What became of one received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At least one copy went to a port.
    Forward,
    /// No copy went anywhere.
    Drop(DropReason),
    /// No copy went to a port, but one went to the control plane.
    Punt(PuntReason),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Verdict::Forward => f.write_str("forward"),
            Verdict::Drop(reason) => write!(f, "drop({reason})"),
            Verdict::Punt(reason) => write!(f, "punt({reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_distinct_snake_case_and_read_back() {
        for (i, r) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*r as usize, i);
            assert_eq!(DropReason::from_word(r.word()), Some(*r));
            assert!(r.word().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        }
        for r in PuntReason::ALL {
            assert_eq!(PuntReason::from_word(r.word()), Some(*r));
        }
    }
}
