"""What conformance/faucet_mininet adds to the suites' runner of Faucet's Mininet tests, in memory, before they start:

- checksums are made by the hosts' kernel. The patch panel is an Open vSwitch on packet sockets, which hands frames on
  as it reads them; a host that leaves checksums to its interface (veth has no hardware, and tells the reading kernel
  "not yet made") then sends segments that no one takes, and no TCP connection comes about, by any switch;
- hosts on tagged VLANs where the kernel has no 802.1Q interfaces: a tap and a process that tags and untags;
- /run is empty, and /var/tmp is in the work folder: each of Mininet's hosts copies /run twice. Only root may write to
  /run, as everywhere, or ladvd, which sends CDP and LLDP for some tests, does not start.

The environment names the folder of temporary files (FAUCET_TMP) and the runners' vlan_shim.py (VLAN_SHIM).
"""
import os
import re
import subprocess
import sys

os.makedirs(os.environ['FAUCET_TMP'], exist_ok=True)
# In a mount namespace of our own.
subprocess.check_call(['mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run'])
subprocess.check_call(['mount', '--bind', os.environ['FAUCET_TMP'], '/var/tmp'])

from clib import mininet_test_topo as topo                  # noqa: E402

link_init = topo.FaucetLink.__init__


def link_with_checksums(self, *args, **params):
    link_init(self, *args, **params)
    for intf in (self.intf1, self.intf2):
        intf.node.cmd('ethtool -K %s tx off >/dev/null 2>&1; true' % intf.name)


topo.FaucetLink.__init__ = link_with_checksums

VLAN = re.compile(r'(?:ip (?:-\d )?)?link add link (\S+) name (\S+) type vlan id (\d+)$')
run_ip_batch = topo.FaucetHost.run_ip_batch
terminate = topo.FaucetHost.terminate
cmd_of_host = topo.FaucetHost.cmd


def has_vlans():
    """Whether the kernel makes 802.1Q interfaces; asked in a namespace of its own."""
    ask = 'ip link add a type veth peer name b && ip link add link a name a.5 type vlan id 5'
    return subprocess.call(['unshare', '-n', 'sh', '-c', ask], stderr=subprocess.DEVNULL) == 0


def vlan(self, root, name, vid):
    """Makes the interface; what gives it its parent's address is left to do."""
    process = self.popen([sys.executable, os.environ['VLAN_SHIM'], root, name, vid])
    self.shims = getattr(self, 'shims', []) + [process]
    assert process.stdout.readline().strip() == b'ready', (root, name, vid)
    mac = cmd_of_host(self, 'cat /sys/class/net/%s/address' % root).strip()
    return 'link set dev %s address %s' % (name, mac)


def batch_with_vlans(self, cmds):
    asked = [(cmd, VLAN.match(cmd)) for cmd in cmds]
    run_ip_batch(self, [vlan(self, *to_make.groups()) if to_make else cmd for cmd, to_make in asked])


def cmd_with_vlans(self, *args, **kwargs):
    to_make = VLAN.match(args[0]) if len(args) == 1 and isinstance(args[0], str) else None
    if to_make:
        args = ['ip ' + vlan(self, *to_make.groups())]
    return cmd_of_host(self, *args, **kwargs)


def terminate_with_vlans(self):
    for process in getattr(self, 'shims', []):
        process.kill()
        process.wait()
    self.shims = []
    terminate(self)


if not has_vlans():
    topo.FaucetHost.run_ip_batch = batch_with_vlans
    topo.FaucetHost.cmd = cmd_with_vlans
    topo.FaucetHost.terminate = terminate_with_vlans
