# SPDX-License-Identifier: GPL-2.0
"""Interfaces of all kinds, and what happens to them under a device."""

import contextlib
import fcntl
import ipaddress
import os
import re
import struct
import time

from rsiwtest import traces
from rsiwtest.core import WIRE, Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.tools import (all_rounds, connected_qps, perftest, ping, rping, rping_ends,
                            stream)
from rsiwtest.topo import (IF_A, IF_B, NS_A, NS_B, Path, sh, status)

SIDE_A, SIDE_B = (NS_A, IF_A), (NS_B, IF_B)
TUNSETIFF = 0x400454ca
IFF_TUN, IFF_NO_PI = 1, 0x1000


def cut(t, *sides):
    """All packets that these interfaces send disappear."""
    t.topo.changed = True
    for ns, netdev in sides:
        sh("tc", "qdisc", "add", "dev", netdev, "root", "netem", "loss",
           "100%", netns=ns)


def still_run(*procs):
    """The traffic has not ended before what was to be done under it."""
    for proc in procs:
        if proc.poll() is not None:
            raise Fail("%s ended too early:\n%s" % (proc, proc.tail()))


def local_rping(t, dev, addr, v6=False):
    """Both ends on one address of a device of its own."""
    path = Path("local", None, None, dev, dev, addr, addr, addr)
    rping(t, path, count=50, size=1000, v6=v6)


@test("tun", cost=5, only_type="rsiw")
def tun(t):
    """A device on an interface without a MAC address."""
    sh("modprobe", "tun")
    fd = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"rstun",
                                               IFF_TUN | IFF_NO_PI))
        sh("ip", "addr", "add", "10.79.0.1/24", "dev", "rstun")
        sh("ip", "link", "set", "rstun", "up")
        t.topo.add_link(t.type + "_tun", "rstun")
        t.run("ibv_devinfo", "-v", "-d", t.type + "_tun")
        local_rping(t, t.type + "_tun", "10.79.0.1")
    finally:
        os.close(fd)
    wait_until("the device goes with its interface", 20,
               lambda: t.type + "_tun" not in t.topo.links())


@test("ipv6-only", cost=5)
def ipv6_only(t):
    """A device on an interface that has no IPv4 address."""
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    try:
        sh("ip", "link", "set", "rsdum", "up")
        sh("ip", "addr", "add", "fd79::1/64", "dev", "rsdum", "nodad")
        t.topo.add_link(t.type + "_v6", "rsdum")
        local_rping(t, t.type + "_v6", "fd79::1", v6=True)
    finally:
        sh("ip", "link", "del", "rsdum")


@test("down-up", cost=10, tcp=WIRE)
def down_up(t):
    """The interface goes down and up under traffic; then all works."""
    path = t.topo.wire
    server, client = stream(t, path, "ib_write_bw", 10)
    sh("ip", "link", "set", IF_B, "down", netns=NS_B)
    still_run(client, server)
    state = t.topo.links().get(t.topo.dev_b)
    if state == "ACTIVE":
        raise Fail("the port of a device is ACTIVE, its interface is down")
    # What the change leads to is over, most likely.
    time.sleep(0.5)
    sh("ip", "link", "set", IF_B, "up", netns=NS_B)
    # IPv6 addresses went with the link.
    sh("ip", "addr", "replace", "fd77::2/64", "dev", IF_B, "nodad",
       netns=NS_B)
    # TCP goes on where it was.
    client.expect(t.left(40))
    server.expect(t.left(20))
    wait_until("the port comes back", 20,
               lambda: t.topo.links().get(t.topo.dev_b) == "ACTIVE")
    rping(t, path, count=50)


@contextlib.contextmanager
def watching(t, dev):
    """Yields a function that does something with an interface, by the arguments of `ip link`, and
    then waits until programs are told an event of `dev` that they had not been told."""
    watch = t.start("ibv_asyncwatch", "-d", dev)
    watch.wait_output("async event FD", t.left(10))

    def tells(want, *change, netns=None):
        before = watch.output().count(want)
        sh("ip", "link", "set", *change, netns=netns)
        try:
            wait_until(want, t.left(10), lambda: watch.output().count(want) > before)
        except Fail:
            raise Fail("no %s of %s after '%s':\n%s" % (want, dev, " ".join(change), watch.tail()))
    yield tells
    watch.reap()


@test("port-events", cost=3)
def port_events(t):
    """The link goes down and comes up: programs are told (V-AE-36)."""
    t.topo.changed = True
    with watching(t, t.topo.dev_b) as tells:
        tells("PORT_ERR", IF_B, "down", netns=NS_B)
        tells("PORT_ACTIVE", IF_B, "up", netns=NS_B)


@test("port-events-master", cost=8, only_type="rsiw", packaged=True)
def port_events_master(t):
    """So they are over a bond, a team and the ports of these, where the core leaves it to drivers
    (V-AE-36)."""
    for kind in ("bond", "team"):
        sh("ip", "link", "add", "rsdum", "type", "dummy")
        # A bond looks for the carriers of its ports only if it is told so.
        options = ["miimon", "10"] if kind == "bond" else []
        sh("ip", "link", "add", "rsmas", "type", kind, *options)
        try:
            sh("ip", "link", "set", "rsdum", "master", "rsmas")
            sh("ip", "link", "set", "rsmas", "up")
            master, port = "rsiw_" + kind, "rsiw_port_" + kind
            t.topo.add_link(master, "rsmas")
            t.topo.add_link(port, "rsdum")
            wait_until("the %s has a carrier" % kind, 10,
                       lambda: t.topo.links().get(master) == "ACTIVE")
            with t.sub("a " + kind), watching(t, master) as tells:
                tells("PORT_ERR", "rsmas", "down")
                tells("PORT_ACTIVE", "rsmas", "up")
                if kind == "bond":
                    tells("PORT_ERR", "rsdum", "down")
                    tells("PORT_ACTIVE", "rsdum", "up")
            with t.sub("a port of a " + kind), watching(t, port) as tells:
                tells("PORT_ERR", "rsdum", "down")
                tells("PORT_ACTIVE", "rsdum", "up")
        finally:
            t.reap()
            sh("ip", "link", "del", "rsmas")
            sh("ip", "link", "del", "rsdum")


@test("port-events-rxe", cost=4, only_type="rsiw", packaged=True)
def port_events_rxe(t):
    """So they are where the interface has a device of rxe besides, whichever device the core finds
    (V-AE-36)."""
    t.need_module("rdma_rxe")
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    try:
        for first, second in (("rsiw", "rxe"), ("rxe", "rsiw")):
            for kind in first, second:
                t.topo.add_link("%s_dum" % kind, "rsdum", link_type=kind)
            sh("ip", "link", "set", "rsdum", "up")
            with t.sub("%s came first" % first), watching(t, "rsiw_dum") as tells:
                tells("PORT_ERR", "rsdum", "down")
                tells("PORT_ACTIVE", "rsdum", "up")
            for kind in first, second:
                sh("rdma", "link", "del", "%s_dum" % kind)
    finally:
        t.reap()
        sh("ip", "link", "del", "rsdum")
        sh("modprobe", "-r", "rdma_rxe")


# ESP by AES-GCM: 16 octets of key and 4 of salt.
SA_KEY = "0x" + "42" * 20


def directions(here, there, out_spi, in_spi):
    """Source, destination, SPI and direction of both ways between two addresses."""
    return (here, there, out_spi, "out"), (there, here, in_spi, "in")


def add_keys(netns, *ends):
    """`netns` gets the keys of both ways; `ends`: as for `directions`."""
    for src, dst, spi, _ in directions(*ends):
        sh("ip", "xfrm", "state", "add", "src", src, "dst", dst, "proto",
           "esp", "spi", spi, "reqid", "1", "mode", "transport", "aead",
           "rfc4106(gcm(aes))", SA_KEY, "128", netns=netns)


def secured(netns, *ends):
    """All traffic between two addresses goes through IPsec in `netns`; `ends`: as for
    `directions`."""
    add_keys(netns, *ends)
    for src, dst, _, direction in directions(*ends):
        sh("ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir",
           direction, "tmpl", "proto", "esp", "reqid", "1", "mode",
           "transport", netns=netns)


@test("ipsec", cost=14, tcp=WIRE)
def ipsec(t):
    """RDMA through IPsec; without its keys nothing gets through (M-MPA-35)."""
    path = t.topo.wire
    t.topo.changed = True
    secured(NS_A, path.addr4, path.client4, "0x100", "0x200")
    secured(NS_B, path.client4, path.addr4, "0x200", "0x100")
    rping(t, path, count=50, size=5000)
    t.own("integrity", path, "--only", "random", "--iterations", 20,
          "--max-size", 100000)
    used = sh("ip", "-s", "xfrm", "state", netns=NS_A)
    packets = [int(n) for n in re.findall(r"(\d+)\(packets\)", used)]
    if not packets or max(packets) < 100:
        raise Fail("the traffic did not go through IPsec:\n%s" % used)
    sh("ip", "xfrm", "state", "flush", netns=NS_B)
    server, client = rping_ends(t, path, "-V", "-v", "-C", 10)
    # SYNs are sent after 0, 1 and 3 seconds.
    time.sleep(4)
    if connected_qps(NS_A) or connected_qps(NS_B) or client.poll() is not None:
        raise Fail("a connection without keys")
    add_keys(NS_B, path.client4, path.addr4, "0x200", "0x100")
    all_rounds(client, t.left(60))
    server.expect(t.left(30))


@test("address-change", cost=6)
def address_change(t):
    """New IP and MAC addresses under a device with connections.

    L-CORE-16
    """
    path, port = t.topo.wire, t.port()
    server = t.start("rping", "-s", "-P", "-p", port, netns=path.server_ns)
    server.wait_listening(port)
    sh("ip", "addr", "add", "10.77.1.1/24", "dev", IF_A, netns=NS_A)
    sh("ip", "addr", "add", "10.77.1.2/24", "dev", IF_B, netns=NS_B)
    for addr in ("10.77.1.1", path.addr4):
        ping(t, addr, port, 10, netns=path.client_ns, timeout=20)
    sh("ip", "addr", "del", "10.77.1.1/24", "dev", IF_A, netns=NS_A)
    sh("ip", "link", "set", IF_A, "address", "02:00:00:12:34:56", netns=NS_A)
    # The other side would go on with the old address for half a minute.
    sh("ip", "neigh", "flush", "dev", IF_B, netns=NS_B)
    ping(t, path.addr4, port, 10, netns=path.client_ns, timeout=20)
    sh("ip", "addr", "del", "10.77.1.2/24", "dev", IF_B, netns=NS_B)


@test("mtu", cost=10, tcp=WIRE)
def mtu(t):
    """Path MTUs of 576 and 9000, with and without offloads, and a change."""
    def set_mtu(size):
        sh("ip", "link", "set", IF_A, "mtu", str(size), netns=NS_A)
        sh("ip", "link", "set", IF_B, "mtu", str(size), netns=NS_B)

    try:
        for size in (576, 9000):
            with t.sub("%d" % size):
                set_mtu(size)
                t.own("integrity", t.topo.wire, "--only", "random",
                      "--seconds", 2, "--max-size", 100000)
        with t.sub("1500 without segmentation offload"):
            set_mtu(1500)
            for ns, netdev in ((NS_A, IF_A), (NS_B, IF_B)):
                sh("ethtool", "-K", netdev, "tso", "off", "gso", "off",
                   "gro", "off", "tx", "off", netns=ns, check=False)
            t.own("integrity", t.topo.wire, "--only", "random",
                  "--seconds", 2)
    finally:
        t.topo.changed = True


@test("loss", cost=12, tcp=WIRE)
def loss(t):
    """Delay, loss, reordering and duplicates on the way.

    V-WR-22 (T-19): memory is overwritten as soon as its request completes,
    whatever TCP has to send again.
    """
    rv, out = status("ip", "netns", "exec", NS_A, "tc", "qdisc", "add", "dev",
                     IF_A, "root", "netem", "delay", "2ms", "1ms", "loss",
                     "1%", "duplicate", "1%", "reorder", "5%")
    if rv:
        raise Fail("netem: %s" % out)
    t.topo.changed = True
    t.own("integrity", t.topo.wire, "--only", "random", "--iterations",
          20, "--max-size", 100000)


@test("vanishing-peer", cost=12, tcp=WIRE)
def vanishing_peer(t):
    """Packets of a connection disappear: killing still cleans up."""
    server, client = stream(t, t.topo.wire, "ib_send_bw", 30)
    cut(t, SIDE_A)
    # TCP has begun to send again.
    time.sleep(0.5)
    still_run(client, server)
    for p in (client, server):
        if not p.reap():
            raise Fail("%s does not die of kill -9" % p)


@test("lost-peer", cost=8, tcp=WIRE)
def lost_peer(t):
    """TCP gives a peer up that does not answer: both sides are told (V-AE-4).

    They are while they have something to send, as with RDMA Writes at any
    time; Sends wait for credit here. Nothing else ends them within the time.
    """
    for ns in (NS_A, NS_B):
        sh("sh", "-c", "echo 3 >/proc/sys/net/ipv4/tcp_retries2", netns=ns)
    t.topo.changed = True
    path = t.topo.wire
    both = stream(t, path, "ib_write_bw", 200, "-b")
    ours = t.type == "rsiw"
    # Before the time begins after which TCP gives up.
    failed = traces.Session("rsiw_completion", only="vendor_err != 0")
    with failed if ours else contextlib.nullcontext() as session:
        cut(t, SIDE_A, SIDE_B)
        for proc in both:
            if proc.wait(t.left(60)) == 0:
                raise Fail("%s ends well:\n%s" % (proc, proc.tail()))
        for dev in (path.server_dev, path.client_dev) if ours else ():
            with t.sub("%s says why" % dev):
                traces.expect(session.events("rsiw_completion"), dev=dev, status="flushed",
                              vendor_err="0x40006")


@test("end-over-outage", cost=20, tcp=WIRE)
def end_over_outage(t):
    """What a process has sent when it ends arrives over an outage."""
    over_outage(t)


def over_outage(t, fits=True):
    """A process sends, and ends, during an outage. `fits`: TCP has space for all, so that the
    process ends before the outage does."""
    path, port, base = t.topo.wire, t.port(), "/tmp/rsiw-outage"
    sh("rm", "-rf", base)
    os.makedirs(base)
    server = t.start(t.bin("ending"), "--addr", path.addr4, "--port", port,
                     "--server", base, netns=path.server_ns)
    server.wait_listening(port)
    client = t.start(t.bin("ending"), "--addr", path.addr4, "--port", port,
                     netns=path.client_ns)
    wait_until("the connection is up", t.left(20),
               lambda: os.path.exists(base + "/connected"))
    cut(t, SIDE_A, SIDE_B)
    with open(base + "/go", "w"):
        pass
    if fits:
        server.expect(t.left(20))
    # Longer than a connection that is closed waits for a peer that is silent.
    time.sleep(5.5)
    for ns, netdev in (SIDE_A, SIDE_B):
        sh("tc", "qdisc", "del", "dev", netdev, "root", netns=ns)
    server.expect(t.left(20))
    client.expect(t.left(30))


@test("perftest-jumbo", cost=5)
def jumbo(t):
    """A large MTU, large messages."""
    sh("ip", "link", "set", IF_A, "mtu", "9000", netns=NS_A)
    sh("ip", "link", "set", IF_B, "mtu", "9000", netns=NS_B)
    t.topo.changed = True
    perftest(t, t.topo.wire, "ib_send_bw", 1 << 20, 10)


def eui64(mac):
    """The EUI-64 of a MAC address, in the form of a GID's second half."""
    octets = [int(o, 16) for o in mac.split(":")]
    octets[0] ^= 2
    octets[3:3] = [0xff, 0xfe]
    return ":".join("%02x%02x" % pair for pair in zip(octets[::2], octets[1::2]))


def mac_of(netdev):
    return LOCAL.read("/sys/class/net/%s/address" % netdev).strip()


def names_of(dev):
    """The second half of a device's GID, and the node GUID."""
    at = "/sys/class/infiniband/" + dev
    gid = LOCAL.read(at + "/ports/1/gids/0").strip()
    return gid[len("fe80:0000:0000:0000:"):], LOCAL.read(at + "/node_guid").strip()


def follows(netdev, dev, *change):
    """The GID follows the MAC address of an interface. The node GUID does not: programs
    that run know the device by it."""
    before, node = names_of(dev)
    if before != eui64(mac_of(netdev)):
        raise Fail("the GID is %s with the address %s" % (before, mac_of(netdev)))
    sh(*change)
    after = eui64(mac_of(netdev))
    if after == before:
        raise Fail("the address has not changed")
    wait_until("the GID to follow", 10, lambda: names_of(dev)[0] == after)
    if names_of(dev)[1] != node:
        raise Fail("the node GUID has changed")


@test("mac-change", cost=3, only_type="rsiw")
def mac_change(t):
    """The GID follows the MAC address."""
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    try:
        sh("ip", "link", "set", "rsdum", "up")
        t.topo.add_link("rsiw_mac", "rsdum")
        for last in ("55", "56"):
            follows("rsdum", "rsiw_mac", "ip", "link", "set", "rsdum", "address",
                    "02:11:22:33:44:" + last)
    finally:
        t.reap()
        sh("ip", "link", "del", "rsdum")


def gids(dev):
    """{index: GID} of a device's port, without those that have none."""
    where = "/sys/class/infiniband/%s/ports/1/gids" % dev
    found = {}
    for index in os.listdir(where):
        try:
            with open(os.path.join(where, index)) as f:
                gid = ipaddress.ip_address(f.read().strip())
        except OSError:
            continue  # the core says so of an index that has none
        if int(gid):
            found[int(index)] = str(gid.ipv4_mapped or gid)
    return found


def wait_gids(dev, wanted, seconds=5):
    """Index 1 and above become these."""
    def there():
        found = gids(dev)
        found.pop(0, None)
        return found == wanted
    try:
        wait_until("GIDs", seconds, there)
    except Fail:
        raise Fail("GIDs are %s, not %s" % (gids(dev), wanted))


@test("gids", cost=6, only_type="rsiw")
def gids_follow(t):
    """The GIDs of a port are the addresses of its interface, each with an index that stays."""
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    sh("sysctl", "-qw", "net.ipv6.conf.rsdum.addr_gen_mode=1")

    def addr(what, *which):
        sh("ip", "addr", what, *which, "dev", "rsdum")
    try:
        sh("ip", "link", "set", "rsdum", "up")
        addr("add", "192.0.2.1/24")
        t.topo.add_link("rsiw_gid", "rsdum")
        with t.sub("those that are there when the device is made"):
            if set(gids("rsiw_gid")) != {0, 1}:
                raise Fail("GIDs: %s" % gids("rsiw_gid"))
            wait_gids("rsiw_gid", {1: "192.0.2.1"})
        with t.sub("new ones, and one that goes"):
            addr("add", "2001:db8::1/64", "nodad")
            addr("add", "192.0.2.2/32")
            wait_gids("rsiw_gid", {1: "192.0.2.1", 2: "2001:db8::1", 3: "192.0.2.2"})
            addr("del", "2001:db8::1/64")
            wait_gids("rsiw_gid", {1: "192.0.2.1", 3: "192.0.2.2"})
            addr("add", "192.0.2.3/32")
            wait_gids("rsiw_gid", {1: "192.0.2.1", 2: "192.0.2.3", 3: "192.0.2.2"})
        with t.sub("one that becomes the GID of index 0"):
            first = gids("rsiw_gid")[0]
            addr("add", first + "/64", "nodad")
            addr("add", "192.0.2.4/32")
            wait_gids("rsiw_gid", {1: "192.0.2.1", 2: "192.0.2.3", 3: "192.0.2.2",
                                   4: "192.0.2.4"})
        with t.sub("more than there is room for"):
            for n in range(5, 36):
                addr("add", "192.0.2.%d/32" % n)
            wait_gids("rsiw_gid", {1: "192.0.2.1", 2: "192.0.2.3", 3: "192.0.2.2",
                                   **{n: "192.0.2.%d" % n for n in range(4, 32)}})
            addr("del", "192.0.2.3/32")
            wait_gids("rsiw_gid", {1: "192.0.2.1", 2: "192.0.2.32", 3: "192.0.2.2",
                                   **{n: "192.0.2.%d" % n for n in range(4, 32)}})
        with t.sub("all of them"):
            sh("ip", "link", "set", "rsdum", "down")
            sh("ip", "addr", "flush", "dev", "rsdum")
            wait_gids("rsiw_gid", {})
    finally:
        t.reap()
        sh("ip", "link", "del", "rsdum")


@test("gids-tentative", cost=5, only_type="rsiw")
def gids_tentative(t):
    """An IPv6 address becomes a GID when it is known that nobody else has it, and connections are
    made meanwhile."""
    t.topo.ensure()
    path = t.topo.wire
    before = gids(t.topo.dev_a)
    t.topo.changed = True
    sh("ip", "addr", "add", "2001:db8:1::1/64", "dev", IF_A, netns=NS_A)
    shown = sh("ip", "-6", "addr", "show", "dev", IF_A, "tentative", netns=NS_A)
    has = "2001:db8:1::1" in gids(t.topo.dev_a).values()
    shown_after = sh("ip", "-6", "addr", "show", "dev", IF_A, "tentative", netns=NS_A)
    if "2001:db8:1::1" in shown and "2001:db8:1::1" in shown_after and has:
        raise Fail("it is a GID while it is tentative")
    rping(t, path, count=20, size=1000)
    wait_until("the address is a GID", 10,
               lambda: "2001:db8:1::1" in gids(t.topo.dev_a).values())
    after = gids(t.topo.dev_a)
    if any(after.get(index) != gid for index, gid in before.items()):
        raise Fail("%s became %s" % (before, after))
    rping(t, path, count=20, size=1000)


@test("mac-change-master", cost=6, only_type="rsiw", packaged=True)
def mac_change_master(t):
    """A bridge or a bond takes the MAC address of its first port."""
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    try:
        for kind in ("bridge", "bond"):
            with t.sub(kind):
                sh("ip", "link", "add", "rsmas", "type", kind)
                try:
                    sh("ip", "link", "set", "rsmas", "up")
                    # The core keeps a name for longer than the device is seen.
                    dev = "rsiw_" + kind
                    t.topo.add_link(dev, "rsmas")
                    sh("ip", "link", "set", "rsdum", "down")
                    follows("rsmas", dev, "ip", "link", "set", "rsdum", "master",
                            "rsmas")
                finally:
                    t.reap()
                    sh("ip", "link", "del", "rsmas")
    finally:
        sh("ip", "link", "del", "rsdum")
