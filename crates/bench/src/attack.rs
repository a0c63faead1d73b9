//! Attacks on switches that remember flows: traffic of which no two packets are alike.
//!
//! | name | each frame's flow is changed so |
//! |---|---|
//! | `flip` | one bit of each of addresses and ports is another (Csikor et al., *Tuple Space Explosion*, CoNEXT 2019) |
//! | `scan` | one source asks all ports of all addresses, one after the other |
//! | `spoof` | source address and port are random |
//!
//! A pipeline without a flow cache has nothing to lose by them: what a frame costs depends on the
//! tables that it goes through.

use super::frame::{Flow, Transport};
use port::prng::Prng;

/// An attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Attack {
    /// One bit flipped in each header field
    Flip,
    /// A port scan
    Scan,
    /// Spoofed sources
    Spoof,
}

impl Attack {
    /// As it is written.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Attack::Flip => "flip",
            Attack::Scan => "scan",
            Attack::Spoof => "spoof",
        }
    }

    /// What it does to flows, one after the other.
    pub(crate) fn changes(self) -> impl FnMut(&mut Flow) {
        let mut random = Prng::new(0x6174_7461);
        let mut port = 0u16;
        move |flow| {
            let r = random.next_u64();
            match self {
                Attack::Flip => {
                    flow.src ^= 1 << (r & 31);
                    flow.dst ^= 1 << (r >> 8 & 31);
                    flow.src_port ^= 1 << (r >> 16 & 15);
                    flow.dst_port ^= 1 << (r >> 24 & 15);
                }
                Attack::Scan => {
                    port = port.wrapping_add(1);
                    flow.dst_port = port;
                    flow.src_port = (r >> 16) as u16;
                    flow.transport = Transport::Tcp;
                }
                Attack::Spoof => {
                    flow.src = r as u32;
                    flow.src_port = (r >> 32) as u16;
                }
            }
        }
    }
}
