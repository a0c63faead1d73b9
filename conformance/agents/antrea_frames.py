"""What is sent into the node of `antrea`: every path, both directions, and what must not pass."""

import struct

import antrea
import talk
import wire
from antrea import GROUP_ALL, GROUP_REMOTE, IP4, IP6, MAC, NODE, NODE2, NODE3, NODE_PORT, POD2, POD2_6, POD3, TAG
from talk import ask, one
from wire import ACK, FIN, GRE, ICMP, ICMP6, IGMP, RST, SCTP, SYN, TCP, UDP

LOCAL_MAC, REMOTE_MAC = {"o": "02:77:00:00:00:64", "m": "02:77:00:00:00:64"}, {
    NODE2: "02:77:00:00:00:65",
    NODE3: "02:77:00:00:00:66",
}
GATEWAY_MAC2 = "0a:00:00:00:02:01"
WORLD = "203.0.113.9"


talk.HOMES.update({("redirect", mac): name for name, mac in MAC.items() if name != "peer"})


def l4(transport, src, dst, sport, dport, **words):
    if transport == "tcp":
        return TCP, wire.tcp(src, dst, sport, dport, **words)
    if transport == "udp":
        return UDP, wire.udp(src, dst, sport, dport, **words)
    if transport == "sctp":
        return SCTP, wire.sctp(sport, dport, **words)
    kind = 128 if ":" in src else 8
    return (ICMP6 if ":" in src else ICMP), wire.icmp(src, dst, kind, 0, struct.pack("!HH", sport, 1))


def pod(name, dst, transport, sport, dport, to=None, ttl=64, tos=0, fragment=0, ident=0, src=None, mac=None, **words):
    """A frame of a Pod, or of the gateway."""
    src = src or (IP6 if ":" in dst else IP4)[name]
    protocol, body = l4(transport, src, dst, sport, dport, **words)
    more = {} if ":" in dst else {"fragment": fragment, "ident": ident}
    if to is None:
        to = "gw"
    return wire.eth(
        mac or MAC[name], MAC.get(to, to), wire.kind_of(dst), wire.ip(src, dst, protocol, body, ttl=ttl, tos=tos, **more)
    )


def remote(src, dst, transport, sport, dport, node=NODE2, key=0, to=NODE, ttl=63, tos=0, **words):
    """A frame of a Pod of another node, in its tunnel."""
    protocol, body = l4(transport, src, dst, sport, dport, **words)
    inner = wire.eth(GATEWAY_MAC2, MAC["peer"], wire.kind_of(dst), wire.ip(src, dst, protocol, body, ttl=ttl, tos=tos))
    return wire.outer("geneve", key, inner, node, to, REMOTE_MAC[node], "02:77:00:00:00:64")


def peer(frame):
    """As another node sends it: from its gateway, to any."""
    return wire.mac(MAC["peer"]) + wire.mac(GATEWAY_MAC2) + frame[12:]


def addresses():
    for name in IP4:
        yield from one(
            f"{name} asks for its gateway", name, wire.arp(MAC[name], IP4[name], "10.10.0.1" if name != "gw" else "10.10.0.3")
        )
    yield from one("the gateway answers", "gw", wire.arp(MAC["gw"], "10.10.0.1", IP4["client"], 2, MAC["client"]))
    yield from one("the gateway asks for another node's", "gw", wire.arp(MAC["gw"], "10.10.0.1", "10.10.1.1"))
    yield from one("and for a third's", "gw", wire.arp(MAC["gw"], "10.10.0.1", "10.10.2.1"))
    yield from one("an address that is another's", "client", wire.arp(MAC["client"], IP4["web"], "10.10.0.1"))
    yield from one("a hardware address that is another's", "client", wire.arp(MAC["web"], IP4["client"], "10.10.0.1"))
    yield from one("a reply that is another's", "web", wire.arp(MAC["web"], IP4["db"], IP4["client"], 2, MAC["client"]))
    yield from one("a reply of a Pod", "web", wire.arp(MAC["web"], IP4["web"], IP4["client"], 2, MAC["client"]))
    yield from one("ARP by a steering port", "return", wire.arp(MAC["web"], IP4["web"], IP4["client"]))
    yield from one("ARP cut short", "client", wire.arp(MAC["client"], IP4["client"], "10.10.0.1")[:30])
    yield from one("no IP", "client", wire.eth(MAC["client"], MAC["web"], 0x88B6, wire.DATA))
    yield from one(
        "a spanning tree's",
        "client",
        wire.eth(MAC["client"], "01:80:c2:00:00:00", 0x0026, bytes.fromhex("424203000000000080") + bytes(30)),
    )
    yield from one(
        "a tag",
        "client",
        wire.eth(
            MAC["client"],
            MAC["web"],
            0x0800,
            wire.ip4(IP4["client"], IP4["web"], UDP, wire.udp(IP4["client"], IP4["web"], 1, 2)),
            vlan=100,
        ),
    )


def neighbours():
    link = {name: f"fe80::{PORT:x}" for name, PORT in antrea.PORTS.items()}
    for name in ("client", "web", "gw"):
        yield from one(
            f"{name} solicits",
            name,
            wire.neighbour(MAC[name], IP6[name], "ff02::1:ff00:1", IP6["gw"] if name != "gw" else IP6["client"]),
        )
        yield from one(
            f"{name} advertises",
            name,
            wire.neighbour(MAC[name], IP6[name], IP6["db"], IP6[name], 136, MAC["gw" if name != "gw" else "web"]),
        )
        yield from one(
            f"{name} solicits by its link address", name, wire.neighbour(MAC[name], link[name], "ff02::1:ff00:1", IP6["gw"])
        )
    solicit = wire.ip6(link["client"], "ff02::2", ICMP6, wire.icmp(link["client"], "ff02::2", 133, 0, bytes(4), b""), ttl=255)
    yield from one("a router is asked for", "client", wire.eth(MAC["client"], "33:33:00:00:00:02", 0x86DD, solicit))
    report = bytes.fromhex("3a00050200000100") + wire.icmp(
        link["web"], "ff02::16", 143, 0, b"\0\0\0\1", bytes.fromhex("04000000") + wire.address("ff02::1:3")
    )
    yield from one(
        "a listener's report",
        "web",
        wire.eth(MAC["web"], "33:33:00:00:00:16", 0x86DD, wire.ip6(link["web"], "ff02::16", 0, report, ttl=1)),
    )
    yield from one("an address that is another's, by IPv6", "client", pod("client", IP6["db"], "udp", 1, 2, src=IP6["web"]))
    yield from one("hardware of another, by IPv6", "client", pod("client", IP6["db"], "udp", 1, 2, mac=MAC["web"]))


def within():
    """Pods of the node among themselves, and the gateway's host: who may is decided by policies."""
    sport = 20000
    for source in ("client", "web", "db", "dns", "gw"):
        for target in ("client", "web", "db", "dns", "gw"):
            if source == target or {source, target} == {"db", "dns"}:
                # What goes from a port that is copied to one that is led away is both: two entries of one priority.
                continue
            for transport, port in (
                ("tcp", 80),
                ("tcp", 3306),
                ("tcp", 8080),
                ("tcp", 9000),
                ("udp", 53),
                ("udp", 20000),
                ("icmp", 0),
                ("sctp", 7000),
            ):
                sport += 1
                if transport == "sctp" and (source, target) != ("client", "db"):
                    # Open vSwitch's tracker knows no ports of SCTP: one association stands for all of two hosts.
                    continue
                frame = pod(source, IP4[target], transport, sport, port, to=target)
                name = f"{source} to {target}, {transport} {port}"
                if transport == "tcp" and port in (80, 8080):
                    yield from talk.tcp(name, source, frame, skip=("mirror",), close=FIN if port == 80 else RST)
                else:
                    yield from ask(name, source, frame, skip=("mirror",), times=1 if port == 53 else 0)
    for source, target in (("client", "web"), ("web", "db"), ("gw", "web"), ("web", "gw"), ("db", "client")):
        for transport, port in (("tcp", 8080), ("udp", 53), ("icmp", 0)):
            sport += 1
            yield from ask(
                f"{source} to {target}, IPv6, {transport}",
                source,
                pod(source, IP6[target], transport, sport, port, to=target),
                flags=SYN | ACK,
            )


def steered():
    """What is sent through a port comes back by another one; the layer 7 engine has its own pair."""
    syn = pod("client", IP4["db"], "tcp", 31000, 3306, to="db")
    came = yield "through a port", "client", syn
    for port, frame in came:
        if port == "redirect":
            came = yield "back from it", "return", frame
    at, answer = talk.back(came, flags=SYN | ACK)
    came = yield "its answer", at, answer
    for port, frame in came:
        if port == "redirect":
            yield "back from it, too", "return", frame
    came = yield "to layer 7", "client", pod("client", IP4["db"], "tcp", 31001, 8088, to="db")
    seen = [frame for port, frame in came if port == "l7out"]
    if seen:
        came = yield "layer 7 lets it pass", "l7back", seen[0]
        answer = talk.swapped(seen[0][:12] + seen[0][16:], flags=SYN | ACK)
        came = yield "the answer to layer 7", "db", answer
        seen = [frame for port, frame in came if port == "l7out"]
        if seen:
            yield "layer 7 lets the answer pass", "l7back", seen[0]
        yield "more of it", "client", pod("client", IP4["db"], "tcp", 31001, 8088, to="db", flags=ACK, seq=1001, ack=7001)
    yield "without a tag from layer 7", "l7back", syn


def services():
    sport = 33000
    for address, transport, port, _, ends, _, properties in antrea.Node.SERVICES:
        if len(ends) > 1 or address is None or "external" in properties:
            continue
        for source in ("client", "web", "db", "dns", "gw"):
            sport += 1
            if (
                (transport == "sctp" and source != "web")
                or (source == "db" and transport == "udp")
                or (source == "dns" and transport == "sctp")
            ):
                continue
            frame = pod(source, address, transport, sport, port)
            name = f"{source} to {address} {transport} {port}"
            if transport == "tcp" and source in ("client", "web"):
                yield from talk.tcp(name, source, frame, skip=("mirror",), underlay=peer)
            else:
                yield from ask(name, source, frame, skip=("mirror",), underlay=peer, flags=SYN | ACK)
    yield from one("a Service's port that is none", "client", pod("client", "10.96.0.20", "tcp", 34001, 81))
    yield from one("a Service that is none", "client", pod("client", "10.96.0.99", "tcp", 34002, 80))
    yield from talk.tcp("affinity, once more", "client", pod("client", "fd00:10:96::23", "tcp", 34003, 80), underlay=peer)
    yield from talk.tcp("another port of the same source", "web", pod("web", "10.96.0.20", "tcp", 34004, 80))
    came = yield "a name is asked for", "client", pod("client", "10.96.0.10", "udp", 34005, 53)
    port, answer = talk.back(came, ("mirror",))
    yield "the name server's answer", port, answer
    # Whoever it is for is told that nobody listens.
    came = yield "a name is asked for again", "client", pod("client", "10.96.0.10", "udp", 34006, 53)
    port, answer = talk.back(came, ("mirror",), error=(3, 3))
    yield "nobody listens", port, answer


def outside():
    """From outside by the gateway: node ports, load balancers, direct return; and to Pods themselves."""

    def world(dst, transport, sport, dport, src=WORLD, **words):
        return pod("gw", dst, transport, sport, dport, src=src, to="peer", **words)

    for n, (name, dst, transport, port) in enumerate(
        (
            ("node port", NODE, "tcp", 30004),
            ("node port by the virtual address", NODE_PORT, "tcp", 30004),
            ("load balancer", "192.168.77.150", "tcp", 80),
        )
    ):
        # Ports of their own: of two connections with the same ends one gets another port, which each switch chooses.
        yield from talk.tcp(f"{name} from outside", "gw", world(dst, transport, 40020 + n, port))
        yield from talk.tcp(f"{name} from the node", "gw", world(dst, transport, 40030 + n, port, src=IP4["gw"]), skip=("mirror",))
    yield from ask("node port to another node", "gw", world(NODE, "udp", 40003, 30005), underlay=peer)
    yield from ask("node port to another node, again", "gw", world(NODE, "udp", 40004, 30005), underlay=peer)
    yield from one("direct return, another", "gw", world("192.168.77.151", "tcp", 40006, 443, flags=SYN))
    yield from ask(
        "direct from a Pod of this node",
        "client",
        pod("client", "192.168.77.151", "tcp", 40008, 443),
        flags=SYN | ACK,
        underlay=peer,
    )
    for target in ("client", "web"):
        yield from ask(f"outside to {target}", "gw", world(IP4[target], "tcp", 40010, 8080, src=WORLD), flags=SYN | ACK)
        yield from ask(f"outside to {target} pings", "gw", world(IP4[target], "icmp", 40011, 0))
    yield from ask(
        "the node to a Pod of another node", "gw", world(POD2, "tcp", 40012, 80, src=IP4["gw"]), flags=SYN | ACK, underlay=peer
    )
    yield from one("node port without a Service", "gw", world(NODE, "tcp", 40013, 30099))


def away():
    """To Pods of other nodes and from them, and to the world by egress addresses."""
    for source in ("client", "web", "dns", "gw"):
        for dst in (POD2, POD3, POD2_6):
            yield from talk.tcp(f"{source} to {dst}", source, pod(source, dst, "tcp", 41000, 8080), skip=("mirror",), underlay=peer)
            yield from ask(f"{source} pings {dst}", source, pod(source, dst, "icmp", 41001, 0), skip=("mirror",), underlay=peer)
    for target in ("client", "web", "db", "dns", "gw"):
        for src, node in ((POD2, NODE2), (POD3, NODE3)):
            for transport, port in (("tcp", 8080), ("tcp", 9000), ("udp", 53), ("icmp", 0)):
                frame = remote(src, IP4[target], transport, 42000, port, node)
                yield from ask(
                    f"{src} to {target}, {transport} {port}", "u0", frame, skip=("mirror",), underlay=peer, flags=SYN | ACK, times=0
                )
        yield from ask(
            f"IPv6 to {target}",
            "u0",
            remote(POD2_6, IP6[target], "tcp", 42001, 8080),
            skip=("mirror",),
            underlay=peer,
            flags=SYN | ACK,
            times=0,
        )
    yield from talk.tcp("from another node", "u0", remote(POD2, IP4["web"], "tcp", 42002, 8081), underlay=peer)
    for key in (1, 77, 78):
        for target, port in (("web", 8080), ("web", 9001), ("db", 9001)):
            yield from one(f"label {key} to {target} {port}", "u0", remote(POD2, IP4[target], "tcp", 42003, port, key=key))
    for source in ("client", "web", "dns", "db"):
        for transport, port in (("tcp", 443), ("udp", 123), ("icmp", 0)):
            frame = pod(source, WORLD, transport, 43000, port)
            yield from ask(
                f"{source} to the world, {transport}", source, frame, skip=("mirror",), underlay=peer, flags=SYN | ACK, times=0
            )
        yield from one(f"{source} to the world, IPv6", source, pod(source, "2001:db8::9", "udp", 43001, 53))
        yield from one(f"{source} to a node", source, pod(source, NODE2, "tcp", 43002, 443))
    yield from ask(
        "another node's Pod to the world by this node", "u0", remote(POD2, WORLD, "tcp", 43003, 443), flags=SYN | ACK, underlay=peer
    )
    for dst in ("10.20.1.1", "10.30.1.1", "10.31.1.1"):
        for source in ("client", "web"):
            yield from one(f"{source} to {dst}, denied or not", source, pod(source, dst, "udp", 43004, 9999))
    yield from one("to another address of the tunnel", "u0", remote(POD2, IP4["client"], "udp", 42005, 53, to="192.168.77.200"))
    yield from one("of a node that nobody knows", "u0", remote(POD2, IP4["client"], "udp", 42006, 53, node=NODE3))


def multicast():
    def group(name, target, src=None, ttl=8):
        src = src or IP4.get(name, WORLD)
        last = wire.address(target)
        to = "01:00:5e:" + bytes([last[1] & 0x7F, last[2], last[3]]).hex(":")
        return wire.eth(
            MAC.get(name, MAC["gw"]), to, 0x0800, wire.ip4(src, target, UDP, wire.udp(src, target, 5000, 5001), ttl=ttl)
        )

    for source in ("client", "web", "db", "dns"):
        for target in (GROUP_ALL, GROUP_REMOTE, "239.9.9.9", "224.0.0.251"):
            yield from one(f"{source} to {target}", source, group(source, target))
        igmp = struct.pack("!BBH", 0x16, 0, 0) + wire.address(GROUP_ALL)
        igmp = igmp[:2] + struct.pack("!H", wire.checksum(igmp)) + igmp[4:]
        join = wire.ip4(IP4[source], GROUP_ALL, IGMP, igmp, ttl=1, options=b"\x94\x04\0\0")
        yield from one(f"{source} joins", source, wire.eth(MAC[source], "01:00:5e:01:01:01", 0x0800, join))
    for target in (GROUP_ALL, GROUP_REMOTE):
        yield from one(f"the world to {target}", "gw", group("gw", target, WORLD))
        inner = group("gw", target, POD3)
        yield from one(
            f"another node to {target}", "u0", wire.outer("geneve", 0, inner, NODE3, NODE, REMOTE_MAC[NODE3], "02:77:00:00:00:64")
        )


def piece(dst, to, whole, n, ident, protocol=UDP):
    """One of three fragments; Open vSwitch takes none that is shorter, but for the last one."""
    flags = (n * 520 // 8) | (0x2000 if n < 2 else 0)
    body = whole[n * 520 : (n + 1) * 520]
    return wire.eth(MAC["client"], MAC[to], 0x0800, wire.ip4(IP4["client"], dst, protocol, body, fragment=flags, ident=ident))


def odd():
    """What no connection begins with, what is broken, what is in pieces."""
    for step, flags in (("ACK", ACK), ("FIN", FIN), ("SYN ACK", SYN | ACK), ("none", 0), ("all", 63), ("SYN FIN", SYN | FIN)):
        yield from one(
            f"{step} of no connection", "client", pod("client", IP4["web"], "tcp", 50000 + flags, 8080, to="web", flags=flags)
        )
    good = pod("client", IP4["web"], "tcp", 51000, 8080, to="web")
    yield from one("a wrong checksum of TCP", "client", good[:50] + bytes([good[50] ^ 1]) + good[51:])
    for size in (20, 33):
        yield from one(f"cut to {size}", "client", good[:size])
    yield from one("longer than it says", "client", good + bytes(20))
    for ttl in (1, 2):
        yield from one(f"TTL {ttl} to another node", "client", pod("client", POD2, "udp", 52000, 53, ttl=ttl))
        yield from one(f"TTL {ttl} to a Service", "client", pod("client", "10.96.0.20", "tcp", 52010 + ttl, 80, ttl=ttl))
        yield from one(f"TTL {ttl} within", "client", pod("client", IP4["dns"], "udp", 52002, 53, to="dns", ttl=ttl))
    options = wire.ip4(IP4["client"], IP4["dns"], UDP, wire.udp(IP4["client"], IP4["dns"], 52003, 53), options=b"\x94\x04\0\0")
    yield from one("IPv4 options", "client", wire.eth(MAC["client"], MAC["dns"], 0x0800, options))
    zero = wire.udp(IP4["client"], IP4["dns"], 52004, 53)
    yield from one(
        "no checksum of UDP",
        "client",
        wire.eth(MAC["client"], MAC["dns"], 0x0800, wire.ip4(IP4["client"], IP4["dns"], UDP, zero[:6] + b"\0\0" + zero[8:])),
    )
    for number in (4, 50, GRE, 255):
        yield from one(
            f"protocol {number}",
            "client",
            wire.eth(MAC["client"], MAC["dns"], 0x0800, wire.ip4(IP4["client"], IP4["dns"], number, wire.DATA)),
        )
    destination = bytes.fromhex("1100010400000000")
    extended = wire.ip6(IP6["client"], IP6["dns"], 60, destination + wire.udp(IP6["client"], IP6["dns"], 52005, 53))
    yield from one("a header of IPv6 between", "client", wire.eth(MAC["client"], MAC["dns"], 0x86DD, extended))
    # A datagram in pieces: in order, the last one first, one that never comes, ICMP.
    data = bytes(range(256)) * 6
    for dst, to, orders in (
        (IP4["dns"], "dns", ((0, 1, 2), (2, 0, 1))),
        ("10.96.0.10", "gw", ((0, 1, 2), (1, 2, 0))),
        (IP4["web"], "web", ((0, 1, 2),)),
    ):
        for order in orders:
            ident = 100 + order[0] + len(dst)
            whole = wire.udp(IP4["client"], dst, 53000 + ident, 53, data)
            yield from one(f"pieces {order} to {dst}", "client", [piece(dst, to, whole, n, ident) for n in order])
    whole = wire.icmp(IP4["client"], IP4["dns"], 8, 0, data=data)
    yield from one("a ping in pieces", "client", [piece(IP4["dns"], "dns", whole, n, 77, ICMP) for n in range(3)])
    # Errors about connections, and about none.
    came = yield "a connection", "client", pod("client", IP4["dns"], "udp", 54000, 5353, to="dns")
    at, answer = talk.back(came, ("mirror",), error=(3, 3))
    yield "an error about it", at, answer
    strange = wire.ip4("10.10.0.99", "10.10.0.98", UDP, wire.DATA)
    body = wire.icmp(IP4["dns"], IP4["client"], 3, 1, bytes(4), strange)
    yield from one(
        "an error about nothing",
        "dns",
        wire.eth(MAC["dns"], MAC["client"], 0x0800, wire.ip4(IP4["dns"], IP4["client"], ICMP, body)),
    )
    for name, other in (("address", {"src": IP4["web"]}), ("hardware", {"mac": MAC["web"]})):
        yield from one(f"another's {name}", "client", pod("client", IP4["dns"], "udp", 54001, 53, to="dns", **other))
    yield from one("by a port that nothing comes from", "mirror", pod("client", IP4["dns"], "udp", 54002, 53, to="dns"))
    yield from one("a congested packet", "u0", remote(POD2, IP4["client"], "udp", 54003, 53, tos=2))


def traced():
    for name, port, frame in (
        ("to another node", "client", pod("client", POD2, "tcp", 55000, 80, tos=TAG << 2)),
        ("within", "client", pod("client", IP4["dns"], "tcp", 55001, 80, to="dns", tos=TAG << 2)),
        ("to a Service", "client", pod("client", "10.96.0.20", "tcp", 55002, 80, tos=TAG << 2)),
        ("to the gateway", "client", pod("client", IP4["gw"], "icmp", 55003, 0, tos=TAG << 2)),
        ("to the world", "dns", pod("dns", WORLD, "icmp", 55004, 0, tos=TAG << 2)),
        ("denied", "client", pod("client", IP4["web"], "tcp", 55005, 9000, to="web", tos=TAG << 2)),
        ("to itself by a Service", "web", pod("web", "10.96.0.20", "tcp", 55006, 80, tos=TAG << 2)),
        ("by IPv6", "client", pod("client", IP6["dns"], "icmp", 55007, 0, to="dns", tos=TAG << 2)),
        ("from another node", "u0", remote(POD2, IP4["client"], "tcp", 55008, 80, tos=TAG << 2)),
    ):
        yield from one(f"traced {name}", port, frame)


def script():
    for part in (addresses, neighbours, within, steered, services, outside, away, multicast, odd, traced):
        yield from part()


def chosen():
    """Services of several endpoints: each switch chooses, and keeps to it."""
    for n in range(24):
        for dst in ("10.96.0.22", "10.96.0.23"):
            yield from talk.tcp(
                f"client to {dst}, number {n}", "client", pod("client", dst, "tcp", 56000 + n, 80), skip=("mirror",), underlay=peer
            )


def apart():
    """Where Open vSwitch's userspace differs from Linux, which millrace follows: why, and frames that show it."""

    def world(dst, sport, flags, seq=1000):
        return pod("gw", dst, "tcp", sport, 443, src=WORLD, to="peer", flags=flags, seq=seq)

    good = pod("client", IP4["web"], "tcp", 57000, 8080, to="web")
    yield (
        "a reset begins no connection; Open vSwitch's tracker takes it for one",
        [("client", pod("client", IP4["web"], "tcp", 57001, 8080, to="web", flags=RST))],
    )
    yield (
        "the checksum of IPv4 is left to routers and receivers; Open vSwitch's tracker calls the packet invalid",
        [("client", good[:24] + bytes([good[24] ^ 1]) + good[25:])],
    )
    yield (
        "a packet that says to be longer than its frame keeps its addresses; in Open vSwitch they are zero, and it has no connection",
        [("client", good[:size]) for size in (34, 40, 53)],
    )
    yield (
        "a header of another version is not IPv4's; Open vSwitch reads its addresses",
        [("client", good[:14] + b"\x65" + good[15:])],
    )
    yield (
        "who is not answered has no connection to go on with; in Open vSwitch an opener's next segment is part of one",
        [("gw", world("192.168.77.151", 57002, flags)) for flags in (SYN, ACK, FIN | ACK, RST)],
    )
    yield (
        "a first packet that comes again before an answer is translated when it is committed again; Open vSwitch does so at once",
        [("dns", pod("dns", "10.96.0.20", "tcp", 57003, 80))] * 2,
    )
    yield (
        "associations of SCTP have ports; in Open vSwitch one stands for all of two hosts",
        [
            ("client", pod("client", IP4["db"], "sctp", 57004, 7000, to="db")),
            ("db", pod("db", IP4["client"], "sctp", 57005, 7000, to="client")),
        ],
    )
    yield (
        "of two connections with the same ends one gets another port: each switch chooses it",
        [("gw", pod("gw", dst, "tcp", 57006, 30004, src=IP4["gw"], to="peer")) for dst in (NODE, NODE_PORT)],
    )
    whole = wire.udp(IP4["client"], IP4["dns"], 57007, 53, bytes(range(256)) * 6)
    yield (
        "a first fragment goes on at once; Open vSwitch keeps it until all are there",
        [("client", piece(IP4["dns"], "dns", whole, 0, 78))],
    )
