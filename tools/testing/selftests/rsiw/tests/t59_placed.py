# SPDX-License-Identifier: GPL-2.0
"""Requests that complete when the peer has placed them: the parameter `wait_placed`."""

from rsiwtest import stats
from rsiwtest.core import Fail, test
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import long_way

# What completes before has to be on its way for longer than a look takes.
DELAY = ("delay", "20ms")
LOSSY = ("delay", "100ms", "loss", "0.1%")


@test("placed", cost=25, only_type="rsiw")
def placed(t):
    """What has completed is in the peer's memory, through TCP and past it."""
    wire, loopback = t.topo.wire, t.topo.loopback
    with t.sub("without the parameter it need not be"), long_way(DELAY):
        t.own("placed", wire, "--rounds", 1, "--early", 1)
    with t.loaded_with("wait_placed=1", "direct=0"):
        with t.sub("on a long way"), long_way(DELAY):
            t.own("placed", wire, "--rounds", t.rounds(10))
        t.own("placed", loopback, "--rounds", t.rounds(100))
    with t.loaded_with("wait_placed=1", "direct=1"):
        since = stats.Since(loopback.server_dev)
        t.own("placed", loopback, "--rounds", t.rounds(100))
        with t.sub("past TCP nobody is asked"):
            # Those of the program itself: one in each round.
            reads = since.of(loopback.server_dev).get("rx_read_requests", 0)
            if reads > t.rounds(100):
                raise Fail("%d Reads" % reads)


@test("placed-programs", cost=40, only_type="rsiw", long=True)
def programs(t):
    """Programs that end as soon as they have had the last message."""
    with t.loaded_with("wait_placed=1", "direct=0"):
        for path in (t.topo.wire, t.topo.loopback):
            with t.sub("rping, %s" % path.name):
                rping(t, path, count=50)
            for op in ("send", "write", "read"):
                with t.sub("ib_%s_bw, %s" % (op, path.name)):
                    perftest(t, path, "ib_%s_bw" % op, 64, 3000)
                    perftest(t, path, "ib_%s_bw" % op, 65536, 50, qps=4)
                with t.sub("ib_%s_lat, %s" % (op, path.name)):
                    perftest(t, path, "ib_%s_lat" % op, 64, 300)
        with t.sub("in both directions"):
            perftest(t, t.topo.wire, "ib_send_bw", 4096, 300, "-b")


# How many connections at a time, and how many rounds each has.
CONNECTIONS, ROUNDS = 20, 50


def side_by_side(t, *how):
    """Many connections at once over a way that loses packets: one takes seconds for a round."""
    with long_way(LOSSY):
        procs = [t.start(t.bin("placed"), *t.topo.wire.args(), "--port", t.port(), "--rounds",
                         ROUNDS, "--limit", 3000, *how) for _ in range(CONNECTIONS)]
        for proc in procs:
            proc.expect(t.left())


@test("placed-lossy", limit=3600, cost=600, only_type="rsiw", long=True)
def lossy(t):
    """The same a thousand times on a way of 200 ms that loses packets."""
    with t.loaded_with("wait_placed=1", "direct=0"):
        side_by_side(t)


@test("numbers-lossy", limit=3600, cost=600, only_type="rsiw", long=True)
def numbers_lossy(t):
    """The same for queue pairs that are connected by number."""
    with t.loaded_with("direct=0"):
        side_by_side(t, "--by-number")
