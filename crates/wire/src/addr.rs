//! Ethernet addresses (IEEE Std 802-2014 §8). IP addresses are the standard library's.

use std::fmt;
use std::str::FromStr;

/// A 48-bit MAC address, in transmission order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// `ff:ff:ff:ff:ff:ff`.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// `00:00:00:00:00:00`, which no station has.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// The address whose octets are the low 48 bits of `value`; the upper 16 are ignored.
    pub const fn from_u64(value: u64) -> Self {
        let [_, _, octets @ ..] = value.to_be_bytes();
        MacAddr(octets)
    }

    /// The address as a number below 2⁴⁸.
    pub const fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// Whether it is the broadcast address.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// Whether it names a group (the I/G bit); true of broadcast as well.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 0x01 != 0
    }

    /// Whether it can be a station's own: neither a group nor zero.
    pub fn is_unicast(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }

    /// Whether it is locally administered (the U/L bit).
    pub fn is_local(self) -> bool {
        self.0[0] & 0x02 != 0
    }

    /// Whether it is one of the 802.1Q reserved addresses `01:80:c2:00:00:0x`, which a bridge
    /// does not forward (IEEE Std 802.1Q-2018 table 8-1).
    pub fn is_bridge_reserved(self) -> bool {
        self.0[..5] == [0x01, 0x80, 0xc2, 0, 0] && self.0[5] < 0x10
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Why text is not a MAC address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a MAC address; expected six hex octets like 02:00:00:00:00:01")]
pub struct ParseMacError(String);

impl FromStr for MacAddr {
    type Err = ParseMacError;

    /// Six octets of one or two hex digits, separated by `:` or by `-`, not by both.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseMacError(text.chars().take(64).collect());
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut octets = [0; 6];
        let mut parts = text.split(separator);
        for octet in &mut octets {
            let part = parts.next().ok_or_else(error)?;
            let hex = matches!(part.len(), 1 | 2) && part.bytes().all(|c| c.is_ascii_hexdigit());
            if !hex {
                return Err(error());
            }
            *octet = u8::from_str_radix(part, 16).map_err(|_| error())?;
        }
        match parts.next() {
            None => Ok(MacAddr(octets)),
            Some(_) => Err(error()),
        }
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        MacAddr(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let mac = MacAddr([0x02, 0, 0, 0xab, 0xcd, 0xef]);
        assert_eq!(mac.to_string(), "02:00:00:ab:cd:ef");
        assert_eq!(mac.to_string().parse(), Ok(mac));
        assert_eq!("2-0-0-AB-CD-EF".parse(), Ok(mac));
        assert_eq!(MacAddr::from_u64(mac.to_u64()), mac);
    }

    #[test]
    fn refuses_what_is_no_address() {
        for text in [
            "",
            ":",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:",
            "1:2:3:4:5:100",
            "1:2:3:4:5:+6",
            "1:2-3:4:5:6",
            "g:0:0:0:0:0",
            "1:2:3:4:5:é",
            "::::::",
            " 1:2:3:4:5:6",
        ] {
            assert!(text.parse::<MacAddr>().is_err(), "{text:?}");
        }
        let long = "z".repeat(1000).parse::<MacAddr>().unwrap_err();
        assert!(long.to_string().len() < 200);
    }

    #[test]
    fn kinds() {
        assert!(MacAddr::BROADCAST.is_multicast() && MacAddr::BROADCAST.is_broadcast());
        assert!(!MacAddr::ZERO.is_unicast());
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_unicast() && MacAddr([2, 0, 0, 0, 0, 1]).is_local());
        assert!(MacAddr([1, 0x80, 0xc2, 0, 0, 0x0e]).is_bridge_reserved());
        assert!(!MacAddr([1, 0x80, 0xc2, 0, 0, 0x10]).is_bridge_reserved());
    }
}
