# SPDX-License-Identifier: GPL-2.0
"""Two guests, each other's peer, with programs of user space.

Every test runs both ways: with the server in the other guest and with the
server here. The other guest has rsiw as well, or siw.
"""

import json
import os

from rsiwtest import frames
from rsiwtest.core import Fail, Skip, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.pairtopo import NETDEV
from rsiwtest.tools import (Perftest, all_rounds, has_events, is_connected, perftest,
                            ping_client, rping, wait_connected)
from tests.t40_cm import ucmatose


def server_may_begin(t, path):
    """Whether a server's program can send first: that takes a client that
    agreed to send something before (T-24, RFC 6581 section 9), or a server
    that does not care, and siw is neither."""
    return path is t.topo.to_peer or t.topo.is_alike()


def both(t, work, *args, begins=False, ours=False):
    """Does the work both ways, a subtest each; only the way that can be where
    the server begins, and only with a server of our driver if it is to be ours."""
    for path in t.topo.paths:
        if begins and not server_may_begin(t, path):
            continue
        if ours and path is t.topo.to_peer and not t.topo.is_alike():
            continue
        with t.sub(path.name):
            t.topo.ensure()
            work(t, path, *args)


@test("pair-rping", cost=15, pair=True)
def pair_rping(t):
    """rping with validation, IPv4 and IPv6, small and large."""
    def work(t, path):
        for v6 in (False, True):
            for count, size in ((300, 64), (15, 60000)):
                rping(t, path, count=count, size=size, v6=v6)

    both(t, work)


BW = ((1, 200), (4096, 100), (65536, 20), (1 << 20, 5))
LAT = ((64, 100), (65536, 10))


def _perftest(op, kind):
    @test("pair-%s-%s" % (op, kind), cost=25, pair=True)
    def run(t):
        def work(t, path):
            for i, (size, iters) in enumerate(BW if kind == "bw" else LAT):
                tool = "ib_%s_%s" % (op, kind)
                perftest(t, path, tool, size, iters,
                         events=i % 2 == 0 and has_events(tool))
            if kind == "bw":
                perftest(t, path, "ib_%s_bw" % op, 65536, 10, "-b")
                perftest(t, path, "ib_%s_bw" % op, 4096, 20, qps=8)

        both(t, work, begins=op + kind == "writelat")
    run.__doc__ = "ib_%s_%s, several sizes" % (op, kind)


for _op in ("send", "write", "read"):
    for _kind in ("bw", "lat"):
        _perftest(_op, _kind)


@test("pair-by-number", cost=20, pair=True)
def by_number(t):
    """perftest without the RDMA CM, over IPv4 and IPv6, between two guests with rsiw."""
    if not t.topo.is_alike():
        raise Skip("the other driver does not connect by number")

    def work(t, path):
        for op in ("send", "write", "read"):
            for gid in (1, 2):
                perftest(t, path, "ib_%s_bw" % op, 65536, 20, gid=gid)
            perftest(t, path, "ib_%s_bw" % op, 4096, 50, qps=8, gid=1)
            perftest(t, path, "ib_%s_lat" % op, 64, 100, gid=1)
        perftest(t, path, "ib_send_bw", 65536, 10, "-b", gid=1)

    both(t, work)


@test("pair-private-data", cost=10, pair=True)
def private_data(t):
    """rstream and rcopy: their private data and that of rdma_cm arrive."""
    def work(t, path):
        port = t.port()
        server = t.start("rstream", "-p", port, "-b", path.addr4, "-T", "v",
                         "-S", 4096, "-C", 50, "-k", 1, netns=path.server_ns)
        server.wait_listening(port)
        client = t.start("rstream", "-p", port, "-s", path.addr4, "-T", "v",
                         "-S", 4096, "-C", 50, "-k", 1, netns=path.client_ns)
        all_arrives(t, path, client, server)

    both(t, work)


def all_arrives(t, path, client, server):
    """Both sides end well; if not, it is told of each what it missed and which
    driver it was that did not deliver it, or did not send it.

    A driver that ends a stream by a reset takes with it what its side has sent
    last. Where that is not ours, our side can only miss it: that is told, and is
    no failure.
    """
    here, there = t.type, t.topo.peer.type
    mine, theirs = ((client, server) if path is t.topo.to_peer
                    else (server, client))
    before = resets()
    lost = {}
    for side in (client, server):
        try:
            side.expect(t.left(40))
        except Fail as err:
            lost[side] = str(err)
    said = ["the %s, with %s: %s" % (
        "client" if side is client else "server",
        here if side is mine else there, why) for side, why in lost.items()]
    if list(lost) == [mine] and not t.topo.is_alike() and resets() > before:
        t.subtests.append(("%s: %s has reset the stream, what it sent last is "
                           "lost" % (path.name, there), True, said[0]))
        mine.reap()
        return
    if said:
        raise Fail("\n".join(said))


def resets():
    """Connections of this machine that were reset by their peers: those that
    were, less those that this side has reset."""
    names, values = [line.split()[1:] for line in
                     LOCAL.read("/proc/net/snmp").splitlines()
                     if line.startswith("Tcp:")]
    tcp = dict(zip(names, map(int, values)))
    return tcp["EstabResets"] - tcp["OutRsts"]


def meet(t, path, *options):
    """Both sides of our own program: set-up, Reads, the end."""
    args = [t.bin("meet"), "--addr", path.addr4, "--port", t.port(), "--limit",
            int(t.left(60)), *options]
    sides = [t.start(*args, "--server", netns=path.server_ns),
             t.start(*args, netns=path.client_ns)]
    for side in sides:
        side.expect(t.left(65))


@test("pair-set-up", cost=40, pair=True)
def set_up(t):
    """Private data, read depths, rejection, and who ends a connection."""
    # Some keep room for the enhanced set-up within 256 octets.
    most = 255 if t.topo.is_alike() else 251
    cases = [("private data of %d" % n, "--private", n)
             for n in (0, 1, 57, most)]
    cases += [("read depths %d and %d" % d, "--ord", d[0], "--ird", d[1])
              for d in ((1, 1), (1, 16), (16, 1), (16, 16))]
    cases += [("ended by the " + side, "--disconnect", side)
              for side in ("client", "server")]
    cases.append(("rejected", "--reject", "--private", 40))
    for path in t.topo.paths:
        for name, *options in cases:
            with t.sub("%s, %s" % (name, path.name)):
                meet(t, path, *options)


def capture(t, name, work):
    """Captures all but the agent's own connection while the work is done."""
    pcap = os.path.join(t.env.results, "%s-%s.pcap" % (t.test.name, name))
    frames.capture(t, NETDEV, pcap, work, "tcp and not port 4791")


@test("pair-crc", cost=40, pair=True, only_type="rsiw")
def crc(t):
    """With and without CRC on this side: what is agreed works."""
    def work(t, path):
        rping(t, path, count=100, size=1000)
        rping(t, path, count=20, size=5000)
        perftest(t, path, "ib_send_lat", 4096, 50)

    for value in ("0", "1"):
        with t.sub("mpa_crc=" + value), t.loaded_with("mpa_crc=" + value):
            for path in t.topo.paths:
                capture(t, "%s-%s" % (path.name, value), lambda: work(t, path))


@test("pair-disconnect", cost=40, pair=True)
def disconnect(t):
    """A side that is killed takes the connection of the other with it."""
    def work(t, path):
        for victim in ("server", "client"):
            port = t.port()
            args = ["rping", "-a", path.addr4, "-p", port, "-C", 100000]
            server = t.start(*args, "-s", netns=path.server_ns)
            server.wait_listening(port)
            client = t.start(*args, "-c", netns=path.client_ns)
            wait_connected(t, path)
            first, second = (server, client) if victim == "server" \
                else (client, server)
            if client.poll() is not None:
                raise Fail("%s ended early:\n%s" % (client, client.tail()))
            first.reap()
            second.wait(t.left(30))

    both(t, work)


@test("pair-connect-500", limit=1200, cost=90, pair=True)
def connect_500(t):
    """500 connects and disconnects, each way."""
    # How many a process can have at once depends on the driver.
    at_once = 500 if t.topo.is_alike() else 25

    def work(t, path):
        if not server_may_begin(t, path):
            rpings(t, path, 500, 10)
            return
        for _ in range(500 // at_once):
            ucmatose(t, path, at_once)
            t.forget()

    both(t, work)


def rpings(t, path, count, at_once):
    """Connections of a process each, with a round trip."""
    port = t.port()
    server = t.start("rping", "-s", "-P", "-a", path.addr4, "-p", port, netns=path.server_ns)
    server.wait_listening(port)
    for _ in range(count // at_once):
        for client in [ping_client(t, path.addr4, port, 1, netns=path.client_ns)
                       for _ in range(at_once)]:
            all_rounds(client, t.left(60))
        t.forget()
    server.kill()


@test("pair-unplug", cost=15, pair=True)
def unplug(t):
    """The device here goes under traffic; the other side notices."""
    def work(t, path):
        # Longer than this waits: it does not end by itself.
        pair = Perftest(t, path, "ib_write_bw", "-s", 65536, "-D", 600)
        pair.connect()
        pair.wait_flowing()
        LOCAL.sh("rdma", "link", "del", t.topo.dev)
        t.topo.changed = True
        other = pair.server if path is t.topo.to_peer else pair.client
        wait_until("the other side to notice", 30,
                   lambda: other.poll() is not None or not is_connected(t.topo.peer))
        t.reap()
        links = json.loads(t.topo.peer.sh("rdma", "-j", "resource", "show"))
        if any(r.get("qp") for r in links):
            raise Fail("queue pairs on %s after the end: %s" % (
                NETDEV, links))

    both(t, work)
