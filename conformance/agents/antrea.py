"""Entries, groups and meters as Antrea's agent (version 2) writes them for a node of a small cluster.

The node has Pods, a gateway, a Geneve tunnel to two other nodes, IPv4 and IPv6. Built are Pods' own entries, Services (with
affinity, nested, on node ports, direct return), policies of Kubernetes and of Antrea's own (logged, refused, for layer 7, by
label), egress addresses with a rate, traffic control, multicast, a traced packet. There is no uplink in the bridge, no
external node, and no second cluster's gateway.

Tables are numbered as the agent does it: those of each part in one order, parts one behind the other.
"""

TABLES = """
root arp_guard arp_responder
classifier spoof_guard ipv6 kind unsnat zone state prerouting node_port affinity balancer direct endpoint
own_egress egress egress_default egress_metric routing egress_mark egress_qos ttl snat_mark snat
switching control ingress_kind own_ingress ingress ingress_default ingress_metric commit output
multi_egress multi_egress_metric multi_egress_pod multi_route multi_ingress multi_ingress_metric multi_ingress_pod multi_output
""".split()
T = {name: number for number, name in enumerate(TABLES)}

TUNNEL, GATEWAY = 1, 2
CLIENT, WEB, DB, DNS = 3, 4, 5, 6
MIRROR, REDIRECT, RETURN, L7_OUT, L7_BACK = 7, 8, 9, 10, 11
PORTS = {
    "gw": GATEWAY,
    "client": CLIENT,
    "web": WEB,
    "db": DB,
    "dns": DNS,
    "mirror": MIRROR,
    "redirect": REDIRECT,
    "return": RETURN,
    "l7out": L7_OUT,
    "l7back": L7_BACK,
}
MAC = {
    "gw": "0a:00:00:00:00:01",
    "client": "0a:00:00:00:01:03",
    "web": "0a:00:00:00:01:04",
    "db": "0a:00:00:00:01:05",
    "dns": "0a:00:00:00:01:06",
    "peer": "aa:bb:cc:dd:ee:ff",
}
IP4 = {"gw": "10.10.0.1", "client": "10.10.0.3", "web": "10.10.0.4", "db": "10.10.0.5", "dns": "10.10.0.6"}
IP6 = {name: f"fd00:10:10::{PORTS[name]:x}" for name in IP4} | {"gw": "fd00:10:10::1"}
NODE, NODE2, NODE3, EXTERNAL = "192.168.77.100", "192.168.77.101", "192.168.77.102", "192.168.77.113"
POD2, POD2_6, POD3 = "10.10.1.7", "fd00:10:10:1::7", "10.10.2.8"
VIRTUAL, VIRTUAL6, NODE_PORT = "169.254.0.253", "fc01::aabb:ccdd:eeff", "169.254.0.252"
GROUP_ALL, GROUP_REMOTE = "239.1.1.1", "239.1.1.2"
AGENT = 32776
TAG = 5
# Zones of connections and of translated ones.
ZONES = {4: (0xFFF0, 0xFFF1), 6: (0xFFE6, 0xFFE7)}
FAMILIES = (4, 6)
PROTO = {4: "ip", 6: "ipv6"}
SRC, DST = {4: "nw_src", 6: "ipv6_src"}, {4: "nw_dst", 6: "ipv6_dst"}
TO_PORT, TO_AGENT = "set_field:0x200000/0x600000->reg0", "set_field:0x400000/0x600000->reg0"
REWRITE = "set_field:0x200/0x200->reg0"


def go(table):
    return f"goto_table:{T[table]}"


def agent(kind, meter=None):
    """To the agent, with what the packet is about."""
    return (f"meter:{meter}," if meter else "") + f"controller(id={AGENT},reason=no_match,userdata={kind},max_len=65535)"


class Node:
    def __init__(self):
        self.lines, self.groups, self.meters = [], [], []
        for part in ("basics", "pods", "services", "policies", "egress", "steering", "multicast", "traced"):
            getattr(self, part)()

    def add(self, table, priority, match, *actions, part=1, item=0, also=""):
        cookie = 1 << 48 | part << 40 | item
        match = f",{match}" if match else ""
        also = f"{also}," if also else ""
        self.lines.append(
            f"cookie={cookie:#x},table={T[table]},{also}priority={priority}{match} actions={','.join(actions) or 'drop'}"
        )

    def group(self, number, kind, *buckets, weights=True):
        text = f"group_id={number},type={kind}"
        for at, actions in enumerate(buckets):
            text += f",bucket=bucket_id:{at}" + (",weight:100" if kind == "select" else "") + f",actions={actions}"
        self.groups.append(text)

    def basics(self):
        add = self.add
        missed = {
            "root": "",
            "arp_guard": "",
            "arp_responder": "",
            "classifier": "",
            "spoof_guard": "",
            "output": "",
            "multi_output": "",
            "affinity": "set_field:0x10000/0x70000->reg4",
            "routing": f"set_field:0x20/0xf0->reg0,{go('switching')}",
            "egress_mark": f"set_field:0x20/0xf0->reg0,{go('switching')}",
            "ipv6": go("kind"),
            "egress_qos": go("switching"),
            "kind": go("unsnat"),
            "direct": go("endpoint"),
            "commit": go("output"),
        }
        for at, table in enumerate(TABLES):
            add(table, 0, "", missed.get(table, go(TABLES[at + 1]) if at + 1 < len(TABLES) else ""), part=0)
        add("root", 200, "arp", go("arp_guard"), part=0)
        for v in FAMILIES:
            add("root", 200, PROTO[v], go("classifier"), part=0)
        add("kind", 210, "ip,nw_dst=224.0.0.0/4", f"resubmit(,{T['multi_egress']})", part=0)

    def pods(self):
        add, gw = self.add, MAC["gw"]

        def responder(match, mac, *back):
            add(
                "arp_responder",
                200,
                f"arp,{match}arp_op=1",
                "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]",
                f"set_field:{mac}->eth_src",
                "set_field:2->arp_op",
                "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]",
                f"set_field:{mac}->arp_sha",
                *back,
                "IN_PORT",
            )

        for other in ("10.10.1.1", "10.10.2.1"):
            responder(f"arp_tpa={other},", MAC["peer"], "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[]", f"set_field:{other}->arp_spa")
        add("arp_responder", 190, "arp", "NORMAL")
        for name in IP4:
            add("arp_guard", 200, f"arp,in_port={PORTS[name]},arp_spa={IP4[name]},arp_sha={MAC[name]}", go("arp_responder"))
        # Where packets come from.
        add("classifier", 200, f"in_port={TUNNEL}", "set_field:0x1/0xf->reg0", REWRITE, go("unsnat"))
        add(
            "classifier",
            200,
            f"in_port={GATEWAY}",
            "set_field:0x2/0xf->reg0",
            "set_field:0x8000000/0x8000000->reg4",
            go("spoof_guard"),
        )
        local = "set_field:0x10000000/0x10000000->reg4"
        for v, ips in ((4, IP4), (6, IP6)):
            add(
                "classifier",
                210,
                f"{PROTO[v]},in_port={GATEWAY},{SRC[v]}={ips['gw']}",
                "set_field:0x2/0xf->reg0",
                local,
                go("spoof_guard"),
            )
            add("spoof_guard", 200, f"{PROTO[v]},in_port={GATEWAY}", go("kind" if v == 4 else "ipv6"))
        for pod in ("client", "web", "db", "dns"):
            add("classifier", 190, f"in_port={PORTS[pod]}", "set_field:0x3/0xf->reg0", local, go("spoof_guard"))
            for v, ips in ((4, IP4), (6, IP6)):
                add(
                    "spoof_guard",
                    200,
                    f"{PROTO[v]},in_port={PORTS[pod]},dl_src={MAC[pod]},{SRC[v]}={ips[pod]}",
                    go("kind" if v == 4 else "ipv6"),
                )
                add(
                    "routing",
                    200,
                    f"{PROTO[v]},reg0=0x200/0x200,{DST[v]}={ips[pod]}",
                    f"set_field:{gw}->eth_src",
                    f"set_field:{MAC[pod]}->eth_dst",
                    go("ttl"),
                )
        for name in IP4 | {"peer": 0}:
            port = TUNNEL if name == "peer" else PORTS[name]
            add("switching", 200, f"dl_dst={MAC[name]}", f"set_field:{port:#x}->reg1", TO_PORT, go("control"))
        add("spoof_guard", 200, "ipv6,ipv6_src=fe80::/10", go("ipv6"))
        for kind in (135, 136):
            add("ipv6", 200, f"icmp6,icmp_type={kind},icmp_code=0", "NORMAL")
        add("ipv6", 200, "ipv6,ipv6_dst=ff00::/8", "NORMAL")
        to_gateway = (f"set_field:{gw}->eth_dst", "set_field:0x20/0xf0->reg0", go("ttl"))
        away = (f"set_field:{gw}->eth_src", f"set_field:{MAC['peer']}->eth_dst")
        for v, ips, subnet in ((4, IP4, "10.10.0.0/24"), (6, IP6, "fd00:10:10::/80")):
            proto, (zone, _) = PROTO[v], ZONES[v]
            add("zone", 200, proto, f"ct(table={T['state']},zone={zone},nat)")
            add("state", 200, f"ct_state=+inv+trk,{proto}")
            add("state", 190, f"ct_state=-new+trk,ct_mark=0x0/0x10,{proto}", go("own_egress"))
            add("state", 190, f"ct_state=-new+trk,ct_mark=0x10/0x10,{proto}", REWRITE, go("own_egress"), part=3)
            add("routing", 210, f"{proto},{DST[v]}={ips['gw']}", *to_gateway)
            add("routing", 210, f"ct_state=+rpl+trk,ct_mark=0x2/0xf,{proto}", *to_gateway)
            add("routing", 200, f"{proto},reg0=0x0/0x200,{DST[v]}={subnet}", go("switching"))
            add("ttl", 210, f"{proto},reg0=0x2/0xf", go("snat_mark"))
            add("ttl", 200, proto, "dec_ttl", go("snat_mark"))
            add("ingress_kind", 210, f"pkt_mark=0x80000000/0x80000000,ct_state=-rpl+trk,{proto}", go("commit"))
            add(
                "commit",
                200,
                f"ct_state=+new+trk,ct_mark=0x0/0x20,{proto}",
                f"ct(commit,table={T['output']},zone={zone},exec(move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]))",
            )
        for subnet, node in (("10.10.1.0/24", NODE2), ("10.10.2.0/24", NODE3)):
            add("routing", 200, f"ip,nw_dst={subnet}", *away, f"set_field:{node}->tun_dst", "set_field:0x10/0xf0->reg0", go("ttl"))
            add(
                "routing",
                201,
                f"ct_mark=0x1/0xf,ip,reg0=0x2/0xf,nw_dst={subnet}",
                *away,
                f"set_field:{node}->tun_dst",
                "set_field:0x10/0xf0->reg0",
                go("ttl"),
            )
        add(
            "routing",
            200,
            "ipv6,ipv6_dst=fd00:10:10:1::/80",
            *away,
            f"set_field:{NODE2}->tun_dst",
            "set_field:0x10/0xf0->reg0",
            go("ttl"),
        )
        add("routing", 190, "ct_mark=0x10/0x10,reg0=0x202/0x20f", *to_gateway, part=3)
        add("output", 200, "reg0=0x200000/0x600000", "output:NXM_NX_REG1[]")

    SERVICES = [
        # Address, protocol, port, group, endpoints (of this node by name), affinity in seconds, other properties.
        ("10.96.0.10", "udp", 53, 10, [("dns", 53)], 0, ()),
        ("10.96.0.20", "tcp", 80, 11, [("web", 8080)], 0, ()),
        ("10.96.0.21", "tcp", 80, 12, [(POD2, 8080)], 0, ()),
        ("10.96.0.22", "tcp", 80, 13, [("web", 8080), ("db", 8080), (POD2, 8080)], 0, ()),
        ("10.96.0.23", "tcp", 80, 14, [("web", 8081), (POD2, 8081)], 300, ()),
        ("10.96.0.24", "tcp", 80, 15, [], 0, ()),
        ("10.96.0.25", "sctp", 7000, 16, [("db", 7000)], 0, ()),
        ("192.168.77.150", "tcp", 80, 17, [("web", 8080)], 0, ("external",)),
        ("192.168.77.151", "tcp", 443, 18, [(POD2, 8443)], 120, ("external", "direct")),
        (None, "tcp", 30004, 19, [("web", 8080)], 0, ("external",)),
        (None, "udp", 30005, 20, [(POD2, 53)], 60, ("external",)),
        ("10.96.0.40", "tcp", 80, 21, [("10.96.0.20", 80)], 0, ("nested",)),
        ("fd00:10:96::20", "tcp", 80, 22, [("web", 8080)], 0, ()),
        ("fd00:10:96::23", "tcp", 80, 23, [(POD2_6, 8081)], 300, ()),
        ("10.96.0.26", "tcp", 81, 24, [("client", 8080)], 0, ()),
    ]

    def services(self):
        add, own = self.add, 3
        add("state", 210, "ct_state=+inv+trk,reg4=0x8000000/0x8000000", go("prerouting"), part=own)
        add("direct", 190, "ct_state=+inv+trk,reg4=0x0/0x2000000", part=own)
        for v, ips, virtual in ((4, IP4, VIRTUAL), (6, IP6, VIRTUAL6)):
            proto, (zone, translated) = PROTO[v], ZONES[v]
            for address in (virtual, ips["gw"]):
                add("unsnat", 200, f"{proto},{DST[v]}={address}", f"ct(table={T['zone']},zone={translated},nat)", part=own)
            add("prerouting", 200, proto, *(f"resubmit(,{T[name]})" for name in ("node_port", "affinity", "balancer")), part=own)
            node_ports = (NODE, NODE_PORT) if v == 4 else ("fc01::aabb:ccdd:eefe",)
            for address in node_ports:
                add("node_port", 200, f"{proto},{DST[v]}={address}", "set_field:0x80000/0x80000->reg4", part=own)
            add("endpoint", 210, f"{proto},reg4=0x2000000/0x2000000", f"ct(commit,table={T['own_egress']},zone={zone})", part=own)
            # Source addresses of what comes back to where it came from, and of what goes out to another node.
            new, source = f"ct_state=+new+trk,{proto}", "move:NXM_NX_REG0[0..3]->NXM_NX_CT_MARK[0..3]"
            hairpin, snat = "set_field:0x40/0x40->ct_mark", "set_field:0x20/0x20->ct_mark"
            add(
                "snat_mark",
                200,
                f"{new},reg0=0x22/0xff",
                f"ct(commit,table={T['snat']},zone={zone},exec({snat},{hairpin},{source}))",
                part=own,
            )
            add(
                "snat_mark",
                200,
                f"{new},reg0=0x12/0xff,reg4=0x200000/0x2200000",
                f"ct(commit,table={T['snat']},zone={zone},exec({snat},{source}))",
                part=own,
            )
            for pod in ("web", "db", "client"):
                add(
                    "snat_mark",
                    190,
                    f"{new},{SRC[v]}={ips[pod]},{DST[v]}={ips[pod]}",
                    f"ct(commit,table={T['snat']},zone={zone},exec({snat},{hairpin},{source}))",
                    part=own,
                )

            def translate(address, marks):
                address = f"[{address}]" if v == 6 else address
                return f"ct(commit,table={T['switching']},zone={translated},nat(src={address}),exec({marks}))"

            service = "set_field:0x10/0x10->ct_mark"
            add(
                "snat",
                200,
                f"ct_state=+new+trk,ct_mark=0x40/0x40,{proto},reg0=0x2/0xf",
                translate(virtual, f"{service},{snat},{hairpin}"),
                part=own,
            )
            add(
                "snat",
                200,
                f"ct_state=+new+trk,ct_mark=0x40/0x40,{proto},reg0=0x3/0xf",
                translate(ips["gw"], f"{service},{snat},{hairpin}"),
                part=own,
            )
            add(
                "snat",
                200,
                f"ct_state=-new-rpl+trk,ct_mark=0x20/0x20,{proto}",
                f"ct(table={T['switching']},zone={translated},nat)",
                part=own,
            )
            add(
                "snat",
                190,
                f"ct_state=+new+trk,ct_mark=0x20/0x20,{proto},reg0=0x2/0xf",
                translate(ips["gw"], f"{service},{snat}"),
                part=own,
            )
        add("endpoint", 200, "reg0=0x4000/0x4000", agent("04"), part=own)
        add("endpoint", 190, "reg4=0x20000/0x70000", "set_field:0x10000/0x70000->reg4", f"resubmit(,{T['balancer']})", part=own)
        add("output", 210, "ct_mark=0x40/0x40,reg0=0x200000/0x600000", "IN_PORT", part=own)
        done = set()
        for service in self.SERVICES:
            self.service(*service, done)

    def service(self, address, transport, port, group, endpoints, seconds, properties, done):
        add, own = self.add, 3
        v = 6 if address and ":" in address else 4
        name, number = transport + ("6" if v == 6 else ""), {"tcp": 6, "udp": 17, "sctp": 132}[transport]
        external = ["set_field:0x200000/0x200000->reg4"] if "external" in properties else []
        nested = ["set_field:0x1000000/0x1000000->reg4"] if "nested" in properties else []
        to = f"reg4=0x10000/0x70000,{DST[v]}={address},tp_dst={port}" if address else f"reg4=0x90000/0xf0000,tp_dst={port}"
        state = "set_field:0x30000/0x70000->reg4" if seconds else "set_field:0x20000/0x70000->reg4"
        add(
            "balancer",
            200,
            f"{name},{to}",
            REWRITE,
            state,
            *external,
            f"set_field:{group:#x}->reg7",
            *nested,
            f"group:{group}",
            part=own,
        )
        next_table = "balancer" if seconds else "endpoint"
        buckets = []
        for end, end_port in endpoints or [(None, 0)]:
            if end is None:
                buckets.append(f"set_field:0x4000/0x4000->reg0,resubmit(,{T['endpoint']})")
                continue
            here = end in IP4
            ip = (IP4 if v == 4 else IP6)[end] if here else end
            import ipaddress

            value = int(ipaddress.ip_address(ip))
            register = "reg3" if v == 4 else "xxreg3"
            remote = [] if here or "nested" in properties else ["set_field:0x4000000/0x4000000->reg4"]
            load = ",".join([*remote, f"set_field:{value:#x}->{register}", f"set_field:{end_port:#x}/0xffff->reg4"])
            buckets.append(f"{load},resubmit(,{T[next_table]})")
            match = f"reg3={value:#x},reg4={{}}" if v == 4 else f"reg4={{}},xxreg3={value:#x}"
            if (name, value, end_port) in done:
                continue
            done.add((name, value, end_port))
            if "nested" in properties:
                add("endpoint", 210, f"{name},{match.format(f'{0x1020000 + end_port:#x}/0x107ffff')}", "group:11", part=own)
                continue
            shown = f"[{ip}]" if v == 6 else ip
            add(
                "endpoint",
                200,
                f"{name},{match.format(f'{0x20000 + end_port:#x}/0x7ffff')}",
                f"ct(commit,table={T['own_egress']},zone={ZONES[v][0]},nat(dst={shown}:{end_port}),exec(set_field:0x10/0x10->ct_mark))",
                part=own,
            )
        self.group(group, "select", *buckets)
        if not seconds:
            return
        kind, ends = ("0x800", "NXM_OF_IP_DST[],NXM_OF_IP_SRC[]") if v == 4 else ("0x86dd", "NXM_NX_IPV6_DST[],NXM_NX_IPV6_SRC[]")
        chosen = "load:NXM_NX_REG3[]->NXM_NX_REG3[]" if v == 4 else "load:NXM_NX_XXREG3[]->NXM_NX_XXREG3[]"
        upper = transport.upper()
        cookie = 1 << 48 | own << 40 | group
        learnt = to.replace("0x10000/", "0x30000/").replace("0x90000/", "0xb0000/")
        add(
            "balancer",
            190,
            f"{name},{learnt}",
            f"learn(table={T['affinity']},hard_timeout={seconds},priority=200,delete_learned,cookie={cookie:#x},eth_type={kind},nw_proto={number},"
            f"OXM_OF_{upper}_DST[],{ends},load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:NXM_NX_REG4[26]->NXM_NX_REG4[26],{chosen},"
            "load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG0[9]" + (",load:0x1->NXM_NX_REG4[21]" if external else "") + ")",
            "set_field:0x20000/0x70000->reg4",
            go("direct" if "direct" in properties else "endpoint"),
            part=own,
            item=group,
        )
        if "direct" in properties:
            add(
                "direct",
                200,
                f"{name},reg4=0xc000000/0xe000000,{DST[v]}={address},tp_dst={port}",
                f"learn(table={T['affinity']},idle_timeout=160,fin_idle_timeout=5,priority=210,delete_learned,cookie={cookie:#x},eth_type={kind},"
                f"nw_proto={number},OXM_OF_{upper}_SRC[],OXM_OF_{upper}_DST[],NXM_OF_IP_SRC[],NXM_OF_IP_DST[],"
                f"load:NXM_NX_REG4[0..15]->NXM_NX_REG4[0..15],load:0x2->NXM_NX_REG4[16..18],load:0x1->NXM_NX_REG4[25],{chosen})",
                "set_field:0x2000000/0x2000000->reg4",
                go("endpoint"),
                part=own,
            )

    def rule(self, table, identity, dimensions, priority, verdict, metric, log=False, v=4):
        """A rule of a policy: its conjunction, what is done, and how it is counted."""
        add, own = self.add, 2
        for at, matches in enumerate(dimensions, 1):
            for match in matches:
                self.clauses.setdefault((table, priority, match), []).append(f"conjunction({identity},{at}/{len(dimensions)})")
        zone, ingress = ZONES[v][0], "ingress" in table
        kubernetes = table in ("egress", "ingress")
        value = f"{identity:#x}/0xffffffff" if ingress else f"{identity << 32:#x}/0xffffffff00000000"
        register = "reg6" if ingress else "reg5"
        at = priority - 10 if kubernetes else priority
        if verdict == "allow" or verdict == "l7":
            more = (
                ",set_field:0x80/0x80->ct_mark,set_field:0x20000000000000000/0xfff0000000000000000->ct_label"
                if verdict == "l7"
                else ""
            )
            commit = f"ct(commit,table={T[metric]},zone={zone},exec(set_field:{value}->ct_label{more}))"
            logged = []
            if log:
                logged = ["set_field:0x2000000/0xfe000000->reg0", f"set_field:{T[table]:#x}/0xff->reg2"]
            add(table, at, f"conj_id={identity},{PROTO[v]}", f"set_field:{identity:#x}->{register}", *logged, commit, part=own)
            next_table = "commit" if ingress else "routing"
            for state in ("+new", "-new"):
                add(metric, 200, f"ct_state={state},ct_label={value},{PROTO[v]}", go(next_table), part=own)
            return
        denied = [f"set_field:{identity:#x}->reg3", "set_field:0x400/0x400->reg0"]
        if verdict == "drop" and not log:
            add(table, at, f"conj_id={identity}", *denied, go(metric), part=own)
        else:
            # Logged, refused or both: a group has one copy counted and one sent to the agent.
            disposition, operation = {"drop": ("0x800", "0x2000000"), "reject": ("0x1000", "0x4000000")}[verdict]
            number = {"egress_metric": 2, "ingress_metric": 4}[metric]
            add(
                table,
                at,
                f"conj_id={identity}",
                *denied,
                f"set_field:{disposition}/0x1800->reg0",
                f"set_field:{operation}/0xfe000000->reg0",
                f"set_field:{T[table]:#x}/0xff->reg2",
                f"group:{number}",
                part=own,
            )
        add(metric, 200, f"reg0=0x400/0x400,reg3={identity:#x}", part=own)

    def policies(self):
        add, own = self.add, 2
        self.clauses = {}
        for table, metric in (("own_egress", "egress_metric"), ("own_ingress", "ingress_metric")):
            for v in FAMILIES:
                for state in ("est", "rel"):
                    add(table, 64990, f"ct_state=-new+{state},{PROTO[v]}", go(metric), part=own)
        add("ingress_kind", 201, "reg4=0x80000/0x80000", go("own_ingress"), part=own)
        for where in (1, 2, 4):
            add("ingress_kind", 200, f"reg0={where << 4:#x}/0xf0", go("ingress_metric"), part=own)
        add("ingress_kind", 200, "ct_mark=0x40/0x40", go("commit"), part=own)
        # What the agent is told: logs, refusals, and both.
        for number in range(1, 8):
            add("output", 200, f"reg0={number << 25 | 0x400000:#x}/0xfe600000", agent(f"01.{number:02x}", 256), part=own)
        for number, follows in (
            (1, "egress"),
            (2, "egress_metric"),
            (3, "ingress"),
            (4, "ingress_metric"),
            (5, "multi_egress_metric"),
            (6, "multi_ingress_metric"),
        ):
            self.group(number, "all", f"resubmit(,{T[follows]})", f"{TO_AGENT},resubmit(,{T['output']})")
        # Answers of name servers are seen by the agent.
        for proto in ("tcp", "tcp6", "udp", "udp6"):
            add("own_ingress", 64991, f"ct_state=+rpl+trk,{proto},tp_src=53", "conjunction(1,1/2)", part=own)
        add("own_ingress", 64991, f"reg1={CLIENT:#x}", "conjunction(1,2/2)", part=own)
        add("own_ingress", 64991, "conj_id=1", agent("02", 258), go("ingress_metric"), part=own)
        # Of Antrea's own, by tiers; of Kubernetes; and what is left is dropped.
        web, db = f"reg1={WEB:#x}", f"reg1={DB:#x}"
        self.rule(
            "own_egress",
            7,
            [
                [f"ip,nw_src={IP4['web']}"],
                [f"ip,nw_dst={IP4['db']}", "ip,nw_dst=10.10.1.0/24"],
                ["tcp,tp_dst=3306", "tcp,tp_dst=0x1f90/0xfff8", "icmp,icmp_type=8"],
            ],
            14500,
            "allow",
            "egress_metric",
            log=True,
        )
        self.rule("own_egress", 5, [[f"ip,nw_src={IP4['web']}"], ["ip,nw_dst=10.20.0.0/16"]], 14499, "drop", "egress_metric")
        self.rule(
            "own_egress",
            8,
            [[f"ip,nw_src={IP4['client']}"], ["ip,nw_dst=10.30.0.0/16"], ["udp,tp_dst=9999"]],
            14400,
            "drop",
            "egress_metric",
            log=True,
        )
        self.rule("own_egress", 9, [[f"ip,nw_src={IP4['client']}"], ["ip,nw_dst=10.31.0.0/16"]], 14400, "reject", "egress_metric")
        self.rule("own_ingress", 14, [[f"ip,nw_src={IP4['client']}"], [db], ["tcp,tp_dst=8088"]], 14700, "l7", "ingress_metric")
        self.rule(
            "own_ingress",
            6,
            [[f"ip,nw_src={IP4['client']}", "ip,nw_src=10.10.1.0/24"], [web], ["tcp,tp_dst=8080", "tcp,tp_dst=8081"]],
            14600,
            "allow",
            "ingress_metric",
        )
        self.rule("own_ingress", 13, [["tun_id=1", "tun_id=77"], [web, db]], 14580, "drop", "ingress_metric")
        self.rule("own_ingress", 4, [["ip,nw_src=10.10.2.0/24"], [web]], 14590, "reject", "ingress_metric")
        self.rule(
            "own_ingress",
            12,
            [["ipv6,ipv6_src=fd00:10:10::/80"], [web], ["tcp6,tp_dst=8080", "icmp6,icmp_type=128"]],
            14600,
            "allow",
            "ingress_metric",
            v=6,
        )
        self.rule(
            "egress",
            2,
            [[f"ip,nw_src={IP4['db']}"], ["ip,nw_dst=10.10.0.0/16"], ["tcp,tp_dst=80", "udp,tp_dst=53"]],
            200,
            "allow",
            "egress_metric",
        )
        self.rule(
            "ingress",
            3,
            [
                [f"ip,nw_src={IP4['client']}", f"ip,nw_src={IP4['web']}", f"ip,nw_src={IP4['gw']}", "ip,nw_src=10.10.1.0/24"],
                [web, db],
                ["tcp,tp_dst=80", "tcp,tp_dst=3306", "tcp,tp_dst=8080", "sctp,tp_dst=7000", "icmp"],
            ],
            200,
            "allow",
            "ingress_metric",
        )
        self.rule("ingress", 11, [["ip,nw_src=10.10.0.0/16"], [db], ["udp,tp_dst=0x4000/0xc000"]], 200, "allow", "ingress_metric")
        for (table, priority, match), clauses in self.clauses.items():
            add(table, priority, match, *clauses, part=own)
        add("egress_default", 200, f"ip,nw_src={IP4['db']}", part=own)
        for port in (WEB, DB):
            add("ingress_default", 200, f"reg1={port:#x}", part=own)
        # Packets of a connection that is looked into at layer 7.
        add(
            "classifier",
            200,
            f"in_port={L7_BACK},vlan_tci=0x1000/0x1000",
            "pop_vlan",
            "set_field:0x7/0xf->reg0",
            go("unsnat"),
            part=own,
        )
        zone = ZONES[4][0]
        add(
            "zone", 212, "ip,reg0=0x0/0x800000", "set_field:0x800000/0x800000->reg0", f"ct(table={T['zone']},zone={zone})", part=own
        )
        add("zone", 211, "ct_state=+rpl+trk,ip,reg0=0x7/0xf", f"ct(table={T['routing']},zone={zone},nat)", part=own)
        add("zone", 211, "ct_state=-rpl+trk,ip,reg0=0x7/0xf", go("routing"), part=own)
        add("zone", 210, "ct_state=+rpl+trk,ct_mark=0x80/0x80,ip", go("output"), part=own)
        add("zone", 210, "ct_state=-rpl+trk,ct_mark=0x80/0x80,ip", f"ct(table={T['state']},zone={zone},nat)", part=own)
        add("control", 210, "reg0=0x7/0xf", go("output"), part=own)
        add("output", 213, "reg0=0x7/0xf", "output:NXM_NX_REG1[]", part=own)
        add(
            "output",
            212,
            "ct_mark=0x80/0x80",
            "push_vlan:0x8100",
            "move:NXM_NX_CT_LABEL[64..75]->OXM_OF_VLAN_VID[0..11]",
            f"output:{L7_OUT}",
            part=own,
        )
        for number in (256, 257, 258):
            self.meters.append(f"meter={number},pktps,burst,bands=type=drop,rate=5000,burst_size=10000")

    def egress(self):
        add, own, gw = self.add, 4, MAC["gw"]
        out = ("set_field:0x20/0xf0->reg0", go("switching"))
        for v, pods in ((4, NODE), (6, "fd00:192:168:77::100")):
            add("routing", 190, f"ct_state=-rpl+trk,{PROTO[v]},reg0=0x3/0xf,reg4=0x0/0x100000", go("egress_mark"), part=own)
            add(
                "routing",
                190,
                f"ct_state=-rpl+trk,{PROTO[v]},reg0=0x1/0xf",
                f"set_field:{gw}->eth_dst",
                go("egress_mark"),
                part=own,
            )
            add("egress_mark", 210, f"{PROTO[v]},{DST[v]}={pods}", *out, part=own)
            add("egress_mark", 190, f"ct_state=+new+trk,{PROTO[v]},reg0=0x1/0xf", part=own)
        for node in (NODE2, NODE3, "10.96.0.0/16", "192.168.78.0/24"):
            add("egress_mark", 210, f"ip,nw_dst={node}", *out, part=own)
        # One Pod's address is of another node, one's of this; another node's Pods use it, too. That address has a rate.
        add(
            "egress_mark",
            200,
            f"ip,in_port={CLIENT}",
            f"set_field:{gw}->eth_src",
            f"set_field:{MAC['peer']}->eth_dst",
            f"set_field:{NODE2}->tun_dst",
            "set_field:0x10/0xf0->reg0",
            "set_field:0x80000/0x80000->reg0",
            go("switching"),
            part=own,
        )
        for match in (f"in_port={WEB}", f"tun_dst={NODE}"):
            add(
                "egress_mark",
                200,
                f"ct_state=+trk,ip,{match}",
                "set_field:0x64/0xff->pkt_mark",
                "set_field:0x20/0xf0->reg0",
                go("egress_qos"),
                part=own,
            )
        add("egress_qos", 200, "pkt_mark=0x64/0xff", "meter:100", go("switching"), part=own)
        self.meters.append("meter=100,kbps,burst,bands=type=drop,rate=500000,burst_size=1000000")

    def steering(self):
        """Copies of a Pod's packets go to a port, and another's go through one."""
        add = self.add
        add("classifier", 200, f"in_port={RETURN}", "set_field:0x6/0xf->reg0", go("routing"))
        add("control", 210, "reg0=0x200006/0x60000f", go("output"))
        for port, to, mark in ((DNS, MIRROR, "0x400000"), (DB, REDIRECT, "0x800000")):
            for match in (f"reg1={port:#x}", f"in_port={port}"):
                add("control", 200, match, f"set_field:{to:#x}->reg9", f"set_field:{mark}/0xc00000->reg4", go("ingress_kind"))
        add("output", 211, "reg0=0x200000/0x600000,reg4=0x400000/0xc00000", "output:NXM_NX_REG1[]", "output:NXM_NX_REG9[]")
        add("output", 211, "reg0=0x200000/0x600000,reg4=0x800000/0xc00000", "output:NXM_NX_REG9[]")

    def multicast(self):
        add, own = self.add, 5
        add("classifier", 210, f"ip,in_port={TUNNEL},nw_dst=224.0.0.0/4", "set_field:0x1/0xf->reg0", go("multi_egress"), part=own)
        add("multi_egress", 64990, "ip,nw_proto=2,reg0=0x3/0xf", go("multi_route"), part=own)
        add("multi_egress_pod", 210, "ip,nw_proto=2", go("multi_route"), part=own)
        for pod in ("client", "web", "db"):
            add("multi_egress_pod", 200, f"ip,nw_src={IP4[pod]}", go("multi_route"), part=own)
            add("multi_ingress_pod", 200, f"ip,reg1={PORTS[pod]:#x}", go("multi_output"), part=own)
        for where in (1, 3):
            add("multi_route", 210, f"ip,nw_proto=2,reg0={where:#x}/0xf", agent("03"), part=own)
        add("multi_route", 200, f"ip,nw_dst={GROUP_ALL}", "group:101", part=own)
        add("multi_route", 200, f"ip,nw_dst={GROUP_REMOTE}", "group:102", part=own)
        add("multi_route", 190, "ip", f"output:{GATEWAY}", part=own)

        def pod(port):
            return f"{TO_PORT},set_field:{port:#x}->reg1,resubmit(,{T['multi_ingress']})"

        def node(address):
            return f"{TO_PORT},set_field:{TUNNEL:#x}->reg1,set_field:{address}->tun_dst,resubmit(,{T['multi_output']})"

        self.group(101, "all", pod(CLIENT), pod(WEB), pod(GATEWAY), node(NODE2), node(NODE3))
        self.group(102, "all", node(NODE2))
        add("multi_ingress_pod", 210, "ip,nw_proto=2", go("multi_output"), part=own)
        for source, port in ((1, GATEWAY), (2, TUNNEL)):
            add("multi_output", 210, f"reg0={0x200000 | source:#x}/0x60000f,reg1={port:#x}", part=own)
        add("multi_output", 200, "reg0=0x200000/0x600000", "output:NXM_NX_REG1[]", part=own)
        # A rule on a group, and one on who may join.
        add("multi_egress", 14500, f"ip,nw_dst=239.9.9.9,nw_src={IP4['client']}", part=own)
        add("multi_ingress", 14500, f"ip,nw_src=10.10.2.8,reg1={WEB:#x}", part=own)

    def traced(self):
        """A packet that is traced has a mark in its DSCP."""
        add, own, also = self.add, 6, "hard_timeout=300"
        for v, ips in ((4, IP4), (6, IP6)):
            proto = f"{PROTO[v]},ip_dscp={TAG}"
            add("state", 191, proto, go("prerouting"), part=own, also=also)
            add("state", 192, f"ct_state=+rpl+trk,{proto}", part=own, also=also)
            done = agent("00", 257)
            # The meter is an instruction, which comes first.
            meter, told = done.split(",", 1)
            add(
                "output",
                203,
                f"{proto},reg1={TUNNEL:#x},reg0=0x200000/0x600000",
                meter,
                "output:NXM_NX_REG1[]",
                told,
                part=own,
                also=also,
            )
            add("output", 202, f"{proto},reg1={GATEWAY:#x},reg0=0x200000/0x600000", done, part=own, also=also)
            add("output", 203, f"{proto},reg1={GATEWAY:#x},{DST[v]}={ips['gw']},reg0=0x200000/0x600000", done, part=own, also=also)
            add("output", 202, f"{proto},reg0=0x200000/0x600000", done, part=own, also=also)
            add("output", 212, f"{proto},ct_mark=0x40/0x40", done, part=own, also=also)
            for identity, metric in ((5, "egress_metric"), (13, "ingress_metric")):
                add(metric, 202, f"{proto},reg0=0x400/0x400,reg3={identity:#x}", done, part=own, also=also)
            for port in (WEB, DB):
                add("ingress_default", 202, f"{proto},reg1={port:#x}", done, part=own, also=also)


def interfaces():
    """Ports of the integration bridge, beside cables: name, number, options."""
    return [("tun0", TUNNEL, ["type=geneve", "options:remote_ip=flow", "options:key=flow"])]
