#!/usr/bin/env python3
"""The same packets through Linux's connection tracker and ours: conntrack.py HOSTS VERDICTS SEED SEQUENCES.

Runs in the namespace that forwards (see lab/conntrack); HOSTS is the namespace at the other ends of its interfaces side-a and side-b,
VERDICTS the program that asks our tracker. Each sequence is a conversation, mostly sensible, with mistakes thrown in; the
kernel's connections are flushed before it. Per packet are compared: state, direction, and the connection's own state and
timeout. A difference prints the sequence up to it.
"""
import ctypes
import ipaddress
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = 1, 2, 4, 8, 16, 32, 64, 128
CODES = {1: "new original", 2: "new reply", 3: "established original", 4: "established reply", 5: "related original",
         6: "related reply", 7: "invalid none", 8: "untracked none"}
STATES = {"SYN_SENT": "SynSent", "SYN_RECV": "SynReceived", "ESTABLISHED": "Established", "FIN_WAIT": "FinWait",
          "CLOSE_WAIT": "CloseWait", "LAST_ACK": "LastAck", "TIME_WAIT": "TimeWait", "CLOSE": "Closed",
          "SYN_SENT2": "SynSent2", "CLOSED": "Closed", "COOKIE_WAIT": "CookieWait", "COOKIE_ECHOED": "CookieEchoed",
          "SHUTDOWN_SENT": "ShutdownSent", "SHUTDOWN_RECD": "ShutdownReceived", "SHUTDOWN_ACK_SENT": "ShutdownAckSent",
          "HEARTBEAT_SENT": "HeartbeatSent", "NONE": "None"}
MACS = {side: (bytes([2, 0, 0, 0, n, 1]), bytes([2, 0, 0, 0, n, 2])) for n, side in ((1, "a"), (2, "b"))}
HOSTS = {(4, "a"): "10.0.1.2", (4, "b"): "10.0.2.2", (6, "a"): "fd01::2", (6, "b"): "fd02::2"}      # also read by nat.py


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc32c(data):
    crc = 0xFFFFFFFF
    for octet in data:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def packet(family, side, protocol, body, place=None, wrong=False):
    """An IP packet from the host on this side to the other; place: where the body's checksum lies."""
    src, dst = (ipaddress.ip_address(HOSTS[family, s]).packed for s in (side, "b" if side == "a" else "a"))
    if protocol == 132:
        body = body[:8] + struct.pack("<I", crc32c(body[:8] + bytes(4) + body[12:]) ^ wrong) + body[12:]
    elif place is not None:
        pseudo = b"" if protocol == 1 else src + dst + struct.pack("!IHBB", len(body), 0, 0, protocol)
        body = body[:place] + struct.pack("!H", checksum(pseudo + body[:place] + bytes(2) + body[place + 2:]) ^ wrong) \
            + body[place + 2:]
    if family == 4:
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0x4000, 64, protocol, 0, src, dst)
        return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body
    return struct.pack("!IHBB", 6 << 28, len(body), protocol, 64) + src + dst + body


def tcp_options(rng, syn, acks):
    options = b""
    if syn:
        if rng.random() < 0.6:
            options += bytes([3, 3, rng.choice([0, 2, 7, 14, 20]), 1])
        if rng.random() < 0.6:
            options += bytes([4, 2, 1, 1])
    elif rng.random() < 0.15:
        edge = (acks + rng.choice([0, 100, 5000])) & 0xFFFFFFFF
        options += bytes([1, 1, 5, 10]) + struct.pack("!II", (edge - 50) & 0xFFFFFFFF, edge)
    if rng.random() < 0.03:
        options += rng.choice([b"\x03\x00\0\0", b"\x02\x28\0\0", b"\xfe\x03\0\0", b"\0\x03\x03\x05"])
    return options


def tcp_sequence(rng):
    """A conversation of two ends that know what they have sent, and that err in one packet of six."""
    family, port = rng.choice([4, 4, 6]), rng.randrange(1024, 65000)
    seq = {"a": rng.choice([rng.getrandbits(32), 0xFFFFFFF0]), "b": rng.getrandbits(32)}
    sent = []
    plan = {"usual": [("a", SYN), ("b", SYN | ACK), ("a", ACK)], "both": [("a", SYN), ("b", SYN), ("a", SYN | ACK), ("b", SYN | ACK)],
            "half": [("a", SYN)], "refused": [("a", SYN), ("b", RST | ACK)], "middle": [("a", ACK)], "none": []}
    begin = list(plan[rng.choice(["usual"] * 6 + list(plan))])
    length = rng.randrange(4, 22)
    closing = rng.random() < 0.5
    while len(sent) < length:
        mistake = rng.random() < 0.17
        if begin and not mistake:
            side, flags = begin.pop(0)
        else:
            side = rng.choice("ab")
            choices = [ACK] * 6 + [ACK | PSH] * 3 + ([FIN | ACK] * 4 if closing else [FIN | ACK]) + [RST, RST | ACK]
            if mistake:
                choices += [SYN, SYN | ACK, SYN, RST, FIN, 0, SYN | FIN, ACK | URG, ACK | ECE | CWR, FIN | ACK | URG, RST | ACK]
            flags = rng.choice(choices)
        other = "b" if side == "a" else "a"
        s, a = seq[side], seq[other]
        if mistake:
            s += rng.choice([0, 1, -1, 100, -100, 1500, 70000, -70000, 1 << 31, 10 ** 9]) if rng.random() < 0.6 else 0
            a += rng.choice([0, 1, -1, 100, -100, 70000, -70000, 1 << 31]) if rng.random() < 0.6 else 0
            s, a = (0 if rng.random() < 0.05 else s), (0 if rng.random() < 0.05 else a)
        s, a = s & 0xFFFFFFFF, a & 0xFFFFFFFF
        data = 0 if flags & (SYN | RST) or rng.random() < 0.5 else rng.choice([1, 10, 500, 1400])
        window = rng.choice([0, 1, 500, 8000, 65535, 65535])
        options = tcp_options(rng, flags & SYN, a)
        ports = (port, 80) if side == "a" else (80, port)
        wrong = rng.random() < 0.01
        body = struct.pack("!HHIIBBHHH", *ports, s, a if flags & ACK else 0, (20 + len(options)) // 4 << 4, flags, window, 0, 0)
        sent.append((side, packet(family, side, 6, body + options + b"x" * data, 16, wrong),
                     f"tcp {side} flags={flags:#04x} seq={s} ack={a} win={window} len={data} opt={options.hex()} wrong={wrong}"))
        if not mistake or rng.random() < 0.3:
            seq[side] = (s + data + bool(flags & SYN) + bool(flags & FIN)) & 0xFFFFFFFF
        if rng.random() < 0.08 and sent:
            sent.append((side, sent[-1][1], "again"))
        if rng.random() < 0.06:
            sent.append(error(rng, family, other, sent[-1][1]))
    return "tcp", sent


def error(rng, family, side, about):
    """An ICMP error by the host on this side."""
    quoted = about[:rng.choice([20, 24, 28, 48, 60, 200])] if rng.random() < 0.5 else about[:100]
    if rng.random() < 0.1:
        quoted = bytes([quoted[0]]) + bytes(rng.getrandbits(8) for _ in range(len(quoted) - 1))
    if family == 4:
        body = struct.pack("!BBHI", *rng.choice([(3, 1), (3, 4), (11, 0), (12, 0), (4, 0), (5, 1)]), 0, 0) + quoted
        return side, packet(4, side, 1, body, 2), f"error {side} quoting {len(quoted)}"
    body = struct.pack("!BBHI", *rng.choice([(1, 0), (2, 0), (3, 0), (4, 0)]), 0, 1280) + quoted
    return side, packet(6, side, 58, body, 2), f"error {side} quoting {len(quoted)}"


def udp_sequence(rng):
    family, port = rng.choice([4, 6]), rng.randrange(1024, 65000)
    sent = []
    for _ in range(rng.randrange(1, 10)):
        side = rng.choice("aaab") if len(sent) < 2 else rng.choice("ab")
        ports = (port, 53) if side == "a" else (53, port)
        body = struct.pack("!HHHH", *ports, 12, 0) + b"data"
        if rng.random() < 0.1:
            body = body[:4] + struct.pack("!H", rng.choice([0, 7, 13, 4000])) + body[6:]
        place = None if rng.random() < 0.1 else 6
        sent.append((side, packet(family, side, 17, body, place, rng.random() < 0.05), f"udp {side}"))
        if rng.random() < 0.2:
            sent.append(error(rng, family, "b" if side == "a" else "a", sent[-1][1]))
    return "udp", sent


def icmp_sequence(rng):
    family = rng.choice([4, 6])
    sent, ident = [], rng.choice([rng.getrandbits(16), 0x0800, 0x8000])
    kinds = [8, 8, 8, 0, 0, 13, 14, 15, 17, 18, 9, 19, 40, 255] if family == 4 else [128, 128, 128, 129, 129, 139, 140, 200, 150]
    for _ in range(rng.randrange(1, 9)):
        side, kind = rng.choice("aab"), rng.choice(kinds)
        body = struct.pack("!BBHHH", kind, rng.choice([0, 0, 0, 1]), 0, ident ^ (rng.random() < 0.1), len(sent)) + b"ping"
        sent.append((side, packet(family, side, 1 if family == 4 else 58, body, 2, rng.random() < 0.03),
                     f"icmp {side} {kind} {ident}"))
        if rng.random() < 0.2:
            sent.append(error(rng, family, "b" if side == "a" else "a", sent[-1][1]))
    return "icmp", sent


def other_sequence(rng):
    family = rng.choice([4, 6])
    # None whose checksum has the addresses in it, over IPv6 alone (OSPF, PIM): Linux leaves those wrong, millrace does not.
    protocol = rng.choice([50, 4, 115, 200])
    return "other", [(side, packet(family, side, protocol, bytes(20)), f"proto {protocol} {side}")
                     for side in (rng.choice("ab") for _ in range(rng.randrange(1, 6)))]


def sctp_sequence(rng):
    family, port = rng.choice([4, 4, 6]), rng.randrange(1024, 65000)
    tags = {"a": rng.getrandbits(32) | 1, "b": rng.getrandbits(32) | 1}     # what each side asks to be sent
    usual = [("a", 1), ("b", 2), ("a", 10), ("b", 11), ("a", 0), ("b", 3), ("b", 4), ("a", 5), ("a", 7), ("b", 8), ("a", 14)]
    skip = rng.choice([0] * 8 + [4, 8])
    plan = usual[skip:] if skip else list(usual)
    sent = []
    for _ in range(rng.randrange(3, 16)):
        mistake = rng.random() < 0.15
        if plan and not mistake:
            side, kind = plan.pop(0)
        else:
            side, kind = rng.choice("ab"), rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 77])
        other = "b" if side == "a" else "a"
        tag = 0 if kind == 1 else tags[other]
        flags = 0
        if mistake and rng.random() < 0.5:
            tag = rng.choice([0, 7, tags["a"], tags["b"]])
        if kind in (6, 14) and rng.random() < 0.3:
            flags, tag = 1, tags[side]
        value = struct.pack("!IIHHI", tags[side], 1000, 1, 1, 5) if kind in (1, 2) else b"\0\1\0\4" if kind in (4, 5) else bytes(12)
        if mistake and rng.random() < 0.1:
            value = value[:4]
        chunk = struct.pack("!BBH", kind, flags, 4 + len(value)) + value
        if rng.random() < 0.05:
            chunk += struct.pack("!BBH", rng.choice([0, 3, 7, 11]), 0, 8) + bytes(4)
        if rng.random() < 0.02:
            chunk = chunk[:2] + b"\0\0" + chunk[4:]
        ports = (port, 2905) if side == "a" else (2905, port)
        body = struct.pack("!HHII", *ports, tag, 0) + chunk
        sent.append((side, packet(family, side, 132, body, 8, rng.random() < 0.01), f"sctp {side} chunk={kind} tag={tag:#x} flags={flags}"))
        if kind == 1 and rng.random() < 0.2:
            tags[side] = rng.getrandbits(32) | 1
    return "sctp", sent


class Kernel:
    """Linux's tracker, in this namespace."""

    def __init__(self, hosts):
        libc = ctypes.CDLL(None, use_errno=True)
        here = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(hosts, os.O_RDONLY)
        self.sockets = {}
        assert libc.setns(there, 0) == 0
        for side in "ab":
            self.sockets[side] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.sockets[side].bind((f"side-{side}", 0))
            self.sockets[side].settimeout(2)
        assert libc.setns(here, 0) == 0
        self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)      # NETLINK_NETFILTER

    def flush(self):
        self.netlink.send(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 5, 1, 0, 0, 0, 0))
        reply = self.netlink.recv(4096)
        assert struct.unpack_from("=i", reply, 16)[0] == 0, "the kernel does not flush its connections"

    def drain(self):
        for sock in self.sockets.values():
            sock.setblocking(False)
            try:
                while sock.recv(65536):
                    pass
            except BlockingIOError:
                pass
            sock.settimeout(2)

    def verdict(self, side, data):
        other = "b" if side == "a" else "a"
        family = data[0] >> 4
        mine, host = MACS[side]
        self.sockets[side].send(mine + host + (b"\x08\x00" if family == 4 else b"\x86\xdd") + data)
        while True:
            try:
                frame, address = self.sockets[other].recvfrom(65536)
            except TimeoutError:
                return "lost none"
            if address[2] == 4 or frame[6:12] != MACS[other][0] or frame[12:14] not in (b"\x08\x00", b"\x86\xdd"):
                continue      # our own, or not forwarded
            if frame[14] >> 4 != family or len(frame) < 14 + len(data):
                continue
            rest = 20 if family == 4 else 8
            if frame[14 + rest:14 + len(data)] != data[rest:]:
                continue
            tos = frame[15] if family == 4 else (frame[14] << 4 | frame[15] >> 4) & 0xFF
            return CODES.get(tos >> 2, f"code {tos >> 2}")

    def connection(self):
        """State and timeout of the one connection that there is."""
        lines = [line.split() for line in open("/proc/thread-self/net/nf_conntrack")]
        if len(lines) != 1:
            return "- -" if not lines else None
        words = lines[0]
        return f"{STATES.get(words[5], '-')} {words[4]}" if words[2] in ("tcp", "sctp") else f"- {words[4]}"


def main():
    hosts, program, seed, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    kernel = Kernel(hosts)
    kinds = [tcp_sequence] * 6 + [sctp_sequence] * 2 + [udp_sequence, icmp_sequence, other_sequence]
    ours = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    compared, packets, differences, seen = {}, 0, 0, {}
    time.sleep(0.3)
    for n in range(count):
        rng = random.Random(seed * 1_000_003 + n)
        name, sequence = rng.choice(kinds)(rng)
        kernel.flush()
        kernel.drain()
        ours.stdin.write("reset\n")
        story, begun = [], time.monotonic_ns()
        for side, data, what in sequence:
            theirs = kernel.verdict(side, data)
            inner = kernel.connection()
            ours.stdin.write(f"{time.monotonic_ns() - begun} {data.hex()}\n")
            ours.stdin.flush()
            mine = ours.stdout.readline().split()
            story.append(f"  {what}\n      linux {theirs} {inner}   ours {' '.join(mine)}")
            packets += 1
            seen[theirs] = seen.get(theirs, 0) + 1
            same = theirs == " ".join(mine[:2])
            if same and inner is not None and inner != " ".join(mine[2:]):
                one, two = inner.split(), mine[2:]
                same = one[0] == two[0] and one[1] != "-" and two[1] != "-" and abs(int(one[1]) - int(two[1])) <= 2
            if not same:
                differences += 1
                print(f"sequence {n} ({name}) differs:\n" + "\n".join(story))
                break
        compared[name] = compared.get(name, 0) + 1
        if differences >= 5:
            break
    assert "lost none" not in seen or seen["lost none"] * 20 < packets, f"too many packets were lost: {seen}"
    print("sequences:", ", ".join(f"{k} {v}" for k, v in sorted(compared.items())))
    print("kernel said:", ", ".join(f"{k} {v}" for k, v in sorted(seen.items())))
    print(f"{differences} differences in {packets} packets of {sum(compared.values())} sequences, Linux {os.uname().release}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
