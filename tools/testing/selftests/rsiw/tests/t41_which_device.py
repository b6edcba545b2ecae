# SPDX-License-Identifier: GPL-2.0
"""Which device a connection belongs to, where a host has several: the one that owns the
local address."""

import contextlib
import json
import socket
import struct

from rsiwtest import mpa, nvme
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.tools import connected_qps, ping
from rsiwtest.topo import inside, sh

# Two interfaces on one side, joined with one each on the other, of which one is used: what
# is for the second address comes in by the first interface.
OTHER_NS, HERE_NS = "rsiw-other", "rsiw-here"
OTHER4, OTHER6 = "10.76.0.2", "fd76::2"
FIRST4, SECOND4, INNER4, BARE4 = "10.76.0.1", "10.76.0.3", "10.76.1.1", "10.76.1.2"
FIRST6, SECOND6, INNER6, BARE6 = "fd76::1", "fd76::3", "fd76:1::1", "fd76:1::2"
FIRST, SECOND, INNER, OTHER = "rsiw_first", "rsiw_second", "rsiw_inner", "rsiw_other"
# Interface, device, addresses; the last has no device.
HOMES = (("rs0", FIRST, FIRST4, FIRST6), ("rs2", SECOND, SECOND4, SECOND6),
         ("rsi", INNER, INNER4, INNER6), ("rsb", None, BARE4, BARE6))
VRF, TABLE = "rsv", "1010"


class Home:
    """The side that has several devices, in a namespace, perhaps in a VRF."""

    def __init__(self, t, netns, vrf):
        self.t, self.netns, self.vrf = t, netns, vrf

    def sh(self, *argv, **options):
        return sh(*argv, netns=self.netns, **options)

    def bring_up(self):
        for netdev, _, v4, v6 in HOMES:
            if self.vrf:
                # After the devices were made.
                self.sh("ip", "link", "set", netdev, "master", VRF)
            self.sh("ip", "link", "set", netdev, "up")
            self.sh("ip", "addr", "add", v4 + "/32", "dev", netdev)
            self.sh("ip", "addr", "add", v6 + "/128", "dev", netdev, "nodad")
        table = ("table", TABLE) if self.vrf else ()
        for peer, bits, src in ((OTHER4, "/32", FIRST4), (OTHER6, "/128", FIRST6)):
            self.sh("ip", "route", "add", peer + bits, "dev", "rs0", "src", src, *table)

    def mac(self, netdev):
        return json.loads(self.sh("ip", "-j", "link", "show", "dev", netdev))[0]["address"]


@contextlib.contextmanager
def home(t, netns=None, vrf=False):
    """A side with several devices, and another that reaches all of its addresses by `rs0`."""
    here = Home(t, netns, vrf)
    near = ("netns", netns) if netns else ()
    try:
        for ns in filter(None, (OTHER_NS, netns)):
            sh("ip", "netns", "add", ns)
            sh("ip", "link", "set", "lo", "up", netns=ns)
        if vrf:
            here.sh("ip", "link", "add", VRF, "type", "vrf", "table", TABLE)
            here.sh("ip", "link", "set", VRF, "up")
        for netdev, peer in (("rs0", "rsp0"), ("rs2", "rsp2")):
            sh("ip", "link", "add", netdev, *near, "type", "veth", "peer", "name", peer,
               "netns", OTHER_NS)
        for netdev in ("rsi", "rsb"):
            here.sh("ip", "link", "add", netdev, "type", "dummy")
        for netdev, dev, _, _ in HOMES:
            if dev:
                t.topo.add_link(dev, netdev, netns)
        here.bring_up()
        for peer in ("rsp0", "rsp2"):
            sh("ip", "link", "set", peer, "up", netns=OTHER_NS)
        sh("ip", "addr", "add", OTHER4 + "/24", "dev", "rsp0", netns=OTHER_NS)
        sh("ip", "addr", "add", OTHER6 + "/64", "dev", "rsp0", "nodad", netns=OTHER_NS)
        for addr in (FIRST4, SECOND4, FIRST6, SECOND6):
            sh("ip", "neigh", "replace", addr, "lladdr", here.mac("rs0"), "dev", "rsp0",
               "nud", "permanent", netns=OTHER_NS)
        for net, via in (("10.76.1.0/24", FIRST4), ("fd76:1::/64", FIRST6)):
            sh("ip", "route", "add", net, "via", via, netns=OTHER_NS)
        t.topo.add_link(OTHER, "rsp0", OTHER_NS)
        yield here
    finally:
        t.reap()
        # Devices go with their interfaces.
        for netdev in ("rs0", "rs2", "rsi", "rsb", VRF):
            here.sh("ip", "link", "del", netdev, check=False)
        for ns in filter(None, (OTHER_NS, netns)):
            sh("ip", "netns", "del", ns, check=False)


def serve(t, here, addr):
    """A server that listens at an address; with its port."""
    port = t.port()
    server = t.start("rping", "-s", "-P", "-a", addr, "-p", port, netns=here.netns)
    server.wait_listening(port)
    return server, port


def belongs(t, here, server, port, addr, dev, netns, *args):
    """A connection to an address is one of a device at the server's side."""
    client = t.start("rping", "-c", "-a", addr, "-p", port, "-C", 100000000, *args,
                     netns=netns)

    def devices():
        if client.poll() is not None:
            raise Fail("no connection to %s:\n%s\n%s" % (addr, client.tail(), server.tail()))
        # The server's are those of a thread.
        qps = connected_qps(here.netns)
        return {qp["ifname"] for qp in qps if qp["pid"] != client.pid}
    wait_until("a connection to " + addr, 20, devices)
    found = devices()
    client.reap(10)
    wait_until("the connection to be gone", 20, lambda: not connected_qps(here.netns))
    if found != {dev}:
        raise Fail("%s belongs to %s, not to %s" % (addr, found, dev))


def refused(t, here, server, port, addr):
    """A connection to an address is refused, and nobody is told of it."""
    said = server.output()
    client = t.start("rdma_client", "-s", addr, "-p", port, netns=OTHER_NS)
    if client.wait(t.left(30)) == 0:
        raise Fail("a connection to %s, which no device owns" % addr)
    if server.output() != said or server.poll() is not None:
        raise Fail("the server was told of a connection to %s:\n%s" % (addr, server.tail()))


def all_cases(t, here):
    """All addresses, by the one interface, to all kinds of listeners."""
    v4, v6 = [(h[2], h[1]) for h in HOMES[:3]], [(h[3], h[1]) for h in HOMES[:3]]
    for wildcard, owned, bare in (("0.0.0.0", v4, BARE4), ("::", v6 + v4, BARE6)):
        with t.sub("a listener on " + wildcard):
            server, port = serve(t, here, wildcard)
            for addr, dev in owned:
                belongs(t, here, server, port, addr, dev, OTHER_NS)
            refused(t, here, server, port, bare)
            # Nor does that harm others.
            belongs(t, here, server, port, owned[1][0], SECOND, OTHER_NS)
        t.reap()
        with t.sub("from this side to " + wildcard):
            server, port = serve(t, here, wildcard)
            for addr, dev in owned:
                belongs(t, here, server, port, addr, dev, here.netns, "-I", addr)
        t.reap()
    with t.sub("a listener on one address"):
        for addr, dev in v4 + v6:
            server, port = serve(t, here, addr)
            belongs(t, here, server, port, addr, dev, OTHER_NS)
            server.reap(10)
    t.reap()


@test("which-device", cost=25, only_type="rsiw")
def which_device(t):
    """A connection belongs to the device that owns its address, whatever way it came."""
    with home(t) as here:
        all_cases(t, here)
        with t.sub("a device that goes and comes back"):
            server, port = serve(t, here, "0.0.0.0")
            sh("rdma", "link", "del", SECOND)
            refused(t, here, server, port, SECOND4)
            belongs(t, here, server, port, FIRST4, FIRST, OTHER_NS)
            t.topo.add_link(SECOND, "rs2")
            belongs(t, here, server, port, SECOND4, SECOND, OTHER_NS)
        t.reap()
        with t.sub("an address that moves"):
            server, port = serve(t, here, "0.0.0.0")
            one, at = serve(t, here, SECOND4)
            sh("ip", "addr", "del", SECOND4 + "/32", "dev", "rs2")
            sh("ip", "addr", "add", SECOND4 + "/32", "dev", "rsi")
            belongs(t, here, server, port, SECOND4, INNER, OTHER_NS)
            # It listens by the device that the address was of.
            refused(t, here, one, at, SECOND4)


@test("which-device-netns", cost=20, only_type="rsiw")
def which_device_netns(t):
    """The same in a network namespace."""
    with home(t, HERE_NS) as here:
        all_cases(t, here)


@test("which-device-vrf", cost=25, only_type="rsiw", packaged=True, long=True)
def which_device_vrf(t):
    """The same in a VRF, which the interfaces are put in after their devices were made."""
    t.need_module("vrf")
    sh("modprobe", "vrf")
    for netns in (None, HERE_NS):
        with home(t, netns, vrf=True) as here:
            all_cases(t, here)
            with t.sub("a connection from a VRF"):
                port = t.port()
                server = t.start("rping", "-s", "-a", OTHER4, "-p", port, netns=OTHER_NS)
                server.wait_listening(port)
                ping(t, OTHER4, port, 20, "-I", FIRST4, netns=netns, timeout=30)
                server.expect(t.left(10))


@test("which-device-vlan", cost=5, only_type="rsiw", packaged=True)
def which_device_vlan(t):
    """The RDMA CM does not tell VLANs from what they lie over: the first device counts."""
    t.need_module("8021q")
    with home(t) as here:
        for netns, below, vlan, addr in ((None, "rs0", "rs0.5", "10.76.5.1"),
                                         (OTHER_NS, "rsp0", "rsp0.5", "10.76.5.2")):
            sh("ip", "link", "add", "link", below, "name", vlan, "type", "vlan", "id", "5",
               netns=netns)
            sh("ip", "link", "set", vlan, "up", netns=netns)
            sh("ip", "addr", "add", addr + "/24", "dev", vlan, netns=netns)
        server, port = serve(t, here, "0.0.0.0")
        belongs(t, here, server, port, "10.76.5.1", FIRST, OTHER_NS)
        t.topo.add_link("rsiw_vlan", "rs0.5")
        for addr in ("10.76.5.1", FIRST4):
            belongs(t, here, server, port, addr, FIRST, OTHER_NS)
        sh("rdma", "link", "del", FIRST)
        for addr in ("10.76.5.1", FIRST4):
            belongs(t, here, server, port, addr, "rsiw_vlan", OTHER_NS)


# What a host asks an NVMe target for (struct nvme_rdma_cm_req): an admin queue.
ADMIN_QUEUE = struct.pack("<HHHHH22x", 0, 0, 32, 31, 0)


@test("which-device-nvme", cost=10, only_type="rsiw")
def which_device_nvme(t):
    """The kernel's NVMe target on the wildcard, for an address of the second interface."""
    with home(t), nvme.Target(LOCAL, "0.0.0.0"):
        with t.sub("by the first interface"), inside(OTHER_NS), \
                socket.create_connection((SECOND4, int(nvme.PORT)), timeout=10) as conn:
            mpa.ask(conn, ADMIN_QUEUE)
            # The Reply comes before the target's end runs.
            belongs_to(wait_until("a connection", 10, connected_qps), SECOND)
        with t.sub("from this side"), nvme.Host(LOCAL, SECOND4):
            belongs_to(connected_qps(), SECOND)


def belongs_to(qps, dev):
    """These queue pairs are of one device."""
    found = {qp["ifname"] for qp in qps}
    if found != {dev}:
        raise Fail("the connections belong to %s, not to %s" % (found, dev))
