//! What a use case is, and how one draws its flows.

use super::gateway::Gateway;
use crate::frame::{Flow, Transport};
use crate::limit::Limit;
use port::prng::Prng;

/// A use case.
pub(crate) trait Case {
    /// Its name and parameters, as on the command line.
    fn name(&self) -> String;

    /// Its flow entries in `ovs-ofctl`'s syntax, one a call.
    fn entries(&self, line: &mut dyn FnMut(String));

    /// Its `n`-th active flow.
    fn flow(&self, n: u64) -> Flow;

    /// The services that its entries name: `NAME KIND [KEY=VALUE...]`.
    fn services(&self) -> Vec<String> {
        Vec::new()
    }

    /// The loop that somebody would write by hand for it, if somebody has.
    fn limit(&self) -> Option<Box<dyn Limit>>;

    /// The gateway, if it is one: its routes can change.
    fn gateway(&self) -> Option<&Gateway> {
        None
    }
}

/// A locally administered address: `02:kind:…:n`.
pub(crate) fn mac(kind: u8, n: u32) -> u64 {
    0x0200_0000_0000 | u64::from(kind) << 32 | u64::from(n)
}

/// An address as it is written.
pub(crate) fn mac_text(mac: u64) -> String {
    let [_, _, a, b, c, d, e, f] = mac.to_be_bytes();
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

/// Numbers for flow `n` of a use case.
pub(crate) fn draw(seed: u64, n: u64) -> Prng {
    Prng::new(Prng::new(seed ^ n).next_u64())
}

/// A flow between random hosts. One in four is UDP.
pub(crate) fn anybody(random: &mut Prng) -> Flow {
    let ports = random.next_u64();
    let udp = random.below(4) == 0;
    Flow {
        in_port: 1,
        dst_mac: mac(0xff, 0),
        src_mac: mac(0xfe, random.next_u64() as u32),
        vlan: None,
        src: 0x0b00_0000 | (random.next_u64() as u32 & 0x00ff_ffff),
        dst: 0x0c00_0000 | (random.next_u64() as u32 & 0x00ff_ffff),
        ttl: 64,
        transport: if udp { Transport::Udp } else { Transport::Tcp },
        src_port: 1024 + (ports % 60_000) as u16,
        dst_port: 1024 + ((ports >> 32) % 60_000) as u16,
    }
}
