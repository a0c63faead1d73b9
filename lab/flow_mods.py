"""Sends flow-mods as fast as the switch takes them, then a barrier: flow_mods.py HOST PORT COUNT SECONDS ATTEMPTS [EVERY].

With EVERY a barrier is sent behind so many, and waited for before the next ones.

Half of the flows are exact Ethernet addresses, half prefixes with a transport port. Between attempts all flows are deleted.
Exits with 1 when no attempt was within SECONDS, or when the switch answered with anything but the barrier's reply.
"""
import struct
import sys
import threading
import time

import of

ETH_DST, ETH_TYPE, IP_PROTO, IPV4_DST, TCP_DST = 3, 5, 10, 12, 14
DEC_TTL = struct.pack("!HH4x", 24, 8)


def flow(i):
    if i % 2 == 0:
        match = of.match13(of.oxm(ETH_DST, struct.pack("!Q", 0x020000000000 + i)[2:]))
        return of.flow_mod13(match, of.apply13(of.output13(1 + i // 2 % 2)), priority=10)
    n = i // 2
    match = of.match13(
        of.oxm(ETH_TYPE, b"\x08\x00"),
        of.oxm(IP_PROTO, b"\x06"),
        of.oxm(IPV4_DST, bytes([10, n >> 8, n & 255, 0]), bytes([255, 255, 255, 0])),
        of.oxm(TCP_DST, struct.pack("!H", 1 + n % 60000)),
    )
    return of.flow_mod13(match, of.apply13(DEC_TTL, of.output13(1 + n % 2)), table=1, priority=100 + n % 7)


def main(host, port, count, seconds, attempts, every=None):
    connection = of.Connection.to(host, port, 4)
    count = int(count)
    every = int(every or count)
    messages = [of.message(4, of.FLOW_MOD, flow(i), 0x10000 + i) for i in range(count)]
    parts = [b"".join(messages[at : at + every]) for at in range(0, count, every)]
    clear = of.flow_mod13(table=255, command=3)
    times = []
    for attempt in range(int(attempts)):
        connection.send(of.FLOW_MOD, clear)
        connection.until_barrier()
        connection.sock.settimeout(60)
        begun = time.monotonic()
        for part in parts:
            xid = connection.next_xid()
            barrier = of.message(4, of.BARRIER_REQUEST[4], b"", xid)
            # The switch may have something to say before it has read all.
            sender = threading.Thread(target=connection.sock.sendall, args=(part + barrier,))
            sender.start()
            kind, answered, body = connection.receive()
            sender.join()
            if (kind, answered) != (of.BARRIER_REPLY[4], xid):
                print("the switch answered with a message of type %d: %s" % (kind, body[:64].hex()))
                return 1
        times.append(time.monotonic() - begun)
        print("  attempt %d: %d flow-mods and a barrier in %.0f ms" % (attempt + 1, count, times[-1] * 1e3))
        if times[-1] < float(seconds):
            break
    best = min(times)
    print("%d flow-mods, barrier included, in %.0f ms" % (count, best * 1e3))
    return 0 if best < float(seconds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
