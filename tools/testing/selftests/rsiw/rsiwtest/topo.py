# SPDX-License-Identifier: GPL-2.0
"""The network under test.

Two network namespaces joined by a veth pair (MTU 1500, IPv4 and IPv6) with
one device in each: the path "wire". One device on `lo`, with addresses of its
own there: the path "loopback" (127.0.0.1 is special to rdma_cm, which listens
on all devices for it).
"""

import contextlib
import json
import os
import stat
import subprocess

from .core import Fail

NS_A, NS_B = "rsiw-a", "rsiw-b"
IF_A, IF_B = "veth_a", "veth_b"
A4, B4 = "10.77.0.1", "10.77.0.2"
A6, B6 = "fd77::1", "fd77::2"
LO4, LO6 = "10.78.0.1", "fd78::1"
DEVICES = "/sys/class/infiniband"


@contextlib.contextmanager
def inside(netns):
    """This process is in a network namespace for a while."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open("/run/netns/" + netns, os.O_RDONLY)
    try:
        os.setns(there, os.CLONE_NEWNET)
        yield
    finally:
        os.setns(here, os.CLONE_NEWNET)
        os.close(here)
        os.close(there)


class Path:
    """Where the two ends of a test are, and how they reach each other."""

    def __init__(self, name, server_ns, client_ns, server_dev, client_dev,
                 addr4, addr6, client4):
        self.name = name
        self.server_ns, self.client_ns = server_ns, client_ns
        self.server_dev, self.client_dev = server_dev, client_dev
        self.addr4, self.addr6 = addr4, addr6
        self.client4 = client4

    def args(self):
        """For the C programs, which do both sides themselves."""
        argv = ["--addr", self.addr4]
        if self.server_ns:
            argv += ["--server-netns", self.server_ns]
        if self.client_ns:
            argv += ["--client-netns", self.client_ns]
        return argv


# How many times as long all takes here; the runner says so.
slow = 1


def sh(*argv, netns=None, check=True, timeout=30):
    """A short administrative command; returns its output."""
    if netns:
        argv = ("ip", "netns", "exec", netns) + argv
    try:
        done = subprocess.run(argv, capture_output=True, text=True,
                              timeout=timeout * slow, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Fail("'%s' hangs" % " ".join(argv)) from None
    if check and done.returncode:
        raise Fail("'%s' ends with status %d: %s" % (
            " ".join(argv), done.returncode,
            (done.stderr + done.stdout).strip()))
    return done.stdout


def status(*argv, timeout=30):
    """Exit status of a command, and all it said."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True,
                              timeout=timeout * slow, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        raise Fail("'%s' hangs" % " ".join(argv)) from None
    return done.returncode, done.stdout + done.stderr


def devices(netns=None):
    """Names of the devices that a namespace sees.

    They are not from `rdma`, which reads the names and then asks about each: it fails
    for a device that goes in between.
    """
    return set(sh("ls", DEVICES, netns=netns, check=False).split())


def objects(kind=None, netns=None, details=False, who=(), timeout=30):
    """What `rdma resource show` tells of the objects of a kind, or of their numbers for
    each device. `who` is a command that runs it.

    It fails for a device that goes in between, as `devices` says, and is asked again as
    often as there are devices that can go.
    """
    argv = ["rdma", "-jdd" if details else "-j", "resource", "show"]
    argv += [kind] if kind else []
    can_go = len(devices(netns))
    while True:
        try:
            return json.loads(sh(*who, *argv, netns=netns, timeout=timeout) or "[]")
        except Fail:
            if not can_go:
                raise
            can_go -= 1


def pace(netns=None):
    """Has TCP send many segments at a time where all takes long. It would send two,
    as it goes by the pace of the connection, and each time costs a debugging kernel
    milliseconds: what is slow would be slower still."""
    if slow > 1:
        sh("sysctl", "-qw", "net.ipv4.tcp_min_tso_segs=44", netns=netns)


def make_nodes():
    """The character devices, where neither devtmpfs nor udev made them."""
    os.makedirs("/dev/infiniband", exist_ok=True)
    nodes = []
    for cls in ("infiniband_verbs", "misc"):
        base = "/sys/class/" + cls
        if os.path.isdir(base):
            nodes += [os.path.join(base, n) for n in os.listdir(base)
                      if n.startswith("uverbs") or n == "rdma_cm"]
    for path in nodes:
        node = "/dev/infiniband/" + os.path.basename(path)
        try:
            with open(path + "/dev") as f:
                major, minor = map(int, f.read().split(":"))
            try:
                if os.stat(node).st_rdev == os.makedev(major, minor):
                    continue
                os.unlink(node)
            except FileNotFoundError:
                pass
            os.mknod(node, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        except OSError:
            continue


@contextlib.contextmanager
def long_way(how):
    """Within, the wire takes time, or loses packets, in both directions: `how` as netem has it."""
    ends = (IF_A, NS_A), (IF_B, NS_B)
    for netdev, netns in ends:
        sh("tc", "qdisc", "replace", "dev", netdev, "root", "netem", "limit", "100000",
           *how, netns=netns)
    try:
        yield
    finally:
        for netdev, netns in ends:
            sh("tc", "qdisc", "del", "dev", netdev, "root", netns=netns)


class Topology:
    """Sets the network up once and again after a test has changed it."""

    def __init__(self, link_type):
        self.type = link_type
        self.dev_a = link_type + "_a"
        self.dev_b = link_type + "_b"
        self.dev_lo = link_type + "_lo"
        self.wire = Path("wire", NS_A, NS_B, self.dev_a, self.dev_b,
                         A4, A6, B4)
        self.loopback = Path("loopback", None, None, self.dev_lo, self.dev_lo,
                             LO4, LO6, LO4)
        # Other drivers give no GID to an interface without a MAC address.
        self.lo = "lo" if link_type == "rsiw" else "rsdummy"
        self.paths = (self.wire, self.loopback)
        self.baseline = None    # what is in use between tests
        self.changed = False    # by a test: to be made again

    def links(self):
        """Names of our devices that exist, with the state of their ports."""
        states = {}
        for dev in devices():
            with contextlib.suppress(OSError):      # It is gone since.
                with open("%s/%s/ports/1/state" % (DEVICES, dev)) as state:
                    states[dev] = state.read().split()[1]
        return states

    def resources(self):
        """Counts of every kind of object per device."""
        return {r["ifname"]: {k: v for k, v in r.items()
                              if k not in ("ifindex", "ifname")}
                for r in objects()}

    def add_link(self, name, netdev, netns=None, link_type=None):
        """`rdma link add`, then the character device where needed."""
        sh("rdma", "link", "add", name, "type", link_type or self.type,
           "netdev", netdev, netns=netns)
        make_nodes()

    def ensure(self):
        """Everything is there afterwards; `baseline` is what it uses."""
        links = self.links()
        if self.baseline is not None and not self.changed and all(
                links.get(d) == "ACTIVE"
                for d in (self.dev_a, self.dev_b, self.dev_lo)):
            return
        self.drop()
        pace()
        sh("ip", "link", "set", "lo", "up")
        if self.lo != "lo":
            sh("ip", "link", "add", self.lo, "mtu", "65535", "type", "dummy")
            sh("ip", "link", "set", self.lo, "up")
        sh("ip", "addr", "add", LO4 + "/32", "dev", self.lo)
        sh("ip", "addr", "add", LO6 + "/128", "dev", self.lo, "nodad")
        self.make_wire()
        # The first device: rdma_cm takes that one for 127.0.0.1 and ::1.
        self.add_link(self.dev_lo, self.lo)
        self.add_wire_links()
        self.baseline = self.resources()

    def make_wire(self):
        """The two namespaces and the veth pair between them."""
        for ns in (NS_A, NS_B):
            sh("ip", "netns", "add", ns)
            pace(ns)
            sh("ip", "link", "set", "lo", "up", netns=ns)
        # Different indices: some drivers take an index for the device's in
        # whatever namespace the caller happens to be.
        sh("ip", "link", "add", IF_A, "index", "101", "netns", NS_A, "mtu",
           "1500", "type", "veth", "peer", "name", IF_B, "index", "102",
           "netns", NS_B, "mtu", "1500")
        for ns, netdev, v4, v6 in ((NS_A, IF_A, A4, A6), (NS_B, IF_B, B4, B6)):
            sh("ip", "addr", "add", v4 + "/24", "dev", netdev, netns=ns)
            sh("ip", "addr", "add", v6 + "/64", "dev", netdev, "nodad",
               netns=ns)
            sh("ip", "link", "set", netdev, "up", netns=ns)

    def add_wire_links(self):
        """A device on each end of the veth pair."""
        self.add_link(self.dev_a, IF_A, NS_A)
        self.add_link(self.dev_b, IF_B, NS_B)

    def drop(self):
        """Takes down whatever is there of it."""
        self.baseline, self.changed = None, False
        for dev in self.links():
            if dev.startswith(self.type + "_"):
                sh("rdma", "link", "del", dev, check=False)
        for ns in (NS_A, NS_B):
            if os.path.exists("/run/netns/" + ns):
                # TCP would keep the namespace for connections that programs have left.
                sh("ss", "-K", "-Htna", netns=ns, check=False)
                sh("ip", "netns", "del", ns)
        if self.lo != "lo":
            sh("ip", "link", "del", self.lo, check=False)
        else:
            sh("ip", "addr", "del", LO4 + "/32", "dev", "lo", check=False)
            sh("ip", "addr", "del", LO6 + "/128", "dev", "lo", check=False)

    def leftovers(self):
        """What devices hold beyond the baseline, as text; "" when nothing."""
        if self.baseline is None:
            return ""
        found = []
        for dev, now in self.resources().items():
            base = self.baseline.get(dev)
            if base is None:
                continue
            more = ["%s %d" % (k, v - base.get(k, 0)) for k, v in now.items()
                    if v > base.get(k, 0)]
            if more:
                found.append("%s: %s" % (dev, ", ".join(more)))
        return "; ".join(found)


def steer(cpus, flows):
    """Has the processors of a mask take in what arrives at either end of the wire, but for as many
    flows as are remembered: those are taken in where they are read (RFS)."""
    for netns, netdev in ((NS_A, IF_A), (NS_B, IF_B)):
        queue = "/sys/class/net/%s/queues/rx-0/" % netdev
        sh("sh", "-c", "echo %x >%srps_cpus; echo %d >%srps_flow_cnt" % (
            cpus, queue, flows, queue), netns=netns)
    sh("sysctl", "-q", "-w", "net.core.rps_sock_flow_entries=%d" % flows)
