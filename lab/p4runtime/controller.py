"""The controller of lab/p4runtime's fabric, of P4Runtime's own messages.

    controller.py serve P4INFO PROGRAM ELECTION_ID NAME=ADDRESS...    programs the switches, and learns hosts
    controller.py routed NAME=ADDRESS P4INFO                          what the switch has routed, by prefix

It pushes the program to a switch that runs another one, and goes on with the entries of one that runs it already. Of leaves it
answers requests for addresses, learns hosts by them, and looks for hosts that packets want and nobody has heard of.
"""
import queue
import socket
import struct
import sys
import threading
import zlib

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

DEVICE = 1
# By which group of uplinks a leaf reaches another, and the prefix of each leaf.
PREFIXES = {"l1": "10.1.0.0", "l2": "10.2.0.0"}
GATEWAYS = {"l1": ("10.1.0.254", "02:00:00:00:01:fe"), "l2": ("10.2.0.254", "02:00:00:00:02:fe")}
HOST_PORTS = (1, 2)
UPLINKS = (3, 4)
# What a spine's port to each leaf is.
DOWN = {"l1": 1, "l2": 2}
WAITING_MAX = 8


def number(n):
    """As P4Runtime writes numbers: as few bytes as there can be."""
    return n.to_bytes(max(1, (n.bit_length() + 7) // 8), "big")


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def value(data):
    return number(int.from_bytes(data, "big"))


class Names:
    """Ids by the names of a P4Info."""

    def __init__(self, path):
        self.info = p4info_pb2.P4Info()
        with open(path) as file:
            text_format.Parse(file.read(), self.info)
        kinds = (self.info.tables, self.info.actions, self.info.action_profiles)
        self.all = {one.preamble.name: one for kind in kinds for one in kind}

    def id(self, name):
        return self.all[name].preamble.id

    def action(self, name, *values):
        params = self.all[name].params
        assert len(params) == len(values), name
        action = p4rt.Action(action_id=self.id(name))
        for param, one in zip(params, values):
            action.params.add(param_id=param.id, value=one)
        return action


class Switch:
    """A switch, and what it says on its stream."""

    def __init__(self, name, address):
        self.name = name
        # A switch that was refused before is tried anew.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(grpc.insecure_channel(address, options))
        self.says = queue.Queue()
        self.election = p4rt.Uint128()

    def arbitrate(self, election, packet_in, ended=print):
        self.election.low = election
        request = p4rt.StreamMessageRequest()
        request.arbitration.device_id = DEVICE
        request.arbitration.election_id.CopyFrom(self.election)
        self.says.put(request)
        stream = self.stub.StreamChannel(iter(self.says.get, None))
        first = next(stream)
        if first.arbitration.status.code != 0:
            sys.exit(f"{self.name}: not primary: {first.arbitration.status.message}")

        def listen():
            try:
                for message in stream:
                    if message.HasField("packet"):
                        packet_in(self, message.packet)
            except grpc.RpcError as error:
                ended(f"{self.name}: the stream has ended: {error.details()}")

        threading.Thread(target=listen, daemon=True).start()

    def cookie(self):
        asked = p4rt.GetForwardingPipelineConfigRequest(device_id=DEVICE, response_type="COOKIE_ONLY")
        try:
            return self.stub.GetForwardingPipelineConfig(asked).config.cookie.cookie
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return None
            raise

    def push(self, names, program, cookie):
        request = p4rt.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, election_id=self.election, action="VERIFY_AND_COMMIT"
        )
        request.config.p4info.CopyFrom(names.info)
        request.config.p4_device_config = program
        request.config.cookie.cookie = cookie
        self.stub.SetForwardingPipelineConfig(request)

    def write(self, kind, *entities):
        request = p4rt.WriteRequest(device_id=DEVICE, election_id=self.election)
        for entity in entities:
            request.updates.add(type=kind, entity=entity)
        self.stub.Write(request)

    def read(self, entity):
        asked = p4rt.ReadRequest(device_id=DEVICE, entities=[entity])
        return [one for response in self.stub.Read(asked) for one in response.entities]

    def send(self, port, frame):
        request = p4rt.StreamMessageRequest()
        request.packet.payload = frame
        for at, one in enumerate((number(port), b"\0"), 1):
            request.packet.metadata.add(metadata_id=at, value=one)
        self.says.put(request)


class Fabric:
    def __init__(self, names, switches):
        self.names, self.switches = names, switches
        self.lock = threading.Lock()
        # Of each leaf: port and MAC address by address; what waits for a host.
        self.hosts = {leaf: {} for leaf in GATEWAYS}
        self.waiting = {leaf: {} for leaf in GATEWAYS}

    def member(self, id, action):
        profile = p4rt.ActionProfileMember(
            action_profile_id=self.names.id("FabricIngress.uplink_groups"), member_id=id, action=action
        )
        return p4rt.Entity(action_profile_member=profile)

    def prefix(self, leaf, **action):
        entry = p4rt.TableEntry(table_id=self.names.id("FabricIngress.prefixes"), action=p4rt.TableAction(**action))
        field = entry.match.add(field_id=1)
        field.lpm.value = value(socket.inet_aton(PREFIXES[leaf]))
        field.lpm.prefix_len = 24
        return p4rt.Entity(table_entry=entry)

    def program(self, switch):
        """Prefixes and uplinks of a switch that has nothing."""
        next_hop = lambda port: self.names.action("FabricIngress.next_hop", b"\2", b"\2", number(port))
        if switch.name in GATEWAYS:
            members = [self.member(port, next_hop(port)) for port in UPLINKS]
            members.append(self.member(9, self.names.action("FabricIngress.to_controller", b"\2")))
            group = p4rt.ActionProfileGroup(
                action_profile_id=self.names.id("FabricIngress.uplink_groups"), group_id=1, max_size=len(UPLINKS)
            )
            for port in UPLINKS:
                # A port that is down takes no flows.
                group.members.add(member_id=port, weight=1, watch_port=number(port))
            members.append(p4rt.Entity(action_profile_group=group))
            own = lambda leaf: {"action_profile_member_id": 9} if leaf == switch.name else {"action_profile_group_id": 1}
            entries = [self.prefix(leaf, **own(leaf)) for leaf in PREFIXES]
        else:
            members = [self.member(port, next_hop(port)) for port in DOWN.values()]
            entries = [self.prefix(leaf, action_profile_member_id=port) for leaf, port in DOWN.items()]
        switch.write("INSERT", *members)
        switch.write("INSERT", *entries)

    def host(self, leaf, address, port, at):
        own = value(mac(GATEWAYS[leaf][1]))
        entry = p4rt.TableEntry(table_id=self.names.id("FabricIngress.hosts"))
        entry.match.add(field_id=1).exact.value = value(socket.inet_aton(address))
        entry.action.action.CopyFrom(self.names.action("FabricIngress.next_hop", value(at), own, number(port)))
        return p4rt.Entity(table_entry=entry)

    def recover(self, switch):
        """What the switch knows, is known."""
        if switch.name not in GATEWAYS:
            return
        for entity in switch.read(p4rt.Entity(table_entry=p4rt.TableEntry(table_id=self.names.id("FabricIngress.hosts")))):
            entry = entity.table_entry
            if entry.is_default_action:
                continue
            address = socket.inet_ntoa(entry.match[0].exact.value.rjust(4, b"\0"))
            at, _, port = (param.value for param in entry.action.action.params)
            self.hosts[switch.name][address] = int.from_bytes(port, "big"), at.rjust(6, b"\0")

    def learn(self, switch, address, port, at):
        with self.lock:
            known = self.hosts[switch.name].get(address)
            if known == (port, at):
                return
            switch.write("MODIFY" if known else "INSERT", self.host(switch.name, address, port, at))
            self.hosts[switch.name][address] = port, at
            waiting = self.waiting[switch.name].pop(address, [])
        print(f"{switch.name}: {address} is at port {port}", flush=True)
        for frame in waiting:
            switch.send(port, at + mac(GATEWAYS[switch.name][1]) + frame[12:])

    def packet_in(self, switch, packet):
        frame, port = packet.payload, int.from_bytes(packet.metadata[0].value, "big")
        if switch.name not in GATEWAYS:
            return
        gateway, own = GATEWAYS[switch.name]
        if frame[12:14] == b"\x08\x06" and len(frame) >= 42:
            kind, at, sender, target = struct.unpack("!6xH6s4s6x4s", frame[14:42])
            sender, target = socket.inet_ntoa(sender), socket.inet_ntoa(target)
            # All hosts of a leaf are reached by way of it.
            if kind == 1 and target != sender:
                reply = struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 2, mac(own), socket.inet_aton(target), at, socket.inet_aton(sender))
                switch.send(port, (at + mac(own) + b"\x08\x06" + reply).ljust(60, b"\0"))
            self.learn(switch, sender, port, at)
        elif frame[12:14] == b"\x08\x00" and len(frame) >= 34:
            wanted = socket.inet_ntoa(frame[30:34])
            with self.lock:
                known = self.hosts[switch.name].get(wanted)
                waiting = self.waiting[switch.name].setdefault(wanted, []) if known is None else []
                if known is None and len(waiting) < WAITING_MAX:
                    waiting.append(frame)
            if known is not None:
                # It was on its way while its host was learnt.
                port, at = known
                return switch.send(port, at + mac(own) + frame[12:])
            request = struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 1, mac(own), socket.inet_aton(gateway), bytes(6), socket.inet_aton(wanted))
            for host in HOST_PORTS:
                switch.send(host, (b"\xff" * 6 + mac(own) + b"\x08\x06" + request).ljust(60, b"\0"))


def serve(p4info, program, election, *switches):
    names = Names(p4info)
    with open(program, "rb") as file:
        text = file.read()
    cookie = zlib.crc32(text)
    switches = [Switch(*one.split("=")) for one in switches]
    fabric = Fabric(names, switches)
    for switch in switches:
        switch.arbitrate(int(election), fabric.packet_in)
        if switch.cookie() == cookie:
            fabric.recover(switch)
            print(f"{switch.name}: runs the program, and knows {len(fabric.hosts.get(switch.name, ()))} hosts", flush=True)
        else:
            switch.push(names, text, cookie)
            fabric.program(switch)
            print(f"{switch.name}: has the program now", flush=True)
    print("ready", flush=True)
    threading.Event().wait()


def routed(switch, p4info):
    names = Names(p4info)
    entry = p4rt.TableEntry(table_id=names.id("FabricIngress.prefixes"))
    # Set, so that it is told.
    entry.counter_data.SetInParent()
    for entity in Switch(*switch.split("=")).read(p4rt.Entity(table_entry=entry)):
        entry = entity.table_entry
        if not entry.is_default_action:
            prefix = socket.inet_ntoa(entry.match[0].lpm.value.rjust(4, b"\0"))
            print(prefix, entry.counter_data.packet_count)


if __name__ == "__main__":
    {"serve": serve, "routed": routed}[sys.argv[1]](*sys.argv[2:])
