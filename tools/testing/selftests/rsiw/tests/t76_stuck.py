# SPDX-License-Identifier: GPL-2.0
"""Processes that stand still inside of the driver do not hold others up.

That is what becomes of one of least priority on a busy machine: it has locks,
and does not get the processor. Here a call of it is held (rsiw_fail), so that
how long it takes is not a matter of chance.
"""

import contextlib

from rsiwtest.core import WIRE, Fail, test
from rsiwtest.faults import CALLS, failing_calls, text_of
from rsiwtest.machine import wait_until
from rsiwtest.tools import rping
from rsiwtest.topo import IF_B, NS_B, sh


@contextlib.contextmanager
def stuck(t, path, where, call):
    """A process that stands still in `call`, which it makes while it does
    `where`."""
    t.need_module(CALLS)
    with failing_calls(text_of("rsiw")) as calls:
        with calls.stopped(call, "rsiw-stuck"):
            prog = t.start(t.bin("stuck"), *path.args(), "--port", t.port(),
                           "--limit", int(t.left(100)), "--in", where)
            prog.wait_output("STUCK", t.left(30))
            yield prog
            still(prog)
        prog.expect(t.left(30))


def still(prog):
    """It stands where it stood: nobody has waited for it."""
    if prog.poll() is not None or "let go" in prog.output():
        raise Fail("it did not stand still:\n%s" % prog.tail())


@test("stuck-connect", cost=8, only_type="rsiw")
def stuck_connect(t):
    """Others connect while one stands still in rdma_connect (T-42)."""
    with stuck(t, t.topo.loopback, "connect", "kernel_connect") as prog:
        for path in t.topo.paths:
            with t.sub("T-42 rping on " + path.name):
                rping(t, path, count=10)
                still(prog)


@test("stuck-send", cost=8, only_type="rsiw", tcp=WIRE)
def stuck_send(t):
    """The end of an interface does not wait, with the RTNL, for a sender."""
    t.topo.changed = True
    with stuck(t, t.topo.wire, "send", "tcp_sendmsg_locked"):
        gone = t.start("ip", "link", "del", IF_B, netns=NS_B)
        # Its first step, for which it has the RTNL.
        wait_until(lambda: "the end of " + IF_B, 30, lambda: IF_B not in sh(
            "ip", "-o", "link", "show", netns=NS_B))
        sh("ip", "link", "add", "rsd2", "type", "dummy")
        sh("ip", "link", "del", "rsd2")
    gone.expect(t.left(60))
