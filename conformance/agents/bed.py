"""A switch in a network namespace of its own, on a database of its own, and the far ends of its ports."""

import ctypes
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import time

from wire import octets, opened, settled

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
# A frame of this kind comes back by the port that it went into: all frames before it are done with then.
MARK = 0x88B5
MARK_LINE = f"priority=65535,dl_type={MARK:#06x},dl_dst=02:00:00:00:be:ef,actions=in_port"
# How long to wait for a mark, for what comes behind it if something came, and if nothing did, and for two answers to become
# the same, in seconds.
PATIENCE, GRACE, SILENCE, SAME = 10.0, 0.003, 0.01, 1.5
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23


class Switch:
    """One of the two: "o" is Open vSwitch, "m" is millrace."""

    def __init__(self, kind, folder, millrace):
        self.kind, self.folder, self.namespace = kind, os.path.join(folder, kind), f"ag-{kind}{os.getpid()}"
        os.makedirs(self.folder)
        self.env = dict(
            os.environ, OVS_RUNDIR=self.folder, OVS_LOGDIR=self.folder, OVS_DBDIR=self.folder, OVS_SYSCONFDIR=self.folder
        )
        self.processes, self.sockets, self.punts, self.number = [], {}, {}, 0
        self.run("ip", "netns", "add", self.namespace)
        quiet = "for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done; ip link set lo up"
        self.inside("sh", "-c", quiet)
        self.run("ovsdb-tool", "create", f"{self.folder}/conf.db", SCHEMA)
        self.start("ovsdb-server", f"{self.folder}/conf.db", f"--remote=punix:{self.folder}/db.sock", "-vconsole:off")
        self.until("the database", lambda: os.path.exists(f"{self.folder}/db.sock"))
        self.vsctl("--no-wait", "init")
        options = [
            f"unix:{self.folder}/db.sock",
            f"--unixctl={self.folder}/ctl",
            f"--pidfile={self.folder}/v.pid",
            f"--log-file={self.folder}/v.log",
        ]
        if kind == "o":
            self.start(shutil.which("ovs-vswitchd") or "/usr/sbin/ovs-vswitchd", *options, "--disable-system", "-vconsole:off")
        else:
            self.start(millrace, "vswitchd", *options, "--ctl", f"{self.folder}/millrace.ctl")

    def run(self, *words):
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(f"{self.kind}: {' '.join(words)[:300]}: {done.stderr.strip()[:2000]}")
        return done.stdout

    def inside(self, *words):
        return self.run("ip", "netns", "exec", self.namespace, *words)

    def start(self, *words, out=None):
        log = open(out or f"{self.folder}/{os.path.basename(words[0])}.out", "w")
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.namespace, *words], env=self.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
        self.processes.append(process)
        return process

    def until(self, what, so, seconds=30):
        end = time.monotonic() + seconds
        while not so():
            if time.monotonic() > end:
                sys.exit(f"{self.kind}: {what}: nothing has come of it")
            time.sleep(0.02)

    def vsctl(self, *words):
        return self.run(
            "ip", "netns", "exec", self.namespace, "ovs-vsctl", f"--db=unix:{self.folder}/db.sock", "--timeout=20", *words
        )

    def appctl(self, *words):
        return self.run("ovs-appctl", "-t", f"{self.folder}/ctl", *words)

    def ofctl(self, command, bridge, *words, version="OpenFlow15"):
        return self.run("ovs-ofctl", "-O", version, command, f"unix:{self.folder}/{bridge}.mgmt", *words)

    def cable(self, name):
        """A pair of interfaces; the other end is ours."""
        self.inside("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-far")
        for end in (name, f"{name}-far"):
            self.inside("ip", "link", "set", end, "up")

    def listen(self, names):
        """Sockets at the far ends of cables."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/self/ns/net") as home, open(f"/var/run/netns/{self.namespace}") as there:
            if libc.setns(there.fileno(), 0x40000000):
                sys.exit("needs root")
            try:
                for name in names:
                    at = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
                    at.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
                    at.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
                    at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
                    at.bind((f"{name}-far", 0))
                    at.setblocking(False)
                    self.sockets[name] = at
            finally:
                libc.setns(home.fileno(), 0x40000000)

    def drain(self, ready):
        """What has come, by port, in the order of each port."""
        came = []
        for name, at in self.sockets.items():
            while at in ready:
                try:
                    data, aux, _, _ = at.recvmsg(65536, 256)
                except BlockingIOError:
                    break
                for level, kind, body in aux:
                    status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", body[:20])
                    if (level, kind) == (SOL_PACKET, PACKET_AUXDATA) and status & 0x10:
                        data = data[:12] + struct.pack("!HH", tpid if status & 0x40 else 0x8100, tci) + data[12:]
                came.append((name, data))
        return came

    def send(self, name, frames):
        """Sends a frame, or several, and a mark behind."""
        self.number += 1
        for frame in frames if isinstance(frames, list) else [frames]:
            self.sockets[name].send(frame)
        mark = bytes.fromhex("02000000beef0200000000aa") + struct.pack("!HI", MARK, self.number) + bytes(42)
        self.sockets[name].send(mark)

    def marked(self, came):
        """Whether the last mark has come back; it and others are taken out."""
        back = False
        for at in reversed(range(len(came))):
            kind, body = octets(came[at][1])
            if kind == MARK and came[at][1][:6] == bytes.fromhex("02000000beef"):
                back |= struct.unpack("!I", body[:4])[0] == self.number
                del came[at]
        return back

    def watch(self, bridge, identifier):
        """Has packets for the controller of this number written to a file."""
        path = f"{self.folder}/punts-{bridge}"
        control = f"{self.folder}/monitor-{bridge}"
        self.start(
            "ovs-ofctl",
            "-O",
            "OpenFlow13",
            "-P",
            "nxt_packet_in2",
            f"--unixctl={control}",
            "monitor",
            f"unix:{self.folder}/{bridge}.mgmt",
            "65535",
            out=path,
        )
        self.until("a controller", lambda: os.path.exists(control))
        # NXT_SET_CONTROLLER_ID.
        self.run("ovs-appctl", "-t", control, "ofctl/send", f"0404001800000000000023200000001400000000{0:04x}{identifier:04x}")
        self.run("ovs-appctl", "-t", control, "ofctl/barrier")
        self.punts[bridge] = path

    def punted(self):
        """Packets that the controllers got, as `ovs-ofctl` prints them, without what is each switch's own."""
        found = []
        for bridge, path in sorted(self.punts.items()):
            text = re.split(r"^(?=\S.*_PACKET_IN)", open(path).read(), flags=re.M)
            for part in text[1:]:
                part = re.sub(r"^OFPT.*$", "", part, flags=re.M)
                found.append(bridge + ": " + re.sub(r"\(xid=0x[0-9a-f]+\)| buffer=0x[0-9a-f]+", "", part).strip())
        return found

    def entries(self, bridge):
        """Packets of each entry, by its own words."""
        if self.kind == "o":
            self.appctl("revalidator/purge")
        found = {}
        for line in self.ofctl("dump-flows", bridge).splitlines():
            parts = re.match(r"\s*(cookie=\w+), duration=[0-9.]+s, (table=\d+), n_packets=(\d+), n_bytes=(\d+), (.*)", line)
            if parts and f"dl_type={MARK:#06x}" not in line:
                # Wide registers are written back as those of 32 bits that they consist of.
                rest = re.sub(r"set_field:0x([0-9a-f]+)->xxreg(\d)", registers, parts[5])
                rest = re.sub(
                    r"(idle_age|hard_age|idle_timeout|hard_timeout)=\d+, ", lambda m: m[0] if "timeout" in m[1] else "", rest
                )
                found[f"{parts[1]}, {parts[2]}, {rest}"] = int(parts[3])
        return found

    def forget(self):
        if self.kind == "o":
            self.appctl("revalidator/purge")

    def stop(self):
        for at in self.sockets.values():
            at.close()
        for process in reversed(self.processes):
            process.terminate()
        for process in reversed(self.processes):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        subprocess.run(["ip", "netns", "del", self.namespace], capture_output=True)


def registers(found):
    value, first = int(found[1], 16), 4 * int(found[2])
    parts = [(first + 3 - at, value >> 32 * at & 0xFFFFFFFF) for at in range(4)]
    return ",".join(f"set_field:{part:#x}->reg{number}" if part else f"set_field:0->reg{number}" for number, part in parts)


# Stations that have sent something, by port and address; and how long a new one is waited for, in seconds.
SEEN, LEARN = set(), 0.03


def source(frame):
    frame = frame[0] if isinstance(frame, list) else frame
    tunnel = opened(frame)
    return (tunnel[5] if tunnel else frame)[6:12]


def exchange(switches, ports, frames, same_s=SAME):
    """Sends each switch its frame; what came out of each, by port, once both agree or have had their time."""
    came = {switch.kind: [] for switch in switches}
    waiting = {switch.kind for switch in switches if frames[switch.kind] is not None}
    for switch in switches:
        if switch.kind in waiting:
            switch.send(ports[switch.kind], frames[switch.kind])
    begin = time.monotonic()
    same = None
    # NORMAL learns a new station at once in Open vSwitch, and a moment later in millrace.
    stations = {(ports[kind], source(frame)) for kind, frame in frames.items() if frame is not None}
    new_s = 0 if stations <= SEEN else LEARN
    SEEN.update(stations)
    sockets = [at for switch in switches for at in switch.sockets.values()]
    while True:
        ready = set(select.select(sockets, [], [], GRACE)[0])
        for switch in switches:
            new = switch.drain(ready)
            same = None if new else same
            came[switch.kind] += new
            if switch.marked(came[switch.kind]):
                waiting.discard(switch.kind)
        now = time.monotonic()
        if not waiting:
            kept = [sorted((name, settled(frame)) for name, frame in came[switch.kind]) for switch in switches]
            equal = all(one == kept[0] for one in kept)
            same = same or now
            if now - same > (same_s if not equal else new_s + (GRACE if kept[0] else SILENCE)):
                return came
        elif now - begin > PATIENCE:
            sys.exit(f"{', '.join(waiting)}: a mark that was sent into {ports} did not come back")
