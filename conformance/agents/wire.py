"""Frames, built of their headers, with right checksums; and outer headers of tunnels, both ways."""

import ipaddress
import struct

TCP, UDP, ICMP, ICMP6, SCTP, IGMP, GRE = 6, 17, 1, 58, 132, 2, 47
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
BROADCAST = "ff:ff:ff:ff:ff:ff"
DATA = bytes(range(64, 84))


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def address(text):
    return ipaddress.ip_address(text).packed


def total(data):
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def checksum(data):
    return ~total(data) & 0xFFFF


def pseudo(src, dst, protocol, length):
    return address(src) + address(dst) + struct.pack("!II", length, protocol)


def eth(src, dst, kind, body, vlan=None, pad=True):
    tags = b"".join(struct.pack("!HH", 0x8100, tag) for tag in ([] if vlan is None else [vlan]))
    frame = mac(dst) + mac(src) + tags + struct.pack("!H", kind) + body
    return frame.ljust(60, b"\0") if pad else frame


def ip4(src, dst, protocol, body, ttl=64, tos=0, fragment=0, ident=0, options=b""):
    header = struct.pack(
        "!BBHHHBBH", 0x45 + len(options) // 4, tos, 20 + len(options) + len(body), ident, fragment, ttl, protocol, 0
    )
    header += address(src) + address(dst) + options
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body


def ip6(src, dst, protocol, body, ttl=64, tos=0):
    return struct.pack("!IHBB", 6 << 28 | tos << 20, len(body), protocol, ttl) + address(src) + address(dst) + body


def ip(src, dst, protocol, body, **words):
    return (ip6 if ":" in src else ip4)(src, dst, protocol, body, **words)


def kind_of(source):
    return 0x86DD if ":" in source else 0x0800


def tcp(src, dst, sport, dport, flags=SYN, seq=1000, ack=0, data=b"", window=8192):
    ack = ack if flags & ACK else 0
    header = struct.pack("!HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, window, 0, 0)
    value = checksum(pseudo(src, dst, TCP, len(header) + len(data)) + header + data)
    return header[:16] + struct.pack("!H", value) + header[18:] + data


def udp(src, dst, sport, dport, data=DATA):
    header = struct.pack("!HHHH", sport, dport, 8 + len(data), 0)
    value = checksum(pseudo(src, dst, UDP, len(header) + len(data)) + header + data) or 0xFFFF
    return header[:6] + struct.pack("!H", value) + data


def icmp(src, dst, kind, code=0, rest=b"\0\x07\0\x01", data=DATA):
    header = struct.pack("!BBH", kind, code, 0) + rest + data
    before = pseudo(src, dst, ICMP6, len(header)) if ":" in src else b""
    return header[:2] + struct.pack("!H", checksum(before + header)) + header[4:]


def sctp(sport, dport, tag=0, body=bytes.fromhex("01000014000000050001000000010001") + bytes(4)):
    """A packet with one chunk, an INIT if nothing is said."""
    packet = struct.pack("!HHII", sport, dport, tag, 0) + body
    value = 0xFFFFFFFF
    for byte in packet:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return packet[:8] + struct.pack("<I", value ^ 0xFFFFFFFF) + packet[12:]


def arp(sha, spa, tpa, op=1, tha="00:00:00:00:00:00", dst=None, src=None, vlan=None):
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, op) + mac(sha) + address(spa) + mac(tha) + address(tpa)
    return eth(src or sha, dst or (BROADCAST if op == 1 else tha), 0x0806, body, vlan)


def neighbour(sha, src, dst, target, kind=135, to="33:33:ff:00:00:01", vlan=None, solicited=True):
    """Neighbour solicitation or advertisement, with the link address as its option."""
    flags = b"\x60\0\0\0" if kind == 136 and solicited else bytes(4)
    data = address(target) + bytes([1 if kind == 135 else 2, 1]) + mac(sha)
    return eth(sha, to, 0x86DD, ip6(src, dst, ICMP6, icmp(src, dst, kind, 0, flags, data), ttl=255), vlan)


def octets(frame):
    """Payload's kind, and the payload, behind tags."""
    at = 12
    while frame[at : at + 2] in (b"\x81\0", b"\x88\xa8"):
        at += 4
    return struct.unpack("!H", frame[at : at + 2])[0], frame[at + 2 :]


PORTS = {"geneve": 6081, "vxlan": 4789}


def outer(kind, key, inner, src, dst, src_mac, dst_mac, options=b"", tos=0, sport=40000):
    """A frame of the underlay with an inner frame in a tunnel."""
    if kind == "gre":
        protocol, body = GRE, struct.pack("!HHI", 0x2000, 0x6558, key) + inner
    else:
        if kind == "geneve":
            head = struct.pack("!BBHI", len(options) // 4, 0x40 if options else 0, 0x6558, key << 8) + options
        else:
            head = struct.pack("!II", 0x08000000, key << 8)
        protocol, body = UDP, udp(src, dst, sport, PORTS[kind], head + inner)
    return eth(src_mac, dst_mac, 0x0800, ip4(src, dst, protocol, body, tos=tos))


def opened(frame):
    """Of a frame that is a tunnel's: kind, key, addresses, options and inner frame; else nothing."""
    kind, body = octets(frame)
    if kind != 0x0800 or len(body) < 50 or body[9] not in (UDP, GRE):
        return None
    source, target = (str(ipaddress.ip_address(body[at : at + 4])) for at in (12, 16))
    packet = body[(body[0] & 15) * 4 : struct.unpack("!H", body[2:4])[0]]
    if body[9] == GRE:
        (flags,) = struct.unpack("!H", packet[:2])
        at, key = 4 + (4 if flags & 0x8000 else 0), 0
        if flags & 0x2000:
            key, at = struct.unpack("!I", packet[at : at + 4])[0], at + 4
        return "gre", key, source, target, b"", packet[at:]
    (port,) = struct.unpack("!H", packet[2:4])
    name = next((name for name, of in PORTS.items() if of == port), None)
    if name is None:
        return None
    packet = packet[8:]
    options = (packet[0] & 63) * 4 if name == "geneve" else 0
    key = struct.unpack("!I", packet[4:8])[0] >> 8
    return name, key, source, target, packet[8 : 8 + options], packet[8 + options :]


def settled(frame):
    """The frame without what each switch chooses for itself: the source port of an outer UDP header, with its checksum,
    and whether a frame below Ethernet's least length is padded already."""
    what = opened(frame)
    if len(frame) < 60:
        frame = frame.ljust(60, b"\0")
    if what is None or what[0] == "gre":
        return frame
    start = 14 + (frame[14] & 15) * 4
    length, value = struct.unpack("!HH", frame[start + 4 : start + 8])
    if value:
        body = frame[start : start + length]
        right = total(pseudo(what[2], what[3], UDP, length) + body) == 0xFFFF
        value = 1 if right else 0xBAD
    return frame[:start] + b"\0\0" + frame[start + 2 : start + 6] + struct.pack("!H", value) + frame[start + 8 :]
