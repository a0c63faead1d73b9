//! Fields of Open vSwitch's that actions read and write as a whole (ovs-fields(7)): the VLAN tag, the type of
//! service, wide registers; and the pipeline's fields, the ingress port and the metadata. Every flow goes to the
//! switch as text and through the bytes of each version; packets go through both engines.

use super::bed::*;
use openflow::syntax::{Context, parse_flow};
use openflow::{FlowMod, Message, Version, Xid, decode, encode};
use switch::EngineKind;

/// A flow as the switch gets it in a version.
pub(super) fn flow(line: &str, version: Version) -> FlowMod {
    let flow = parse_flow(line, &Context::new(version));
    let flow = flow.unwrap_or_else(|error| panic!("{version} {line}: {error}"));
    let bytes = encode(version, Xid(1), &Message::FlowMod(flow));
    let bytes = bytes.unwrap_or_else(|error| panic!("{version} {line}: {error}"));
    match decode(version, &bytes) {
        Ok((_, Message::FlowMod(flow))) => flow,
        other => panic!("{version} {line}: {other:?}"),
    }
}

/// Runs `f` by every engine, with the flows said in every one of the versions.
pub(super) fn each(versions: &[Version], flows: &[&str], f: impl Fn(&Bed)) {
    for engine in [EngineKind::Interp, EngineKind::default()] {
        for version in versions {
            let mut bed = Bed::by(engine.clone(), program(), 3);
            for line in flows {
                bed.ok(flow(line, *version));
            }
            f(&bed);
        }
    }
}

/// The frame with a tag of this control information.
pub(super) fn tagged(frame: &[u8], tci: u16) -> Vec<u8> {
    let tag = [0x81, 0, (tci >> 8) as u8, tci as u8];
    [&frame[..12], &tag[..], &frame[12..]].concat()
}

/// A UDP datagram with this type of service.
pub(super) fn udp(tos: u8, checksum: [u8; 2]) -> Vec<u8> {
    let mut bytes = frame(2, 1);
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..34].copy_from_slice(&[
        0x45,
        tos,
        0,
        46,
        0,
        0,
        0,
        0,
        64,
        17,
        checksum[0],
        checksum[1],
        10,
        0,
        0,
        1,
        10,
        0,
        1,
        1,
    ]);
    bytes[34..42].copy_from_slice(&[0, 99, 0, 98, 0, 26, 0, 0]);
    bytes
}

fn header_sum(frame: &[u8]) -> u16 {
    let words = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) as u16 + (folded >> 16) as u16
}

#[test]
fn the_bit_that_says_that_there_is_a_tag_makes_and_takes_one() {
    let flows = [
        "in_port=1 actions=load:1->NXM_OF_VLAN_TCI[12],output:3",
        "in_port=2 actions=load:0->NXM_OF_VLAN_TCI[12],output:3",
    ];
    each(&Version::ALL, &flows, |bed| {
        let plain = frame(2, 1);
        bed.send(1, &plain);
        assert_eq!(bed.receive(3), tagged(&plain, 0), "made");
        bed.send(1, &tagged(&plain, 0x6005));
        assert_eq!(bed.receive(3), tagged(&plain, 0x6005), "there already");
        bed.send(2, &tagged(&plain, 0x6005));
        assert_eq!(bed.receive(3), plain, "taken");
        bed.send(2, &plain);
        assert_eq!(bed.receive(3), plain, "not there");
        // The outermost of two alone.
        bed.send(2, &tagged(&tagged(&plain, 7), 9));
        assert_eq!(bed.receive(3), tagged(&plain, 7));
    });
}

#[test]
fn a_tag_is_written_read_and_moved_as_a_whole() {
    let flows = [
        "in_port=1,vlan_tci=0x1000/0x1000 actions=load:0->NXM_OF_VLAN_TCI[],output:3",
        "in_port=1,vlan_tci=0/0x1000 actions=set_field:0x7005->vlan_tci,output:3",
        "in_port=2 actions=move:NXM_OF_VLAN_TCI[]->NXM_NX_REG0[0..15],pop_vlan,\
         load:0x2009->NXM_OF_VLAN_TCI[],move:NXM_NX_REG0[0..15]->NXM_OF_VLAN_TCI[],output:3",
    ];
    // The standard match of 1.0 cannot ask for any tag.
    each(&[Version::V13, Version::V14, Version::V15], &flows, |bed| {
        let plain = frame(2, 1);
        bed.send(1, &tagged(&plain, 0xe123));
        assert_eq!(bed.receive(3), plain);
        bed.send(1, &plain);
        assert_eq!(bed.receive(3), tagged(&plain, 0x6005), "bit 12 is not the drop eligibility");
        for tci in [0xa123, 5] {
            bed.send(2, &tagged(&plain, tci));
            assert_eq!(bed.receive(3), tagged(&plain, tci));
        }
        bed.send(2, &plain);
        assert_eq!(bed.receive(3), plain, "what was read of no tag is none");
    });
}

#[test]
fn a_tag_is_pushed_to_the_stack_and_popped() {
    let flows =
        ["in_port=1 actions=push:NXM_OF_VLAN_TCI[],load:0x1fff->NXM_OF_VLAN_TCI[],output:2,\
         pop:NXM_OF_VLAN_TCI[],output:3"];
    each(&[Version::V10, Version::V13, Version::V15], &flows, |bed| {
        let plain = frame(2, 1);
        for first in [plain.clone(), tagged(&plain, 0x2003)] {
            bed.send(1, &first);
            assert_eq!(bed.receive(2), tagged(&plain, 0xfff));
            assert_eq!(bed.receive(3), first);
        }
    });
}

#[test]
fn a_tag_is_learned_as_a_whole() {
    let flows = [
        "in_port=1 actions=learn(table=2,priority=5,NXM_OF_VLAN_TCI[],load:0->NXM_OF_VLAN_TCI[],\
         output:NXM_OF_IN_PORT[]),output:3",
        "in_port=2 actions=resubmit(,2)",
    ];
    for version in Version::ALL {
        let mut bed = Bed::new(3);
        for line in flows {
            bed.ok(flow(line, version));
        }
        for first in [tagged(&frame(2, 1), 0x4003), frame(2, 1)] {
            bed.send(1, &first);
            bed.receive(3);
            let known = bed.agent.flows().len(2);
            bed.until("an entry is learned", |bed| bed.agent.flows().len(2) > known);
            bed.send(2, &first);
            assert_eq!(bed.receive(1), frame(2, 1), "and it takes the tag away");
        }
        // Another priority is another tag.
        bed.send(2, &tagged(&frame(2, 1), 0x6003));
        bed.silent(1);
    }
}

#[test]
fn the_type_of_service_is_read_and_written_as_a_byte() {
    let flows = [
        "ip,in_port=1 actions=load:10->NXM_OF_IP_TOS[2..7],output:3",
        "ip,in_port=2 actions=move:NXM_OF_IP_TOS[]->NXM_NX_REG0[0..7],set_field:0x40->nw_tos,output:3,\
         move:NXM_NX_REG0[0..7]->NXM_OF_IP_TOS[],output:1",
    ];
    each(&Version::ALL, &flows, |bed| {
        bed.send(1, &udp(0xb9, [0x64, 0x2a]));
        let got = bed.receive(3);
        assert_eq!(got[15], 10 << 2 | 1, "congestion bits stay");
        bed.send(2, &udp(0xb9, [0x64, 0x2a]));
        assert_eq!(bed.receive(3)[15], 0x41);
        let back = bed.receive(1);
        assert_eq!(back[15], 0xb9);
        assert_eq!(header_sum(&back), header_sum(&udp(0xb9, [0x64, 0x2a])));
    });
}

#[test]
fn wide_registers_are_pushed_and_popped_as_one() {
    let flows = [
        "in_port=1 actions=load:0x1111->NXM_NX_REG0[],load:0x2222->NXM_NX_REG3[],push:NXM_NX_XXREG0[],\
         set_field:0->xxreg0,pop:NXM_NX_XXREG1[],move:NXM_NX_REG4[0..15]->NXM_OF_ETH_DST[0..15],\
         move:NXM_NX_REG7[0..15]->NXM_OF_ETH_SRC[0..15],output:2",
        "in_port=2 actions=load:0x3333->OXM_OF_PKT_REG2[16..47],push:OXM_OF_PKT_REG2[16..47],\
         pop:NXM_NX_REG0[],move:NXM_NX_REG0[0..15]->NXM_OF_ETH_DST[0..15],\
         move:NXM_NX_REG0[16..31]->NXM_OF_ETH_SRC[0..15],output:3",
    ];
    each(&Version::ALL, &flows, |bed| {
        bed.send(1, &frame(2, 1));
        assert_eq!(bed.receive(2), frame(0x1111, 0x2222));
        bed.send(2, &frame(2, 1));
        assert_eq!(bed.receive(3), frame(0x3333, 0));
    });
}

#[test]
fn metadata_is_a_destination_like_a_register() {
    let flows = [
        "in_port=1 actions=load:0x4->OXM_OF_METADATA[],resubmit(,1)",
        "in_port=2 actions=set_field:0x2a/0xff->metadata,move:OXM_OF_METADATA[0..7]->NXM_NX_REG0[0..7],\
         load:0->OXM_OF_METADATA[],push:NXM_NX_REG0[],pop:OXM_OF_METADATA[0..31],resubmit(,1)",
        "table=1 actions=move:OXM_OF_METADATA[0..15]->NXM_OF_ETH_DST[0..15],output:3",
    ];
    // 1.0 has tables by Nicira's flow-mod alone.
    each(&[Version::V13, Version::V14, Version::V15], &flows, |bed| {
        bed.send(1, &frame(0, 1));
        assert_eq!(bed.receive(3), frame(4, 1));
        bed.send(2, &frame(0, 1));
        assert_eq!(bed.receive(3), frame(0x2a, 1));
    });
    // What was written is matched.
    let flows = [
        "in_port=1 actions=set_field:0x4->metadata,resubmit(,1)",
        "table=1,metadata=4 actions=output:2",
        "table=1,priority=1 actions=output:3",
    ];
    each(&[Version::V13, Version::V15], &flows, |bed| {
        bed.send(1, &frame(0, 1));
        assert_eq!(bed.receive(2), frame(0, 1));
    });
}

#[test]
fn a_packet_goes_out_by_its_port_once_that_is_not_where_it_came_in() {
    let flows = [
        "in_port=1 actions=push:NXM_OF_IN_PORT[],load:0->NXM_OF_IN_PORT[],output:1,\
         pop:NXM_OF_IN_PORT[],output:1,output:2",
        "in_port=2 actions=set_field:3->in_port,resubmit(,1)",
        "in_port=3 actions=load:0xfffe->NXM_OF_IN_PORT[],resubmit(,1)",
    ];
    each(&Version::ALL, &flows, |bed| {
        bed.send(1, &frame(2, 1));
        assert_eq!(bed.receive(1), frame(2, 1));
        assert_eq!(bed.receive(2), frame(2, 1));
        bed.silent(1);
    });
    let tables = [
        flows[1],
        flows[2],
        "table=1,in_port=3 actions=in_port,output:2,output:3,resubmit(7,2)",
        "table=1,in_port=LOCAL actions=output:3,flood",
        "table=1,in_port=2 actions=output:1",
        "table=2,in_port=7 actions=set_field:00:00:00:00:00:07->eth_dst,output:1",
    ];
    each(&[Version::V13, Version::V15], &tables, |bed| {
        bed.send(2, &frame(2, 1));
        assert_eq!(bed.receive(3), frame(2, 1), "in_port is what was said");
        assert_eq!(bed.receive(2), frame(2, 1), "where it came in");
        assert_eq!(bed.receive(1), frame(7, 1), "a resubmit by another port looks by that one");
        bed.silent(3);
        bed.send(3, &frame(2, 1));
        assert_eq!(bed.receive(3), frame(2, 1));
        // Flooding leaves out the port that was said.
        assert_eq!(bed.receive(3), frame(2, 1));
        assert_eq!([bed.receive(1), bed.receive(2)], [frame(2, 1), frame(2, 1)]);
    });
}

#[test]
fn parts_of_fields_that_do_not_fill_their_bytes() {
    let flows = [
        "in_port=1,dl_vlan=5 actions=load:3->OXM_OF_VLAN_PCP[],load:1->OXM_OF_VLAN_PCP[2],output:2",
        "in_port=1,mpls actions=load:10->OXM_OF_MPLS_LABEL[],load:5->OXM_OF_MPLS_TC[],\
         load:1->OXM_OF_MPLS_LABEL[19],output:2",
        "in_port=1,ip actions=load:3->OXM_OF_IP_DSCP[],load:3->NXM_NX_IP_ECN[],\
         load:1->OXM_OF_IP_DSCP[5],output:2",
    ];
    each(&Version::ALL, &flows, |bed| {
        bed.send(1, &tagged(&frame(2, 1), 0x0005));
        assert_eq!(bed.receive(2), tagged(&frame(2, 1), 0xe005));
        bed.send(1, &udp(0, [0x64, 0xe3]));
        assert_eq!(bed.receive(2)[15], (0x20 | 3) << 2 | 3);
        let mut mpls = frame(2, 1);
        mpls[12..18].copy_from_slice(&[0x88, 0x47, 0, 1, 1, 64]);
        bed.send(1, &mpls);
        assert_eq!(bed.receive(2)[14..18], [0x80, 0, 0xab, 64]);
    });
}

#[test]
fn queues_and_truncating_outputs() {
    let flows = [
        "in_port=1 actions=set_queue:7,output:2,pop_queue,output(port=3,max_len=70),output:2",
        "in_port=2 actions=enqueue:3:1,output(port=IN_PORT,max_len=64),output(port=2,max_len=30)",
    ];
    // Longer than the least that Ethernet sends.
    let long = [&frame(2, 1)[..], &[7; 40]].concat();
    each(&Version::ALL, &flows, |bed| {
        bed.send(1, &long);
        assert_eq!([bed.receive(2), bed.receive(2)], [long.clone(), long.clone()]);
        assert_eq!(bed.receive(3), long[..70]);
        bed.send(2, &long);
        assert_eq!(bed.receive(3), long);
        assert_eq!(bed.receive(2), long[..64]);
        bed.silent(2);
    });
}

#[test]
fn flags_of_tcp_and_the_sets_output_are_fields_before_1_5() {
    let flows = [
        "in_port=1,tcp,tp_dst=80,tcp_flags=+psh actions=output:2",
        "in_port=1,priority=1,tcp actions=output:3",
    ];
    let tcp = |flags: u8| {
        let mut bytes = udp(0, [0x64, 0xe3]);
        bytes[23] = 6;
        bytes[36..38].copy_from_slice(&[0, 80]);
        bytes[38..50].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0, 0]);
        bytes
    };
    each(&[Version::V13, Version::V14, Version::V15], &flows, |bed| {
        bed.send(1, &tcp(0x18));
        bed.receive(2);
        bed.send(1, &tcp(0x10));
        bed.receive(3);
    });
    let flows = [
        "in_port=1 actions=write_actions(output:2),goto_table:1",
        "in_port=2 actions=goto_table:1",
        "table=1,actset_output=2 actions=set_field:00:00:00:00:00:09->eth_dst",
        "table=1,priority=1 actions=output:3",
    ];
    each(&[Version::V13, Version::V14, Version::V15], &flows, |bed| {
        bed.send(1, &frame(2, 1));
        assert_eq!(bed.receive(2), frame(9, 1));
        bed.send(2, &frame(2, 1));
        assert_eq!(bed.receive(3), frame(2, 1));
    });
}
