//! Addresses of stations, and the number of a bridge's own port.

use std::fmt;

/// The number of a bridge's own port, as OpenFlow 1.0 and the database write it.
pub const LOCAL: u32 = 65534;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::str::FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Mac, String> {
        let wrong = || format!("{text}: not an Ethernet address");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut mac {
            let part = parts.next().filter(|part| matches!(part.len(), 1 | 2)).ok_or_else(wrong)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        parts.next().is_none().then_some(Mac(mac)).ok_or_else(wrong)
    }
}

impl Mac {
    /// It names one station, not a group, and is not zero.
    pub fn is_station(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}
