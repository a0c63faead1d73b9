//! Actions on several registers at once: 1.5's packet registers (1.5.1 §7.2.3.10, `xreg`), which are
//! pairs, and Nicira's `xxreg`s, which are fours.
//!
//! An action that sets or copies such a register becomes one for each 32-bit register that it touches, and is
//! written back so. Pieces of a copy go in an order by which no piece overwrites what another one still has to
//! read, as if all bits moved at once. Actions that read or write all bits at one time (`push`, `pop`, `learn`,
//! `output`) keep the whole field.
//!
//! Fields of NXM that hold several become the one that is meant where it is one: parts of the VLAN tag but for
//! the bit that says that there is a tag, and the code point in its byte.

use crate::action::{Action, CopyField, SetField, Subfield};
use crate::field::{FieldId, VLAN_PRESENT};

/// Bits of a register.
const WIDTH: u16 = 32;
/// How many there are.
const COUNT: u16 = 16;
/// Where the priority begins in a VLAN tag.
const PCP: u16 = 13;

/// A run of bits within one field, and how many they are.
type Run = (Subfield, u16);

/// The runs, lowest first, of some bits of a field.
fn runs(of: Subfield, bits: u16) -> Vec<Run> {
    let Some((first, count)) = of.field.registers() else { return vec![(of, bits)] };
    let end = of.offset.saturating_add(bits).min(WIDTH * count as u16);
    let mut list = Vec::new();
    let mut at = of.offset;
    while at < end {
        let within = at % WIDTH;
        let field = FieldId::register(first + count - 1 - usize::from(at / WIDTH));
        let length = (WIDTH - within).min(end - at);
        list.push((Subfield { field, offset: within }, length));
        at += length;
    }
    list
}

impl Subfield {
    /// So many bits from here on, by the field that all of them are in, if this one is several fields.
    #[must_use]
    pub(crate) fn narrowed(self, count: u16) -> Subfield {
        let Subfield { field, offset } = self;
        let last = offset + count.max(1) - 1;
        match field {
            FieldId::VlanTci if last < 12 => Subfield { field: FieldId::VlanVid, offset },
            FieldId::VlanTci if offset >= PCP => {
                Subfield { field: FieldId::VlanPcp, offset: offset - PCP }
            }
            FieldId::IpTos if offset >= 2 => {
                Subfield { field: FieldId::IpDscp, offset: offset - 2 }
            }
            _ => match (field.registers(), runs(self, count).as_slice()) {
                (Some(_), [(of, _)]) => *of,
                _ => self,
            },
        }
    }
}

impl SetField {
    /// The same of the field that all bits are in, if this one is several fields.
    #[must_use]
    pub(crate) fn narrowed(self) -> SetField {
        let SetField { field, value, mask } = self;
        let all = mask.unwrap_or(field.all_bits());
        let of = |field: FieldId, value, mask: u128| {
            let mask = (mask != field.all_bits()).then_some(mask);
            SetField { field, value, mask }
        };
        match field {
            FieldId::VlanTci if all & !(VLAN_PRESENT - 1) == 0 => of(FieldId::VlanVid, value, all),
            FieldId::VlanTci if all & ((VLAN_PRESENT << 1) - 1) == 0 => {
                of(FieldId::VlanPcp, value >> PCP, all >> PCP)
            }
            // Its two low bits are not written.
            FieldId::IpTos => of(FieldId::IpDscp, value >> 2, all >> 2),
            _ => self,
        }
    }
}

impl Action {
    /// What the action is, one by one, if it sets or copies several registers; else itself.
    pub fn spread(self, mut each: impl FnMut(Action)) {
        match self {
            Action::SetField(SetField { field, value, mask }) if field.registers().is_some() => {
                let whole = runs(Subfield { field, offset: 0 }, field.info().bits as u16);
                sets(&whole, value, mask.unwrap_or(u128::MAX)).into_iter().for_each(each);
            }
            Action::CopyField(CopyField { bits, from, to })
                if from.field.registers().is_some() || to.field.registers().is_some() =>
            {
                copy(bits, from, to).into_iter().for_each(each);
            }
            other => each(other),
        }
    }
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

/// A copy of bits, of which one side is several registers at least.
fn copy(bits: u16, from: Subfield, to: Subfield) -> Vec<Action> {
    let (from, to) = (runs(from, bits), runs(to, bits));
    let is_register = |runs: &[Run]| runs.first().and_then(|(of, _)| address(*of));
    let downwards = is_register(&to).zip(is_register(&from)).is_some_and(|(to, from)| to > from);
    let mut list = cuts(from, to);
    if downwards {
        list.reverse();
    }
    list
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
    use crate::codec::reader::Reader;
    use crate::error::ErrorCode;
    use crate::field::OxmHeader;
    use crate::testing::Rng;
    use crate::version::Version;

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
