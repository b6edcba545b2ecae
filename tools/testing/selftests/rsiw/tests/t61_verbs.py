# SPDX-License-Identifier: GPL-2.0
"""The verbs, one program per family of rows (V-SRQ, ...)."""

from rsiwtest.core import test
from rsiwtest.tools import perftest


@test("srq", limit=90, cost=8)
def srq(t):
    """Shared receive queues: sizes, limit event, PDs, failures (V-SRQ)."""
    t.parts("srq", t.topo.loopback)


@test("srq-perftest", limit=90, cost=10)
def srq_perftest(t):
    """perftest on a shared receive queue.

    One QP: its credits name QPs by the receive that was used.
    """
    for path in t.topo.paths:
        with t.sub("V-SRQ-1 ib_send_bw --use-srq, %s" % path.name):
            perftest(t, path, "ib_send_bw", 4096, 500, "--use-srq")
        with t.sub("V-SRQ-1 ib_send_lat --use-srq, %s" % path.name):
            perftest(t, path, "ib_send_lat", 64, 200, "--use-srq")


@test("states", limit=150, cost=25)
def states(t):
    """All transitions of QP states and what they do (V-ST)."""
    t.parts("states", t.topo.wire)
