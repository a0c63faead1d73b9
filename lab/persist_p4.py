"""Kills a switch that keeps what P4Runtime's clients write: persist_p4.py FOLDER KILLS SEED SYNC PROGRAM P4INFO.

One client writes batch after batch, each of which changes several entities, and pushes the program now and then. It keeps the
state after each request. A new process has the state after the last request that was answered, or after the one behind it.
"""
import os
import random
import signal
import subprocess
import sys
import threading
import time

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "p4runtime"))
from controller import DEVICE, Names, Switch, number, p4rt  # noqa: E402

PORT = 9559
PROFILE, PREFIXES, HOSTS = "FabricIngress.uplink_groups", "FabricIngress.prefixes", "FabricIngress.hosts"


def fail(text):
    print("failed: " + text)
    sys.exit(1)


class Client:
    """Requests, and what the switch has after each."""

    def __init__(self, names, program, rng, state):
        self.names, self.program, self.rng = names, program, rng
        self.switch = Switch("s", f"127.0.0.1:{PORT}")
        self.switch.arbitrate(1, lambda *_: None, lambda _: None)
        # Cookie, and entities by kind and id.
        self.states, self.acked = [state], 0
        self.error = None

    def entity(self, kind, at):
        """One of this kind, as it is read back."""
        rng, names = self.rng, self.names
        hop = names.action("FabricIngress.next_hop", number(1 + rng.randrange(9)), b"\2", number(1 + rng.randrange(3)))
        entity = p4rt.Entity()
        if kind == "member":
            entity.action_profile_member.action_profile_id = names.id(PROFILE)
            entity.action_profile_member.member_id = at
            entity.action_profile_member.action.CopyFrom(hop)
        elif kind == "group":
            group = entity.action_profile_group
            group.action_profile_id, group.group_id, group.max_size = names.id(PROFILE), at, 16
            for member in sorted(rng.sample(range(1, 5), rng.randrange(1, 4))):
                group.members.add(member_id=member, weight=1 + rng.randrange(3), watch_port=number(1 + rng.randrange(3)))
        elif kind == "multicast":
            group = entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = at
            for n in range(1 + rng.randrange(3)):
                group.replicas.add(port=number(1 + rng.randrange(9)), instance=n)
        elif kind == "session":
            session = entity.packet_replication_engine_entry.clone_session_entry
            session.session_id, session.packet_length_bytes = at, rng.randrange(3) * 64
            session.replicas.add(port=number(1 + rng.randrange(9)), instance=rng.randrange(4))
        else:
            entry = entity.table_entry
            entry.table_id = names.id(HOSTS if kind == "host" else PREFIXES)
            field = entry.match.add(field_id=1)
            entry.metadata = bytes([1 + rng.randrange(255)])
            if kind == "host":
                field.exact.value = number(at)
                entry.action.action.CopyFrom(hop)
            else:
                field.lpm.value, field.lpm.prefix_len = number(at << 24), 8
                if rng.random() < 0.5:
                    entry.action.action_profile_member_id = 1 + rng.randrange(4)
                else:
                    entry.action.action_profile_group_id = 1 + rng.randrange(3)
        return entity

    def batch(self, state):
        """Updates that are all right one after the other."""
        rng, updates = self.rng, []
        # Members 1 to 4 and groups 1 to 3 stay, so that who refers to them may.
        kinds = {"member": (1, 9), "group": (1, 6), "multicast": (1, 6), "session": (1, 6), "host": (1, 400), "prefix": (1, 30)}
        for _ in range(1 + rng.randrange(20)):
            kind = rng.choice([*kinds, "host", "host", "prefix"])
            at = rng.randrange(*kinds[kind])
            key = kind, at
            stays = kind == "member" and at < 5 or kind == "group" and at < 4
            if key in state and not stays and rng.random() < 0.4:
                entity = p4rt.Entity.FromString(state.pop(key))
                updates.append(("DELETE", entity))
                continue
            entity = self.entity(kind, at)
            updates.append(("MODIFY" if key in state else "INSERT", entity))
            state[key] = entity.SerializeToString(deterministic=True)
        return updates

    def begin(self):
        """A program, and what others refer to."""
        state = {"cookie": 1}
        self.switch.push(self.names, self.program, 1)
        self.states.append(state)
        self.acked += 1
        state, updates = dict(state), []
        for kind, most in (("member", 5), ("group", 4)):
            for at in range(1, most):
                entity = self.entity(kind, at)
                updates.append(("INSERT", entity))
                state[kind, at] = entity.SerializeToString(deterministic=True)
        self.ask(state, updates)

    def ask(self, state, updates):
        request = p4rt.WriteRequest(device_id=DEVICE, election_id=self.switch.election)
        request.atomicity = self.rng.choice([0, 0, 1, 2])
        for kind, entity in updates:
            request.updates.add(type=kind, entity=entity)
        self.states.append(state)
        self.switch.stub.Write(request)
        self.acked += 1

    def reconcile(self, state):
        """The same program with another cookie."""
        state["cookie"] += 1
        request = p4rt.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, election_id=self.switch.election, action="RECONCILE_AND_COMMIT"
        )
        request.config.p4info.CopyFrom(self.names.info)
        request.config.p4_device_config = self.program
        request.config.cookie.cookie = state["cookie"]
        self.states.append(state)
        self.switch.stub.SetForwardingPipelineConfig(request)
        self.acked += 1

    def run(self, stop):
        try:
            while not stop.is_set():
                state = dict(self.states[-1])
                if self.rng.random() < 0.02:
                    self.reconcile(state)
                else:
                    self.ask(state, self.batch(state))
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED):
                told = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
                self.error = f"{error.code()}: {error.details()}: {told}"


def there(names):
    """What the switch has, as in a client's states."""
    switch = Switch("s", f"127.0.0.1:{PORT}")
    state = {"cookie": switch.cookie()}
    if state["cookie"] is None:
        return {}
    table = lambda name: p4rt.Entity(table_entry=p4rt.TableEntry(table_id=names.id(name)))
    replication = p4rt.PacketReplicationEngineEntry
    asked = {
        "member": p4rt.Entity(action_profile_member=p4rt.ActionProfileMember()),
        "group": p4rt.Entity(action_profile_group=p4rt.ActionProfileGroup()),
        "multicast": p4rt.Entity(packet_replication_engine_entry=replication(multicast_group_entry={})),
        "session": p4rt.Entity(packet_replication_engine_entry=replication(clone_session_entry={})),
        "host": table(HOSTS),
        "prefix": table(PREFIXES),
    }
    for kind, what in asked.items():
        for entity in switch.read(what):
            at = {
                "member": lambda: entity.action_profile_member.member_id,
                "group": lambda: entity.action_profile_group.group_id,
                "multicast": lambda: entity.packet_replication_engine_entry.multicast_group_entry.multicast_group_id,
                "session": lambda: entity.packet_replication_engine_entry.clone_session_entry.session_id,
                "host": lambda: int.from_bytes(entity.table_entry.match[0].exact.value, "big"),
                "prefix": lambda: int.from_bytes(entity.table_entry.match[0].lpm.value, "big") >> 24,
            }[kind]()
            state[kind, at] = entity.SerializeToString(deterministic=True)
    return state


class Process:
    def __init__(self, folder, sync, kept="kept"):
        self.ctl = os.path.join(folder, "ctl")
        self.log = open(os.path.join(folder, "switch.log"), "ab")
        words = [os.environ["MILLRACE"], "run", "--p4runtime", f"127.0.0.1:{PORT}", "--persist", os.path.join(folder, kept),
                 "--persist-sync", sync, "--ctl", self.ctl, "--engine", "interp"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = b""
        for line in self.process.stderr:
            self.log.write(line)
            said += line
            if line.startswith(b"millrace: ready"):
                break
        else:
            fail("the switch ended at its start: " + said.decode(errors="replace")[-500:])
        threading.Thread(target=lambda: [self.log.write(line) for line in self.process.stderr], daemon=True).start()

    def is_failing(self):
        told = subprocess.run([os.environ["MILLRACE"], "stats", "--ctl", self.ctl], capture_output=True, text=True)
        return "warning: changes are not kept over a restart" in told.stdout

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def until(what, done):
    deadline = time.monotonic() + 60
    while not done():
        if time.monotonic() > deadline:
            fail(what)
        time.sleep(0.05)


def full_disk(folder, sync, names, text, rng):
    """What is written while the disk is full is kept once there is room."""
    process = Process(folder, sync, "small/kept")
    client = Client(names, text, rng, {})
    client.begin()
    ballast = os.path.join(folder, "small", "ballast")
    with open(ballast, "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            pass

    def writes():
        state = dict(client.states[-1])
        client.ask(state, client.batch(state))
        return process.is_failing()

    until("a full disk goes unnoticed", writes)
    writes()
    os.unlink(ballast)
    until("the disk has room, and nothing is kept", lambda: not process.is_failing())
    writes()
    process.kill()
    process = Process(folder, sync, "small/kept")
    if there(names) != client.states[-1]:
        fail("what was written while the disk was full is not there")
    process.kill()
    print("  a full disk: written on, and all is kept once there was room")


def main(folder, kills, seed, sync, program, p4info):
    rng, names = random.Random(int(seed)), Names(p4info)
    with open(program, "rb") as file:
        text = file.read()
    state, requests, half = {}, 0, 0
    for kill in range(int(kills) + 1):
        process = Process(folder, sync)
        got = there(names)
        if kill == 0:
            if got:
                fail("a new switch has something")
        elif got not in possible:
            acked = possible[0]
            differ = [key for key in acked.keys() | got.keys() if acked.get(key) != got.get(key)]
            fail(f"kill {kill}: what comes back is no state from the last acknowledged one on; it differs in {differ[:5]}")
        else:
            half += len(possible) > 1 and got == possible[1] != possible[0]
        state = got
        client = Client(names, text, rng, state)
        if kill == 0:
            client.begin()
        stop = threading.Event()
        thread = threading.Thread(target=client.run, args=(stop,))
        thread.start()
        time.sleep(0.05 + rng.random() * 0.4)
        process.kill()
        stop.set()
        thread.join(30)
        if thread.is_alive() or client.error:
            fail(client.error or "the client hangs")
        requests += client.acked
        possible = client.states[client.acked : client.acked + 2]
    process.kill()
    full_disk(folder, sync, names, text, rng)
    print(f"{kills} kills of a P4 program's switch, {requests} requests acknowledged and none lost or there in part; "
          f"{half} came back with one more; {len(state) - 1} entities at the end")


main(*sys.argv[1:])
