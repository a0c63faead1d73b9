//! Fields of a descriptor ([`contract::tunnel::FIELDS`]) as values, written and read at constant places.
//!
//! Cost: loads and stores.

use contract::tunnel::{FIELDS, LEN, PRESENT};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a field begins, in octets. A name that is none fails to compile.
const fn at(name: &str) -> usize {
    let (mut i, mut bits) = (0, 0);
    while i < FIELDS.len() {
        if same(FIELDS[i].0, name) {
            return bits as usize / 8;
        }
        bits += FIELDS[i].1;
        i += 1;
    }
    assert!(same(PRESENT.0, name), "no such field");
    bits as usize / 8
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

const MAP: usize = at("map");
const FLAGS: usize = at("flags");
const TOS: usize = at("tos");
const TTL: usize = at("ttl");
const GBP_ID: usize = at("gbp_id");
const GBP_FLAGS: usize = at("gbp_flags");
const ERSPAN_VER: usize = at("erspan_ver");
const ERSPAN_DIR: usize = at("erspan_dir");
const ERSPAN_HWID: usize = at("erspan_hwid");
const ERSPAN_IDX: usize = at("erspan_idx");
const SRC: usize = at("src");
const DST: usize = at("dst");
const ID: usize = at("id");
const IPV6_SRC: usize = at("ipv6_src");
const IPV6_DST: usize = at("ipv6_dst");
const PRESENT_AT: usize = at("present");

/// The fields, without options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Number of the map that options are laid out by.
    pub map: u16,
    /// [`contract::tunnel::flags`].
    pub flags: u16,
    /// Outer TOS or traffic class.
    pub tos: u8,
    /// Outer TTL or hop limit.
    pub ttl: u8,
    /// Group policy of VXLAN.
    pub gbp_id: u16,
    /// Its flags.
    pub gbp_flags: u8,
    /// 1 or 2; 0 if there is no ERSPAN header.
    pub erspan_ver: u8,
    /// Direction, of version 2.
    pub erspan_dir: u8,
    /// Engine, of version 2.
    pub erspan_hwid: u8,
    /// Index, of version 1.
    pub erspan_idx: u32,
    /// VNI, key or session.
    pub id: u64,
    /// Outer source; None if it is all zero.
    pub src: Option<IpAddr>,
    /// Outer destination; None if it is all zero.
    pub dst: Option<IpAddr>,
    /// A bit for each option that is there.
    pub present: u64,
}

#[inline]
fn take<const N: usize>(fields: &[u8; LEN], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&fields[at..at + N]);
    out
}

impl Fields {
    /// Reads those in front of a frame; None if it is shorter.
    pub fn read(bytes: &[u8]) -> Option<Fields> {
        let f = bytes.first_chunk::<LEN>()?;
        Some(Fields {
            map: u16::from_be_bytes(take(f, MAP)),
            flags: u16::from_be_bytes(take(f, FLAGS)),
            tos: f[TOS],
            ttl: f[TTL],
            gbp_id: u16::from_be_bytes(take(f, GBP_ID)),
            gbp_flags: f[GBP_FLAGS],
            erspan_ver: f[ERSPAN_VER],
            erspan_dir: f[ERSPAN_DIR],
            erspan_hwid: f[ERSPAN_HWID],
            erspan_idx: u32::from_be_bytes(take(f, ERSPAN_IDX)),
            id: u64::from_be_bytes(take(f, ID)),
            src: address(f, SRC, IPV6_SRC),
            dst: address(f, DST, IPV6_DST),
            present: u64::from_be_bytes(take(f, PRESENT_AT)),
        })
    }

    /// Writes all of them.
    pub fn write(&self, f: &mut [u8; LEN]) {
        f.fill(0);
        f[MAP..MAP + 2].copy_from_slice(&self.map.to_be_bytes());
        f[FLAGS..FLAGS + 2].copy_from_slice(&self.flags.to_be_bytes());
        f[TOS] = self.tos;
        f[TTL] = self.ttl;
        f[GBP_ID..GBP_ID + 2].copy_from_slice(&self.gbp_id.to_be_bytes());
        f[GBP_FLAGS] = self.gbp_flags;
        f[ERSPAN_VER] = self.erspan_ver;
        f[ERSPAN_DIR] = self.erspan_dir;
        f[ERSPAN_HWID] = self.erspan_hwid;
        f[ERSPAN_IDX..ERSPAN_IDX + 4].copy_from_slice(&self.erspan_idx.to_be_bytes());
        f[ID..ID + 8].copy_from_slice(&self.id.to_be_bytes());
        put_address(f, self.src, SRC, IPV6_SRC);
        put_address(f, self.dst, DST, IPV6_DST);
        f[PRESENT_AT..PRESENT_AT + 8].copy_from_slice(&self.present.to_be_bytes());
    }
}

/// What a packet brings that goes to a place that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    /// As [`Fields::map`].
    pub map: u16,
    /// As [`Fields::flags`].
    pub flags: u16,
    /// As [`Fields::id`].
    pub id: u64,
    /// As [`Fields::present`].
    pub present: u64,
}

impl Brief {
    /// Reads it from a descriptor; None if that is shorter.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Brief> {
        let f = bytes.first_chunk::<LEN>()?;
        Some(Brief {
            map: u16::from_be_bytes(take(f, MAP)),
            flags: u16::from_be_bytes(take(f, FLAGS)),
            id: u64::from_be_bytes(take(f, ID)),
            present: u64::from_be_bytes(take(f, PRESENT_AT)),
        })
    }
}

/// The ends that a descriptor names: the outer source and destination.
#[inline]
pub fn ends(bytes: &[u8]) -> Option<(Option<IpAddr>, Option<IpAddr>)> {
    let f = bytes.first_chunk::<LEN>()?;
    Some((address(f, SRC, IPV6_SRC), address(f, DST, IPV6_DST)))
}

#[inline]
fn address(f: &[u8; LEN], v4: usize, v6: usize) -> Option<IpAddr> {
    let four = Ipv4Addr::from(take::<4>(f, v4));
    if !four.is_unspecified() {
        return Some(four.into());
    }
    let six = Ipv6Addr::from(take::<16>(f, v6));
    (!six.is_unspecified()).then(|| six.into())
}

fn put_address(f: &mut [u8; LEN], address: Option<IpAddr>, v4: usize, v6: usize) {
    match address {
        Some(IpAddr::V4(address)) => f[v4..v4 + 4].copy_from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => f[v6..v6 + 16].copy_from_slice(&address.octets()),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for six in [false, true] {
            let address = |n: u8| match six {
                true => IpAddr::from([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]),
                false => IpAddr::from([10, 0, 0, n]),
            };
            let fields = Fields {
                map: 0x0102,
                flags: 1,
                tos: 3,
                ttl: 4,
                gbp_id: 0x0506,
                gbp_flags: 7,
                erspan_ver: 2,
                erspan_dir: 1,
                erspan_hwid: 63,
                erspan_idx: 0xf_ffff,
                id: 0x0102_0304_0506_0708,
                src: Some(address(1)),
                dst: Some(address(2)),
                present: 1 << 63,
            };
            let mut bytes = [0xff; LEN];
            fields.write(&mut bytes);
            assert_eq!(Fields::read(&bytes), Some(fields));
            assert_eq!(Fields::read(&bytes[..LEN - 1]), None);
        }
        // The last field ends with the descriptor.
        assert_eq!(PRESENT_AT + 8, LEN);
    }
}
