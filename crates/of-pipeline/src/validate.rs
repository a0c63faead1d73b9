//! What instructions and actions may ask for: the checks that need more than the message.
//!
//! The codec has seen to it that a message is well formed; here its meaning is checked against the
//! switch (which ports, groups and meters are there) and against itself (an action that needs a
//! header that the match does not promise). The clauses are 1.3.5's; 1.0's actions have theirs.
//!
//! What is known of a packet when an action is reached is tracked from the match through the actions
//! before it (`Known`). An action whose header the match merely does not mention is taken where
//! the specification leaves the choice (it then does nothing to packets without that header), and
//! refused where it does not: the prerequisites of set-field.

use crate::group_table::GroupTable;
use crate::meter_table::MeterTable;
use crate::ports::Ports;
use crate::refusal::Refusal;
use crate::table_config::TableConfigs;
use crate::trigger;
use of_lower::action_set::{as_bucket, as_set};
use of_lower::places::places;
use openflow::field::VLAN_PRESENT;
use openflow::{
    Action, Conntrack, CopyField, FieldId, FieldUse, FlowMod, GroupId, Instruction,
    InstructionType, Learn, LearnSource, LearnTarget, Match, PortNo, Prerequisite, QueueId,
    SetField, Version, Zone,
};

/// Actions in one list, at most.
pub const ACTIONS_MAX: usize = 1024;

const VLAN: [u16; 2] = [0x8100, 0x88a8];
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PBB: u16 = 0x88e7;
const IP: [u128; 2] = [0x0800, 0x86dd];
/// What a `ct` needs to be known of the packet (ovs-actions(7)).
const CT_NEEDS: Prerequisite = Prerequisite::OneOf(FieldId::EthType, &IP);

/// What the checks look at.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'a> {
    pub(crate) tables: u32,
    pub(crate) configs: &'a TableConfigs,
    /// The table of the entry that is looked at; the first one for packet-outs.
    pub(crate) own: Option<u8>,
    pub(crate) port_max: u32,
    pub(crate) ports: &'a Ports,
    pub(crate) groups: &'a GroupTable,
    pub(crate) meters: &'a MeterTable,
}

/// Where a list of actions is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Apply,
    Set,
    Bucket,
    PacketOut,
}

/// What is known of a field where an action is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The match does not say.
    Nothing,
    /// It has this value.
    Value(u128),
    /// It could have any: an earlier action changed what it is read from.
    Changed,
}

/// What is known of the packet.
#[derive(Clone, Copy, Debug)]
struct Packet {
    eth_type: Known,
    ip_proto: Known,
    icmpv6_type: Known,
    /// False only if there is surely no VLAN tag.
    tagged: bool,
}

impl Packet {
    /// Of a packet that a match let pass.
    fn of(matching: &Match) -> Packet {
        let known = |id| matching.exact(id).map_or(Known::Nothing, Known::Value);
        Packet {
            eth_type: known(FieldId::EthType),
            ip_proto: known(FieldId::IpProto),
            icmpv6_type: known(FieldId::Icmpv6Type),
            tagged: matching.exact(FieldId::VlanVid) != Some(0),
        }
    }

    /// Of a packet that no match is known of.
    fn any() -> Packet {
        let any = Known::Changed;
        Packet { eth_type: any, ip_proto: any, icmpv6_type: any, tagged: true }
    }

    fn is_surely_not(&self, ether_types: &[u128]) -> bool {
        matches!(self.eth_type, Known::Value(v) if !ether_types.contains(&v))
    }

    fn fulfils(&self, needs: &Prerequisite) -> bool {
        match *needs {
            Prerequisite::OneOf(id, values) => {
                let known = match id {
                    FieldId::EthType => self.eth_type,
                    FieldId::IpProto => self.ip_proto,
                    FieldId::Icmpv6Type => self.icmpv6_type,
                    _ => Known::Changed,
                };
                match known {
                    Known::Value(v) => values.contains(&v),
                    Known::Nothing => false,
                    Known::Changed => true,
                }
            }
            Prerequisite::VlanTag => self.tagged,
            Prerequisite::Present(_) | Prerequisite::Connection => true,
        }
    }

    /// A field has another value, which is not known.
    fn changed(&mut self, field: FieldId) {
        match field {
            FieldId::EthType => self.retype(Known::Changed),
            FieldId::IpProto => {
                self.ip_proto = Known::Changed;
                self.icmpv6_type = Known::Changed;
            }
            FieldId::Icmpv6Type => self.icmpv6_type = Known::Changed,
            FieldId::VlanTci => self.tagged = true,
            _ => {}
        }
    }

    /// The EtherType, and with it all behind it, became another.
    fn retype(&mut self, eth_type: Known) {
        self.eth_type = eth_type;
        self.ip_proto = Known::Changed;
        self.icmpv6_type = Known::Changed;
    }
}

fn name(instruction: InstructionType) -> &'static str {
    match instruction {
        InstructionType::GotoTable => "goto_table",
        InstructionType::WriteMetadata => "write_metadata",
        InstructionType::WriteActions => "write_actions",
        InstructionType::ApplyActions => "apply_actions",
        InstructionType::ClearActions => "clear_actions",
        InstructionType::Meter => "meter",
        InstructionType::StatTrigger => "stat_trigger",
        InstructionType::Experimenter(_) => "experimenter",
    }
}

impl Rules<'_> {
    /// An entry that is to be in `table`.
    pub(crate) fn entry(&self, table: u8, request: &FlowMod) -> Result<(), Refusal> {
        let (matching, instructions) = (Some(&request.matching), &request.instructions);
        self.instructions(request.dialect, table, matching, instructions)?;
        match trigger::of(instructions) {
            Some(trigger) => trigger::check(&trigger, request.flags),
            None => Ok(()),
        }
    }

    /// The instructions of an entry of `table` with this match; without one, of any entry there.
    pub(crate) fn instructions(
        &self,
        dialect: Version,
        table: u8,
        matching: Option<&Match>,
        instructions: &[Instruction],
    ) -> Result<(), Refusal> {
        let rules = Rules { own: Some(table), ..*self };
        let mut packet = matching.map_or_else(Packet::any, Packet::of);
        // 1.0 has no word for an action without its header, which does nothing.
        packet.tagged |= dialect == Version::V10;
        for (i, instruction) in instructions.iter().enumerate() {
            let kind = instruction.instruction_type();
            //= openflow-1.3.5 §5.9: an entry has at most one instruction of each type.
            if instructions[..i].iter().any(|earlier| earlier.instruction_type() == kind) {
                return Err(Refusal::InstructionTwice { name: name(kind) });
            }
            match instruction {
                //= openflow-1.3.5 §5.9, §7.4.4: goto leads to a table with a greater number; to a
                //= table that is not there or not later is OFPBIC_BAD_TABLE_ID.
                Instruction::GotoTable(to) if to.0 <= table || u32::from(to.0) >= self.tables => {
                    return Err(Refusal::Goto { from: table, to: to.0, tables: self.tables });
                }
                //= openflow-1.5.1 §5.12: goto leads from ingress tables to ingress tables, from egress
                //= tables to egress tables.
                Instruction::GotoTable(to) => rules.leads(to.0)?,
                //= openflow-1.3.5 §6.4: an entry that names an unknown meter is refused with
                //= OFPMMFC_UNKNOWN_METER.
                Instruction::Meter(id) if !self.meters.contains(id.0) => {
                    return Err(Refusal::UnknownMeter { meter: id.0 });
                }
                Instruction::Experimenter(e) => {
                    let experimenter = e.experimenter;
                    return Err(Refusal::InstructionExperimenter { experimenter });
                }
                _ => {}
            }
        }
        let is_conjunction = |action: &Action| matches!(action, Action::Conjunction(_));
        let alone = |instruction: &Instruction| match instruction {
            Instruction::ApplyActions(actions) => {
                actions.iter().all(|a| is_conjunction(a) || matches!(a, Action::Note(_)))
            }
            _ => false,
        };
        let conjunctive = instructions.iter().any(|instruction| match instruction {
            Instruction::ApplyActions(actions) => actions.iter().any(is_conjunction),
            _ => false,
        });
        let found = matching.is_some_and(|m| m.has(FieldId::ConjId));
        if conjunctive && (found || !instructions.iter().all(alone)) {
            return Err(Refusal::Conjunction);
        }
        // In the order of execution: what is written happens after what is applied.
        let lists = |of: fn(&Instruction) -> Option<&Vec<Action>>| instructions.iter().find_map(of);
        if let Some(actions) = lists(|i| match i {
            Instruction::ApplyActions(a) => Some(a),
            _ => None,
        }) {
            rules.list(List::Apply, actions, &mut packet)?;
        }
        if let Some(actions) = lists(|i| match i {
            Instruction::WriteActions(a) => Some(a),
            _ => None,
        }) {
            //= openflow-1.5.1 §5.12: output and group in write-actions of an egress table are refused.
            if self.configs.is_egress(table) {
                no_output(actions)?;
            }
            rules.set(actions, &mut packet)?;
        }
        Ok(())
    }

    /// The actions of a group's bucket, for packets of many entries.
    pub(crate) fn bucket(&self, actions: &[Action]) -> Result<(), Refusal> {
        if actions.len() > ACTIONS_MAX {
            return Err(Refusal::TooMany { actions: actions.len(), max: ACTIONS_MAX });
        }
        Action::flat(actions).try_for_each(in_bucket)?;
        let rules = Rules { own: Some(0), ..*self };
        let ordered: Vec<Action> = as_bucket(actions).into_iter().cloned().collect();
        rules.list(List::Bucket, &ordered, &mut Packet::any())
    }

    /// The actions of a packet-out.
    pub(crate) fn packet_out(&self, actions: &[Action]) -> Result<(), Refusal> {
        let rules = Rules { own: Some(0), ..*self };
        rules.list(List::PacketOut, actions, &mut Packet::any())
    }

    fn list(&self, list: List, actions: &[Action], packet: &mut Packet) -> Result<(), Refusal> {
        if actions.len() > ACTIONS_MAX {
            return Err(Refusal::TooMany { actions: actions.len(), max: ACTIONS_MAX });
        }
        actions.iter().try_for_each(|action| self.action(list, action, packet))
    }

    /// An action set is done in its own order, and only the last action of each kind; what is
    /// overwritten must be right nevertheless.
    fn set(&self, actions: &[Action], packet: &mut Packet) -> Result<(), Refusal> {
        self.list(List::Set, actions, &mut Packet::any())?;
        as_set(actions).into_iter().try_for_each(|action| self.action(List::Set, action, packet))
    }

    fn action(&self, list: List, action: &Action, packet: &mut Packet) -> Result<(), Refusal> {
        if list == List::Set {
            in_set(action)?;
        }
        match action {
            Action::Output { port, .. } => self.out_port(list, *port),
            Action::Enqueue { port, queue } => {
                //= openflow-1.0.2 §5.2.4: a queue is one of a port, or of IN_PORT.
                let ordinary = self.is_port(*port) || *port == PortNo::IN_PORT;
                if !ordinary {
                    return Err(Refusal::OutPort { port: *port, max: self.port_max });
                }
                is_queue(*queue)
            }
            Action::SetQueue(queue) => is_queue(*queue),
            Action::OutputTruncated { port, .. } => self.out_port(list, *port),
            //= openflow-1.3.5 §6.4: an action that names an unknown group is refused with
            //= OFPBAC_BAD_OUT_GROUP.
            Action::Group(GroupId(group)) => match self.groups.contains(*group) {
                true => Ok(()),
                false => Err(Refusal::OutGroup { group: *group }),
            },
            Action::SetField(set) => set_field(list, set, packet),
            Action::PushVlan(t) => {
                ether_type("push_vlan", *t, &VLAN, "0x8100 or 0x88a8")?;
                packet.tagged = true;
                Ok(())
            }
            Action::PopVlan if !packet.tagged => {
                Err(Refusal::NoSuchHeader { action: "pop_vlan", needs: "a VLAN tag" })
            }
            Action::PushMpls(t) => {
                ether_type("push_mpls", *t, &MPLS, "0x8847 or 0x8848")?;
                packet.retype(Known::Value((*t).into()));
                Ok(())
            }
            Action::PopMpls(t) => {
                mpls("pop_mpls", packet)?;
                packet.retype(Known::Value((*t).into()));
                Ok(())
            }
            Action::PushPbb(t) => {
                ether_type("push_pbb", *t, &[PBB], "0x88e7")?;
                packet.retype(Known::Value(PBB.into()));
                packet.tagged = false;
                Ok(())
            }
            Action::PopPbb => {
                if packet.is_surely_not(&[PBB.into()]) {
                    return Err(Refusal::NoSuchHeader {
                        action: "pop_pbb",
                        needs: "eth_type=0x88e7",
                    });
                }
                *packet = Packet::any();
                Ok(())
            }
            Action::SetMplsTtl(_) => mpls("set_mpls_ttl", packet),
            Action::DecMplsTtl => mpls("dec_mpls_ttl", packet),
            Action::SetNwTtl(_) => ip("set_nw_ttl", packet),
            Action::DecNwTtl => ip("dec_nw_ttl", packet),
            Action::SetVlanVid(vid) => {
                packet.tagged = true;
                argument("set_vlan_vid", (*vid).into(), *vid <= 0xfff, "0 to 0xfff")
            }
            Action::SetVlanPcp(pcp) => {
                packet.tagged = true;
                argument("set_vlan_pcp", (*pcp).into(), *pcp <= 7, "0 to 7")
            }
            Action::SetNwTos(tos) => argument(
                "set_nw_tos",
                (*tos).into(),
                tos & 3 == 0,
                "a byte whose two lowest bits are 0",
            ),
            //= openflow-1.5.1 §7.5.4: a meter action that names an unknown meter is OFPBAC_BAD_METER.
            Action::Meter(meter) => match self.meters.contains(meter.0) {
                true => Ok(()),
                false => Err(Refusal::BadMeter { meter: meter.0 }),
            },
            Action::Controller(to) => match to.meter {
                Some(meter) if !self.meters.contains(meter.0) => {
                    Err(Refusal::BadMeter { meter: meter.0 })
                }
                _ => Ok(()),
            },
            Action::CopyField(copy) => copy_field(copy, packet),
            //= openflow-1.3.5 §6.4: a port that can never be is OFPBAC_BAD_OUT_PORT.
            Action::Bundle(m) if let Some(port) = m.members.iter().find(|p| !self.is_port(**p)) => {
                Err(Refusal::OutPort { port: *port, max: self.port_max })
            }
            // What is done to the copy is not done to the packet.
            Action::Clone(inner) if inner.iter().any(|a| matches!(a, Action::Conjunction(_))) => {
                Err(Refusal::Conjunction)
            }
            Action::Clone(inner) => self.list(list, inner, &mut packet.clone()),
            Action::Ct(ct) => self.conntrack(ct, packet),
            Action::OutputField { from, .. } => needs("output", from.of.field, packet),
            Action::Learn(learn) => self.learn(learn, packet),
            Action::DecNwTtlTo(_) => ip("dec_nw_ttl", packet),
            Action::Experimenter(e) => {
                Err(Refusal::ActionExperimenter { experimenter: e.experimenter })
            }
            // A table that is not there shows when it is lowered.
            Action::Resubmit { table, .. } if u32::from(table.0) < self.tables => {
                self.leads(table.0)
            }
            Action::Conjunction(_) if matches!(list, List::PacketOut | List::Bucket) => {
                Err(Refusal::Conjunction)
            }
            // Any other may do what it says, if the fields are there that it names. Services that are not there
            // show when it is lowered.
            other => fields(other, packet),
        }
    }

    /// A learned entry's table must be there; what it is made of must be there, too.
    fn learn(&self, learn: &Learn, packet: &Packet) -> Result<(), Refusal> {
        let table = learn.table_id.0;
        if !self.configs.contains(table) {
            return Err(Refusal::FlowTable { table, tables: self.tables });
        }
        for spec in &learn.specs {
            if let LearnSource::Field(of) = spec.from {
                needs("learn", of.field, packet)?;
            }
            if let LearnTarget::Load(to) = spec.to
                && !to.field.info().settable
            {
                return Err(Refusal::SetType { field: to.field });
            }
        }
        Ok(())
    }

    /// A `ct`'s table must be there, and what it reads.
    fn conntrack(&self, ct: &Conntrack, packet: &Packet) -> Result<(), Refusal> {
        if let Some(table) = ct.table
            && u32::from(table.0) >= self.tables
        {
            return Err(Refusal::FlowTable { table: table.0, tables: self.tables });
        }
        if let Some(table) = ct.table {
            self.leads(table.0)?;
        }
        if !packet.fulfils(&CT_NEEDS) {
            return Err(Refusal::Inconsistent { action: "ct".to_string(), needs: CT_NEEDS });
        }
        if let Zone::Field(bits) = ct.zone {
            needs("ct", bits.of.field, packet)?;
        }
        ct.exec.iter().try_for_each(|action| match action {
            Action::SetField(set) if set.value & !set.field.all_bits() != 0 => {
                Err(Refusal::SetArgument { field: set.field, value: set.value })
            }
            Action::CopyField(copy) => needs("ct", copy.from.field, packet),
            _ => Ok(()),
        })
    }

    /// The table may be looked up for packets of an entry's own.
    fn leads(&self, to: u8) -> Result<(), Refusal> {
        match self.own {
            Some(from) if !self.configs.leads(from, to) => Err(Refusal::Stage { from, to }),
            _ => Ok(()),
        }
    }

    /// A number that a port has, or may get.
    pub(crate) fn is_port(&self, port: PortNo) -> bool {
        (1..=self.port_max).contains(&port.0)
            || port == PortNo::LOCAL
            || self.ports.contains(port.0)
    }

    fn out_port(&self, list: List, port: PortNo) -> Result<(), Refusal> {
        let good = match port {
            PortNo::IN_PORT | PortNo::ALL | PortNo::FLOOD | PortNo::NORMAL | PortNo::CONTROLLER => {
                true
            }
            //= openflow-1.3.5 §4.5: TABLE is for packet-outs only.
            PortNo::TABLE => list == List::PacketOut,
            //= openflow-1.3.5 §6.4: a port that can never be is OFPBAC_BAD_OUT_PORT; one that may
            //= come is taken, and packets to it are dropped until it does.
            port => self.is_port(port),
        };
        if good { Ok(()) } else { Err(Refusal::OutPort { port, max: self.port_max }) }
    }
}

/// What an egress table's entries can write to the action set, whose output is that of the port.
fn no_output(actions: &[Action]) -> Result<(), Refusal> {
    let action = actions.iter().find_map(|action| match action {
        Action::Output { .. } => Some("output"),
        Action::Group(_) => Some("group"),
        _ => None,
    });
    action.map_or(Ok(()), |action| Err(Refusal::EgressSet { action }))
}

/// What a bucket can hold.
fn in_bucket(action: &Action) -> Result<(), Refusal> {
    match places(action).not_in_bucket {
        Some((action, instead)) => Err(Refusal::NotInBucket { action, instead }),
        None => Ok(()),
    }
}

/// What an action set can hold. An experimenter's action is refused wherever it stands.
fn in_set(action: &Action) -> Result<(), Refusal> {
    let places = places(action);
    match places.set {
        None if !matches!(action, Action::Experimenter(_)) => {
            Err(Refusal::NotInSet { action: places.name })
        }
        _ => Ok(()),
    }
}

fn is_queue(queue: QueueId) -> Result<(), Refusal> {
    if queue == QueueId::ALL { Err(Refusal::Queue { queue: queue.0 }) } else { Ok(()) }
}

fn ether_type(
    action: &'static str,
    ether_type: u16,
    good: &[u16],
    right: &'static str,
) -> Result<(), Refusal> {
    //= openflow-1.3.5 §5.12: the EtherTypes that each push takes.
    if good.contains(&ether_type) {
        Ok(())
    } else {
        Err(Refusal::EtherType { action, ether_type, right })
    }
}

fn argument(
    action: &'static str,
    value: u32,
    good: bool,
    right: &'static str,
) -> Result<(), Refusal> {
    if good { Ok(()) } else { Err(Refusal::Argument { action, value, right }) }
}

//= openflow-1.3.5 §6.4: an action that contradicts the match may be refused with
//= OFPBAC_MATCH_INCONSISTENT; it is where no packet could ever have the header.
fn mpls(action: &'static str, packet: &Packet) -> Result<(), Refusal> {
    if packet.is_surely_not(&MPLS.map(u128::from)) {
        return Err(Refusal::NoSuchHeader { action, needs: "an MPLS EtherType" });
    }
    Ok(())
}

fn ip(action: &'static str, packet: &Packet) -> Result<(), Refusal> {
    if packet.is_surely_not(&IP) {
        return Err(Refusal::NoSuchHeader { action, needs: "an IP EtherType" });
    }
    Ok(())
}

/// A field that is read must be there.
fn needs(action: &str, field: FieldId, packet: &Packet) -> Result<(), Refusal> {
    match field.info().prerequisites.iter().find(|needs| !packet.fulfils(needs)) {
        None => Ok(()),
        Some(needs) => {
            let action = format!("{action} of {field}");
            Err(Refusal::Inconsistent { action, needs: *needs })
        }
    }
}

/// The fields that an action names: those that it reads or writes must be there, and what it writes be writable.
fn fields(action: &Action, packet: &mut Packet) -> Result<(), Refusal> {
    let mut found = Ok(());
    action.fields(&mut |usage, field| {
        if found.is_err() || usage == FieldUse::Names {
            return;
        }
        let writes = usage == FieldUse::Writes;
        found = match writes && !field.info().settable {
            true => Err(Refusal::SetType { field }),
            false => needs(places(action).name, field, packet),
        };
        if writes {
            packet.changed(field);
        }
    });
    found
}

/// A copy-field: what it reads and writes must be there, and be writable.
fn copy_field(copy: &CopyField, packet: &mut Packet) -> Result<(), Refusal> {
    let CopyField { from, to, .. } = *copy;
    if !to.field.info().settable {
        return Err(Refusal::SetType { field: to.field });
    }
    for field in [from.field, to.field] {
        let needs = field.info().prerequisites.iter().find(|needs| !packet.fulfils(needs));
        if let Some(needs) = needs {
            let action = format!("copy_field of {field}");
            return Err(Refusal::Inconsistent { action, needs: *needs });
        }
    }
    packet.changed(to.field);
    Ok(())
}

fn set_field(list: List, set: &SetField, packet: &mut Packet) -> Result<(), Refusal> {
    let SetField { field, value, mask } = *set;
    let info = field.info();
    //= openflow-1.3.5 §7.2.5: pseudo-fields cannot be set; in_port and metadata can, as Open vSwitch has it.
    if !info.settable {
        return Err(Refusal::SetType { field });
    }
    let part = mask.is_some_and(|mask| mask & info.all_bits() != info.all_bits());
    if part && list == List::Set {
        return Err(Refusal::SetMask { field });
    }
    let vid_without_tag = field == FieldId::VlanVid && !part && value & VLAN_PRESENT == 0;
    if value & !info.all_bits() != 0 || vid_without_tag {
        return Err(Refusal::SetArgument { field, value });
    }
    if field == FieldId::VlanVid && !packet.tagged {
        return Err(Refusal::NoSuchHeader { action: "set_field of vlan_vid", needs: "a VLAN tag" });
    }
    //= openflow-1.3.5 §7.2.5: the match holds the prerequisites of a field to be set, or earlier
    //= actions saw to them; else OFPBAC_MATCH_INCONSISTENT.
    if let Some(needs) = info.prerequisites.iter().find(|needs| !packet.fulfils(needs)) {
        return Err(Refusal::Inconsistent {
            action: format!("set_field of {field}"),
            needs: *needs,
        });
    }
    match field {
        _ if part && field != FieldId::VlanTci => packet.changed(field),
        // A tag may come, and be there when later actions look for it; it surely goes with bit 12.
        FieldId::VlanTci => {
            let written = mask.unwrap_or(info.all_bits()) & VLAN_PRESENT != 0;
            packet.tagged |= !written || value & VLAN_PRESENT != 0;
            packet.tagged &= !written || value & VLAN_PRESENT != 0;
        }
        FieldId::EthType => packet.retype(Known::Value(value)),
        FieldId::IpProto => {
            packet.ip_proto = Known::Value(value);
            packet.icmpv6_type = Known::Changed;
        }
        FieldId::Icmpv6Type => packet.icmpv6_type = Known::Value(value),
        _ => {}
    }
    Ok(())
}
