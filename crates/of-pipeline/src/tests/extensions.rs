//! Open vSwitch's actions on real packets, and what table features promise.

use super::bed::*;
use crate::Event;
use openflow::{
    Action, Band, BandKind, Bits, ErrorCode, FieldId, FlowMod, HashAlgorithm, HashFields,
    Instruction, InstructionType, Instructions, Learn, LearnSource, LearnSpec, LearnTarget, Match,
    MeterFlags, MeterId, MeterMod, MeterModCommand, MultipartReplyBody, MultipartRequestBody,
    Multipath, OxmHeader, PacketInReason, PortNo, Prerequisite, SetField, Subfield, TableFeatures,
    TableId, TableProperty, ToController, Version,
};

fn of(field: FieldId, offset: u16) -> Subfield {
    Subfield { field, offset }
}

fn bits(field: FieldId, offset: u16, count: u16) -> Bits {
    Bits { of: of(field, offset), count }
}

fn load(field: FieldId, value: u128) -> Action {
    Action::set_field(field, value)
}

fn to_goto(actions: Vec<Action>, table: u8) -> Instructions {
    let list = vec![Instruction::ApplyActions(actions), Instruction::GotoTable(TableId(table))];
    Instructions::from_vec(list)
}

/// A learning bridge as its users write it: what comes from a station is learned, what goes to it
/// goes where it is.
fn bridge() -> Learn {
    let spec = |bits, from, to| LearnSpec { bits, from: LearnSource::Field(from), to };
    Learn {
        idle_timeout: 0,
        hard_timeout: 0,
        priority: 7,
        cookie: 5,
        send_flow_rem: false,
        table_id: TableId(1),
        specs: vec![
            spec(48, of(FieldId::EthSrc, 0), LearnTarget::Match(of(FieldId::EthDst, 0))),
            spec(16, of(FieldId::InPort, 0), LearnTarget::Load(of(FieldId::Reg0, 0))),
            spec(16, of(FieldId::InPort, 0), LearnTarget::Output),
        ],
        ..Learn::default()
    }
}

#[test]
fn learn_makes_entries_of_packets() {
    let mut bed = Bed::new(3);
    bed.ok(add(Match::new(), to_goto(vec![Action::Learn(Box::new(bridge()))], 1)));
    let flood = Action::output(PortNo::FLOOD);
    let miss = FlowMod { table_id: TableId(1), priority: 0, ..add(Match::new(), apply([flood])) };
    bed.ok(miss);
    bed.send(1, &frame(0x2222, 0x1111));
    assert_eq!(bed.receive(2), frame(0x2222, 0x1111));
    assert_eq!(bed.receive(3), frame(0x2222, 0x1111));
    bed.until("it is learned", |bed| bed.agent.flows().len(1) == 2);
    // To where it was seen, and nowhere else.
    bed.send(2, &frame(0x1111, 0x2222));
    assert_eq!(bed.receive(1), frame(0x1111, 0x2222));
    bed.silent(3);
    bed.until("the other one, too", |bed| bed.agent.flows().len(1) == 3);
    let learned = bed.flows(TableId(1)).into_iter().find(|f| f.cookie == 5).unwrap();
    assert_eq!(learned.priority, 7);
    let part = SetField { field: FieldId::Reg0, value: 1, mask: Some(0xffff) };
    assert_eq!(learned.instructions, apply([Action::SetField(part), output(1)]));
    // It moved.
    bed.send(3, &frame(0x2222, 0x1111));
    assert_eq!(bed.receive(2), frame(0x2222, 0x1111));
    bed.until("it moves", |bed| {
        let mut all = bed.agent.flows().iter(1);
        all.any(|(_, f)| format!("{:?}", f.instructions).contains("PortNo(3)"))
    });
    assert_eq!(bed.agent.flows().len(1), 3);
    // Without the entry that learns nothing is learned any more.
    bed.ok(FlowMod { table_id: TableId(0), ..delete(Match::new()) });
    bed.send(1, &frame(0x2222, 0x4444));
    bed.no_event();
    assert_eq!(bed.agent.flows().len(1), 3);
}

#[test]
fn what_is_learned_is_published_at_once() {
    let mut bed = Bed::new(3);
    bed.ok(add(Match::new(), to_goto(vec![Action::Learn(Box::new(bridge()))], 1)));
    let at_once = std::cell::Cell::new(0);
    for station in 0..30u32 {
        bed.send(1, &frame(0x2222, 0x3000 + u64::from(station)));
        bed.until("it is learned", |bed| {
            let learned = bed.agent.flows().len(1) == station as usize + 1;
            let switch = bed.agent.switch();
            let committed = switch.with_pipeline(|pipeline| pipeline.version());
            let current = learned && switch.version() == committed;
            at_once.set(at_once.get() + usize::from(current));
            learned
        });
    }
    // Whatever gathers is published within milliseconds, too; and the last snapshot may still be in use.
    assert!(at_once.get() >= 20, "{} of 30", at_once.get());
}

#[test]
fn learns_that_cannot_be_are_refused() {
    let mut bed = Bed::new(2);
    let mut ask =
        |learn: Learn| bed.refused(add(Match::new(), apply([Action::Learn(learn.into())])));
    assert_eq!(ask(Learn { table_id: TableId(200), ..bridge() }), ErrorCode::FmfcBadTableId);
    let from_ip = LearnSpec {
        bits: 32,
        from: LearnSource::Field(of(FieldId::Ipv4Src, 0)),
        to: LearnTarget::Match(of(FieldId::Ipv4Dst, 0)),
    };
    assert_eq!(
        ask(Learn { specs: vec![from_ip], ..bridge() }),
        ErrorCode::BacMatchInconsistent,
        "the match does not say that there is an IP header"
    );
    let port = bridge().specs[2];
    assert_eq!(ask(Learn { specs: vec![port; 9], ..bridge() }), ErrorCode::BacTooMany);
    let read_only = LearnSpec { to: LearnTarget::Load(of(FieldId::Ipv6Exthdr, 0)), ..port };
    assert_eq!(ask(Learn { specs: vec![read_only], ..bridge() }), ErrorCode::BacBadSetType);
}

#[test]
fn the_stack_gives_back_what_was_pushed_last_first() {
    let mut bed = Bed::new(2);
    bed.ok(add(
        Match::new(),
        apply([
            load(FieldId::Reg0, 0x1234_5678),
            Action::StackPush(bits(FieldId::Reg0, 0, 32)),
            Action::StackPush(bits(FieldId::EthSrc, 0, 48)),
            Action::StackPop(bits(FieldId::EthDst, 0, 48)),
            Action::StackPop(bits(FieldId::EthSrc, 8, 32)),
            // Nothing is left.
            Action::StackPop(bits(FieldId::EthSrc, 0, 8)),
            output(2),
        ]),
    ));
    bed.send(1, &frame(0xaa, 0x0200_0000_00bb));
    assert_eq!(bed.receive(2), frame(0x0200_0000_00bb, 0x0212_3456_78bb));
    // One more than there is room for drops the packet.
    let push = || Action::StackPush(bits(FieldId::Reg0, 0, 32));
    let room: Vec<Action> = (0..4).map(|_| push()).chain([output(2)]).collect();
    bed.ok(add(Match::new(), apply(room)));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let full: Vec<Action> = (0..5).map(|_| push()).chain([output(2)]).collect();
    bed.ok(add(Match::new(), apply(full)));
    bed.send(1, &frame(1, 2));
    bed.silent(2);
}

#[test]
fn outputs_to_what_a_field_says() {
    let mut bed = Bed::new(3);
    let out = Action::OutputField { from: bits(FieldId::Reg0, 4, 16), max_len: 0xffff };
    bed.ok(add(Match::new(), apply([load(FieldId::Reg0, 0x35), out.clone()])));
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(3), frame(1, 2));
    bed.silent(2);
    // Not back to where it came from.
    bed.send(3, &frame(1, 2));
    bed.silent(3);
}

#[test]
fn larger_packets_are_told_apart() {
    let mut bed = Bed::new(2);
    let larger = Action::CheckPktLarger { bytes: 60, to: of(FieldId::Reg0, 3) };
    bed.ok(add(Match::new(), to_goto(vec![larger], 1)));
    let large = Match::new().with_masked(FieldId::Reg0, 8, 8);
    bed.ok(FlowMod { table_id: TableId(1), ..add(large, apply([output(2)])) });
    bed.send(1, &frame(1, 2));
    bed.silent(2);
    let mut more = frame(1, 2);
    more.push(0);
    bed.send(1, &more);
    assert_eq!(bed.receive(2), more);
}

#[test]
fn multipath_spreads_and_keeps_both_directions_together() {
    for algorithm in [HashAlgorithm::Modulo, HashAlgorithm::Threshold] {
        for links in [1u16, 2, 3, 7, 16] {
            let mut bed = Bed::new(2);
            let choose = |fields| {
                Action::Multipath(Box::new(Multipath {
                    fields,
                    basis: 50,
                    algorithm,
                    max_link: links - 1,
                    arg: 0,
                    to: bits(FieldId::EthDst, 0, 16),
                }))
            };
            bed.ok(add(Match::new(), apply([choose(HashFields::SymmetricL4), output(2)])));
            let mut seen = std::collections::BTreeMap::new();
            for n in 1..=200u64 {
                let link = |bed: &Bed, a: u64, b: u64| {
                    bed.send(1, &frame(a, b));
                    let got = bed.receive(2);
                    u16::from_be_bytes([got[4], got[5]])
                };
                // The high bits are not touched by the answer, so both ways differ in nothing else.
                let (a, b) = (0x0200_0000_0000 | n << 16, 0x0600_0000_0000);
                let there = link(&bed, a, b);
                assert_eq!(there, link(&bed, b, a), "{algorithm:?} {links}");
                *seen.entry(there).or_insert(0) += 1;
            }
            assert!(seen.keys().all(|link| *link < links), "{seen:?}");
            assert_eq!(seen.len(), usize::from(links), "{algorithm:?}: {seen:?}");
        }
    }
}

#[test]
fn controllers_are_told_within_a_meter_s_rate() {
    let mut bed = Bed::new(2);
    let meter = MeterMod {
        command: MeterModCommand::Add,
        flags: MeterFlags::PKTPS | MeterFlags::BURST,
        meter_id: MeterId(7),
        bands: vec![Band { rate: 1, burst_size: 2, kind: BandKind::Drop }],
    };
    let told = Action::Controller(ToController {
        max_len: 100,
        reason: PacketInReason::Action,
        id: 0,
        userdata: Vec::new(),
        meter: Some(MeterId(7)),
        pause: false,
    });
    let resubmit = Action::Resubmit { in_port: PortNo::IN_PORT, table: TableId(1), ct: false };
    let first = add(Match::new(), apply([resubmit, output(2)]));
    // What is not told goes on as if it were, in the table that it comes back to.
    let second = FlowMod { table_id: TableId(1), ..add(Match::new(), apply([told])) };
    assert_eq!(bed.refused(second.clone()), ErrorCode::BacBadMeter);
    bed.ok(meter.clone());
    bed.ok(second);
    bed.ok(first);
    let began = std::time::Instant::now();
    for n in 0..20 {
        bed.send(1, &frame(1, n));
        bed.receive(2);
    }
    let mut seen = 0;
    let until = std::time::Instant::now() + std::time::Duration::from_millis(300);
    while std::time::Instant::now() < until {
        let packet_in = |e: &Event| matches!(e, Event::PacketIn(_));
        seen += bed.agent.poll().iter().filter(|e| packet_in(e)).count() as u64;
    }
    let most = 2 + began.elapsed().as_secs() + 1;
    assert!((2..=most.min(20)).contains(&seen), "{seen} of 20 were told, at most {most} may be");
    // A meter takes along who uses it.
    let delete = MeterMod { command: MeterModCommand::Delete, ..meter };
    bed.ok(delete);
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
}

#[test]
fn packets_for_some_controllers() {
    let mut bed = Bed::new(2);
    let to = ToController {
        max_len: 100,
        reason: PacketInReason::NoMatch,
        id: 3,
        userdata: Vec::new(),
        meter: None,
        pause: false,
    };
    bed.ok(FlowMod { cookie: 9, ..add(Match::new(), apply([Action::Controller(to)])) });
    bed.send(1, &frame(1, 2));
    let (id, p) = bed.event(|e| match e {
        Event::PacketInTo(id, p) => Some((*id, p.clone())),
        _ => None,
    });
    assert_eq!((id, p.reason, p.cookie), (3, PacketInReason::NoMatch, 9));
    // What the action carries comes with the packet: each action's own.
    let carries = |userdata: &[u8]| {
        let reason = PacketInReason::Action;
        let userdata = userdata.to_vec();
        let (id, meter, pause) = (0, None, false);
        Action::Controller(ToController { max_len: 100, reason, id, userdata, meter, pause })
    };
    let list = vec![carries(&[1, 2, 3]), Action::Clone(vec![carries(&[4])]), carries(&[5, 6])];
    bed.ok(FlowMod { priority: 0x8001, ..add(from_port(2), apply(list)) });
    bed.send(2, &frame(1, 2));
    let mut carried = Vec::new();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while carried.len() < 3 && std::time::Instant::now() < until {
        carried.extend(bed.agent.poll().into_iter().filter_map(|e| match e {
            Event::PacketIn(p) => Some(p.userdata),
            _ => None,
        }));
    }
    assert_eq!(carried, [vec![1, 2, 3], vec![4], vec![5, 6]]);
    // So do those of a packet-out, which has no entry.
    let request = openflow::PacketOut {
        buffer_id: None,
        in_port: PortNo(1),
        pipeline: Match::new(),
        actions: vec![carries(&[1])],
        data: frame(1, 2),
    };
    bed.ok(request);
    let told = bed.event(|event| match event {
        Event::PacketIn(packet) => Some(packet.userdata.clone()),
        _ => None,
    });
    assert_eq!(told, [1]);
    // What expires is told to each of the ids.
    let ip = Match::new().with(FieldId::EthType, 0x0800);
    bed.ok(FlowMod {
        priority: 0x9000,
        ..add(ip, apply([Action::DecNwTtlTo(vec![1, 2]), output(2)]))
    });
    let mut packet = frame(1, 2);
    packet[12..14].copy_from_slice(&[8, 0]);
    packet[14] = 0x45;
    packet[17] = 46;
    packet[22] = 1;
    bed.send(1, &packet);
    let mut told = Vec::new();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
    while told.len() < 2 && std::time::Instant::now() < until {
        told.extend(bed.agent.poll().into_iter().filter_map(|e| match e {
            Event::PacketInTo(id, p) if p.reason == PacketInReason::InvalidTtl => Some(id),
            _ => None,
        }));
    }
    assert_eq!(told, [1, 2]);
    bed.silent(2);
    packet[22] = 2;
    bed.send(1, &packet);
    assert_eq!(bed.receive(2)[22], 1);
}

/// A match that promises what a field needs.
fn promising(field: FieldId) -> Match {
    let mut matching = Match::new();
    for needs in field.info().prerequisites {
        match *needs {
            Prerequisite::OneOf(id, values) => matching.set(id, values[0]),
            Prerequisite::VlanTag => matching.set_masked(FieldId::VlanVid, 0x1000, 0x1000),
            Prerequisite::Present(id) => matching.set(id, 1),
            Prerequisite::Connection => matching.set_masked(FieldId::CtState, 0x22, 0x22),
        }
    }
    matching
}

fn tagged(field: FieldId) -> Match {
    let mut matching = promising(field);
    if field == FieldId::VlanVid {
        matching.set_masked(FieldId::VlanVid, 0x1000, 0x1000);
    }
    matching
}

fn value(field: FieldId) -> u128 {
    if field == FieldId::VlanVid { 0x1001 } else { 1 }
}

#[test]
fn table_features_promise_what_flow_mods_keep() {
    //= openflow-1.5.1 §7.3.5.18: what a table's features say is what it takes.
    for version in [Version::V13, Version::V14, Version::V15] {
        let mut bed = Bed::new(1);
        let parts = bed.ask(version, MultipartRequestBody::TableFeatures(vec![]));
        let tables: Vec<TableFeatures> = parts
            .into_iter()
            .flat_map(|p| match p {
                MultipartReplyBody::TableFeatures(f) => f,
                other => panic!("{other:?}"),
            })
            .collect();
        let first = &tables[0];
        let mut taken = |matching: Match, instructions: Instructions| {
            let request = FlowMod { dialect: version, ..add(matching, instructions) };
            let message = openflow::Message::FlowMod(request);
            let done = bed.agent.handle(version, message);
            bed.ok(FlowMod { table_id: TableId::ALL, ..delete(Match::new()) });
            done.is_ok()
        };
        let of = |fields: &[OxmHeader]| -> Vec<FieldId> {
            fields.iter().map(|header| header.field().unwrap()).collect()
        };
        for property in &first.properties {
            match property {
                TableProperty::Match(fields) => {
                    for (header, id) in fields.iter().zip(of(fields)) {
                        let mut exact = promising(id);
                        exact.set(id, if id == FieldId::PacketType { 0 } else { value(id) });
                        assert!(taken(exact, Instructions::new()), "{version} {id}");
                        if header.has_mask() {
                            let mut part = promising(id);
                            let bit = if id == FieldId::VlanVid { 0x1000 } else { 1 };
                            part.set_masked(id, bit, bit);
                            assert!(taken(part, Instructions::new()), "{version} {id} masked");
                        }
                    }
                }
                TableProperty::ApplySetField { fields, .. } => {
                    let listed = of(fields);
                    for id in FieldId::ALL.iter().filter(|id| id.info().since <= version) {
                        let set = apply([Action::set_field(*id, value(*id))]);
                        assert_eq!(listed.contains(id), taken(tagged(*id), set), "{version} {id}");
                    }
                }
                TableProperty::WriteSetField { fields, .. } => {
                    let listed = of(fields);
                    for id in FieldId::ALL.iter().filter(|id| id.info().since <= version) {
                        let set = Action::set_field(*id, value(*id));
                        let write = Instruction::WriteActions(vec![set]);
                        let write = Instructions::from_iter([write]);
                        assert_eq!(
                            listed.contains(id),
                            taken(tagged(*id), write),
                            "{version} {id}"
                        );
                    }
                }
                TableProperty::ApplyCopyField { fields, .. } => {
                    let listed = of(fields);
                    for id in FieldId::ALL.iter().filter(|id| id.info().since <= version) {
                        let copy = Action::CopyField(openflow::CopyField {
                            bits: 1,
                            from: Subfield { field: FieldId::Reg1, offset: 0 },
                            to: Subfield { field: *id, offset: 0 },
                        });
                        assert_eq!(
                            listed.contains(id),
                            taken(tagged(*id), apply([copy])),
                            "{version} {id}"
                        );
                    }
                }
                TableProperty::NextTables { tables: next, .. } => {
                    for to in 0..=255u8 {
                        let goto = Instruction::GotoTable(TableId(to));
                        let kept = taken(Match::new(), Instructions::from_iter([goto]));
                        assert_eq!(next.contains(&TableId(to)), kept, "{version} {to}");
                    }
                }
                TableProperty::Instructions { types, .. } => {
                    let standard = [
                        Instruction::GotoTable(TableId(1)),
                        Instruction::WriteMetadata { value: 1, mask: 3 },
                        Instruction::WriteActions(Vec::new()),
                        Instruction::ApplyActions(Vec::new()),
                        Instruction::ClearActions,
                        Instruction::StatTrigger(Box::default()),
                    ];
                    for instruction in standard {
                        let kind = instruction.instruction_type();
                        if !kind.is_in(version) {
                            // The codec takes none from the wire.
                            assert!(!types.contains(&kind), "{version} {kind:?}");
                            continue;
                        }
                        let kept = taken(Match::new(), Instructions::from_iter([instruction]));
                        assert_eq!(types.contains(&kind), kept, "{version} {kind:?}");
                    }
                    let meters = types.contains(&InstructionType::Meter);
                    assert_eq!(meters, version < Version::V15, "from 1.5 on it is an action");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn requests_of_1_5_are_answered_as_it_says() {
    use openflow::{FlowStatsRequest, PacketOut};
    let v15 = Version::V15;
    let mut bed = Bed::new(2);
    //= openflow-1.5.1 §7.3.5.7: one port may be asked about.
    let ports = |bed: &mut Bed, port| match &bed.ask(v15, MultipartRequestBody::PortDesc(port))[..]
    {
        [MultipartReplyBody::PortDesc(list)] => list.iter().map(|p| p.port_no).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(ports(&mut bed, PortNo::ANY), [PortNo(1), PortNo(2)]);
    assert_eq!(ports(&mut bed, PortNo(2)), [PortNo(2)]);
    let nobody = MultipartRequestBody::PortDesc(PortNo(9));
    let nobody = openflow::MultipartRequest { more: false, body: nobody };
    let nobody = Request(v15, openflow::Message::MultipartRequest(nobody));
    assert_eq!(bed.refused(nobody), ErrorCode::BrcBadPort);
    //= openflow-1.5.1 §7.3.6: a packet-out's pipeline fields are there when its actions are done.
    let meta = Match::new().with(FieldId::Metadata, 0x77).with(FieldId::TunnelId, 5);
    let in_table = Match::new().with(FieldId::Metadata, 0x77).with(FieldId::TunnelId, 5);
    bed.ok(FlowMod { dialect: v15, ..add(in_table, apply([output(2)])) });
    let packet = PacketOut {
        buffer_id: None,
        in_port: PortNo(1),
        pipeline: meta,
        actions: vec![Action::output(PortNo::TABLE)],
        data: frame(1, 2),
    };
    bed.ok(Request(v15, openflow::Message::PacketOut(packet)));
    assert_eq!(bed.receive(2), frame(1, 2));
    //= openflow-1.5.1 §7.3.5.3: counters of entries, without what they do.
    let counts = bed.ask(v15, MultipartRequestBody::FlowCounts(FlowStatsRequest::all()));
    let [MultipartReplyBody::FlowCounts(list)] = &counts[..] else { panic!("{counts:?}") };
    assert_eq!((list.len(), list[0].stats.packets, list[0].stats.bytes), (1, Some(1), Some(60)));
    assert!(list[0].stats.duration.is_some());
}
