//! Control packets (RFC 5880 §4.1) in UDP, IPv4 and Ethernet (RFC 5881 §4).

use std::net::Ipv4Addr;

/// Port of control packets.
pub const PORT: u16 = 3784;
/// Source ports are of this range (RFC 5881 §4).
pub const SOURCE_PORT_MIN: u16 = 49152;
/// Octets of a frame with one packet.
pub const FRAME_LEN: usize = 14 + 20 + 8 + PACKET_LEN;
/// Octets of a packet without authentication.
pub const PACKET_LEN: usize = 24;

/// Hops that a packet has not lost (RFC 5881 §5).
pub const TTL: u8 = 255;
/// Internetwork control, as Open vSwitch has it.
const TOS: u8 = 0xc0;

/// Where a session stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Held down by who runs it.
    AdminDown,
    /// Nobody is heard.
    #[default]
    Down,
    /// The other side is heard, and does not hear yet.
    Init,
    /// Both hear each other.
    Up,
}

impl State {
    /// As Open vSwitch writes it.
    pub fn word(self) -> &'static str {
        match self {
            State::AdminDown => "admin_down",
            State::Down => "down",
            State::Init => "init",
            State::Up => "up",
        }
    }

    fn read(bits: u8) -> State {
        match bits & 3 {
            0 => State::AdminDown,
            1 => State::Down,
            2 => State::Init,
            _ => State::Up,
        }
    }
}

/// Why a session came to where it stands: a code of RFC 5880 §4.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic(pub u8);

impl Diagnostic {
    /// Nothing to say.
    pub const NONE: Diagnostic = Diagnostic(0);
    /// The other side was not heard for too long.
    pub const EXPIRED: Diagnostic = Diagnostic(1);
    /// The other side says that it is down.
    pub const REMOTE_DOWN: Diagnostic = Diagnostic(3);
    /// There is no way on beyond this system.
    pub const PATH_DOWN: Diagnostic = Diagnostic(6);
    /// There is no way back beyond this system.
    pub const REVERSE_PATH_DOWN: Diagnostic = Diagnostic(8);

    /// The RFC's words.
    pub fn words(self) -> &'static str {
        match self.0 {
            0 => "No Diagnostic",
            1 => "Control Detection Time Expired",
            2 => "Echo Function Failed",
            3 => "Neighbor Signaled Session Down",
            4 => "Forwarding Plane Reset",
            5 => "Path Down",
            6 => "Concatenated Path Down",
            7 => "Administratively Down",
            8 => "Reverse Concatenated Path Down",
            _ => "Reserved",
        }
    }
}

/// Bits of a packet's flags.
pub mod flags {
    /// Part of a multipoint session.
    pub const MULTIPOINT: u8 = 1;
    /// No periodic packets are wanted.
    pub const DEMAND: u8 = 2;
    /// Authentication follows.
    pub const AUTHENTICATION: u8 = 4;
    /// Control does not share its fate with forwarding.
    pub const INDEPENDENT: u8 = 8;
    /// Answers a poll.
    pub const FINAL: u8 = 16;
    /// Wants an answer.
    pub const POLL: u8 = 32;
}

/// A control packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Why the sender is where it stands.
    pub diagnostic: Diagnostic,
    /// Where the sender stands.
    pub state: State,
    /// [`flags`].
    pub flags: u8,
    /// Packets that may be lost in a row.
    pub mult: u8,
    /// The sender's number.
    pub mine: u32,
    /// The receiver's number, 0 if it is not known.
    pub yours: u32,
    /// The shortest interval by which it sends, in microseconds.
    pub min_tx_us: u32,
    /// The shortest interval that it takes.
    pub min_rx_us: u32,
    /// The same for echo packets.
    pub min_echo_us: u32,
}

/// Addresses around a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Around {
    /// Destination of the frame.
    pub dst_mac: [u8; 6],
    /// Source of the frame.
    pub src_mac: [u8; 6],
    /// Source of the packet.
    pub src_ip: Ipv4Addr,
    /// Destination of the packet.
    pub dst_ip: Ipv4Addr,
    /// UDP's source port.
    pub src_port: u16,
    /// Hops that are left.
    pub ttl: u8,
}

/// Why a frame has no packet that can be used (RFC 5880 §6.8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Malformed {
    /// Headers or lengths do not fit.
    #[error("its lengths do not fit")]
    Length,
    /// The IPv4 header's checksum.
    #[error("the IPv4 checksum is wrong")]
    Checksum,
    /// Another version.
    #[error("it is not of version 1")]
    Version,
    /// A multiplier of 0.
    #[error("its detection multiplier is 0")]
    Multiplier,
    /// Multipoint.
    #[error("it is of a multipoint session")]
    Multipoint,
    /// No sender.
    #[error("its discriminator is 0")]
    Discriminator,
    /// No receiver, in a state that has one.
    #[error("it names no session, and its state is init or up")]
    NoReceiver,
    /// Authentication, which is not done.
    #[error("it has authentication")]
    Authentication,
}

impl Packet {
    /// The packet with all that is before it. No padding: Open vSwitch adds none either.
    pub fn frame(&self, around: &Around) -> Vec<u8> {
        let mut frame = Vec::with_capacity(FRAME_LEN);
        frame.extend(around.dst_mac);
        frame.extend(around.src_mac);
        frame.extend([8, 0]);
        let ip_len = (FRAME_LEN - 14) as u16;
        let mut ip = [0; 20];
        (ip[0], ip[1], ip[8], ip[9]) = (0x45, TOS, around.ttl, 17);
        ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
        ip[12..16].copy_from_slice(&around.src_ip.octets());
        ip[16..20].copy_from_slice(&around.dst_ip.octets());
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(ip);
        frame.extend(around.src_port.to_be_bytes());
        frame.extend(PORT.to_be_bytes());
        frame.extend((8 + PACKET_LEN as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend([1 << 5 | self.diagnostic.0 & 31, (self.state as u8) << 6 | self.flags & 63]);
        frame.extend([self.mult, PACKET_LEN as u8]);
        let words = [self.mine, self.yours, self.min_tx_us, self.min_rx_us, self.min_echo_us];
        words.iter().for_each(|word| frame.extend(word.to_be_bytes()));
        frame
    }

    fn read(bytes: &[u8]) -> Result<Packet, Malformed> {
        let [first, second, mult, len, rest @ ..] =
            bytes.first_chunk::<PACKET_LEN>().ok_or(Malformed::Length)?;
        let word =
            |at: usize| u32::from_be_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let packet = Packet {
            diagnostic: Diagnostic(first & 31),
            state: State::read(second >> 6),
            flags: second & 63,
            mult: *mult,
            mine: word(0),
            yours: word(4),
            min_tx_us: word(8),
            min_rx_us: word(12),
            min_echo_us: word(16),
        };
        let has = |flag| packet.flags & flag != 0;
        match () {
            () if first >> 5 != 1 => Err(Malformed::Version),
            () if usize::from(*len) < PACKET_LEN || usize::from(*len) > bytes.len() => {
                Err(Malformed::Length)
            }
            () if packet.mult == 0 => Err(Malformed::Multiplier),
            () if has(flags::MULTIPOINT) => Err(Malformed::Multipoint),
            () if packet.mine == 0 => Err(Malformed::Discriminator),
            () if packet.yours == 0 && packet.state > State::Down => Err(Malformed::NoReceiver),
            () if has(flags::AUTHENTICATION) => Err(Malformed::Authentication),
            () => Ok(packet),
        }
    }
}

/// RFC 1071's.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Reads a frame. `None` if it is not UDP to [`PORT`] in IPv4, or a later fragment; tags of VLANs are passed over.
pub fn read(frame: &[u8]) -> Option<(Around, Result<Packet, Malformed>)> {
    let (dst_mac, src_mac) = (*frame.first_chunk::<6>()?, *frame.get(6..)?.first_chunk::<6>()?);
    let mut at = 12;
    for _ in 0..2 {
        match frame.get(at..at + 2)? {
            [0x81, 0x00] | [0x88, 0xa8] => at += 4,
            _ => break,
        }
    }
    if frame.get(at..at + 2)? != [8, 0] {
        return None;
    }
    let ip = frame.get(at + 2..)?;
    let fixed = ip.first_chunk::<20>()?;
    let header_len = usize::from(fixed[0] & 15) * 4;
    let later = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff != 0;
    if fixed[0] >> 4 != 4 || fixed[9] != 17 || later || header_len < 20 {
        return None;
    }
    let udp = ip.get(header_len..)?;
    let ports = udp.first_chunk::<8>()?;
    if u16::from_be_bytes([ports[2], ports[3]]) != PORT {
        return None;
    }
    let around = Around {
        dst_mac,
        src_mac,
        src_ip: Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]),
        dst_ip: Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]),
        src_port: u16::from_be_bytes([ports[0], ports[1]]),
        ttl: fixed[8],
    };
    let whole = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    let datagram = usize::from(u16::from_be_bytes([ports[4], ports[5]]));
    let more = fixed[6] & 0x20 != 0;
    let payload =
        (whole >= header_len + 8 && datagram >= 8 && datagram <= whole - header_len && !more)
            .then(|| ip.get(header_len + 8..header_len + datagram))
            .flatten();
    let packet = match payload {
        None => Err(Malformed::Length),
        Some(_) if checksum(ip.get(..header_len)?) != 0 => Err(Malformed::Checksum),
        Some(payload) => Packet::read(payload),
    };
    Some((around, packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Packet, Around) {
        let packet = Packet {
            diagnostic: Diagnostic::PATH_DOWN,
            state: State::Up,
            flags: flags::POLL,
            mult: 3,
            mine: 7,
            yours: 9,
            min_tx_us: 100_000,
            min_rx_us: 1_000_000,
            min_echo_us: 0,
        };
        let around = Around {
            dst_mac: [0, 0x23, 0x20, 0, 0, 1],
            src_mac: [2, 0, 0, 0, 0, 1],
            src_ip: crate::config::SRC_IP,
            dst_ip: crate::config::DST_IP,
            src_port: SOURCE_PORT_MIN,
            ttl: TTL,
        };
        (packet, around)
    }

    #[test]
    fn what_is_written_is_read_with_tags_and_padding() {
        let (packet, around) = sample();
        let mut frame = packet.frame(&around);
        assert_eq!(frame.len(), FRAME_LEN);
        assert_eq!(read(&frame), Some((around, Ok(packet))));
        frame.extend([0; 20]);
        frame.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
        assert_eq!(read(&frame), Some((around, Ok(packet))));
        frame.splice(12..12, [0x81, 0, 0, 6]);
        assert_eq!(read(&frame), None, "three tags");
    }

    #[test]
    fn a_frame_that_is_cut_off_is_refused() {
        let (packet, around) = sample();
        let frame = packet.frame(&around);
        for len in 0..42 {
            assert_eq!(read(&frame[..len]), None, "{len}: its ports are not there");
        }
        for len in 42..frame.len() {
            assert_eq!(read(&frame[..len]), Some((around, Err(Malformed::Length))), "{len}");
        }
    }

    #[test]
    fn each_wrong_octet_has_its_reason() {
        let (packet, around) = sample();
        for (at, octet, wanted) in [
            (42, 0x46, Malformed::Version),
            (45, 23, Malformed::Length),
            (45, 25, Malformed::Length),
            (44, 0, Malformed::Multiplier),
            (43, 0xc1, Malformed::Multipoint),
            (43, 0xc4, Malformed::Authentication),
            (49, 0, Malformed::Discriminator),
            (53, 0, Malformed::NoReceiver),
            (26, 0, Malformed::Checksum),
            (17, 30, Malformed::Length),
            (39, 33, Malformed::Length),
            (39, 7, Malformed::Length),
            (20, 0x20, Malformed::Length),
        ] {
            let mut frame = packet.frame(&around);
            frame[at] = octet;
            let found = read(&frame).and_then(|(_, packet)| packet.err());
            assert_eq!(found, Some(wanted), "octet {at} is {octet}");
        }
        for (at, octet) in [(12, 9), (14, 0x65), (14, 0x44), (23, 6), (21, 1), (37, 0)] {
            let mut frame = packet.frame(&around);
            frame[at] = octet;
            assert_eq!(read(&frame), None, "octet {at} is {octet}");
        }
    }
}
