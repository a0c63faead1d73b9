//! Octets to numbers and names, and back: least significant octet first, as all of the group's formats have it.

/// Octets of a name, at most.
pub(crate) const NAME_MAX: usize = 64;

/// Whether this may be a member's or a group's name: it is part of the engine's subjects and keys.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// The octets at the front.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*front)
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes).map(u32::from_le_bytes)
}

/// So many octets, a length of 1 before them.
pub(crate) fn take_short<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let [len] = take(bytes)?;
    let (front, rest) = bytes.split_at_checked(len.into())?;
    *bytes = rest;
    Some(front)
}

pub(crate) fn take_name(bytes: &mut &[u8]) -> Option<String> {
    let name = std::str::from_utf8(take_short(bytes)?).ok()?;
    is_name(name).then(|| name.to_owned())
}

/// A name, or none.
pub(crate) fn take_label(bytes: &mut &[u8]) -> Option<String> {
    let name = std::str::from_utf8(take_short(bytes)?).ok()?;
    (name.is_empty() || is_name(name)).then(|| name.to_owned())
}

pub(crate) fn put_short(out: &mut Vec<u8>, octets: &[u8]) {
    let octets = &octets[..octets.len().min(255)];
    out.push(octets.len() as u8);
    out.extend(octets);
}

/// The octets before a CRC-32C that is right.
pub(crate) fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let (front, sum) = bytes.split_last_chunk()?;
    (u32::from_le_bytes(*sum) == wire::crc32c::crc32c(front)).then_some(front)
}

pub(crate) fn seal(out: &mut Vec<u8>) {
    let sum = wire::crc32c::crc32c(out);
    out.extend(sum.to_le_bytes());
}
