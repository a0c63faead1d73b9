"""What is sent into the bridges of `neutron`: every path, both directions, and what must not pass."""

import struct

import neutron
import talk
import wire
from neutron import DVR_MAC, DVR_MAC2, OTHERS, PORTS, REMOTE
from talk import ask, one
from wire import ACK, FIN, GRE, ICMP, ICMP6, RST, SCTP, SYN, TCP, UDP

UNDER = {"h1": "02:88:00:00:00:0b", "h2": "02:88:00:00:00:0c"}
LOCAL_MAC = "02:77:00:00:00:64"
WORLD, WORLD_MAC = "10.4.0.1", "02:99:00:00:00:01"
ALL = {**PORTS, **OTHERS}


def body_of(transport, src, dst, sport, dport, **words):
    if transport == "tcp":
        return TCP, wire.tcp(src, dst, sport, dport, **words)
    if transport == "udp":
        return UDP, wire.udp(src, dst, sport, dport, **words)
    if transport == "sctp":
        return SCTP, wire.sctp(sport, dport)
    if transport == "gre":
        return GRE, struct.pack("!HH", 0, 0x0800) + wire.ip4("1.1.1.1", "2.2.2.2", UDP, wire.DATA)
    kind = 128 if ":" in src else 8
    return (ICMP6 if ":" in src else ICMP), wire.icmp(src, dst, kind, 0, struct.pack("!HH", sport, 1))


def frame(
    source,
    target,
    transport,
    sport,
    dport,
    v=4,
    src=None,
    dst=None,
    mac=None,
    to=None,
    vlan=None,
    ttl=64,
    tos=0,
    fragment=0,
    ident=0,
    **words,
):
    """A frame of a station to another one."""
    source, target = (ALL[name] if isinstance(name, str) else name for name in (source, target))
    src = src or (source.ip if v == 4 else source.ip6)
    dst = dst or (target.ip if v == 4 else target.ip6)
    protocol, body = body_of(transport, src, dst, sport, dport, **words)
    more = {"fragment": fragment, "ident": ident} if v == 4 else {}
    return wire.eth(
        mac or source.mac, to or target.mac, wire.kind_of(dst), wire.ip(src, dst, protocol, body, ttl=ttl, tos=tos, **more), vlan
    )


def tunnelled(inner, kind, key, host="h1", to=neutron.LOCAL_ADDRESS):
    return wire.outer(kind, key, inner, REMOTE[host], to, UNDER[host], LOCAL_MAC)


def from_far(name, inner):
    port = OTHERS[name]
    return tunnelled(inner, port.net.kind, port.net.key, port.host)


def arps():
    for name, port in PORTS.items():
        net = port.net
        yield from one(f"{name} tells of itself", name, wire.arp(port.mac, port.ip, port.ip))
        yield from one(f"{name} asks for a router", name, wire.arp(port.mac, port.ip, f"{net.subnet}.20"))
        for other in ALL.values():
            if other.net is net and other is not port:
                yield from one(f"{name} asks for {other.name}", name, wire.arp(port.mac, port.ip, other.ip))
        yield from one(f"{name} tells another's address", name, wire.arp(port.mac, f"{net.subnet}.77", f"{net.subnet}.1"))
        yield from one(f"{name} tells with another's hardware", name, wire.arp("fa:16:3e:00:00:77", port.ip, f"{net.subnet}.1"))
        yield from one(f"{name} answers", name, wire.arp(port.mac, port.ip, f"{net.subnet}.31", 2, "fa:16:3e:00:01:1f"))
        yield from one(
            f"{name}, RARP", name, wire.eth(port.mac, wire.BROADCAST, 0x8035, bytes.fromhex("0001080006040003") + bytes(20))
        )
        yield from one(f"{name}, a kind of frame that is let pass", name, wire.eth(port.mac, PORTS["vm2"].mac, 0x4008, wire.DATA))
        yield from one(f"{name}, a kind that is not", name, wire.eth(port.mac, PORTS["vm2"].mac, 0x88B6, wire.DATA))
        yield from one(
            f"{name}, a spanning tree's",
            name,
            wire.eth(port.mac, "01:80:c2:00:00:00", 0x0026, bytes.fromhex("424203000000000080") + bytes(30)),
        )
        if name != "vm7":
            # It has a rate by its port, and the other by its address: two entries of one priority.
            yield from one(f"{name}, a tag", name, frame(name, "vm2", "udp", 1, 2, vlan=net.vlan))
    for name, port in OTHERS.items():
        for target in PORTS.values():
            if target.net is port.net:
                yield from one(f"{name} asks for {target.name}", "u0", from_far(name, wire.arp(port.mac, port.ip, target.ip)))
        yield from one(f"{name} tells all", "u0", from_far(name, wire.arp(port.mac, port.ip, port.ip, 2, wire.BROADCAST)))
        yield from one(f"{name} asks for the router", "u0", from_far(name, wire.arp(port.mac, port.ip, PORTS["qr"].ip)))
    for mac, pair in ((port.mac if mac is None else mac, ip) for port in PORTS.values() for mac, ip in port.pairs):
        ip = pair.split("/")[0]
        yield from one(f"an allowed pair's, {ip}", "vm2", wire.arp(mac, ip, "10.1.0.11"))


def neighbours():
    for name, port in PORTS.items():
        for other in ("vm1", "vm3", "far1"):
            target = ALL[other]
            if target.net is not port.net or target is port:
                continue
            group = "33:33:ff:00:00:" + f"{target.number:02x}"
            yield from one(
                f"{name} solicits {other}",
                name,
                wire.neighbour(port.mac, port.ip6, f"ff02::1:ff00:{target.number:x}", target.ip6, to=group),
            )
            yield from one(
                f"{name} solicits {other} by its link",
                name,
                wire.neighbour(port.mac, port.link, target.ip6, target.ip6, to=target.mac),
            )
            yield from one(
                f"{name} advertises to {other}", name, wire.neighbour(port.mac, port.ip6, target.ip6, port.ip6, 136, target.mac)
            )
            yield from one(
                f"{name} advertises another's to {other}",
                name,
                wire.neighbour(port.mac, port.ip6, target.ip6, "fd01::7777", 136, target.mac),
            )
        for kind, to, to_mac in (
            (133, "ff02::2", "33:33:00:00:00:02"),
            (134, "ff02::1", "33:33:00:00:00:01"),
            (130, "ff02::1", "33:33:00:00:00:01"),
            (143, "ff02::16", "33:33:00:00:00:16"),
        ):
            message = wire.ip6(port.link, to, ICMP6, wire.icmp(port.link, to, kind, 0, bytes(4), bytes(16)), ttl=255)
            yield from one(f"{name}, ICMPv6 {kind}", name, wire.eth(port.mac, to_mac, 0x86DD, message))
    for name, port in OTHERS.items():
        yield from one(
            f"{name} solicits", "u0", from_far(name, wire.neighbour(port.mac, port.ip6, "ff02::1:ff00:b", f"{port.net.subnet6}b"))
        )
        yield from one(
            f"{name} advertises",
            "u0",
            from_far(
                name,
                wire.neighbour(port.mac, port.ip6, f"{port.net.subnet6}b", port.ip6, 136, f"fa:16:3e:00:{port.net.vlan:02x}:0b"),
            ),
        )
        message = wire.ip6(port.link, "ff02::1", ICMP6, wire.icmp(port.link, "ff02::1", 134, 0, bytes(4), bytes(8)), ttl=255)
        yield from one(f"{name} is a router", "u0", from_far(name, wire.eth(port.mac, "33:33:00:00:00:01", 0x86DD, message)))


def dhcp():
    for name, port in PORTS.items():
        zero, everybody = "0.0.0.0", "255.255.255.255"
        for src in (zero, port.ip):
            body = wire.udp(src, everybody, 68, 67, bytes(240))
            yield from one(
                f"{name} asks for an address from {src}",
                name,
                wire.eth(port.mac, wire.BROADCAST, 0x0800, wire.ip4(src, everybody, UDP, body)),
            )
        renew = wire.udp(port.ip, PORTS["dhcp"].ip, 68, 67, bytes(240))
        yield from one(
            f"{name} renews", name, wire.eth(port.mac, PORTS["dhcp"].mac, 0x0800, wire.ip4(port.ip, PORTS["dhcp"].ip, UDP, renew))
        )
        offer = wire.udp(port.ip, "10.1.0.11", 67, 68, bytes(240))
        yield from one(
            f"{name} is a server of addresses",
            name,
            wire.eth(port.mac, PORTS["vm1"].mac, 0x0800, wire.ip4(port.ip, "10.1.0.11", UDP, offer)),
        )
        for src in (port.link, port.ip6):
            body = wire.udp(src, "ff02::1:2", 546, 547, bytes(60))
            yield from one(
                f"{name} asks for an address from {src}",
                name,
                wire.eth(port.mac, "33:33:00:01:00:02", 0x86DD, wire.ip6(src, "ff02::1:2", UDP, body)),
            )
        body = wire.udp(port.ip6, "fd01::b", 547, 546, bytes(60))
        yield from one(
            f"{name} is a server of addresses of IPv6",
            name,
            wire.eth(port.mac, PORTS["vm1"].mac, 0x86DD, wire.ip6(port.ip6, "fd01::b", UDP, body)),
        )
        yield from one(
            f"{name} asks for a name",
            name,
            wire.eth(
                port.mac,
                PORTS["qr"].mac,
                0x0800,
                wire.ip4(port.ip, "169.254.10.53", UDP, wire.udp(port.ip, "169.254.10.53", 1234, 53)),
            ),
        )


SOME = [
    ("tcp", 80),
    ("tcp", 85),
    ("tcp", 92),
    ("tcp", 8050),
    ("tcp", 22),
    ("udp", 53),
    ("udp", 5003),
    ("udp", 150),
    ("icmp", 0),
    ("gre", 0),
]


def hosts():
    """Stations among themselves: of this host, and of others by tunnels."""
    sport = 20000
    for source in ALL.values():
        for target in ALL.values():
            if source is target or source.net is not target.net or (source.host and target.host):
                continue
            at = "u0" if source.host else source.name
            wrap = (lambda inner, name=source.name: from_far(name, inner)) if source.host else (lambda inner: inner)
            for transport, port in SOME:
                sport += 1
                name = f"{source.name} to {target.name}, {transport} {port}"
                sent = wrap(frame(source, target, transport, sport, port))
                if transport == "tcp" and port == 80 + 5 * (sport % 2):
                    yield from talk.tcp(name, at, sent, close=FIN if port == 80 else RST)
                elif transport == "gre":
                    yield from one(name, at, sent)
                else:
                    yield from ask(name, at, sent, times=1 if port == 53 else 0)
            for transport, port in (("tcp", 443), ("udp", 53), ("icmp", 0)):
                sport += 1
                yield from ask(
                    f"{source.name} to {target.name}, IPv6, {transport} {port}",
                    at,
                    wrap(frame(source, target, transport, sport, port, v=6)),
                    times=0,
                )


def pairs():
    """Addresses that a station may have beside its own, and those that it may not."""
    for src, mac in (
        ("10.1.0.99", "fa:16:3e:99:00:01"),
        ("10.1.0.202", None),
        ("10.1.0.209", None),
        ("10.1.0.99", None),
        ("10.1.0.12", "fa:16:3e:99:00:01"),
        ("10.1.0.11", None),
    ):
        for target in ("vm1", "far1"):
            yield from ask(
                f"vm2 as {src} {mac} to {target}", "vm2", frame("vm2", target, "icmp", 40000, 0, src=src, mac=mac), times=0
            )
    for to, dst in (("fa:16:3e:99:00:01", "10.1.0.99"), (PORTS["vm2"].mac, "10.1.0.202")):
        yield from ask(f"vm1 to vm2 as {dst}", "vm1", frame("vm1", "vm2", "icmp", 40001, 0, dst=dst, to=to), times=0)
        yield from ask(
            f"far1 to vm2 as {dst}", "u0", from_far("far1", frame("far1", "vm2", "icmp", 40002, 0, dst=dst, to=to)), times=0
        )
    for name in PORTS:
        yield from one(f"{name} as somebody", name, frame(name, "vm1", "udp", 40003, 5003, src=f"{PORTS[name].net.subnet}.78"))
        yield from one(f"{name} with another's hardware", name, frame(name, "vm1", "udp", 40004, 5003, mac="fa:16:3e:00:00:78"))
        yield from one(
            f"{name} as somebody, IPv6", name, frame(name, "vm1", "udp", 40005, 5003, v=6, src=f"{PORTS[name].net.subnet6}78")
        )


def local():
    """The address that each host answers for itself."""
    for name in ("vm1", "vm2"):
        yield from one(f"{name} asks for the local address", name, wire.arp(PORTS[name].mac, PORTS[name].ip, "10.1.0.250"))
        for transport, port in (("icmp", 0), ("tcp", 80), ("udp", 53)):
            sent = frame(name, "vm4", transport, 41000, port, dst="10.1.0.250")
            if transport == "tcp":
                yield from talk.tcp(f"{name} to the local address", name, sent)
            else:
                yield from ask(f"{name} to the local address, {transport}", name, sent)
    for vlan in (1,):
        yield from one(
            "the local address from elsewhere", "u0", from_far("far1", wire.arp(OTHERS["far1"].mac, "10.1.0.250", "10.1.0.250"))
        )
        yield from one(
            "the local address, asked by the router", "u0", from_far("far1", wire.arp(OTHERS["far1"].mac, "10.1.0.250", "10.1.0.1"))
        )


def routed():
    """The distributed router: its frames to other hosts, those of another host's, ARP for either."""
    router = PORTS["qr"]
    for name in ("vm1", "vm2", "vm4", "vm7", "far1", "far2"):
        target = ALL[name]
        yield from ask(f"routed to {name}", "qr", frame("qr", name, "udp", 42000, 5003, src="10.2.0.13"), times=0)
        yield from ask(
            f"routed to {name}, TCP", "qr", frame("qr", name, "tcp", 42001, 80, src="10.2.0.13"), flags=SYN | ACK, times=0
        )
        if target.host is None:
            inner = frame("qr", name, "udp", 42002, 5003, src="10.2.0.13", mac=DVR_MAC2)
            yield from ask(f"routed elsewhere to {name}", "u0", tunnelled(inner, "vxlan", 1001, "h2"), times=0)
            yield from one(f"routed elsewhere to {name}, unknown network", "u0", tunnelled(inner, "vxlan", 4444, "h2"))
        else:
            answer = wire.arp(target.mac, target.ip, router.ip, 2, router.mac, dst=DVR_MAC)
            yield from one(f"{name} answers the router", "u0", from_far(name, answer))
            yield from one(
                f"{name} answers the host",
                "u0",
                from_far(name, wire.arp(target.mac, target.ip, router.ip, 2, DVR_MAC, dst=DVR_MAC)),
            )
    yield from one("the router asks", "qr", wire.arp(router.mac, router.ip, "10.1.0.55"))
    yield from one("to the router from here", "vm1", frame("vm1", "qr", "udp", 42003, 53, dst="10.2.0.13"))
    yield from one("to the router from elsewhere", "u0", from_far("far1", frame("far1", "qr", "udp", 42004, 53, dst="10.2.0.13")))


def provided():
    """The provider's network, with tags of its own."""
    vm5 = PORTS["vm5"]
    for vlan in (300, 301, 4, None):
        for transport, port in (("tcp", 80), ("udp", 5003), ("icmp", 0)):
            protocol, body = body_of(transport, WORLD, vm5.ip, 43000, port)
            sent = wire.eth(WORLD_MAC, vm5.mac, 0x0800, wire.ip4(WORLD, vm5.ip, protocol, body), vlan)
            if transport == "tcp":
                yield from talk.tcp(f"from VLAN {vlan}", "uplink", sent)
            else:
                yield from ask(f"from VLAN {vlan}, {transport}", "uplink", sent, times=0)
        yield from one(f"ARP from VLAN {vlan}", "uplink", wire.arp(WORLD_MAC, WORLD, vm5.ip, vlan=vlan))
        routed_frame = wire.eth(
            DVR_MAC2, vm5.mac, 0x0800, wire.ip4("10.9.0.1", vm5.ip, UDP, wire.udp("10.9.0.1", vm5.ip, 43001, 5003)), vlan
        )
        yield from one(f"routed elsewhere from VLAN {vlan}", "uplink", routed_frame)
    for transport, port in (("tcp", 443), ("udp", 53), ("icmp", 0)):
        protocol, body = body_of(transport, vm5.ip, WORLD, 43002, port)
        yield from ask(
            f"vm5 to the world, {transport}", "vm5", wire.eth(vm5.mac, WORLD_MAC, 0x0800, wire.ip4(vm5.ip, WORLD, protocol, body))
        )
    yield from one("vm5 to all", "vm5", wire.arp(vm5.mac, vm5.ip, WORLD))
    yield from one("a dead VLAN", "uplink", wire.eth(WORLD_MAC, vm5.mac, 0x0800, wire.DATA, 4095))


def learned():
    """Stations that the agent does not know are learned as they send."""
    for n, (kind, key, host, seen) in enumerate(
        (("vxlan", 1001, "h1", "vm1"), ("vxlan", 1001, "h2", "vm2"), ("gre", 2002, "h1", "vm3"), ("geneve", 3003, "h1", "vm6"))
    ):
        port = PORTS[seen]
        mac, ip = f"fa:16:3e:77:00:{n:02x}", f"{port.net.subnet}.{150 + n}"
        yield from one(f"{seen} to an unknown station by {kind}", seen, frame(seen, seen, "udp", 44000, 53, dst=ip, to=mac))
        yield from one(f"an unknown station by {kind} asks", "u0", tunnelled(wire.arp(mac, ip, port.ip), kind, key, host))
        yield from one(f"{seen} answers it", seen, wire.arp(port.mac, port.ip, ip, 2, mac))
        yield from ask(f"{seen} to it", seen, frame(seen, seen, "icmp", 44001, 0, dst=ip, to=mac))
        # It moves to another host.
        if kind == "vxlan":
            other = "h2" if host == "h1" else "h1"
            yield from one(f"it moves, {kind}", "u0", tunnelled(wire.arp(mac, ip, ip), kind, key, other))
            yield from ask(f"{seen} to it again", seen, frame(seen, seen, "icmp", 44002, 0, dst=ip, to=mac))
    inner = frame("far1", "vm1", "udp", 44003, 5003)
    for kind, key, host in (
        ("vxlan", 1002, "h1"),
        ("gre", 1001, "h1"),
        ("geneve", 1001, "h1"),
        ("gre", 2002, "h2"),
        ("geneve", 3003, "h2"),
        ("vxlan", 0, "h2"),
    ):
        yield from one(f"{kind} {key} of {host}", "u0", tunnelled(inner, kind, key, host))
    yield from one("to another address", "u0", tunnelled(inner, "vxlan", 1001, to="192.168.88.77"))


def piece(whole, n, ident, dst):
    flags = (n * 520 // 8) | (0x2000 if n < 2 else 0)
    return wire.eth(
        PORTS["vm1"].mac,
        ALL[dst].mac,
        0x0800,
        wire.ip4(PORTS["vm1"].ip, ALL[dst].ip, UDP, whole[n * 520 : (n + 1) * 520], fragment=flags, ident=ident),
    )


def odd():
    for step, flags in (("ACK", ACK), ("SYN ACK", SYN | ACK), ("none", 0), ("all", 63), ("SYN FIN", SYN | FIN)):
        for source, target in (("vm1", "vm2"), ("vm2", "vm1"), ("far1", "vm1")):
            sent = frame(source, target, "tcp", 45000 + flags, 80, flags=flags)
            yield from one(
                f"{step} of no connection, {source}",
                "u0" if source == "far1" else source,
                from_far(source, sent) if source == "far1" else sent,
            )
    good = frame("vm1", "vm4", "tcp", 45100, 80)
    yield from one("a wrong checksum of TCP", "vm1", good[:50] + bytes([good[50] ^ 1]) + good[51:])
    for size in (20, 33):
        yield from one(f"cut to {size}", "vm1", good[:size])
    for ttl in (0, 1):
        yield from one(f"TTL {ttl}", "vm1", frame("vm1", "vm4", "udp", 45101, 53, ttl=ttl))
    options = wire.ip4(
        PORTS["vm1"].ip, PORTS["vm4"].ip, UDP, wire.udp(PORTS["vm1"].ip, PORTS["vm4"].ip, 45102, 53), options=b"\x94\x04\0\0"
    )
    yield from one("IPv4 options", "vm1", wire.eth(PORTS["vm1"].mac, PORTS["vm4"].mac, 0x0800, options))
    for number in (2, 4, 50, 51, 112):
        yield from one(
            f"protocol {number}",
            "vm1",
            wire.eth(PORTS["vm1"].mac, PORTS["vm2"].mac, 0x0800, wire.ip4(PORTS["vm1"].ip, PORTS["vm2"].ip, number, wire.DATA)),
        )
    group = wire.eth(
        PORTS["vm1"].mac,
        "01:00:5e:01:01:01",
        0x0800,
        wire.ip4(PORTS["vm1"].ip, "239.1.1.1", UDP, wire.udp(PORTS["vm1"].ip, "239.1.1.1", 45103, 5000)),
    )
    yield from one("to a group", "vm1", group)
    yield from one(
        "to a group from elsewhere", "u0", from_far("far1", wire.eth(OTHERS["far1"].mac, "01:00:5e:01:01:01", 0x0800, group[14:]))
    )
    data = bytes(range(256)) * 6
    for n, (dst, order) in enumerate((("vm4", (0, 1, 2)), ("vm2", (0, 1, 2)), ("vm4", (2, 0, 1)), ("far1", (1, 2, 0)))):
        whole = wire.udp(PORTS["vm1"].ip, ALL[dst].ip, 46000 + n, 5003, data)
        yield from one(f"pieces {order} to {dst}", "vm1", [piece(whole, at, 200 + n, dst) for at in order])
    for target in ("vm4", "far2"):
        came = yield f"a datagram to {target}", "vm1", frame("vm1", target, "udp", 47000, 5003)
        at, answer = talk.back(came, error=(3, 3))
        yield f"nobody listens at {target}", at, answer
    strange = wire.ip4("10.1.0.99", "10.1.0.98", UDP, wire.DATA)
    body = wire.icmp(PORTS["vm4"].ip, PORTS["vm1"].ip, 3, 1, bytes(4), strange)
    yield from one(
        "an error about nothing",
        "vm4",
        wire.eth(PORTS["vm4"].mac, PORTS["vm1"].mac, 0x0800, wire.ip4(PORTS["vm4"].ip, PORTS["vm1"].ip, ICMP, body)),
    )
    # With a group's rule gone: what its entry marks no longer passes.
    yield from one("no checksum of an outer header", "u0", from_far("far1", frame("far1", "vm1", "tcp", 47001, 80)))


def script():
    talk.STATIONS.clear()
    talk.HOMES.clear()
    talk.STATIONS.update({port.mac: name for name, port in PORTS.items()})
    for part in (arps, neighbours, dhcp, hosts, pairs, local, routed):
        yield from part()
    yield from talk.alone(provided())
    yield from talk.alone(learned())
    yield from odd()
