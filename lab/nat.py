#!/usr/bin/env python3
"""The same packets through Linux's firewall with translation and through millrace's: nat.py BED FOLDER SEED SEQUENCES.

Runs behind lab/nat, whose namespaces begin with BED. Each packet goes into both routers, and a mark behind it tells when
all that comes of it is out: what comes out is compared octet for octet, or that nothing does. First what tcpdump took down
of real clients (FOLDER/NAME-SIDE.pcap), then conversations that conntrack.py makes and that break rules at random, then
each breach that is listed in BREACHES, then hosts inside that use the same ports. Where a sender's port cannot stay, each router
chooses another: answers then go to that, and it is left out of the comparison but for being of the right range.
"""
import ctypes
import ipaddress
import json
import os
import random
import select
import socket
import struct
import sys
import zlib

from conntrack import (ACK, FIN, HOSTS, MACS, PSH, RST, SYN, URG, checksum, crc32c, icmp_sequence, other_sequence, packet,
                       sctp_sequence, tcp_sequence, udp_sequence)

LIBC = ctypes.CDLL(None, use_errno=True)


def addresses(*texts):
    return [ipaddress.ip_address(text).packed for text in texts]


INSIDE, OUTSIDE = {4: addresses("10.0.1.2")[0], 6: addresses("fd01::2")[0]}, {4: addresses("10.0.2.2")[0], 6: addresses("fd02::2")[0]}
SOURCE = {4: addresses("10.0.2.100")[0], 6: addresses("fd02::100")[0]}       # what inside becomes
WEB = {4: "10.0.2.200", 6: "fd02::200"}                                      # where port 80 is the host's inside, its port 8080
KNOWN_AS = {4: "10.0.2.201", 6: "fd02::201"}                                 # all of the host inside
ORIGINAL_HOSTS = dict(HOSTS)


def within(namespace, make):
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    assert LIBC.setns(there, 0) == 0
    made = make()
    assert LIBC.setns(here, 0) == 0
    os.close(here)
    os.close(there)
    return made


class Router:
    """One of the two, between the hosts of side a (inside) and b."""

    def __init__(self, name, inside, outside, flush):
        def opened():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            sock.setsockopt(263, 23, 1)         # PACKET_IGNORE_OUTGOING
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.bind(("eth0", 0))
            sock.settimeout(3)
            return sock
        self.name, self.flush = name, flush
        self.sockets = {"a": within(inside, opened), "b": within(outside, opened)}
        self.marks = 0

    def mark(self, side):
        """A packet that no tracker sees, with a number."""
        self.marks += 1
        src, dst = ("10.0.1.2", "10.0.2.2") if side == "a" else ("10.0.2.2", "10.0.1.2")
        src, dst = addresses(src, dst)
        body = struct.pack("!HHHHQ", 9, 9, 16, 0, self.marks)
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 36, 0, 0x4000, 64, 17, 0, src, dst)
        self.send(side, header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body)
        return self.marks

    def send(self, side, data):
        mine, host = MACS[side]
        self.sockets[side].send(mine + host + (b"\x08\x00" if data[0] >> 4 == 4 else b"\x86\xdd") + data)

    def next(self, side, wait=True):
        """The next IP packet that comes out at this side."""
        sock = self.sockets[side]
        while True:
            if not wait and not select.select([sock], [], [], 0)[0]:
                return None
            try:
                frame = sock.recv(65536)
            except TimeoutError:
                sys.exit(f"{self.name} lost mark {self.marks}, towards {side}")
            if frame[12:14] not in (b"\x08\x00", b"\x86\xdd"):
                continue
            mine, host = MACS[side]
            assert frame[:12] == host + mine, f"{self.name} writes addresses {frame[:12].hex()}"
            length = struct.unpack_from("!H", frame, 16)[0] if frame[14] >> 4 == 4 else 40 + struct.unpack_from("!H", frame, 18)[0]
            return frame[14:14 + length]

    def through(self, side, data):
        """What comes of a packet: packets, with the side at which they come out."""
        other = "b" if side == "a" else "a"
        self.send(side, data)
        mark, again, out = self.mark(side), 0, []
        while True:
            got = self.next(other)
            if got[9] == 17 and got[20:24] == b"\0\x09\0\x09" and len(got) == 36:
                number = struct.unpack_from("!Q", got, 28)[0]
                if number == mark and not out and not again:
                    again = self.mark(side)     # the first may have overtaken the packet within its burst
                elif number in (mark, again):
                    break
                continue
            out.append((other, got))
        while (got := self.next(side, wait=False)) is not None:
            out.append((side, got))
        return out


def flush_linux(namespace):
    netlink = within(namespace, lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))      # NETLINK_NETFILTER

    def flush():
        netlink.send(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 5, 1, 0, 0, 0, 0))
        reply = netlink.recv(4096)
        assert struct.unpack_from("=i", reply, 16)[0] == 0, "the kernel does not flush its connections"
    return flush


def flush_millrace(path):
    def flush():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.connect(path)
            sock.sendall(json.dumps({"command": "conntrack", "flush": True, "zone": None, "limit": 0}).encode() + b"\n")
            answer = sock.makefile().readline()
        assert "flushed" in answer, answer
    return flush


# --- Packets as their receivers and senders see them

def fixed(total, old, new):
    """A checksum that was total, when these octets have changed."""
    old, new = old + bytes(len(old) % 2), new + bytes(len(new) % 2)
    number = (~total & 0xFFFF) + sum(~w & 0xFFFF for w in struct.unpack(f"!{len(old) // 2}H", old)) \
        + sum(struct.unpack(f"!{len(new) // 2}H", new))
    while number >> 16:
        number = (number & 0xFFFF) + (number >> 16)
    return ~number & 0xFFFF


def parts(data):
    """Family, protocol, where addresses lie, and where the transport header begins."""
    if data[0] >> 4 == 4:
        return 4, data[9], 12, 4, 20
    return 6, data[6], 8, 16, 40


PORTS_AT = {6: (0, 2), 17: (0, 2), 132: (0, 2)}
SUM_AT = {6: 16, 17: 6, 58: 2}


def translated(data, ends, inside=True):
    """A packet in which the ends (address, port), in both places, became others; {(address, port or None): the same}."""
    if len(data) < 20 or (data[0] >> 4 == 6 and len(data) < 40):
        return data
    family, protocol, at, size, body_at = parts(data)
    out, whole = bytearray(data), len(data)
    errors = protocol == (1 if family == 4 else 58) and whole > body_at and \
        (data[body_at] in (3, 4, 5, 11, 12) if family == 4 else data[body_at] < 128)
    echo = protocol == 1 and whole >= body_at + 8 and data[body_at] in (0, 8)
    for end in (0, 1):
        address = data[at + end * size:at + (end + 1) * size]
        place = body_at + PORTS_AT[protocol][end] if protocol in PORTS_AT else body_at + 4 if echo else None
        port = struct.unpack_from("!H", data, place)[0] if place is not None and whole >= place + 2 else None
        to = ends.get((address, port)) or ends.get((address, None))
        if to is None:
            continue
        out[at + end * size:at + (end + 1) * size] = to[0]
        if port is not None and to[1] is not None:
            struct.pack_into("!H", out, place, to[1])
    if errors and inside:
        inner = body_at + 8
        out[inner:] = translated(bytes(data[inner:]), ends, False)
    if family == 4:
        struct.pack_into("!H", out, 10, fixed(struct.unpack_from("!H", data, 10)[0], data[12:20], bytes(out[12:20])))
    if protocol == 132 and whole >= body_at + 12:
        true = crc32c(data[body_at:body_at + 8] + bytes(4) + data[body_at + 12:])
        wrong = struct.unpack_from("<I", data, body_at + 8)[0] ^ true
        fresh = crc32c(bytes(out[body_at:body_at + 8]) + bytes(4) + bytes(out[body_at + 12:]))
        struct.pack_into("<I", out, body_at + 8, fresh ^ wrong)
    place = 2 if protocol == 1 else SUM_AT.get(protocol)
    if place is not None and whole >= body_at + place + 2:
        total = struct.unpack_from("!H", data, body_at + place)[0]
        if not (protocol == 17 and total == 0 and family == 4):
            blank = (data[:body_at + place] + bytes(2) + data[body_at + place + 2:], bytes(out[:body_at + place]) + bytes(2) + bytes(out[body_at + place + 2:]))
            begin = body_at if protocol == 1 else at
            # Addresses are in the pseudo header; a header of IPv4 ends with them.
            struct.pack_into("!H", out, body_at + place, fixed(total, blank[0][begin:], blank[1][begin:]))
    return bytes(out)


def ends_of(data):
    """The ends of a packet: (address, port) twice."""
    family, protocol, at, size, body_at = parts(data)
    found = []
    for end in (0, 1):
        address = data[at + end * size:at + (end + 1) * size]
        place = body_at + PORTS_AT[protocol][end] if protocol in PORTS_AT else None
        if protocol == 1 and len(data) >= body_at + 8 and data[body_at] in (0, 8):
            place = body_at + 4
        found.append((address, struct.unpack_from("!H", data, place)[0] if place is not None and len(data) >= place + 2 else None))
    return found


# --- Breaches of TCP's rules, one by one

def tcp(side, ports, flags, seq, ack, data=b"", window=8000, family=4, wrong=False):
    body = struct.pack("!HHIIBBHHH", *(ports if side == "a" else ports[::-1]), seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, window, 0, 0)
    return side, packet(family, side, 6, body + data, 16, wrong), f"tcp {side} flags={flags:#04x} seq={seq} ack={ack} len={len(data)}"


# Of a connection whose a has sent up to 1,001 and b up to 5,001: what is sent then; "-" before: without the handshake.
BREACHES = {
    "-data before SYN": [("b", ACK | PSH, 5001, 1001, 10), ("a", ACK | PSH, 1001, 5001, 10)],
    "-answer to nothing": [("b", SYN | ACK, 5000, 1001, 0), ("b", RST, 5001, 0, 0)],
    "-reset of nothing": [("a", RST, 1000, 0, 0), ("a", RST | ACK, 1000, 77, 0)],
    "-FIN of nothing": [("a", FIN | ACK, 1000, 5000, 0), ("b", FIN | ACK, 5000, 1001, 0)],
    "-half open": [("a", SYN, 1000, 0, 0), ("b", SYN | ACK, 5000, 1001, 0), ("b", ACK | PSH, 5001, 1001, 10), ("a", ACK | PSH, 1001, 5001, 10)],
    "-half open, reset by a": [("a", SYN, 1000, 0, 0), ("b", SYN | ACK, 5000, 1001, 0), ("a", RST, 1001, 0, 0), ("b", SYN | ACK, 5000, 1001, 0)],
    "-half open, an answer that acknowledges what was not sent": [("a", SYN, 1000, 0, 0), ("b", SYN | ACK, 5000, 99999, 0), ("a", RST, 99999, 0, 0)],
    "-half open, a challenge": [("a", SYN, 1000, 0, 0), ("b", ACK, 5000, 777, 0), ("a", RST, 777, 0, 0), ("a", SYN, 1000, 0, 0), ("b", SYN | ACK, 6000, 1001, 0)],
    "-SYN again with another number": [("a", SYN, 1000, 0, 0), ("a", SYN, 900000, 0, 0), ("b", SYN | ACK, 5000, 900001, 0)],
    "-SYN with data": [("a", SYN, 1000, 0, 100), ("b", SYN | ACK, 5000, 1101, 0), ("a", ACK, 1101, 5001, 0)],
    "-both open": [("a", SYN, 1000, 0, 0), ("b", SYN, 5000, 0, 0), ("a", SYN | ACK, 1000, 5001, 0), ("b", SYN | ACK, 5000, 1001, 0)],
    "a segment beyond the window": [("a", ACK | PSH, 1001 + 100000, 5001, 100), ("b", ACK | PSH, 5001 + 100000, 1001, 100)],
    "a segment at the window's end": [("a", ACK | PSH, 1001 + 8000, 5001, 1), ("a", ACK | PSH, 1001 + 7999, 5001, 1), ("a", ACK | PSH, 1001 + 8001, 5001, 0)],
    "a segment before the window": [("a", ACK | PSH, 1001 - 100000, 5001, 100), ("b", ACK | PSH, 5001 - 100000, 1001, 100)],
    "an acknowledgment of what was not sent": [("a", ACK, 1001, 5001 + 5000, 0), ("b", ACK, 5001, 1001 + 5000, 0)],
    "an acknowledgment from long ago": [("a", ACK, 1001, 5001 - 200000, 0), ("b", ACK, 5001, 1001 - 200000, 0)],
    "a reset beyond the window": [("b", RST, 5001 + 100000, 0, 0), ("a", RST, 1001 + 100000, 0, 0)],
    "a reset before the window": [("b", RST, 5001 - 100000, 0, 0), ("a", RST, 1001 - 100000, 0, 0)],
    "a reset in the window": [("b", RST, 5001 + 100, 0, 0), ("a", RST, 1001 + 100, 0, 0)],
    "a reset": [("b", RST, 5001, 0, 0)],
    "a reset with an acknowledgment out of the window": [("b", RST | ACK, 5001 + 100000, 1001, 0)],
    "SYN within a connection": [("a", SYN, 1001, 0, 0), ("b", ACK, 5001, 1001, 0), ("a", RST, 1001, 0, 0)],
    "SYN far off within a connection": [("a", SYN, 90000000, 0, 0), ("b", ACK, 5001, 1001, 0), ("a", RST, 1001, 0, 0), ("a", SYN, 90000000, 0, 0)],
    "SYN of the other side": [("b", SYN, 5001, 0, 0), ("b", SYN | ACK, 5001, 1001, 0)],
    "no flags": [("a", 0, 1001, 0, 10), ("b", 0, 5001, 0, 10)],
    "all flags": [("a", FIN | SYN | RST | PSH | ACK | URG, 1001, 5001, 0), ("a", FIN | PSH | URG, 1001, 5001, 0)],
    "SYN and FIN": [("a", SYN | FIN, 1001, 0, 0), ("b", SYN | FIN | ACK, 5001, 1001, 0)],
    "SYN and RST": [("a", SYN | RST, 1001, 0, 0)],
    "data behind FIN": [("a", FIN | ACK, 1001, 5001, 0), ("a", ACK | PSH, 1002, 5001, 100), ("b", ACK, 5001, 1002, 0), ("a", ACK | PSH, 1102, 5001, 100)],
    "FIN twice, then SYN": [("a", FIN | ACK, 1001, 5001, 0), ("b", FIN | ACK, 5001, 1002, 0), ("a", FIN | ACK, 1001, 5002, 0), ("a", ACK, 1002, 5002, 0),
                            ("a", SYN, 70000, 0, 0), ("b", SYN | ACK, 80000, 70001, 0), ("a", ACK, 70001, 80001, 0)],
    "SYN in TIME_WAIT with an old number": [("a", FIN | ACK, 1001, 5001, 0), ("b", FIN | ACK, 5001, 1002, 0), ("a", ACK, 1002, 5002, 0), ("a", SYN, 500, 0, 0)],
    "a reset, then data": [("a", RST | ACK, 1001, 5001, 0), ("b", ACK | PSH, 5001, 1001, 100), ("a", ACK | PSH, 1001, 5001, 10)],
    "a reset, then SYN": [("b", RST | ACK, 5001, 1001, 0), ("a", SYN, 70000, 0, 0), ("b", SYN | ACK, 80000, 70001, 0)],
    "window zero": [("b", ACK, 5001, 1001, 0, 0), ("a", ACK | PSH, 1001, 5001, 1, 8000), ("a", ACK | PSH, 1002, 5001, 1000, 8000)],
}


def breach_sequence(name, family, port):
    ports, sent = (port, 80), []
    if name[0] != "-":
        sent += [tcp("a", ports, SYN, 1000, 0, family=family), tcp("b", ports, SYN | ACK, 5000, 1001, family=family),
                 tcp("a", ports, ACK, 1001, 5001, family=family)]
    for side, flags, seq, ack, length, *window in BREACHES[name]:
        sent.append(tcp(side, ports, flags, seq, ack, b"x" * length, window[0] if window else 8000, family))
    # Is the connection still what it was?
    sent += [tcp("b", ports, ACK | PSH, 5001, 1001, b"still there", family=family), tcp("a", ports, ACK, 1001, 5012, family=family),
             tcp("a", ports, ACK | PSH, 1001, 5012, b"a wrong checksum", family=family, wrong=True)]
    body = struct.pack("!HHI", *ports, 1001)        # a header cut short
    sent.append(("a", packet(family, "a", 6, body), "tcp a, 8 octets"))
    return name.lstrip("-"), sent


def clash_sequence(rng):
    """Two hosts inside that use the same port, or identifier, towards the same place outside."""
    HOSTS.update(ORIGINAL_HOSTS)
    name = rng.choice(["tcp", "udp", "icmp"])
    port, sent = rng.randrange(1024, 65000), []
    for host in ("10.0.1.2", "10.0.1.3"):
        HOSTS[4, "a"] = host
        one = []
        if name == "tcp":
            ports = (port, 80)
            one = [tcp("a", ports, SYN, 1000, 0), tcp("b", ports, SYN | ACK, 5000, 1001), tcp("a", ports, ACK, 1001, 5001),
                   tcp("b", ports, ACK | PSH, 5001, 1001, b"hello"), tcp("a", ports, FIN | ACK, 1001, 5006), tcp("b", ports, FIN | ACK, 5006, 1002)]
            # An error about what a has sent.
            quoted = one[2][1]
            one.append(("b", packet(4, "b", 1, struct.pack("!BBHI", 3, 1, 0, 0) + quoted, 2), "error b"))
        elif name == "udp":
            for side in "abab":
                ports = (port, 53) if side == "a" else (53, port)
                one.append((side, packet(4, side, 17, struct.pack("!HHHH", *ports, 12, 0) + b"data", 6), f"udp {side}"))
            one.append(("b", packet(4, "b", 1, struct.pack("!BBHI", 3, 3, 0, 0) + one[2][1], 2), "error b"))
        else:
            for n, side in enumerate("abab"):
                one.append((side, packet(4, side, 1, struct.pack("!BBHHH", 8 if side == "a" else 0, 0, 0, port, n) + b"ping", 2), f"ping {side}"))
        sent.append(one)
    HOSTS.update(ORIGINAL_HOSTS)
    order = sorted((rng.random(), which) for which in (0, 1) for _ in sent[which])
    return name, [sent[which].pop(0) for _, which in order]


def brief(data):
    """A packet's first octets."""
    return data[:100].hex() + ("" if len(data) <= 100 else f" ({len(data)} octets, {zlib.crc32(data):08x})")


def kind(data, port):
    """The range of ports that a port is replaced within; an identifier, by any."""
    echo = data[0] >> 4 == 4 and data[9] == 1 and data[20] in (0, 8)
    return 1 if echo or port < 512 else 600 if port < 1024 else 1024


class Comparison:
    def __init__(self, routers):
        self.routers = routers
        self.packets = self.passed = self.changed = self.dropped = self.chosen = 0
        self.different, self.chosen_by = [], None

    def one(self, side, views, what, story, maps=None):
        """A packet, as each router is to be sent it; whether both did the same. maps: it begins or goes on with a conversation of
        this side's, whose sender each router may know by another port; which one is noted there."""
        outs = [router.through(side, view) for router, view in zip(self.routers, views)]
        for out, own in zip(outs, maps or ()):
            if len(out) == 1:
                own[ends_of(views[0])[0]] = ends_of(out[0][1])[0]
        same = outs[0] == outs[1]
        if not same and self.chosen_by:
            # As if the port that each has chosen were the same, if both had to choose, and chose of the same kind.
            plain = []
            for out, own in zip(outs, self.chosen_by):
                chosen = [end for key, end in own.items() if end[1] not in (None, key[1])]
                plain.append([(s, translated(data, {end: (end[0], kind(data, end[1])) for end in chosen})) for s, data in out])
            same = plain[0] == plain[1]
            self.chosen += same
        self.packets += 1
        if same:
            if not outs[0]:
                self.dropped += 1
            elif any(ends_of(data) != ends_of(views[0]) for _, data in outs[0]):
                self.changed += 1
            else:
                self.passed += 1
        tell = lambda out: ", ".join(f"{s} {brief(data)}" for s, data in out) or "nothing"
        story.append(f"  {what}: in {brief(views[0])}" + ("" if views[0] == views[1] else f" and {brief(views[1])}")
                     + (f"\n      both {tell(outs[0])}" if same else f"\n      linux {tell(outs[0])}\n      millrace {tell(outs[1])}"))
        return same, outs

    def differs(self, name, story):
        self.different.append(name)
        print(f"{name} differs:\n" + "\n".join(story[-14:]))
        return len(self.different) >= 6

    def replay(self, folder, name):
        """What tcpdump took down at both sides."""
        packets = sorted(taken(f"{folder}/{name}-0.pcap", "a") + taken(f"{folder}/{name}-1.pcap", "b"))
        for router in self.routers:
            router.flush()
        self.chosen_by = None
        for number, (_, side, data) in enumerate(packets):
            story = []
            if not self.one(side, [data, data], f"packet {number} from {side}", story)[0] and self.differs(f"{name}'s traffic", story):
                break
        return len(packets)

    def sequence(self, name, sent, ends, opener):
        """A conversation. ends: what answers are changed by; opener: the side that it begins at."""
        for router in self.routers:
            router.flush()
        maps, story = [dict(ends), dict(ends)], []
        self.chosen_by = maps
        for side, data, what in sent:
            if opener == "b":
                side = "b" if side == "a" else "a"
            views = [data if side == opener else translated(data, m) for m in maps]
            if not self.one(side, views, f"{side}: {what}", story, maps if side == opener else None)[0]:
                return self.differs(name, story)
        return False


def taken(path, side):
    """Packets of a pcap file: time, side, the IP packet."""
    octets, at, found = open(path, "rb").read(), 24, []
    assert octets[:4] == b"\x4d\x3c\xb2\xa1", "not a pcap file with nanoseconds"
    while at + 16 <= len(octets):
        seconds, fraction, held, length = struct.unpack_from("<IIII", octets, at)
        frame = octets[at + 16:at + 16 + held]
        assert held == length, "a packet was cut"
        at += 16 + held
        total = struct.unpack_from("!H", frame, 16)[0]
        found.append((seconds * 10 ** 9 + fraction, side, frame[14:14 + total]))
    return found


def view(way):
    """Where a conversation begins: inside, or outside towards WEB or KNOWN_AS. The side, and the ends as answers have them; HOSTS is
    set to what its beginner knows."""
    HOSTS.update(ORIGINAL_HOSTS)
    if way == "inside":
        return "a", {(INSIDE[f], None): (SOURCE[f], None) for f in (4, 6)}
    kind = WEB if way == "web" else KNOWN_AS
    ends = {}
    for f in (4, 6):
        HOSTS[f, "a"], HOSTS[f, "b"] = ORIGINAL_HOSTS[f, "b"], kind[f]
        address = addresses(kind[f])[0]
        ends[address, None] = (INSIDE[f], None)
        if kind is WEB:
            ends[address, 80] = (INSIDE[f], 8080)
    return "b", ends


def main():
    bed, folder, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    linux = Router("Linux", f"{bed}h3", f"{bed}h4", flush_linux(f"{bed}h5"))
    millrace = Router("millrace", f"{bed}h1", f"{bed}h2", flush_millrace(f"{folder}/ctl"))
    both = Comparison([linux, millrace])
    said = []

    def told(what):
        print(f"{what}: {both.packets} packets, {both.changed} translated, {both.passed} passed as they are, {both.dropped} dropped, "
              f"{both.chosen} with a port that each chose, {len(both.different)} differences")
        said.append((both.packets, len(both.different)))
        both.packets = both.passed = both.changed = both.dropped = both.chosen = 0

    for name in ("Linux", "millrace"):
        both.replay(folder, name)
        told(f"real clients, as they came to {name}")
    kinds = [tcp_sequence] * 6 + [sctp_sequence] * 2 + [udp_sequence, icmp_sequence, other_sequence]
    for n in range(count):
        rng = random.Random(seed * 1_000_003 + n)
        opener, ends = view(rng.choice(["inside", "inside", "inside", "web", "known"]))
        name, sent = rng.choice(kinds)(rng)
        if both.sequence(f"sequence {n} ({name}, begun at {opener})", sent, ends, opener):
            break
    told(f"{count} conversations with mistakes")
    for n, name in enumerate(BREACHES):
        for family in (4, 6):
            for way in ("inside", "web"):
                opener, ends = view(way)
                what, sent = breach_sequence(name, family, 2000 + n)
                both.sequence(f"{what} (IPv{family}, begun at {opener})", sent, ends, opener)
    told(f"{len(BREACHES)} breaches of TCP's rules, by IPv4 and IPv6, from inside and outside")
    for n in range(max(count // 6, 20)):
        rng = random.Random(seed * 7_000_003 + n)
        name, sent = clash_sequence(rng)
        ends = {(INSIDE[4], None): (SOURCE[4], None), (addresses("10.0.1.3")[0], None): (SOURCE[4], None)}
        if both.sequence(f"clash {n} ({name})", sent, ends, "a"):
            break
    told("hosts that use the same port")
    packets, differences = sum(p for p, _ in said), said[-1][1]
    print(f"{differences} differences in {packets} packets, {said[0][0] + said[1][0]} of them real clients', Linux {os.uname().release}")
    return 1 if differences else 0


sys.exit(main())
