//! Every shape of flow, group and meter that a distributed router and switch (OVN) sends over OpenFlow 1.5: each
//! line goes in as text, through the bytes of the version, and is taken; and the flows are taken as text in whatever
//! version has the words.

use super::bed::*;
use openflow::syntax::{self, Context, parse_flow, parse_group, parse_meter};
use openflow::{Message, Version, Xid, decode, encode};

const METERS: [&str; 2] = [
    "meter=3,pktps,stats,bands=type=drop,rate=25",
    "meter=4,kbps,burst,stats,bands=type=drop,rate=5000,burst_size=500",
];

const GROUPS: [&str; 3] = [
    "group_id=7,type=select,selection_method=dp_hash,bucket=bucket_id:0,weight:100,actions=\
     ct(commit,table=6,zone=NXM_NX_REG11[0..15],nat(dst=192.0.2.7:8080),exec(set_field:0x2/0x2->ct_mark)),\
     bucket=bucket_id:1,weight:50,actions=ct(commit,table=6,zone=NXM_NX_REG11[0..15],\
     nat(dst=[2001:db8::7]:8080),exec(set_field:0x2/0x2->ct_mark))",
    "group_id=8,type=select,selection_method=dp_hash,selection_method_param=4294967296,\
     bucket=bucket_id:0,weight:100,actions=set_field:0x3000000000000/0xffff000000000000->xreg4,resubmit(,2)",
    "group_id=9,type=all,bucket=bucket_id:0,actions=set_field:2->reg15,resubmit(,4),\
     bucket=bucket_id:1,actions=output:2",
];

const FLOWS: [&str; 38] = [
    // From ports into the pipeline.
    "priority=180,vlan_tci=0x0000/0x1000 actions=conjunction(9,2/2)",
    "priority=180,conj_id=9,in_port=2,vlan_tci=0x0000/0x1000 actions=set_field:0xb->reg13,\
     set_field:0x5->metadata,set_field:00:00:5e:00:53:01->eth_src,resubmit(,1)",
    "priority=100,in_port=1,dl_vlan=0 actions=pop_vlan,set_field:0x6->metadata,resubmit(,1)",
    "priority=100,in_port=1 actions=set_field:0xb->reg13,set_field:0x5->metadata,resubmit(,1)",
    // Registers, whole and in part.
    "table=1,priority=9,reg0=0x2/0x2002,metadata=0x5 actions=set_field:0/0x1000->reg10,\
     set_field:0x1/0x1->reg10,resubmit(,2)",
    "table=1,priority=8,metadata=0x5 actions=set_field:0/0x2000000000000000000000000->xxreg0,resubmit(,2)",
    "table=1,priority=7,ip,metadata=0x5 actions=set_field:0xc0000201000000000000000000000000\
     /0xffffffff000000000000000000000000->xxreg0,set_field:0/0xffff00000000->xreg4,resubmit(,2)",
    "table=1,priority=6,ipv6,metadata=0x5 actions=set_field:0x20010db8000000000000000000000001->xxreg1,\
     move:NXM_NX_IPV6_DST[]->NXM_NX_XXREG0[],resubmit(,2)",
    "table=1,priority=5,ip,metadata=0x5 actions=move:NXM_OF_IP_DST[]->NXM_NX_XXREG0[96..127],\
     move:NXM_NX_REG10[7]->NXM_NX_XXREG0[111],move:NXM_NX_REG10[6]->OXM_OF_PKT_REG4[2],\
     move:OXM_OF_PKT_REG4[4]->NXM_NX_REG10[11],resubmit(,2)",
    // The stack.
    "table=2,priority=9,arp,metadata=0x5 actions=push:NXM_NX_REG0[],push:NXM_OF_ETH_SRC[],\
     push:NXM_NX_ARP_SHA[],push:NXM_OF_ARP_SPA[],pop:NXM_NX_REG0[],pop:NXM_OF_ETH_SRC[],\
     pop:NXM_NX_ARP_SHA[],pop:NXM_OF_ARP_SPA[]",
    "table=2,priority=8,ipv6,metadata=0x5 actions=push:NXM_NX_XXREG0[],push:NXM_NX_IPV6_SRC[],\
     pop:NXM_NX_XXREG0[],set_field:00:00:00:00:00:00->eth_dst,pop:NXM_NX_IPV6_DST[]",
    "table=2,priority=7,ip,metadata=0x5 actions=push:NXM_NX_XXREG0[96..127],push:NXM_OF_IP_DST[],\
     pop:NXM_OF_IP_SRC[],pop:NXM_NX_REG1[]",
    "table=2,priority=6,icmp6,icmp_type=135,icmp_code=0,metadata=0x5 actions=push:NXM_NX_ND_TARGET[],\
     push:NXM_NX_ND_SLL[],pop:NXM_OF_ETH_SRC[],pop:NXM_NX_XXREG0[]",
    "table=2,priority=5,metadata=0x5 actions=push:NXM_OF_IN_PORT[],set_field:0->in_port,resubmit(,3),\
     pop:NXM_OF_IN_PORT[]",
    "table=2,priority=4,metadata=0x5,reg15=0x2 actions=set_field:0->in_port,set_field:0->reg0,\
     set_field:0->reg9,resubmit(,3)",
    // Answers made of questions.
    "table=3,priority=9,arp,arp_op=1,arp_tpa=192.0.2.1,metadata=0x5 actions=\
     move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:00:00:5e:00:53:02->eth_src,set_field:2->arp_op,\
     move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:00:00:5e:00:53:02->arp_sha,\
     move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:192.0.2.1->arp_spa,\
     move:NXM_NX_REG14[]->NXM_NX_REG15[],load:0x1->NXM_NX_REG10[0],resubmit(,4)",
    "table=3,priority=8,icmp,icmp_type=8,icmp_code=0,nw_dst=192.0.2.1,metadata=0x5 actions=\
     push:NXM_OF_IP_SRC[],push:NXM_OF_IP_DST[],pop:NXM_OF_IP_SRC[],pop:NXM_OF_IP_DST[],\
     set_field:255->nw_ttl,set_field:0->icmp_type,set_field:0x1/0x1->reg10,resubmit(,4)",
    "table=3,priority=7,icmp6,icmp_type=128,icmp_code=0,ipv6_dst=2001:db8::1,metadata=0x5 actions=\
     push:NXM_NX_IPV6_SRC[],push:NXM_NX_IPV6_DST[],pop:NXM_NX_IPV6_SRC[],pop:NXM_NX_IPV6_DST[],\
     set_field:255->nw_ttl,set_field:129->icmpv6_type,resubmit(,4)",
    "table=3,priority=6,rarp,arp_op=3,metadata=0x5 actions=drop",
    "table=3,priority=5,udp,metadata=0x5 actions=set_field:53->udp_src,\
     move:NXM_OF_UDP_SRC[]->NXM_OF_UDP_DST[],set_field:192.0.2.9->ip_src,set_field:40->ip_dscp,resubmit(,4)",
    "table=3,priority=4,tcp6,metadata=0x5,tp_dst=443 actions=set_field:2001:db8::9->ipv6_src,resubmit(,4)",
    // Time to live; fragments; one's own controller.
    "table=4,priority=9,ip,nw_dst=192.0.2.0/24,metadata=0x5 actions=dec_ttl(),set_field:0x2->reg15,resubmit(,5)",
    "table=4,priority=8,ip,nw_ttl=1,nw_frag=not_later,metadata=0x5 actions=\
     controller(userdata=00.00.00.0a.00.00.00.00,meter_id=3)",
    "table=4,priority=7,udp,tp_src=68,tp_dst=67,metadata=0x5 actions=\
     controller(userdata=00.00.00.02.00.00.00.00,pause),resubmit(,5)",
    "table=4,priority=6,icmp6,nw_ttl=255,icmp_type=136,nd_tll=00:00:00:00:00:00,metadata=0x5 actions=drop",
    "table=4,priority=5,metadata=0x5 actions=controller(userdata=00.00.00.17,meter_id=4),resubmit(,5)",
    "table=4,priority=4,reg9=0x2/0x2,metadata=0x5 actions=meter:3,resubmit(,5)",
    // Connections and their choice.
    "table=5,priority=9,ip,metadata=0x5 actions=ct(table=6,zone=NXM_NX_REG13[0..15])",
    "table=5,priority=8,ip,metadata=0x6 actions=ct(table=6,zone=NXM_NX_REG11[0..15],nat)",
    "table=5,priority=7,ct_state=+new-rel+trk,tcp,nw_dst=192.0.2.8,tp_dst=80,metadata=0x5 actions=group:7",
    "table=5,priority=6,ct_state=-new+est-rel-rpl-inv+trk,ct_mark=0/0x1,ip,metadata=0x5 actions=\
     set_field:0x200000000000000000000000000/0x200000000000000000000000000->xxreg0,resubmit(,6)",
    "table=5,priority=5,ip,reg0=0x2002/0x2002,metadata=0x5 actions=ct(commit,zone=NXM_NX_REG13[0..15],\
     exec(set_field:0/0x1->ct_mark,move:NXM_NX_XXREG0[0..31]->NXM_NX_CT_LABEL[96..127])),resubmit(,6)",
    "table=5,priority=4,ip,reg7=0,metadata=0x5 actions=dec_ttl(),set_field:0x1/0x1->reg10,group:8",
    // Learnt, cloned, sent.
    "table=6,priority=9,udp,metadata=0x5 actions=learn(table=7,delete_learned,OXM_OF_METADATA[],\
     eth_type=0x800,NXM_OF_IP_SRC[],ip_dst=192.0.2.8,nw_proto=17,NXM_OF_UDP_SRC[]=NXM_OF_UDP_DST[],\
     load:0x1->NXM_NX_REG10[7])",
    "table=6,priority=8,arp,reg10=0/0x2,metadata=0x5 actions=clone(set_field:0x1->reg15,resubmit(,7)),\
     set_field:0x8004->reg15,resubmit(,7)",
    "table=6,priority=7,reg15=0x2,metadata=0x5 actions=output:2",
    "table=6,priority=6,reg15=0x8004,metadata=0x5 actions=set_field:0x2->reg15,resubmit(,7),\
     set_field:0x8004->reg15,group:9",
    "table=7,priority=0 actions=drop",
];

fn received(message: Message) -> Message {
    let bytes =
        encode(Version::V15, Xid(1), &message).unwrap_or_else(|e| panic!("{message:?}: {e}"));
    let (_, message) = decode(Version::V15, &bytes).unwrap_or_else(|e| panic!("{message:?}: {e}"));
    message
}

#[test]
fn every_shape_is_taken_over_1_5() {
    let mut bed = Bed::new(3);
    let cx = Context::new(Version::V15);
    for line in METERS {
        let meter = parse_meter(line, &cx).unwrap_or_else(|e| panic!("{line}: {e}"));
        bed.ok(Request(Version::V15, received(Message::MeterMod(meter))));
    }
    for line in GROUPS {
        let group = parse_group(line, &cx).unwrap_or_else(|e| panic!("{line}: {e}"));
        bed.ok(Request(Version::V15, received(Message::GroupMod(group))));
    }
    for line in FLOWS {
        let flow = parse_flow(line, &cx).unwrap_or_else(|e| panic!("{line}: {e}"));
        bed.ok(Request(Version::V15, received(Message::FlowMod(flow))));
    }
}

#[test]
fn every_shape_is_read_from_a_file() {
    let mut bed = Bed::new(3);
    let text = |line: &str, e: syntax::SyntaxError| -> ! { panic!("{line}: {e}") };
    for line in METERS {
        let read = |version| parse_meter(line, &Context::new(version));
        let (version, meter) = syntax::in_a_version(read).unwrap_or_else(|e| text(line, e));
        bed.ok(Request(version, Message::MeterMod(meter)));
    }
    for line in GROUPS {
        let read = |version| parse_group(line, &Context::new(version));
        let (version, group) = syntax::in_a_version(read).unwrap_or_else(|e| text(line, e));
        bed.ok(Request(version, Message::GroupMod(group)));
    }
    // What the version of most lines cannot say, another can.
    let others = [
        "importance=7,in_port=1 actions=set_tunnel:5,output:2",
        "packet_type=(0,0),in_port=2 actions=set_field:0x2/0xf->reg0,goto_table:4",
        "actions=move:OXM_OF_ETH_SRC[0..47]->OXM_OF_PKT_REG0[0..47],goto_table:2",
    ];
    for line in FLOWS.into_iter().chain(others) {
        let read = |version| parse_flow(line, &Context::new(version));
        let (version, flow) = syntax::in_a_version(read).unwrap_or_else(|e| text(line, e));
        bed.ok(Request(version, Message::FlowMod(flow)));
    }
}
