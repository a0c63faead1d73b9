//! Nicira's `ct`, with `nat`: hands the packet to the connection tracker.

use super::row::{Decoded, Decoding, FieldUse, Parsed, Parsing, Printing, Row, foreign, head};
use crate::action::{Action, CopyField, Subfield};
use crate::codec::nxm::{bits_of, header_of_bits};
use crate::codec::oxm;
use crate::codec::reader::Reader;
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::extension::{Bits, Conntrack, Nat, NatRange, NatSide, Zone};
use crate::field::FieldId;
use crate::ids::{NICIRA, TableId};
use crate::syntax::error::{Fault, nearest};
use crate::syntax::matches::text;
use crate::syntax::piece::{Word, Words};
use crate::syntax::subfield::{bits, print_subfield};
use crate::testing::parts;
use crate::testing::rng::Rng;
use crate::version::Version;
use std::fmt::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) static CT: Row = Row {
    name: "ct",
    words: &[("ct", Version::V10)],
    nicira: &[35],
    parse: Some(parse),
    print: Some(|out, action, printing| {
        let Action::Ct(ct) = action else { foreign(action) };
        print(out, ct, printing)
    }),
    decode: Some(|subtype, r, of| {
        if of.depth > Action::CLONE_DEPTH_MAX {
            let right = "none inside of another";
            return Err(r.bad_value(ErrorCode::BacBadArgument, "ct", subtype, right));
        }
        Ok(Action::Ct(Box::new(decode(r, of)?)))
    }),
    encode: Some(|buf, action, list| {
        let Action::Ct(ct) = action else { foreign(action) };
        put(buf, ct);
        list(buf, &ct.exec)
    }),
    fields: |action, see| {
        let Action::Ct(ct) = action else { foreign(action) };
        if let Zone::Field(bits) = ct.zone {
            see(FieldUse::Reads, bits.of.field);
        }
    },
    arbitrary: Some(|rng, _| Action::Ct(Box::new(arbitrary(rng)))),
    ..Row::EXTENSION
};

/// `NX_CT_F_COMMIT`, `NX_CT_F_FORCE`.
const CT_FLAGS: (u16, u16) = (1, 2);
/// `NX_CT_RECIRC_NONE`.
const CT_NO_TABLE: u8 = 0xff;
/// `NX_NAT_F_SRC`, `NX_NAT_F_DST`.
const NAT_SIDES: (u16, u16) = (1, 2);

fn decode(r: &mut Reader<'_>, of: &Decoding) -> Decoded<Conntrack> {
    let flags = r.u16()?;
    let (header, zone) = (r.u32()?, r.u16()?);
    let table = r.u8()?;
    r.skip(3)?;
    let alg = r.u16()?;
    let bad = |r: &Reader<'_>, what, got: u32, right| {
        Err(r.bad_value(ErrorCode::BacBadArgument, what, got, right))
    };
    let (commit, force) = (flags & CT_FLAGS.0 != 0, flags & CT_FLAGS.1 != 0);
    if flags & !(CT_FLAGS.0 | CT_FLAGS.1) != 0 || force && !commit {
        return bad(r, "ct's flags", flags.into(), "commit (1), force (2) with it, or 0");
    }
    if alg != 0 && !Conntrack::ALGS.iter().any(|(_, number)| *number == alg) {
        return bad(r, "ct's alg", alg.into(), "ftp (21), tftp (69) or 0");
    }
    let zone = match header {
        0 => Zone::Number(zone),
        header => {
            let count = (zone & 0x3f) + 1;
            if count > 16 {
                return bad(r, "bits of ct's zone", count.into(), "at most 16");
            }
            Zone::Field(Bits { of: bits_of(r, oxm::on_the_wire(header), zone >> 6, count)?, count })
        }
    };
    let mut nat = None;
    let mut exec = Vec::new();
    while !r.is_empty() {
        let is_nat = r.left() >= 10
            && (r.peek_u16(0)?, r.peek_u16(4)?, r.peek_u16(6)?, r.peek_u16(8)?)
                == (0xffff, 0, NICIRA as u16, 36);
        if is_nat && nat.is_none() {
            nat = Some(decode_nat(r)?);
            continue;
        }
        let length = usize::from(r.peek_u16(2)?);
        let mut one = r.sub(length.min(r.left()), "action of ct", ErrorCode::BacBadLen)?;
        // So deep, neither clone nor ct is read.
        let depth = Action::CLONE_DEPTH_MAX + 1;
        let list = (of.list)(of.version, &mut one, depth)?;
        let of_connection = |field: FieldId| field.is_of_connection();
        let fine = list.iter().all(|action| match action {
            Action::SetField(set) => of_connection(set.field),
            Action::CopyField(copy) => of_connection(copy.to.field),
            _ => false,
        });
        if !fine || list.is_empty() || exec.len() >= Conntrack::EXEC_MAX {
            let right = "nat once, and 64 set-fields and copies to ct_mark or ct_label";
            return bad(r, "actions of ct", exec.len() as u32, right);
        }
        exec.extend(list);
    }
    if !commit && (!exec.is_empty() || nat.is_some_and(Nat::is_of_new)) {
        return bad(r, "ct's flags", flags.into(), "commit, as there is exec or a new translation");
    }
    let table = (table != CT_NO_TABLE).then_some(TableId(table));
    Ok(Conntrack { commit, force, zone, table, nat, alg, exec })
}

fn decode_nat(list: &mut Reader<'_>) -> Decoded<Nat> {
    let length = usize::from(list.peek_u16(2)?);
    let mut r = list.sub(length, "nat", ErrorCode::BacBadLen)?;
    r.skip(12)?;
    let (flags, present) = (r.u16()?, r.u16()?);
    let bad = |r: &Reader<'_>, what, got: u16, right| {
        Err(r.bad_value(ErrorCode::BacBadArgument, what, got, right))
    };
    if present & !0x3f != 0 {
        return bad(&r, "nat's range", present, "bits 0 to 5");
    }
    let has = |bit: u16| present >> bit & 1 == 1;
    let mut address = |at: u16| -> Decoded<Option<IpAddr>> {
        let v4 = if has(at) { Some(IpAddr::V4(Ipv4Addr::from(r.u32()?))) } else { None };
        Ok(v4)
    };
    let v4 = (address(0)?, address(1)?);
    let mut address = |at: u16| -> Decoded<Option<IpAddr>> {
        let v6 = if has(at) { Some(IpAddr::V6(Ipv6Addr::from(r.number(16)?))) } else { None };
        Ok(v6)
    };
    let v6 = (address(2)?, address(3)?);
    let first_port = if has(4) { Some(r.u16()?) } else { None };
    let last_port = if has(5) { Some(r.u16()?) } else { None };
    r.rest();
    let side = match flags & 3 {
        0 if flags == 0 && present == 0 => return Ok(Nat::Existing),
        side if side == NAT_SIDES.0 => NatSide::Source,
        side if side == NAT_SIDES.1 => NatSide::Destination,
        _ => return bad(&r, "nat's flags", flags, "src (1), dst (2), or 0 without a range"),
    };
    let flags = flags & !3;
    let (first, last) = match (v4, v6) {
        ((None, None), (None, None)) if present == 0 => {
            if !NatRange::are_flags(flags) {
                let right = "persistent (4), and hash (8) or random (16)";
                return bad(&r, "nat's flags", flags, right);
            }
            return Ok(Nat::Unranged { side, flags });
        }
        ((Some(first), last), (None, None)) | ((None, None), (Some(first), last)) => (first, last),
        _ => return bad(&r, "nat's range", present, "addresses of one family"),
    };
    let ports = match (first_port, last_port) {
        (Some(first), last) => Some((first, last.unwrap_or(first))),
        (None, None) => None,
        _ => return bad(&r, "nat's range", present, "a first port with the last one"),
    };
    let last = last.unwrap_or(first);
    let range = NatRange { side, first, last, ports, flags };
    if !range.is_sound() {
        let right = "ranges whose first comes first, and persistent (4), hash (8) or random (16)";
        return bad(&r, "nat", flags, right);
    }
    Ok(Nat::New(range))
}

/// A `ct` but for its actions.
fn put(buf: &mut Vec<u8>, ct: &Conntrack) {
    head(buf, 35);
    let flag = |said: bool, bit: u16| if said { bit } else { 0 };
    buf.put_u16(flag(ct.commit, CT_FLAGS.0) | flag(ct.force, CT_FLAGS.1));
    match ct.zone {
        Zone::Number(zone) => {
            buf.put_u32(0);
            buf.put_u16(zone);
        }
        Zone::Field(Bits { of, count }) => {
            let (header, offset) = header_of_bits(of, count);
            buf.put_u32(header);
            buf.put_u16(offset << 6 | (count - 1));
        }
    }
    buf.put_u8(ct.table.map_or(CT_NO_TABLE, |table| table.0));
    buf.pad(3);
    buf.put_u16(ct.alg);
    if let Some(nat) = ct.nat {
        put_nat(buf, nat);
    }
}

fn put_nat(buf: &mut Vec<u8>, nat: Nat) {
    let begin = buf.len();
    head(buf, 36);
    buf.pad(2);
    let side = |side| match side {
        NatSide::Source => NAT_SIDES.0,
        NatSide::Destination => NAT_SIDES.1,
    };
    let (flags, range) = match nat {
        Nat::Existing => (0, None),
        Nat::Unranged { side: of, flags } => (side(of) | flags, None),
        Nat::New(range) => (side(range.side) | range.flags, Some(range)),
    };
    buf.put_u16(flags);
    let Some(range) = range else {
        buf.pad(2);
        buf.patch_length(begin + 2, begin);
        return;
    };
    let more = range.last != range.first;
    let addresses = (1 | u16::from(more) << 1) << if range.first.is_ipv4() { 0 } else { 2 };
    let ports = match range.ports {
        None => 0,
        Some((first, last)) => 0x10 | u16::from(first != last) << 5,
    };
    buf.put_u16(addresses | ports);
    for address in [Some(range.first), more.then_some(range.last)].into_iter().flatten() {
        match address {
            IpAddr::V4(v4) => buf.put_u32(v4.into()),
            IpAddr::V6(v6) => buf.put_number(v6.into(), 16),
        }
    }
    if let Some((first, last)) = range.ports {
        buf.put_u16(first);
        if first != last {
            buf.put_u16(last);
        }
    }
    buf.pad_to_8(begin);
    buf.patch_length(begin + 2, begin);
}

/// `ct(commit,force,table=N,zone=N,nat(...),exec(...))`, in any order, each at most once.
fn parse(word: &Word<'_>, parsing: &Parsing<'_>) -> Parsed {
    let mut ct = Conntrack {
        commit: false,
        force: false,
        zone: Zone::Number(0),
        table: None,
        nat: None,
        alg: 0,
        exec: Vec::new(),
    };
    let options = match word.value {
        None => return Ok(Action::Ct(Box::new(ct))),
        Some(options) if word.parenthesised() => options,
        Some(_) => return Err(word.key.expected("`ct(OPTIONS)`")),
    };
    let mut depth = 0;
    let most = options.text.chars().fold(0, |most, c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        most.max(depth)
    });
    if most > 2 {
        return Err(word.key.refused("no such action stands inside of another"));
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut words = Words::of(options);
    while let Some(option) = words.next()? {
        let key = option.key;
        if seen.contains(&key.text) {
            return Err(key.error(Fault::Twice));
        }
        seen.push(key.text);
        match key.text {
            "commit" => {
                option.bare()?;
                ct.commit = true;
            }
            "force" => {
                option.bare()?;
                ct.force = true;
            }
            "table" => match option.arg()?.u8()? {
                255 => return Err(option.arg()?.expected("a table from 0 to 254")),
                table => ct.table = Some(TableId(table)),
            },
            "zone" => {
                let arg = option.arg()?;
                ct.zone = match arg.text.starts_with(|c: char| c.is_ascii_digit()) {
                    true => Zone::Number(arg.u16()?),
                    false => match bits(arg)? {
                        bits if bits.count <= 16 => Zone::Field(bits),
                        _ => return Err(arg.expected("at most 16 bits of a field")),
                    },
                };
            }
            "nat" => ct.nat = Some(parse_nat(&option)?),
            "exec" => match option.value {
                Some(list) => {
                    let list = (parsing.list)(list, parsing.cx)?;
                    let fine = |action: &Action| match action {
                        Action::SetField(set) => set.field.is_of_connection(),
                        Action::CopyField(copy) => copy.to.field.is_of_connection(),
                        _ => false,
                    };
                    if !list.iter().all(fine) || list.len() > Conntrack::EXEC_MAX {
                        let right = "set_field, load and move of ct_mark and ct_label, at most 64";
                        return Err(key.expected(right));
                    }
                    ct.exec = list;
                }
                None => return Err(key.refused("its actions follow in parentheses")),
            },
            "alg" => {
                let known = Conntrack::ALGS.iter().find(|(name, _)| option.value_is(name));
                let Some((_, number)) = known else {
                    return Err(option.arg()?.expected("`ftp` or `tftp`"));
                };
                ct.alg = *number;
            }
            name => {
                let known = ["commit", "force", "table", "zone", "nat", "alg", "exec"];
                let nearest = nearest(name, known);
                return Err(key.error(Fault::Unknown { what: "option of `ct`", nearest }));
            }
        }
    }
    if !ct.commit && (ct.force || !ct.exec.is_empty() || ct.nat.is_some_and(Nat::is_of_new)) {
        return Err(word
            .key
            .refused("force, exec and a new translation need `commit` beside them"));
    }
    Ok(Action::Ct(Box::new(ct)))
}

/// `nat`, `nat(src=A[-B][:P[-Q]],OPTIONS)`, `nat(src)`; IPv6 addresses with ports stand in brackets.
fn parse_nat(word: &Word<'_>) -> Parsed<Nat> {
    let Some(options) = word.value else { return Ok(Nat::Existing) };
    let (mut range, mut flags) = (None, 0);
    let mut words = Words::of(options);
    while let Some(option) = words.next()? {
        let side = match option.key.text {
            "src" => NatSide::Source,
            "dst" => NatSide::Destination,
            name => match NatRange::FLAGS.iter().find(|(word, _)| *word == name) {
                Some((_, bit)) => {
                    option.bare()?;
                    flags |= bit;
                    continue;
                }
                None => {
                    let nearest = nearest(name, ["src", "dst", "persistent", "hash", "random"]);
                    let fault = Fault::Unknown { what: "option of `nat`", nearest };
                    return Err(option.key.error(fault));
                }
            },
        };
        if range.is_some() {
            return Err(option.key.error(Fault::Twice));
        }
        range = Some((side, option.value.map(|_| option.arg()).transpose()?));
    }
    let (side, arg) = match range {
        Some((side, Some(arg))) => (side, arg),
        Some((side, None)) if NatRange::are_flags(flags) => {
            return Ok(Nat::Unranged { side, flags });
        }
        None if flags == 0 && options.text.is_empty() => return Ok(Nat::Existing),
        _ => return Err(word.key.expected("`nat(src=ADDRESS)`, `nat(dst=ADDRESS)` or `nat(src)`")),
    };
    let wrong = || arg.expected("addresses FIRST[-LAST] and ports [:FIRST[-LAST]], in order");
    let text = arg.text;
    let (addresses, ports) = if text.starts_with('[') {
        let end = text.rfind(']').ok_or_else(wrong)?;
        let rest = &text[end + 1..];
        let ports =
            if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(wrong)?) };
        (&text[..=end], ports)
    } else if text.contains('.') && !text.contains("::") {
        match text.split_once(':') {
            Some((addresses, ports)) => (addresses, Some(ports)),
            None => (text, None),
        }
    } else {
        (text, None)
    };
    let pair = |text: &str| match text.split_once('-') {
        Some((first, last)) => (first.to_string(), last.to_string()),
        None => (text.to_string(), text.to_string()),
    };
    let address = |text: String| text.trim_matches(['[', ']']).parse().map_err(|_| wrong());
    let (first, last) = pair(addresses);
    let (first, last) = (address(first)?, address(last)?);
    let ports = match ports {
        None => None,
        Some(ports) => {
            let port = |text: String| text.parse::<u16>().map_err(|_| wrong());
            let (first, last) = pair(ports);
            Some((port(first)?, port(last)?))
        }
    };
    let range = NatRange { side, first, last, ports, flags };
    if range.is_sound() { Ok(Nat::New(range)) } else { Err(wrong()) }
}

fn print(out: &mut dyn Write, ct: &Conntrack, printing: &Printing) -> fmt::Result {
    let mut parts = Vec::new();
    for (word, said) in [("commit", ct.commit), ("force", ct.force)] {
        if said {
            parts.push(word.to_string());
        }
    }
    if let Some(table) = ct.table {
        parts.push(format!("table={table}"));
    }
    match ct.zone {
        Zone::Number(0) => {}
        Zone::Number(zone) => parts.push(format!("zone={zone}")),
        Zone::Field(Bits { of, count }) => {
            let name = text(|out| print_subfield(out, of, count));
            parts.push(format!("zone={name}"));
        }
    }
    match ct.nat {
        None => {}
        Some(Nat::Existing) => parts.push("nat".to_string()),
        Some(Nat::New(range)) => parts.push(format!("nat({})", print_nat(&range))),
        Some(Nat::Unranged { side, flags }) => {
            parts.push(format!("nat({}{})", side_name(side), nat_flags(flags)));
        }
    }
    if let Some((name, _)) = Conntrack::ALGS.iter().find(|(_, number)| *number == ct.alg) {
        parts.push(format!("alg={name}"));
    }
    if !ct.exec.is_empty() {
        parts.push(format!(
            "exec({})",
            text(|out| (printing.list)(out, &ct.exec, printing.version))
        ));
    }
    write!(out, "ct({})", parts.join(","))
}

fn print_nat(range: &NatRange) -> String {
    let side = side_name(range.side);
    let brackets = range.first.is_ipv6() && range.ports.is_some();
    let address = |a| if brackets { format!("[{a}]") } else { format!("{a}") };
    let mut out = format!("{side}={}", address(range.first));
    if range.last != range.first {
        out += &format!("-{}", address(range.last));
    }
    if let Some((first, last)) = range.ports {
        out += &format!(":{first}");
        if last != first {
            out += &format!("-{last}");
        }
    }
    out + &nat_flags(range.flags)
}

fn side_name(side: NatSide) -> &'static str {
    match side {
        NatSide::Source => "src",
        NatSide::Destination => "dst",
    }
}

fn nat_flags(flags: u16) -> String {
    let words = NatRange::FLAGS.iter().filter(|(_, bit)| flags & bit != 0);
    words.map(|(word, _)| format!(",{word}")).collect()
}

fn arbitrary(rng: &mut Rng) -> Conntrack {
    let commit = rng.one_in(2);
    let zone = parts::bits(rng, false);
    let side = rng.choose(&[NatSide::Source, NatSide::Destination]);
    let first = 1 + rng.u32() % 1000;
    let last = first + rng.u32() % 3;
    let [first, last] = match rng.one_in(2) {
        true => [first, last].map(|n| IpAddr::V4(Ipv4Addr::from(0x0a00_0000 | n))),
        false => {
            [first, last].map(|n| IpAddr::V6(Ipv6Addr::from(0xfd_u128 << 120 | u128::from(n))))
        }
    };
    let port = 1 + rng.u16() % 60_000;
    let ports = rng.one_in(2).then(|| (port, port + rng.u16() % 3));
    let range = NatRange { side, first, last, ports, flags: rng.choose(&[0, 4, 8, 16, 20]) };
    let mark = FieldId::CtMark;
    let exec = [
        Action::set_field(mark, u128::from(rng.u32())),
        Action::CopyField(CopyField {
            bits: 32,
            from: Subfield { field: FieldId::Reg3, offset: 0 },
            to: Subfield { field: FieldId::CtLabel, offset: 64 },
        }),
    ];
    Conntrack {
        commit,
        force: commit && rng.one_in(2),
        zone: match zone.count <= 16 && rng.one_in(2) {
            true => Zone::Field(zone),
            false => Zone::Number(rng.u16()),
        },
        table: rng.one_in(2).then(|| TableId(rng.u8() % 255)),
        nat: match rng.below(4) {
            0 => None,
            1 if commit => Some(Nat::New(range)),
            2 if commit => Some(Nat::Unranged { side: range.side, flags: range.flags }),
            _ => Some(Nat::Existing),
        },
        alg: rng.choose(&[0, 21, 69]),
        exec: if commit { exec[..rng.below(3)].to_vec() } else { Vec::new() },
    }
}
