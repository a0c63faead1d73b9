//! Ports, configuration, descriptions.

use super::bed::*;
use crate::Event;
use openflow::{
    Action, ErrorCode, Features, FragmentHandling, MacAddr, Message, MultipartReplyBody,
    MultipartRequestBody, PortConfig, PortDesc, PortFeatures, PortMod, PortNo, PortReason,
    PortState, QueueConfigRequest, QueueId, QueueProperty, QueueStats, QueueStatsRequest,
    SwitchConfig, TableId, TableMod, Version,
};
use switch::queues::Setting;

fn desc(bed: &mut Bed, port: u32) -> PortDesc {
    let parts = bed.ask(V13, MultipartRequestBody::PortDesc(PortNo::ANY));
    let [MultipartReplyBody::PortDesc(descs)] = &parts[..] else { panic!("{parts:?}") };
    descs.iter().find(|d| d.port_no == PortNo(port)).unwrap().clone()
}

fn port_mod(bed: &mut Bed, port: u32, config: PortConfig, mask: PortConfig) -> PortMod {
    let hw_addr = desc(bed, port).hw_addr;
    let advertise = PortFeatures::empty();
    PortMod { port_no: PortNo(port), hw_addr, config, mask, advertise }
}

fn status(bed: &mut Bed) -> openflow::PortStatus {
    bed.event(|e| match e {
        Event::PortStatus(s) => Some(s.clone()),
        _ => None,
    })
}

#[test]
fn refused_port_mods() {
    let mut bed = Bed::new(1);
    let good = port_mod(&mut bed, 1, PortConfig::NO_FWD, PortConfig::NO_FWD);
    let mut refused = |m| bed.refused(Message::PortMod(m));
    assert_eq!(refused(PortMod { port_no: PortNo(2), ..good }), ErrorCode::PmfcBadPort);
    assert_eq!(refused(PortMod { port_no: PortNo::LOCAL, ..good }), ErrorCode::PmfcBadPort);
    let hw_addr = MacAddr([1; 6]);
    assert_eq!(refused(PortMod { hw_addr, ..good }), ErrorCode::PmfcBadHwAddr);
    let advertise = PortFeatures::GB10_FD;
    assert_eq!(refused(PortMod { advertise, ..good }), ErrorCode::PmfcBadAdvertise);
    bed.ok(Message::PortMod(good));
    assert_eq!(desc(&mut bed, 1).config, PortConfig::NO_FWD);
}

#[test]
fn configuration_bits_act() {
    let mut bed = Bed::new(3);
    bed.ok(add(openflow::Match::new(), apply([openflow::Action::output(PortNo::FLOOD)])));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.receive(3);
    // Out of flooding: told at once, by the agent.
    let no_flood = PortConfig::NO_FLOOD;
    let request = port_mod(&mut bed, 3, no_flood, no_flood);
    bed.ok(Request(V10, Message::PortMod(request)));
    assert_eq!(status(&mut bed).desc.config, no_flood);
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.silent(3);
    // Bits outside the mask stay.
    let request = port_mod(&mut bed, 3, PortConfig::empty(), PortConfig::NO_FWD);
    bed.ok(Message::PortMod(request));
    bed.no_event();
    // No packets out, told by the switch.
    let request = port_mod(&mut bed, 2, PortConfig::NO_FWD, PortConfig::NO_FWD);
    bed.ok(Message::PortMod(request));
    assert_eq!(status(&mut bed).reason, PortReason::Modify);
    bed.send(1, &frame(1, 2));
    bed.silent(2);
    // Down.
    let down = PortConfig::PORT_DOWN;
    let request = port_mod(&mut bed, 1, down, down);
    bed.ok(Message::PortMod(request));
    let told = status(&mut bed).desc;
    assert!(told.config.contains(down) && !told.state.contains(PortState::LIVE));
}

#[test]
fn packets_of_a_quiet_port_are_not_punted() {
    let mut bed = Bed::new(2);
    bed.ok(add(openflow::Match::new(), apply([openflow::Action::output(PortNo::CONTROLLER)])));
    let quiet = PortConfig::NO_PACKET_IN;
    let request = port_mod(&mut bed, 1, quiet, quiet);
    bed.ok(Message::PortMod(request));
    status(&mut bed);
    bed.send(1, &frame(1, 2));
    bed.no_event();
    bed.send(2, &frame(1, 2));
    bed.event(|e| matches!(e, Event::PacketIn(p) if p.in_port() == PortNo(2)).then_some(()));
}

#[test]
fn ports_come_go_and_change() {
    let mut bed = Bed::new(2);
    bed.no_event();
    bed.far[1].set_carrier(false);
    let told = status(&mut bed);
    assert_eq!((told.reason, told.desc.port_no), (PortReason::Modify, PortNo(2)));
    assert!(told.desc.state.contains(PortState::LINK_DOWN));
    let (near, far) = port::memory::port("late", port::memory::Config::default()).unwrap();
    bed.agent.switch().add_port(None, Box::new(near)).unwrap();
    bed.far.push(far);
    let told = status(&mut bed);
    assert_eq!((told.reason, told.desc.port_no), (PortReason::Add, PortNo(3)));
    assert_eq!(told.desc.name, "late");
    // It floods, too.
    bed.ok(add(openflow::Match::new(), apply([openflow::Action::output(PortNo::ALL)])));
    bed.send(1, &frame(1, 2));
    bed.receive(3);
    bed.agent.switch().remove_port(3).unwrap();
    let told = status(&mut bed);
    assert_eq!((told.reason, told.desc.port_no), (PortReason::Delete, PortNo(3)));
}

#[test]
fn statistics_of_ports_and_queues() {
    let mut bed = Bed::new(2);
    bed.ok(add(from_port(1), apply([output(2)])));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    // A worker counts what it has sent.
    bed.until("it is counted", |bed| bed.agent.switch().port_counters()[1].1.tx_packets == 1);
    let parts = bed.ask(V13, MultipartRequestBody::PortStats(PortNo::ANY));
    let [MultipartReplyBody::PortStats(stats)] = &parts[..] else { panic!("{parts:?}") };
    let counts: Vec<_> = stats.iter().map(|s| (s.rx_packets, s.tx_packets, s.tx_bytes)).collect();
    assert_eq!(counts, [(1, 0, 0), (0, 1, 60)]);
    let parts = bed.ask(V13, MultipartRequestBody::PortStats(PortNo(2)));
    assert!(matches!(&parts[..], [MultipartReplyBody::PortStats(s)] if s.len() == 1));
    let bad = MultipartRequestBody::PortStats(PortNo(9));
    assert_eq!(bed.refused(bad), ErrorCode::BrcBadPort);
    let queues = |port, queue| {
        let request = QueueStatsRequest { port_no: PortNo(port), queue_id: QueueId(queue) };
        MultipartRequestBody::Queue(request)
    };
    bed.ok(queues(PortNo::ANY.0, QueueId::ALL.0));
    bed.ok(queues(1, QueueId::ALL.0));
    assert_eq!(bed.refused(queues(9, QueueId::ALL.0)), ErrorCode::QofcBadPort);
    assert_eq!(bed.refused(queues(1, 0)), ErrorCode::QofcBadQueue);
    let config = |port| Message::QueueGetConfigRequest(QueueConfigRequest { port_no: port });
    assert_eq!(bed.ok(config(PortNo(1))).len(), 1);
    assert_eq!(bed.refused(config(PortNo(9))), ErrorCode::QofcBadPort);
}

#[test]
fn queues_are_told_and_count_what_leaves_by_them() {
    let mut bed = Bed::new(2);
    let settings = ["2,max=8M", "2:1,min=2M,max=4M", "2:7,weight=3"];
    let settings = settings.map(|text| Setting::parse(text).unwrap());
    bed.agent.switch().set_queues(&settings).unwrap();
    let by_queue = |queue| apply([Action::SetQueue(QueueId(queue)), output(2)]);
    bed.ok(add(from_port(1), by_queue(7)));
    bed.send(1, &frame(1, 2));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.receive(2);
    // One that is not there is the default one.
    bed.ok(add(from_port(1), by_queue(3)));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.until("it is counted", |bed| bed.agent.switch().port_counters()[1].1.tx_packets == 3);
    let queues = |port, queue| QueueStatsRequest { port_no: port, queue_id: QueueId(queue) };
    let stats = |bed: &mut Bed, version, port, queue| {
        let parts = bed.ask(version, MultipartRequestBody::Queue(queues(port, queue)));
        let [MultipartReplyBody::Queue(stats)] = &parts[..] else { panic!("{parts:?}") };
        let told = |s: &QueueStats| (s.port_no.0, s.queue_id.0, s.tx_packets, s.tx_bytes);
        stats.iter().map(told).collect::<Vec<_>>()
    };
    let all = [(2, 0, 1, 60), (2, 1, 0, 0), (2, 7, 2, 120)];
    for version in [V10, V13, Version::V14] {
        assert_eq!(stats(&mut bed, version, PortNo(2), QueueId::ALL.0), all);
    }
    assert_eq!(stats(&mut bed, V13, PortNo::ANY, QueueId::ALL.0), all);
    assert_eq!(stats(&mut bed, V13, PortNo::ANY, 7), all[2..]);
    let none = MultipartRequestBody::Queue(queues(PortNo(2), 5));
    assert_eq!(bed.refused(none), ErrorCode::QofcBadQueue);
    let ask = Message::QueueGetConfigRequest(QueueConfigRequest { port_no: PortNo(2) });
    let parts = bed.ok(ask);
    let [Message::QueueGetConfigReply(reply)] = &parts[..] else { panic!("{parts:?}") };
    let told: Vec<_> = reply.queues.iter().map(|q| (q.queue_id.0, &q.properties[..])).collect();
    let rates = [QueueProperty::MinRate(250), QueueProperty::MaxRate(500)];
    assert_eq!(told, [(0, &[][..]), (1, &rates[..]), (7, &[][..])]);
    let parts = bed.ask(Version::V14, MultipartRequestBody::QueueDesc(queues(PortNo(2), 1)));
    let [MultipartReplyBody::QueueDesc(descs)] = &parts[..] else { panic!("{parts:?}") };
    assert_eq!(descs[0].properties, rates);
    bed.agent.switch().clear_queues(2).unwrap();
    assert_eq!(stats(&mut bed, V13, PortNo(2), QueueId::ALL.0), []);
}

#[test]
fn the_switch_describes_itself() {
    let mut bed = Bed::new(2);
    let features = |bed: &mut Bed, version| -> Features {
        match &bed.ok(Request(version, Message::FeaturesRequest))[..] {
            [Message::FeaturesReply(features)] => features.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((features(&mut bed, V13).n_tables, features(&mut bed, V13).ports.len()), (8, 0));
    assert_eq!((features(&mut bed, V10).n_tables, features(&mut bed, V10).ports.len()), (1, 2));
    bed.ok(MultipartRequestBody::Desc);
    let tables = |bed: &mut Bed, version| match &bed.ask(version, MultipartRequestBody::Table)[..] {
        [MultipartReplyBody::Table(tables)] => tables.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(tables(&mut bed, V13).len(), 8);
    let old = tables(&mut bed, V10);
    assert_eq!((old.len(), old[0].max_entries), (1, 100));
    let parts = bed.ask(V13, MultipartRequestBody::TableFeatures(vec![]));
    let features: usize = parts
        .iter()
        .map(|p| match p {
            MultipartReplyBody::TableFeatures(f) => f.len(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!(features, 8);
    let change = vec![openflow::TableFeatures::default()];
    let request = MultipartRequestBody::TableFeatures(change);
    assert_eq!(bed.refused(request), ErrorCode::TffcBadMaxEntries);
    bed.ok(MultipartRequestBody::GroupFeatures);
    bed.ok(MultipartRequestBody::MeterFeatures);
    let vendor = openflow::Experimenter { experimenter: 7, exp_type: Some(0), data: vec![] };
    assert_eq!(bed.refused(Message::Experimenter(vendor)), ErrorCode::BrcBadExperimenter);
    assert_eq!(bed.refused(Message::BarrierReply), ErrorCode::BrcBadType);
    let table = |table, config| {
        let table_id = TableId(table);
        Message::TableMod(TableMod { table_id, config, eviction: None, vacancy: None })
    };
    bed.ok(table(0xff, 3));
    assert_eq!(bed.refused(table(8, 0)), ErrorCode::TmfcBadTable);
    assert_eq!(bed.refused(table(0, 4)), ErrorCode::TmfcBadConfig);
}

#[test]
fn configuration_is_kept() {
    let mut bed = Bed::new(2);
    let config = |bed: &mut Bed| match &bed.ok(Message::GetConfigRequest)[..] {
        [Message::GetConfigReply(config)] => *config,
        other => panic!("{other:?}"),
    };
    assert_eq!(config(&mut bed), SwitchConfig::DEFAULT);
    let drop = SwitchConfig { fragments: FragmentHandling::Drop, miss_send_len: 0xffff };
    bed.ok(Message::SetConfig(drop));
    assert_eq!(config(&mut bed), drop);
    let reassemble = SwitchConfig { fragments: FragmentHandling::Reassemble, ..drop };
    assert_eq!(bed.refused(Message::SetConfig(reassemble)), ErrorCode::ScfcBadFlags);
    assert_eq!(config(&mut bed), drop);
    // A first fragment is dropped now, a whole packet is not.
    bed.ok(add(from_port(1), apply([output(2)])));
    let ipv4 = |fragment: u16| {
        let mut bytes = frame(1, 2);
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14] = 0x45;
        bytes[17] = 46;
        bytes[20..22].copy_from_slice(&fragment.to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 17]);
        bytes
    };
    bed.send(1, &ipv4(0x2000));
    bed.silent(2);
    bed.send(1, &ipv4(0));
    bed.receive(2);
    bed.ok(Message::SetConfig(SwitchConfig::DEFAULT));
    bed.send(1, &ipv4(0x2000));
    bed.receive(2);
}

//= openflow-1.3.5 §7.2.1: NO_RECV and PORT_DOWN drop what comes in, NO_FWD what would go out.
#[test]
fn closed_ports_pass_nothing() {
    let mut bed = Bed::new(3);
    bed.ok(add(from_port(1), apply([output(2), output(3)])));
    let set = |bed: &mut Bed, port, config, mask| {
        let request = port_mod(bed, port, config, mask);
        bed.ok(Message::PortMod(request));
        status(bed);
    };
    for (port, bit) in [(1, PortConfig::NO_RECV), (1, PortConfig::PORT_DOWN)] {
        set(&mut bed, port, bit, bit);
        bed.send(1, &frame(1, 2));
        bed.silent(2);
        set(&mut bed, port, PortConfig::empty(), bit);
        let switch = bed.agent.switch().clone();
        bed.until("the port is up again", |_| switch.port(1).unwrap().is_live());
        bed.send(1, &frame(1, 2));
        bed.receive(2);
        bed.receive(3);
    }
    for bit in [PortConfig::NO_FWD, PortConfig::PORT_DOWN] {
        set(&mut bed, 2, bit, bit);
        bed.send(1, &frame(1, 2));
        bed.receive(3);
        bed.silent(2);
        set(&mut bed, 2, PortConfig::empty(), bit);
        let switch = bed.agent.switch().clone();
        bed.until("the port is up again", |_| switch.port(2).unwrap().is_live());
        bed.send(1, &frame(1, 2));
        bed.receive(3);
        bed.receive(2);
    }
}

//= openflow-1.3.5 §4.5: outputs to LOCAL go nowhere while there is no such port.
#[test]
fn a_local_port_that_is_not_there_takes_nothing() {
    let mut bed = Bed::new(2);
    bed.ok(add(from_port(1), apply([openflow::Action::output(PortNo::LOCAL), output(2)])));
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    let bad = MultipartRequestBody::PortStats(PortNo::LOCAL);
    assert_eq!(bed.refused(bad), ErrorCode::BrcBadPort);
}

//= openflow-1.0.2 §5.3.1: every action of 1.0 is told of as supported.
//= openflow-1.3.5 §7.3.5.5.2: every table tells instructions, next tables, actions and fields.
#[test]
fn features_say_what_there_is() {
    use openflow::{InstructionType, TableProperty};
    let mut bed = Bed::new(1);
    let replies = bed.ok(Request(V10, Message::FeaturesRequest));
    let [Message::FeaturesReply(f)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!((f.actions, f.n_buffers), (0xfff, 0));
    let parts = bed.ask(V13, MultipartRequestBody::TableFeatures(vec![]));
    let tables = parts.iter().flat_map(|p| match p {
        MultipartReplyBody::TableFeatures(f) => f,
        other => panic!("{other:?}"),
    });
    for (n, t) in tables.enumerate() {
        assert_eq!((usize::from(t.table_id.0), t.max_entries), (n, 100));
        let has = |of: &dyn Fn(&TableProperty) -> bool| t.properties.iter().any(of);
        let goto = |p: &TableProperty| match p {
            TableProperty::Instructions { types, .. } => {
                types.contains(&InstructionType::GotoTable)
            }
            _ => false,
        };
        assert_eq!(has(&goto), n < 7);
        let next = |p: &TableProperty| match p {
            TableProperty::NextTables { tables, .. } => tables.len() == 7 - n,
            _ => false,
        };
        assert!(has(&next));
        // Each kind is there for entries; a miss has no property of its own, so the same holds.
        let kinds: [fn(&TableProperty) -> bool; 6] = [
            |p| matches!(p, TableProperty::WriteActions { miss: false, .. }),
            |p| matches!(p, TableProperty::ApplyActions { miss: false, .. }),
            // All but those of 1.4 and 1.5, three of their own, and those of Geneve options.
            |p| matches!(p, TableProperty::Match(f) if f.len() == openflow::FIELDS.len() - 16 - 64),
            |p| matches!(p, TableProperty::Wildcards(f) if f.len() == openflow::FIELDS.len() - 16 - 64),
            |p| matches!(p, TableProperty::WriteSetField { miss: false, .. }),
            |p| matches!(p, TableProperty::ApplySetField { miss: false, .. }),
        ];
        assert!(kinds.iter().all(|kind| t.properties.iter().any(kind)));
    }
}
