# SPDX-License-Identifier: GPL-2.0
"""Receive Flow Steering: what arrives is taken in where the consumer is."""

import contextlib
import os

from rsiwtest.core import Fail, Skip, test
from rsiwtest.tools import Perftest, perftest
from rsiwtest.topo import steer

from .t40_cm import one_queue

FLOWS = 1024
# Messages of 64 KiB, of which some come together.
MESSAGES, LEAST = 300, 20


@contextlib.contextmanager
def steered(flows):
    """Within, what arrives goes to the first processor, where also the driver's work items are, but
    for flows that are read elsewhere: whoever sends is taken for one who reads. Gives two
    processors."""
    with one_queue() as cpus:
        if len(cpus) < 2:
            raise Skip("one processor")
        first, other, *_ = sorted(cpus)
        try:
            steer(1 << first, flows)
            yield first, other
        finally:
            steer(0, 0)


def handed_to(cpu):
    """How often a processor was told to take in what another one had."""
    with open("/proc/net/softnet_stat", encoding="ascii") as lines:
        rows = [[int(word, 16) for word in line.split()] for line in lines]
    return next(row[9] for row in rows if row[12] == cpu)


def messages(t, tool, server, client, *args):
    """Runs a program, each end on its processor."""
    os.sched_setaffinity(0, {server})
    pair = Perftest(t, t.topo.wire, tool, "-s", 65536, "-n", t.rounds(MESSAGES), *args)
    os.sched_setaffinity(0, {client})
    pair.connect()
    pair.finish()


@test("steering", cost=15, only_type="rsiw")
def steering(t):
    """With RFS the softirq is where the consumer is, whether that polls, posts or sleeps."""
    least = min(LEAST, t.rounds(MESSAGES) // 2)
    with t.loaded_with("direct=0"):
        with t.sub("without it nothing is"), steered(0) as (first, other):
            before = handed_to(other)
            messages(t, "ib_write_bw", other, first)
            if handed_to(other) - before >= least:
                raise Fail("handed over %d times" % (handed_to(other) - before))
        # A Write tells the program nothing, which polls its memory or does not; who reads waits for
        # completions.
        for tool, *args, where in (("ib_send_bw", "server"), ("ib_write_bw", "server"),
                                   ("ib_read_bw", "client"), ("ib_read_bw", "-e", "client")):
            with t.sub("%s, the %s receives" % (" ".join([tool, *args]), where)), \
                    steered(FLOWS) as (first, other):
                ends = (other, first) if where == "server" else (first, other)
                before = handed_to(other)
                messages(t, tool, *ends, *args)
                if handed_to(other) - before < least:
                    raise Fail("handed over %d times" % (handed_to(other) - before))


@test("steering-library", cost=10, only_type="rsiw")
def library(t):
    """Our own library, which posts without calls, over a way that is steered."""
    with t.loaded_with("direct=0"), t.library("rsiw"), steered(FLOWS):
        for op in ("send", "read"):
            perftest(t, t.topo.wire, "ib_%s_bw" % op, 65536, MESSAGES)
