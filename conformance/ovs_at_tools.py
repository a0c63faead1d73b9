#!/usr/bin/env python3
"""What Open vSwitch's own tests call while `conformance/ovs_at` runs them, with millrace as the switch.

Linked under the names of Open vSwitch's commands into a folder that stands first in PATH; the name says which one it is:

    ovs-vswitchd   millrace vswitchd, without options for dummy devices and for modules of the log
    ovs-vsctl      Open vSwitch's own; `dummy` devices become TAPs, and the dummy datapath `netdev`;
                   links of new TAPs are waited for
    ovs-appctl     Open vSwitch's own. A packet written as the dummy datapath writes it (`in_port(1),eth(...)`) becomes one
                   in `ovs-ofctl`'s words, or real bytes at the TAP; `time/warp` waits as long as it says

What cannot be put into other words ends with status 2 and a line on standard error.
"""
import json
import os
import re
import socket
import subprocess
import sys
import time

# The dummy datapath's number of a bridge's own port.
LOCAL_BELOW, LOCAL = 100, 65534
# How long links of TAPs take to be noticed, in seconds.
LINK_S = 0.5
# The longest wait for `time/warp`, in seconds.
WARP_MAX = 60.0


class Untranslatable(Exception):
    pass


def own(name):
    """Open vSwitch's command of this name."""
    here = os.path.dirname(os.path.abspath(sys.argv[0]))
    for folder in os.environ["PATH"].split(":") + ["/usr/sbin", "/sbin"]:
        path = os.path.join(folder, name)
        if os.path.abspath(folder) != here and os.access(path, os.X_OK):
            return path
    sys.exit(f"{name}: not there")


def vswitchd(words):
    # The log's modules are Open vSwitch's own.
    left = re.compile(r"--enable-dummy(=.*)?$|--disable-system(-route)?$|-v(vconn|ofproto_dpif|unixctl)$")
    os.execv(os.environ["MILLRACE"], ["ovs-vswitchd", *(word for word in words if not left.match(word))])


def vsctl(words):
    words = [re.sub(r"^(datapath[-_]type)=dummy$", r"\1=netdev", word) for word in words]
    words = [re.sub(r"^type=\"?dummy(-internal)?\"?$", "type=tap", word) for word in words]
    if not {"add-port", "add-bond"} & set(words):
        os.execv(own("ovs-vsctl"), ["ovs-vsctl", *words])
    done = subprocess.run([own("ovs-vsctl"), *words]).returncode
    # A dummy device is up at once; the link of a TAP is noticed a moment after ovs-vsctl returns.
    time.sleep(LINK_S)
    sys.exit(done)


def keys(text):
    """`eth(src=1,dst=2),eth_type(3),encap(...)` as pairs; what is in parentheses stays text."""
    pairs, at = [], 0
    while at < len(text):
        found = re.compile(r"\s*,?\s*([a-z0-9_]+)\(").match(text, at)
        if not found:
            raise Untranslatable(f"{text[at:]!r} is no flow of a datapath")
        depth, end = 1, found.end()
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        pairs.append((found[1], text[found.end():end - 1]))
        at = end
        while at < len(text) and text[at] in ", ":
            at += 1
    return pairs


NAMES = {
    "eth": {"src": "dl_src", "dst": "dl_dst"},
    "ipv4": {"src": "nw_src", "dst": "nw_dst", "proto": "nw_proto", "tos": "nw_tos", "ttl": "nw_ttl"},
    "ipv6": {"src": "ipv6_src", "dst": "ipv6_dst", "proto": "nw_proto", "tclass": "nw_tos", "hlimit": "nw_ttl", "label": "ipv6_label"},
    "arp": {"sip": "arp_spa", "tip": "arp_tpa", "op": "arp_op", "sha": "arp_sha", "tha": "arp_tha"},
    "tcp": {"src": "tcp_src", "dst": "tcp_dst"},
    "udp": {"src": "udp_src", "dst": "udp_dst"},
    "sctp": {"src": "sctp_src", "dst": "sctp_dst"},
    "icmp": {"type": "icmp_type", "code": "icmp_code"},
    "icmpv6": {"type": "icmp_type", "code": "icmp_code"},
}


def openflow(text):
    """A datapath's flow in ovs-ofctl's words, the number of the port that it comes in by, and its tags."""
    words, port, tags = [], None, []
    kind = 0
    if not text.strip().startswith(tuple(list(NAMES) + ["in_port", "recirc_id", "skb_", "packet_type", "eth", "vlan", "ct_"])):
        raise Untranslatable(f"{text!r} is no flow of a datapath")

    def walk(text):
        nonlocal port, kind
        for name, value in keys(text):
            fields = dict(field.split("=", 1) for field in re.findall(r"[^,()]+=[^,()]+", value))
            if name == "in_port":
                port = value.strip()
            elif name == "eth_type":
                kind = int(value.split("/")[0], 0)
                if kind not in (0x8100, 0x88a8):
                    words.append(f"dl_type={kind:#06x}")
            elif name == "vlan":
                if int(fields.get("cfi", "1"), 0) == 0:
                    raise Untranslatable("a tag without CFI")
                tags.append((kind, int(fields.get("vid", "0"), 0) | int(fields.get("pcp", "0"), 0) << 13))
            elif name == "encap":
                walk(value)
            elif name in NAMES:
                for field, of in fields.items():
                    if field == "frag" and of == "no":
                        continue
                    known = NAMES[name].get(field)
                    if known is None:
                        raise Untranslatable(f"{name}({field}=...)")
                    if field in ("tos", "tclass", "ttl", "hlimit", "proto", "op") and of.startswith("0x"):
                        of = str(int(of, 16))
                    words.append(f"{known}={of}")
            elif name in ("packet_type", "recirc_id", "dp_hash", "skb_priority", "skb_mark", "tcp_flags") or name.startswith("ct_"):
                if re.search(r"[1-9a-f]", re.sub(r"0x|ns=|id=", "", value)) and name != "tcp_flags":
                    raise Untranslatable(f"{name}({value})")
            else:
                raise Untranslatable(f"{name}({value})")

    walk(text)
    if port is None:
        raise Untranslatable("a flow without in_port")
    return words, port, tags


def run(name, *words):
    done = subprocess.run([own(name), *words], capture_output=True, text=True)
    if done.returncode:
        raise Untranslatable(f"{name} {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def place(port):
    """Bridge, number there, and interface of a port by the dummy datapath's number or by name."""
    local = port.isdigit() and LOCAL_BELOW <= int(port) < 2 * LOCAL_BELOW
    name = f"br{int(port) - LOCAL_BELOW}" if local else port if not port.isdigit() else f"p{port}"
    bridge = run("ovs-vsctl", "iface-to-br", name) if not name.startswith("br") else name
    return bridge, run("ovs-vsctl", "get", "Interface", name, "ofport"), name


def below(bridge):
    """The dummy datapath's numbers of a bridge's interfaces, by the bridge's own: those of names p1, p2, br0 and so on."""
    rows = json.loads(run("ovs-vsctl", "--format=json", "--columns=name,ofport", "list", "Interface"))["data"]
    own = [bridge, *run("ovs-vsctl", "list-ifaces", bridge).split()]
    numbers = {}
    for name, number in rows:
        found = re.fullmatch(r"(p|br)(\d+)", name)
        if name in own and found and isinstance(number, int):
            numbers[str(number)] = str(int(found[2]) + (LOCAL_BELOW if found[1] == "br" else 0))
    return numbers


def packet(text):
    """Bytes of a packet: hexadecimal digits, or a flow."""
    if re.fullmatch(r"[0-9a-fA-F\s]+", text):
        return bytes.fromhex(text)
    words, _, tags = openflow(text if "in_port(" in text else f"in_port(1),{text}")
    # A line has its offset, and up to 16 octets.
    lines = run("ovs-ofctl", "compose-packet", ",".join(words)).splitlines()
    data = bytes.fromhex("".join(re.sub(r"[\s-]", "", line[9:58]) for line in lines))
    return data[:12] + b"".join(kind.to_bytes(2, "big") + tci.to_bytes(2, "big") for kind, tci in tags) + data[12:]


def inject(interface, data):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        out.send(data.ljust(60, b"\0"))


def trace(words):
    """`ofproto/trace ovs-dummy FLOW [-generate] [PACKET]`, as a trace of the bridge that has the port."""
    generate = [word for word in words if word in ("-generate", "--generate")]
    words = [word for word in words if word not in generate]
    if words and words[0] in ("ovs-dummy", "dummy@ovs-dummy"):
        words = words[1:]
    elif len(words) < 2 or "(" not in words[1]:
        return show(words[0], ["ofproto/trace", *words, *generate]) if words[:1] in bridges() else None
    else:
        words = words[1:]
    flow, port, tags = openflow(words[0])
    bridge, number, interface = place(port)
    # Two tags have no words.
    if len(tags) == 1:
        flow += [f"dl_vlan={tags[0][1] & 0xfff}", f"dl_vlan_pcp={tags[0][1] >> 13}"]
    elif tags and len(words) == 1:
        flow, words = [], [words[0], packet(words[0]).hex()]
    asked = ["ofproto/trace", bridge, ",".join([f"in_port={number}", *flow]), *words[1:]]
    status = show(bridge, asked)
    if generate and not status:
        inject(interface, packet(words[0]))
        time.sleep(0.1)
    return status


def bridges():
    """Names of bridges, each as the first of some words."""
    return [[name] for name in run("ovs-vsctl", "list-br").split()]


def show(bridge, asked):
    """Asks ovs-appctl for a trace, and prints it with the dummy datapath's numbers."""
    done = subprocess.run([own("ovs-appctl"), *asked], capture_output=True, text=True)
    numbers = below(bridge)

    def outputs(line):
        # Numbers that stand alone are ports.
        parts = re.split(r"(\([^()]*(?:\([^()]*\)[^()]*)*\))", line)
        return "".join(part if part.startswith("(") else re.sub(r"(?<![\w(])\d+(?!\w)", lambda n: numbers.get(n[0], n[0]), part)
                       for part in parts)

    head = "Datapath actions: "
    told = "".join(head + outputs(line[len(head):]) if line.startswith(head) else line
                   for line in done.stdout.splitlines(keepends=True))
    sys.stdout.write(told)
    sys.stderr.write(done.stderr)
    return done.returncode


def appctl(words):
    rest = [word for word in words if not word.startswith("--timeout")]
    command = rest[0] if rest else ""
    if command == "time/stop":
        return 0
    if command == "time/warp":
        time.sleep(min(int(rest[1]) / 1000, WARP_MAX))
        print("warped")
        return 0
    if command == "netdev-dummy/receive":
        if len(rest) > 3 and rest[3] != "--len":
            raise Untranslatable("several packets at once")
        for text in rest[2:3]:
            data = packet(text)
            inject(rest[1], data.ljust(int(rest[4]), b"\0") if len(rest) > 4 else data)
        time.sleep(0.1)
        return 0
    if command.startswith("netdev-dummy/set-admin-state"):
        # Without a name, of all devices.
        all_of = [name for name in os.listdir("/sys/class/net") if re.fullmatch(r"p[0-9]+", name)]
        for name in rest[1:2] if len(rest) > 2 else all_of:
            subprocess.run(["ip", "link", "set", name, rest[-1]], check=True)
        time.sleep(0.6)
        print("OK")
        return 0
    if command == "ofproto/trace":
        done = trace(rest[1:])
        if done is not None:
            return done
    os.execv(own("ovs-appctl"), ["ovs-appctl", *words])


def main():
    name = os.path.basename(sys.argv[0])
    try:
        sys.exit({"ovs-vswitchd": vswitchd, "ovs-vsctl": vsctl, "ovs-appctl": appctl}[name](sys.argv[1:]))
    except Untranslatable as what:
        print(f"untranslatable: {what}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
