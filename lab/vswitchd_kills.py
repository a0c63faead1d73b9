"""Kills `millrace vswitchd` and restarts ovsdb-server while ovs-vsctl changes what the database says, and compares the switch
with the database after each: vswitchd_kills.py FOLDER ROUNDS SEED. Run by vswitchd_kills, in namespaces of its own.

Interfaces p1 to p5 lead to e1 to e5, where frames are sent and taken. p1 to p4 belong to any bridge; p5 takes a mirror's
copies. Where a frame goes is told again in a few lines (`expected`), from the database alone.
"""
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

FOLDER, ROUNDS, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
RUN = os.environ["OVS_RUNDIR"]
MILLRACE = os.environ["MILLRACE"]
CONTROLLER = "tcp:127.0.0.1:6699"
KIND = 0x88b5
VLANS = [10, 20, 30]
BRIDGES = ["k0", "k1", "k2"]
# How long the switch may take until it is as the database says, in seconds.
PATIENCE = 20.0


class Wrong(Exception):
    pass


def call(*words, patience=20):
    """What a command prints; None if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=patience + 10, stdin=subprocess.DEVNULL)
    return done.stdout if done.returncode == 0 else None


def must(*words):
    said = call(*words)
    if said is None:
        raise Wrong(f"{' '.join(words)} fails")
    return said


def value(datum):
    """JSON of a column in Python's words: sets become lists, maps dictionaries, names of rows text."""
    if isinstance(datum, list) and len(datum) == 2:
        kind, what = datum
        if kind == "set":
            return [value(one) for one in what]
        if kind == "map":
            return {str(value(key)): value(of) for key, of in what}
        if kind in ("uuid", "named-uuid"):
            return what
    return datum


def table(name):
    """Rows by uuid."""
    shown = json.loads(must("ovs-vsctl", "--timeout=20", "--format=json", "list", name))
    rows = [dict(zip(shown["headings"], map(value, row))) for row in shown["data"]]
    return {row["_uuid"]: row for row in rows}


def many(of):
    return of if isinstance(of, list) else [of]


class Database:
    """What the database says, of what is compared."""

    def __init__(self):
        ports, interfaces, mirrors = table("Port"), table("Interface"), table("Mirror")
        qos, queues, controllers = table("QoS"), table("Queue"), table("Controller")
        self.bridges = {}
        for row in table("Bridge").values():
            own = {ports[uuid]["name"]: ports[uuid] for uuid in many(row["ports"])}
            for port in own.values():
                port["interface"] = interfaces[many(port["interfaces"])[0]]
                port["told"] = [(qos[uuid], queues) for uuid in many(port["qos"])]
            self.bridges[row["name"]] = {
                "ports": own,
                # One whose port was removed copies nothing, and is told in the bridge's status.
                "mirrors": [mirrors[uuid] for uuid in many(row["mirrors"]) if mirrors[uuid]["output_port"] != []],
                "idle": [mirrors[uuid]["name"] for uuid in many(row["mirrors"]) if mirrors[uuid]["output_port"] == []],
                "controllers": [controllers[uuid] for uuid in many(row["controller"])],
                "status": row["status"],
                "names": {port["_uuid"]: name for name, port in own.items()},
            }


def vlans_of(port):
    """Mode and VLANs of a port."""
    if port["tag"] != []:
        return "access", port["tag"]
    return "trunk", set(many(port["trunks"]))


def expected(bridge, begin, vid):
    """Tags of the frames that come out of each port when one with this tag (0 for none) to all comes in by `begin`."""
    ports, mirrors = bridge["ports"], bridge["mirrors"]
    to = {bridge["names"][mirror["output_port"]] for mirror in mirrors}
    out = {}
    mode, own = vlans_of(ports[begin])
    if begin in to or mode == "access" and vid or mode == "trunk" and own and vid not in own:
        return out
    vlan = own if mode == "access" else vid
    for name, port in ports.items():
        mode, own = vlans_of(port)
        if name == begin or name in to:
            continue
        if mode == "access" and own == vlan:
            out.setdefault(name, []).append(0)
        if mode == "trunk" and (not own or vlan in own):
            out.setdefault(name, []).append(vlan)
    for mirror in mirrors:
        sources = [bridge["names"].get(uuid) for uuid in many(mirror["select_src_port"])]
        if mirror["select_all"] or begin in sources:
            out.setdefault(bridge["names"][mirror["output_port"]], []).append(vlan)
    return out


class Wire:
    """The far ends of p1 to p5."""

    def __init__(self):
        self.ends = {}
        for n in range(1, 6):
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            end.bind((f"e{n}", 0))
            # The kernel takes a tag out of a frame, and says here which.
            end.setsockopt(263, 8, 1)
            end.setblocking(False)
            self.ends[f"p{n}"] = end
        self.number = 0

    def send(self, port, vid):
        self.number += 1
        n = int(port[1:])
        tag = struct.pack("!HH", 0x8100, vid) if vid else b""
        frame = b"\xff" * 6 + bytes([2, 0, 0, 0, 0, n]) + tag + struct.pack("!HQ", KIND, self.number) + bytes(40)
        self.ends[port].send(frame)
        return self.number

    def take(self, number, count):
        """The tags with which the frame of this number comes out, by port: until so many have come and a moment passed."""
        got, end = {}, time.monotonic() + 1.0
        while True:
            has = sum(map(len, got.values()))
            wait = 0.03 if has >= count else end - time.monotonic()
            ready = select.select(list(self.ends.values()), [], [], max(0, wait))[0]
            if not ready:
                return got
            for port, of in self.ends.items():
                if of not in ready:
                    continue
                data, beside, _, address = of.recvmsg(256, 256)
                if address[2] == socket.PACKET_OUTGOING:
                    continue
                vid = 0
                for level, kind, told in beside:
                    status, _, _, _, _, tci = struct.unpack_from("IIIHHH", told + bytes(16))
                    if (level, kind) == (263, 8) and status & 0x10:
                        vid = tci & 0xfff
                at = 12
                if data[at:at + 2] == b"\x81\x00":
                    vid, at = struct.unpack_from("!H", data, 14)[0] & 0xfff, 16
                if struct.unpack_from("!HQ", data, at) == (KIND, number):
                    got.setdefault(port, []).append(vid)


def controller():
    """A controller of OpenFlow 1.3 that has every switch forward as NORMAL says."""
    listener = socket.create_server(("127.0.0.1", 6699))

    def speak(peer):
        try:
            peer.sendall(struct.pack("!BBHI", 4, 0, 8, 1))
            match = struct.pack("!HH4x", 1, 4)
            output = struct.pack("!HHIH6x", 0, 16, 0xfffffffa, 0)
            apply = struct.pack("!HH4x", 4, 24) + output
            body = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, 0, 0, 0, 1, 0xffffffff, 0xffffffff, 0xffffffff, 0) + match + apply
            peer.sendall(struct.pack("!BBHI", 4, 14, 8 + len(body), 2) + body)
            pending = b""
            while True:
                data = peer.recv(65536)
                if not data:
                    return
                pending += data
                while len(pending) >= 8 and len(pending) >= struct.unpack_from("!H", pending, 2)[0]:
                    length = struct.unpack_from("!H", pending, 2)[0]
                    message, pending = pending[:length], pending[length:]
                    if message[1] == 2:
                        peer.sendall(bytes([4, 3]) + message[2:])
        except OSError:
            pass
        finally:
            peer.close()

    def listen():
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=speak, args=(peer,), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()


def change(chance):
    """Words of a change for ovs-vsctl."""
    bridge = chance.choice(BRIDGES)
    port = f"p{chance.randrange(1, 5)}"
    vlans = chance.choice([[], [f"tag={chance.choice(VLANS)}"],
                           ["trunks=" + ",".join(map(str, sorted(chance.sample([0, *VLANS], 2))))]])
    add = ["--may-exist", "add-br", bridge]
    what = chance.randrange(20)
    if what < 5:
        return [*add, "--", "--if-exists", "del-port", port, "--", "add-port", bridge, port, *vlans]
    if what < 8:
        return ["--if-exists", "clear", "port", port, "tag", "trunks", *(["--", "--if-exists", "set", "port", port, *vlans] if vlans else [])]
    if what == 8:
        name = f"i{chance.randrange(4)}"
        return [*add, "--", "--if-exists", "del-port", name, "--", "add-port", bridge, name, *vlans, "--", "set", "interface", name, "type=internal"]
    if what == 9:
        return ["--if-exists", "del-port", f"i{chance.randrange(4)}"]
    if what == 10 or what > 15:
        most, one = chance.randrange(10, 99) * 1000000, chance.randrange(1, 9) * 1000000
        return ["set", "port", port, "qos=@q", "--", "--id=@q", "create", "qos", "type=linux-htb", f"other-config:max-rate={most}",
                f"queues:{chance.randrange(1, 9)}=@one", "--", "--id=@one", "create", "queue", f"other-config:max-rate={one}"]
    if what == 11:
        return ["clear", "port", port, "qos"]
    if what == 12:
        return ["set-controller", bridge, CONTROLLER, "--", "set", "controller", bridge, "max_backoff=1000"]
    if what == 13:
        return ["del-controller", bridge]
    if what == 14 and chance.randrange(2):
        return ["--if-exists", "del-br", bridge]
    source = chance.choice(["select_all=true", "select_src_port=@from"])
    return [*add, "--", "--if-exists", "del-port", "p5", "--", "add-port", bridge, "p5",
            "--", "--if-exists", "del-port", port, "--", "add-port", bridge, port, *vlans,
            "--", "--id=@from", "get", "port", port, "--", "--id=@to", "get", "port", "p5",
            "--", "--id=@m", "create", "mirror", "name=m", source, "output_port=@to", "--", "set", "bridge", bridge, "mirrors=@m"]


class Changer(threading.Thread):
    """Makes changes until it is told to stop. Those that do not get through are made by nobody."""

    def __init__(self, seed):
        super().__init__()
        self.chance, self.enough, self.made, self.tried = random.Random(seed), False, 0, 0

    def run(self):
        while not self.enough:
            # Most wait for the switch, and some go on without it.
            wait = [] if self.chance.randrange(3) else ["--no-wait"]
            self.tried += 1
            self.made += call("ovs-vsctl", "--timeout=2", *wait, *change(self.chance)) is not None


def start_database():
    if call("ovsdb-server", f"{FOLDER}/conf.db", f"--remote=punix:{RUN}/db.sock", "--pidfile", "--detach", "--no-chdir",
            f"--log-file={FOLDER}/ovsdb.log", "-vconsole:off") is None:
        raise Wrong("ovsdb-server does not start")


def start_switch():
    done = subprocess.run([MILLRACE, "vswitchd", "--pidfile", "--detach", "--no-chdir", f"--log-file={FOLDER}/vswitchd.log"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(f"{FOLDER}/said", "w"), timeout=60)
    if done.returncode:
        raise Wrong(f"the switch does not start: {open(f'{FOLDER}/said').read().strip()}")


def kill(name):
    """Ends a process by its file, and waits until it is gone."""
    pid = int(open(f"{RUN}/{name}.pid").read())
    os.kill(pid, signal.SIGKILL)
    for _ in range(1000):
        if not os.path.exists(f"/proc/{pid}"):
            return
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        time.sleep(0.01)
    raise Wrong(f"process {pid} does not end")


def differences(wire, counts):
    """What is not as the database says; None if all is."""
    database = Database()
    if sorted(must("ovs-appctl", "ofproto/list").split()) != sorted(database.bridges):
        return f"bridges are {must('ovs-appctl', 'ofproto/list').split()}, the database says {sorted(database.bridges)}"
    for name, bridge in database.bridges.items():
        noted = [f"mirror {mirror}: output_port or output_vlan, one of them, was expected" for mirror in bridge["idle"]]
        if bridge["status"].get("unsupported", "") != "; ".join(noted):
            return f"{name}: {bridge['status']}"
        told = {}
        for port, row in bridge["ports"].items():
            if row["interface"]["error"] != [] or row["status"].get("unsupported"):
                return f"{port}: {row['interface']['error']} {row['status']}"
            told[port] = row["interface"]["ofport"]
        shown = must("ovs-ofctl", "-O", "OpenFlow13", "show", name)
        has = {}
        for line in shown.splitlines():
            number, _, rest = line.strip().partition("(")
            if "): addr:" in line:
                has[rest.partition(")")[0]] = 65534 if number == "LOCAL" else int(number)
        if has != told:
            return f"{name} has ports {has}, the database says {told}"
        for port, row in bridge["ports"].items():
            shown = must("ovs-appctl", "qos/show", port)
            if not row["told"]:
                if "QoS not configured" not in shown:
                    return f"{port} has queues that the database has not: {shown}"
                continue
            [(qos, queues)] = row["told"]
            wanted = [f"QoS: {port} {qos['type']}", f"max-rate: {qos['other_config']['max-rate']}"]
            for number, queue in qos["queues"].items():
                wanted += [f"Queue {number}:", f"max-rate: {queues[queue]['other_config']['max-rate']}"]
            lines = [line.strip() for line in shown.splitlines()]
            if not all(line in lines for line in wanted):
                return f"{port}: {wanted} is not in {lines}"
            counts["queues"] += 1
        if not all(one["is_connected"] for one in bridge["controllers"]):
            return f"{name} has no connection to its controller"
        counts["controllers"] += len(bridge["controllers"])
        counts["mirrors"] += len(bridge["mirrors"])
        counts["ports"] += len(told)
        for begin in [port for port in bridge["ports"] if port in wire.ends]:
            for vid in [0, *VLANS]:
                wanted = {port: of for port, of in expected(bridge, begin, vid).items() if port in wire.ends}
                number = wire.send(begin, vid)
                got = wire.take(number, sum(map(len, wanted.values())))
                if {port: sorted(of) for port, of in got.items()} != {port: sorted(of) for port, of in wanted.items()}:
                    return f"{name}: a frame with tag {vid} by {begin} comes out of {got}, the database says {wanted}"
                counts["frames"] += 1
    # Interfaces that are at no bridge get nothing: a frame that another bridge sent there was seen above.
    return None


def main():
    chance = random.Random(SEED)
    controller()
    wire = Wire()
    start_database()
    must("ovs-vsctl", "--no-wait", "init")
    start_switch()
    counts = dict.fromkeys(["ports", "queues", "controllers", "mirrors", "frames"], 0)
    killed = {"ovs-vswitchd": 0, "ovsdb-server": 0}
    made = tried = 0
    longest = 0.0
    for at in range(ROUNDS):
        changer = Changer(SEED * 100000 + at)
        changer.start()
        try:
            time.sleep(chance.uniform(0.2, 1.5))
            first = ["ovs-vswitchd"] if at % 2 == 0 else ["ovsdb-server"]
            both = [*first, "ovs-vswitchd"] if at % 4 == 3 else first
            for name in both:
                kill(name)
                killed[name] += 1
                time.sleep(chance.uniform(0, 0.5))
                if name == "ovsdb-server":
                    start_database()
                else:
                    start_switch()
            time.sleep(chance.uniform(0, 1.0))
        finally:
            changer.enough = True
            changer.join()
        made, tried = made + changer.made, tried + changer.tried
        begun = time.monotonic()
        must("ovs-vsctl", f"--timeout={int(PATIENCE)}", "set", "Open_vSwitch", ".", f"external_ids:round={at}")
        while True:
            seen = dict(counts)
            wrong = differences(wire, seen)
            if wrong is None:
                counts = seen
                break
            if time.monotonic() - begun > PATIENCE:
                raise Wrong(f"round {at}, {' and '.join(both)} killed: {wrong}")
            time.sleep(0.2)
        longest = max(longest, time.monotonic() - begun)
    print(f"{killed['ovs-vswitchd']} times millrace and {killed['ovsdb-server']} times ovsdb-server killed beside {made} of {tried} changes; "
          f"each time as the database says ({', '.join(f'{count} {what}' for what, count in counts.items())}), after {longest:.1f} s at most")


try:
    main()
except Wrong as wrong:
    for log in ("vswitchd.log", "ovsdb.log"):
        if os.path.exists(f"{FOLDER}/{log}"):
            print("".join(open(f"{FOLDER}/{log}", errors="replace").readlines()[-15:]))
    print(f"failed: {wrong}")
    sys.exit(1)
finally:
    for name in ("ovs-vswitchd", "ovsdb-server"):
        try:
            os.kill(int(open(f"{RUN}/{name}.pid").read()), signal.SIGTERM)
        except (OSError, ValueError):
            pass
