"""What conformance/tutorials types in each exercise, and what must come of it."""
import os
import re
import shutil
import subprocess
import sys
import time

import pexpect

PROMPT = "mininet> "
WAIT = 60


class Failed(Exception):
    """Something did not come of what was typed."""


class Exercise:
    """An exercise that runs: `make run` in its folder, with its solution in place."""

    def __init__(self, folder):
        self.folder = folder
        os.chdir(folder)
        self.shell = None
        self.checked = []

    def start(self):
        self.shell = pexpect.spawn("make run", encoding="utf-8", timeout=WAIT, codec_errors="replace", dimensions=(50, 200))
        self.shell.logfile_read = open("session.log", "w")
        try:
            self.shell.expect_exact(PROMPT)
        except (pexpect.EOF, pexpect.TIMEOUT):
            raise Failed("`make run` shows no prompt: " + last_line(self.shell.before)) from None

    def stop(self):
        if self.shell is None:
            return
        self.shell.sendcontrol("c")
        self.shell.sendline("exit")
        try:
            self.shell.expect(pexpect.EOF, timeout=WAIT)
        except pexpect.TIMEOUT:
            pass
        self.shell.close(force=True)

    def type(self, line, wait=WAIT):
        """Types a line at Mininet's prompt; what is said until the next one."""
        self.shell.sendline(line)
        try:
            self.shell.expect_exact(PROMPT, timeout=wait)
        except pexpect.TIMEOUT:
            self.shell.sendcontrol("c")
            self.shell.expect_exact(PROMPT)
            raise Failed(f"`{line}` does not end") from None
        return self.shell.before

    def check(self, what, good, why=""):
        if not good:
            raise Failed(f"{what}: {last_line(why)}")
        self.checked.append(what)

    def pingall(self, what="pingall"):
        said = self.type("pingall")
        self.check(what, "0% dropped" in said and "100% dropped" not in said, said)

    def listen(self, host, program="./receive.py"):
        """Starts a program at a host, which writes to HOST.log."""
        self.type(f"{host} {program} > {host}.log 2>&1 &")
        if "receive" in program:
            self.until(host, "sniffing", 1)
        # The capture begins after that is said.
        time.sleep(1.5)

    def heard(self, host):
        try:
            with open(f"{host}.log", errors="replace") as log:
                return log.read()
        except FileNotFoundError:
            # It has not begun yet.
            return ""

    def until(self, host, text, count, wait=20):
        """Waits until a host's program has said something so often."""
        end = time.monotonic() + wait
        while time.monotonic() < end:
            said = self.heard(host)
            if len(re.findall(text, said)) >= count:
                return said
            time.sleep(0.2)
        raise Failed(f"{host} hears {text!r} {len(re.findall(text, self.heard(host)))} times, not {count}")


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing was said"


def basic(e):
    e.start()
    e.pingall()
    e.listen("h2")
    e.type('h1 ./send.py 10.0.2.2 "P4 is cool"')
    said = e.until("h2", "got a packet", 1)
    e.check("send and receive, ttl 63", "P4 is cool" in said and re.search(r"ttl\s*= 63", said), said)


def basic_tunnel(e):
    e.start()
    e.listen("h2")
    e.type('h1 ./send.py 10.0.2.2 "plain"')
    e.check("plain IP", "plain" in e.until("h2", "got a packet", 1))
    e.type('h1 ./send.py 10.0.2.2 "tunnelled" --dst_id 2')
    e.check("tunnel to h2", "MyTunnel" in e.until("h2", "got a packet", 2))
    e.listen("h3")
    e.type('h1 ./send.py 10.0.2.2 "elsewhere" --dst_id 3')
    said = e.until("h3", "got a packet", 1)
    e.check("tunnel to h3 for h2's address", "10.0.2.2" in said, said)


def controlled(e, expect):
    """The exercise's controller, in a shell of its own."""
    controller = pexpect.spawn("./mycontroller.py", encoding="utf-8", timeout=WAIT, codec_errors="replace")
    controller.logfile_read = open("controller.log", "w")
    try:
        controller.expect(expect)
    except (pexpect.EOF, pexpect.TIMEOUT):
        raise Failed("mycontroller.py: " + last_line(controller.before)) from None
    return controller


def p4runtime(e):
    e.start()
    said = e.type("h1 ping -c 1 -W 1 h2")
    e.check("no program, no reply", "100% packet loss" in said, said)
    controller = controlled(e, "Reading tunnel counters")
    said = e.type("h1 ping -c 3 h2")
    e.check("ping through the tunnel", " 0% packet loss" in said, said)
    try:
        controller.expect(r"s2 MyIngress.egressTunnelCounter 100: [1-9]\d* packets")
    except (pexpect.EOF, pexpect.TIMEOUT):
        raise Failed("the tunnel's counters: " + last_line(controller.before)) from None
    e.checked.append("counters")
    controller.sendcontrol("c")
    controller.close(force=True)


def congested(e):
    """A flow that fills the slow link of ecn and mri."""
    e.type("h22 iperf -s -u > h22.log 2>&1 &")
    time.sleep(1)
    e.type("h11 iperf -c 10.0.2.22 -t 15 -u > h11.log 2>&1 &")
    time.sleep(4)


def ecn(e):
    e.start()
    e.listen("h2")
    e.type('h1 ./send.py 10.0.2.2 "P4 is cool" 2')
    said = e.until("h2", "got a packet", 2)
    e.check("tos 1 on a quiet link", re.search(r"tos\s*= 0x1\b", said), said)
    congested(e)
    e.type('h1 ./send.py 10.0.2.2 "P4 is cool" 5')
    # What is sent waits behind the flow.
    e.until("h2", r"tos\s*= 0x3", 1, 60)
    e.checked.append("tos 3 on a full link")


def mri(e):
    e.start()
    e.listen("h2")
    e.type('h1 ./send.py 10.0.2.2 "P4 is cool" 2')
    said = e.until("h2", "got a packet", 2)
    e.check("two switches' traces", re.findall(r"swid\s*= (\d+)", said)[:2] == ["2", "1"], said)
    congested(e)
    e.type('h1 ./send.py 10.0.2.2 "P4 is cool" 5')
    e.until("h2", r"qdepth\s*= [1-9]", 1, 60)
    e.checked.append("a queue's depth on a full link")


def source_routing(e):
    e.start()
    e.listen("h2")
    routes = ["2 3 2 2 1", "2 1"]
    with open("asked", "w") as lines:
        lines.writelines(f"{line}\n" for line in [*routes, "q"])
    e.type("h1 ./send.py 10.0.2.2 < asked > sent.log 2>&1")
    said = e.until("h2", "got a packet", len(routes))
    ttls = re.findall(r"ttl\s*= (\d+)", said)
    for route, ttl in zip(routes, ttls, strict=True):
        left = 64 - len(route.split())
        e.check(f"route {route}, ttl {left}", ttl == str(left), f"ttl {ttl}")


def calc(e):
    e.start()
    asked = [("1+1", 2), ("7-5", 2), ("12&10", 8), ("12|3", 15), ("15^5", 10), ("4294967295+2", 1)]
    with open("asked", "w") as lines:
        lines.writelines(f"{line}\n" for line, _ in asked)
        lines.write("quit\n")
    e.type("h1 python calc.py < asked > answered 2>&1")
    with open("answered") as answered:
        said = answered.read()
    for line, answer in asked:
        # The program repeats what it was asked.
        e.check(line, f"> {line}\n{answer}\n" in said, said)


def load_balance(e):
    e.start()
    e.listen("h2")
    e.listen("h3")
    sent = 24
    for _ in range(sent):
        e.type('h1 ./send.py 10.0.0.1 "P4 is cool"')
    time.sleep(1)
    heard = [len(re.findall("got a packet", e.heard(host))) for host in ("h2", "h3")]
    e.check(f"{sent} flows to both servers", sum(heard) == sent and min(heard) > 0, f"{heard} of {sent}")


def qos(e):
    e.start()
    e.listen("h2")
    e.type('h1 ./send.py --p=UDP --des=10.0.2.2 --m="P4 is cool" --dur=2')
    said = e.until("h2", "got a packet", 2)
    e.check("UDP has tos 0xb9", re.search(r"tos\s*= 0xb9", said), said)
    e.type('h1 ./send.py --p=TCP --des=10.0.2.2 --m="P4 is cool" --dur=2')
    said = e.until("h2", r"tos\s*= 0xb1", 2)
    e.check("TCP has tos 0xb1", True)


def multicast(e):
    e.start()
    e.pingall("pingall by flooded ARP")


def firewall(e):
    e.start()
    # As Mininet's own `iperf SOURCE OTHER`, which waits for a line that newer versions of iperf leave out.
    for number in (1, 2, 3, 4):
        e.type(f"h{number} iperf -s > h{number}.log 2>&1 &")
    time.sleep(1)
    for source, other in ((1, 2), (1, 3), (3, 4)):
        said = e.type(f"h{source} timeout -s KILL 20 iperf -c 10.0.{other}.{other} -t 2")
        e.check(f"h{source} to h{other}", "bits/sec" in said, said)
    said = e.type("h3 timeout -s KILL 5 iperf -c 10.0.1.1 -t 1")
    e.check("h3 cannot connect to h1", "bits/sec" not in said, said)


def link_monitor(e):
    e.start()
    e.type("h1 ./send.py > sent.log 2>&1 &")
    e.listen("h1")
    said = e.until("h1", "Switch 1 - Port 1", 2)
    ports = re.findall(r"Switch (\d) - Port (\d)", said)
    e.check("a probe's way over all links", len(set(ports)) >= 9 or len(set(ports)) == 8, str(ports[:9]))
    e.type("h4 iperf -s > h4.log 2>&1 &")
    time.sleep(1)
    # Slow enough for what listens at h1 to see the probes among the flow's answers.
    e.type("h1 iperf -c 10.0.4.4 -t 6 -b 5M > flow.log 2>&1")
    rates = [float(rate) for rate in re.findall(r"Switch 1 - Port 4: ([\d.e+-]+) Mbps", e.heard("h1"))]
    e.check("the link's utilisation under iperf", max(rates) > 0.1, f"{max(rates, default=0)} Mb/s at most")


def flowcache(e):
    e.start()
    said = e.type("h1 ping -c 1 -W 1 h2")
    e.check("no program, no reply", "100% packet loss" in said, said)
    controller = controlled(e, "Installed P4 Program using SetForwardingPipelineConfig on s3")
    time.sleep(1)
    e.type("h2 timeout 30 tcpdump -e -l -n -i eth0 icmp > h2.log 2>&1 &")
    e.until("h2", "listening on", 1)
    said = e.type("h1 ping -c 6 h2")
    # What the controller has said so far goes to its log.
    controller.expect(pexpect.TIMEOUT, timeout=1)
    # The exercise's program gives only cached flows the host's MAC address. What the controller sends out keeps that of the
    # sender's gateway, so a host drops it: the first request, and the first reply, which is that to the second request.
    arrived = re.findall(r"> ([0-9a-f:]{17}), .*echo request, .*seq (\d+)", e.heard("h2"))
    e.check("the first request by packet-out, as it is", ("08:00:00:00:01:00", "1") in arrived, f"{arrived}")
    e.check("the second request by the cached flow", ("08:00:00:00:02:22", "2") in arrived, f"{arrived}")
    replies = re.findall(r"icmp_seq=(\d+) ttl=62", said)
    e.check("replies from the third on", replies == ["3", "4", "5", "6"], said)
    try:
        if "Deleted flow_cache entry" not in (controller.before or ""):
            controller.expect("Deleted flow_cache entry", timeout=30)
    except (pexpect.EOF, pexpect.TIMEOUT):
        raise Failed("no idle flow is told of: " + last_line(controller.before)) from None
    e.checked.append("an idle flow is told of, and deleted")
    controller.sendcontrol("c")
    controller.close(force=True)


ALL = [basic, basic_tunnel, calc, ecn, firewall, flowcache, link_monitor, load_balance, mri, multicast, p4runtime, qos, source_routing]


def solve(folder):
    """Puts an exercise's solution in place, as its README says."""
    for root, _, files in os.walk(os.path.join(folder, "solution")):
        for name in files:
            into = folder
            if name.endswith("-runtime.json"):
                # Beside the one that it replaces.
                into = next((r for r, _, f in os.walk(folder) if name in f and "solution" not in r), folder)
            shutil.copy(os.path.join(root, name), os.path.join(into, name))


def main():
    exercises, names = sys.argv[1], sys.argv[2:]
    unknown = set(names) - {case.__name__ for case in ALL}
    if unknown:
        sys.exit(f"there is no exercise {', '.join(sorted(unknown))}")
    passed = count = 0
    for case in ALL:
        if names and case.__name__ not in names:
            continue
        count += 1
        folder = os.path.join(exercises, case.__name__)
        solve(folder)
        exercise = Exercise(folder)
        try:
            case(exercise)
            passed += 1
            print(f"pass {case.__name__}: {'; '.join(exercise.checked)}")
        except (Failed, pexpect.ExceptionPexpect, OSError) as error:
            done = f" (good before: {'; '.join(exercise.checked)})" if exercise.checked else ""
            text = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {last_line(exercise.shell.before or '')}"
            print(f"FAIL {case.__name__}: {text}{done}")
        finally:
            exercise.stop()
            subprocess.run(["mn", "-c"], capture_output=True, check=False)
        sys.stdout.flush()
    print(f"{passed} of {count}")
    sys.exit(passed != count)


main()
