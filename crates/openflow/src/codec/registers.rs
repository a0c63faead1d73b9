//! Actions on several registers at once: 1.5's packet registers (1.5.1 §7.2.3.10, `xreg`), which are
//! pairs, and Nicira's `xxreg`s, which are fours.
//!
//! An action that sets or copies such a register becomes one for each 32-bit register that it touches, and is
//! written back so. Pieces of a copy go in an order by which no piece overwrites what another one still has to
//! read, as if all bits moved at once.

use super::oxm::registers;
use super::reader::{Reader, Result};
use super::{NICIRA, nicira};
use crate::action::{Action, CopyField, SetField, Subfield};
use crate::error::ErrorCode;
use crate::field::{FieldId, OxmHeader};
use crate::version::Version;

/// Bits of a register.
const WIDTH: u16 = 32;
/// How many there are.
const COUNT: u16 = 16;

/// A run of bits within one field, and how many they are.
pub(super) type Run = (Subfield, u16);

/// The runs, lowest first, of some bits of the registers that a header names; none if it names no more than one.
pub(super) fn runs(header: OxmHeader, offset: u16, bits: u16) -> Option<Vec<Run>> {
    let (first, count) = registers(header)?;
    let (first, count) = (first as u16, count as u16);
    let end = offset.saturating_add(bits).min(WIDTH * count);
    let mut list = Vec::new();
    let mut at = offset;
    while at < end {
        let within = at % WIDTH;
        let register = first + count - 1 - at / WIDTH;
        let field = FieldId::ALL[usize::from(FieldId::Reg0 as u16 + register)];
        let length = (WIDTH - within).min(end - at);
        list.push((Subfield { field, offset: within }, length));
        at += length;
    }
    Some(list)
}

/// Whether so many bits from there on lie in the registers that a header names.
fn check(r: &Reader<'_>, header: OxmHeader, offset: u16, bits: u16) -> Result<()> {
    let Some((_, count)) = registers(header) else { return Ok(()) };
    if header.has_mask() || bits == 0 || u32::from(offset) + u32::from(bits) > 32 * count as u32 {
        let right = "1 or more bits, within the registers";
        return Err(r.bad_value(ErrorCode::BacBadArgument, "bits of registers", bits, right));
    }
    Ok(())
}

/// What an action on several registers is, one by one; none if it is about no more than one.
pub(super) fn decode(version: Version, mut r: Reader<'_>) -> Result<Option<Vec<Action>>> {
    let number = r.u16()?;
    r.skip(2)?;
    match number {
        25 if version >= Version::V13 => decode_set(version, r, version >= Version::V15),
        28 if version >= Version::V15 => {
            let bits = r.u16()?;
            let offsets = (r.u16()?, r.u16()?);
            r.skip(2)?;
            let headers = (OxmHeader(r.u32()?), OxmHeader(r.u32()?));
            copy(&mut r, bits, offsets, headers, |r, header, offset| {
                let known = OxmHeader(header).field();
                match known.filter(|field| field.info().since <= version) {
                    Some(field) => Ok(Subfield { field, offset }),
                    None => Err(r.bad_value(
                        ErrorCode::BacBadSetType,
                        "copy-field's OXM header",
                        header,
                        "a field that is known here",
                    )),
                }
            })
        }
        0xffff if r.u32()? == NICIRA => match r.u16()? {
            6 => {
                let bits = r.u16()?;
                let offsets = (r.u16()?, r.u16()?);
                let headers = (OxmHeader(r.u32()?), OxmHeader(r.u32()?));
                copy(&mut r, bits, offsets, headers, |r, header, offset| {
                    nicira::bits_of(r, header, offset, bits)
                })
            }
            7 => decode_load(r),
            33 => {
                r.skip(6)?;
                decode_set(version, r, true)
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// A set-field: the header, the value, and the mask if it may have one.
fn decode_set(version: Version, mut r: Reader<'_>, may_mask: bool) -> Result<Option<Vec<Action>>> {
    let header = OxmHeader(r.u32()?);
    let Some((_, count)) = registers(header) else { return Ok(None) };
    if header.has_mask() && !may_mask {
        let (code, right) = (ErrorCode::BacBadSetType, "no mask before 1.5");
        return Err(r.bad_value(code, "set-field's OXM header", header.0, right));
    }
    let bytes = 4 * count;
    if header.length() != bytes << u32::from(header.has_mask()) {
        let right = "the registers' length, doubled with a mask";
        return Err(r.bad_value(ErrorCode::BacBadSetLen, "set-field's header", header.0, right));
    }
    let value = r.number(bytes)?;
    let all = u128::MAX >> (128 - 8 * bytes);
    let mask = if header.has_mask() { r.number(bytes)? } else { all };
    if value & !mask != 0 {
        let code = match version {
            Version::V15 => ErrorCode::BacBadSetMask,
            _ => ErrorCode::BacBadSetArgument,
        };
        return Err(r.bad_value(code, "set-field's value", value, "a value within its mask"));
    }
    let whole = runs(header, 0, 8 * bytes as u16).unwrap_or_default();
    Ok(Some(sets(&whole, value, mask)))
}

fn decode_load(mut r: Reader<'_>) -> Result<Option<Vec<Action>>> {
    let (offset, bits) = nicira::place(&mut r)?;
    let header = OxmHeader(r.u32()?);
    let Some(runs) = runs(header, offset, bits) else { return Ok(None) };
    check(&r, header, offset, bits)?;
    let value = u128::from(r.u64()?);
    if bits < 64 && value >> bits != 0 {
        let right = "a value of so many bits";
        return Err(r.bad_value(ErrorCode::BacBadArgument, "load's value", value, right));
    }
    Ok(Some(sets(&runs, value, u128::MAX)))
}

/// Writes the bits of `value` that `mask` names to runs of bits.
fn sets(runs: &[Run], value: u128, mask: u128) -> Vec<Action> {
    let mut at = 0;
    let mut list = Vec::with_capacity(runs.len());
    for (to, length) in runs {
        let run = u128::MAX >> (128 - u32::from(*length));
        let mask = (mask >> at & run) << to.offset;
        let value = (value >> at & run) << to.offset;
        if mask != 0 {
            let mask = (mask != to.field.all_bits()).then_some(mask);
            list.push(Action::SetField(SetField { field: to.field, value, mask }));
        }
        at += u32::from(*length);
    }
    list
}

/// Where a register's bit lies among all of them, if it is one's.
fn address(of: Subfield) -> Option<u16> {
    let register = (of.field as u16).checked_sub(FieldId::Reg0 as u16).filter(|n| *n < COUNT)?;
    Some((COUNT - 1 - register) * WIDTH + of.offset)
}

/// A copy of bits, of which one side names several registers at least; `one` reads the other side.
fn copy(
    r: &mut Reader<'_>,
    bits: u16,
    offsets: (u16, u16),
    headers: (OxmHeader, OxmHeader),
    one: impl Fn(&mut Reader<'_>, u32, u16) -> Result<Subfield>,
) -> Result<Option<Vec<Action>>> {
    let from = runs(headers.0, offsets.0, bits);
    let to = runs(headers.1, offsets.1, bits);
    if from.is_none() && to.is_none() {
        return Ok(None);
    }
    check(r, headers.0, offsets.0, bits)?;
    check(r, headers.1, offsets.1, bits)?;
    let mut side = |runs: Option<Vec<Run>>, header: OxmHeader, offset| {
        let Some(runs) = runs else {
            let of = one(r, header.0, offset)?;
            nicira::within(r, of.field, of.offset, bits)?;
            return Ok(vec![(of, bits)]);
        };
        Ok(runs)
    };
    let from = side(from, headers.0, offsets.0)?;
    let to = side(to, headers.1, offsets.1)?;
    let is_register = |runs: &[Run]| runs.first().and_then(|(of, _)| address(*of));
    let downwards = is_register(&to).zip(is_register(&from)).is_some_and(|(to, from)| to > from);
    let mut list = cuts(from, to);
    if downwards {
        list.reverse();
    }
    Ok(Some(list))
}

/// Copies between runs of equal length in all, lowest first, cut where either side is.
fn cuts(from: Vec<Run>, to: Vec<Run>) -> Vec<Action> {
    let mut list = Vec::new();
    let (mut from, mut to) = (from.into_iter().peekable(), to.into_iter().peekable());
    let take = |run: &mut Run, bits| {
        run.0.offset += bits;
        run.1 -= bits;
    };
    while let (Some(a), Some(b)) = (from.peek_mut(), to.peek_mut()) {
        let bits = a.1.min(b.1);
        list.push(Action::CopyField(CopyField { bits, from: a.0, to: b.0 }));
        take(a, bits);
        take(b, bits);
        let (a_done, b_done) = (a.1 == 0, b.1 == 0);
        if a_done {
            from.next();
        }
        if b_done {
            to.next();
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::action::decode_actions;
    use crate::testing::Rng;

    /// The header of `xreg` n or, wide, `xxreg` n.
    fn header(wide: bool, n: u32, mask: bool) -> u32 {
        let (class, number, bytes) = if wide { (0x0001, 111 + n, 16) } else { (0x8001, n, 8) };
        class << 16 | number << 9 | u32::from(mask) << 8 | bytes << u32::from(mask)
    }

    fn list(version: Version, body: &[u8]) -> std::result::Result<Vec<Action>, ErrorCode> {
        let mut r = Reader::new(body, 0, "actions", ErrorCode::BacBadLen);
        decode_actions(version, &mut r).map_err(|e| e.code)
    }

    fn nicira(subtype: u16, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0xff, 0xff, 0, 0, 0, 0, 0x23, 0x20];
        bytes.extend(subtype.to_be_bytes());
        bytes.extend(rest);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        bytes
    }

    fn load(header: u32, offset: u16, bits: u16, value: u64) -> Vec<u8> {
        let mut rest = (offset << 6 | (bits - 1)).to_be_bytes().to_vec();
        rest.extend(header.to_be_bytes());
        rest.extend(value.to_be_bytes());
        nicira(7, &rest)
    }

    fn copied(bits: u16, from: (u32, u16), to: (u32, u16)) -> Vec<u8> {
        let mut rest: Vec<u8> = [bits, from.1, to.1].iter().flat_map(|n| n.to_be_bytes()).collect();
        rest.extend([from.0, to.0].iter().flat_map(|n| n.to_be_bytes()));
        nicira(6, &rest)
    }

    /// The registers as one number of 512 bits, by words, lowest first: word 0 is reg15.
    type File = [u32; 16];

    fn execute(actions: &[Action], file: &mut File) {
        let word = |field: FieldId| 15 - (field as usize - FieldId::Reg0 as usize);
        for action in actions {
            match action {
                Action::SetField(set) => {
                    let mask = set.mask.unwrap_or(u32::MAX.into()) as u32;
                    let word = &mut file[word(set.field)];
                    *word = *word & !mask | set.value as u32;
                }
                Action::CopyField(copy) => {
                    assert!(copy.bits + copy.from.offset <= 32 && copy.bits + copy.to.offset <= 32);
                    let mask = (u64::MAX >> (64 - copy.bits)) as u32;
                    let value = file[word(copy.from.field)] >> copy.from.offset & mask;
                    let word = &mut file[word(copy.to.field)];
                    *word = *word & !(mask << copy.to.offset) | value << copy.to.offset;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn bit(file: &File, at: u16) -> bool {
        file[usize::from(at / 32)] >> (at % 32) & 1 == 1
    }

    /// Where the lowest bit of a register lies.
    fn base(wide: bool, n: u32) -> u16 {
        let count = if wide { 4 } else { 2 };
        (16 - (n as u16 + 1) * count) * 32
    }

    #[test]
    fn loads_and_moves_do_what_a_wide_register_would() {
        let mut rng = Rng::new(9);
        for _ in 0..20_000 {
            let mut file: File = std::array::from_fn(|_| rng.u32());
            let before = file;
            let mut side = |bits: Option<u16>| {
                let wide = rng.one_in(2);
                let n = rng.u32() % if wide { 4 } else { 8 };
                let width: u16 = if wide { 128 } else { 64 };
                let bits = bits.unwrap_or(1 + rng.u16() % width).min(64).min(width);
                let offset = rng.u16() % (width - bits + 1);
                (header(wide, n, false), offset, bits, base(wide, n) + offset)
            };
            let (to, to_offset, bits, to_at) = side(None);
            let (from, from_offset, _, from_at) = side(Some(bits));
            if bits.is_multiple_of(2) {
                let value = rng.u64() & (u64::MAX >> (64 - bits));
                let actions = list(Version::V13, &load(to, to_offset, bits, value)).unwrap();
                execute(&actions, &mut file);
                for at in 0..512 {
                    let written = at >= to_at && at < to_at + bits;
                    let is =
                        if written { value >> (at - to_at) & 1 == 1 } else { bit(&before, at) };
                    assert_eq!(bit(&file, at), is, "{to:#x}[{to_offset}] {bits} {at}");
                }
            } else {
                let bytes = copied(bits, (from, from_offset), (to, to_offset));
                execute(&list(Version::V13, &bytes).unwrap(), &mut file);
                for at in 0..512 {
                    let written = at >= to_at && at < to_at + bits;
                    let source = if written { from_at + (at - to_at) } else { at };
                    assert_eq!(bit(&file, at), bit(&before, source), "{bits} {at}");
                }
            }
        }
    }

    #[test]
    fn fields_are_copied_into_wide_registers_and_out_of_them() {
        // Into xreg1[8..56]: reg3's 24 high bits, reg2's 24 low ones.
        let mac = OxmHeader::of(FieldId::EthSrc, false).0;
        let nxm_mac = 0x0000_0406;
        let bytes = copied(48, (nxm_mac, 0), (header(false, 1, false), 8));
        let at = |field, offset| Subfield { field, offset };
        let copy = |bits, from, to| Action::CopyField(CopyField { bits, from, to });
        assert_eq!(
            list(Version::V10, &bytes).unwrap(),
            [
                copy(24, at(FieldId::EthSrc, 0), at(FieldId::Reg3, 8)),
                copy(24, at(FieldId::EthSrc, 24), at(FieldId::Reg2, 0)),
            ]
        );
        // The same by 1.5's own copy-field, the other way round.
        let mut bytes = vec![0, 28, 0, 24, 0, 48, 0, 8, 0, 0, 0, 0];
        bytes.extend(header(false, 1, false).to_be_bytes());
        bytes.extend(mac.to_be_bytes());
        bytes.extend([0; 4]);
        assert_eq!(
            list(Version::V15, &bytes).unwrap(),
            [
                copy(24, at(FieldId::Reg3, 8), at(FieldId::EthSrc, 0)),
                copy(24, at(FieldId::Reg2, 0), at(FieldId::EthSrc, 24)),
            ]
        );
    }

    #[test]
    fn set_field_sets_them_all() {
        let mut bytes = vec![0, 25, 0, 16];
        bytes.extend(header(false, 7, false).to_be_bytes());
        bytes.extend(0x0102_0304_0506_0708u64.to_be_bytes());
        let set = |field, value| Action::set_field(field, value);
        assert_eq!(
            list(Version::V13, &bytes).unwrap(),
            [set(FieldId::Reg15, 0x0506_0708), set(FieldId::Reg14, 0x0102_0304)]
        );
        // Under a mask, by Nicira's action: bits that no mask names are left alone.
        let mut rest = vec![0; 6];
        rest.extend(header(true, 0, true).to_be_bytes());
        rest.extend((1u128 << 96).to_be_bytes());
        rest.extend((3u128 << 96).to_be_bytes());
        let one = SetField { field: FieldId::Reg0, value: 1, mask: Some(3) };
        assert_eq!(list(Version::V10, &nicira(33, &rest)).unwrap(), [Action::SetField(one)]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let bad = Err(ErrorCode::BacBadArgument);
        assert_eq!(list(Version::V13, &load(header(false, 0, false), 33, 32, 1)), bad);
        assert_eq!(list(Version::V13, &load(header(true, 0, false), 0, 8, 256)), bad);
        let (narrow, wide) = (header(false, 0, false), header(true, 3, false));
        assert_eq!(list(Version::V13, &copied(65, (wide, 0), (narrow, 0))), bad);
        assert_eq!(list(Version::V13, &copied(0, (wide, 0), (narrow, 0))), bad);
        assert_eq!(list(Version::V13, &copied(u16::MAX, (wide, u16::MAX), (narrow, 9))), bad);
        // A mask in 1.3's set-field.
        let mut bytes = vec![0, 25, 0, 24];
        bytes.extend(header(false, 0, true).to_be_bytes());
        bytes.extend([0; 16]);
        assert_eq!(list(Version::V13, &bytes), Err(ErrorCode::BacBadSetType));
    }
}
