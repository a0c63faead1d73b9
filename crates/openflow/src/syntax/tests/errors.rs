//! Texts of errors, word for word.

use super::*;

/// Meters, for the fuzz body's seeds.
pub(super) const METERS: &[&str] = &[
    "meter=1,kbps,bands=type=drop,rate=1000",
    "meter=1 pktps burst stats bands=type=drop rate=1000 burst_size=100 type=dscp_remark rate=5 prec_level=1",
    "modify meter=controller kbps bands=type=experimenter rate=1 id=0x5 data=00ff",
    "delete meter=all",
];

fn check<T: std::fmt::Debug>(
    cases: &[(&str, &str)],
    read: impl Fn(&str) -> Result<T, SyntaxError>,
) {
    for (text, expected) in cases {
        let error = read(text).expect_err(text);
        assert_eq!(error.to_string(), *expected, "{text}");
    }
}

#[test]
fn of_flows() {
    check(
        &[
            (
                "ip,nw_scr=1.2.3.4,actions=drop",
                "column 4: unknown field `nw_scr`; did you mean `nw_src`?",
            ),
            ("zebra=1,actions=drop", "column 1: unknown field `zebra`"),
            (
                "priorty=1,actions=drop",
                "column 1: unknown field `priorty`; did you mean `priority`?",
            ),
            ("ip", "column 3: expected `actions=`, found nothing"),
            ("ip actions", "column 4: expected `actions=`, found `actions`"),
            (
                "nw_src=1.2.3.4,actions=drop",
                "column 1: `nw_src=1.2.3.4`: field ipv4_src needs eth_type=0x0800 before it",
            ),
            (
                "ip,tp_src=5,actions=drop",
                "column 4: `tp_src=5`: it needs tcp, udp, sctp or icmp, for IPv4 or IPv6, beside it",
            ),
            (
                "ip,nw_src=1.2.3,actions=drop",
                "column 11: expected an IPv4 address like 10.0.0.1, found `1.2.3`",
            ),
            (
                "ip,nw_src=1.2.3.4/33,actions=drop",
                "column 19: expected a prefix length from 0 to 32, found `33`",
            ),
            (
                "dl_src=00:11:22:33:44,actions=drop",
                "column 8: expected an Ethernet address like 00:11:22:33:44:55, found `00:11:22:33:44`",
            ),
            (
                "ip,nw_proto=80/0xf0,actions=drop",
                "column 4: `nw_proto=80/0xf0`: field ip_proto takes no mask, yet has 0xf0",
            ),
            ("tcp,udp,actions=drop", "column 5: `udp` is there twice; once is right"),
            (
                "dl_vlan=4096,actions=drop",
                "column 9: expected a VLAN id from 0 to 4095, or 0xffff for no tag, found `4096`",
            ),
            (
                "in_port=eth9,actions=drop",
                "column 9: expected a port's number or name, found `eth9`",
            ),
            ("xreg8=1,actions=drop", "column 1: `xreg8`: Nicira extension not supported yet"),
            ("packet_type=5,actions=drop", "column 1: `packet_type`: OpenFlow13 has no such field"),
            (
                "table=255,actions=drop",
                "column 1: expected a table from 0 to 254, found `table=255`",
            ),
            ("table=256,actions=drop", "column 7: expected a number from 0 to 255, found `256`"),
            ("priority=,actions=drop", "column 10: expected a value for `priority`, found nothing"),
            ("ip=4,actions=drop", "column 1: `ip=4`: `ip` takes no value"),
            (
                "cookie=1/2,actions=drop",
                "column 8: `1/2`: an add sets the cookie; it takes no mask",
            ),
            ("table=1,table=2,actions=drop", "column 9: `table` is there twice; once is right"),
            ("delete ip,actions=drop", "column 11: `actions`: a delete has no actions"),
            (
                "delete cookie=1/0",
                "column 17: expected a mask, as without one nothing is filtered, found `0`",
            ),
            (
                "delete cookie=1",
                "column 15: expected a cookie with a mask, to filter by, e.g. `cookie=1/-1`, found `1`",
            ),
            ("out_port=1,actions=drop", "column 1: `out_port`: only a delete may filter by it"),
            ("importance=1,actions=drop", "column 1: `importance`: OpenFlow13 has no such setting"),
            ("ip,actions=write_actions(drop", "column 25: `(drop`: `)` is missing"),
        ],
        |text| parse_flow(text, &cx(Version::V13)),
    );
}

#[test]
fn of_actions() {
    check(
        &[
            ("outptu:1", "column 1: unknown action `outptu`; did you mean `output`?"),
            ("output", "column 7: expected a value for `output`, found nothing"),
            ("output:eth7", "column 8: expected a port's number or name, found `eth7`"),
            ("drop,1", "column 1: `drop`: it must stand alone"),
            ("1,drop", "column 3: `drop`: it must stand alone"),
            (
                "write_metadata:1,meter:1",
                "column 18: `meter`: it must come before `write_metadata`",
            ),
            ("goto_table:1,2", "column 14: `2`: it must come before `goto_table`"),
            (
                "clear_actions,clear_actions",
                "column 15: `clear_actions` is there twice; once is right",
            ),
            (
                "apply_actions(1)",
                "column 1: `apply_actions`: actions outside other instructions are applied at once; \
                 leave the word out",
            ),
            (
                "write_actions(1,goto_table:2)",
                "column 17: `goto_table`: an instruction, where only actions may stand",
            ),
            ("sample(probability=1)", "column 1: `sample`: Nicira extension not supported yet"),
            ("clone:1", "column 1: `clone`: its actions follow in parentheses"),
            (
                "clone(clone(clone(clone(clone(clone(clone(clone(clone(1)))))))))",
                "column 1: `clone`: at most 8 of them stand inside each other",
            ),
            (
                "clone(1,goto_table:2)",
                "column 9: `goto_table`: an instruction, where only actions may stand",
            ),
            (
                "bundle(eth_src,0,best,ofport,members:1)",
                "column 18: expected `active_backup` or `hrw`, found `best`",
            ),
            (
                "bundle(eth_src,0,hrw,ofport,members:)",
                "column 37: expected 1 to 64 members, found nothing",
            ),
            (
                "bundle_load(eth_src,0,hrw,ofport,members:1)",
                "column 13: expected FIELDS,BASIS,ALGORITHM,ofport,FIELD[BITS],members:PORT..., \
                 found `eth_src,0,hrw,ofport,members:1`",
            ),
            ("load:1->reg0[4..2]", "column 9: expected bits from 0 to 31, found `reg0[4..2]`"),
            (
                "move:reg0[0..3]->reg1",
                "column 6: expected as many bits on both sides, found `reg0[0..3]->reg1`",
            ),
            (
                "note:1",
                "column 6: expected bytes of two hexadecimal digits with dots between, found `1`",
            ),
            (
                "conjunction(1,3/2)",
                "column 13: expected `conjunction(ID,K/N)`, K from 1 to N, N from 2 to 64, found `1,3/2`",
            ),
            (
                "dec_ttl(1,x)",
                "column 1: expected `dec_ttl(ID,ID...)`, ids from 0 to 65535, found `dec_ttl`",
            ),
            (
                "set_field:1.2.3.4->nw_scr",
                "column 20: unknown field `nw_scr`; did you mean `nw_src`?",
            ),
            ("set_field:1->tcp_flags", "column 14: `tcp_flags`: no action may set this field"),
            (
                "mod_dl_src:1:2:3:4:5:6/ff:0:0:0:0:0",
                "column 12: `1:2:3:4:5:6/ff:0:0:0:0:0`: it takes no mask; \
                 set_field:VALUE/MASK->eth_src does",
            ),
            ("set_field:7", "column 11: expected `set_field:VALUE->FIELD`, found `7`"),
            ("push_vlan:0x8101", "column 11: expected 0x8100 or 0x88a8, found `0x8101`"),
            ("push_mpls:0x800", "column 11: expected 0x8847 or 0x8848, found `0x800`"),
            ("mod_vlan_vid:4096", "column 14: expected a number from 0 to 4095, found `4096`"),
            (
                "mod_nw_tos:17",
                "column 12: expected a type of service whose two low bits are 0, found `17`",
            ),
            ("enqueue:1", "column 9: expected `enqueue:PORT:QUEUE`, found `1`"),
            (
                "controller(max_ln=5)",
                "column 12: unknown option of `controller` `max_ln`; did you mean `max_len`?",
            ),
            ("controller(pause=1)", "column 12: `pause=1`: `pause` takes no value"),
            ("normal:3", "column 1: `normal:3`: `normal` takes no value"),
            ("output:-1", "column 8: expected a port's number or name, found `-1`"),
        ],
        |text| parse_actions(text, &cx(Version::V13)),
    );
}

#[test]
fn of_version_1_0() {
    check(
        &[
            ("actions=meter:1", "column 9: `meter`: OpenFlow10 has no such action"),
            ("actions=goto_table:1", "column 9: `goto_table`: OpenFlow10 has no such action"),
            ("metadata=1,actions=drop", "column 1: `metadata=1`: OpenFlow10 has no such field"),
            (
                "dl_src=1:2:3:4:5:6/ff:0:0:0:0:0,actions=drop",
                "column 1: `dl_src=1:2:3:4:5:6/ff:0:0:0:0:0`: OpenFlow10 has no such mask",
            ),
            (
                "vlan_vid=0x1000/0x1000,actions=drop",
                "column 1: `vlan_vid=0x1000/0x1000`: OpenFlow10 has no such mask",
            ),
            ("table=1,actions=drop", "column 1: `table`: OpenFlow10 has no such setting"),
            ("reset_counts,actions=drop", "column 1: `reset_counts`: OpenFlow10 has no such flag"),
            ("modify cookie=1/1,actions=drop", "column 17: `1`: OpenFlow10 has no such filter"),
            (
                "in_port=70000,actions=drop",
                "column 9: expected a port of OpenFlow10, from 0 to 65535, found `70000`",
            ),
        ],
        |text| parse_flow(text, &cx(Version::V10)),
    );
}

#[test]
fn of_groups_and_meters() {
    check(
        &[
            ("type=all", "column 9: expected `group_id=`, found nothing"),
            ("group_id=1", "column 11: expected `type=`, found nothing"),
            (
                "group_id=1,type=al",
                "column 17: expected a group type: all, select, indirect or ff, found `al`",
            ),
            (
                "group_id=1,tpye=all",
                "column 12: unknown word of a group `tpye`; did you mean `type`?",
            ),
            ("group_id=all,type=all", "column 10: `all`: only a delete may name all groups"),
            (
                "group_id=1,type=all,bucket=weight:2,actions=1",
                "column 28: `weight`: only buckets of select groups have a weight",
            ),
            (
                "group_id=1,type=select,bucket=weight:2",
                "column 31: expected a bucket with `actions=`, found nothing",
            ),
            (
                "group_id=1,type=indirect",
                "column 25: expected exactly one bucket, as the group is indirect, found nothing",
            ),
            ("group_id=1,bucket=actions=1", "column 12: `bucket`: `type=` must come before it"),
            (
                "group_id=1,type=all,bucket=actions=outpu:1",
                "column 36: unknown action `outpu`; did you mean `output`?",
            ),
            (
                "group_id=1,type=all,bucket=actions=clear_actions",
                "column 36: `clear_actions`: an instruction, where only actions may stand",
            ),
            (
                "group_id=1,type=all,bucket=actions=1,actions=2",
                "column 38: `actions` is there twice; once is right",
            ),
            (
                "group_id=1,type=all,bucket=actions=bucket=actions=",
                "column 36: expected actions and a comma, found `bucket=actions=`",
            ),
            (
                "group_id=1,type=all,selection_method=hash,bucket=1",
                "column 51: expected `type=select`, as the group has a selection_method, found nothing",
            ),
        ],
        |text| parse_group(text, &cx(Version::V13)),
    );
    check(
        &[
            ("kbps,bands=type=drop,rate=1", "column 28: expected `meter=`, found nothing"),
            (
                "meter=1,bands=type=drop,rate=1",
                "column 31: expected the meter's unit, `kbps` or `pktps`, found nothing",
            ),
            ("meter=1,kbps", "column 13: expected `bands=`, found nothing"),
            ("meter=1,kpbs", "column 9: unknown word of a meter `kpbs`; did you mean `kbps`?"),
            (
                "meter=1,kbps,bands=rate=1",
                "column 20: expected `type=`, which begins a band, found `rate`",
            ),
            ("meter=1,kbps,bands=type=drop", "column 25: `drop`: the band needs `rate=`"),
            (
                "meter=1,kbps,bands=type=dscp_remark,rate=1",
                "column 25: `dscp_remark`: the band needs `prec_level=`",
            ),
            (
                "meter=1,kbps,bands=type=shape,rate=1",
                "column 25: expected a band type: drop, dscp_remark or experimenter, found `shape`",
            ),
            (
                "meter=1,kbps,bands=type=drop,rate=1,prec_level=1",
                "column 37: `prec_level`: only a dscp_remark band has it",
            ),
        ],
        |text| parse_meter(text, &cx(Version::V13)),
    );
}

#[test]
fn of_packets() {
    check(
        &[
            ("metadata=1", "column 1: `metadata`: no frame is made with it; leave it out"),
            ("tcp,tp_dts=1", "column 5: unknown field `tp_dts`; did you mean `tp_dst`?"),
        ],
        parse_packet,
    );
}
