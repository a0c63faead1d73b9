//! What a tracker is made of: room and timeouts.

use super::{sctp, tcp};

/// Timeouts in seconds, with Linux's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP's.
    pub tcp: tcp::Timeouts,
    /// SCTP's.
    pub sctp: sctp::Timeouts,
    /// UDP, not answered or younger than two seconds.
    pub udp: u32,
    /// UDP, traffic both ways.
    pub udp_stream: u32,
    /// ICMP's requests.
    pub icmp: u32,
    /// Other protocols.
    pub other: u32,
    /// From the first fragment on.
    pub fragment: u32,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            tcp: tcp::Timeouts::default(),
            sctp: sctp::Timeouts::default(),
            udp: 30,
            udp_stream: 120,
            icmp: 30,
            other: 600,
            fragment: 30,
        }
    }
}

/// A tracker's size and settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Connections at most, below 2³¹.
    pub connections_max: usize,
    /// Of them, at most so many whose addresses or ports are translated.
    pub translated_max: usize,
    /// Of them, at most so many that nobody has answered.
    pub half_open_max: usize,
    /// Datagrams in fragments at a time.
    pub fragmented_max: usize,
    /// Fragments that wait for their first.
    pub waiting_max: usize,
    /// Their octets.
    pub waiting_octets_max: usize,
    /// Whether transport checksums are checked, of packets whose port has not done so.
    pub check_checksums: bool,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// How TCP is judged.
    pub tcp: tcp::Settings,
    /// Whether packets and octets of each connection are counted ([`Account`](super::Account)).
    pub accounting: bool,
    /// A number that nobody outside can guess.
    pub seed: u64,
}

impl Config {
    /// Room for so many connections; half of it for half-open ones, none translated.
    pub fn new(connections_max: usize, seed: u64) -> Config {
        Config {
            connections_max,
            translated_max: 0,
            half_open_max: connections_max.div_ceil(2),
            fragmented_max: 4096,
            waiting_max: 1024,
            waiting_octets_max: 2 << 20,
            check_checksums: true,
            timeouts: Timeouts::default(),
            tcp: tcp::Settings::default(),
            accounting: false,
            seed,
        }
    }

    /// What TCP's segments are judged by, in a zone with these timeouts.
    pub(super) fn tcp_rules<'a>(&'a self, timeouts: &'a Timeouts) -> tcp::Rules<'a> {
        tcp::Rules { settings: &self.tcp, timeouts: &timeouts.tcp }
    }
}
