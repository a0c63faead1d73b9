"""Kills a switch that keeps what it is told, and compares what comes back: persist.py FOLDER KILLS SEED SYNC.

The controller speaks OpenFlow 1.4. It keeps the state after each request that it sends. Answers tell up to which request the
switch has acknowledged. What a new process has must be the state after one of the requests from there on.
"""
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import of

VERSION = 5
BARRIER, BARRIER_REPLY, MULTIPART, MULTIPART_REPLY, GROUP_MOD = 20, 21, 18, 19, 15
BUNDLE_CONTROL, BUNDLE_ADD = 33, 34
GROUP_ACTION = 22
ALL_TABLES, ALL_GROUPS = 255, 0xFFFFFFFC


def fail(text):
    print("failed: " + text)
    sys.exit(1)


def group_action(group):
    return struct.pack("!HHI", GROUP_ACTION, 8, group)


def group_mod(command, group, port=None):
    body = struct.pack("!HBxI", command, 0, group)
    if port is not None:
        action = of.output13(port)
        body += struct.pack("!HHII4x", 16 + len(action), 0, 0xFFFFFFFF, 0xFFFFFFFF) + action
    return of.message(VERSION, GROUP_MOD, body)


def flow_mod(table, priority=0, cookie=0, group=None, command=0):
    action = of.output13(1 + cookie % 100) if group is None else group_action(group)
    body = of.flow_mod13(None, of.apply13(action) if command == 0 else b"", table=table, command=command,
                         priority=priority, cookie=cookie)
    return of.message(VERSION, of.FLOW_MOD, body)


class Model:
    """What the switch should have: flows by table and priority, groups by number."""

    def __init__(self, state=None):
        self.flows, self.groups = (dict(state[0]), dict(state[1])) if state else ({}, {})

    def frozen(self):
        return frozenset(self.flows.items()), frozenset(self.groups.items())

    def delete_group(self, group):
        if self.groups.pop(group, None) is not None:
            self.flows = {key: value for key, value in self.flows.items() if value[1] != group}


class Controller:
    def __init__(self, path, rng, model, cookie):
        deadline = time.monotonic() + 60
        while True:
            sock = socket.socket(socket.AF_UNIX)
            try:
                sock.connect(path)
                break
            except OSError:
                sock.close()
                if time.monotonic() > deadline:
                    fail("nobody listens at " + path)
                time.sleep(0.01)
        self.sock, self.rng, self.model, self.cookie = sock, rng, model, cookie
        self.buffer, self.xid = b"", 10
        self.states, self.acked, self.waits, self.errors = [model.frozen()], 0, {}, []
        sock.settimeout(30)
        sock.sendall(of.message(VERSION, of.HELLO, xid=1))
        kind, _, _ = self.receive()
        if kind != of.HELLO:
            fail("no hello, but a message of type %d" % kind)

    def receive(self):
        while True:
            if len(self.buffer) >= 8:
                _, kind, length, xid = struct.unpack("!BBHI", self.buffer[:8])
                if len(self.buffer) >= length:
                    body, self.buffer = self.buffer[8:length], self.buffer[length:]
                    if kind == of.ECHO_REQUEST:
                        self.sock.sendall(of.message(VERSION, of.ECHO_REPLY, body, xid))
                        continue
                    return kind, xid, body
            got = self.sock.recv(1 << 16)
            if not got:
                raise ConnectionError("closed")
            self.buffer += got

    def multipart(self, kind, body):
        self.xid += 1
        self.sock.sendall(of.message(VERSION, MULTIPART, struct.pack("!HH4x", kind, 0) + body, self.xid))
        whole = b""
        while True:
            got, xid, body = self.receive()
            if got == of.ERROR:
                fail("an error: " + body[:64].hex())
            if got == MULTIPART_REPLY and xid == self.xid:
                whole += body[8:]
                if not struct.unpack("!H", body[2:4])[0] & 1:
                    return whole

    def observed(self):
        """What the switch has, in the form of a model's state."""
        flows, groups = {}, {}
        request = struct.pack("!B3xII4xQQ", ALL_TABLES, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0) + of.match13()
        rest = self.multipart(1, request)
        while rest:
            length, table = struct.unpack("!HB", rest[:3])
            priority, = struct.unpack("!H", rest[12:14])
            cookie, = struct.unpack("!Q", rest[24:32])
            body = rest[48 + 8:length]
            # Behind the match: one instruction, one action.
            action, = struct.unpack("!H", body[8:10])
            group = struct.unpack("!I", body[12:16])[0] if action == GROUP_ACTION else None
            flows[(table, priority)] = (cookie, group)
            rest = rest[length:]
        rest = self.multipart(7, b"")
        while rest:
            length, _, group = struct.unpack("!HBxI", rest[:8])
            port, = struct.unpack("!I", rest[28:32])
            groups[group] = port
            rest = rest[length:]
        return frozenset(flows.items()), frozenset(groups.items())

    def listen(self):
        """Takes answers until the connection breaks."""
        try:
            self.sock.settimeout(None)
            while True:
                kind, xid, body = self.receive()
                if kind == of.ERROR:
                    self.errors.append(body[:32].hex())
                elif xid in self.waits:
                    self.acked = max(self.acked, self.waits[xid])
        except OSError:
            pass

    def add(self):
        self.cookie += 1
        table, priority = self.rng.randrange(4), self.rng.randrange(1, 40)
        groups = sorted(self.model.groups)
        group = self.rng.choice(groups) if groups and self.rng.random() < 0.3 else None
        self.model.flows[(table, priority)] = (self.cookie, group)
        return flow_mod(table, priority, self.cookie, group)

    def change(self):
        """One request as bytes; the model changes with it."""
        kind = self.rng.random()
        if kind < 0.6:
            return self.add()
        if kind < 0.7:
            table, priority = self.rng.randrange(4), self.rng.randrange(1, 40)
            self.model.flows.pop((table, priority), None)
            return flow_mod(table, priority, command=4)
        if kind < 0.75:
            table = self.rng.randrange(4)
            self.model.flows = {key: value for key, value in self.model.flows.items() if key[0] != table}
            return flow_mod(table, command=3)
        if kind < 0.9:
            group, port = self.rng.randrange(1, 20), self.rng.randrange(1, 100)
            command = 1 if group in self.model.groups else 0
            self.model.groups[group] = port
            return group_mod(command, group, port)
        group = self.rng.randrange(1, 20)
        self.model.delete_group(group)
        return group_mod(2, group)

    def wait_for(self):
        self.xid += 1
        self.waits[self.xid] = len(self.states) - 1
        return self.xid

    def batch(self):
        """Requests as bytes, a barrier behind them; states are noted."""
        out = b""
        for _ in range(self.rng.randrange(1, 30)):
            if self.rng.random() < 0.1:
                bundle = struct.pack("!I", self.rng.randrange(1 << 31))
                out += of.message(VERSION, BUNDLE_CONTROL, bundle + struct.pack("!HH", 0, 1), 5)
                for _ in range(self.rng.randrange(1, 20)):
                    out += of.message(VERSION, BUNDLE_ADD, bundle + struct.pack("!2xH", 1) + self.renumbered(self.change()), 6)
                self.states.append(self.model.frozen())
                out += of.message(VERSION, BUNDLE_CONTROL, bundle + struct.pack("!HH", 4, 1), self.wait_for())
            else:
                out += self.change()
                self.states.append(self.model.frozen())
        return out + of.message(VERSION, BARRIER, b"", self.wait_for())

    @staticmethod
    def renumbered(message):
        # A message in a bundle has the number of what adds it.
        return message[:4] + struct.pack("!I", 6) + message[8:]


class Switch:
    def __init__(self, folder, persist, sync, log):
        self.folder, self.persist, self.sync, self.log = folder, persist, sync, log
        self.path = os.path.join(folder, "sock")
        self.process = None

    def start(self):
        for name in ("sock", "ctl"):
            try:
                os.unlink(os.path.join(self.folder, name))
            except FileNotFoundError:
                pass
        args = [os.environ["MILLRACE"], "run", "--listen", "punix:" + self.path, "--engine", "interp",
                "--ctl", os.path.join(self.folder, "ctl"), "--persist", self.persist, "--persist-sync", self.sync]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def kills(folder, count, rng, sync):
    log = open(os.path.join(folder, "switch.log"), "w")
    switch = Switch(folder, os.path.join(folder, "kept"), sync, log)
    switch.start()
    controller = Controller(switch.path, rng, Model(), 0)
    changes = lost_tail = 0
    for kill in range(count):
        listener = threading.Thread(target=controller.listen, daemon=True)
        listener.start()
        timer = threading.Timer(rng.random() ** 2 * 0.3, switch.process.send_signal, (signal.SIGKILL,))
        timer.start()
        try:
            while timer.is_alive() or switch.process.poll() is None:
                controller.sock.sendall(controller.batch())
                # Some answers are waited for, so that not all that is sent is still on its way.
                if rng.random() < 0.5:
                    until = time.monotonic() + 0.05
                    while controller.acked < len(controller.states) - 1 and time.monotonic() < until:
                        time.sleep(0.0005)
        except OSError:
            pass
        switch.process.wait()
        listener.join(5)
        controller.sock.close()
        if controller.errors:
            fail("kill %d: the switch refused: %s" % (kill, controller.errors[0]))
        before = controller
        switch.start()
        controller = Controller(switch.path, rng, Model(), before.cookie)
        state = controller.observed()
        good = [at for at in range(before.acked, len(before.states)) if before.states[at] == state]
        if not good:
            earlier = [at for at in range(before.acked) if before.states[at] == state]
            how = "request %d of %d acknowledged is lost" % (earlier[-1] + 1, before.acked) if earlier else \
                "no request left it so: half a change is there"
            fail("kill %d: %s" % (kill, how))
        changes += len(before.states) - 1
        lost_tail += len(before.states) - 1 - good[-1]
        controller.model = Model(state)
        controller.states = [state]
    switch.kill()
    print("  %d kills, %d requests sent, %d behind the last acknowledgement did not come back" %
          (count, changes, lost_tail))
    return changes


def wait_log(path, text, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with open(path) as log:
            if text in log.read():
                return
        time.sleep(0.05)
    fail("the log does not say: " + text)


def full_disk(folder, rng, sync):
    path = os.path.join(folder, "full.log")
    log = open(path, "w")
    small = os.path.join(folder, "small")
    switch = Switch(folder, os.path.join(small, "kept"), sync, log)
    switch.start()
    controller = Controller(switch.path, rng, Model(), 1 << 40)
    listener = threading.Thread(target=controller.listen, daemon=True)
    listener.start()
    controller.sock.sendall(controller.batch())
    ballast = os.path.join(small, "ballast")
    with open(ballast, "wb", buffering=0) as out:
        try:
            while True:
                out.write(bytes(4096))
        except OSError:
            pass
    # Until the page that the log has begun is full, too.
    for _ in range(2000):
        controller.sock.sendall(controller.batch())
        with open(path) as lines:
            if "are not kept over a restart" in lines.read():
                break
    else:
        fail("a full disk goes unnoticed")
    # It goes on.
    wait = len(controller.states)
    controller.sock.sendall(controller.batch())
    deadline = time.monotonic() + 30
    while controller.acked < wait:
        if time.monotonic() > deadline or switch.process.poll() is not None:
            fail("the switch does not go on while the disk is full")
        time.sleep(0.01)
    told = subprocess.run([os.environ["MILLRACE"], "stats", "--ctl", os.path.join(folder, "ctl")],
                          capture_output=True, text=True)
    if "warning: changes are not kept over a restart" not in told.stdout:
        fail("stats does not warn: " + told.stdout[:200])
    time.sleep(2.5)
    with open(path) as lines:
        if lines.read().count("are not kept over a restart") != 1:
            fail("it is not said once")
    os.unlink(ballast)
    wait_log(path, "the disk takes changes again")
    controller.sock.sendall(controller.batch())
    wait = len(controller.states) - 1
    while controller.acked < wait:
        time.sleep(0.005)
    if controller.errors:
        fail("the switch refused: " + controller.errors[0])
    switch.kill()
    switch.start()
    after = Controller(switch.path, rng, Model(), 0)
    if after.observed() != controller.states[-1]:
        fail("what was programmed while the disk was full is not there")
    switch.kill()
    print("  a full disk: told once, and whole again when there was room")


def read_only(folder, sync):
    small = os.path.join(folder, "small")
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    path = os.path.join(folder, "ro.log")
    with open(path, "w") as log:
        switch = Switch(folder, os.path.join(small, "kept"), sync, log)
        switch.start()
        if switch.process.wait(30) == 0:
            fail("a read-only disk is taken")
    with open(path) as lines:
        text = lines.read()
    if "--persist: " not in text or "Read-only file system" not in text:
        fail("a read-only disk is refused without saying so: " + text)
    print("  a read-only disk: refused at the start")


def main(folder, count, seed, sync):
    rng = random.Random(int(seed))
    changes = kills(folder, int(count), rng, sync)
    full_disk(folder, rng, sync)
    read_only(folder, sync)
    print("%s kills among %d requests: nothing acknowledged is lost, nothing is there in part" % (count, changes))


if __name__ == "__main__":
    main(*sys.argv[1:])
