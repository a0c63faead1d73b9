//! Why a tunnel port sent or took a frame not. Each reason is one line, from which come its word and its meaning.

use std::fmt;

macro_rules! reasons {
    ($($variant:ident = $name:literal, $meaning:literal;)*) => {
        /// Why a tunnel port sent or took a frame not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Refused { $(#[doc = $meaning] $variant,)* }

        impl Refused {
            /// All reasons, in order of their discriminants.
            pub const ALL: &'static [Refused] = &[$(Refused::$variant),*];

            /// The stable word.
            pub fn name(self) -> &'static str {
                match self { $(Refused::$variant => $name,)* }
            }

            /// The meaning, a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Refused::$variant => $meaning,)* }
            }
        }
    };
}

reasons! {
    Descriptor = "descriptor", "The frame came without a whole descriptor.";
    StaleMap = "stale_map", "The descriptor was laid out by another map of options than the one in force.";
    NoRemote = "no_remote", "The port's remote_ip is flow, and no tun_dst was set.";
    Families = "families", "The addresses of the two ends are of different IP versions.";
    OptionsTooLong = "options_too_long", "The Geneve options have more than 252 octets.";
    TooLong = "too_long", "The outer packet would be longer than IP can say.";
    ErspanVersion = "erspan_version", "The ERSPAN version that was set is neither 1 nor 2.";
    ErspanField = "erspan_field", "An ERSPAN field that was set is too large for its header.";
    NoRoom = "no_room", "The headers did not fit the room that was given.";
    Truncated = "truncated", "The packet ends within a header.";
    IpLength = "ip_length", "The IP header's length is wrong.";
    IpChecksum = "ip_checksum", "The IPv4 header's checksum is wrong.";
    IpOptions = "ip_options", "The outer IPv4 header has options.";
    Fragment = "fragment", "The outer packet is a fragment.";
    UdpLength = "udp_length", "The UDP header's length is wrong.";
    UdpChecksum = "udp_checksum", "The UDP checksum is wrong.";
    GeneveVersion = "geneve_version", "The Geneve version is not 0.";
    GeneveProtocol = "geneve_protocol", "Geneve carries something else than an Ethernet frame.";
    GeneveOption = "geneve_option", "A Geneve option does not end within the header, or has another length than its field.";
    CriticalOption = "critical_option", "A critical Geneve option has no field.";
    VxlanFlags = "vxlan_flags", "The VXLAN header has flags or reserved bits that the port does not know.";
    GreFlags = "gre_flags", "The GRE header has flags or a version that this kind does not know.";
    GreChecksum = "gre_checksum", "The GRE checksum is wrong.";
    GreProtocol = "gre_protocol", "GRE carries something else than an Ethernet frame or ERSPAN.";
    ErspanHeader = "erspan_header", "The ERSPAN version is neither II nor III.";
    InnerTooShort = "inner_too_short", "The inner frame is shorter than an Ethernet header.";
    NoPort = "no_port", "No tunnel port has these addresses and this key.";
    EcnNotCapable = "ecn_not_capable", "The outer header says congestion, but the inner packet is not ECN capable (RFC 6040 §4.2).";
    Unreachable = "unreachable", "There is no route to the remote address.";
    NeighbourUnknown = "neighbour_unknown", "The next hop's hardware address did not become known in time.";
    NeighbourQueue = "neighbour_queue", "More frames waited for the next hop's hardware address than may.";
    Mtu = "mtu", "The outer packet is longer than the underlay's MTU and must not be fragmented.";
    Offload = "offload", "The frame's offload could not be completed in software.";
    TooShort = "too_short", "The frame to be sent is shorter than an Ethernet header.";
    Loop = "loop", "The frame had gone through 64 tunnel ports.";
    QueueFull = "queue_full", "The next port held as many frames as it may.";
    NoDevice = "no_device", "The underlay's device is not a port here, and the kernel's sockets are not open.";
    PortDown = "port_down", "The tunnel port was down.";
    WatchQueue = "watch_queue", "More BFD packets came than its session had read.";
    FragmentsWrong = "fragments_wrong", "Fragments of an outer packet overlap or contradict one another.";
    FragmentsLate = "fragments_late", "Not all fragments of an outer packet came in 30 seconds, or it made room for others.";
    KernelSocket = "kernel_socket", "The kernel refused the packet.";
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_there_once_and_sentences_end() {
        let words: std::collections::BTreeSet<_> = Refused::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(words.len(), Refused::ALL.len());
        for (i, reason) in Refused::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, i);
            assert!(reason.meaning().ends_with('.'), "{reason}");
        }
    }
}
