# SPDX-License-Identifier: GPL-2.0
"""Two ends on one host, whose segments go past TCP.

By default that is so within a network namespace, which the tests on the loopback
path show by the way. Here it is so between namespaces, too, and not at all, with
the tests of the wire that do not need one.
"""

import signal

from rsiwtest.core import Fail, test
from rsiwtest.tools import connected_qps, octets, perftest, stream
from rsiwtest.topo import NS_A
from tests import t40_cm, t60_data, t80_unplug

# As many as on a debugging kernel.
SIZE, COUNT = 65536, 50


def through_tcp(t, path):
    """Whether what perftest sends on the path goes through TCP."""
    for op in ("send", "write", "read"):
        before = octets(t, path.server_ns)
        perftest(t, path, "ib_%s_bw" % op, SIZE, COUNT)
        most = max(now - then for now, then in
                   zip(octets(t, path.server_ns), before))
        # One of the two directions carries all, or set-up only.
        if (most < SIZE * COUNT) != (most < SIZE * COUNT // 10):
            raise Fail("%s: %d octets through TCP" % (op, most))
        yield most >= SIZE * COUNT


def expect(t, path, is_tcp):
    if set(through_tcp(t, path)) != {is_tcp}:
        raise Fail("%s: not %s TCP" % (path.name,
                                       "through" if is_tcp else "past"))


@test("direct-scope", cost=25, only_type="rsiw")
def scope(t):
    """Where data goes past TCP: as the parameter `direct` says."""
    for value in (0, 1, 2):
        with t.loaded_with("direct=%d" % value):
            for path, least in ((t.topo.loopback, 1), (t.topo.wire, 2)):
                with t.sub("direct=%d, %s" % (value, path.name)):
                    expect(t, path, value < least)


@test("direct-data", cost=60, only_type="rsiw")
def data(t):
    """Contents, rights, order and statuses are those of TCP (T-6, T-20, V-ORD-2)."""
    path = t.topo.wire
    with t.loaded_with("direct=2"):
        for part in (t60_data.split, t60_data.random, t60_data.small,
                     t60_data.notify, t60_data.dereg):
            part(t)
        # Events of both sides are looked for at one device.
        for name, where in (("errors", t.topo.loopback), ("depths", path),
                            ("srq", path)):
            with t.sub(name):
                t.own(name, where)


@test("direct-tcp", cost=40, only_type="rsiw", long=True)
def tcp(t):
    """The same over TCP within a namespace."""
    with t.loaded_with("direct=0"):
        for part in (t60_data.split, t60_data.random, t60_data.small,
                     t60_data.notify, t60_data.dereg):
            part(t)
        for name in ("errors", "depths"):
            with t.sub(name):
                t.own(name, t.topo.loopback)


@test("direct-states", cost=30, only_type="rsiw")
def states(t):
    """States, and what they do, where the end of a connection is all of it that
    TCP carries (V-ST)."""
    with t.loaded_with("direct=2"):
        t.own("states", t.topo.wire, "--direct")


@test("direct-death", cost=30, only_type="rsiw")
def death(t):
    """Processes, devices, interfaces and the module go in mid-transfer."""
    with t.loaded_with("direct=2"):
        for part in (t40_cm.peer_death, t40_cm.kill_perftest, t80_unplug.link_del,
                     t80_unplug.link_del_one, t80_unplug.ip_link_del,
                     t80_unplug.unload_in_use):
            with t.sub(part.__doc__.split("\n")[0]):
                part(t)
            t.topo.ensure()


@test("direct-both-ways", cost=15, only_type="rsiw")
def both_ways(t):
    """Two that send to each other at once: all get on, none waits for another."""
    with t.loaded_with("direct=2"):
        for op in ("send", "write", "read"):
            with t.sub(op):
                perftest(t, t.topo.wire, "ib_%s_bw" % op, 65536, 300, "-b", qps=8)


@test("direct-stopped", cost=8, only_type="rsiw")
def stopped(t):
    """A process that does not run holds up its own connection only."""
    path = t.topo.wire
    with t.loaded_with("direct=2"):
        server, client = stream(t, path, "ib_send_bw", 60)
        server.popen.send_signal(signal.SIGSTOP)
        try:
            for op in ("send", "read"):
                with t.sub("others %s" % op):
                    perftest(t, path, "ib_%s_bw" % op, 65536, 50)
            if not connected_qps(NS_A):
                raise Fail("the connection of the stopped one is over")
        finally:
            server.popen.send_signal(signal.SIGCONT)
        if not client.reap() or not server.reap():
            raise Fail("cannot be killed")
