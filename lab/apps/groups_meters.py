"""An os-ken application that uses groups of every type and meters, and checks what the switch says of them.

Hosts 1 to 4 are at ports 1 to 4, host n with address 10.0.0.n. ARP is flooded. Packets to host 2 pass meter 1 (kb/s,
drop) and group 1 (all), to host 3 meter 2 (packets/s, DSCP remark) and group 2 (select), to host 4 group 4 (fast failover),
and to host 1 group 3 (indirect). After 100 packets through each the verdict is written to the file $RESULT, as lines:
`installed`, then `good ...` or `bad ...` with what was wrong. With NO_REMARK set meter 2 drops instead.
"""
import os

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.ofproto import ofproto_v1_3

PACKETS = 100      # that the script sends to each of hosts 2, 3 and 4, and whose replies come back to host 1


class GroupsMeters(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.replies = {}
        self.errors = []

    def write(self, line):
        with open(os.environ["RESULT"], "a") as f:
            f.write(line + "\n")

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, ev):
        hub.spawn(self.work, ev.msg.datapath)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def error(self, ev):
        self.errors.append("error type %d code %d" % (ev.msg.type, ev.msg.code))

    @set_ev_cls([ofp_event.EventOFPBarrierReply, ofp_event.EventOFPGroupDescStatsReply,
                 ofp_event.EventOFPGroupStatsReply, ofp_event.EventOFPGroupFeaturesStatsReply,
                 ofp_event.EventOFPMeterConfigStatsReply, ofp_event.EventOFPMeterStatsReply,
                 ofp_event.EventOFPMeterFeaturesStatsReply], MAIN_DISPATCHER)
    def reply(self, ev):
        self.replies[ev.msg.xid] = ev.msg

    def ask(self, dp, request):
        dp.set_xid(request)
        dp.send_msg(request)
        for _ in range(500):
            if request.xid in self.replies:
                return self.replies.pop(request.xid)
            hub.sleep(0.01)
        raise AssertionError("no reply to %s within 5 s" % type(request).__name__)

    def work(self, dp):
        try:
            self.install(dp)
            self.write("installed")
            self.write("good " + self.check(dp))
        except Exception as e:      # the verdict must come, whatever happened
            self.write("bad %s: %s" % (type(e).__name__, str(e).replace("\n", " ")))

    def install(self, dp):
        of, p = dp.ofproto, dp.ofproto_parser
        hub.sleep(0.5)              # the state changes to MAIN_DISPATCHER after this event

        def bucket(port, weight=0, watch=of.OFPP_ANY):
            return p.OFPBucket(weight=weight, watch_port=watch, watch_group=of.OFPG_ANY,
                               actions=[p.OFPActionOutput(port)])

        self.groups = {
            1: (of.OFPGT_ALL, [bucket(2)]),
            2: (of.OFPGT_SELECT, [bucket(3, weight=1), bucket(3, weight=3)]),
            3: (of.OFPGT_INDIRECT, [bucket(1)]),
            4: (of.OFPGT_FF, [bucket(4, watch=4), bucket(2, watch=2)]),
        }
        remark = p.OFPMeterBandDrop(rate=50000, burst_size=0) if os.environ.get("NO_REMARK") else \
            p.OFPMeterBandDscpRemark(rate=50000, burst_size=0, prec_level=1)
        self.meters = {
            1: (of.OFPMF_KBPS | of.OFPMF_BURST | of.OFPMF_STATS, [p.OFPMeterBandDrop(rate=100000, burst_size=1000)]),
            2: (of.OFPMF_PKTPS, [remark]),
        }
        for n, (kind, buckets) in self.groups.items():
            dp.send_msg(p.OFPGroupMod(dp, of.OFPGC_ADD, kind, n, buckets))
        for n, (flags, bands) in self.meters.items():
            dp.send_msg(p.OFPMeterMod(dp, of.OFPMC_ADD, flags, n, bands))

        def flow(match, actions, meter=None, priority=10):
            instructions = [p.OFPInstructionMeter(meter)] if meter else []
            instructions.append(p.OFPInstructionActions(of.OFPIT_APPLY_ACTIONS, actions))
            dp.send_msg(p.OFPFlowMod(dp, priority=priority, match=match, instructions=instructions))

        flow(p.OFPMatch(eth_type=0x0806), [p.OFPActionOutput(of.OFPP_FLOOD)])
        for host, group, meter in ((2, 1, 1), (3, 2, 2), (1, 3, None), (4, 4, None)):
            flow(p.OFPMatch(eth_type=0x0800, ipv4_dst="10.0.0.%d" % host), [p.OFPActionGroup(group)], meter)
        self.ask(dp, p.OFPBarrierRequest(dp))
        assert not self.errors, "; ".join(self.errors)

    def check(self, dp):
        of, p = dp.ofproto, dp.ofproto_parser
        # Descriptions are what was sent.
        desc = {d.group_id: d for d in self.ask(dp, p.OFPGroupDescStatsRequest(dp, 0)).body}
        assert sorted(desc) == sorted(self.groups), "groups described: %s" % sorted(desc)
        for n, (kind, buckets) in self.groups.items():
            assert desc[n].type == kind, "group %d has type %d" % (n, desc[n].type)
            assert str(desc[n].buckets) == str(buckets), "group %d: %s" % (n, desc[n].buckets)
        config = {m.meter_id: m for m in self.ask(dp, p.OFPMeterConfigStatsRequest(dp, 0, of.OFPM_ALL)).body}
        assert sorted(config) == sorted(self.meters), "meters configured: %s" % sorted(config)
        for n, (flags, bands) in self.meters.items():
            assert config[n].flags & 15 == flags, "meter %d has flags %d" % (n, config[n].flags)
            got = [(b.type, b.rate) for b in config[n].bands]
            assert got == [(b.type, b.rate) for b in bands], "meter %d has bands %s" % (n, got)
        features = self.ask(dp, p.OFPGroupFeaturesStatsRequest(dp, 0)).body
        assert features.types & 15 == 15, "group types %d" % features.types
        limits = self.ask(dp, p.OFPMeterFeaturesStatsRequest(dp, 0)).body[0]
        assert limits.max_meter >= 2, "at most %d meters" % limits.max_meter
        # Counters move with the pings.
        wanted = {1: PACKETS, 2: PACKETS, 3: 3 * PACKETS, 4: PACKETS}
        for _ in range(100):
            groups = {g.group_id: g for g in self.ask(dp, p.OFPGroupStatsRequest(dp, 0, of.OFPG_ALL)).body}
            meters = {m.meter_id: m for m in self.ask(dp, p.OFPMeterStatsRequest(dp, 0, of.OFPM_ALL)).body}
            if all(groups[n].packet_count >= wanted[n] for n in wanted):
                break
            hub.sleep(0.1)
        for n, packets in wanted.items():
            g = groups[n]
            assert g.packet_count >= packets, "group %d counted %d packets" % (n, g.packet_count)
            assert g.byte_count >= packets * 98, "group %d counted %d bytes" % (n, g.byte_count)
            assert g.ref_count == 1, "group %d has %d references" % (n, g.ref_count)
            assert len(g.bucket_stats) == len(self.groups[n][1]), "group %d has %d buckets" % (n, len(g.bucket_stats))
        select = groups[2].bucket_stats
        assert sum(b.packet_count for b in select) == groups[2].packet_count, "buckets of group 2: %s" % select
        spare = groups[4].bucket_stats[1].packet_count
        assert spare == 0, "the spare bucket of group 4 counted %d packets" % spare
        for n in (1, 2):
            m = meters[n]
            assert m.packet_in_count >= PACKETS, "meter %d counted %d packets" % (n, m.packet_in_count)
            assert m.flow_count == 1, "meter %d has %d flows" % (n, m.flow_count)
            assert len(m.band_stats) == 1 and m.band_stats[0].packet_band_count == 0, "meter %d: %s" % (n, m.band_stats)
        # Deleting a group takes its flow along.
        dp.send_msg(p.OFPGroupMod(dp, of.OFPGC_DELETE, of.OFPGT_ALL, 1, []))
        self.ask(dp, p.OFPBarrierRequest(dp))
        meters = {m.meter_id: m for m in self.ask(dp, p.OFPMeterStatsRequest(dp, 0, of.OFPM_ALL)).body}
        assert meters[1].flow_count == 0, "the flow of group 1 outlived it"
        assert not self.errors, "; ".join(self.errors)
        return "4 groups, 2 meters, %d packets" % sum(g.packet_count for g in groups.values())
