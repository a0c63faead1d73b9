"""What lab/p4runtime_shell asks of p4runtime-shell: push P4INFO PROGRAM | counted PACKETS | packets."""
import sys
import time

import p4runtime_sh.shell as sh

ROUTES = {"10.1.0.0/16": ("02:00:00:00:00:01", "1"), "10.2.0.0/16": ("02:00:00:00:00:02", "2")}


def begin(config=None):
    # A later client needs a higher election id, or the same one when the earlier has left.
    sh.setup(device_id=1, grpc_addr="127.0.0.1:9559", election_id=(0, 1), config=config, verbose=False)


def route(prefix):
    entry = sh.TableEntry("MyIngress.ipv4_lpm")(action="MyIngress.ipv4_forward")
    entry.match["hdr.ipv4.dstAddr"] = prefix
    entry.action["dstAddr"], entry.action["port"] = ROUTES[prefix]
    return entry


def push(p4info, program):
    begin(sh.FwdPipeConfig(p4info, program))
    for prefix in ROUTES:
        route(prefix).insert()
    held = list(sh.TableEntry("MyIngress.ipv4_lpm").read())
    assert len(held) == 2, held
    try:
        route("10.1.0.0/16").insert()
    except Exception as error:
        assert "ALREADY_EXISTS" in str(error), error
        print("  refused as it should:", str(error).strip().splitlines()[-1].strip())
    else:
        raise AssertionError("an entry was inserted twice")
    changed = route("10.2.0.0/16")
    changed.action["port"] = "1"
    changed.modify()
    route("10.2.0.0/16").modify()
    group = sh.MulticastGroupEntry(7).add(1, 1).add(2, 2)
    group.insert()
    back = next(sh.MulticastGroupEntry(7).read())
    assert [(r.egress_port, r.instance) for r in back.replicas] == [(1, 1), (2, 2)], back
    group.delete()
    session = sh.CloneSessionEntry(3).add(1, 1)
    session.insert()
    assert len(list(sh.CloneSessionEntry(3).read())) == 1
    session.delete()
    print("  pushed a program; 2 routes, a multicast group and a clone session read back")


def counted(packets):
    begin()
    entry = route("10.2.0.0/16")
    counter = sh.DirectCounterEntry("MyIngress.routed")
    counter.table_entry = entry
    routed = [c.packet_count for c in counter.read()]
    assert len(routed) == 1 and routed[0] >= packets, routed
    cell = sh.CounterEntry("MyIngress.received")
    cell.index = 1
    received = [c.packet_count for c in cell.read()]
    assert received[0] >= packets, received
    cell.packet_count = 5
    cell.byte_count = 0
    cell.modify()
    assert [c.packet_count for c in cell.read()][0] >= 5
    print(f"  counted {routed[0]} routed and {received[0]} received packets")


def packets():
    begin()
    packet_in = sh.PacketIn()
    print("waits", flush=True)
    until = time.time() + 20
    got = None
    while got is None and time.time() < until:
        for message in packet_in.sniff(timeout=0.5):
            got = message.packet
    assert got is not None, "no packet came in"
    assert b"to the controller" in got.payload, got.payload
    assert [m.value for m in got.metadata] == [b"\x01", b"\x00"], got.metadata
    sh.PacketOut(got.payload, egress_port="2", _pad="0").send()
    time.sleep(0.5)
    print("  a packet came in from port 1 and went out by port 2")


{"push": push, "counted": lambda n: counted(int(n)), "packets": packets}[sys.argv[1]](*sys.argv[2:])
sh.teardown()
