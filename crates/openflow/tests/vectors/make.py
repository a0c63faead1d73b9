"""Writes messages with os-ken, an independent encoder, one line each: name, version, hex.

Run with a Python that has os-ken: python make.py > messages.txt. The test `vectors.rs` has the same
messages in the neutral form.
"""

from os_ken.ofproto import ofproto_protocol


def emit(name, version, message):
    message.xid = 0x1234
    message.serialize()
    print(name, version, bytes(message.buf).hex())


def v13():
    dp = ofproto_protocol.ProtocolDesc(version=4)
    o, p = dp.ofproto, dp.ofproto_parser
    match = p.OFPMatch(in_port=1, eth_type=0x0800, ip_proto=6,
                       ipv4_src=("10.1.0.0", "255.255.0.0"), tcp_dst=80)
    actions = [
        p.OFPActionPushVlan(0x8100),
        p.OFPActionSetField(vlan_vid=0x1064),
        p.OFPActionSetField(eth_dst="02:00:00:00:00:07"),
        p.OFPActionSetField(ipv6_dst="2001:db8::1"),
        p.OFPActionSetField(pbb_isid=0x123456),
        p.OFPActionPushMpls(0x8847), p.OFPActionPopMpls(0x0800), p.OFPActionPushPbb(0x88e7),
        p.OFPActionPopPbb(), p.OFPActionPopVlan(), p.OFPActionSetMplsTtl(9), p.OFPActionDecMplsTtl(),
        p.OFPActionSetNwTtl(8), p.OFPActionDecNwTtl(), p.OFPActionCopyTtlOut(), p.OFPActionCopyTtlIn(),
        p.OFPActionSetQueue(5), p.OFPActionGroup(6), p.OFPActionOutput(2, 100),
    ]
    instructions = [
        p.OFPInstructionMeter(3, 8),
        p.OFPInstructionActions(o.OFPIT_APPLY_ACTIONS, actions),
        p.OFPInstructionActions(o.OFPIT_CLEAR_ACTIONS, []),
        p.OFPInstructionActions(o.OFPIT_WRITE_ACTIONS, [p.OFPActionOutput(o.OFPP_CONTROLLER, 65535)]),
        p.OFPInstructionWriteMetadata(0x11, 0xff),
        p.OFPInstructionGotoTable(7),
    ]
    emit("flow_mod", 4, p.OFPFlowMod(
        dp, cookie=1, cookie_mask=2, table_id=3, command=o.OFPFC_MODIFY_STRICT, idle_timeout=4,
        hard_timeout=5, priority=6, buffer_id=o.OFP_NO_BUFFER, out_port=7, out_group=8,
        flags=o.OFPFF_SEND_FLOW_REM | o.OFPFF_NO_PKT_COUNTS, match=match, instructions=instructions))
    wide = p.OFPMatch(
        in_port=1, in_phy_port=2, metadata=(3, 0xff), eth_dst=("02:00:00:00:00:00", "ff:00:00:00:00:00"),
        eth_src="02:00:00:00:00:01", eth_type=0x86dd, vlan_vid=(0x1000, 0x1000), vlan_pcp=5, ip_dscp=10,
        ip_ecn=1, ip_proto=58, ipv6_src="2001:db8::1", ipv6_dst=("2001:db8::", "ffff:ffff::"),
        ipv6_flabel=(0x60, 0xf0), icmpv6_type=135, icmpv6_code=0, ipv6_nd_target="fe80::1",
        ipv6_nd_sll="02:00:00:00:00:02", tunnel_id=(0x3000, 0xff00), ipv6_exthdr=(0x40, 0x1f0))
    emit("wide_match", 4, p.OFPFlowStatsRequest(dp, 0, 255, o.OFPP_ANY, o.OFPG_ANY, 0, 0, wide))
    emit("group_mod", 4, p.OFPGroupMod(dp, o.OFPGC_ADD, o.OFPGT_FF, 9, [
        p.OFPBucket(0, 1, o.OFPG_ANY, [p.OFPActionOutput(1, 0)]),
        p.OFPBucket(0, o.OFPP_ANY, 4, [p.OFPActionGroup(4)])]))
    emit("meter_mod", 4, p.OFPMeterMod(dp, o.OFPMC_ADD, o.OFPMF_PKTPS | o.OFPMF_STATS, 5, [
        p.OFPMeterBandDrop(1000, 10), p.OFPMeterBandDscpRemark(500, 5, 1)]))
    emit("packet_out", 4, p.OFPPacketOut(dp, o.OFP_NO_BUFFER, o.OFPP_CONTROLLER,
                                         [p.OFPActionOutput(o.OFPP_FLOOD, 0)], b"\x01\x02\x03"))
    emit("port_mod", 4, p.OFPPortMod(dp, 3, "02:00:00:00:00:03", o.OFPPC_PORT_DOWN,
                                     o.OFPPC_PORT_DOWN | o.OFPPC_NO_FWD, o.OFPPF_AUTONEG))
    emit("table_mod", 4, p.OFPTableMod(dp, 1, 3))
    emit("set_config", 4, p.OFPSetConfig(dp, o.OFPC_FRAG_REASM, 200))
    emit("role_request", 4, p.OFPRoleRequest(dp, o.OFPCR_ROLE_MASTER, 0x1122334455667788))
    emit("set_async", 4, p.OFPSetAsync(dp, [1, 2], [3, 4], [5, 6]))
    emit("queue_get_config", 4, p.OFPQueueGetConfigRequest(dp, 4))
    emit("barrier", 4, p.OFPBarrierRequest(dp))
    emit("echo", 4, p.OFPEchoRequest(dp, b"abc"))
    emit("hello", 4, p.OFPHello(dp))
    emit("error", 4, p.OFPErrorMsg(dp, type_=o.OFPET_BAD_MATCH, code=o.OFPBMC_DUP_FIELD, data=b"x" * 64))
    emit("experimenter", 4, p.OFPExperimenter(dp, 0x2320, 10, b"data"))
    emit("port_stats", 4, p.OFPPortStatsRequest(dp, 0, o.OFPP_ANY))
    emit("queue_stats", 4, p.OFPQueueStatsRequest(dp, 0, 1, o.OFPQ_ALL))
    emit("group_stats", 4, p.OFPGroupStatsRequest(dp, 0, o.OFPG_ALL))
    emit("meter_config", 4, p.OFPMeterConfigStatsRequest(dp, 0, o.OFPM_ALL))
    emit("table_features", 4, p.OFPTableFeaturesStatsRequest(dp, 0, [p.OFPTableFeaturesStats(
        table_id=1, name=b"acl", metadata_match=1, metadata_write=2, config=0, max_entries=100,
        properties=[
            p.OFPTableFeaturePropInstructions(type_=0, instruction_ids=[p.OFPInstructionId(1)]),
            p.OFPTableFeaturePropNextTables(type_=3, table_ids=[2, 3, 4, 5, 6]),
            p.OFPTableFeaturePropActions(type_=4, action_ids=[p.OFPActionId(0), p.OFPActionId(25)]),
            p.OFPTableFeaturePropOxm(type_=8, oxm_ids=[p.OFPOxmId("eth_dst", True)])])]))


def v10():
    dp = ofproto_protocol.ProtocolDesc(version=1)
    o, p = dp.ofproto, dp.ofproto_parser
    match = p.OFPMatch(in_port=1, dl_src="02:00:00:00:00:01", dl_vlan=100, dl_vlan_pcp=3, dl_type=0x0800,
                       nw_tos=32, nw_proto=17, nw_src="10.1.0.0", nw_src_mask=16,
                       nw_dst="10.2.3.0", nw_dst_mask=24, tp_dst=53)
    actions = [
        p.OFPActionVlanVid(200), p.OFPActionVlanPcp(5), p.OFPActionStripVlan(),
        p.OFPActionSetDlSrc("02:00:00:00:00:05"), p.OFPActionSetDlDst("02:00:00:00:00:06"),
        p.OFPActionSetNwSrc("10.0.0.1"), p.OFPActionSetNwDst("10.0.0.2"), p.OFPActionSetNwTos(40),
        p.OFPActionSetTpSrc(1), p.OFPActionSetTpDst(2), p.OFPActionEnqueue(3, 4),
        p.OFPActionOutput(o.OFPP_CONTROLLER, 128),
    ]
    emit("flow_mod", 1, p.OFPFlowMod(
        dp, match=match, cookie=1, command=o.OFPFC_ADD, idle_timeout=2, hard_timeout=3, priority=4,
        buffer_id=5, out_port=o.OFPP_NONE, flags=o.OFPFF_CHECK_OVERLAP, actions=actions))
    emit("packet_out", 1, p.OFPPacketOut(dp, buffer_id=0xffffffff, in_port=o.OFPP_NONE,
                                         actions=[p.OFPActionOutput(2, 0)], data=b"\x01\x02"))
    emit("flow_stats", 1, p.OFPFlowStatsRequest(dp, 0, match, 0xff, o.OFPP_NONE))
    emit("port_stats", 1, p.OFPPortStatsRequest(dp, 0, o.OFPP_NONE))
    emit("queue_stats", 1, p.OFPQueueStatsRequest(dp, 0, o.OFPP_ALL, o.OFPQ_ALL))
    emit("port_mod", 1, p.OFPPortMod(dp, 3, "02:00:00:00:00:03", o.OFPPC_NO_FLOOD, o.OFPPC_NO_FLOOD,
                                     o.OFPPF_AUTONEG))
    vendor = p.OFPVendor(dp)
    vendor.vendor, vendor.data = 0x2320, b"data"
    emit("vendor", 1, vendor)
    emit("barrier", 1, p.OFPBarrierRequest(dp))
    emit("queue_get_config", 1, p.OFPQueueGetConfigRequest(dp, 4))


v13()
v10()
