//! Frames of LACP (IEEE 802.1AX-2020 §6.4.2).

/// Where frames of slow protocols go: no bridge forwards them.
pub const DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0x02];
/// Bytes of a frame.
pub const FRAME: usize = 14 + PDU;
/// Bytes behind the Ethernet header.
const PDU: usize = 110;
const ETHER_TYPE: [u8; 2] = [0x88, 0x09];

/// Bits of an actor's state.
pub mod state {
    /// It speaks without being asked.
    pub const ACTIVITY: u8 = 0x01;
    /// It wants a frame every second.
    pub const TIMEOUT: u8 = 0x02;
    /// The link may be one of several.
    pub const AGGREGATION: u8 = 0x04;
    /// It belongs to the bond.
    pub const SYNCHRONIZED: u8 = 0x08;
    /// Packets are taken from it.
    pub const COLLECTING: u8 = 0x10;
    /// Packets are sent to it.
    pub const DISTRIBUTING: u8 = 0x20;
    /// Nothing is known of the partner.
    pub const DEFAULTED: u8 = 0x40;
    /// Nothing was heard of the partner for too long.
    pub const EXPIRED: u8 = 0x80;

    /// Words of the bits, as Open vSwitch shows them.
    pub const WORDS: [(u8, &str); 8] = [
        (ACTIVITY, "activity"),
        (TIMEOUT, "timeout"),
        (AGGREGATION, "aggregation"),
        (SYNCHRONIZED, "synchronized"),
        (COLLECTING, "collecting"),
        (DISTRIBUTING, "distributing"),
        (DEFAULTED, "defaulted"),
        (EXPIRED, "expired"),
    ];
}

/// What one side says of a link. The order is that of priorities, key and state apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Info {
    /// The system's priority.
    pub system_priority: u16,
    /// The system.
    pub system: [u8; 6],
    /// Links of one key can be bonded.
    pub key: u16,
    /// The link's priority.
    pub port_priority: u16,
    /// The link.
    pub port: u16,
    /// Bits of [`state`].
    pub state: u8,
}

/// What a frame says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pdu {
    /// Of whoever sends it.
    pub actor: Info,
    /// What it knows of whom it sends it to.
    pub partner: Info,
}

/// A frame of a slow protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// LACP.
    Lacp(Pdu),
    /// A request of the marker protocol, which nobody has to answer who keeps frames of a conversation in order.
    Marker,
    /// Neither.
    Bad,
}

impl Info {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.system_priority.to_be_bytes());
        out.extend(self.system);
        for value in [self.key, self.port_priority, self.port] {
            out.extend(value.to_be_bytes());
        }
        out.push(self.state);
    }

    fn read(bytes: &[u8; 15]) -> Info {
        let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut system = [0; 6];
        system.copy_from_slice(&bytes[2..8]);
        Info {
            system_priority: two(0),
            system,
            key: two(8),
            port_priority: two(10),
            port: two(12),
            state: bytes[14],
        }
    }
}

impl Pdu {
    /// The frame, from an address.
    pub fn frame(&self, source: [u8; 6]) -> Vec<u8> {
        let mut out = Vec::with_capacity(FRAME);
        out.extend(DESTINATION);
        out.extend(source);
        out.extend(ETHER_TYPE);
        //= ieee-802.1ax-2020 §6.4.2.3: subtype 1, version 1; each part says its type and length.
        out.extend([1, 1]);
        for (kind, info) in [(1, &self.actor), (2, &self.partner)] {
            out.extend([kind, 20]);
            info.write(&mut out);
            out.extend([0; 3]);
        }
        // Collector: type 3, 16 bytes, no delay; terminator.
        out.extend([3, 16]);
        out.resize(FRAME, 0);
        out
    }
}

/// Reads a frame of slow protocols, with its Ethernet header and perhaps padding behind it.
pub fn read(frame: &[u8]) -> Slow {
    let Some(body) = frame.get(14..).filter(|_| frame[12..14] == ETHER_TYPE) else {
        return Slow::Bad;
    };
    match body {
        [2, 1, ..] => Slow::Marker,
        [1, 1, 1, 20, rest @ ..] if body.len() >= PDU => {
            let partner = &rest[18..];
            let (Some(actor), [2, 20, ..]) = (rest.first_chunk(), partner) else {
                return Slow::Bad;
            };
            let Some(partner) = partner[2..].first_chunk() else { return Slow::Bad };
            Slow::Lacp(Pdu { actor: Info::read(actor), partner: Info::read(partner) })
        }
        _ => Slow::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(n: u16) -> Info {
        let system = [2, 0, 0, 0, 0, n as u8];
        let (key, port_priority, port) = (n + 1, n + 2, n + 3);
        Info { system_priority: n, system, key, port_priority, port, state: n as u8 }
    }

    #[test]
    fn frames_say_what_was_written() {
        let pdu = Pdu { actor: info(0x0102), partner: info(0x0304) };
        let frame = pdu.frame([2, 0, 0, 0, 0, 9]);
        assert_eq!(frame.len(), 124);
        // As Linux sends them: the parts' types, lengths and places.
        assert_eq!(frame[..16], [1, 128, 194, 0, 0, 2, 2, 0, 0, 0, 0, 9, 0x88, 9, 1, 1]);
        assert_eq!(frame[16..20], [1, 20, 1, 2]);
        assert_eq!((frame[36], frame[37], frame[56], frame[57]), (2, 20, 3, 16));
        assert_eq!(read(&frame), Slow::Lacp(pdu));
        let mut padded = frame.clone();
        padded.extend([0; 40]);
        assert_eq!(read(&padded), Slow::Lacp(pdu));
    }

    #[test]
    fn whatever_is_cut_or_changed_is_bad_and_nothing_panics() {
        let frame = Pdu { actor: info(1), partner: info(2) }.frame([2; 6]);
        for length in 0..frame.len() {
            assert_eq!(read(&frame[..length]), Slow::Bad, "{length}");
        }
        for at in [12, 13, 14, 15, 16, 17, 36, 37] {
            let mut changed = frame.clone();
            changed[at] ^= 0x40;
            assert_eq!(read(&changed), Slow::Bad, "{at}");
        }
        let mut marker = frame;
        marker[14] = 2;
        assert_eq!(read(&marker), Slow::Marker);
    }
}
