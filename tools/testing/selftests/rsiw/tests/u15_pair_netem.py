# SPDX-License-Identifier: GPL-2.0
"""Two rsiw guests with a bad wire between them: never a wrong byte.

netem works on this side's way out; the other way is left alone, so that what
is lost are data in one direction and acknowledgements in the other. rping,
rstream and our own program compare everything that arrives.
"""

import contextlib
import time

from rsiwtest.core import Fail, Skip, test
from rsiwtest.pairtopo import NETDEV
from rsiwtest.machine import LOCAL
from rsiwtest.tools import (all_rounds, perftest, ping_client, rounds_done, rping,
                            wait_connected)
from tests.u10_pair import both

# What the wire does, and how it is said to tc.
BAD = (
    ("loss", "loss", "1%"),
    ("reordering", "delay", "5ms", "2ms", "reorder", "25%", "50%"),
    ("duplication", "duplicate", "5%"),
    ("corruption", "corrupt", "1%"),
    ("all-at-once", "delay", "2ms", "1ms", "loss", "1%", "duplicate", "1%",
     "corrupt", "1%", "reorder", "5%"),
)


def two_of_a_kind(t):
    if not t.topo.is_alike():
        raise Skip("made for two guests with %s" % t.type)


@contextlib.contextmanager
def netem(*how):
    """The wire is like this within."""
    LOCAL.sh("tc", "qdisc", "replace", "dev", NETDEV, "root", "netem",
             "limit", "100000", *how)
    try:
        yield
    finally:
        LOCAL.sh("tc", "qdisc", "del", "dev", NETDEV, "root")


def rstream(t, path, size, count):
    """Streams with verification; both ends must be content."""
    port = t.port()
    args = ["-p", port, "-T", "v", "-S", size, "-C", count, "-I", 2]
    server = t.start("rstream", *args, "-b", path.addr4,
                     netns=path.server_ns)
    server.wait_listening(port)
    t.run("rstream", *args, "-s", path.addr4, netns=path.client_ns)
    server.expect(t.left(20))


def integrity(t, path, *options):
    """Operations of all kinds; every byte compared."""
    args = [t.bin("integrity"), "--addr", path.addr4, "--port", t.port(),
            "--limit", int(t.left()), "--only", "random", "--seed", 1, *options]
    sides = [t.start(*args, "--server", netns=path.server_ns),
             t.start(*args, "--client", netns=path.client_ns)]
    for side in sides:
        side.expect(t.left())


def traffic(t, path):
    rping(t, path, count=50, size=20000)
    rstream(t, path, 65536, 20)
    integrity(t, path, "--iterations", 10, "--max-size", 100000)
    perftest(t, path, "ib_read_bw", 65536, 10)


def _bad(name, *how):
    @test("pair-netem-" + name, cost=30, pair=True)
    def run(t):
        two_of_a_kind(t)
        with netem(*how):
            both(t, traffic)
    run.__doc__ = "netem: %s." % " ".join(how)


for _how in BAD:
    _bad(*_how)


@test("pair-netem-delay", cost=30, pair=True)
def delay(t):
    """100 ms one way."""
    two_of_a_kind(t)

    def work(t, path):
        rping(t, path, count=10, size=20000)
        rstream(t, path, 65536, 5)
        perftest(t, path, "ib_read_bw", 65536, 10)

    with netem("delay", "100ms"):
        both(t, work)


@test("pair-mtu", cost=60, pair=True)
def mtu(t):
    """Both interfaces from 576 to 9000 octets."""
    two_of_a_kind(t)
    try:
        for size in ("576", "1280", "4000", "9000"):
            with t.sub("mtu " + size):
                for side in t.topo.sides():
                    side[0].sh("ip", "link", "set", NETDEV, "mtu", size)
                for path in t.topo.paths:
                    rping(t, path, count=20, size=20000)
                    integrity(t, path, "--iterations", 5, "--max-size",
                              50000)
    finally:
        for side in t.topo.sides():
            side[0].sh("ip", "link", "set", NETDEV, "mtu", "1500")


@test("pair-path-loss", limit=500, cost=250, pair=True)
def path_loss(t):
    """Nothing gets through for two minutes; then all goes on unharmed."""
    two_of_a_kind(t)
    path = t.topo.to_peer
    port, args = t.port(), ["-V", "-S", 20000]
    server = t.start("rping", "-s", "-a", path.addr4, "-p", port, "-C", 2000, *args,
                     netns=path.server_ns)
    server.wait_listening(port)
    client = ping_client(t, path.addr4, port, 2000, *args, netns=path.client_ns)
    wait_connected(t, path)
    # The other side is reached over the same wire: it is not asked meanwhile.
    with netem("loss", "100%"):
        before = rounds_done(client)
        # The time that this is about.
        time.sleep(125)
        ended = client.poll() is not None
    if ended:
        raise Fail("%s gave up, or was done before its wire went, after %d rounds:\n%s" % (
            client, before, client.tail()))
    if before == 2000:
        raise Fail("%s was done before its wire went" % client)
    all_rounds(client, t.left())
    server.expect(t.left(30))
    # It has printed all that it sent.
    t.forget()
