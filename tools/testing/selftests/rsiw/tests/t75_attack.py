# SPDX-License-Identifier: GPL-2.0
"""Attacks from user space: on the mapped queues, by mappings, by limits.

Each beside a program that moves data and looks at every byte of it.
"""

import random
import signal
import time

from rsiwtest.core import Fail, test
from rsiwtest.groups import Group
from rsiwtest.machine import wait_until
from rsiwtest.tools import rping


def bystander(t, path, seconds, *args):
    """Verified traffic on the devices of the attack, once it flows."""
    proc = t.start(t.bin("integrity"), *path.args(), "--port", t.port(),
                   "--only", "random", "--seconds", seconds, "--max-size",
                   100000, "--limit", int(t.left()), *args)
    # Its traffic has begun, most likely.
    time.sleep(0.5)
    return proc


def attack(t, path, seconds, seed, *args):
    """The program that scribbles, started."""
    return t.start(t.bin("scribble"), *path.args(), "--port", t.port(),
                   "--seconds", seconds, "--rounds", 8, "--seed", seed, "--limit",
                   int(t.left()), *args)


def scribble(t, path, seconds, seed, *args):
    """One attack to its end and one that is killed, beside a bystander."""
    beside = bystander(t, path, seconds + 1)
    whole = attack(t, path, seconds, seed, *args)
    # In the midst of the first one.
    time.sleep(seconds / 2)
    killed = attack(t, path, 1000, seed + 1, *args)
    whole.expect(t.left())
    if killed.poll() is not None:
        raise Fail("%s ends with status %s:\n%s" % (
            killed, killed.poll(), killed.tail()))
    if not killed.reap():
        raise Fail("%s cannot be killed" % killed)
    beside.expect(t.left(60))
    rping(t, path, count=20)


@test("scribble", cost=9)
def quick(t):
    """A process writes into its mapped queues (V-PRIV-1, V-PRIV-3, T-3)."""
    for path in t.topo.paths:
        with t.sub("V-PRIV-1 V-PRIV-3 on " + path.name), t.library("stock"):
            scribble(t, path, 2, 1)


@test("scribble-own", cost=24, only_type="rsiw")
def own(t):
    """The same with the rings of our own library, windows and atomics included."""
    for name in ("rsiw", "rsiw-poll"):
        for path in t.topo.paths:
            with t.sub("V-PRIV-1 V-PRIV-3 on %s, %s" % (path.name, name)), t.library(name):
                scribble(t, path, 2, 1, "--own")


@test("scribble-long", cost=280, limit=600, long=True)
def long(t):
    """The same for a minute on each path and with each kind of rings, with seeds of its
    own."""
    for path in t.topo.paths:
        with t.sub("V-PRIV-1 V-PRIV-3 on " + path.name), t.library("stock"):
            scribble(t, path, 60, random.randrange(1, 1 << 32))
        with t.sub("V-PRIV-1 V-PRIV-3 on %s, own rings" % path.name), \
                t.library("rsiw"):
            scribble(t, path, 60, random.randrange(1, 1 << 32), "--own")


@test("mappings", cost=6)
def mappings(t):
    """Mappings wrong, gone, changed, inherited; limits (V-PRIV-2, V-PRIV-3)."""
    t.own("mappings", t.topo.loopback)


@test("greedy", cost=5)
def greedy(t):
    """A process that wants all memory for its rings gets what it may have.

    S-5042-10
    """
    # It is the victim of the group's own limit, with a report in the log: the
    # stack of the call, in which the core's accounting may have left a trace.
    t.allowed += ["Call Trace", "rdma_restrack_"]
    path = t.topo.loopback
    beside = bystander(t, path, 3)
    with Group("rsiw-greedy", "memory", memory_max=24 << 20) as group:
        proc = t.start(*group.within([t.bin("mappings"), "--greedy", *path.args(),
                                      "--port", t.port()]))
        rv = proc.wait(t.left(40))
        if rv not in (0, -signal.SIGKILL):
            raise Fail("status %d:\n%s" % (rv, proc.tail()))
        rows = [int(n) for n in proc.output().split() if n.isdigit()]
        # 16 would be as many as all of it holds.
        if not rows or max(rows) > 24:
            raise Fail("it got %s queue pairs" % rows[-1:])
        wait_until(lambda: "little of %d octets stays charged" % group.stat("vmalloc"),
                   10, lambda: group.stat("vmalloc") <= 1 << 20)
        beside.expect(t.left(60))
