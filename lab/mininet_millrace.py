"""millrace as a Mininet switch.

    sudo mn --custom lab/mininet_millrace.py --switch millrace --topo tree,2 --test pingall --controller none
    sudo mn --custom lab/mininet_millrace.py --switch millrace --topo linear,4 --controller remote,port=6653

Each switch is one `millrace run` with its ports as af_packet ports, numbered as Mininet numbers them. With no controller it
learns (fail mode standalone); with one it is programmed by it. `dpctl` in Mininet's command line runs ovs-ofctl, e.g.
`dpctl dump-flows`. `sh millrace trace in_port=1,icmp --ctl /run/s1.ctl` asks switch s1. Options: `--switch millrace,protocols=OpenFlow10,fail_mode=secure,port=af_xdp`.
The binary is $MILLRACE, else `millrace` on the PATH, else target/release/millrace beside this folder.
Links added or removed at run time restart the switch, since `millrace run` takes its ports at start; its flows then come
from the controller again.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import time

from mininet.link import Intf
from mininet.log import error, warn
from mininet.node import Switch
from mininet.util import quietRun

READY_SECONDS = 10


def binary():
    here = os.path.dirname(os.path.abspath(binary.__code__.co_filename))     # mn sets no __file__
    beside = os.path.join(here, "..", "target", "release", "millrace")
    return os.environ.get("MILLRACE") or shutil.which("millrace") or beside


class MillraceSwitch(Switch):
    """A millrace process in the root namespace (or, with inNamespace, in its own)."""

    dpidLen = 16
    _listen_port = 16653     # the first of the ports at which switches listen, when Mininet gives none

    def __init__(self, name, protocols="OpenFlow10,OpenFlow13", fail_mode="standalone", port="af_packet", options="",
                 **kwargs):
        super().__init__(name, **kwargs)
        self.protocols, self.fail_mode, self.kind = protocols, fail_mode, port
        self.options = options.split() + self.opts.split()
        self.process, self.controllers, self.dir = None, [], None
        self.ctl = "/run/%s.ctl" % name      # what `millrace trace --ctl` asks
        if not self.listenPort:
            self.listenPort = MillraceSwitch._listen_port
            MillraceSwitch._listen_port += 1

    @classmethod
    def setup(cls):
        if not os.access(binary(), os.X_OK):
            error("millrace is not there: %s (set MILLRACE)\n" % binary())
            raise SystemExit(1)

    def command(self):
        args = [binary(), "run", "--datapath-id", self.dpid, "--protocols", self.protocols,
                "--fail-mode", self.fail_mode, "--listen", "ptcp:%d" % self.listenPort,
                "--ctl", self.ctl]
        for number, intf in sorted(self.intfs.items()):
            if intf.name != "lo" and number > 0:
                args += ["--port", "%s:%d=%s:%s" % (intf.name, number, self.kind, intf.name)]
        for c in self.controllers:
            args += ["--controller", "%s:%s:%d" % (getattr(c, "protocol", None) or "tcp", c.IP(), c.port)]
        return args + self.options

    def start(self, controllers):
        self.controllers = [c for c in controllers if c is not None]
        self.run()

    def run(self):
        self.dir = self.dir or tempfile.mkdtemp(prefix="millrace-%s-" % self.name)
        log = os.path.join(self.dir, "log")
        for intf in self.intfList():
            if intf.name != "lo":
                intf.ifconfig("up")
        with open(log, "wb") as f:
            self.process = self.popen(self.command(), stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT)
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            with open(log, errors="replace") as f:
                text = f.read()
            if "millrace: ready" in text:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        error("%s: millrace did not become ready: %s\n" % (self.name, text[-500:]))

    def end(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def stop(self, deleteIntfs=True):
        self.end()
        if self.dir:
            shutil.rmtree(self.dir, ignore_errors=True)
            self.dir = None
        super().stop(deleteIntfs)

    def restart(self):
        if self.process is not None:
            self.end()
            self.run()

    def attach(self, intf):
        "Takes in an interface that was added after the start: one of a new link, or a name."
        if str(intf) not in self.nameToIntf:
            Intf(str(intf), node=self)
        self.restart()

    def detach(self, intf):
        "Lets go of an interface; its link may be deleted afterwards."
        intf = self.nameToIntf.get(str(intf))
        if intf is not None:
            self.delIntf(intf)
            self.restart()

    def dpctl(self, *args):
        "ovs-ofctl against this switch: `dpctl dump-flows`."
        if not shutil.which("ovs-ofctl"):
            warn("dpctl needs ovs-ofctl\n")
            return ""
        version = self.protocols.split(",")[-1]
        words = list(args) or ["show"]
        words.insert(1, "tcp:127.0.0.1:%d" % self.listenPort)
        run = self.cmd if self.inNamespace else quietRun
        return run("ovs-ofctl -O %s %s" % (version, " ".join(words)))

    def connected(self):
        "Whether it forwards; millrace connects to its controllers by itself."
        return self.process is not None and self.process.poll() is None


switches = {"millrace": MillraceSwitch}
