# SPDX-License-Identifier: GPL-2.0
"""Requests that complete when the peer has placed them: the parameter `wait_placed`."""

import contextlib

from rsiwtest import stats
from rsiwtest.core import Fail, test
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import IF_A, IF_B, NS_A, NS_B, sh

# What completes before has to be on its way for longer than a look takes.
DELAY = ("delay", "20ms")
LOSSY = ("delay", "100ms", "loss", "0.5%")


@contextlib.contextmanager
def long_way(how):
    """The way takes time in both directions, within."""
    ends = (IF_A, NS_A), (IF_B, NS_B)
    for netdev, netns in ends:
        sh("tc", "qdisc", "replace", "dev", netdev, "root", "netem", "limit", "100000",
           *how, netns=netns)
    try:
        yield
    finally:
        for netdev, netns in ends:
            sh("tc", "qdisc", "del", "dev", netdev, "root", netns=netns)


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


@test("placed-programs", cost=40, only_type="rsiw")
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


@test("placed-lossy", limit=3600, cost=600, only_type="rsiw", long=True)
def lossy(t):
    """The same a thousand times on a way of 200 ms that loses packets."""
    with t.loaded_with("wait_placed=1", "direct=0"), long_way(LOSSY):
        t.own("placed", t.topo.wire, "--rounds", 1000, "--limit", 3500)
