//! Assigned numbers: EtherTypes and IP protocol numbers.
//!
//! Both are open number spaces, so each is a number with names for the values we know, and every
//! value is representable.

use std::fmt;

macro_rules! numbers {
    ($(#[$meta:meta])* $ty:ident($int:ty), $unknown:literal {
        $( $(#[$doc:meta])* $name:ident = $value:literal, $text:literal; )*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $ty(pub $int);

        impl $ty {
            $( $(#[$doc])* pub const $name: $ty = $ty($value); )*

            /// The name in lower case, if it has one.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $( $value => Some($text), )*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.pad(name),
                    None => write!(f, $unknown, self.0),
                }
            }
        }

        impl From<$int> for $ty {
            fn from(value: $int) -> Self {
                $ty(value)
            }
        }

        impl From<$ty> for $int {
            fn from(value: $ty) -> Self {
                value.0
            }
        }
    };
}

numbers! {
    /// An EtherType (IEEE Std 802.3-2018 §3.2.6), or an 802.3 length where below 0x0600.
    EtherType(u16), "{:#06x}" {
        /// IPv4 (RFC 894).
        IPV4 = 0x0800, "ipv4";
        /// ARP (RFC 826).
        ARP = 0x0806, "arp";
        /// Transparent Ethernet bridging: a whole frame as payload (RFC 1701, RFC 8926 §3.4).
        TRANSPARENT_ETHERNET = 0x6558, "teb";
        /// Reverse ARP (RFC 903).
        RARP = 0x8035, "rarp";
        /// C-VLAN tag (IEEE Std 802.1Q-2018 §9.6).
        VLAN = 0x8100, "vlan";
        /// IPv6 (RFC 2464 §3).
        IPV6 = 0x86dd, "ipv6";
        /// Slow protocols, LACP among them (IEEE Std 802.3-2018 annex 57A).
        SLOW_PROTOCOLS = 0x8809, "slow";
        /// MPLS (RFC 5332 §2: downstream-assigned label on top).
        MPLS = 0x8847, "mpls";
        /// MPLS (RFC 5332 §2: upstream-assigned label on top).
        MPLS_UPSTREAM = 0x8848, "mpls-upstream";
        /// S-VLAN tag, the outer of QinQ (802.1ad; IEEE Std 802.1Q-2018 §9.6).
        SVLAN = 0x88a8, "svlan";
        /// Link layer discovery (IEEE Std 802.1AB).
        LLDP = 0x88cc, "lldp";
        /// I-TAG of provider backbone bridges (802.1ah; IEEE Std 802.1Q-2018 §9.7).
        PBB = 0x88e7, "pbb";
    }
}

impl EtherType {
    /// The least value that is a type and not an 802.3 length.
    pub const TYPE_MIN: u16 = 0x0600;

    /// Whether it announces a VLAN tag, C-VLAN or S-VLAN.
    pub fn is_vlan(self) -> bool {
        matches!(self, EtherType::VLAN | EtherType::SVLAN)
    }

    /// Whether it announces an MPLS label stack.
    pub fn is_mpls(self) -> bool {
        matches!(self, EtherType::MPLS | EtherType::MPLS_UPSTREAM)
    }

    /// Whether it is an 802.3 length rather than a type.
    pub fn is_length(self) -> bool {
        self.0 < Self::TYPE_MIN
    }
}

numbers! {
    /// An IPv4 protocol or IPv6 next-header number (IANA, *Assigned Internet Protocol Numbers*).
    IpProtocol(u8), "proto-{}" {
        /// IPv6 hop-by-hop options (RFC 8200 §4.3).
        HOP_BY_HOP = 0, "hop-by-hop";
        /// ICMP (RFC 792).
        ICMP = 1, "icmp";
        /// IGMP (RFC 3376).
        IGMP = 2, "igmp";
        /// IPv4 in IP (RFC 2003).
        IPV4 = 4, "ipip";
        /// TCP (RFC 9293).
        TCP = 6, "tcp";
        /// UDP (RFC 768).
        UDP = 17, "udp";
        /// DCCP (RFC 4340).
        DCCP = 33, "dccp";
        /// IPv6 in IP (RFC 2473).
        IPV6 = 41, "ip6ip";
        /// IPv6 routing header (RFC 8200 §4.4).
        ROUTING = 43, "routing";
        /// IPv6 fragment header (RFC 8200 §4.5).
        FRAGMENT = 44, "fragment";
        /// GRE (RFC 2784).
        GRE = 47, "gre";
        /// Encapsulating security payload (RFC 4303).
        ESP = 50, "esp";
        /// Authentication header (RFC 4302).
        AUTH = 51, "ah";
        /// ICMPv6 (RFC 4443).
        ICMPV6 = 58, "icmpv6";
        /// No next header (RFC 8200 §4.7).
        NO_NEXT = 59, "no-next";
        /// IPv6 destination options (RFC 8200 §4.6).
        DEST_OPTIONS = 60, "dest-options";
        /// OSPF (RFC 2328).
        OSPF = 89, "ospf";
        /// PIM (RFC 7761).
        PIM = 103, "pim";
        /// VRRP (RFC 5798).
        VRRP = 112, "vrrp";
        /// SCTP (RFC 9260).
        SCTP = 132, "sctp";
        /// Mobility header (RFC 6275 §6.1).
        MOBILITY = 135, "mobility";
        /// UDP-Lite (RFC 3828).
        UDP_LITE = 136, "udp-lite";
        /// MPLS in IP (RFC 4023).
        MPLS = 137, "mpls-in-ip";
        /// Host identity protocol (RFC 7401).
        HIP = 139, "hip";
        /// Shim6 (RFC 5533).
        SHIM6 = 140, "shim6";
        /// Ethernet in IP (RFC 8986 §4.9).
        ETHERNET = 143, "ethernet";
    }
}

impl IpProtocol {
    /// Whether it is an IPv6 extension header with a next-header field, which a walk passes over.
    ///
    /// ESP, whose next header is encrypted, and no-next-header end the chain and are not counted.
    pub fn is_ipv6_extension(self) -> bool {
        matches!(
            self,
            IpProtocol::HOP_BY_HOP
                | IpProtocol::ROUTING
                | IpProtocol::FRAGMENT
                | IpProtocol::AUTH
                | IpProtocol::DEST_OPTIONS
                | IpProtocol::MOBILITY
                | IpProtocol::HIP
                | IpProtocol::SHIM6
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_text() {
        assert_eq!(EtherType::VLAN.to_string(), "vlan");
        assert_eq!(EtherType(0x1234).to_string(), "0x1234");
        assert_eq!(IpProtocol(200).to_string(), "proto-200");
        assert_eq!(IpProtocol::TCP.to_string(), "tcp");
        assert!(EtherType(0x05ff).is_length() && !EtherType(0x0600).is_length());
    }
}
