//! What the pipeline under `packet` holds: every kind of action, group and meter, by a few bytes.
//!
//! The last byte of the Ethernet destination chooses the entry of table 0, so that one byte of input
//! decides what is done; table 1 looks at protocols, table 2 at addresses and odd fields, the tables
//! behind write and clear action sets.

/// Meters: what drops, what marks, both.
pub(super) const METERS: &[&str] = &[
    "meter=1,kbps,burst,bands=type=drop,rate=1,burst_size=1",
    "meter=2,pktps,burst,bands=type=dscp_remark,rate=1,burst_size=1,prec_level=1",
    "meter=3,pktps,bands=type=dscp_remark,rate=1,prec_level=7 type=drop,rate=3",
];

/// Groups, of all types, some leading to others.
pub(super) const GROUPS: &[&str] = &[
    "group_id=1,type=indirect,bucket=actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2",
    "group_id=2,type=select,bucket=weight:5,actions=output:1,bucket=weight:1,actions=output:2,\
     bucket=weight:0,actions=output:3",
    "group_id=3,type=all,bucket=actions=dec_ttl,output:1,bucket=actions=group:1,\
     bucket=actions=group:2,bucket=actions=controller:20",
    "group_id=4,type=ff,bucket=watch_port:3,actions=output:3,\
     bucket=watch_port:2,actions=push_mpls:0x8847,set_mpls_ttl:9,output:2",
    "group_id=5,type=all,bucket=actions=group:3,bucket=actions=push_pbb:0x88e7,group:4,\
     bucket=actions=copy_ttl_in,pop_mpls:0x0800,mod_nw_ttl:1,in_port,bucket=actions=flood",
    "group_id=6,type=ff,bucket=watch_group:4,actions=group:4",
    "group_id=7,type=select",
    "group_id=8,type=indirect,bucket=actions=pop_vlan,pop_pbb,dec_mpls_ttl,flood",
];

/// Flow entries. `@XX` stands for a match of the destination's last byte.
pub(super) const FLOWS: &[&str] = &[
    // Outputs.
    "@01 actions=output:2",
    "@02 actions=in_port,output:1,output:3",
    "@03 actions=normal",
    "@04 actions=flood,all",
    "@05 actions=controller:64,output:2,controller,goto_table:1",
    "@06 actions=set_queue:3,output:2,local",
    // Tags and labels.
    "@10 actions=push_vlan:0x8100,set_field:4103->vlan_vid,push_vlan:0x88a8,output:2,goto_table:1",
    "@11,vlan_tci=0x1000/0x1000 actions=set_field:3->vlan_pcp,pop_vlan,output:2,goto_table:1",
    "@12 actions=push_mpls:0x8847,set_field:77->mpls_label,set_mpls_ttl:3,push_mpls:0x8848,\
     copy_ttl_out,output:2,goto_table:1",
    "@13,mpls actions=dec_mpls_ttl,copy_ttl_in,pop_mpls:0x0800,output:2,goto_table:1",
    "@14,mpls actions=pop_mpls:0x8847,pop_mpls:0x86dd,mod_nw_ttl:7,output:2,goto_table:1",
    "@15 actions=push_pbb:0x88e7,set_field:9->pbb_isid,output:2,goto_table:1",
    "@16,dl_type=0x88e7 actions=pop_pbb,output:2,goto_table:1",
    "@17 actions=push_vlan:0x8100,push_vlan:0x8100,push_vlan:0x8100,push_vlan:0x8100,\
     push_vlan:0x8100,push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,\
     push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,push_mpls:0x8847,\
     push_pbb:0x88e7,push_pbb:0x88e7,output:2,goto_table:1",
    "@18 actions=pop_vlan,pop_vlan,pop_vlan,pop_vlan,pop_vlan,output:2,goto_table:1",
    "@19,mpls actions=pop_mpls:0x88e7,pop_pbb,output:2,goto_table:1",
    // TTLs, metadata, meters, groups.
    "@20,ip actions=dec_ttl,output:2,goto_table:1",
    "@21,ipv6 actions=meter:2,dec_ttl,mod_nw_ttl:1,dec_ttl,output:2",
    "@22 actions=meter:1,output:2",
    "@23,ip actions=meter:3,output:2,write_metadata:0x5/0xf,goto_table:1",
    "@24 actions=group:1,output:2",
    "@25 actions=group:2",
    "@26 actions=group:3,output:2,group:3",
    "@27 actions=group:4,group:6",
    "@28 actions=group:5,group:7,group:8,goto_table:1",
    "@34,ip actions=clone(dec_ttl,output:3,group:2),resubmit(,1),output:2,resubmit(3,1),\
     bundle(symmetric_l4,7,hrw,ofport,members:1,2,3)",
    "@35 actions=bundle_load(eth_src,0,active_backup,ofport,NXM_NX_REG2[0..15],members:9,2),\
     output:NXM_NX_REG2[0..15],resubmit(,0)",
    "@36 actions=clone(resubmit(,3)),clone(normal,push_vlan:0x8100),goto_table:1",
    "@29 actions=set_field:1:2:3:4:5:6->eth_src,set_field:0x88b5->eth_type,output:2,goto_table:1",
    // Action sets.
    "@30,mpls actions=write_actions(copy_ttl_in,pop_vlan,pop_mpls:0x0800,push_vlan:0x8100,\
     copy_ttl_out,dec_ttl,set_field:1:2:3:4:5:6->eth_src,set_queue:1,output:2),goto_table:1",
    "@31 actions=write_actions(push_pbb:0x88e7,group:5,output:2),goto_table:3",
    "@32 actions=write_actions(push_mpls:0x8847,set_mpls_ttl:2,dec_mpls_ttl,in_port),goto_table:4",
    "@33,ip actions=write_actions(mod_nw_ttl:2,dec_ttl,push_vlan:0x88a8,all),goto_table:3",
    // Protocols.
    "table=1,priority=9,tcp actions=set_field:80->tcp_dst,output:2,goto_table:2",
    "table=1,priority=9,tcp6 actions=set_field:80->tcp_src,output:2,goto_table:2",
    "table=1,priority=9,udp actions=set_field:53->udp_dst,set_field:1.2.3.4->ipv4_src,output:2,\
     goto_table:2",
    "table=1,priority=9,udp6 actions=set_field:fe80::1->ipv6_src,set_field:0->udp_src,output:2,\
     goto_table:2",
    "table=1,priority=9,sctp actions=set_field:9->sctp_dst,output:2,goto_table:2",
    "table=1,priority=9,sctp6 actions=set_field:9->sctp_src,output:2,goto_table:2",
    "table=1,priority=9,icmp actions=set_field:8->icmpv4_type,output:2,goto_table:2",
    "table=1,priority=9,icmp6,icmp_type=135 actions=set_field:fe80::2->nd_target,\
     set_field:1:2:3:4:5:6->nd_sll,output:2",
    "table=1,priority=9,icmp6,icmp_type=136 actions=set_field:1:2:3:4:5:6->nd_tll,output:2",
    "table=1,priority=8,icmp6 actions=set_field:3->icmpv6_code,output:2,goto_table:2",
    "table=1,priority=9,arp actions=set_field:2->arp_op,set_field:1.2.3.4->arp_spa,\
     set_field:1.2.3.5->arp_tpa,set_field:1:2:3:4:5:6->arp_sha,set_field:1:2:3:4:5:6->arp_tha,\
     output:2,goto_table:2",
    "table=1,priority=9,mpls actions=set_field:1->mpls_tc,set_field:0->mpls_bos,output:2,goto_table:2",
    "table=1,priority=1 actions=goto_table:2",
    // Odd fields.
    "table=2,priority=9,ipv6,ipv6_label=0x5/0xf actions=set_field:0x12345->ipv6_label,output:2",
    "table=2,priority=8,ipv6,ipv6_exthdr=0x1/0x1 actions=output:2,goto_table:3",
    "table=2,priority=7,ip,nw_tos=32 actions=set_field:3->ip_ecn,set_field:9->ip_dscp,output:2",
    "table=2,priority=6,ipv6,ipv6_src=fe80::/10 actions=set_field:63->ip_dscp,\
     set_field:ff02::1->ipv6_dst,output:2,goto_table:3",
    "table=2,priority=5,ip,nw_src=10.0.0.0/8 actions=set_field:9.9.9.9->ipv4_dst,output:2,goto_table:3",
    "table=2,priority=4,metadata=0x5/0xf actions=set_field:0x7->tunnel_id,output:2,goto_table:3",
    "table=2,priority=3,vlan_tci=0x1000/0x1000 actions=set_field:4097->vlan_vid,output:2",
    "table=2,priority=0 actions=controller:128,goto_table:3",
    // Action sets again, and the ends.
    "table=3,priority=5,in_port=1 actions=clear_actions,write_actions(output:3),goto_table:4",
    "table=3,priority=4,in_port=2 actions=write_actions(push_vlan:0x8100,set_field:4099->vlan_vid,\
     group:2),goto_table:5",
    "table=3,priority=0 actions=goto_table:4",
    "table=4,priority=1,ip actions=write_actions(mod_nw_ttl:64,controller:30)",
    "table=4,priority=0 actions=drop",
];
