#!/usr/bin/env python3
"""Traffic through a gateway whose members die, and what of it was lost.

server: echoes TCP at port 5000, UDP at port 5001; sends octets without end to who asks by HTTP at port 8000.
client HOSTS LONG NEW PPS MARKS: LONG connections that stay, NEW a second that come and go, PPS datagrams a second, until MARKS.end is there;
    writes what happened as JSON. HOSTS is one address, or two with a comma: then every fifth connection goes to the second. Of those that come
    and go at most NEW are open at once: one that gets less of the processor opens fewer.
sink FILE: reads standard input to its end, and writes there when nothing came for more than 20 ms.
iperf LOG BEGAN FILE: likewise, from a server's lines of iperf3, to 100 ms.
bindings MEMBER...: connections of members as JSON; fails if two have one outside port for different inside ones.
judge RESULT MARKS LOG...: whether anything was lost that must not be, by what the members have logged of their roles; LOG#SHARE is of one share.
    Without logs, as of other programs, by the marks.
result RESULT MARKS [NAME=FILE...]: what each event cost, also of streams that were read.
"""
import asyncio
import datetime
import json
import os
import re
import statistics
import socket
import struct
import sys
import threading
import time

STALLED = 5.0
# On a quiet machine no connection is lost that is older than this. One is quiet if nothing was silent for longer than OWN between events.
YOUNG = 0.05
OWN = 0.02
# Between a connection's being open and its being told, and between two clocks.
BATCH = 0.01


def answered(writer):
    """When the last octets came, whenever this program was run behind it (tcpi_last_data_recv)."""
    info = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return time.time() - struct.unpack_from("I", info, 52)[0] / 1000


async def serve():
    async def echo(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def endless(reader, writer):
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    with open("/proc/net/if_inet6") as known:
        hosts = ["0.0.0.0", "::"] if known.read() else ["0.0.0.0"]
    server = await asyncio.start_server(echo, hosts, 5000, backlog=1024)
    web = await asyncio.start_server(endless, hosts, 8000)

    def datagrams():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("0.0.0.0", 5001))
        while True:
            data, peer = sock.recvfrom(2048)
            sock.sendto(data, peer)

    threading.Thread(target=datagrams, daemon=True).start()
    async with server, web:
        await server.serve_forever()


class Client:
    def __init__(self, hosts, marks):
        self.hosts, self.end, self.begun = hosts, marks + ".end", 0
        self.resets, self.stalls, self.failed = [], [], []
        self.opened = self.messages = self.closed = self.now_open = 0
        self.longest = self.ran = 0.0

    def over(self):
        return os.path.exists(self.end)

    def host(self):
        self.begun += 1
        return self.hosts[self.begun % 5 == 0 and len(self.hosts) > 1]

    async def runs(self):
        """Time in which this program was run: what it has not read while it was not is nobody's fault."""
        while not self.over():
            await asyncio.sleep(0.05)
            self.ran += 0.05

    async def exchange(self, reader, writer, text):
        writer.write(text)
        began, ran = time.time(), self.ran
        while True:
            try:
                got = await asyncio.wait_for(reader.readexactly(len(text)), STALLED)
                break
            except (asyncio.TimeoutError, TimeoutError):
                if self.ran - ran >= STALLED * 0.9 or self.over():
                    raise
        if got != text:
            raise OSError("another echo")
        self.messages += 1
        self.longest = max(self.longest, time.time() - began)

    async def long(self, n):
        reader, writer = await asyncio.open_connection(self.host(), 5000)
        self.opened += 1
        number = 0
        while not self.over():
            number += 1
            try:
                await self.exchange(reader, writer, b"%06d-%06d\n" % (n, number))
            except (asyncio.TimeoutError, TimeoutError):
                self.stalls.append((time.time(), n))
                break
            except (OSError, asyncio.IncompleteReadError) as error:
                self.resets.append((time.time(), n, str(error)))
                break
            await asyncio.sleep(0.15 + (n * 7 + number * 13) % 100 / 1000)
        writer.close()

    async def short(self):
        began, since, ran = time.time(), None, self.ran
        self.now_open += 1
        try:
            opening = asyncio.ensure_future(asyncio.open_connection(self.host(), 5000))
            while not (await asyncio.wait({opening}, timeout=10))[0]:
                if self.ran - ran >= 9:
                    opening.cancel()
                    raise TimeoutError
            reader, writer = opening.result()
            await self.exchange(reader, writer, b"hello\n")
            # Its handshake is over for who has forwarded this, too.
            since = answered(writer)
            await asyncio.sleep(0.1)
            await self.exchange(reader, writer, b"once more\n")
            writer.close()
            self.closed += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, TimeoutError) as error:
            self.failed.append((began, since, time.time(), type(error).__name__))
        finally:
            self.now_open -= 1

    async def run(self, long, new):
        tasks = []
        runs = asyncio.create_task(self.runs())
        for n in range(long):
            tasks.append(asyncio.create_task(self.long(n)))
            if n % 20 == 19:
                await asyncio.sleep(0.02)
        while self.opened < long:
            await asyncio.sleep(0.05)
            for task in tasks:
                if task.done() and task.exception():
                    raise task.exception()
        print("ready", file=sys.stderr, flush=True)
        due = time.time()
        while not self.over():
            due = max(due + 1 / new, time.time() - 0.05)
            if self.now_open < new:
                tasks.append(asyncio.create_task(self.short()))
            await asyncio.sleep(max(0, due - time.time()))
            if len(tasks) > 4000:
                tasks = [task for task in tasks if not task.done()]
        await asyncio.gather(*tasks, runs)


def datagrams(host, pps, end, out):
    """In a process of its own, since it measures time."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((host, 5001))
    sock.setblocking(False)
    gaps, last, sent, got, due, looked = [], time.time(), 0, 0, time.time(), 0
    while True:
        now = time.time()
        if now >= due:
            try:
                sock.send(b"%d" % sent)
                sent += 1
            except OSError:
                pass
            due = max(due + 1 / pps, now - 0.01)
        try:
            while True:
                sock.recv(2048)
                now = time.time()
                if now - last > 0.003:
                    gaps.append((last, now - last))
                last = now
                got += 1
        except OSError:
            pass
        looked += 1
        if looked % 200 == 0 and os.path.exists(end):
            break
        time.sleep(max(0, min(0.0005, due - time.time())))
    json.dump({"sent": sent, "got": got, "gaps": gaps}, open(out, "w"))


def client(hosts, long, new, pps, marks):
    hosts = hosts.split(",")
    out = marks + ".udp"
    child = os.fork()
    if child == 0:
        datagrams(hosts[0], pps, marks + ".end", out)
        os._exit(0)
    at = Client(hosts, marks)
    asyncio.run(at.run(long, new))
    os.waitpid(child, 0)
    print(json.dumps({
        "long": long, "resets": at.resets, "stalls": at.stalls, "failed": at.failed, "closed": at.closed,
        "messages": at.messages, "longest_echo_s": at.longest, "udp": json.load(open(out)),
    }))


def read(result, marks):
    got = json.load(open(result))
    events = []
    for line in open(marks):
        at, what = line.split()
        events.append((float(at), what))
    return got, events


def silences(gaps, events):
    """Of each event the longest silence that began within a second of it, in ms."""
    told = {}
    for at, what in events:
        if what == "done":
            continue
        near = [gap for began, gap in gaps if at - 0.1 <= began <= at + 1.0]
        told.setdefault(what, []).append(round(max(near, default=0) * 1000, 1))
    return told


def sink(out):
    gaps, octets, last = [], 0, time.time()
    while data := os.read(0, 1 << 20):
        now = time.time()
        if now - last > 0.02:
            gaps.append((last, now - last))
        last, octets = now, octets + len(data)
    json.dump({"octets": octets, "gaps": gaps, "ended": last}, open(out, "w"))


def iperf(log, began, out):
    """Of lines such as `[  5]   0.10-0.20   sec   640 KBytes ...`, of who receives."""
    gaps, last, octets = [], 0.0, 0
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    for line in open(log):
        got = re.match(r"\[ *\d+\] +([0-9.]+)-([0-9.]+) +sec +([0-9.]+) ([KMG]?)Bytes ", line)
        if not got or "receiver" in line or "sender" in line or not float(got[3]):
            continue
        begin, end = float(got[1]), float(got[2])
        octets += float(got[3]) * units[got[4]]
        if begin - last > 0.05:
            gaps.append((began + last, begin - last))
        last = end
    json.dump({"octets": octets, "gaps": gaps, "ended": began + last}, open(out, "w"))


def bindings(members):
    """Outside ports that two members have given to different insides, of connections that are translated."""
    given, doubled, count = {}, [], 0
    for name in members:
        for one in json.load(open(name))["connections"]:
            there, back = one["original"], one["reply"]
            # One that closes may have gone at one member, and its port be another's, between the two lists.
            if one.get("state") not in (None, "Established"):
                continue
            inside = (there["src"], there.get("src_port", there.get("icmp_id")))
            outside = (one["protocol"], back["dst"], back.get("dst_port", back.get("icmp_id")), back["src"], back.get("src_port"))
            if inside == outside[1:3]:
                continue
            count += 1
            if given.setdefault(outside, inside) != inside:
                doubled.append((outside, given[outside], inside))
    if doubled:
        print(f"{len(doubled)} outside ports have two insides: {doubled[:3]}")
        return 1
    if not count:
        print("no connection is translated: nothing was compared")
        return 1
    print(f"{count} bindings of {len(members)} members, {len(given)} different, none twice")
    return 0


def roles(logs):
    """What members have logged of their roles: when, who, whether active, and of what is told how old the last was then, in seconds."""
    all = []
    for name in logs:
        name, _, share = name.partition("#")
        for line in open(name):
            got = re.search(r'time=(\S+)Z .*msg="this member is (active|a standby)" share="?([^ "]*)', line)
            if got and got[3] == share:
                at = datetime.datetime.fromisoformat(got[1] + "+00:00").timestamp()
                told = re.search(r" told_us_ago=(\d+)", line)
                all.append((at, name, got[2] == "active", int(told[1]) / 1e6 if told else None))
    return sorted(all, key=lambda role: role[0])


def takeovers(roles, events):
    """Each time that a member went on: when, the event that asked for it, and the times at which a connection may have come to be open and be
    lost: it was not told, or it was the other member's, which had not heard of it yet. Who is cut off hears of it when it no longer is."""
    found = []
    for at, who, active, told in roles:
        # The first of all takes nothing over.
        if not active or told is None:
            continue
        events_before = [(when, what) for when, what in events if what != "done" and at - 3 <= when <= at]
        event = events_before[-1] if events_before else None
        most = 60 if event and event[1] == "cut" else 1
        after = next(((when, goes_on) for when, other, goes_on, _ in roles if other != who and when >= at), None)
        until = after[0] if after and not after[1] and after[0] <= at + most else at
        found.append((at, event, at - told - BATCH, until + YOUNG, told))
    return found


def judge(result, marks, logs):
    got, events = read(result, marks)
    bad = []
    if got["resets"]:
        bad.append(f"{len(got['resets'])} long connections were reset: {got['resets'][:3]}")
    if got["stalls"]:
        bad.append(f"{len(got['stalls'])} long connections were stuck: {got['stalls'][:3]}")
    if got["closed"] < 100:
        bad.append(f"{got['closed']} short connections came and went: nothing was judged")
    went_on = takeovers(roles(logs), events) if logs else by_marks(events)
    asked = [what for _, what in events if what not in ("done", "deaf", "broker", "broker-again")]
    if len(went_on) < len(asked) and not any("#" in log for log in logs):
        bad.append(f"members have logged that they went on {len(went_on)} times, at {len(asked)} events")
    # One that comes while nobody forwards asks again, and must get through; only what was not told may be lost, or was half-open.
    own = longest_own(got["udp"]["gaps"], events)
    lost = []
    for one in got["failed"]:
        began, since, failed, _ = one
        earliest = YOUNG if own < OWN else STALLED
        if not any(begin <= since <= end and at <= failed if since else begin - earliest <= began <= end and begin <= failed
                   for at, _, begin, end, _ in went_on):
            lost.append(one)
    by = {}
    for began, since, failed, _ in lost:
        at, event = next(((at, event) for at, event, _, _, _ in went_on if (since or began) <= at <= failed), (0, None))
        by.setdefault((at, event[1] if event else "no event"), []).append(round(at - since, 3) if since and at else None)
    for (at, what), ages in sorted(by.items()):
        known = [age for age in ages if age is not None]
        bad.append(f"{len(ages)} at {what} ({at:.3f}), {min(known, default=0)} s to {max(known, default=0)} s old")
    if lost:
        bad.append(f"{len(lost)} of {len(got['failed']) + got['closed']} short connections failed: {lost[:3]}")
    # What was not told, before the member died; without a broker nothing is told.
    ages = []
    for at, event, _, _, told in went_on:
        when, what = event or (at, "no event")
        if logs and what not in ("broker", "broker-again", "kill-without-broker", "cut"):
            ages.append(told - (at - when if what in ("kill", "links", "stop") else 0))
    unasked = sum(event is None for _, event, _, _, _ in went_on)
    if ages:
        print(f"went on {len(went_on)} times, {unasked} of them at no event; L {statistics.median(ages) * 1000:.1f} ms in the median, "
              f"{max(ages) * 1000:.1f} ms at most; the bed itself was silent for {own * 1000:.1f} ms at most")
    if ages and own < OWN and max(ages) > YOUNG:
        bad.append(f"on a quiet machine nothing was told for {max(ages):.3f} s before a member went on")
    # From the last answer before the other member went on to the first one after the death.
    across = [max((gap for began, gap in got["udp"]["gaps"] if began <= at and began + gap >= event[0]), default=0.003)
              for at, event, _, _, _ in went_on if event and event[1] == "kill" and at - event[0] < 1]
    if logs and across:
        print(f"killed {len(across)} times: silent across it for {statistics.median(across) * 1000:.1f} ms in the median, {max(across) * 1000:.1f} ms at most")
    for line in bad:
        print(line)
    return 1 if bad else 0


def by_marks(events):
    """The same where nobody logs anything: an event takes until another member has gone on."""
    found = []
    for at, what in events:
        if what != "done":
            found.append([at, (at, what), at - YOUNG, at + YOUNG, None])
        elif found:
            found[-1][3] = at + YOUNG
    return found


def longest_own(gaps, events):
    """The longest silence between events."""
    busy = [(at - 0.1, at + 3) for at, _ in events]
    return max((gap for began, gap in gaps if not any(begin <= began <= end for begin, end in busy)), default=0)


def result(result, marks, streams):
    got, events = read(result, marks)
    udp = got["udp"]
    print(f"{got['long']} long connections, {len(got['resets'])} reset, {len(got['stalls'])} stuck; {got['closed']} short ones, "
          f"{len(got['failed'])} lost; {got['messages']} messages, longest echo {got['longest_echo_s']:.2f} s; "
          f"{udp['sent'] - udp['got']} of {udp['sent']} datagrams lost")
    columns = [("datagrams", udp["gaps"])]
    columns += [(name, json.load(open(file))["gaps"]) for name, file in streams]
    told = [(name, silences(gaps, events)) for name, gaps in columns]
    print("silence in ms, median and longest: " + ", ".join(name for name, _ in columns))
    for what in told[0][1]:
        cells = []
        for _, by in told:
            cells.append(f"{statistics.median(by[what]):6.1f} {max(by[what]):6.1f}")
        print(f"  {what:20} {len(told[0][1][what]):3} times  " + "  |".join(cells))
    # What a stream does by itself: curl reads in bursts.
    cells = [f"       {longest_own(gaps, events) * 1000:6.1f}" for _, gaps in columns]
    print(f"  {'between events':20}            " + "  |".join(cells))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server"]:
            asyncio.run(serve())
        case ["client", hosts, long, new, pps, marks]:
            client(hosts, int(long), int(new), int(pps), marks)
        case ["judge", res, marks, *logs]:
            sys.exit(judge(res, marks, logs))
        case ["result", res, marks, *streams]:
            result(res, marks, [stream.split("=", 1) for stream in streams])
        case ["sink", out]:
            sink(out)
        case ["iperf", log, began, out]:
            iperf(log, float(began), out)
        case ["bindings", *members]:
            sys.exit(bindings(members))
        case _:
            sys.exit(__doc__)
