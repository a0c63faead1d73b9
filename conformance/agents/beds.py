"""The two beds: bridges and ports as each agent has them, its entries, and frames."""

import antrea
import antrea_frames
import neutron
import neutron_frames
import talk
from bed import MARK_LINE

UNDERLAY_MAC = "02:77:00:00:00:64"


class Bed:
    chosen = None
    # Entries that match the same packets at one priority: a name, and a pattern of them.
    ties = []
    patches, tags, no_flood = [], {}, []

    @staticmethod
    def apart():
        return []

    def brief(self):
        """Leaves out what the recorded answers can do without."""

    def place(self, port, tunnel):
        """Bridge and number of a host's port, or of the tunnel port that an outer frame belongs to, if there is one."""
        if tunnel is None:
            return self.ports[port]
        kind, _, source, target = tunnel[:4]
        if self.local not in (source, target):
            return None
        found = [number for number, of, remote in self.tunnels if of == kind and remote in (None, source, target)]
        return (self.tunnelled, found[0]) if found else None

    def underlay(self, switch, address, neighbours):
        """A bridge with the address that tunnels are at, and a cable to the other hosts."""
        switch.cable("u0")
        switch.vsctl(
            "add-br",
            "br-under",
            "--",
            "set",
            "bridge",
            "br-under",
            "datapath_type=netdev",
            f'other_config:hwaddr="{UNDERLAY_MAC}"',
            "--",
            "add-port",
            "br-under",
            "u0",
        )
        switch.inside("ip", "link", "set", "br-under", "address", UNDERLAY_MAC)
        switch.inside("ip", "addr", "add", f"{address}/24", "dev", "br-under")
        switch.inside("ip", "link", "set", "br-under", "up")
        for other, mac in neighbours.items():
            switch.inside("ip", "neigh", "replace", other, "lladdr", mac, "dev", "br-under", "nud", "permanent")
            if switch.kind == "o":
                switch.appctl("tnl/neigh/set", "br-under", other, mac)
        switch.ofctl("add-flow", "br-under", "priority=0,actions=normal")

    def write(self, switch, name, lines):
        path = f"{switch.folder}/{name}"
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        return path

    def load(self, switches):
        """Entries of every bridge. What is refused ends the run."""
        count = 0
        for switch in switches:
            count = 0
            for bridge, (flows, groups, meters, version) in self.entries().items():
                for meter in meters:
                    switch.ofctl("add-meter", bridge, meter, version=version)
                if groups:
                    switch.ofctl("add-groups", bridge, self.write(switch, f"{bridge}.groups", groups), version=version)
                switch.ofctl("add-flows", bridge, self.write(switch, f"{bridge}.flows", flows), version=version)
                switch.ofctl("add-flow", bridge, MARK_LINE)
                count += len(flows) + len(groups) + len(meters)
                shown = switch.ofctl("dump-flows", bridge)
                if shown.count("cookie=") < len(flows):
                    raise SystemExit(f"{switch.kind}: {bridge} has {shown.count('cookie=')} of {len(flows)} entries")
            switch.ofctl("add-flow", "br-under", MARK_LINE)
        return count


class Antrea(Bed):
    name, bridges = "antrea", ["br-int"]
    script = staticmethod(antrea_frames.script)
    chosen = staticmethod(antrea_frames.chosen)
    ties = [("answers to the gateway", rf"table={antrea.T['routing']}, .*priority=210,.*->eth_dst,set_field:0x20/0xf0->reg0")]

    def build(self, switch):
        self.underlay(switch, antrea.NODE, antrea_frames.REMOTE_MAC)
        words = ["add-br", "br-int", "--", "set", "bridge", "br-int", "datapath_type=netdev", "fail_mode=secure"]
        for name, number in antrea.PORTS.items():
            switch.cable(name)
            words += ["--", "add-port", "br-int", name, "--", "set", "interface", name, f"ofport_request={number}"]
        for name, number, options in antrea.interfaces():
            words += ["--", "add-port", "br-int", name, "--", "set", "interface", name, f"ofport_request={number}", *options]
        switch.vsctl(*words)
        for number in self.no_flood:
            switch.ofctl("mod-port", "br-int", str(number), "no-flood", version="OpenFlow10")
        switch.listen([*antrea.PORTS, "u0"])
        switch.watch("br-int", antrea.AGENT)
        if switch.kind == "o":
            # Its tracker takes no fragment below 1200 octets, if nothing is said.
            switch.appctl("dpctl/ipf-set-min-frag", "v4", "500")

    def entries(self):
        node = antrea.Node()
        return {"br-int": (node.lines, node.groups, node.meters, "OpenFlow15")}

    apart = staticmethod(antrea_frames.apart)
    ports = {name: ("br-int", number) for name, number in antrea.PORTS.items()}
    tunnels = [(antrea.TUNNEL, "geneve", None)]
    local, tunnelled = antrea.NODE, "br-int"
    no_flood = [antrea.TUNNEL, antrea.MIRROR, antrea.REDIRECT, antrea.RETURN, antrea.L7_OUT, antrea.L7_BACK]

    @staticmethod
    def free(name, came):
        """Endpoints may differ from switch to switch; a client gets the same answers. Where one is far its frames have other
        hardware addresses and another TTL."""
        ports = [[port for port, _ in one] for one in came.values()]
        if "SYN ACK" in name or name.endswith((": answer", ": end, too")):
            kept = [[talk.parsed(frame)[3:] for _, frame in one] for one in came.values()]
            right = kept[0] == kept[1] and all(one in (["client"], ["redirect"]) for one in ports)
            return "" if right else "the client sees different answers"
        return "" if all(len(one) == 1 and one[0] in ("web", "redirect", "u0") for one in ports) else "it goes nowhere"


class Neutron(Bed):
    bridges = ["br-int", "br-tun", "br-prov"]
    script = staticmethod(neutron_frames.script)
    ports = {**{port.name: ("br-int", port.number) for port in neutron.PORTS.values()}, "uplink": ("br-prov", neutron.UPLINK)}
    tunnels = [
        (neutron.VXLAN, "vxlan", neutron.REMOTE["h1"]),
        (neutron.VXLAN2, "vxlan", neutron.REMOTE["h2"]),
        (neutron.GRE, "gre", neutron.REMOTE["h1"]),
        (neutron.GENEVE, "geneve", neutron.REMOTE["h1"]),
    ]
    local, tunnelled = neutron.LOCAL_ADDRESS, "br-tun"
    patches = [
        ("br-int", neutron.PATCH_TUN, "br-tun", neutron.PATCH_INT),
        ("br-int", neutron.INT_PROVIDER, "br-prov", neutron.PHY_PROVIDER),
    ]
    tags = {port.name: port.net.vlan for port in neutron.PORTS.values()}

    def brief(self):
        neutron_frames.SOME[:] = [("tcp", 85), ("udp", 5003), ("icmp", 0)]

    def __init__(self, name, direct):
        self.name, self.direct = name, direct

    def build(self, switch):
        self.underlay(switch, neutron.LOCAL_ADDRESS, {neutron.REMOTE[host]: mac for host, mac in neutron_frames.UNDER.items()})
        words = []
        for bridge in self.bridges:
            words += ["--", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure"]
        for bridge, name, number, peer in (
            ("br-int", "patch-tun", neutron.PATCH_TUN, "patch-int"),
            ("br-tun", "patch-int", neutron.PATCH_INT, "patch-tun"),
            ("br-int", "int-prov", neutron.INT_PROVIDER, "phy-prov"),
            ("br-prov", "phy-prov", neutron.PHY_PROVIDER, "int-prov"),
        ):
            words += [
                "--",
                "add-port",
                bridge,
                name,
                "--",
                "set",
                "interface",
                name,
                "type=patch",
                f"options:peer={peer}",
                f"ofport_request={number}",
            ]
        for port in neutron.PORTS.values():
            switch.cable(port.name)
            words += [
                "--",
                "add-port",
                "br-int",
                port.name,
                f"tag={port.net.vlan}",
                "--",
                "set",
                "interface",
                port.name,
                f"ofport_request={port.number}",
            ]
        switch.cable("uplink")
        words += ["--", "add-port", "br-prov", "uplink", "--", "set", "interface", "uplink", f"ofport_request={neutron.UPLINK}"]
        for name, number, kind, host in (
            ("vxlan1", neutron.VXLAN, "vxlan", "h1"),
            ("gre1", neutron.GRE, "gre", "h1"),
            ("geneve1", neutron.GENEVE, "geneve", "h1"),
            ("vxlan2", neutron.VXLAN2, "vxlan", "h2"),
        ):
            words += [
                "--",
                "add-port",
                "br-tun",
                name,
                "--",
                "set",
                "interface",
                name,
                f"type={kind}",
                f"ofport_request={number}",
                "options:in_key=flow",
                "options:out_key=flow",
                "options:df_default=true",
                f"options:local_ip={neutron.LOCAL_ADDRESS}",
                f"options:remote_ip={neutron.REMOTE[host]}",
            ]
        switch.vsctl(*words[1:])
        switch.listen([*neutron.PORTS, "uplink", "u0"])
        switch.watch("br-int", 0)
        if switch.kind == "o":
            switch.appctl("dpctl/ipf-set-min-frag", "v4", "500")

    def entries(self):
        agent = neutron.Agent(self.direct)
        return {
            "br-int": (agent.integration, [], agent.meters, "OpenFlow13"),
            "br-tun": (agent.tunnel, [], [], "OpenFlow13"),
            "br-prov": (agent.provider, [], [], "OpenFlow13"),
        }


ALL = [Antrea(), Neutron("neutron", False), Neutron("neutron direct", True)]
