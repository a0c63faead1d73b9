#!/usr/bin/env python3
"""A million connections, for lab/take_over.

    take_over.py open N FILE              a capture file in which N connections are opened, three segments each
    take_over.py traffic BED N RATE       segments of random ones of them from host 1 to host 2, so many a second, until SIGTERM
    take_over.py sweep BED N RATE         one segment of each; those that do not arrive once more, five times at most

BED begins the names of the lab's namespaces. `traffic` and `sweep` print one object of JSON.
"""
import ctypes
import json
import os
import random
import signal
import socket
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
SERVER, SERVER_PORT = bytes([192, 0, 2, 1]), 80
FIRST, PORTS = 0x0a40_0000, 1 << 14         # connection n: client 10.64.0.0 + n / 2^14, port 1024 + n % 2^14
MACS = bytes.fromhex("02aa00000001"), bytes.fromhex("02aa00000002")
SYN, ACK = 2, 16
APART = 1000                                # connections that are opened side by side
CLIENT_BEGINS, SERVER_BEGINS = 1000, 5000   # first sequence numbers


def folded(words):
    while words > 0xffff:
        words = (words & 0xffff) + (words >> 16)
    return words ^ 0xffff


class Segments:
    """Segments of one kind, of any connection."""

    def __init__(self, flags, numbers, reply=False, data=0):
        self.data, self.reply = data, reply
        length = 40 + data
        ends = struct.pack("!I", 0) + SERVER
        ports = struct.pack("!HH", 0, SERVER_PORT)
        if reply:
            ends, ports = ends[4:] + ends[:4], ports[2:] + ports[:2]
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0x4000, 64, 6, 0) + ends
        tcp = ports + struct.pack("!IIBBHHH", *numbers, 5 << 4, flags, 65535, 0, 0)
        self.frame = bytearray(MACS[1] + MACS[0] + b"\x08\x00" + ip + tcp + bytes(data) + bytes(max(0, 6 - data)))
        words = lambda octets: sum(struct.unpack(f"!{len(octets) // 2}H", octets))
        self.ip, self.tcp = words(ip), words(ends) + 6 + 20 + data + words(tcp)
        self.at = (30, 36) if reply else (26, 34)

    def of(self, n, mark=0):
        """Of connection n; an even number of octets of data ends in the mark."""
        frame, client, port = self.frame, FIRST + n // PORTS, 1024 + n % PORTS
        address, place = self.at
        struct.pack_into("!I", frame, address, client)
        struct.pack_into("!H", frame, place, port)
        extra = (client >> 16) + (client & 0xffff)
        struct.pack_into("!H", frame, 24, folded(self.ip + extra))
        if self.data:
            struct.pack_into("!I", frame, 50 + self.data, mark)
        extra += port + (mark >> 16) + (mark & 0xffff)
        struct.pack_into("!H", frame, 50, folded(self.tcp + extra))
        return frame


def opened(n, path):
    kinds = [Segments(SYN, (CLIENT_BEGINS, 0)), Segments(SYN | ACK, (SERVER_BEGINS, CLIENT_BEGINS + 1), reply=True),
             Segments(ACK, (CLIENT_BEGINS + 1, SERVER_BEGINS + 1))]
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        # Of a burst, all packets come to the call that looks before one comes to the call that commits: a segment and its
        # answer must not share one.
        for first in range(0, n, APART):
            for kind in kinds:
                for one in range(first, min(first + APART, n)):
                    frame = kind.of(one)
                    file.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)))
                    file.write(frame)


def within(namespace):
    """A socket on eth0 there."""
    here, there = os.open("/proc/thread-self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    assert LIBC.setns(there, 0) == 0
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
    sock.setsockopt(263, 23, 1)             # PACKET_IGNORE_OUTGOING
    sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)    # SO_RCVBUFFORCE
    sock.bind(("eth0", 0))
    assert LIBC.setns(here, 0) == 0
    return sock


def arrivals(sock):
    """Connection and mark of each segment that arrives; None after half a second of silence."""
    sock.settimeout(0.5)
    frame = bytearray(2048)
    unpack = struct.Struct("!I4xH14xH2xI").unpack_from
    while True:
        try:
            length = sock.recv_into(frame)
        except TimeoutError:
            yield None
            continue
        if length >= 58 and frame[:6] == MACS[1]:
            client, port, _, mark = unpack(frame, 26)
            yield (client - FIRST) * PORTS + port - 1024, mark


def paced(rate, wanted):
    """Yields what `wanted` does, so many a second."""
    begun, due = time.monotonic(), 0
    for at, one in enumerate(wanted):
        if at >= due:
            now = time.monotonic() - begun
            due = int(now * rate) + 1
            if at >= due:
                time.sleep((at + 1) / rate - now)
        yield one


def traffic(bed, n, rate):
    reader, writer = os.pipe()
    sender, receiver = within(f"{bed}h1"), within(f"{bed}h2")
    child = os.fork()
    if child == 0:
        # Takes note of when what arrives, until it has been silent for a while after the end.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(writer)
        os.set_blocking(reader, False)
        last, gaps, marks = None, [], set()
        for one in arrivals(receiver):
            if one is None:
                try:
                    if os.read(reader, 1) == b"":
                        break
                except BlockingIOError:
                    pass
                continue
            now = time.monotonic()
            if last is not None and now - last > 0.003:
                gaps.append(round((now - last) * 1e3, 1))
            last = now
            marks.add(one[1])
        print(json.dumps({"received": len(marks), "silences_ms": sorted(gaps, reverse=True)[:20]}), flush=True)
        os._exit(0)
    os.close(reader)
    over = []
    signal.signal(signal.SIGTERM, lambda *_: over.append(True))
    segments, chance, sent = Segments(ACK, (CLIENT_BEGINS + 1, SERVER_BEGINS + 1), data=4), random.Random(1), 0

    def forever():
        while not over:
            yield chance.randrange(n)

    for one in paced(rate, forever()):
        sent += 1
        sender.send(segments.of(one, sent))
    os.close(writer)
    os.waitpid(child, 0)
    print(json.dumps({"sent": sent}))


def sweep(bed, n, rate, of):
    """One segment of each of these; an octet for every connection, 1 if one arrived."""
    sender, receiver = within(f"{bed}h1"), within(f"{bed}h2")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        passed, silent = bytearray(n), 0
        for one in arrivals(receiver):
            silent = silent + 1 if one is None else 0
            if silent == 4:
                break
            if one is not None:
                passed[one[0]] = 1
        with os.fdopen(writer, "wb") as file:
            file.write(passed)
        os._exit(0)
    os.close(writer)
    segments = Segments(ACK, (CLIENT_BEGINS + 1, SERVER_BEGINS + 1), data=4)
    for one in paced(rate, of):
        sender.send(segments.of(one))
    with os.fdopen(reader, "rb") as file:
        passed = file.read()
    os.waitpid(child, 0)
    return passed


def swept(bed, n, rate):
    passed, missing = bytearray(n), range(n)
    for _ in range(5):
        for one, there in enumerate(sweep(bed, n, rate, missing)):
            passed[one] |= there
        missing = [one for one in range(n) if not passed[one]]
        if not missing:
            break
    print(json.dumps({"connections": n, "passed": sum(passed)}))


def main():
    what, *words = sys.argv[1:]
    if what == "open":
        opened(int(words[0]), words[1])
    elif what == "traffic":
        traffic(words[0], int(words[1]), float(words[2]))
    else:
        swept(words[0], int(words[1]), float(words[2]))


main()
