//! Actions and instructions as `ovs-ofctl` prints them.

use super::subfield::print_subfield;
use crate::action::{
    Action, CopyField, Instruction, SetField, StatTrigger, StatTriggerFlags, Subfield,
};
use crate::extension::{
    Bits, BundleAlgorithm, Conntrack, FinTimeout, HashAlgorithm, HashFields, Learn, LearnSource,
    LearnSpec, LearnTarget, Nat, NatRange, NatSide, ToController, Zone,
};
use crate::field::FieldId;
use crate::ids::{Age, PortNo, TableId};
use crate::packet::PacketInReason;
use crate::syntax::matches::text;
use crate::syntax::value;
use crate::version::Version;
use std::fmt::{self, Write};

/// What a `controller` action may give as its reason.
pub(super) const REASONS: [(&str, PacketInReason); 6] = [
    ("no_match", PacketInReason::NoMatch),
    ("action", PacketInReason::Action),
    ("invalid_ttl", PacketInReason::InvalidTtl),
    ("action_set", PacketInReason::ActionSet),
    ("group", PacketInReason::Group),
    ("packet_out", PacketInReason::PacketOut),
];

/// Prints actions as `ovs-ofctl` does; `drop` for none.
pub fn print_actions(actions: &[Action], version: Version) -> String {
    text(|out| list(out, actions, version))
}

/// Prints instructions as `ovs-ofctl` prints what follows `actions=`; `drop` for none.
pub fn print_instructions(instructions: &[Instruction], version: Version) -> String {
    text(|out| print(out, instructions, version))
}

fn print_trigger(out: &mut dyn Write, trigger: &StatTrigger) -> fmt::Result {
    let to = &trigger.thresholds;
    let mut parts = Vec::new();
    for (name, count) in [("packets", to.packets), ("bytes", to.bytes)] {
        parts.extend(count.map(|count| format!("{name}={count}")));
    }
    for (name, age) in [("duration", to.duration), ("idle", to.idle)] {
        parts.extend(age.map(|Age { sec, nsec }| match nsec {
            0 => format!("{name}={sec}"),
            nsec => format!("{name}={sec}.{}", format!("{nsec:09}").trim_end_matches('0')),
        }));
    }
    let words =
        [(StatTriggerFlags::PERIODIC, "periodic"), (StatTriggerFlags::ONLY_FIRST, "only_first")];
    for (flag, word) in words {
        if trigger.flags.contains(flag) {
            parts.push(word.to_owned());
        }
    }
    write!(out, "stat_trigger({})", parts.join(","))
}

/// Prints instructions.
pub(in crate::syntax) fn print(
    out: &mut dyn Write,
    list: &[Instruction],
    version: Version,
) -> fmt::Result {
    let mut first = true;
    for instruction in list {
        if matches!(instruction, Instruction::ApplyActions(actions) if actions.is_empty()) {
            continue;
        }
        if !std::mem::replace(&mut first, false) {
            out.write_char(',')?;
        }
        match instruction {
            Instruction::GotoTable(table) => write!(out, "goto_table:{table}")?,
            Instruction::WriteMetadata { value, mask: u64::MAX } => {
                write!(out, "write_metadata:{value:#x}")?;
            }
            Instruction::WriteMetadata { value, mask } => {
                write!(out, "write_metadata:{value:#x}/{mask:#x}")?;
            }
            Instruction::WriteActions(actions) => {
                out.write_str("write_actions(")?;
                self::list(out, actions, version)?;
                out.write_char(')')?;
            }
            Instruction::ApplyActions(actions) => self::list(out, actions, version)?,
            Instruction::ClearActions => out.write_str("clear_actions")?,
            Instruction::Meter(meter) => write!(out, "meter:{meter}")?,
            Instruction::StatTrigger(trigger) => print_trigger(out, trigger)?,
            Instruction::Experimenter(e) => {
                write!(out, "experimenter_instruction:{:#x}:", e.experimenter)?;
                e.data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))?;
            }
        }
    }
    if first { out.write_str("drop") } else { Ok(()) }
}

/// Prints actions with commas between.
pub(in crate::syntax) fn list(
    out: &mut dyn Write,
    actions: &[Action],
    version: Version,
) -> fmt::Result {
    if actions.is_empty() {
        return out.write_str("drop");
    }
    for (i, action) in actions.iter().enumerate() {
        if i > 0 {
            out.write_char(',')?;
        }
        print_one(out, action, version)?;
    }
    Ok(())
}

fn print_one(out: &mut dyn Write, action: &Action, version: Version) -> fmt::Result {
    match action {
        Action::Output { port: PortNo::CONTROLLER, max_len } => write!(out, "CONTROLLER:{max_len}"),
        Action::Output { port: PortNo::ANY, .. } => out.write_str("output:NONE"),
        Action::Output { port, .. } => match port.reserved_name() {
            Some(name) => out.write_str(name),
            None => write!(out, "output:{port}"),
        },
        Action::CopyTtlOut => out.write_str("copy_ttl_out"),
        Action::CopyTtlIn => out.write_str("copy_ttl_in"),
        Action::SetMplsTtl(ttl) => write!(out, "set_mpls_ttl({ttl})"),
        Action::DecMplsTtl => out.write_str("dec_mpls_ttl"),
        Action::PushVlan(eth_type) => write!(out, "push_vlan:{eth_type:#06x}"),
        Action::PopVlan if version == Version::V10 => out.write_str("strip_vlan"),
        Action::PopVlan => out.write_str("pop_vlan"),
        Action::PushMpls(eth_type) => write!(out, "push_mpls:{eth_type:#06x}"),
        Action::PopMpls(eth_type) => write!(out, "pop_mpls:{eth_type:#06x}"),
        Action::SetQueue(queue) => write!(out, "set_queue:{queue}"),
        Action::Group(group) => write!(out, "group:{group}"),
        Action::SetNwTtl(ttl) => write!(out, "mod_nw_ttl:{ttl}"),
        Action::DecNwTtl => out.write_str("dec_ttl"),
        Action::SetField(set) => print_set_field(out, set, version),
        Action::Meter(meter) => write!(out, "meter:{meter}"),
        Action::CopyField(CopyField { bits, from, to }) => {
            out.write_str("move:")?;
            print_subfield(out, *from, *bits)?;
            out.write_str("->")?;
            print_subfield(out, *to, *bits)
        }
        Action::Controller(ToController { max_len, reason, id, userdata, meter, pause }) => {
            let mut parts = Vec::new();
            if *reason != PacketInReason::Action {
                let name = REASONS.iter().find(|(_, r)| r == reason).map_or("action", |(n, _)| n);
                parts.push(format!("reason={name}"));
            }
            if *max_len != Action::NO_BUFFER {
                parts.push(format!("max_len={max_len}"));
            }
            if *id != 0 {
                parts.push(format!("id={id}"));
            }
            if !userdata.is_empty() {
                let bytes: Vec<_> = userdata.iter().map(|byte| format!("{byte:02x}")).collect();
                parts.push(format!("userdata={}", bytes.join(".")));
            }
            if let Some(meter) = meter {
                parts.push(format!("meter_id={}", meter.0));
            }
            if *pause {
                parts.push("pause".to_owned());
            }
            write!(out, "controller({})", parts.join(","))
        }
        Action::DecNwTtlTo(ids) => {
            let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
            write!(out, "dec_ttl({})", ids.join(","))
        }
        Action::OutputField { from, .. } => {
            out.write_str("output:")?;
            print_subfield(out, from.of, from.count)
        }
        Action::StackPush(bits) => {
            out.write_str("push:")?;
            print_subfield(out, bits.of, bits.count)
        }
        Action::StackPop(bits) => {
            out.write_str("pop:")?;
            print_subfield(out, bits.of, bits.count)
        }
        Action::CheckPktLarger { bytes, to } => {
            write!(out, "check_pkt_larger({bytes})->")?;
            print_subfield(out, *to, 1)
        }
        Action::Multipath(m) => {
            let fields = HashFields::ALL.iter().find(|(f, _)| *f == m.fields).map_or("", |f| f.1);
            let how = HashAlgorithm::ALL.iter().find(|(a, _)| *a == m.algorithm);
            let how = how.map_or("", |a| a.1);
            let links = u32::from(m.max_link) + 1;
            write!(out, "multipath({fields},{},{how},{links},{},", m.basis, m.arg)?;
            print_subfield(out, m.to.of, m.to.count)?;
            out.write_char(')')
        }
        Action::Bundle(m) => {
            let fields = HashFields::ALL.iter().find(|(f, _)| *f == m.fields).map_or("", |f| f.1);
            let how = BundleAlgorithm::ALL.iter().find(|(a, _)| *a == m.algorithm);
            let how = how.map_or("", |a| a.1);
            let word = if m.to.is_some() { "bundle_load" } else { "bundle" };
            write!(out, "{word}({fields},{},{how},ofport,", m.basis)?;
            if let Some(to) = m.to {
                print_subfield(out, to.of, to.count)?;
                out.write_char(',')?;
            }
            out.write_str("members:")?;
            m.members
                .iter()
                .enumerate()
                .try_for_each(|(i, port)| write!(out, "{}{port}", if i == 0 { "" } else { "," }))?;
            out.write_char(')')
        }
        Action::Clone(inner) => {
            out.write_str("clone(")?;
            match inner.is_empty() {
                true => out.write_str("drop")?,
                false => list(out, inner, version)?,
            }
            out.write_char(')')
        }
        Action::Ct(ct) => print_ct(out, ct, version),
        Action::CtClear => out.write_str("ct_clear"),
        Action::Exit => out.write_str("exit"),
        Action::Learn(m) => print_learn(out, m),
        Action::Conjunction(m) => {
            write!(out, "conjunction({},{}/{})", m.id, m.dimension + 1, m.dimensions)
        }
        Action::Note(bytes) => {
            out.write_str("note:")?;
            bytes.iter().enumerate().try_for_each(|(i, byte)| {
                write!(out, "{}{byte:02x}", if i == 0 { "" } else { "." })
            })
        }
        Action::Resubmit { in_port, table: TableId::ALL, ct: false }
            if *in_port != PortNo::IN_PORT =>
        {
            write!(out, "resubmit:{in_port}")
        }
        Action::PopQueue => out.write_str("pop_queue"),
        Action::OutputTruncated { port, max_len } => {
            write!(out, "output(port={port},max_len={max_len})")
        }
        Action::FinTimeout(FinTimeout { idle_timeout, hard_timeout }) => {
            let parts = [("idle_timeout", idle_timeout), ("hard_timeout", hard_timeout)];
            let said: Vec<_> = parts.iter().filter(|(_, seconds)| **seconds != 0).collect();
            let said: Vec<_> = said.iter().map(|(name, n)| format!("{name}={n}")).collect();
            write!(out, "fin_timeout({})", said.join(","))
        }
        Action::Resubmit { in_port, table, ct } => {
            out.write_str("resubmit(")?;
            if *in_port != PortNo::IN_PORT {
                write!(out, "{in_port}")?;
            }
            out.write_char(',')?;
            if *table != TableId::ALL {
                write!(out, "{table}")?;
            }
            out.write_str(if *ct { ",ct)" } else { ")" })
        }
        Action::Softflow(softflow) => write!(out, "{softflow}"),
        Action::PushPbb(eth_type) => write!(out, "push_pbb:{eth_type:#06x}"),
        Action::PopPbb => out.write_str("pop_pbb"),
        Action::SetVlanVid(vid) => write!(out, "mod_vlan_vid:{vid}"),
        Action::SetVlanPcp(pcp) => write!(out, "mod_vlan_pcp:{pcp}"),
        Action::SetNwSrc(v) => write!(out, "mod_nw_src:{}", std::net::Ipv4Addr::from(*v)),
        Action::SetNwDst(v) => write!(out, "mod_nw_dst:{}", std::net::Ipv4Addr::from(*v)),
        Action::SetNwTos(tos) => write!(out, "mod_nw_tos:{tos}"),
        Action::SetTpSrc(port) => write!(out, "mod_tp_src:{port}"),
        Action::SetTpDst(port) => write!(out, "mod_tp_dst:{port}"),
        Action::Enqueue { port, queue } => write!(out, "enqueue:{port}:{queue}"),
        Action::Experimenter(e) => {
            write!(out, "experimenter:{:#x}:", e.experimenter)?;
            e.data.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
    }
}

fn print_ct(out: &mut dyn Write, ct: &Conntrack, version: Version) -> fmt::Result {
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
        parts.push(format!("exec({})", text(|out| list(out, &ct.exec, version))));
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

fn print_learn(out: &mut dyn Write, m: &Learn) -> fmt::Result {
    write!(out, "learn(table={}", m.table_id)?;
    if m.idle_timeout != 0 {
        write!(out, ",idle_timeout={}", m.idle_timeout)?;
    }
    if m.hard_timeout != 0 {
        write!(out, ",hard_timeout={}", m.hard_timeout)?;
    }
    if m.priority != 0x8000 {
        write!(out, ",priority={}", m.priority)?;
    }
    if m.fin_idle_timeout != 0 {
        write!(out, ",fin_idle_timeout={}", m.fin_idle_timeout)?;
    }
    if m.fin_hard_timeout != 0 {
        write!(out, ",fin_hard_timeout={}", m.fin_hard_timeout)?;
    }
    if m.send_flow_rem {
        out.write_str(",send_flow_rem")?;
    }
    if m.delete_learned {
        out.write_str(",delete_learned")?;
    }
    if m.cookie != 0 {
        write!(out, ",cookie={:#x}", m.cookie)?;
    }
    if m.limit != 0 {
        write!(out, ",limit={}", m.limit)?;
    }
    if let Some(to) = m.result_dst {
        out.write_str(",result_dst=")?;
        print_subfield(out, to, 1)?;
    }
    for LearnSpec { bits, from, to } in &m.specs {
        out.write_char(',')?;
        match (to, from) {
            (LearnTarget::Match(to), LearnSource::Field(from)) => {
                print_subfield(out, *to, *bits)?;
                if to != from {
                    out.write_char('=')?;
                    print_subfield(out, *from, *bits)?;
                }
            }
            (LearnTarget::Match(to), LearnSource::Value(value)) => {
                let info = to.field.info();
                if u32::from(*bits) == info.bits {
                    write!(out, "{}=", set_field_name(to.field))?;
                    match to.field {
                        // Of any number of digits, other than in matches.
                        FieldId::EthType => write!(out, "{value:#x}")?,
                        field => value::print(out, field, *value, field.all_bits())?,
                    }
                } else {
                    print_subfield(out, *to, *bits)?;
                    write!(out, "={value:#x}")?;
                }
            }
            (LearnTarget::Load(to), from) => {
                out.write_str("load:")?;
                match from {
                    LearnSource::Field(from) => print_subfield(out, *from, *bits)?,
                    LearnSource::Value(value) => write!(out, "{value:#x}")?,
                }
                out.write_str("->")?;
                print_subfield(out, *to, *bits)?;
            }
            (LearnTarget::Output, from) => {
                out.write_str("output:")?;
                match from {
                    LearnSource::Field(from) => print_subfield(out, *from, *bits)?,
                    LearnSource::Value(value) => write!(out, "{value}")?,
                }
            }
        }
    }
    out.write_char(')')
}

fn print_set_field(out: &mut dyn Write, set: &SetField, version: Version) -> fmt::Result {
    let &SetField { field, value, mask } = set;
    let mask = mask.unwrap_or(field.all_bits());
    let (offset, count) = (mask.trailing_zeros(), mask.count_ones());
    let part = mask != field.all_bits() && mask != 0 && count <= 64;
    if version == Version::V10 && mask == field.all_bits() {
        match field {
            FieldId::MplsLabel => return write!(out, "set_mpls_label({value})"),
            FieldId::MplsTc => return write!(out, "set_mpls_tc({value})"),
            // 1.0 has no set-field; Nicira's load has 64 bits.
            field if !settable_in_v10(field) && count <= 64 => {
                write!(out, "load:{value:#x}->")?;
                return print_subfield(out, Subfield { field, offset: 0 }, count as u16);
            }
            _ => {}
        }
    }
    if field.is_of_connection() && version < Version::V15 && part {
        let run = mask >> offset == u128::MAX >> (128 - count);
        if run {
            write!(out, "load:{:#x}->", value >> offset)?;
            return print_subfield(out, Subfield { field, offset: offset as u16 }, count as u16);
        }
    }
    let mod_dl = match field {
        FieldId::EthSrc => Some("mod_dl_src:"),
        FieldId::EthDst => Some("mod_dl_dst:"),
        _ => None,
    };
    if let (Version::V10, Some(word)) = (version, mod_dl) {
        out.write_str(word)?;
        return value::print(out, field, value, mask);
    }
    out.write_str("set_field:")?;
    value::print(out, field, value, mask)?;
    write!(out, "->{}", set_field_name(field))
}

/// The name of a field in `set_field`; where it differs from a match's, it is the specification's.
pub(in crate::syntax) fn set_field_name(field: FieldId) -> &'static str {
    match field {
        FieldId::EthSrc => "eth_src",
        FieldId::EthDst => "eth_dst",
        FieldId::EthType => "eth_type",
        FieldId::VlanPcp => "vlan_pcp",
        FieldId::Ipv4Src => "ip_src",
        FieldId::Ipv4Dst => "ip_dst",
        _ => field.info().ofctl[0],
    }
}

/// Whether 1.0 has an action that sets the field.
fn settable_in_v10(field: FieldId) -> bool {
    use FieldId::*;
    matches!(
        field,
        EthSrc
            | EthDst
            | VlanVid
            | VlanPcp
            | Ipv4Src
            | Ipv4Dst
            | IpDscp
            | TcpSrc
            | TcpDst
            | UdpSrc
            | UdpDst
            | SctpSrc
            | SctpDst
    )
}
