"""Conversations. Each switch has its own copy of a script, a generator that yields (name, port, frame) and is sent what came.

An answer is built of the frame that came out, whatever addresses the switch gave it, and goes in where that one came out.
"""

import ipaddress
import struct

import wire
from wire import ACK, FIN, ICMP, ICMP6, PSH, SCTP, SYN, TCP, UDP

UNDERLAY = "u0"
# A step that is no frame.
FORGET = "forget"
# Where a station is that frames are led to by another port: by that port, and the station's address. None answers by such a port.
HOMES = {}
# Ports of stations, by address: of a flooded frame only its own station answers.
STATIONS = {}


def parsed(frame):
    """Addresses, protocol, and what follows."""
    kind, body = wire.octets(frame)
    at = lambda start, size: str(ipaddress.ip_address(body[start : start + size]))
    dst, src = frame[:6].hex(":"), frame[6:12].hex(":")
    tags = frame[12 : len(frame) - len(body) - 2]
    if kind == 0x0800:
        length = (body[0] & 15) * 4
        return dst, src, tags, at(12, 4), at(16, 4), body[9], body[length : struct.unpack("!H", body[2:4])[0]]
    if kind == 0x86DD:
        return dst, src, tags, at(8, 16), at(24, 16), body[6], body[40 : 40 + struct.unpack("!H", body[4:6])[0]]
    return None


def swapped(frame, flags=SYN | ACK, data=b"", ttl=64, error=None):
    """The answer to a frame by the station that it is for."""
    dst, src, tags, source, target, protocol, rest = parsed(frame)
    if error is not None:
        _, inside = wire.octets(frame)
        kind, code = error
        number = ICMP6 if ":" in source else ICMP
        body = wire.icmp(target, source, kind, code, bytes(4), inside[:48])
        return wire.eth(dst, src, wire.kind_of(source), wire.ip(target, source, number, body, ttl=ttl))
    if protocol == TCP:
        sport, dport, seq, ack, _, had = struct.unpack("!HHIIBB", rest[:14])
        size = len(rest) - (rest[12] >> 4) * 4 + (1 if had & (SYN | FIN) else 0)
        first = ack if had & ACK else 7000
        body = wire.tcp(target, source, dport, sport, flags, first, seq + size, data)
    elif protocol == UDP:
        sport, dport = struct.unpack("!HH", rest[:4])
        body = wire.udp(target, source, dport, sport, data or wire.DATA[::-1])
    elif protocol == SCTP:
        sport, dport = struct.unpack("!HH", rest[:4])
        # INIT ACK.
        body = wire.sctp(dport, sport, 5, bytes.fromhex("020000180000000600010000000100010000000100070004"))
    elif protocol in (ICMP, ICMP6):
        kind = {8: 0, 128: 129}[rest[0]]
        body = wire.icmp(target, source, kind, 0, rest[4:8], rest[8:])
    else:
        return None
    out = wire.eth(dst, src, wire.kind_of(source), wire.ip(target, source, protocol, body, ttl=ttl))
    return out[:12] + tags + out[12:]


def back(came, skip=(), underlay=None, **words):
    """Port and frame of the answer to what came out first; nothing if nothing did."""
    came = [(port, frame) for port, frame in came if port not in skip and STATIONS.get(frame[:6].hex(":"), port) == port]
    if not came:
        return None, None
    port, frame = came[0]
    if port in {led for led, _ in HOMES}:
        port = HOMES.get((port, frame[:6].hex(":")))
    if port is None:
        return None, None
    tunnel = wire.opened(frame) if port == UNDERLAY else None
    if tunnel is None:
        if parsed(frame) is None:
            return None, None
        return port, swapped(frame, **words)
    kind, key, source, target, _, inner = tunnel
    if parsed(inner) is None:
        return None, None
    answer = swapped(inner, **words)
    if underlay:
        answer = underlay(answer)
    return port, wire.outer(kind, key, answer, target, source, frame[:6].hex(":"), frame[6:12].hex(":"))


def tcp(name, port, frame, skip=(), close=FIN, **words):
    """A connection that begins with this frame: hands shaken, data both ways, and its end."""
    came = yield f"{name}: SYN", port, frame
    at, answer = back(came, skip, flags=SYN | ACK, **words)
    came = yield f"{name}: SYN ACK", at, answer
    if answer is None:
        return
    at, answer = back(came, skip, flags=ACK, **words)
    came = yield f"{name}: ACK", at, answer
    # Again the side that began, which has had no answer to its last one.
    came = yield f"{name}: data", at, answer and grown(answer, ACK, b"request")
    for step, flags, data in (
        ("answer", ACK | PSH, b"response"),
        ("end", close | ACK, b""),
        ("end, too", close | ACK, b""),
        ("last", ACK, b""),
    ):
        at, answer = back(came, skip, flags=flags, data=data, **words)
        came = yield f"{name}: {step}", at, answer


def grown(frame, flags, data):
    """A segment once more, with data."""
    tunnel = wire.opened(frame)
    inner = tunnel[5] if tunnel else frame
    dst, src, tags, source, target, protocol, rest = parsed(inner)
    if protocol != TCP:
        return frame
    sport, dport, seq, ack = struct.unpack("!HHII", rest[:12])
    body = wire.tcp(source, target, sport, dport, flags | PSH, seq, ack, data)
    out = wire.eth(src, dst, wire.kind_of(source), wire.ip(source, target, TCP, body))
    out = out[:12] + tags + out[12:]
    if tunnel:
        kind, key, outer_source, outer_target, _, _ = tunnel
        return wire.outer(kind, key, out, outer_source, outer_target, frame[6:12].hex(":"), frame[:6].hex(":"))
    return out


def ask(name, port, frame, skip=(), times=1, **words):
    """A packet and its answer, and both once more. What is not answered is not sent again."""
    for n in range(times + 1):
        came = yield f"{name}: request {n + 1}", port, frame
        at, answer = back(came, skip, **words)
        yield f"{name}: answer {n + 1}", at, answer
        if answer is None:
            return


def alone(script):
    """Each frame by itself: what Open vSwitch's flow cache has is forgotten before. It learns from cached flows again and again, so
    that a station that has moved would move back, and counts their packets for the entries that they would go by later."""
    came = None
    while True:
        try:
            step = script.send(came)
        except StopIteration:
            return
        yield FORGET, None, None
        came = yield step


def one(name, port, frame):
    return (yield name, port, frame)
