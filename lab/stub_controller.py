#!/usr/bin/env python3
"""A controller that dies well: stub_controller.py PORT STATE [watch].

Waits for a switch on PORT, gives it 103 flows in OpenFlow 1.3, notes "installed" in the file STATE, then sends the first
half of one more flow-mod, notes "half" and waits to be killed. With `watch` it sends no flows: it notes "connected".
"""
import socket
import struct
import sys
import time

import of
from of import apply13, flow_mod13, match13, output13, oxm

port, state = int(sys.argv[1]), sys.argv[2]


def note(word):
    with open(state, "a") as f:
        f.write(word + "\n")


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen()
while True:
    sock, _ = listener.accept()
    try:
        c = of.Connection(sock, 4)
        c.send(of.FEATURES_REQUEST)
        c.until_barrier()
    except (OSError, ConnectionError):
        continue
    if "watch" in sys.argv:
        note("connected")
    else:
        arp = match13(oxm(5, b"\x08\x06"))
        c.send(of.FLOW_MOD, flow_mod13(arp, apply13(output13(0xFFFFFFFB)), priority=9))
        for n in (1, 2):
            to = match13(oxm(5, b"\x08\x00"), oxm(12, bytes([10, 0, 0, n])))
            c.send(of.FLOW_MOD, flow_mod13(to, apply13(output13(n)), priority=8))
        for n in range(100):
            tcp = match13(oxm(5, b"\x08\x00"), oxm(10, b"\x06"), oxm(14, struct.pack("!H", 1000 + n)))
            c.send(of.FLOW_MOD, flow_mod13(tcp, b"", table=2, priority=n, cookie=n))
        assert not [m for m in c.until_barrier() if m[0] == of.ERROR], "the switch refused a flow"
        note("installed")
        time.sleep(1)
        sock.sendall(of.message(4, of.FLOW_MOD, flow_mod13(arp, apply13(output13(1)), table=4), 77)[:50])
        note("half")
    try:
        while True:
            c.receive()
    except TimeoutError:
        time.sleep(1000)
    except (OSError, ConnectionError):
        pass
