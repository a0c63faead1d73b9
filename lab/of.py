"""OpenFlow messages by hand, for scripts that must send what no client library would: headers, bodies, one connection.

Only the standard library is used. Numbers are those of OpenFlow 1.0 (version byte 1) and 1.3 (version byte 4).
"""
import socket
import struct
import time

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
FEATURES_REQUEST, FEATURES_REPLY, FLOW_MOD = 5, 6, 14
BARRIER_REQUEST = {1: 18, 4: 20}
BARRIER_REPLY = {1: 19, 4: 21}
NO_BUFFER = 0xFFFFFFFF


def header(version, kind, length, xid):
    return struct.pack("!BBHI", version, kind, length, xid)


def message(version, kind, body=b"", xid=0):
    return header(version, kind, 8 + len(body), xid) + body


def pad8(b):
    return b + bytes(-len(b) % 8)


# --- OpenFlow 1.3

def oxm(field, value, mask=None, oxm_class=0x8000):
    body = value + (mask or b"")
    return struct.pack("!HBB", oxm_class, field << 1 | (mask is not None), len(body)) + body


def match13(*oxms, kind=1, length=None):
    body = b"".join(oxms)
    return pad8(struct.pack("!HH", kind, 4 + len(body) if length is None else length) + body)


def output13(port, max_len=0xFFE5):
    return struct.pack("!HHIH6x", 0, 16, port, max_len)


def apply13(*actions):
    body = b"".join(actions)
    return struct.pack("!HHI", 4, 8 + len(body), 0) + body


def flow_mod13(match=None, instructions=b"", table=0, command=0, idle=0, hard=0, priority=1, flags=0,
               buffer_id=NO_BUFFER, out_port=0xFFFFFFFF, out_group=0xFFFFFFFF, cookie=0):
    return struct.pack("!QQBBHHHIIIHxx", cookie, 0, table, command, idle, hard, priority, buffer_id, out_port,
                       out_group, flags) + (match13() if match is None else match) + instructions


# --- OpenFlow 1.0

def match10(wildcards=0x3820FF, in_port=0, dl_type=0, nw_proto=0):
    return struct.pack("!IH6s6sHBxHBB2xIIHH", wildcards, in_port, bytes(6), bytes(6), 0, 0, dl_type, 0, nw_proto,
                       0, 0, 0, 0)


def output10(port, max_len=0xFFE5):
    return struct.pack("!HHHH", 0, 8, port, max_len)


def flow_mod10(match=None, actions=b"", command=0, idle=0, hard=0, priority=1, buffer_id=NO_BUFFER, out_port=0xFFFF,
               flags=0, cookie=0):
    return (match10() if match is None else match) + struct.pack("!QHHHHIHH", cookie, command, idle, hard, priority,
                                                                 buffer_id, out_port, flags) + actions


class Connection:
    """One OpenFlow connection, as controller. Answers echo requests by itself."""

    def __init__(self, sock, version):
        self.sock, self.version, self.buffer, self.xid = sock, version, b"", 1000
        sock.settimeout(5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(message(version, HELLO, xid=1))
        kind, _, _ = self.receive()
        if kind != HELLO:
            raise ConnectionError("the first message is of type %d, not HELLO" % kind)

    @classmethod
    def to(cls, host, port, version):
        return cls(socket.create_connection((host, port), 5), version)

    def next_xid(self):
        self.xid += 1
        return self.xid

    def send(self, kind, body=b""):
        xid = self.next_xid()
        self.sock.sendall(message(self.version, kind, body, xid))
        return xid

    def receive(self):
        """The next message as (type, xid, body)."""
        while True:
            while len(self.buffer) < 8 or len(self.buffer) < struct.unpack_from("!H", self.buffer, 2)[0]:
                data = self.sock.recv(1 << 16)
                if not data:
                    raise ConnectionError("the switch closed the connection")
                self.buffer += data
            _, kind, length, xid = struct.unpack_from("!BBHI", self.buffer)
            if length < 8:
                raise ConnectionError("a message of length %d" % length)
            body, self.buffer = self.buffer[8:length], self.buffer[length:]
            if kind == ECHO_REQUEST:
                self.sock.sendall(message(self.version, ECHO_REPLY, body, xid))
                continue
            return kind, xid, body

    def until_barrier(self):
        """Everything that arrives before the reply to a barrier that is sent now."""
        xid, got = self.send(BARRIER_REQUEST[self.version]), []
        end = time.monotonic() + 5
        while True:
            kind, x, body = self.receive()
            if kind == BARRIER_REPLY[self.version] and x == xid:
                return got
            got.append((kind, x, body))
            if time.monotonic() > end:
                raise TimeoutError("no reply to a barrier")
