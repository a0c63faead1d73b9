"""Entries as Neutron's agent for Open vSwitch writes them: its integration, tunnel and provider bridges with its firewall.

There are four networks: `a` by VXLAN, `b` by GRE, `c` by Geneve, `d` by a provider's VLAN 300. The agent knows where remote
stations are (population of layer 2), answers ARP for them, routes distributed (DVR), and its firewall has remote groups, an
address group, allowed address pairs, a trusted port. One port is of the older protection against spoofing; one network has a
local address (an address that each host answers for itself), by entries that learn. Two ports have rates, one has a DSCP.

`Agent(direct=True)` writes the variant in which accepted packets go to their port and are not flooded.
"""

import ipaddress

PATCH_TUN, INT_PROVIDER = 1, 2
PATCH_INT, VXLAN, GRE, GENEVE, VXLAN2 = 1, 2, 3, 4, 5
PHY_PROVIDER, UPLINK = 1, 2
LOCAL_ADDRESS, REMOTE = "192.168.88.10", {"h1": "192.168.88.11", "h2": "192.168.88.12"}
DVR_MAC, DVR_MAC2 = "fa:16:3f:00:00:0a", "fa:16:3f:00:00:0b"

REG_PORT, REG_NET, REG_GROUP = 5, 6, 7
# Tables of the integration bridge.
SWITCHING, DVR_SOURCE, DVR_SOURCE_PHYSICAL, DVR_ARP, DVR_ARP_PHYSICAL, CANARY, ARP_SPOOF, MAC_SPOOF = 0, 1, 2, 3, 4, 23, 24, 25
LOCAL_EGRESS, LOCAL_IP, PACKET_RATE, BAND_RATE, TRANSIENT, TRANSIENT_EGRESS = 30, 31, 58, 59, 60, 62
BASE_EGRESS, RULES_EGRESS, ACCEPT_OR_INGRESS, DHCP4, DHCP6, BASE_INGRESS, RULES_INGRESS = 71, 72, 73, 77, 78, 81, 82
ACCEPTED_EGRESS, ACCEPTED_INGRESS, DROPPED, NORMAL_EGRESS = 91, 92, 93, 94
# Tables of the tunnel bridge.
DVR_PROCESS, FROM_LOCAL, GRE_IN, VXLAN_IN, GENEVE_IN, DVR_NOT_LEARN, LEARN, UNICAST, RESPONDER, FLOOD = (
    1,
    2,
    3,
    4,
    6,
    9,
    10,
    20,
    21,
    22,
)


class Net:
    def __init__(self, vlan, kind, key, subnet, subnet6):
        self.vlan, self.kind, self.key, self.subnet, self.subnet6 = vlan, kind, key, subnet, subnet6


NETS = {
    "a": Net(1, "vxlan", 1001, "10.1.0", "fd01::"),
    "b": Net(2, "gre", 2002, "10.2.0", "fd02::"),
    "c": Net(3, "geneve", 3003, "10.3.0", "fd03::"),
    "d": Net(4, "vlan", 300, "10.4.0", "fd04::"),
}


class Port:
    def __init__(self, name, number, net, groups=(), host=None, pairs=()):
        self.name, self.number, self.net, self.groups, self.host, self.pairs = name, number, NETS[net], groups, host, pairs
        self.mac = f"fa:16:3e:00:{self.net.vlan:02x}:{number:02x}"
        self.ip, self.ip6 = f"{self.net.subnet}.{number}", f"{self.net.subnet6}{number:x}"
        value = bytearray(bytes.fromhex(self.mac.replace(":", "")))
        value[0] ^= 2
        half = value[:3] + b"\xff\xfe" + value[3:]
        self.link = str(ipaddress.ip_address(b"\xfe\x80" + bytes(6) + bytes(half)))


# Of this host: virtual machines, a router's port, a DHCP server's, one that is trusted, and one of the older protection.
PORTS = {
    port.name: port
    for port in (
        Port("vm1", 11, "a", ("web", "default")),
        Port("vm2", 12, "a", ("default",), pairs=[("fa:16:3e:99:00:01", "10.1.0.99"), (None, "10.1.0.200/29")]),
        Port("vm3", 13, "b", ("default",)),
        Port("vm4", 14, "a"),
        Port("vm5", 15, "d", ("web",)),
        Port("vm6", 16, "c"),
        Port("vm7", 17, "a", ("many",)),
        Port("vm8", 18, "b", ("many", "web")),
        Port("qr", 20, "a"),
        Port("dhcp", 21, "a"),
    )
}
FIREWALLED = ("vm1", "vm2", "vm3", "vm5", "vm7", "vm8")
TRUSTED = ("vm4", "qr", "dhcp")
OTHERS = {
    port.name: port
    for port in (
        Port("far1", 31, "a", ("default",), "h1"),
        Port("far2", 32, "a", ("web",), "h2"),
        Port("far3", 33, "b", ("default",), "h1"),
        Port("far4", 34, "c", (), "h1"),
        Port("far5", 35, "b", ("many",), "h1"),
    )
}
CUSTOM_TYPES = ("0x4008",)


def rule(direction, version, protocol=None, low=None, high=None, prefix=None, group=None, source=None):
    return {
        "direction": direction,
        "version": version,
        "protocol": protocol,
        "low": low,
        "high": high,
        "prefix": prefix,
        "group": group,
        "source": source,
    }


OUT, IN = "egress", "ingress"
OPEN = [rule(OUT, 4), rule(OUT, 6)]
GROUPS = {
    "default": [*OPEN, rule(IN, 4, group="default"), rule(IN, 6, group="default"), rule(IN, 4, 1)],
    "web": [
        *OPEN,
        rule(IN, 4, 6, 80, 80),
        rule(IN, 4, 6, 8000, 8100, prefix="10.1.0.0/16"),
        rule(IN, 6, 6, 443, 443),
        rule(IN, 4, 17, 5000, 5005, source=(1024, 65535)),
        rule(IN, 6, 58, 128, 0),
        rule(IN, 4, 132, 7000, 7000),
    ],
    "many": [
        rule(OUT, 4, 6, 80, 90, group="web"),
        rule(OUT, 4, 17, 53, 53, prefix="10.1.0.0/24"),
        rule(OUT, 4, 1, 8),
        rule(OUT, 6, 58),
        rule(OUT, 4, 6, 85, 95, group="default"),
        rule(IN, 4, 6, 1, 65535, group="default"),
        rule(IN, 4, 17, 100, 200, group="addresses"),
        rule(IN, 4, 6, 22, 22, group="addresses"),
        rule(IN, 4, 47, prefix="10.0.0.0/8"),
    ],
}
ADDRESS_GROUPS = {"addresses": ["10.1.0.8/29", "10.2.0.31/32", "10.7.0.0/16", "0.0.0.0/0"]}


def ranges(low, high):
    """Values with masks that cover a range of ports."""
    out = []
    while low <= high:
        size = 1
        while low % (size * 2) == 0 and low + size * 2 - 1 <= high:
            size *= 2
        out.append(f"{low:#06x}/{0x10000 - size:#06x}" if size > 1 else f"{low:#06x}")
        low += size
    return out


class Agent:
    def __init__(self, direct=False):
        self.direct = direct
        self.integration, self.tunnel, self.provider, self.meters = [], [], [], []
        self.conjunctions, self.members, self.applied = {}, {}, {}
        self.integration_basics()
        self.routers()
        self.protections()
        self.firewall()
        self.tunnels()
        self.providers()

    COOKIES = {"integration": 0x1A2B3C4D5E6F7001, "tunnel": 0x1A2B3C4D5E6F7002, "provider": 0x1A2B3C4D5E6F7003}

    def add(self, table, priority, match, actions, bridge="integration"):
        match = f",{match}" if match else ""
        getattr(self, bridge).append(f"cookie={self.COOKIES[bridge]:#x},table={table},priority={priority}{match} actions={actions}")

    def integration_basics(self):
        add = self.add
        add(CANARY, 0, "", "drop")
        add(SWITCHING, 0, "", f"goto_table:{PACKET_RATE}")
        add(PACKET_RATE, 0, "", f"goto_table:{BAND_RATE}")
        add(BAND_RATE, 0, "", f"goto_table:{TRANSIENT}")
        add(TRANSIENT, 1, "", "NORMAL")
        add(TRANSIENT, 101, "udp,nw_dst=255.255.255.255,tp_src=68,tp_dst=67", f"goto_table:{DHCP4}")
        add(TRANSIENT, 101, "udp6,ipv6_dst=ff02::1:2,tp_src=546,tp_dst=547", f"goto_table:{DHCP6}")
        add(TRANSIENT, 102, "udp,nw_dst=169.254.10.53,tp_dst=53", "controller:0")
        for table in (DHCP4, DHCP6, ARP_SPOOF):
            add(table, 0, "", "drop")
        for name in ("vm1", "vm5"):
            port = PORTS[name]
            add(DHCP4, 100, f"udp,in_port={port.number},dl_src={port.mac},tp_src=68,tp_dst=67", "controller:0")
            add(DHCP6, 100, f"udp6,in_port={port.number},dl_src={port.mac},tp_src=546,tp_dst=547", "controller:0")
        add(SWITCHING, 65535, "dl_vlan=4095", "drop")
        add(TRANSIENT_EGRESS, 3, "", "NORMAL")
        for table in (LOCAL_EGRESS, LOCAL_IP):
            add(table, 0, "", f"goto_table:{PACKET_RATE}")
        # The provider's VLAN becomes the local one.
        add(SWITCHING, 2, f"in_port={INT_PROVIDER}", "drop")
        net = NETS["d"]
        add(
            SWITCHING,
            3,
            f"in_port={INT_PROVIDER},dl_vlan={net.key}",
            f"set_field:{0x1000 | net.vlan}->vlan_vid,goto_table:{PACKET_RATE}",
        )
        # A rate in packets, and one in bits, of each direction.
        for number, name in ((1, "vm2"), (2, "vm7")):
            port = PORTS[name]
            self.meters += [
                f"meter={number},pktps,burst,bands=type=drop,rate=50000,burst_size=50000",
                f"meter={number + 10},kbps,burst,bands=type=drop,rate=1000000,burst_size=1000000",
            ]
            for match in (f"in_port={port.number},dl_src={port.mac}", f"dl_vlan={port.net.vlan},dl_dst={port.mac}"):
                add(PACKET_RATE, 100, match, f"meter:{number},goto_table:{BAND_RATE}")
                add(BAND_RATE, 100, match, f"meter:{number + 10},goto_table:{TRANSIENT}")
        for kind in ("ip", "ipv6"):
            add(
                SWITCHING,
                65535,
                f"reg2=0,{kind},in_port={PORTS['vm3'].number}",
                f"set_field:0x1->reg2,set_field:10->ip_dscp,resubmit({PORTS['vm3'].number},)",
            )

    def routers(self):
        """The distributed router's port of network `a`; another host has the same one."""
        add, router, net = self.add, PORTS["qr"], NETS["a"]
        add(DVR_SOURCE, 1, "", "drop")
        add(DVR_SOURCE_PHYSICAL, 1, "", "drop")
        add(SWITCHING, 2, f"in_port={PATCH_TUN},dl_src={DVR_MAC2}", f"goto_table:{DVR_SOURCE}")
        add(SWITCHING, 4, f"in_port={INT_PROVIDER},dl_src={DVR_MAC2}", f"goto_table:{DVR_SOURCE_PHYSICAL}")
        add(SWITCHING, 5, f"in_port={PATCH_TUN},dl_dst={DVR_MAC}", f"goto_table:{DVR_ARP}")
        add(SWITCHING, 5, f"in_port={INT_PROVIDER},dl_dst={DVR_MAC}", f"goto_table:{DVR_ARP_PHYSICAL}")
        add(
            SWITCHING,
            99,
            f"arp,dl_dst={DVR_MAC},arp_op=2,arp_tha={router.mac}",
            f"set_field:{router.mac}->eth_dst,goto_table:{PACKET_RATE}",
        )
        add(DVR_ARP, 5, f"dl_vlan={net.vlan},dl_dst={DVR_MAC}", f"set_field:{router.mac}->eth_dst,pop_vlan,output:{router.number}")
        for name in ("vm1", "vm2", "vm7"):
            port = PORTS[name]
            match = f"dl_vlan={net.vlan},dl_dst={port.mac}"
            add(DVR_SOURCE, 20, match, f"set_field:{router.mac}->eth_src,goto_table:{PACKET_RATE}")
            add(TRANSIENT, 20, match, f"pop_vlan,output:{port.number}")
        port = PORTS["vm5"]
        match = f"dl_vlan={NETS['d'].key},dl_dst={port.mac}"
        add(DVR_SOURCE_PHYSICAL, 20, match, f"set_field:fa:16:3e:00:04:01->eth_src,goto_table:{PACKET_RATE}")
        add(TRANSIENT, 20, match, f"pop_vlan,output:{port.number}")
        # In the tunnel bridge: the router's frames leave with the host's address, and others' are not learned.
        tun = "tunnel"
        add(0, 1, f"in_port={PATCH_INT}", f"goto_table:{DVR_PROCESS}", tun)
        add(DVR_PROCESS, 0, "", f"goto_table:{FROM_LOCAL}", tun)
        add(DVR_PROCESS, 2, f"dl_vlan={net.vlan},dl_dst={router.mac}", "drop", tun)
        add(DVR_PROCESS, 1, f"dl_vlan={net.vlan},dl_src={router.mac}", f"set_field:{DVR_MAC}->eth_src,goto_table:{FROM_LOCAL}", tun)
        add(DVR_NOT_LEARN, 0, "", f"goto_table:{LEARN}", tun)
        add(DVR_NOT_LEARN, 1, f"dl_src={DVR_MAC2}", f"output:{PATCH_INT}", tun)
        add(FLOOD, 3, f"arp,dl_vlan={net.vlan},arp_tpa={router.ip}", "drop", tun)
        add(FLOOD, 3, f"icmp6,dl_vlan={net.vlan},icmp_type=134,dl_src={router.mac}", "drop", tun)

    def protections(self):
        """The older protection against spoofing, and the address that is each host's own."""
        add, port = self.add, PORTS["vm6"]
        add(ARP_SPOOF, 2, f"arp,in_port={port.number},arp_spa={port.ip}", f"goto_table:{MAC_SPOOF}")
        add(ARP_SPOOF, 2, f"icmp6,in_port={port.number},icmp_type=136,nd_target={port.ip6}", f"goto_table:{PACKET_RATE}")
        add(SWITCHING, 10, f"arp,in_port={port.number}", f"goto_table:{ARP_SPOOF}")
        add(SWITCHING, 10, f"icmp6,in_port={port.number},icmp_type=136", f"goto_table:{ARP_SPOOF}")
        add(MAC_SPOOF, 2, f"in_port={port.number},dl_src={port.mac}", f"goto_table:{LOCAL_EGRESS}")
        add(SWITCHING, 9, f"in_port={port.number}", f"goto_table:{MAC_SPOOF}")
        local, true, station, net = "10.1.0.250", PORTS["vm4"].ip, PORTS["vm4"].mac, NETS["a"]
        for name in ("vm1", "vm2"):
            number = PORTS[name].number
            add(SWITCHING, 8, f"in_port={number}", f"goto_table:{LOCAL_EGRESS}")
            add(LOCAL_EGRESS, 10, f"in_port={number}", f"set_field:{net.vlan}->reg{REG_NET},resubmit({number},{LOCAL_IP})")
        add(LOCAL_IP, 1, f"reg6={net.vlan},arp,arp_tpa={local}", self.responds(local, station))
        add(SWITCHING, 10, f"arp,dl_vlan={net.vlan},arp_spa={local}", "drop")
        add(SWITCHING, 11, f"arp,dl_vlan={net.vlan},arp_spa={local},arp_tpa=10.1.0.1", f"goto_table:{PACKET_RATE}")
        add(LOCAL_IP, 11, f"ip,reg6={net.vlan},nw_src={true},nw_dst={local}", f"resubmit(,{TRANSIENT})")
        common = (
            "learn(table=94,idle_timeout=30,hard_timeout=300,priority=20,cookie={:#x},eth_type=0x800,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],NXM_OF_ETH_SRC[]=NXM_OF_ETH_DST[],"
            "NXM_OF_IP_DST[]=NXM_OF_IP_SRC[],nw_src={},reg6[0..3]={}{},load:{:#x}->NXM_OF_IP_SRC[],output:NXM_OF_IN_PORT[])"
        )
        for name, number, more in (
            ("icmp", 1, ",nw_proto=1"),
            ("tcp", 6, ",nw_proto=6,NXM_OF_TCP_DST[]=NXM_OF_TCP_SRC[],NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[]"),
            ("udp", 17, ",nw_proto=17,NXM_OF_UDP_DST[]=NXM_OF_UDP_SRC[],NXM_OF_UDP_SRC[]=NXM_OF_UDP_DST[]"),
        ):
            learn = common.format(self.COOKIES["integration"], true, net.vlan, more, int(ipaddress.ip_address(local)))
            learn = learn.replace(f"reg6[0..3]={net.vlan}", f"NXM_NX_REG6[0..3]={net.vlan}")
            add(
                LOCAL_IP,
                10,
                f"{name},reg6={net.vlan},nw_dst={local}",
                f"set_field:{station}->eth_dst,{learn},set_field:{true}->ip_dst,resubmit(,{TRANSIENT})",
            )

    def responds(self, ip, mac):
        return (
            "set_field:2->arp_op,move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],"
            f"set_field:{mac}->arp_sha,set_field:{ip}->arp_spa,move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,IN_PORT"
        )

    def firewall(self):
        add = self.add
        for table in (BASE_EGRESS, RULES_EGRESS, ACCEPT_OR_INGRESS, BASE_INGRESS, RULES_INGRESS, ACCEPTED_INGRESS, DROPPED):
            add(table, 0, "", "drop")
        add(BASE_EGRESS, 110, "ct_state=+trk", f"ct_clear,resubmit(,{BASE_EGRESS})")
        if self.direct:
            add(TRANSIENT, 2, "", f"resubmit(,{NORMAL_EGRESS})")
        add(NORMAL_EGRESS, 1, "", "NORMAL")
        add(ACCEPTED_EGRESS, 1, "", f"resubmit(,{NORMAL_EGRESS})")
        for name in FIREWALLED:
            self.filtered(PORTS[name])
        for name in TRUSTED:
            port = PORTS[name]
            add(TRANSIENT, 100, f"in_port={port.number}", f"{self.registers(port)},resubmit(,{ACCEPT_OR_INGRESS})")
            add(ACCEPT_OR_INGRESS, 80, f"reg{REG_PORT}={port.number:#x}", f"resubmit(,{NORMAL_EGRESS})")
            self.straight(port)
        self.remotes()

    def registers(self, port):
        return f"set_field:{port.number:#x}->reg{REG_PORT},set_field:{port.net.vlan:#x}->reg{REG_NET}"

    def straight(self, port):
        if not self.direct:
            return
        add, net = self.add, port.net
        add(NORMAL_EGRESS, 12, f"dl_dst={port.mac},reg{REG_NET}={net.vlan:#x}", f"output:{port.number}")
        add(NORMAL_EGRESS, 12, f"dl_dst={port.mac},dl_vlan={net.vlan}", f"strip_vlan,output:{port.number}")
        patch = INT_PROVIDER if net.kind == "vlan" else PATCH_TUN
        add(
            NORMAL_EGRESS,
            10,
            f"dl_src={port.mac},dl_dst=00:00:00:00:00:00/01:00:00:00:00:00,reg{REG_NET}={net.vlan:#x}",
            f"mod_vlan_vid:{net.vlan},output:{patch}",
        )

    def filtered(self, port):
        add, net, number = self.add, port.net, port.number
        own, own_in = f"reg{REG_PORT}={number:#x}", f"reg{REG_PORT}={number:#x},in_port={number}"
        track = f"ct(table={{}},zone=NXM_NX_REG{REG_NET}[0..15])"
        accepted = f"resubmit(,{NORMAL_EGRESS})"
        add(TRANSIENT, 100, f"in_port={number}", f"{self.registers(port)},resubmit(,{BASE_EGRESS})")
        pairs = [(mac or port.mac, ip) for mac, ip in port.pairs]
        macs = sorted({port.mac, *(mac for mac, _ in pairs)})
        for mac in macs:
            if net.kind == "vlan":
                add(
                    TRANSIENT,
                    90,
                    f"dl_dst={mac},dl_vlan={net.key:#x}",
                    f"{self.registers(port)},strip_vlan,resubmit(,{BASE_INGRESS})",
                )
            add(
                TRANSIENT, 90, f"dl_dst={mac},dl_vlan={net.vlan:#x}", f"{self.registers(port)},strip_vlan,resubmit(,{BASE_INGRESS})"
            )
            add(
                ACCEPT_OR_INGRESS,
                100,
                f"dl_dst={mac},reg{REG_NET}={net.vlan:#x}",
                f"set_field:{number:#x}->reg{REG_PORT},resubmit(,{BASE_INGRESS})",
            )
        # What it may send: with its own addresses.
        four, six = [(port.mac, port.ip), *pairs], [(port.mac, port.ip6)]
        seen = set()
        for mac, ip in four:
            add(BASE_EGRESS, 95, f"arp,{own_in},dl_src={mac},arp_spa={ip}", accepted)
            if mac not in seen:
                add(BASE_EGRESS, 95, f"dl_type=0x8035,{own_in},dl_src={mac}", accepted)
            seen.add(mac)
            add(BASE_EGRESS, 65, f"ip,{own_in},dl_src={mac},nw_src={ip}", track.format(RULES_EGRESS))
        for mac, ip in [*six, (port.mac, port.link)]:
            for kind in (130, 133, 135):
                add(BASE_EGRESS, 95, f"icmp6,{own_in},icmp_type={kind},dl_src={mac},ipv6_src={ip}", accepted)
            add(BASE_EGRESS, 95, f"icmp6,{own_in},icmp_type=136,nd_target={ip}", accepted)
        for mac, ip in six:
            add(BASE_EGRESS, 65, f"ipv6,{own_in},dl_src={mac},ipv6_src={ip}", track.format(RULES_EGRESS))
        for kind, pairs_of, field, source, target in (
            ("udp", [*four, (port.mac, "0.0.0.0")], "nw_src", 68, 67),
            ("udp6", six, "ipv6_src", 546, 547),
        ):
            for mac, ip in pairs_of:
                add(
                    BASE_EGRESS,
                    80,
                    f"{kind},{own_in},dl_src={mac},{field}={ip},tp_src={source},tp_dst={target}",
                    f"resubmit(,{ACCEPT_OR_INGRESS})",
                )
            add(BASE_EGRESS, 70, f"{kind},{own_in},tp_src={target},tp_dst={source}", f"resubmit(,{DROPPED})")
        add(BASE_EGRESS, 70, f"icmp6,{own_in},icmp_type=134", f"resubmit(,{DROPPED})")
        for kind in CUSTOM_TYPES:
            add(BASE_EGRESS, 95, f"dl_type={kind},{own}", accepted)
            add(BASE_INGRESS, 100, f"dl_type={kind},{own}", f"output:{number}")
        add(BASE_EGRESS, 10, own_in, f"ct_clear,resubmit(,{DROPPED})")
        for kind in ("ip", "ipv6"):
            add(
                ACCEPT_OR_INGRESS,
                90,
                f"{kind},{own},ct_state=+new-est",
                f"ct(commit,zone=NXM_NX_REG{REG_NET}[0..15]),resubmit(,{ACCEPTED_EGRESS})",
            )
        add(ACCEPT_OR_INGRESS, 80, own, accepted)
        self.straight(port)
        # What it may get.
        add(BASE_INGRESS, 100, f"arp,{own}", f"output:{number}")
        for kind in (130, 135, 136, 134):
            add(BASE_INGRESS, 100, f"icmp6,{own},icmp_type={kind}", f"output:{number}")
        for kind, source, target in (("udp", 67, 68), ("udp6", 547, 546)):
            add(BASE_INGRESS, 95, f"{kind},{own},tp_src={source},tp_dst={target}", f"output:{number}")
        for kind in ("ip", "ipv6"):
            add(BASE_INGRESS, 90, f"{kind},{own},ct_state=-trk", track.format(RULES_INGRESS))
        add(BASE_INGRESS, 80, f"{own},ct_state=+trk", f"resubmit(,{RULES_INGRESS})")
        # Connections that are known; those of rules that are gone are marked.
        for table, done in ((RULES_EGRESS, accepted), (RULES_INGRESS, f"output:{number}")):
            if table not in self.applied:
                add(table, 50, "ct_state=+inv+trk", f"resubmit(,{DROPPED})")
                self.applied[table] = True
            add(table, 50, f"{own},ct_mark=0x1", f"resubmit(,{DROPPED})")
            for state in ("+est-rel+rpl", "-new-est+rel-inv"):
                add(table, 50, f"{own},ct_state={state},ct_mark=0x0,ct_zone={net.vlan}", done)
            add(table, 40, f"{own},ct_state=-est", f"resubmit(,{DROPPED})")
            for kind in ("ip", "ipv6"):
                add(
                    table,
                    40,
                    f"{kind},{own},ct_state=+est",
                    f"ct(commit,zone=NXM_NX_REG{REG_NET}[0..15],exec(set_field:0x1->ct_mark))",
                )
        for group in port.groups:
            for one in GROUPS[group]:
                if one["group"]:
                    self.conjunctive(port, group, one)
                else:
                    self.accepts(port, one)

    def matches(self, one, port, conjunction=False):
        """Priority, table and matches of a rule."""
        offset = 0 if conjunction else 4
        protocol, v = one["protocol"], one["version"]
        kind = "ip" if v == 4 else "ipv6"
        if protocol in (1, 58):
            offset += 1 if one["low"] is None else 2 if one["high"] is None else 3
        elif protocol is not None:
            offset += 3
        match = f"{kind},reg{REG_PORT}={port.number:#x}"
        ingress = one["direction"] == IN
        if one["prefix"] and one["prefix"] != "0.0.0.0/0":
            match += f",{('nw' if v == 4 else 'ipv6')}_{'src' if ingress else 'dst'}={one['prefix']}"
        found = [match if protocol is None else f"{match},nw_proto={protocol}"]
        if protocol in (1, 58) and one["low"] is not None:
            found = [found[0] + f",icmp_type={one['low']}" + (f",icmp_code={one['high']}" if one["high"] is not None else "")]
        elif protocol in (6, 17, 132) and one["low"] is not None:
            sources = ranges(*one["source"]) if one["source"] else [None]
            name = {6: "tcp", 17: "udp", 132: "sctp"}[protocol]
            found = [
                found[0] + (f",{name}_src={source}" if source else "") + f",{name}_dst={target}"
                for source in sources
                for target in ranges(one["low"], one["high"])
            ]
        return 70 + offset, RULES_INGRESS if ingress else RULES_EGRESS, found

    def accepts(self, port, one):
        priority, table, found = self.matches(one, port)
        for match in found:
            self.accept(table, priority, match, port)

    def accept(self, table, priority, match, port, identities=("", ""), before=("", "")):
        done = f"output:{port.number}" if table == RULES_INGRESS else f"resubmit(,{ACCEPT_OR_INGRESS})"
        begins = (
            f"ct(commit,zone=NXM_NX_REG{REG_NET}[0..15]),{done},resubmit(,{ACCEPTED_INGRESS})" if table == RULES_INGRESS else done
        )
        for state, actions, identity, first in (
            ("+est-rel-rpl", done, identities[0], before[0]),
            ("+new-est", begins, identities[1], before[1]),
        ):
            line = (table, priority, f"{match}{identity},ct_state={state}")
            if line not in self.applied:
                self.applied[line] = True
                self.add(*line, first + actions)

    def conjunctive(self, port, group, one):
        priority, table, found = self.matches(one, port, conjunction=True)
        key = (group, one["group"], one["direction"], one["version"])
        base = self.conjunctions.setdefault(key, 16 + 8 * len(self.conjunctions))
        identity = base + 2 * (priority - 70)
        self.members.setdefault((port.net.vlan, table, one["version"], one["group"]), set()).add((identity, priority))
        for match in found:
            for state, n in (("+est-rel-rpl", 0), ("+new-est", 1)):
                line = (table, priority, f"{match},ct_state={state}")
                self.applied.setdefault(("conjunction", *line), []).append(f"conjunction({identity + n},2/2)")
        kind = "ip" if one["version"] == 4 else "ipv6"
        self.accept(
            table,
            priority,
            f"{kind},reg{REG_PORT}={port.number:#x}",
            port,
            (f",conj_id={identity}", f",conj_id={identity + 1}"),
            (f"set_field:{identity}->reg{REG_GROUP},", f"set_field:{identity + 1}->reg{REG_GROUP},"),
        )

    def remotes(self):
        """Addresses of remote groups, in each network that has a rule on them."""
        found = {
            line[1:]: clauses for line, clauses in self.applied.items() if isinstance(line, tuple) and line[0] == "conjunction"
        }
        for (vlan, table, version, group), identities in self.members.items():
            if group in ADDRESS_GROUPS:
                addresses = [(ip, None) for ip in ADDRESS_GROUPS[group]]
            else:
                members = [port for port in [*PORTS.values(), *OTHERS.values()] if group in port.groups and port.net.vlan == vlan]
                addresses = [(port.ip if version == 4 else port.ip6, port.mac) for port in members]
                addresses += [(ip, mac or port.mac) for port in members for mac, ip in port.pairs if version == 4]
            field = ("nw" if version == 4 else "ipv6") + ("_src" if table == RULES_INGRESS else "_dst")
            kind = "ip" if version == 4 else "ipv6"
            for ip, _ in addresses:
                match = f"{kind},reg{REG_NET}={vlan:#x}" + ("" if ip == "0.0.0.0/0" else f",{field}={ip}")
                for identity, priority in sorted(identities):
                    for state, n in (("+est-rel-rpl", 0), ("+new-est", 1)):
                        clauses = found.setdefault((table, priority, f"{match},ct_state={state}"), [])
                        clause = f"conjunction({identity + n},1/2)"
                        if clause not in clauses:
                            clauses.append(clause)
        for (table, priority, match), clauses in found.items():
            self.add(table, priority, match, ",".join(clauses))

    def tunnels(self):
        def add(table, priority, match, actions):
            self.add(table, priority, match, actions, "tunnel")

        add(0, 0, "", "drop")
        add(FROM_LOCAL, 1, "arp,dl_dst=ff:ff:ff:ff:ff:ff", f"goto_table:{RESPONDER}")
        add(FROM_LOCAL, 0, "dl_dst=00:00:00:00:00:00/01:00:00:00:00:00", f"goto_table:{UNICAST}")
        add(FROM_LOCAL, 0, "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", f"goto_table:{FLOOD}")
        for table in (GRE_IN, VXLAN_IN, GENEVE_IN, FLOOD):
            add(table, 0, "", "drop")
        learn = (
            f"learn(table={UNICAST},hard_timeout=300,priority=1,cookie={self.COOKIES['tunnel']:#x},NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],"
            f"load:0->NXM_OF_VLAN_TCI[],load:NXM_NX_TUN_ID[]->NXM_NX_TUN_ID[],output:NXM_OF_IN_PORT[]),output:{PATCH_INT}"
        )
        for priority, match in (
            (2, "arp,arp_tha=ff:ff:ff:ff:ff:ff"),
            (2, "icmp6,icmp_type=134"),
            (2, "icmp6,icmp_type=136"),
            (1, ""),
        ):
            add(LEARN, priority, match, learn)
        add(UNICAST, 0, "", f"goto_table:{FLOOD}")
        add(RESPONDER, 0, "", f"goto_table:{FLOOD}")
        for number, table in ((VXLAN, VXLAN_IN), (GRE, GRE_IN), (GENEVE, GENEVE_IN), (VXLAN2, VXLAN_IN)):
            add(0, 1, f"in_port={number}", f"goto_table:{table}")
        tables = {"vxlan": VXLAN_IN, "gre": GRE_IN, "geneve": GENEVE_IN}
        for name, net in NETS.items():
            if net.kind == "vlan":
                continue
            following = DVR_NOT_LEARN if name == "a" else LEARN
            add(
                tables[net.kind],
                1,
                f"tun_id={net.key:#x}",
                f"push_vlan:0x8100,set_field:{0x1000 | net.vlan}->vlan_vid,goto_table:{following}",
            )
            out = {"vxlan": [VXLAN, VXLAN2], "gre": [GRE], "geneve": [GENEVE]}[net.kind]
            add(FLOOD, 1, f"dl_vlan={net.vlan}", f"pop_vlan,set_field:{net.key:#x}->tun_id," + ",".join(f"output:{n}" for n in out))
        for port in OTHERS.values():
            number = {"vxlan": VXLAN if port.host == "h1" else VXLAN2, "gre": GRE, "geneve": GENEVE}[port.net.kind]
            add(
                UNICAST,
                2,
                f"dl_vlan={port.net.vlan},dl_dst={port.mac}",
                f"pop_vlan,set_field:{port.net.key:#x}->tun_id,output:{number}",
            )
            add(RESPONDER, 1, f"arp,dl_vlan={port.net.vlan},arp_tpa={port.ip}", self.responds(port.ip, port.mac))

    def providers(self):
        def add(table, priority, match, actions):
            self.add(table, priority, match, actions, "provider")

        net = NETS["d"]
        add(0, 0, "", "NORMAL")
        add(0, 2, f"in_port={PHY_PROVIDER}", "goto_table:1")
        add(0, 1, "", "goto_table:3")
        add(1, 0, "", "goto_table:2")
        add(2, 2, f"in_port={PHY_PROVIDER}", "drop")
        add(2, 4, f"in_port={PHY_PROVIDER},dl_vlan={net.vlan}", f"set_field:{0x1000 | net.key}->vlan_vid,NORMAL")
        add(3, 1, "", "NORMAL")
        add(3, 2, f"dl_src={DVR_MAC2}", f"output:{PHY_PROVIDER}")
        # The router's port of the provider's network.
        add(1, 2, f"dl_vlan={net.vlan},dl_dst=fa:16:3e:00:04:01", "drop")
        add(1, 1, f"dl_vlan={net.vlan},dl_src=fa:16:3e:00:04:01", f"set_field:{DVR_MAC}->eth_src,goto_table:2")
