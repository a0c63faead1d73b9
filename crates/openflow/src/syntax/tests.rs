//! Texts and their errors, random values printed and read, and `ovs-ofctl` itself.

mod agreement;
mod errors;

use super::*;
use crate::action::{Action, Instruction, Subfield};
use crate::extension::{FinTimeout, Nat, NatSide};
use crate::field::FieldId;
use crate::flow::{FlowMod, FlowModCommand, FlowModFlags};
use crate::flow_match::Match;
use crate::group::{GroupMod, GroupModCommand, GroupType};
use crate::ids::PortNo;
use crate::ids::{GroupId, MeterId, TableId};
use crate::message::Message;
use crate::meter::{BandKind, MeterFlags, MeterMod, MeterModCommand};
use crate::testing::{Rng, arbitrary};

fn ports(name: &str) -> Option<PortNo> {
    match name {
        "eth0" => Some(PortNo(1)),
        "eth1" => Some(PortNo(2)),
        _ => None,
    }
}

pub(super) fn cx(version: Version) -> Context<'static> {
    Context { version, ports: &ports }
}

fn flow(text: &str) -> FlowMod {
    parse_flow(text, &cx(Version::V13)).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn a_flow_with_everything() {
    let f = flow(
        "modify table=3, priority=7,cookie=0x10/-1 idle_timeout=5,hard_timeout=6,send_flow_rem \
         tcp,nw_src=10.1.2.3/8,tp_dst=80,in_port=eth1,dl_vlan=5,metadata=0x15/0xf \
         actions=meter:1,dec_ttl,output:eth0,3,LOCAL,write_actions(group:4,normal),\
         write_metadata:1/2,goto_table:9",
    );
    assert_eq!(f.command, FlowModCommand::Modify);
    assert_eq!((f.table_id, f.priority), (TableId(3), 7));
    assert_eq!((f.cookie, f.cookie_mask), (0x10, u64::MAX));
    assert_eq!((f.idle_timeout, f.hard_timeout), (5, 6));
    assert_eq!(f.flags, FlowModFlags::SEND_FLOW_REM);
    let m = Match::new()
        .with(FieldId::InPort, 2)
        .with_masked(FieldId::Metadata, 5, 15)
        .with(FieldId::VlanVid, 0x1005)
        .with(FieldId::EthType, 0x0800)
        .with(FieldId::IpProto, 6)
        .with_masked(FieldId::Ipv4Src, 0x0a00_0000, 0xff00_0000)
        .with(FieldId::TcpDst, 80);
    assert_eq!(f.matching, m);
    assert_eq!(
        f.instructions.to_vec(),
        vec![
            Instruction::Meter(MeterId(1)),
            Instruction::ApplyActions(vec![
                Action::DecNwTtl,
                Action::output(PortNo(1)),
                Action::output(PortNo(3)),
                Action::output(PortNo::LOCAL),
            ]),
            Instruction::WriteActions(vec![
                Action::Group(GroupId(4)),
                Action::output(PortNo::NORMAL)
            ]),
            Instruction::WriteMetadata { value: 1, mask: 2 },
            Instruction::GotoTable(TableId(9)),
        ]
    );
}

#[test]
fn words_mean_what_is_beside_them_in_any_order() {
    let m = |text: &str| parse_match(text, &cx(Version::V13)).unwrap();
    assert_eq!(m("tp_src=5,nw_proto=17,dl_type=0x800"), m("udp,udp_src=5"));
    assert_eq!(m("nw_src=1.2.3.4,nw_proto=2,arp"), m("arp,arp_op=2,arp_spa=1.2.3.4"));
    assert_eq!(m("icmp_type=135,icmp6"), m("icmp6,icmpv6_type=135"));
    assert_eq!(m("tp_src=8,tp_dst=0,icmp"), m("icmp,icmp_type=8,icmp_code=0"));
    assert_eq!(m("nw_tos=184,ip"), m("ip,ip_dscp=46"));
    assert_eq!(m("OXM_OF_ETH_TYPE=0x800,IPV4_SRC=1.2.3.4"), m("ip,nw_src=1.2.3.4"));
    assert_eq!(m("dl_vlan_pcp=3"), m("vlan_tci=0x7000/0xf000"));
    assert_eq!(m("dl_vlan=0xffff"), m("vlan_vid=0"));
    assert_eq!(m("tcp,ip,nw_proto=6"), m("tcp"));
    assert_eq!(m("ip,nw_src=1.2.3.4/0"), m("ip"));
    assert_eq!(
        m("dl_src=1:2:3:4:5:6/01:00:00:00:00:00").get(FieldId::EthSrc).unwrap().value,
        1 << 40
    );
    assert_eq!(m("metadata=017"), m("metadata=15"));
    assert_eq!(m(""), Match::new());
    assert_eq!(m(" , ,\t"), Match::new());
}

#[test]
fn actions_of_extensions_and_their_options() {
    let one = |text: &str| {
        let cx = cx(Version::V13);
        let list = parse_actions(text, &cx).unwrap_or_else(|e| panic!("{text}: {e}"));
        let [Instruction::ApplyActions(actions)] = &list[..] else { panic!("{list:?}") };
        assert_eq!(print_actions(actions, Version::V13), text);
        actions[0].clone()
    };
    let Action::Ct(ct) = one("ct(commit,table=2,nat(src,hash),alg=ftp)") else { panic!() };
    assert_eq!(ct.alg, 21);
    assert_eq!(ct.nat, Some(Nat::Unranged { side: NatSide::Source, flags: 8 }));
    one("ct(commit,nat(dst),alg=tftp)");
    let fin = FinTimeout { idle_timeout: 5, hard_timeout: 9 };
    assert_eq!(one("fin_timeout(idle_timeout=5,hard_timeout=9)"), Action::FinTimeout(fin));
    one("fin_timeout(hard_timeout=9)");
    assert_eq!(one("pop_queue"), Action::PopQueue);
    let cut = |port| Action::OutputTruncated { port, max_len: 100 };
    assert_eq!(one("output(port=2,max_len=100)"), cut(PortNo(2)));
    assert_eq!(one("output(port=IN_PORT,max_len=100)"), cut(PortNo::IN_PORT));
    let again = |in_port, table, ct| Action::Resubmit { in_port, table, ct };
    assert_eq!(one("resubmit(,3,ct)"), again(PortNo::IN_PORT, TableId(3), true));
    assert_eq!(one("resubmit(7,3,ct)"), again(PortNo(7), TableId(3), true));
    assert_eq!(one("resubmit(7,,ct)"), again(PortNo(7), TableId::ALL, true));
    let Action::Controller(to) = one("controller(userdata=01.02,pause)") else { panic!() };
    assert!(to.pause);
    one("controller(pause)");
    let text = "learn(table=3,fin_idle_timeout=2,fin_hard_timeout=4,delete_learned,cookie=0x7,limit=9,\
                result_dst=NXM_NX_REG0[3],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[])";
    let Action::Learn(learn) = one(text) else { panic!() };
    assert_eq!((learn.fin_idle_timeout, learn.fin_hard_timeout, learn.limit), (2, 4, 9));
    assert_eq!(learn.result_dst, Some(Subfield { field: FieldId::Reg0, offset: 3 }));
    assert!(learn.delete_learned);
}

#[test]
fn printed_flows_read_back() {
    for version in Version::ALL {
        let mut rng = Rng::new(0x5379_6e74 + u64::from(version.wire()));
        for _ in 0..4000 {
            let mut flow = arbitrary::flow_mod(&mut rng, version);
            if flow.extended {
                // The syntax of 1.0 is that without extensions.
                continue;
            }
            unsayable(&mut flow);
            let printed = print_flow_mod(&flow, version);
            assert_eq!(parse_flow(&printed, &cx(version)), Ok(flow), "{printed}");
            let stats = arbitrary::flow_stats(&mut rng, version);
            let printed = print_match(&stats.matching, version);
            assert_eq!(parse_match(&printed, &cx(version)), Ok(stats.matching), "{printed}");
        }
    }
}

/// Takes out what the syntax has no words for.
fn unsayable(flow: &mut FlowMod) {
    flow.buffer_id = None;
    match flow.command {
        FlowModCommand::Add if flow.dialect >= Version::V13 && flow.table_id == TableId::ALL => {
            flow.table_id = TableId(0);
            flow.cookie_mask = 0;
        }
        FlowModCommand::Add => flow.cookie_mask = 0,
        FlowModCommand::Modify | FlowModCommand::ModifyStrict => {}
        FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
            flow.instructions.clear();
            if flow.cookie_mask == 0 {
                flow.cookie = 0;
            }
        }
    }
    if !matches!(flow.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict) {
        flow.out_port = PortNo::ANY;
        flow.out_group = GroupId::ANY;
    }
    flow.instructions.retain(|i| !matches!(i, Instruction::ApplyActions(a) if a.is_empty()));
    for instruction in &mut flow.instructions {
        if let Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) = instruction
        {
            actions.iter_mut().for_each(plain_output);
        }
    }
}

/// Only an output to the controller has a length.
fn plain_output(action: &mut Action) {
    if let Action::Output { port, max_len } = action
        && *port != PortNo::CONTROLLER
    {
        *max_len = Action::NO_BUFFER;
    }
    // `ovs-ofctl` prints a `dec_ttl` that tells nobody as it reads one that tells everybody.
    if *action == Action::DecNwTtlTo(Vec::new()) {
        *action = Action::DecNwTtl;
    }
    if let Action::Clone(inner) = action {
        inner.iter_mut().for_each(plain_output);
    }
}

#[test]
fn printed_groups_read_back() {
    let mut rng = Rng::new(0x6772_6f75);
    let mut seen = 0;
    while seen < 2000 {
        let Message::GroupMod(mut group) = arbitrary::message(&mut rng, Version::V13) else {
            continue;
        };
        seen += 1;
        group.group_id.0 &= 0x7fff_ffff;
        match (group.command, group.group_type) {
            (GroupModCommand::Delete, _) => {
                group.buckets.clear();
                group.group_type = GroupType::All;
            }
            (_, GroupType::Indirect) => {
                group.buckets.truncate(1);
                if group.buckets.is_empty() {
                    continue;
                }
            }
            _ => {}
        }
        for bucket in &mut group.buckets {
            if group.group_type != GroupType::Select {
                bucket.weight = 0;
            }
            bucket.actions.iter_mut().for_each(plain_output);
        }
        let printed = print_group_mod(&group, Version::V13);
        assert_eq!(parse_group(&printed, &cx(Version::V13)), Ok(group), "{printed}");
    }
}

/// 1.0's groups are written as 1.5's, with 1.0's words for actions.
#[test]
fn groups_of_1_0_read_back() {
    for line in [
        "add group_id=1,type=select,selection_method=hash,fields(ip_src),bucket=bucket_id:5,weight:3,watch_port:2,actions=mod_nw_src:10.0.0.9,output:2",
        "add group_id=2,type=all,bucket=bucket_id:0,actions=mod_dl_dst:00:11:22:33:44:55,output:1,bucket=bucket_id:1,actions=group:1",
        "insert_bucket command_bucket_id=last,group_id=2,bucket=bucket_id:9,actions=output:2",
        "remove_bucket command_bucket_id=9,group_id=2",
    ] {
        let group = parse_group(line, &cx(Version::V10)).unwrap_or_else(|e| panic!("{line}: {e}"));
        let message = Message::GroupMod(group.clone());
        let bytes = crate::encode(Version::V10, crate::Xid(1), &message).unwrap();
        assert_eq!(crate::decode(Version::V10, &bytes).unwrap().1, message, "{line}");
        let printed = print_group_mod(&group, Version::V10);
        assert_eq!(parse_group(&printed, &cx(Version::V10)), Ok(group), "{printed}");
    }
}

/// `ovs-ofctl` takes these words in every version, though those of 1.3 and 1.4 have no place for them in their messages, and
/// leaves them out there: where a line is read here, what it says is done.
#[test]
fn how_a_group_chooses_is_read_in_all_versions_and_written_by_those_that_say_it() {
    let line = "group_id=7,type=select,selection_method=hash,selection_method_param=3,\
                fields(ip_src,nw_proto),bucket=output:2";
    for version in Version::ALL {
        let group = parse_group(line, &cx(version)).unwrap();
        let selection = group.selection.clone().unwrap();
        assert_eq!((selection.param, selection.fields.len()), (3, 2), "{version}");
        let message = Message::GroupMod(group);
        match crate::encode(version, crate::Xid(1), &message) {
            Ok(bytes) => {
                assert!(matches!(version, Version::V10 | Version::V15));
                assert!(crate::decode(version, &bytes).is_ok());
            }
            Err(error) => {
                assert!(matches!(version, Version::V13 | Version::V14));
                assert!(error.to_string().contains("selection_method"), "{error}");
            }
        }
    }
}

#[test]
fn printed_meters_read_back() {
    let mut rng = Rng::new(0x6d65_7465);
    let mut seen = 0;
    while seen < 2000 {
        let Message::MeterMod(mut meter) = arbitrary::message(&mut rng, Version::V13) else {
            continue;
        };
        seen += 1;
        if meter.command == MeterModCommand::Delete {
            meter.bands.clear();
        } else {
            if meter.bands.is_empty() || meter.meter_id == MeterId::ALL {
                continue;
            }
            if !meter.flags.intersects(MeterFlags::KBPS | MeterFlags::PKTPS) {
                meter.flags |= MeterFlags::PKTPS;
            }
        }
        let printed = print_meter_mod(&meter);
        assert_eq!(parse_meter(&printed, &cx(Version::V13)), Ok(meter), "{printed}");
    }
}

#[test]
fn groups_and_meters() {
    let text = "group_id=1,type=select,bucket=weight:5,watch_port:2,actions=output:2,dec_ttl,\
                bucket=watch_group:7,drop,bucket=output:eth0,weight:3";
    let group: GroupMod = parse_group(text, &cx(Version::V13)).unwrap();
    assert_eq!(
        print_group_mod(&group, Version::V13),
        "group_id=1,type=select,bucket=weight:5,watch_port:2,actions=output:2,dec_ttl,\
         bucket=watch_group:7,actions=drop,bucket=weight:3,actions=output:1"
    );
    let group = parse_group("delete", &cx(Version::V13)).unwrap();
    assert_eq!((group.command, group.group_id), (GroupModCommand::Delete, GroupId::ALL));

    let text = "meter=3,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=100 \
                type=dscp_remark,rate=500,prec_level=1";
    let meter: MeterMod = parse_meter(text, &cx(Version::V13)).unwrap();
    assert_eq!(meter.flags, MeterFlags::KBPS | MeterFlags::BURST | MeterFlags::STATS);
    assert_eq!(meter.bands[1].kind, BandKind::DscpRemark { prec_level: 1 });
    assert_eq!(
        print_meter_mod(&meter),
        "meter=3 kbps burst stats bands=type=drop rate=1000 burst_size=100 \
         type=dscp_remark rate=500 burst_size=0 prec_level=1"
    );
}

#[test]
fn files_have_comments() {
    let text = "# flows\n\n ip actions=drop # all\r\n\t\narp,actions=normal";
    let lines: Vec<_> = lines(text).collect();
    assert_eq!(lines, [(3, " ip actions=drop"), (5, "arp,actions=normal")]);
}

#[test]
fn dumped_flows_read_back() {
    let text = "cookie=0x5, duration=3.12s, table=2, n_packets=7, n_bytes=8, idle_timeout=60, \
                send_flow_rem priority=9,udp,tp_dst=53 actions=CONTROLLER:128";
    let f = flow(text);
    assert_eq!((f.cookie, f.table_id, f.priority), (5, TableId(2), 9));
    let stats = crate::flow::FlowStats {
        table_id: f.table_id,
        age: crate::ids::Age { sec: 3, nsec: 120_000_000 },
        priority: f.priority,
        idle_timeout: f.idle_timeout,
        hard_timeout: 0,
        flags: f.flags,
        importance: 0,
        cookie: f.cookie,
        packet_count: 7,
        byte_count: 8,
        uncounted: Default::default(),
        matching: f.matching,
        instructions: f.instructions,
    };
    assert_eq!(print_flow(&stats, Version::V13, true), text);
}

/// The fields of a frame that [`parse_packet`] made show when its own words are looked for.
#[test]
fn packets() {
    let packet = |text: &str| parse_packet(text).unwrap_or_else(|e| panic!("{text}: {e}"));
    for text in [
        "",
        "in_port=3",
        "dl_type=0x88cc",
        "dl_type=0x05ff",
        "dl_vlan=5,dl_vlan_pcp=3",
        "arp,arp_op=2,arp_spa=1.2.3.4,arp_sha=1:2:3:4:5:6",
        "rarp",
        "ip",
        "ip,nw_proto=47,nw_tos=16,nw_ecn=1,nw_ttl=3",
        "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_src=1,tp_dst=80,dl_vlan=7",
        "udp,tp_dst=53",
        "sctp,tp_src=7",
        "icmp,icmp_type=0",
        "ipv6",
        "tcp6,ipv6_src=fe80::1,tp_dst=22,ipv6_label=0x12345",
        "udp6",
        "sctp6",
        "icmp6",
        "icmp6,icmp_type=135,nd_target=fe80::2,nd_sll=1:2:3:4:5:6",
        "icmp6,icmp_type=136,nd_tll=1:2:3:4:5:6",
        "mpls,mpls_label=100,mpls_tc=3,mpls_bos=0,mpls_ttl=9",
        "mplsm,dl_vlan=5",
    ] {
        let bytes = packet(text).bytes;
        assert!(bytes.len() >= 60, "{text}");
        assert_eq!(wire::offload::verify_checksums(&bytes), Ok(()), "{text}");
        let layers = wire::layers::Layers::of(&bytes);
        assert_eq!(layers.stopped, None, "{text}");
    }
    let tcp = packet("tcp,nw_src=10.0.0.1,tp_src=258,tp_dst=80,dl_vlan=7,in_port=4");
    assert_eq!(tcp.in_port, Some(4));
    assert_eq!(tcp.bytes[12..18], [0x81, 0x00, 0, 7, 0x08, 0x00]);
    assert_eq!(tcp.bytes[30..34], [10, 0, 0, 1]);
    assert_eq!(tcp.bytes[38..42], [1, 2, 0, 80]);
    assert_eq!(tcp.bytes[20..22], [0, 40], "total length");
}

#[test]
fn fuzz_body_on_damaged_lines() {
    let mut rng = Rng::new(0x6675_7a7a);
    let seeds: Vec<&str> =
        agreement::FLOWS.iter().chain(agreement::GROUPS).chain(errors::METERS).copied().collect();
    for seed in &seeds {
        fuzz(seed.as_bytes());
    }
    let signs = b",:=()/ 0x->9f#\"[].";
    for _ in 0..4_000 {
        let mut text = rng.choose(&seeds).as_bytes().to_vec();
        if rng.one_in(4) {
            let other = rng.choose(&seeds);
            text.splice(..rng.below(text.len() + 1), other.bytes());
        }
        for _ in 0..rng.below(5) {
            let at = rng.below(text.len().max(1));
            match rng.below(4) {
                0 => text.truncate(at),
                1 => text.insert(at.min(text.len()), rng.choose(signs)),
                2 if at < text.len() => text[at] = rng.choose(signs),
                3 if at < text.len() => drop(text.remove(at)),
                _ => {}
            }
        }
        fuzz(&text);
    }
    fuzz("é=ü(,ß)->ö actions=é:1".as_bytes());
    fuzz("(".repeat(100_000).as_bytes());
    fuzz(format!("a={}", "(".repeat(100_000)).as_bytes());
}

#[test]
fn wide_registers_are_registers() {
    let same = |wide: &str, plain: &str| {
        assert_eq!(flow(wide).matching, flow(plain).matching, "{wide}");
    };
    same("xreg0=0x100000002,actions=drop", "reg0=1,reg1=2,actions=drop");
    same("xreg7=3/0xff,actions=drop", "reg15=3/0xff,actions=drop");
    same("xxreg3=0x10000000200000003,actions=drop", "reg12=0,reg13=1,reg14=2,reg15=3,actions=drop");
    same(
        "xxreg1=0/0xffff000000000000000000000000000f,actions=drop",
        "reg4=0/0xffff0000,reg7=0/0xf,actions=drop",
    );
    for wrong in ["xreg0=0x10000000000000000", "xreg8=1", "xxreg4=1", "xreg0=x", "xreg0=1,reg1=2"] {
        assert!(
            parse_flow(&format!("{wrong},actions=drop"), &cx(Version::V13)).is_err(),
            "{wrong}"
        );
    }
}
