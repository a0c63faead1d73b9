#!/usr/bin/env python3
"""Traffic through a gateway whose members die, and what of it was lost.

server: echoes TCP at port 5000, UDP at port 5001.
client HOST LONG NEW PPS MARKS: LONG connections that stay, NEW a second that come and go, PPS datagrams a second, until MARKS.end is there;
    writes what happened as JSON.
judge, result RESULT MARKS: whether anything was lost that must not be; a line.
"""
import asyncio
import json
import os
import socket
import sys
import threading
import time

STALLED = 5.0
# A connection that is younger when a member dies may be lost: the claim is for older ones.
YOUNG = 0.05


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

    server = await asyncio.start_server(echo, "0.0.0.0", 5000, backlog=1024)

    def datagrams():
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind(("0.0.0.0", 5001))
        while True:
            data, peer = sock.recvfrom(2048)
            sock.sendto(data, peer)

    threading.Thread(target=datagrams, daemon=True).start()
    async with server:
        await server.serve_forever()


class Client:
    def __init__(self, host, marks):
        self.host, self.end = host, marks + ".end"
        self.resets, self.stalls, self.failed = [], [], []
        self.opened = self.messages = self.closed = 0
        self.longest = 0.0

    def over(self):
        return os.path.exists(self.end)

    async def exchange(self, reader, writer, text):
        writer.write(text)
        began = time.time()
        got = await asyncio.wait_for(reader.readexactly(len(text)), STALLED)
        if got != text:
            raise OSError("another echo")
        self.messages += 1
        self.longest = max(self.longest, time.time() - began)

    async def long(self, n):
        reader, writer = await asyncio.open_connection(self.host, 5000)
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
        began, established = time.time(), None
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(self.host, 5000), 10)
            established = time.time()
            await self.exchange(reader, writer, b"hello\n")
            await asyncio.sleep(0.1)
            await self.exchange(reader, writer, b"once more\n")
            writer.close()
            self.closed += 1
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, TimeoutError) as error:
            self.failed.append((began, established, time.time(), type(error).__name__))

    async def run(self, long, new):
        tasks = []
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
            due += 1 / new
            tasks.append(asyncio.create_task(self.short()))
            await asyncio.sleep(max(0, due - time.time()))
            if len(tasks) > 4000:
                tasks = [task for task in tasks if not task.done()]
        await asyncio.gather(*tasks)


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


def client(host, long, new, pps, marks):
    out = marks + ".udp"
    child = os.fork()
    if child == 0:
        datagrams(host, pps, marks + ".end", out)
        os._exit(0)
    at = Client(host, marks)
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


def silences(got, events):
    """Of each event the longest silence that began within a second of it, in ms."""
    told = {}
    for at, what in events:
        if what == "done":
            continue
        near = [gap for began, gap in got["udp"]["gaps"] if at - 0.1 <= began <= at + 1.0]
        told.setdefault(what, []).append(round(max(near, default=0.003) * 1000, 1))
    return told


def judge(result, marks):
    got, events = read(result, marks)
    bad = []
    if got["resets"]:
        bad.append(f"{len(got['resets'])} long connections were reset: {got['resets'][:3]}")
    if got["stalls"]:
        bad.append(f"{len(got['stalls'])} long connections were stuck: {got['stalls'][:3]}")
    # One that comes while nobody forwards asks again, and must get through; only what was just established may be lost. An event
    # takes until another member has gone on; behind the broker's death what comes is not told until the member dies, 0.2 s later.
    spans = []
    for at, what in events:
        if what != "done":
            spans.append([at - YOUNG, at + YOUNG])
        elif spans:
            spans[-1][1] = at + YOUNG
            if len(spans) > 1 and spans[-1][0] - spans[-2][1] < 0.5:
                spans[-2][1] = at + YOUNG
    lost = [f for f in got["failed"] if f[1] is None or not any(begin <= f[1] <= end for begin, end in spans)]
    if lost:
        bad.append(f"{len(lost)} of {len(got['failed']) + got['closed']} short connections failed: {lost[:3]}")
    for line in bad:
        print(line)
    return 1 if bad else 0


def result(result, marks):
    got, events = read(result, marks)
    told = silences(got, events)
    parts = [f"{what} {'/'.join(str(ms) for ms in all)} ms" for what, all in told.items()]
    udp = got["udp"]
    print(f"{got['long']} long connections, 0 reset, 0 stuck; {got['closed']} short ones, {len(got['failed'])} lost as they began; "
          f"{got['messages']} messages, longest echo {got['longest_echo_s']:.2f} s; {udp['sent'] - udp['got']} of {udp['sent']} "
          f"datagrams lost; silence: {', '.join(parts)}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server"]:
            asyncio.run(serve())
        case ["client", host, long, new, pps, marks]:
            client(host, int(long), int(new), int(pps), marks)
        case ["judge", res, marks]:
            sys.exit(judge(res, marks))
        case ["result", res, marks]:
            result(res, marks)
        case _:
            sys.exit(__doc__)
