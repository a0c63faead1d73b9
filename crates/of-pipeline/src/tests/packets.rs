//! Packets to and from controllers, misses, NORMAL.

use super::bed::*;
use crate::Event;
use openflow::{
    Action, FieldId, FlowMod, FlowModFlags, Instruction, Instructions, Match, Message,
    MultipartReplyBody, MultipartRequestBody, PacketIn, PacketInReason, PacketOut, PortNo, TableId,
};

fn controller() -> Action {
    Action::Output { port: PortNo::CONTROLLER, max_len: 20 }
}

fn packet_in(bed: &mut Bed) -> (PacketIn, [bool; 2]) {
    bed.event(|e| match e {
        Event::PacketIn(p) => Some((p.clone(), [V10, V13].map(|v| e.is_for(v)))),
        _ => None,
    })
}

#[test]
fn packet_ins_carry_the_whole_packet_and_where_it_was() {
    let mut bed = Bed::new(2);
    let list = vec![
        Instruction::WriteMetadata { value: 0x55, mask: 0xff },
        Instruction::GotoTable(TableId(2)),
    ];
    bed.ok(add(Match::new(), Instructions::from_vec(list)));
    bed.ok(FlowMod {
        cookie: 0xabc,
        table_id: TableId(2),
        ..add(Match::new(), apply([Action::set_field(FieldId::TunnelId, 9), controller()]))
    });
    bed.send(2, &frame(1, 2));
    let (p, told) = packet_in(&mut bed);
    assert_eq!(p.data, frame(1, 2), "not kept, so whole, whatever max_len says");
    assert_eq!((p.total_len, p.buffer_id), (60, None));
    assert_eq!((p.reason, p.table_id, p.cookie), (PacketInReason::Action, TableId(2), 0xabc));
    let fields = Match::new()
        .with(FieldId::InPort, 2)
        .with(FieldId::Metadata, 0x55)
        .with(FieldId::TunnelId, 9);
    assert_eq!(p.matching, fields);
    assert_eq!(told, [true, true]);
}

#[test]
fn misses_are_dropped_unless_an_entry_or_1_0_wants_them() {
    let mut bed = Bed::new(1);
    bed.send(1, &frame(1, 2));
    bed.no_event();
    // A table-miss entry: everybody is told.
    let miss = FlowMod { priority: 0, cookie: 3, ..add(Match::new(), apply([controller()])) };
    bed.ok(miss.clone());
    bed.send(1, &frame(1, 2));
    let (p, told) = packet_in(&mut bed);
    assert_eq!((p.reason, p.cookie, told), (PacketInReason::NoMatch, 3, [true, true]));
    // The same as any other entry but for its priority: an action.
    bed.ok(FlowMod { priority: 1, ..miss });
    bed.send(1, &frame(1, 2));
    assert_eq!(packet_in(&mut bed).0.reason, PacketInReason::Action);
    bed.ok(delete(Match::new()));
    // No entry at all, while a 1.0 controller is connected.
    bed.agent.set_miss_to_controller(true);
    bed.send(1, &frame(1, 2));
    let (p, told) = packet_in(&mut bed);
    assert_eq!((p.reason, p.cookie), (PacketInReason::NoMatch, PacketIn::NO_COOKIE));
    assert_eq!((p.data, told), (frame(1, 2), [true, false]));
    bed.agent.set_miss_to_controller(false);
    bed.send(1, &frame(1, 2));
    bed.no_event();
}

#[test]
fn lookups_and_matches_are_counted() {
    let mut bed = Bed::new(2);
    let goto = Instruction::GotoTable(TableId(1));
    bed.ok(add(from_port(1), Instructions::from_iter([goto])));
    bed.agent.set_miss_to_controller(true);
    bed.send(1, &frame(1, 2));
    bed.send(2, &frame(1, 2));
    packet_in(&mut bed);
    let parts = bed.ask(V13, MultipartRequestBody::Table);
    let [MultipartReplyBody::Table(tables)] = &parts[..] else { panic!("{parts:?}") };
    let counts: Vec<_> =
        tables.iter().take(3).map(|t| (t.active_count, t.lookup_count, t.matched_count)).collect();
    assert_eq!(counts, [(1, 2, 1), (0, 1, 0), (0, 0, 0)]);
}

#[test]
fn packet_outs_reach_ports_tables_and_the_controller() {
    let mut bed = Bed::new(3);
    let out = |actions| PacketOut {
        buffer_id: None,
        in_port: PortNo(1),
        pipeline: openflow::Match::new(),
        actions,
        data: frame(1, 2),
    };
    bed.ok(out(vec![Action::set_field(FieldId::EthSrc, 7), output(2)]));
    assert_eq!(bed.receive(2), frame(1, 7));
    // An entry committed before is in force; the ingress port is the one that was told.
    bed.ok(add(from_port(1), apply([output(3)])));
    bed.ok(out(vec![Action::output(PortNo::TABLE)]));
    assert_eq!(bed.receive(3), frame(1, 2));
    bed.ok(out(vec![Action::output(PortNo::ALL)]));
    bed.receive(2);
    bed.receive(3);
    bed.silent(1);
    bed.ok(out(vec![Action::output(PortNo::IN_PORT)]));
    bed.receive(1);
    bed.ok(out(vec![Action::output(PortNo::CONTROLLER)]));
    let (p, _) = packet_in(&mut bed);
    assert_eq!((p.reason, p.in_port()), (PacketInReason::PacketOut, PortNo(1)));
}

#[test]
fn an_invalid_ttl_is_told_to_those_who_know_it() {
    let mut bed = Bed::new(2);
    let ip = Match::new().with(FieldId::EthType, 0x0800);
    bed.ok(add(ip, apply([Action::DecNwTtl, output(2)])));
    let mut bytes = frame(1, 2);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14] = 0x45;
    bytes[17] = 46;
    bytes[22..24].copy_from_slice(&[1, 253]);
    bed.send(1, &bytes);
    let (p, told) = packet_in(&mut bed);
    assert_eq!((p.reason, told), (PacketInReason::InvalidTtl, [false, true]));
    bed.silent(2);
}

#[test]
fn normal_learns_moves_and_forgets() {
    let mut bed = Bed::new(3);
    let normal = || Action::output(PortNo::NORMAL);
    bed.ok(add(Match::new(), apply([normal()])));
    let (a, b) = (0x0200_0000_000a, 0x0200_0000_000b);
    // Unknown: everywhere. Then the other way: one port.
    bed.send(1, &frame(b, a));
    bed.receive(2);
    bed.receive(3);
    bed.until("a is learnt", |bed| bed.agent.stations().port(0, a) == Some(1));
    bed.send(2, &frame(a, b));
    bed.receive(1);
    bed.silent(3);
    bed.until("b is learnt", |bed| bed.agent.stations().port(0, b) == Some(2));
    bed.send(1, &frame(b, a));
    bed.receive(2);
    bed.silent(3);
    // Moved.
    bed.send(3, &frame(b, a));
    bed.receive(2);
    bed.until("a moved", |bed| bed.agent.stations().port(0, a) == Some(3));
    bed.send(2, &frame(a, b));
    bed.receive(3);
    bed.silent(1);
    // A VLAN is a world of its own.
    let mut tagged = frame(b, a);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    bed.send(1, &tagged);
    bed.receive(2);
    bed.receive(3);
    bed.until("a is in VLAN 5", |bed| bed.agent.stations().port(5, a) == Some(1));
    assert_eq!(bed.agent.stations().port(0, a), Some(3));
    // A port goes down, its stations with it.
    bed.far[2].set_carrier(false);
    bed.until("a is forgotten", |bed| bed.agent.stations().port(0, a).is_none());
    assert_eq!(bed.agent.stations().len(), 2);
    // NORMAL's own tables are not OpenFlow's.
    assert_eq!(bed.flows(TableId::ALL).len(), 1);
}

/// Both engines: who was not heard of for longest comes first, and gives way first, wherever it was learnt.
#[test]
fn stations_are_told_and_give_way_as_in_open_vswitch() {
    for engine in [switch::EngineKind::default(), switch::EngineKind::Interp] {
        let mut bed = Bed::by(engine, super::bed::program(), 3);
        bed.ok(add(Match::new(), apply([Action::output(PortNo::NORMAL)])));
        let told = |bed: &Bed| {
            let stations = bed.agent.stations();
            stations
                .seen(bed.agent.switch())
                .map(|(_, mac, port, _)| (mac, port))
                .collect::<Vec<_>>()
        };
        let from = |bed: &mut Bed, port: u32, mac: u64| {
            bed.send(port as usize, &frame(0xffff_ffff_ffff, mac));
            (1..=3)
                .filter(|other| *other != port)
                .for_each(|other| drop(bed.receive(other as usize)));
        };
        let (a, b, c) = (0x0200_0000_000c, 0x0200_0000_000b, 0x0200_0000_000a);
        for (port, mac) in [(1, a), (2, b), (3, c)] {
            from(&mut bed, port, mac);
            bed.until("it is learnt", |bed| told(bed).last() == Some(&(mac, port)));
        }
        assert_eq!(told(&bed), [(a, 1), (b, 2), (c, 3)]);
        from(&mut bed, 1, a);
        bed.until("one that was heard of is last", |bed| told(bed) == [(b, 2), (c, 3), (a, 1)]);
        from(&mut bed, 3, b);
        bed.until("so is one that moved", |bed| told(bed) == [(c, 3), (a, 1), (b, 3)]);
        // The table is filled by port 3. The one of it that was silent for longest goes, and a refreshed one stays.
        for n in 0..13 {
            let mac = 0x0200_0000_0100 + n;
            from(&mut bed, 3, mac);
            bed.until("it is learnt", |bed| told(bed).last() == Some(&(mac, 3)));
        }
        from(&mut bed, 3, c);
        bed.until("it was heard of", |bed| told(bed).last() == Some(&(c, 3)));
        let last = 0x0200_0000_0200;
        from(&mut bed, 2, last);
        bed.until("there is room", |bed| told(bed).last() == Some(&(last, 2)));
        let all = told(&bed);
        assert_eq!(all.len(), 16);
        assert!(
            all.contains(&(a, 1)) && all.contains(&(c, 3)) && !all.contains(&(b, 3)),
            "{all:?}"
        );
    }
}

#[test]
fn group_addresses_are_not_learnt_and_a_full_table_makes_room() {
    let mut bed = Bed::new(2);
    bed.ok(add(Match::new(), apply([Action::output(PortNo::NORMAL)])));
    bed.send(1, &frame(2, 0x0100_0000_0001));
    bed.receive(2);
    for n in 0..20 {
        bed.send(1, &frame(2, 0x0200_0000_0000 + n));
        bed.receive(2);
        bed.agent.poll();
    }
    bed.until("as many as there is room for", |bed| bed.agent.stations().len() == 16);
    // The last ones took the places of the first ones.
    let last = 0x0200_0000_0000 + 19;
    bed.until("the last is learnt", |bed| bed.agent.stations().port(0, last) == Some(1));
    assert_eq!(bed.agent.stations().len(), 16);
    assert_eq!(bed.agent.stations().port(0, 0x0200_0000_0000), None);
}

/// Both engines: stations that talk stay known through a flood of addresses at another port, and what
/// is sent to them goes to their ports alone.
#[test]
fn a_flood_of_addresses_at_one_port_leaves_the_stations_of_others() {
    for engine in [switch::EngineKind::default(), switch::EngineKind::Interp] {
        let mut bed = Bed::by(engine, super::bed::program(), 3);
        bed.ok(add(Match::new(), apply([Action::output(PortNo::NORMAL)])));
        for n in 0..60 {
            bed.send(1, &frame(2, 0x0200_0000_0100 + n));
            bed.receive(2);
            bed.receive(3);
            bed.agent.poll();
        }
        bed.until("the table is full", |bed| bed.agent.stations().len() == 16);
        // Two hosts behind other ports begin to talk now, and the flood goes on.
        let (a, b) = (0x0200_0000_000a, 0x0200_0000_000b);
        bed.send(2, &frame(b, a));
        bed.receive(1);
        bed.receive(3);
        bed.until("a is learnt", |bed| bed.agent.stations().port(0, a) == Some(2));
        bed.send(3, &frame(a, b));
        bed.receive(2);
        bed.until("b is learnt", |bed| bed.agent.stations().port(0, b) == Some(3));
        for n in 0..60 {
            bed.send(1, &frame(2, 0x0200_0000_0200 + n));
            bed.receive(2);
            bed.receive(3);
            bed.agent.poll();
        }
        assert_eq!(bed.agent.stations().port(0, a), Some(2));
        assert_eq!(bed.agent.stations().port(0, b), Some(3));
        bed.send(2, &frame(b, a));
        bed.receive(3);
        bed.silent(1);
        let evicted = bed.agent.switch().tallies().into_iter().find(|t| t.0 == "stations_evicted");
        assert!(evicted.is_some_and(|(_, n)| n >= 40), "{evicted:?}");
    }
}

/// A burst of addresses that nobody learns in time fills what there is for news of them. Hosts that begin to talk behind it
/// are learnt all the same.
#[test]
fn hosts_behind_a_flood_of_addresses_that_was_too_much_are_learnt() {
    for engine in [switch::EngineKind::default(), switch::EngineKind::Interp] {
        let mut bed = Bed::by(engine, super::bed::program(), 3);
        bed.ok(add(Match::new(), apply([Action::output(PortNo::NORMAL)])));
        for round in 0..200u64 {
            let frames: Vec<_> =
                (0..100).map(|n| frame(2, 0x0200_0100_0000 + round * 100 + n)).collect();
            bed.burst(1, &frames);
            // The others' ports are emptied; the agent is not asked.
            for port in [2, 3] {
                while bed.taken(port).is_some() {}
            }
        }
        let (a, b) = (0x0200_0000_000a, 0x0200_0000_000b);
        bed.send(2, &frame(b, a));
        bed.until("a is learnt", |bed| bed.agent.stations().port(0, a) == Some(2));
        bed.send(3, &frame(a, b));
        bed.until("b is learnt", |bed| bed.agent.stations().port(0, b) == Some(3));
    }
}

#[test]
fn standing_alone_the_switch_learns_below_the_entries() {
    let mut bed = Bed::new(3);
    bed.ok(add(from_port(3), apply([])));
    bed.send(1, &frame(1, 2));
    bed.silent(2);
    bed.agent.set_miss_to_controller(true);
    bed.agent.set_standalone(true);
    bed.send(1, &frame(1, 2));
    bed.receive(2);
    bed.receive(3);
    bed.send(3, &frame(1, 2));
    bed.silent(1);
    assert_eq!(bed.flows(TableId::ALL).len(), 1, "entries stay, and nothing is added");
    bed.until("learnt", |bed| bed.agent.stations().len() == 1);
    bed.agent.set_standalone(false);
    bed.send(1, &frame(1, 2));
    assert_eq!(packet_in(&mut bed).0.reason, PacketInReason::NoMatch);
    bed.silent(2);
    bed.agent.set_miss_to_controller(false);
}

#[test]
fn flow_removed_of_later_tables_is_not_for_1_0() {
    let mut bed = Bed::new(1);
    let flags = FlowModFlags::SEND_FLOW_REM;
    bed.ok(FlowMod { flags, table_id: TableId(1), ..add(from_port(1), apply([])) });
    bed.ok(FlowMod { flags, ..add(from_port(1), apply([])) });
    bed.ok(delete(Match::new()));
    let told: Vec<_> = bed.agent.poll().iter().map(|e| [V10, V13].map(|v| e.is_for(v))).collect();
    assert_eq!(told, [[true, true], [false, true]]);
}

#[test]
fn multipart_requests_in_parts_are_refused() {
    let mut bed = Bed::new(1);
    let body = MultipartRequestBody::Desc;
    let request = openflow::MultipartRequest { more: true, body };
    let code = bed.refused(Message::MultipartRequest(request));
    assert_eq!(code, openflow::ErrorCode::BrcMultipartBufferOverflow);
}

#[test]
fn entries_of_1_0_are_no_table_miss_entries() {
    //= openflow-1.3.5 §5.4: the table-miss entry is one of 1.3 on; in 1.0 it is like any other.
    let mut bed = Bed::new(2);
    let all = FlowMod { priority: 0, ..add(Match::new(), apply([controller()])) };
    for (request, reason) in [
        (v10(all.clone()), PacketInReason::Action),
        (all.clone(), PacketInReason::NoMatch),
        (v10(all), PacketInReason::Action),
    ] {
        bed.ok(request);
        bed.send(1, &frame(1, 2));
        assert_eq!(packet_in(&mut bed).0.reason, reason);
    }
}

#[test]
fn what_has_no_tag_is_not_stripped_in_1_0() {
    let mut bed = Bed::new(2);
    let untagged = Match::new().with(FieldId::VlanVid, 0);
    let strip = add(untagged, apply([Action::PopVlan, output(2)]));
    assert_eq!(bed.refused(strip.clone()), openflow::ErrorCode::BacMatchInconsistent);
    bed.ok(v10(strip));
    bed.send(1, &frame(1, 2));
    assert_eq!(bed.receive(2), frame(1, 2));
}

#[test]
fn a_station_that_was_put_at_a_port_stays_there_until_it_is_removed() {
    use crate::normal::StationRefusal;
    use crate::vlans::{NormalConfig, StationConfig};
    for engine in [switch::EngineKind::Interp, switch::EngineKind::default()] {
        let mut bed = Bed::by(engine, of_lower::ProgramConfig::default(), 3);
        bed.ok(add(Match::new(), apply([Action::output(PortNo::NORMAL)])));
        let (a, b) = (0x0200_0000_000a, 0x0200_0000_000b);
        // It was learnt elsewhere before.
        bed.send(2, &frame(b, a));
        bed.until("a is learnt", |bed| bed.agent.stations().port(0, a) == Some(2));
        [1, 3].iter().for_each(|port| drop(bed.receive(*port)));
        bed.agent.add_station(0, a, 1).unwrap();
        bed.send(3, &frame(a, b));
        bed.receive(1);
        bed.silent(2);
        // Its packets at another port are forwarded, and move nothing.
        bed.until("b is learnt", |bed| bed.agent.stations().port(0, b) == Some(3));
        bed.send(2, &frame(b, a));
        bed.receive(3);
        let told = |bed: &Bed| {
            bed.agent.switch().tallies().iter().any(|(what, n)| *what == "stations_fixed" && *n > 0)
        };
        bed.until("it is told", told);
        assert_eq!(bed.agent.stations().port(0, a), Some(1));
        // Neither a flush nor its link makes it go, and nobody takes its place.
        assert_eq!(bed.agent.forget_stations(), 1);
        bed.far[0].set_carrier(false);
        bed.until("the port is down", |bed| !bed.agent.switch().port(1).unwrap().is_live());
        bed.agent.poll();
        bed.far[0].set_carrier(true);
        bed.until("the port is up", |bed| bed.agent.switch().port(1).unwrap().is_live());
        let seen: Vec<_> = bed.agent.stations().seen(bed.agent.switch()).collect();
        assert_eq!(seen, [(0, a, 1, None)]);
        let stations = StationConfig { max: Some(1), ..StationConfig::default() };
        let flood_vlans = [7].into_iter().collect();
        let config = NormalConfig { stations, flood_vlans, ..NormalConfig::default() };
        bed.agent.set_normal_config(config).unwrap();
        assert_eq!(bed.agent.add_station(0, b, 2), Err(StationRefusal::Full(1)));
        assert_eq!(bed.agent.add_station(7, b, 2), Err(StationRefusal::Flooded(7)));
        assert_eq!(bed.agent.add_station(4096, b, 2), Err(StationRefusal::Vlan(4096)));
        assert_eq!(bed.agent.add_station(0, b, 9), Err(StationRefusal::NoPort(9)));
        let group = 0x0100_5e00_0001;
        assert_eq!(bed.agent.add_station(0, group, 2), Err(StationRefusal::Address(group)));
        bed.send(3, &frame(a, b));
        bed.receive(1);
        bed.silent(2);
        assert!(!bed.agent.remove_station(0, b), "it was not put there");
        assert!(bed.agent.remove_station(0, a) && !bed.agent.remove_station(0, a));
        bed.send(3, &frame(a, b));
        bed.receive(1);
        bed.receive(2);
    }
}
