#!/usr/bin/env python3
"""Sends malformed OpenFlow messages and checks the errors: malformed.py HOST PORT SEED COUNT.

Each kind of fault is one line of the tables below: its name, the errors (type, code) that the specification allows for it,
and a function that makes the message from a random generator. A message is followed by a barrier; before its reply exactly
one error must come, with the message's xid, an allowed type and code, and the message's first bytes as its data.
Last, messages whose header cannot be right (a length below 8) are sent on connections of their own, which the switch
may close; it must go on accepting others.
"""
import random
import struct
import sys

import of
from of import apply13, flow_mod10, flow_mod13, match10, match13, output10, output13, oxm

# Error types and codes, OpenFlow 1.3.5 section 7.4.4 (and 1.0 section 5.4.4, where they differ in number).
REQUEST, ACTION, INSTRUCTION, MATCH, FLOW, GROUP, PORT, TABLE, QUEUE, SWITCH, ROLE, METER, FEATURES = range(1, 14)
FLOW10, PORT10, QUEUE10 = 3, 4, 5


def action(kind, body=b"", length=None):
    return struct.pack("!HH", kind, 4 + len(body) if length is None else length) + body


def instruction(kind, body=b"", length=None):
    return struct.pack("!HH", kind, 4 + len(body) if length is None else length) + body


def flow(match=None, instructions=None, **fields):
    """A flow-mod's body; it would be right were it not for what the caller put in."""
    return of.FLOW_MOD, flow_mod13(match, apply13(output13(1)) if instructions is None else instructions, **fields)


def with_action(*actions):
    return flow(instructions=apply13(*actions))


def ip(*more):
    return match13(oxm(5, b"\x08\x00"), *more)


def group(command, kind, number, buckets=b""):
    return 15, struct.pack("!HBxI", command, kind, number) + buckets


def bucket(*actions, weight=0, watch_port=0xFFFFFFFF, watch_group=0xFFFFFFFF, length=None):
    body = b"".join(actions)
    return struct.pack("!HHII4x", 16 + len(body) if length is None else length, weight, watch_port, watch_group) + body


def meter(command, flags, number, bands=b""):
    return 29, struct.pack("!HHI", command, flags, number) + bands


def band(kind=1, rate=1000, length=16):
    return struct.pack("!HHII4x", kind, length, rate, 0)


def multipart(kind, body=b"", flags=0):
    return 18, struct.pack("!HH4x", kind, flags) + body


def flow_stats(match, table=0xFF):
    return multipart(1, struct.pack("!B3xII4xQQ", table, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0) + match)


def packet_out(actions=b"", in_port=0xFFFFFFFD, buffer_id=of.NO_BUFFER, actions_length=None, data=bytes(60)):
    length = len(actions) if actions_length is None else actions_length
    return 13, struct.pack("!IIH6x", buffer_id, in_port, length) + actions + data


# name, allowed errors, r -> (type, body)
V13 = [
    # Headers and fixed parts
    ("unknown message type", {(REQUEST, 1)}, lambda r: (r.randint(30, 255), bytes(8 * r.randint(0, 3)))),
    ("message type that only a switch sends", {(REQUEST, 1), (REQUEST, 6)}, lambda r: (r.choice([10, 11, 12]), bytes(24))),
    ("flow-mod cut short", {(REQUEST, 6)}, lambda r: (14, flow()[1][:r.randint(0, 39)])),
    ("group-mod cut short", {(REQUEST, 6)}, lambda r: (15, bytes(r.randint(0, 7)))),
    ("port-mod cut short", {(REQUEST, 6)}, lambda r: (16, bytes(r.randint(0, 31)))),
    ("table-mod cut short", {(REQUEST, 6)}, lambda r: (17, bytes(r.randint(0, 7)))),
    ("meter-mod cut short", {(REQUEST, 6)}, lambda r: (29, bytes(r.randint(0, 7)))),
    ("packet-out cut short", {(REQUEST, 6)}, lambda r: (13, bytes(r.randint(0, 15)))),
    ("multipart cut short", {(REQUEST, 6)}, lambda r: (18, bytes(r.randint(0, 7)))),
    ("role request cut short", {(REQUEST, 6)}, lambda r: (24, bytes(r.randint(0, 15)))),
    ("set-async cut short", {(REQUEST, 6)}, lambda r: (28, bytes(r.randint(0, 23)))),
    ("set-config cut short", {(REQUEST, 6), (SWITCH, 1)}, lambda r: (9, bytes(r.randint(0, 3)))),
    ("queue config request cut short", {(REQUEST, 6)}, lambda r: (22, bytes(r.randint(0, 7)))),
    ("experimenter cut short", {(REQUEST, 6)}, lambda r: (4, bytes(r.randint(0, 7)))),
    ("features request with a body", {(REQUEST, 6)}, lambda r: (5, bytes(r.randint(1, 16)))),
    ("barrier with a body", {(REQUEST, 6)}, lambda r: (20, bytes(r.randint(1, 16)))),
    ("get-config with a body", {(REQUEST, 6)}, lambda r: (7, bytes(r.randint(1, 16)))),
    ("unknown experimenter", {(REQUEST, 3)}, lambda r: (4, struct.pack("!II", 0x00BADBAD, r.getrandbits(16)))),
    # Multipart
    ("unknown multipart type", {(REQUEST, 2)}, lambda r: multipart(r.randint(20, 0xFFFE))),
    ("multipart of an unknown experimenter", {(REQUEST, 3)}, lambda r: multipart(0xFFFF, struct.pack("!II", 0x00BADBAD, 1))),
    ("flow statistics cut short", {(REQUEST, 6)}, lambda r: multipart(1, bytes(r.randint(0, 31)))),
    ("port statistics cut short", {(REQUEST, 6)}, lambda r: multipart(4, bytes(r.randint(0, 7)))),
    ("table statistics with a body", {(REQUEST, 6)}, lambda r: multipart(3, bytes(r.randint(1, 8)))),
    ("flow statistics with a bad match", {(MATCH, 6)}, lambda r: flow_stats(match13(oxm(r.randint(60, 126), b"\0\0")))),
    ("statistics of an unknown queue's port", {(QUEUE, 0), (QUEUE, 1)}, lambda r: multipart(5, struct.pack("!II", 4711, 1))),
    ("meter statistics of no meter", {(METER, 3)}, lambda r: multipart(9, struct.pack("!I4x", r.randint(1000, 60000)))),
    # Matches
    ("match of an unknown type", {(MATCH, 0)}, lambda r: flow(match13(kind=r.randint(2, 0xFFFE)))),
    ("match longer than its message", {(MATCH, 1), (REQUEST, 6)}, lambda r: flow(match13(length=r.randint(600, 65000)))),
    ("match shorter than its header", {(MATCH, 1), (REQUEST, 6)}, lambda r: flow(match13(length=r.randint(0, 3)))),
    ("unknown basic field", {(MATCH, 6)}, lambda r: flow(match13(oxm(r.randint(60, 126), bytes(4))))),
    ("field with the wrong length", {(MATCH, 1), (MATCH, 6)}, lambda r: flow(match13(oxm(5, bytes(r.choice([1, 3, 4])))))),
    ("field cut short", {(MATCH, 1)}, lambda r: flow(match13(struct.pack("!HBB", 0x8000, 3 << 1, 6) + bytes(2), length=10))),
    ("field twice", {(MATCH, 10)}, lambda r: flow(match13(oxm(5, b"\x08\x00"), oxm(5, b"\x08\x06")))),
    ("IPv4 address without its type", {(MATCH, 9)}, lambda r: flow(match13(oxm(11, r.randbytes(4))))),
    ("IPv4 address of an IPv6 packet", {(MATCH, 9)}, lambda r: flow(match13(oxm(5, b"\x86\xdd"), oxm(11, r.randbytes(4))))),
    ("TCP port without its protocol", {(MATCH, 9)}, lambda r: flow(ip(oxm(13, r.randbytes(2))))),
    ("UDP port of a TCP packet", {(MATCH, 9)}, lambda r: flow(ip(oxm(10, b"\x06"), oxm(15, r.randbytes(2))))),
    ("priority without a VLAN", {(MATCH, 9)}, lambda r: flow(match13(oxm(7, bytes([r.randint(0, 7)]))))),
    ("VLAN identifier too large", {(MATCH, 7)}, lambda r: flow(match13(oxm(6, struct.pack("!H", r.randint(0x2000, 0xFFFF)))))),
    ("DSCP too large", {(MATCH, 7)}, lambda r: flow(ip(oxm(8, bytes([r.randint(64, 255)]))))),
    ("value outside of its mask", {(MATCH, 5)}, lambda r: flow(ip(oxm(11, b"\x0a\x00\x00\x01", b"\xff\x00\x00\x00")))),
    ("mask on a field without masks", {(MATCH, 8)}, lambda r: flow(match13(oxm(5, b"\x08\x00", b"\xff\x00")))),
    ("ether type after its use", {(MATCH, 9)}, lambda r: flow(match13(oxm(11, r.randbytes(4)), oxm(5, b"\x08\x00")))),
    # Instructions
    ("unknown instruction", {(INSTRUCTION, 0), (INSTRUCTION, 1)}, lambda r: flow(instructions=instruction(r.randint(7, 0xFFFE), bytes(4)))),
    ("instruction of an unknown experimenter", {(INSTRUCTION, 5), (INSTRUCTION, 1)},
     lambda r: flow(instructions=instruction(0xFFFF, struct.pack("!I", 0x00BADBAD)))),
    ("instruction of length 0", {(INSTRUCTION, 7)}, lambda r: flow(instructions=instruction(4, bytes(4), length=0))),
    ("instruction past the end", {(INSTRUCTION, 7)}, lambda r: flow(instructions=instruction(4, bytes(4), length=8 * r.randint(2, 99)))),
    ("goto with the wrong length", {(INSTRUCTION, 7)}, lambda r: flow(instructions=instruction(1, bytes(12)))),
    ("goto backwards", {(INSTRUCTION, 2)}, lambda r: flow(table=5, instructions=instruction(1, bytes([r.randint(0, 5), 0, 0, 0])))),
    ("goto table 255", {(INSTRUCTION, 2)}, lambda r: flow(instructions=instruction(1, b"\xff\0\0\0"))),
    ("instruction twice", {(INSTRUCTION, 0), (INSTRUCTION, 1), (FLOW, 0), (INSTRUCTION, 7)},
     lambda r: flow(instructions=apply13(output13(1)) + apply13(output13(2)))),
    ("meter that is not there", {(METER, 2), (METER, 3)}, lambda r: flow(instructions=instruction(6, struct.pack("!I", r.randint(1000, 60000))))),
    # Actions
    ("unknown action", {(ACTION, 0)}, lambda r: with_action(action(r.randint(28, 0xFFFE), bytes(4)))),
    ("action of an unknown experimenter", {(ACTION, 2), (ACTION, 0)}, lambda r: with_action(action(0xFFFF, struct.pack("!I", 0x00BADBAD)))),
    ("action of length 0", {(ACTION, 1)}, lambda r: with_action(action(0, bytes(4), length=0))),
    ("action past the end", {(ACTION, 1)}, lambda r: with_action(action(0, bytes(12), length=8 * r.randint(3, 99)))),
    ("action whose length is odd", {(ACTION, 1)}, lambda r: with_action(action(0, bytes(12), length=r.choice([9, 12, 15])))),
    ("output with the wrong length", {(ACTION, 1)}, lambda r: with_action(action(0, bytes(4)))),
    ("output to port 0", {(ACTION, 4)}, lambda r: with_action(output13(0))),
    ("output to a reserved port that is not", {(ACTION, 4)}, lambda r: with_action(output13(r.randint(0xFFFFFF01, 0xFFFFFFF7)))),
    ("output to port ANY", {(ACTION, 4)}, lambda r: with_action(output13(0xFFFFFFFF))),
    ("group that is not there", {(ACTION, 9)}, lambda r: with_action(action(22, struct.pack("!I", r.randint(1000, 60000))))),
    ("push VLAN with a wrong type", {(ACTION, 5)}, lambda r: with_action(action(17, b"\x08\x00\0\0"))),
    ("push MPLS with a wrong type", {(ACTION, 5)}, lambda r: with_action(action(19, b"\x81\x00\0\0"))),
    ("push PBB with a wrong type", {(ACTION, 5)}, lambda r: with_action(action(26, b"\x81\x00\0\0"))),
    ("set an unknown field", {(ACTION, 13), (ACTION, 0)}, lambda r: with_action(action(25, oxm(r.randint(60, 126), bytes(4)) + bytes(4)))),
    ("set with the wrong length", {(ACTION, 14), (ACTION, 1)}, lambda r: with_action(action(25, oxm(5, bytes(4)) + bytes(4)))),
    ("set the physical ingress port", {(ACTION, 13), (ACTION, 15)}, lambda r: with_action(action(25, oxm(1, struct.pack("!I", 1)) + bytes(4)))),
    ("set a field that the match does not promise", {(ACTION, 10), (MATCH, 9)},
     lambda r: with_action(action(25, oxm(11, r.randbytes(4)) + bytes(4)))),
    ("set a VLAN identifier too large", {(ACTION, 15)},
     lambda r: flow(match13(oxm(6, b"\x10\x01")), apply13(action(25, oxm(6, struct.pack("!H", r.randint(0x2000, 0xFFFF))) + bytes(6))))),
    # Flow-mods
    ("unknown flow command", {(FLOW, 6)}, lambda r: flow(command=r.randint(5, 255))),
    ("flow in table 255", {(FLOW, 2), (REQUEST, 9)}, lambda r: flow(table=255)),
    ("unknown flow flags", {(FLOW, 7)}, lambda r: flow(flags=1 << r.randint(5, 15))),
    ("flow with an unknown buffer", {(REQUEST, 8)}, lambda r: flow(match13(oxm(0, struct.pack("!I", 77))), table=200, buffer_id=r.randint(1 << 20, 1 << 30))),
    # Packet-outs
    ("packet-out whose actions are too long", {(REQUEST, 6), (ACTION, 1)}, lambda r: packet_out(actions_length=r.randint(100, 65000))),
    ("packet-out with an unknown action", {(ACTION, 0)}, lambda r: packet_out(action(r.randint(28, 0xFFFE), bytes(4)))),
    ("packet-out with an unknown buffer", {(REQUEST, 8)}, lambda r: packet_out(output13(1), buffer_id=r.randint(1 << 20, 1 << 30), data=b"")),
    ("packet-out with a bad ingress port", {(REQUEST, 11)}, lambda r: packet_out(output13(1), in_port=r.randint(0xFFFFFF01, 0xFFFFFFFC))),
    # Groups
    ("unknown group command", {(GROUP, 11)}, lambda r: group(r.randint(3, 0xFFFF), 0, 1)),
    ("unknown group type", {(GROUP, 10)}, lambda r: group(0, r.randint(4, 127), 1, bucket(output13(1)))),
    ("group number reserved", {(GROUP, 1)}, lambda r: group(0, 0, r.randint(0xFFFFFF01, 0xFFFFFFFB), bucket(output13(1)))),
    ("modify no group", {(GROUP, 8)}, lambda r: group(1, 0, r.randint(1000, 60000), bucket(output13(1)))),
    ("bucket of length 0", {(GROUP, 12), (REQUEST, 6)}, lambda r: group(0, 0, 1, bucket(length=0))),
    ("bucket past the end", {(GROUP, 12), (REQUEST, 6)}, lambda r: group(0, 0, 1, bucket(length=8 * r.randint(3, 99)))),
    ("bucket with an unknown action", {(ACTION, 0)}, lambda r: group(0, 0, 1, bucket(action(r.randint(28, 0xFFFE), bytes(4))))),
    ("indirect group with two buckets", {(GROUP, 1), (GROUP, 12), (GROUP, 4)}, lambda r: group(0, 2, 1, bucket(output13(1)) + bucket(output13(2)))),
    # Meters
    ("unknown meter command", {(METER, 4)}, lambda r: meter(r.randint(3, 0xFFFF), 1, 1)),
    ("unknown meter flags", {(METER, 5)}, lambda r: meter(0, 1 << r.randint(4, 15), 1, band())),
    ("meter number reserved", {(METER, 2)}, lambda r: meter(0, 1, r.randint(0xFFFF0001, 0xFFFFFFFC), band())),
    ("meter 0", {(METER, 2)}, lambda r: meter(0, 1, 0, band())),
    ("modify no meter", {(METER, 3)}, lambda r: meter(1, 1, r.randint(1000, 60000), band())),
    ("unknown band", {(METER, 8)}, lambda r: meter(0, 1, 1, band(kind=r.randint(3, 0xFFFE)))),
    ("band of a wrong length", {(METER, 8), (REQUEST, 6)}, lambda r: meter(0, 1, 1, band(length=r.choice([0, 8, 24, 800])))),
    # The rest
    ("port-mod of no port", {(PORT, 0)}, lambda r: (16, struct.pack("!I4x6s2xIII4x", r.randint(1000, 60000), bytes(6), 0, 0, 0))),
    ("port-mod with another's address", {(PORT, 1)}, lambda r: (16, struct.pack("!I4x6s2xIII4x", 1, b"\x02" + r.randbytes(5), 0, 0, 0))),
    ("role that is not", {(ROLE, 2)}, lambda r: (24, struct.pack("!I4xQ", r.randint(4, 0xFFFF), 0))),
    ("set-config with unknown flags", {(SWITCH, 0)}, lambda r: (9, struct.pack("!HH", r.randint(4, 0xFFFF), 128))),
    ("queue config of no port", {(QUEUE, 0)}, lambda r: (22, struct.pack("!I4x", r.randint(1000, 60000)))),
]


def flow10(match=None, actions=None, **fields):
    return of.FLOW_MOD, flow_mod10(match, output10(1) if actions is None else actions, **fields)


def stats10(kind, body=b"", flags=0):
    return 16, struct.pack("!HH", kind, flags) + body


def packet_out10(actions=b"", actions_length=None, buffer_id=of.NO_BUFFER, data=bytes(60)):
    length = len(actions) if actions_length is None else actions_length
    return 13, struct.pack("!IHH", buffer_id, 0xFFFF, length) + actions + data


V10 = [
    ("unknown message type", {(REQUEST, 1)}, lambda r: (r.randint(22, 255), bytes(8 * r.randint(0, 3)))),
    ("flow-mod cut short", {(REQUEST, 6)}, lambda r: (14, flow10()[1][:r.randint(0, 63)])),
    ("port-mod cut short", {(REQUEST, 6)}, lambda r: (15, bytes(r.randint(0, 23)))),
    ("packet-out cut short", {(REQUEST, 6)}, lambda r: (13, bytes(r.randint(0, 7)))),
    ("statistics cut short", {(REQUEST, 6)}, lambda r: (16, bytes(r.randint(0, 3)))),
    ("set-config cut short", {(REQUEST, 6)}, lambda r: (9, bytes(r.randint(0, 3)))),
    ("vendor cut short", {(REQUEST, 6), (REQUEST, 3)}, lambda r: (4, bytes(r.randint(0, 3)))),
    ("features request with a body", {(REQUEST, 6)}, lambda r: (5, bytes(r.randint(1, 16)))),
    ("barrier with a body", {(REQUEST, 6)}, lambda r: (18, bytes(r.randint(1, 16)))),
    ("unknown vendor", {(REQUEST, 3)}, lambda r: (4, struct.pack("!II", 0x00BADBAD, 1))),
    ("unknown statistics", {(REQUEST, 2)}, lambda r: stats10(r.randint(6, 0xFFFE))),
    ("statistics of an unknown vendor", {(REQUEST, 3)}, lambda r: stats10(0xFFFF, struct.pack("!I", 0x00BADBAD))),
    ("flow statistics cut short", {(REQUEST, 6)}, lambda r: stats10(1, bytes(r.randint(0, 43)))),
    ("port statistics cut short", {(REQUEST, 6)}, lambda r: stats10(4, bytes(r.randint(0, 7)))),
    ("queue statistics of no port", {(QUEUE10, 0), (QUEUE10, 1)}, lambda r: stats10(5, struct.pack("!H2xI", 4711, 1))),
    ("unknown action", {(ACTION, 0)}, lambda r: flow10(actions=action(r.randint(12, 0xFFFE), bytes(4)))),
    ("action of an unknown vendor", {(ACTION, 2), (ACTION, 0)}, lambda r: flow10(actions=action(0xFFFF, struct.pack("!I", 0x00BADBAD)))),
    ("action of length 0", {(ACTION, 1)}, lambda r: flow10(actions=action(0, bytes(4), length=0))),
    ("action past the end", {(ACTION, 1)}, lambda r: flow10(actions=action(0, bytes(4), length=8 * r.randint(2, 99)))),
    ("action whose length is odd", {(ACTION, 1)}, lambda r: flow10(actions=action(0, bytes(12), length=r.choice([9, 12, 15])))),
    ("output with the wrong length", {(ACTION, 1)}, lambda r: flow10(actions=action(0, bytes(12)))),
    ("set address with the wrong length", {(ACTION, 1)}, lambda r: flow10(actions=action(4, bytes(4)))),
    ("output to port 0", {(ACTION, 4)}, lambda r: flow10(actions=output10(0))),
    ("output to a reserved port that is not", {(ACTION, 4)}, lambda r: flow10(actions=output10(r.randint(0xFF01, 0xFFF7)))),
    ("VLAN identifier too large", {(ACTION, 5)}, lambda r: flow10(actions=action(1, struct.pack("!H2x", r.randint(0x1000, 0xFFFE))))),
    ("VLAN priority too large", {(ACTION, 5)}, lambda r: flow10(actions=action(2, bytes([r.randint(8, 255), 0, 0, 0])))),
    ("unknown flow command", {(FLOW10, 4)}, lambda r: flow10(command=r.randint(5, 0xFFFF))),
    ("flow with an unknown buffer", {(REQUEST, 8)}, lambda r: flow10(match10(0x3820FE, in_port=77), buffer_id=r.randint(1 << 20, 1 << 30))),
    ("packet-out whose actions are too long", {(REQUEST, 6), (ACTION, 1)}, lambda r: packet_out10(actions_length=r.randint(100, 65000))),
    ("packet-out with an unknown action", {(ACTION, 0)}, lambda r: packet_out10(action(r.randint(12, 0xFFFE), bytes(4)))),
    ("packet-out with an unknown buffer", {(REQUEST, 8)}, lambda r: packet_out10(output10(1), buffer_id=r.randint(1 << 20, 1 << 30), data=b"")),
    ("port-mod of no port", {(PORT10, 0)}, lambda r: (15, struct.pack("!H6sIII4x", r.randint(1000, 60000), bytes(6), 0, 0, 0))),
    ("port-mod with another's address", {(PORT10, 1)}, lambda r: (15, struct.pack("!H6sIII4x", 1, b"\x02" + r.randbytes(5), 0, 0, 0))),
    ("queue config of no port", {(QUEUE10, 0)}, lambda r: (20, struct.pack("!H2x", r.randint(1000, 60000)))),
]


class Tally:
    def __init__(self):
        self.sent, self.wrong, self.reasons = 0, 0, {}

    def note(self, name, reason):
        self.wrong += 1
        self.reasons.setdefault((name, reason), 0)
        self.reasons[name, reason] += 1


def one(connection, tally, name, allowed, kind, body, version=None):
    """Sends one message and judges what comes before the barrier's reply."""
    xid = connection.next_xid()
    message = of.message(connection.version if version is None else version, kind, body, xid)
    connection.sock.sendall(message)
    tally.sent += 1
    got = [(k, x, b) for k, x, b in connection.until_barrier() if k == of.ERROR or x == xid]
    if len(got) != 1:
        tally.note(name, "%s instead of one error" % (["type %d" % k for k, _, _ in got] or "nothing"))
        return
    answer, x, data = got[0]
    if answer != of.ERROR:
        tally.note(name, "answered with type %d instead of an error" % answer)
        return
    error = struct.unpack_from("!HH", data)
    if x != xid:
        tally.note(name, "error with another xid")
    elif error not in allowed:
        tally.note(name, "error %d/%d, wants %s" % (*error, " or ".join("%d/%d" % e for e in sorted(allowed))))
    elif data[4:68] != message[:64]:
        tally.note(name, "the error does not carry the message's first 64 bytes")


def main():
    host, port, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    r = random.Random(seed)
    tally = Tally()
    lost = 0
    for version, table, share in ((4, V13, count * 7 // 10), (1, V10, count - count * 7 // 10)):
        connection = of.Connection.to(host, port, version)
        for n in range(share):
            # Every kind in turn, then at random.
            name, allowed, make = table[n] if n < len(table) else r.choice(table)
            name = "1.%d %s" % (version - 1, name)
            kind, body = make(r)
            try:
                one(connection, tally, name, allowed, kind, body)
            except (OSError, ConnectionError, TimeoutError) as e:
                tally.note(name, "%s" % e)
                lost += 1
                connection = of.Connection.to(host, port, version)
        # A message of another version, after the versions were agreed upon.
        try:
            one(connection, tally, "1.%d wrong version" % (version - 1), {(REQUEST, 0)}, of.FEATURES_REQUEST, b"",
                version=r.choice([7, 99, 255]))
        except (OSError, ConnectionError, TimeoutError) as e:
            tally.note("1.%d wrong version" % (version - 1), "%s" % e)
        connection.sock.close()
    for length in range(8):                 # no next message can be found after these
        connection = of.Connection.to(host, port, 4)
        connection.sock.sendall(of.header(4, of.FEATURES_REQUEST, length, 1))
        connection.sock.close()
    of.Connection.to(host, port, 4).until_barrier()
    for (name, reason), times in sorted(tally.reasons.items()):
        print("  %3d x %-50s %s" % (times, name, reason))
    print("%d messages, %d not answered as specified, %d connections lost" % (tally.sent, tally.wrong, lost))
    sys.exit(1 if tally.wrong or lost else 0)


main()
