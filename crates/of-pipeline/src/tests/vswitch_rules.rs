//! What Open vSwitch's clients expect beyond the specifications: 1.0's requests about all tables, buckets
//! that are more than action sets, ports in registers, 1.0's settings of addresses, modes of fragments.

use super::bed::*;
use openflow::syntax::{Context, parse_flow, parse_group};
use openflow::{
    ErrorCode, FlowMod, FlowModCommand, FlowStats, FragmentHandling, GroupId, GroupMod,
    GroupModCommand, Message, MultipartReplyBody, MultipartRequestBody, PortNo, SwitchConfig,
    TableId, Version,
};
use switch::EngineKind;

fn flow(line: &str) -> FlowMod {
    let flow = parse_flow(line, &Context::new(V13));
    flow.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn group(line: &str) -> GroupMod {
    let group = parse_group(line, &Context::new(V15));
    group.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Runs a test by either engine, on a switch with so many ports.
fn both(ports: usize, test: impl Fn(&mut Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        test(&mut Bed::by(engine, program(), ports));
    }
}

fn with(bed: &mut Bed, groups: &[&str], flows: &[&str]) {
    groups.iter().for_each(|line| drop(bed.ok(group(line))));
    flows.iter().for_each(|line| drop(bed.ok(flow(line))));
}

/// A frame of UDP over IPv4 between two addresses, of so many bytes behind the IP header.
fn udp(src: [u8; 4], dst: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
    let mut bytes = frame(2, 1);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..26].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes[26..30].copy_from_slice(&src);
    bytes[30..34].copy_from_slice(&dst);
    bytes[34..36].copy_from_slice(&ports[0].to_be_bytes());
    bytes[36..38].copy_from_slice(&ports[1].to_be_bytes());
    bytes[38..40].copy_from_slice(&[0, 26]);
    bytes
}

// 1.0's requests without a table number.

/// Entries of three tables: (table, in_port, what it does).
fn in_three_tables(bed: &mut Bed) {
    for line in [
        "table=0,cookie=1,in_port=1 actions=output:2",
        "table=3,cookie=2,in_port=1 actions=output:2",
        "table=3,cookie=3,in_port=2 actions=output:1",
        "table=7,cookie=4,priority=9,in_port=1,dl_type=0x800 actions=output:3",
    ] {
        bed.ok(flow(line));
    }
}

fn cookies(bed: &mut Bed) -> Vec<u64> {
    let mut all: Vec<u64> = bed.flows(TableId::ALL).iter().map(|f| f.cookie).collect();
    all.sort_unstable();
    all
}

fn of_1_0(command: FlowModCommand, line: &str) -> FlowMod {
    with_command(command, v10(flow(&format!("{line} actions=drop"))))
}

#[test]
fn deletes_of_1_0_reach_all_tables() {
    use FlowModCommand::{Delete, DeleteStrict};
    let out = |port| FlowMod { out_port: PortNo(port), ..of_1_0(Delete, "") };
    let cases: [(FlowMod, &[u64]); 8] = [
        (of_1_0(Delete, ""), &[]),
        (of_1_0(Delete, "in_port=1"), &[3]),
        (of_1_0(Delete, "ip"), &[1, 2, 3]),
        (out(2), &[3, 4]),
        (out(9), &[1, 2, 3, 4]),
        (of_1_0(DeleteStrict, "in_port=1"), &[3, 4]),
        (of_1_0(DeleteStrict, "priority=9,in_port=1,ip"), &[1, 2, 3]),
        // NXM's says a table, or a cookie.
        (FlowMod { extended: true, table_id: TableId(3), ..of_1_0(Delete, "") }, &[1, 4]),
    ];
    for (request, left) in cases {
        let mut bed = Bed::new(3);
        in_three_tables(&mut bed);
        bed.ok(request.clone());
        assert_eq!(cookies(&mut bed), left, "{request:?}");
    }
    let mut bed = Bed::new(3);
    in_three_tables(&mut bed);
    let nxm = FlowMod { extended: true, cookie: 2, cookie_mask: 2, ..of_1_0(Delete, "") };
    bed.ok(nxm);
    assert_eq!(cookies(&mut bed), [1, 4]);
}

fn actions_of(bed: &mut Bed, table: u8, cookie: u64) -> String {
    let flows = bed.flows(TableId(table));
    let found = flows.iter().find(|f: &&FlowStats| f.cookie == cookie);
    format!("{:?}", found.unwrap_or_else(|| panic!("{flows:?}")).instructions)
}

#[test]
fn modifies_of_1_0_reach_all_tables_and_add_to_the_first() {
    use FlowModCommand::{Modify, ModifyStrict};
    let to = |command, line: &str| with_command(command, v10(flow(line)));
    let mut bed = Bed::new(3);
    in_three_tables(&mut bed);
    // Both tables' entries, and the one that is narrower; the cookie is the message's.
    bed.ok(to(Modify, "cookie=5,in_port=1 actions=output:3"));
    assert_eq!(cookies(&mut bed), [3, 5, 5, 5]);
    for table in [0, 3, 7] {
        assert!(actions_of(&mut bed, table, 5).contains("PortNo(3)"));
    }
    // Strict: those of the same priority and match, in every table.
    bed.ok(to(ModifyStrict, "cookie=6,in_port=1 actions=output:2"));
    assert_eq!(cookies(&mut bed), [3, 5, 6, 6]);
    // What finds nothing adds, to the first table.
    bed.ok(to(Modify, "cookie=7,in_port=3 actions=output:2"));
    bed.ok(to(ModifyStrict, "cookie=8,priority=1,in_port=1 actions=output:2"));
    assert_eq!(cookies(&mut bed), [3, 5, 6, 6, 7, 8]);
    assert_eq!(bed.flows(TableId(0)).len(), 3);
    // A resubmit to the entry's own table is to that of each.
    bed.ok(to(Modify, "cookie=9,in_port=2 actions=resubmit(1,3),output:1"));
    assert_eq!(bed.flows(TableId(3)).iter().filter(|f| f.cookie == 9).count(), 1);
}

#[test]
fn a_modify_by_a_cookie_adds_nothing_and_leaves_the_cookie() {
    let modify = |line: &str, cookie, mask, new_cookie| FlowMod {
        extended: true,
        cookie,
        cookie_mask: mask,
        new_cookie,
        ..with_command(FlowModCommand::Modify, v10(flow(line)))
    };
    let mut bed = Bed::new(3);
    in_three_tables(&mut bed);
    bed.ok(modify("actions=output:3", 2, 2, None));
    assert_eq!(cookies(&mut bed), [1, 2, 3, 4]);
    assert!(actions_of(&mut bed, 3, 2).contains("PortNo(3)"));
    assert!(actions_of(&mut bed, 0, 1).contains("PortNo(2)"));
    bed.ok(modify("actions=output:3", 0x77, u64::MAX, None));
    assert_eq!(cookies(&mut bed), [1, 2, 3, 4], "nothing is added");
    bed.ok(modify("actions=output:2", 4, u64::MAX, Some(40)));
    assert_eq!(cookies(&mut bed), [1, 2, 3, 40]);
    // All ones leave the cookie, and then there is none to add an entry with.
    bed.ok(modify("in_port=2 actions=output:3", u64::MAX, 0, None));
    bed.ok(modify("in_port=99 actions=output:3", u64::MAX, 0, None));
    assert_eq!(cookies(&mut bed), [1, 2, 3, 40]);
    assert!(actions_of(&mut bed, 3, 3).contains("PortNo(3)"));
}

// Buckets.

#[test]
fn a_bucket_goes_on_in_a_table_with_what_it_set() {
    both(3, |bed| {
        with(
            bed,
            &[
                "group_id=1,type=select,bucket=weight:100,set_field:0x4000/0x4000->reg0,set_field:1/1->reg0,resubmit(,3)",
                "group_id=2,type=all,bucket=set_field:00:00:00:00:00:cd->eth_dst,load:0x48->NXM_NX_REG6[],resubmit(,4),bucket=output:3",
                "group_id=3,type=indirect,bucket=move:NXM_OF_ETH_SRC[0..31]->NXM_NX_REG5[],resubmit(,5)",
                "group_id=4,type=ff,bucket=watch_port:2,resubmit(,3),load:0x4001->NXM_NX_REG0[]",
            ],
            &[
                "in_port=1,dl_dst=00:00:00:00:00:01 actions=group:1",
                "in_port=1,dl_dst=00:00:00:00:00:02 actions=group:2,output:2",
                "in_port=1,dl_dst=00:00:00:00:00:03 actions=group:3",
                "in_port=1,dl_dst=00:00:00:00:00:04 actions=group:4",
                "table=3,reg0=0x4001 actions=set_field:00:00:00:00:00:ee->eth_src,output:2",
                "table=4,reg6=0x48 actions=output:2",
                "table=5,reg5=0x22 actions=write_actions(output:2)",
            ],
        );
        bed.send(1, &frame(1, 0x22));
        assert_eq!(bed.receive(2), frame(1, 0xee));
        // The other bucket, and what follows the group, know nothing of it.
        bed.send(1, &frame(2, 0x22));
        assert_eq!(bed.receive(2), frame(0xcd, 0x22));
        assert_eq!(bed.receive(2), frame(2, 0x22));
        assert_eq!(bed.receive(3), frame(2, 0x22));
        // What tables write is done when the bucket ends.
        bed.send(1, &frame(3, 0x22));
        assert_eq!(bed.receive(2), frame(3, 0x22));
        // One resubmit is where a set has its output, wherever it is written.
        bed.send(1, &frame(4, 0x22));
        assert_eq!(bed.receive(2), frame(4, 0xee));
    });
}

#[test]
fn a_bucket_with_what_no_set_has_is_done_as_it_is_written() {
    both(3, |bed| {
        with(
            bed,
            &[
                "group_id=1,type=all,bucket=clone(set_field:00:00:00:00:00:aa->eth_src,output:2),set_field:00:00:00:00:00:bb->eth_src,output:3,output:2",
                "group_id=2,type=all,bucket=note:01.02,load:2->NXM_NX_REG0[],output:NXM_NX_REG0[],exit,output:3",
                "group_id=3,type=all,bucket=resubmit(,3),output:3",
                "group_id=4,type=all,bucket=push:NXM_OF_ETH_SRC[],pop:NXM_OF_ETH_DST[],output:2",
            ],
            &[
                "in_port=1,dl_dst=00:00:00:00:00:01 actions=group:1",
                "in_port=1,dl_dst=00:00:00:00:00:02 actions=group:2",
                "in_port=1,dl_dst=00:00:00:00:00:03 actions=write_actions(group:3)",
                "in_port=1,dl_dst=00:00:00:00:00:04 actions=group:4",
                "table=3 actions=set_field:00:00:00:00:00:cc->eth_src,output:2,exit",
            ],
        );
        bed.send(1, &frame(1, 0x22));
        assert_eq!(bed.receive(2), frame(1, 0xaa));
        assert_eq!(bed.receive(2), frame(1, 0xbb));
        assert_eq!(bed.receive(3), frame(1, 0xbb));
        bed.send(1, &frame(2, 0x22));
        assert_eq!(bed.receive(2), frame(2, 0x22));
        // An exit ends the bucket.
        bed.send(1, &frame(3, 0x22));
        assert_eq!(bed.receive(2), frame(3, 0xcc));
        bed.silent(3);
        bed.send(1, &frame(4, 0x22));
        assert_eq!(bed.receive(2), frame(0x22, 0x22));
    });
}

#[test]
fn a_bucket_of_what_a_set_holds_is_a_set() {
    both(3, |bed| {
        with(
            bed,
            &["group_id=1,type=all,bucket=output:3,output:2,set_field:00:00:00:00:00:aa->eth_dst"],
            &["in_port=1 actions=group:1"],
        );
        bed.send(1, &frame(1, 0x22));
        assert_eq!(bed.receive(2), frame(0xaa, 0x22));
        bed.silent(3);
    });
}

#[test]
fn buckets_flood_learn_and_lead_to_other_groups() {
    both(3, |bed| {
        with(
            bed,
            &[
                "group_id=1,type=all,bucket=normal",
                "group_id=2,type=all,bucket=set_field:00:00:00:00:00:aa->eth_dst,FLOOD",
                "group_id=4,type=indirect,bucket=resubmit(,4)",
                "group_id=3,type=indirect,bucket=load:3->NXM_NX_REG2[],clone(group:4)",
                "group_id=5,type=all,bucket=learn(table=6,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:3",
            ],
            &[
                "in_port=1,dl_dst=00:00:00:00:00:01 actions=group:1",
                "in_port=1,dl_dst=00:00:00:00:00:02 actions=group:2",
                "in_port=1,dl_dst=00:00:00:00:00:03 actions=group:3",
                "in_port=1,dl_dst=00:00:00:00:00:04 actions=group:5",
                "table=4,reg2=3 actions=output:2",
            ],
        );
        bed.send(1, &frame(1, 0x22));
        assert_eq!((bed.receive(2), bed.receive(3)), (frame(1, 0x22), frame(1, 0x22)));
        bed.until("NORMAL learns", |bed| bed.agent.stations().port(0, 0x22) == Some(1));
        bed.send(1, &frame(2, 0x22));
        assert_eq!((bed.receive(2), bed.receive(3)), (frame(0xaa, 0x22), frame(0xaa, 0x22)));
        bed.send(1, &frame(3, 0x22));
        assert_eq!(bed.receive(2), frame(3, 0x22));
        bed.send(1, &frame(4, 0x22));
        assert_eq!(bed.receive(3), frame(4, 0x22));
        bed.until("the entry is learned", |bed| bed.agent.flows().len(6) == 1);
        // The group in the clone is one that the bucket leads to.
        let gone = GroupMod { command: GroupModCommand::Delete, ..group("group_id=4,type=all") };
        assert_eq!(bed.refused(gone), ErrorCode::GmfcChainedGroup);
    });
}

#[test]
fn connections_are_tracked_and_translated_in_buckets() {
    both(3, |bed| {
        with(
            bed,
            &[
                "group_id=1,type=all,bucket=ct(commit,nat(dst=192.0.2.9:80)),resubmit(,3)",
                "group_id=2,type=select,bucket=ct(nat(dst=192.0.2.10),commit,table=4)",
            ],
            &[
                "in_port=1,udp,tp_src=1 actions=group:1",
                "in_port=1,udp,tp_src=2 actions=group:2",
                "table=3,udp,nw_dst=192.0.2.9,tp_dst=80 actions=output:2",
                "table=4,ct_state=+trk,udp,nw_dst=192.0.2.10 actions=output:3",
            ],
        );
        let to = [10, 0, 0, 2];
        bed.send(1, &udp([10, 0, 0, 1], to, [1, 53]));
        assert_eq!(bed.receive(2)[30..38], [192, 0, 2, 9, 0, 1, 0, 80]);
        bed.send(1, &udp([10, 0, 0, 1], to, [2, 53]));
        assert_eq!(bed.receive(3)[30..38], [192, 0, 2, 10, 0, 2, 0, 53]);
    });
}

#[test]
fn groups_that_lead_back_to_themselves_through_tables_end() {
    both(3, |bed| {
        with(
            bed,
            &["group_id=1,type=all,bucket=resubmit(,1),bucket=output:2"],
            &["in_port=1 actions=group:1", "in_port=2 actions=output:3", "table=1 actions=group:1"],
        );
        bed.send(1, &frame(1, 2));
        bed.send(2, &frame(1, 2));
        assert_eq!(bed.receive(3), frame(1, 2));
    });
}

#[test]
fn what_buckets_cannot_hold_is_named() {
    let mut bed = Bed::new(2);
    for (line, text) in [
        (
            "group_id=1,type=all,bucket=conjunction(1,1/2)",
            "conjunction cannot be in a group's bucket; it belongs to flow entries instead (OFPBAC_BAD_TYPE)",
        ),
        (
            "group_id=1,type=all,bucket=controller(meter_id=1)",
            "controller with meter_id cannot be in a group's bucket; meter the flow entry instead (OFPBAC_BAD_TYPE)",
        ),
        (
            "group_id=1,type=all,bucket=resubmit(1,)",
            "resubmit leads to a table below 8; in a group's bucket, which belongs to no table, it names one: resubmit(,TABLE) (OFPBAC_BAD_ARGUMENT)",
        ),
        (
            "group_id=1,type=all,bucket=ct(table=9)",
            "there is no table 9 for a flow entry; tables are 0 to 7, and 255 in a delete only (OFPFMFC_BAD_TABLE_ID)",
        ),
    ] {
        assert_eq!(bed.refusal(group(line)).to_string(), text, "{line}");
    }
}

// 1.0's settings.

#[test]
fn settings_of_1_0_leave_alone_what_they_are_not_about() {
    // ARP for IPv4 over Ethernet.
    let mut arp = frame(2, 1);
    arp[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp[28..32].copy_from_slice(&[10, 0, 0, 1]);
    arp[38..42].copy_from_slice(&[10, 0, 0, 2]);
    let mut rarp = arp.clone();
    rarp[12..14].copy_from_slice(&[0x80, 0x35]);
    // An echo request: its type and code lie where others have a port.
    let mut icmp = udp([10, 0, 0, 1], [10, 0, 0, 2], [0x0800, 0]);
    icmp[23] = 1;
    let mut ipv6 = frame(2, 1);
    ipv6[12..21].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59]);
    let plain = frame(2, 1);
    both(2, |bed| {
        let line = "in_port=1 actions=mod_nw_src:198.51.100.1,mod_nw_dst:198.51.100.2,mod_tp_src:7,mod_tp_dst:8,output:2";
        let request = parse_flow(line, &Context::new(V10)).unwrap();
        bed.ok(request);
        for untouched in [&arp, &rarp, &ipv6, &plain] {
            bed.send(1, untouched);
            assert_eq!(bed.receive(2), **untouched);
        }
        bed.send(1, &icmp);
        let out = bed.receive(2);
        assert_eq!(out[26..34], [198, 51, 100, 1, 198, 51, 100, 2]);
        assert_eq!(out[34..], icmp[34..]);
        bed.send(1, &udp([10, 0, 0, 1], [10, 0, 0, 2], [1, 2]));
        assert_eq!(bed.receive(2)[26..38], [198, 51, 100, 1, 198, 51, 100, 2, 0, 7, 0, 8]);
    });
}

// Ports in registers.

#[test]
fn registers_name_reserved_ports_in_either_numbering() {
    both(3, |bed| {
        for (i, (number, bits)) in [
            (0xfff8u32, "[]"),
            (0xffff_fff8, "[]"),
            (0xfff8, "[0..15]"),
            (0xfffb, "[]"),
            (0xffff_fffb, "[]"),
            (0xfffc, "[0..15]"),
            (0xffff_fffc, "[]"),
            (0xfffa, "[]"),
            (0xffff_fffa, "[]"),
            (0xffff, "[]"),
            (0xfff9, "[]"),
        ]
        .into_iter()
        .enumerate()
        {
            bed.ok(flow(&format!(
                "in_port=1,dl_dst=00:00:00:00:00:{i:02x} actions=load:{number:#x}->NXM_NX_REG1[],output:NXM_NX_REG1{bits}"
            )));
        }
        for dst in 0..9 {
            bed.send(1, &frame(dst, 0x22));
            match dst {
                0..=2 => assert_eq!(bed.receive(1), frame(dst, 0x22)),
                _ => assert_eq!(
                    (bed.receive(2), bed.receive(3)),
                    (frame(dst, 0x22), frame(dst, 0x22))
                ),
            }
        }
        // NONE and TABLE are no ports.
        for dst in 9..11 {
            bed.send(1, &frame(dst, 0x22));
        }
        (1..4).for_each(|port| bed.silent(port));
    });
}

#[test]
fn a_bundle_tells_none_in_16_bits_and_fields_output_to_it() {
    both(3, |bed| {
        with(
            bed,
            &[],
            &[
                "in_port=1 actions=bundle_load(eth_src,0,active_backup,ofport,NXM_NX_REG1[],members:8),resubmit(,1)",
                "table=1,reg1=0xffff actions=output:2",
                "in_port=2 actions=bundle_load(eth_src,0,active_backup,ofport,NXM_NX_REG1[],members:8,3),output:NXM_NX_REG1[]",
            ],
        );
        bed.send(1, &frame(1, 2));
        assert_eq!(bed.receive(2), frame(1, 2));
        bed.send(2, &frame(1, 2));
        assert_eq!(bed.receive(3), frame(1, 2));
    });
}

// Fragments.

fn fragments(handling: FragmentHandling) -> Message {
    Message::SetConfig(SwitchConfig { fragments: handling, miss_send_len: 0xffff })
}

/// An IPv4 fragment of UDP: `at` is more-fragments and the offset.
fn fragment(at: u16, ports: [u16; 2]) -> Vec<u8> {
    let mut bytes = udp([10, 0, 0, 1], [10, 0, 0, 2], ports);
    bytes[20..22].copy_from_slice(&at.to_be_bytes());
    bytes
}

/// The same of IPv6, behind an extension header perhaps.
fn fragment_6(at: u16, options: bool) -> Vec<u8> {
    let mut bytes = frame(2, 1);
    bytes[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 44, 64]);
    bytes.resize(54, 1);
    let then = if options { 60 } else { 17 };
    bytes.extend([then, 0, (at >> 8) as u8, at as u8, 0, 0, 0, 1]);
    if options {
        bytes.extend([17, 0, 1, 4, 0, 0, 0, 0]);
    }
    bytes.extend([0, 9, 0, 53, 0, 24, 0, 0]);
    bytes.resize(bytes.len() + 16, 0);
    bytes
}

#[test]
fn fragments_have_the_fields_that_their_mode_gives_them() {
    let whole = udp([10, 0, 0, 1], [10, 0, 0, 2], [9, 53]);
    let (first, later) = (fragment(0x2000, [9, 53]), fragment(0x2001, [9, 53]));
    let last = fragment(0x0001, [9, 53]);
    let v6 = [fragment_6(1, false), fragment_6(1, true)];
    let v6_later = fragment_6(0x11, false);
    let atomic = fragment_6(0, false);
    both(4, |bed| {
        with(
            bed,
            &[],
            &[
                "priority=9,in_port=1,udp,tp_dst=53 actions=output:2",
                "priority=9,in_port=1,udp6,tp_dst=53 actions=output:2",
                "priority=8,in_port=1,udp,tp_dst=0 actions=output:3",
                "priority=8,in_port=1,udp6,tp_dst=0 actions=output:3",
                "priority=7,in_port=1 actions=output:4",
            ],
        );
        let modes = [
            (FragmentHandling::Normal, 3),
            (FragmentHandling::NxMatch, 2),
            (FragmentHandling::Normal, 3),
        ];
        for (mode, firsts) in modes {
            bed.ok(fragments(mode));
            for whole in [&whole, &atomic] {
                bed.send(1, whole);
                assert_eq!(bed.receive(2), **whole, "{mode:?}");
            }
            for first in v6.iter().chain([&first]) {
                bed.send(1, first);
                assert_eq!(bed.receive(firsts), **first, "{mode:?}");
            }
            for later in [&later, &last, &v6_later] {
                bed.send(1, later);
                assert_eq!(bed.receive(3), **later, "{mode:?}");
            }
        }
        bed.ok(fragments(FragmentHandling::Drop));
        for fragment in v6.iter().chain([&first, &later, &last, &v6_later]) {
            bed.send(1, fragment);
        }
        bed.send(1, &whole);
        assert_eq!(bed.receive(2), whole);
        (2..5).for_each(|port| bed.silent(port));
        assert_eq!(bed.refused(fragments(FragmentHandling::Reassemble)), ErrorCode::ScfcBadFlags);
    });
}

/// The ones' complement sum of 16-bit words.
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    (sum + (sum >> 16)) as u16
}

#[test]
fn a_first_fragment_s_checksum_follows_its_addresses_in_either_mode() {
    let mut first = fragment(0x2000, [9, 53]);
    first[40..42].copy_from_slice(&[0x12, 0x34]);
    both(2, |bed| {
        bed.ok(flow("in_port=1,ip actions=set_field:198.51.100.7->ip_src,output:2"));
        let mut seen = Vec::new();
        for mode in [FragmentHandling::Normal, FragmentHandling::NxMatch] {
            bed.ok(fragments(mode));
            bed.send(1, &first);
            let out = bed.receive(2);
            let of = |f: &[u8]| {
                let sums = u32::from(sum(&f[26..30])) + u32::from(sum(&f[40..42]));
                (sums + (sums >> 16)) as u16
            };
            assert_eq!(out[26..30], [198, 51, 100, 7]);
            assert_eq!(of(&out), of(&first), "{mode:?}");
            seen.push(out);
        }
        assert_eq!(seen[0], seen[1]);
        // Hidden ports cannot be set.
        bed.ok(fragments(FragmentHandling::Normal));
        bed.ok(flow("priority=50000,in_port=1,udp actions=set_field:7->udp_dst,output:2"));
        bed.send(1, &first);
        assert_eq!(bed.receive(2), first);
        bed.ok(fragments(FragmentHandling::NxMatch));
        bed.send(1, &first);
        assert_eq!(bed.receive(2)[36..38], [0, 7]);
    });
}

// How select groups and multipath choose.

const V15: Version = Version::V15;

fn by_eth_dst(bed: &mut Bed, packets: &[Vec<u8>]) -> Vec<u8> {
    packets
        .iter()
        .map(|packet| {
            bed.send(1, packet);
            bed.receive(2)[5]
        })
        .collect()
}

/// A select group of buckets that tell their number in the destination's last byte.
fn select(how: &str, numbers: &[u8]) -> GroupMod {
    let bucket = |n: &u8| {
        format!(",bucket=bucket_id:{n},weight:1,set_field:00:00:00:00:00:{n:02x}->eth_dst,output:2")
    };
    let buckets: String = numbers.iter().map(bucket).collect();
    group(&format!("group_id=1,type=select{how}{buckets}"))
}

fn modified(group: GroupMod) -> GroupMod {
    GroupMod { command: GroupModCommand::Modify, ..group }
}

fn senders(n: u8) -> Vec<Vec<u8>> {
    (0..n).map(|i| udp([10, 0, i, 1], [192, 0, 2, 1], [1000 + u16::from(i), 53])).collect()
}

#[test]
fn a_select_group_chooses_by_the_fields_that_it_names() {
    both(2, |bed| {
        bed.ok(select(",selection_method=hash,fields(ip_src=255.255.255.0)", &[1, 2, 3, 4]));
        bed.ok(flow("in_port=1 actions=group:1"));
        let first = by_eth_dst(bed, &senders(64));
        for n in 1..=4 {
            let share = first.iter().filter(|b| **b == n).count();
            assert!((6..=28).contains(&share), "{n}: {share} of 64");
        }
        // Other ports, another destination and the bits that are masked change nothing.
        let mut others = senders(64);
        for packet in &mut others {
            packet[29] = 77;
            packet[33] = 9;
            packet[35] ^= 0x55;
        }
        assert_eq!(by_eth_dst(bed, &others), first);
        // Another parameter is another hash.
        bed.ok(modified(select(
            ",selection_method=hash,selection_method_param=9,fields(ip_src=255.255.255.0)",
            &[1, 2, 3, 4],
        )));
        assert_ne!(by_eth_dst(bed, &senders(64)), first);
    });
}

#[test]
fn dp_hash_is_of_connections_in_one_direction_or_both() {
    both(2, |bed| {
        bed.ok(flow("in_port=1,priority=0 actions=drop"));
        let back = |f: &Vec<u8>| {
            let mut back = f.clone();
            back[26..30].copy_from_slice(&f[30..34]);
            back[30..34].copy_from_slice(&f[26..30]);
            back[34..36].copy_from_slice(&f[36..38]);
            back[36..38].copy_from_slice(&f[34..36]);
            back
        };
        let there = senders(32);
        let backwards: Vec<_> = there.iter().map(back).collect();
        for (param, symmetric) in [(7u64, false), (1 << 32 | 7, true)] {
            let how = format!(",selection_method=dp_hash,selection_method_param={param}");
            let request = select(&how, &[1, 2, 3]);
            bed.ok(GroupMod { command: GroupModCommand::AddOrModify, ..request });
            bed.ok(flow("in_port=1 actions=group:1"));
            let ours = by_eth_dst(bed, &there);
            assert!((1..=3).all(|n| ours.contains(&n)));
            assert_eq!(by_eth_dst(bed, &backwards) == ours, symmetric, "{param:#x}");
        }
    });
}

#[test]
fn buckets_that_come_and_go_take_only_their_own_packets() {
    both(2, |bed| {
        bed.ok(select(",selection_method=hash,fields(ip_src)", &[1, 2, 3, 4]));
        bed.ok(flow("in_port=1 actions=group:1"));
        let packets = senders(64);
        let before = by_eth_dst(bed, &packets);
        let about = |line: &str| group(line);
        bed.ok(about("remove_bucket group_id=1,command_bucket_id=2"));
        let without = by_eth_dst(bed, &packets);
        for (was, is) in before.iter().zip(&without) {
            assert!(is == was || *was == 2 && *is != 2, "{was} {is}");
        }
        bed.ok(about("insert_bucket group_id=1,command_bucket_id=first,bucket=bucket_id:9,weight:1,set_field:00:00:00:00:00:09->eth_dst,output:2"));
        let with = by_eth_dst(bed, &packets);
        assert!(with.contains(&9));
        for (was, is) in without.iter().zip(&with) {
            assert!(is == was || *is == 9, "{was} {is}");
        }
    });
}

#[test]
fn select_groups_may_be_empty_and_their_buckets_weightless() {
    both(3, |bed| {
        bed.ok(group("group_id=9,type=select"));
        bed.ok(flow("in_port=1 actions=group:9"));
        bed.ok(flow("in_port=3 actions=output:2"));
        bed.send(1, &frame(1, 2));
        // As ovs-ofctl sends it: without a weight.
        bed.ok(group(
            "insert_bucket group_id=9,command_bucket_id=last,bucket=bucket_id:1,weight:0,output:2",
        ));
        bed.send(1, &frame(1, 2));
        bed.send(3, &frame(3, 2));
        assert_eq!(bed.receive(2), frame(3, 2), "the two before were dropped");
        bed.ok(group(
            "insert_bucket group_id=9,command_bucket_id=first,bucket=bucket_id:2,weight:5,output:2",
        ));
        bed.send(1, &frame(1, 2));
        assert_eq!(bed.receive(2), frame(1, 2));
        bed.ok(group("remove_bucket group_id=9,command_bucket_id=all"));
        bed.send(1, &frame(1, 2));
        bed.send(3, &frame(3, 2));
        assert_eq!(bed.receive(2), frame(3, 2));
    });
}

#[test]
fn selection_is_told_as_it_was_said_and_comes_back_byte_for_byte() {
    let mut bed = Bed::new(2);
    let lines = [
        "group_id=1,type=select,selection_method=hash,selection_method_param=5,fields(ip_src=255.255.0.0,nw_proto,eth_dst),bucket=bucket_id:0,actions=output:2",
        "group_id=2,type=select,selection_method=dp_hash,selection_method_param=4294967303,bucket=bucket_id:0,weight:0,actions=output:2,bucket=bucket_id:1,actions=output:1",
        "group_id=3,type=select,selection_method=hash,bucket=bucket_id:4,weight:3,actions=output:2",
    ];
    for line in lines {
        let request = group(line);
        let bytes =
            openflow::encode(V15, openflow::Xid(1), &Message::GroupMod(request.clone())).unwrap();
        assert_eq!(bytes.len() % 8, 0);
        let (_, message) = openflow::decode(V15, &bytes).unwrap();
        assert_eq!(message, Message::GroupMod(request.clone()));
        bed.ok(request);
    }
    let told = bed.ask(V15, MultipartRequestBody::GroupDesc(GroupId::ALL));
    let [MultipartReplyBody::GroupDesc(groups)] = &told[..] else { panic!("{told:?}") };
    let printed: Vec<String> =
        groups.iter().map(|g| openflow::syntax::print_group(g, V15)).collect();
    assert_eq!(printed, lines);
    for (line, text) in [
        ("group_id=4,type=all,selection_method=hash", "type=select"),
        (
            "group_id=4,type=select,selection_method=dp_hash,fields(ip_src)",
            "`dp_hash` takes no fields",
        ),
        ("group_id=4,type=select,fields(ip_src)", "it needs `selection_method=`"),
        ("group_id=4,type=select,selection_method=best", "`hash` or `dp_hash`"),
        ("group_id=4,type=select,selection_method=hash,fields(ip_src,ip_src)", "twice"),
    ] {
        let error = parse_group(line, &Context::new(V15)).unwrap_err().to_string();
        assert!(error.contains(text), "{line}: {error}");
    }
}

#[test]
fn multipath_keeps_links_when_their_number_changes() {
    both(2, |bed| {
        for how in ["hrw", "iter_hash"] {
            let arg = if how == "iter_hash" { 8 } else { 0 };
            let mut links = |n: u32| {
                bed.ok(flow(&format!(
                    "in_port=1 actions=multipath(nw_src,7,{how},{n},{arg},NXM_NX_REG0[0..7]),move:NXM_NX_REG0[0..7]->NXM_OF_ETH_DST[0..7],output:2"
                )));
                by_eth_dst(bed, &senders(64))
            };
            let (seven, eight, one) = (links(7), links(8), links(1));
            assert!((0..7).all(|n| seven.contains(&n)), "{how}: {seven:?}");
            assert!(one.iter().all(|n| *n == 0));
            for (was, is) in seven.iter().zip(&eight) {
                assert!(is == was || *is == 7, "{how}: {was} {is}");
            }
        }
    });
}

#[test]
fn symmetric_l3_knows_no_ports() {
    both(2, |bed| {
        bed.ok(flow("in_port=1 actions=multipath(symmetric_l3,7,modulo_n,16,0,NXM_NX_REG0[0..7]),move:NXM_NX_REG0[0..7]->NXM_OF_ETH_DST[0..7],output:2"));
        let first = by_eth_dst(bed, &senders(32));
        assert!(first.iter().collect::<std::collections::BTreeSet<_>>().len() > 6);
        let mut back = senders(32);
        for (i, packet) in back.iter_mut().enumerate() {
            let (src, dst) = ([10, 0, i as u8, 1], [192, 0, 2, 1]);
            packet[26..30].copy_from_slice(&dst);
            packet[30..34].copy_from_slice(&src);
            packet[36] ^= 0xff;
        }
        assert_eq!(by_eth_dst(bed, &back), first);
    });
}

// Learning.

#[test]
fn learned_entries_go_with_the_last_that_learns_them() {
    both(3, |bed| {
        let learner = |port: u32| {
            format!(
                "in_port={port} actions=learn(table=6,cookie=7,delete_learned,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:3"
            )
        };
        let learned = |bed: &mut Bed, count: usize| {
            bed.until("it is learned", |bed| bed.agent.flows().len(6) == count);
        };
        bed.ok(flow(&learner(1)));
        bed.ok(flow(&learner(2)));
        bed.ok(flow("table=6,cookie=8,in_port=9 actions=drop"));
        bed.send(1, &frame(1, 0x21));
        bed.send(2, &frame(1, 0x22));
        learned(bed, 3);
        // The other one is still there.
        let request = delete(from_port(1));
        bed.ok(FlowMod { table_id: TableId(0), ..request });
        assert_eq!(bed.agent.flows().len(6), 3);
        // To do something else is as good as to go.
        let modify = with_command(FlowModCommand::Modify, flow("in_port=2 actions=output:3"));
        bed.ok(modify);
        assert_eq!(cookies(bed), [0, 8]);
        // So is to expire, and to go in a bundle; one that fails leaves all.
        bed.ok(flow(&learner(1)));
        bed.send(1, &frame(1, 0x21));
        learned(bed, 2);
        let gone = Message::FlowMod(FlowMod { table_id: TableId(0), ..delete(from_port(1)) });
        let bad = Message::FlowMod(flow("table=3 actions=group:77"));
        assert!(bed.agent.bundle(V15, vec![gone.clone(), bad]).is_err());
        assert_eq!(bed.agent.flows().len(6), 2);
        bed.agent.bundle(V15, vec![gone]).unwrap();
        assert_eq!(bed.agent.flows().len(6), 1);
        bed.ok(flow(&learner(1).replace("in_port=1", "idle_timeout=1,in_port=1")));
        bed.send(1, &frame(1, 0x21));
        learned(bed, 2);
        bed.until("the learner expires", |bed| bed.agent.flows().len(6) == 1);
    });
}

#[test]
fn a_limit_bounds_what_is_learned_with_a_cookie() {
    both(2, |bed| {
        bed.ok(flow("in_port=1 actions=learn(table=6,cookie=7,limit=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:2"));
        for src in 0x21..0x26 {
            bed.send(1, &frame(1, src));
            bed.receive(2);
        }
        bed.until("three are refused", |bed| bed.agent.learning().refused == 3);
        assert_eq!(bed.agent.flows().len(6), 2);
        // There is room again.
        bed.ok(FlowMod { table_id: TableId(6), ..delete(openflow::Match::new()) });
        bed.send(1, &frame(1, 0x30));
        bed.until("it is learned", |bed| bed.agent.flows().len(6) == 1);
    });
}

/// A TCP segment with these flags.
fn tcp(flags: u8) -> Vec<u8> {
    let mut bytes = udp([10, 0, 0, 1], [10, 0, 0, 2], [1, 80]);
    bytes[23] = 6;
    bytes[38..60].fill(0);
    (bytes[46], bytes[47]) = (0x50, flags);
    bytes
}

#[test]
fn a_fin_shortens_timeouts_of_its_entry_and_never_lengthens_them() {
    both(2, |bed| {
        bed.ok(flow("in_port=1,tcp,cookie=1,idle_timeout=600 actions=fin_timeout(idle_timeout=100,hard_timeout=200),output:2"));
        bed.ok(flow("in_port=2,tcp,cookie=2,idle_timeout=50,hard_timeout=60 actions=fin_timeout(idle_timeout=100,hard_timeout=5),output:1"));
        let timeouts = |bed: &mut Bed, cookie| {
            let flows = bed.flows(TableId(0));
            let flow = flows.iter().find(|f| f.cookie == cookie).unwrap();
            (flow.idle_timeout, flow.hard_timeout, flow.packet_count)
        };
        bed.send(1, &tcp(0x10));
        bed.receive(2);
        assert_eq!(timeouts(bed, 1), (600, 0, 1));
        bed.send(1, &tcp(0x11));
        bed.receive(2);
        let is = |idle: u16, hard: u16| {
            move |bed: &Bed| {
                let mut all = bed.agent.flows().iter(0);
                all.any(|(_, f)| (f.idle_timeout, f.hard_timeout) == (idle, hard))
            }
        };
        bed.until("the FIN is seen", is(100, 200));
        assert_eq!(timeouts(bed, 1), (100, 200, 2));
        bed.send(2, &tcp(4));
        bed.receive(1);
        bed.until("the RST is seen", is(50, 5));
        // It goes then.
        bed.ok(flow("in_port=1,tcp,cookie=1 actions=fin_timeout(idle_timeout=1),output:2"));
        bed.send(1, &tcp(1));
        bed.until("it expires", |bed| bed.agent.flows().iter(0).all(|(_, f)| f.cookie != 1));
    });
}

#[test]
fn learned_entries_have_the_timeouts_of_a_fin() {
    both(2, |bed| {
        bed.ok(flow("in_port=1 actions=learn(table=6,idle_timeout=300,fin_idle_timeout=7,fin_hard_timeout=9,eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_IP_SRC[],output:NXM_OF_IN_PORT[]),output:2".replace("in_port=1 ", "in_port=1,ip ").as_str()));
        bed.send(1, &tcp(0x10));
        bed.receive(2);
        bed.until("it is learned", |bed| bed.agent.flows().len(6) == 1);
        let told = format!("{:?}", bed.flows(TableId(6))[0].instructions);
        assert!(told.contains("FinTimeout { idle_timeout: 7, hard_timeout: 9 }"), "{told}");
    });
}
