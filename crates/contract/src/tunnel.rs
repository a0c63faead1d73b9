//! What stands in front of a frame between a program and a tunnel port: the descriptor.
//!
//! A tunnel port takes the outer headers off a frame and puts a descriptor in their place. The program's parser reads it and takes
//! it off. For a frame that it sends to a tunnel port, the program puts a descriptor in front, and the port makes outer headers
//! of it.
//!
//! A descriptor is [`FIELDS`], one behind the other in network byte order, and behind them the data of the Geneve options
//! that the switch has fields for ([`OptionMap`]). Example: where option 0 has 4 octets, a descriptor has [`LEN`] + 4.

/// Fields and their widths in bits, in their order.
///
/// - `map`: [`OptionMap::number`] of the map that the options are laid out by.
/// - `flags`: [`flags`].
/// - `id`: VNI, GRE key or TEID; 0 if there is none.
/// - `src`, `dst`: outer IPv4 addresses, 0 if the outer header is IPv6; `ipv6_src`, `ipv6_dst` the other way round.
/// - `tos`, `ttl`: of the outer header. Tunnel ports set them by their options and ignore them on the way out.
/// - `gbp_id`, `gbp_flags`: VXLAN's group policy.
/// - `erspan_ver` 1 or 2, `erspan_idx` (20 bits) of version 1, `erspan_dir` (1) and `erspan_hwid` (6) of version 2.
/// - `present`: a bit for each option by its index, 0 to 63: the frame has it.
pub const FIELDS: [(&str, u32); 15] = [
    ("map", 16),
    ("flags", 16),
    ("tos", 8),
    ("ttl", 8),
    ("gbp_id", 16),
    ("gbp_flags", 8),
    ("erspan_ver", 8),
    ("erspan_dir", 8),
    ("erspan_hwid", 8),
    ("erspan_idx", 32),
    ("src", 32),
    ("dst", 32),
    ("id", 64),
    ("ipv6_src", 128),
    ("ipv6_dst", 128),
];

/// What `std.in_port` is for packets of a tunnel port, exclusive-or its number, which is below 65,535: programs tell by this that
/// a descriptor comes first. No other port has a number with these upper 16 bits.
pub const IN_PORT: u32 = 0x8000_0000;

/// The last field, behind [`FIELDS`].
pub const PRESENT: (&str, u32) = ("present", 64);

/// Octets of a descriptor without options.
pub const LEN: usize = 72;

/// Options that a map has fields for, at most.
pub const OPTIONS: usize = 64;
/// Octets that the options of a map have together, at most (as in Open vSwitch).
pub const OPTIONS_LEN: usize = 256;
/// Octets of an option that has a field, at most: a field has 128 bits or fewer.
pub const OPTION_LEN_MAX: u8 = 16;

/// Bits of the field `flags`.
pub mod flags {
    /// Geneve's O flag: a control packet (`tun_flags=oam`).
    pub const OAM: u16 = 1;
}

/// A Geneve option that has a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mapped {
    /// Which field: `tun_metadata0` to `tun_metadata63`.
    pub index: u8,
    /// Option class.
    pub class: u16,
    /// Option type.
    pub kind: u8,
    /// Octets of data: a multiple of 4.
    pub len: u8,
    /// Where its data begins behind the descriptor's fields.
    pub at: u16,
}

/// Which Geneve options have fields, and where each is in a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OptionMap {
    /// Tells this map from those before it. The empty map has 0.
    pub number: u16,
    options: Vec<Mapped>,
}

impl OptionMap {
    /// Options by index, class, type and length; they lie in this order. None if an index, or a class with its type, is there
    /// twice, or something is out of bounds.
    pub fn new(number: u16, options: &[(u8, u16, u8, u8)]) -> Option<OptionMap> {
        let mut map = OptionMap { number, options: Vec::new() };
        for &(index, class, kind, len) in options {
            let fits = usize::from(index) < OPTIONS && len <= OPTION_LEN_MAX && len % 4 == 0;
            let at = map.len();
            let room = len > 0 && at + usize::from(len) <= OPTIONS_LEN;
            if !fits || !room || map.by_index(index).is_some() || map.find(class, kind).is_some() {
                return None;
            }
            map.options.push(Mapped { index, class, kind, len, at: at as u16 });
        }
        Some(map)
    }

    /// All options, as they lie in a descriptor.
    pub fn options(&self) -> &[Mapped] {
        &self.options
    }

    /// The option of a field.
    pub fn by_index(&self, index: u8) -> Option<&Mapped> {
        self.options.iter().find(|option| option.index == index)
    }

    /// The option of a class and type.
    pub fn find(&self, class: u16, kind: u8) -> Option<&Mapped> {
        self.options.iter().find(|option| (option.class, option.kind) == (class, kind))
    }

    /// Octets of all options' data.
    pub fn len(&self) -> usize {
        self.options.iter().map(|option| usize::from(option.len)).sum()
    }

    /// No option has a field.
    pub fn is_empty(&self) -> bool {
        self.options.is_empty()
    }

    /// Octets of a descriptor.
    pub fn descriptor_len(&self) -> usize {
        LEN + self.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_has_the_length_of_its_fields() {
        let bits: u32 = FIELDS.iter().chain([&PRESENT]).map(|(_, width)| width).sum();
        assert_eq!(bits as usize, 8 * LEN);
        let map = OptionMap::new(1, &[(0, 0x102, 0x80, 4), (7, 0xffff, 1, 16)]).unwrap();
        assert_eq!(map.descriptor_len(), LEN + 20);
        assert_eq!(map.by_index(7).map(|option| option.at), Some(4));
        for refused in [(64, 1, 1, 4), (1, 1, 1, 0), (1, 1, 1, 6), (1, 1, 1, 20), (0, 1, 1, 4)] {
            assert_eq!(OptionMap::new(1, &[(0, 2, 1, 4), refused]), None, "{refused:?}");
        }
        assert_eq!(OptionMap::new(1, &[(0, 2, 1, 4), (1, 2, 1, 4)]), None);
        let full: Vec<_> = (0..17).map(|i| (i, 1, i, 16)).collect();
        assert!(OptionMap::new(1, &full[..16]).is_some() && OptionMap::new(1, &full).is_none());
    }
}
