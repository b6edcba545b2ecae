# SPDX-License-Identifier: GPL-2.0
"""What many objects of one process cost others."""

import contextlib
import re
import signal
import socket

from rsiwtest.core import Fail, test
from rsiwtest.groups import Group
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.probes import probed


def hoard(t, kind, count, *args, group=None):
    """The program that makes objects of a kind, started; in a group."""
    argv = [t.bin("hoard"), *t.topo.loopback.args(), "--port", t.port(),
            "--kind", kind, "--count", count, "--limit", int(t.left()), *args]
    return t.start(*(group.within(argv) if group else argv))


def made(proc):
    """How many objects it says it has made, at the least."""
    return max(map(int, re.findall(r"^(?:made|all) (\d+)", proc.output(), re.M)),
               default=0)


WAITS = ("synchronize_rcu", "synchronize_rcu_expedited", "rcu_barrier")


@test("many-qps", cost=8)
def many_qps(t):
    """Queue pairs end without a grace period each, given back or not."""
    count = t.rounds(1000)
    for end in ("given back", "left behind"):
        with t.sub("%d queue pairs, %s" % (count, end)), \
                probed(*WAITS) as probes:
            proc = hoard(t, "qp", count, "--hold")
            proc.wait_output("all %d: asked for" % count, t.left())
            probes.count(proc.pid)
            if end == "given back":
                proc.kill(signal.SIGUSR1)
                proc.wait_output("given back", t.left())
            else:
                proc.reap(t.left())
            waits = probes.calls()
            proc.reap()
            if sum(waits.values()) > count // 20:
                raise Fail("for %d queue pairs: %s" % (count, waits))


# How many objects of a kind to make, and what the driver has for each of them at the
# least, in octets: together more than what a program and the core account for.
OWN = {"pd": (16000, 56), "cq": (2000, 500), "srq": (2000, 500), "qp": (2000, 1200),
       "mr": (2000, 1200), "mw": (4000, 500), "listener": (1000, 4200)}


@test("charged", cost=15)
def charged(t):
    """What objects take counts for the memory cgroup of their process."""
    for kind, (count, each) in OWN.items():
        # The stock library has no windows.
        library = t.library("rsiw") if kind == "mw" else contextlib.nullcontext()
        with t.sub(kind), library, Group("rsiw-account", "memory") as group, \
                contextlib.ExitStack() as others:
            # Listeners that may have any port find one beside what TCP has.
            for _ in range(500 if kind == "listener" else 0):
                addr = (t.topo.loopback.addr4, 0)
                others.enter_context(socket.create_server(addr))
            proc = hoard(t, kind, count, "--hold", group=group)
            proc.wait_output("all %d: asked for" % count, t.left())
            wait_until(lambda: "%d octets for %d" % (group.stat("slab"), count),
                       5, lambda: group.stat("slab") >= count * each)
            proc.reap()


@test("memory-cgroup-regions", cost=10)
def regions(t):
    """One page, registered as often as the memory of the group allows."""
    limit = 24 << 20
    # It is the victim of the group's own limit, with a report in the log.
    t.allowed += ["Call Trace"]
    with Group("rsiw-account", "memory", memory_max=limit) as group:
        proc = hoard(t, "mr", 1 << 20, group=group)
        rv = proc.wait(t.left())
        if rv not in (0, -signal.SIGKILL):
            raise Fail("status %d:\n%s" % (rv, proc.tail()))
        if rv == 0 and ": ENOMEM" not in proc.output():
            raise Fail(proc.tail())
        if not 1000 <= made(proc) <= limit // OWN["mr"][1]:
            raise Fail("%d regions" % made(proc))


def free():
    """Octets of memory that nobody uses, once caches are empty."""
    LOCAL.write("/proc/sys/vm/drop_caches", "3")
    lines = LOCAL.read("/proc/meminfo").splitlines()
    return 1024 * int({k: v for k, v in (li.split(":") for li in lines)}["MemFree"].split()[0])


def connections(t, count, group):
    """Connections over TCP, each of which has sent a message, with both ends in a group."""
    return t.start(*group.within([
        t.bin("conns"), *t.topo.wire.args(), "--port", t.port(), "--count", count, "--parallel",
        count, "--ping", PING, "--hold", "--limit", int(t.left())]))


# Octets of a message: more than the page that is a connection's first memory to send from.
PING = 16384
LIMIT = 60 << 20
# Octets of a queue pair that may be charged to nobody: what TCP makes before there is a socket, and
# the core for identifiers and events.
UNPAID = 12 << 10


@test("charged-connections", cost=40, packaged=True)
def charged_connections(t):
    """What connections take counts for the memory cgroup of their processes, both sides."""
    count = 200
    with Group("rsiw-account", "memory") as group:
        # What is made once, and is kept.
        connections(t, 10, group).wait_output("HOLDING", t.left(60))
        t.reap()
        before, paid = free(), group.current()
        connections(t, count, group).wait_output("HOLDING", t.left())
        lost, paid = before - free(), group.current() - paid
        print("# %d connections: %d KiB are gone, %d KiB of them charged" % (
            count, lost >> 10, paid >> 10))
        t.reap()
    if lost - paid > 2 * count * UNPAID:
        raise Fail("for %d queue pairs %d KiB are gone, and %d KiB charged" % (
            2 * count, lost >> 10, paid >> 10))


@test("memory-cgroup-connections", cost=30)
def limited_connections(t):
    """Connections end at the limit of their group, and others are not concerned."""
    # The victim of the group's own limit is reported in the log.
    t.allowed += ["Call Trace"]
    # Enough for the processes and their objects, and not for what is sent and received with.
    with Group("rsiw-account", "memory", memory_max=LIMIT) as group:
        proc = connections(t, 400, group)
        wait_until("the limit of the group", t.left(60),
                   lambda: proc.poll() is not None or "HOLDING" in proc.output())
        if proc.poll() is None:
            raise Fail("all are made, and %d KiB charged" % (group.current() >> 10))
    t.own("conns", t.topo.wire, "--count", 20, "--parallel", 20, "--ping", PING)


OBJECTS = 100


@test("rdma-cgroup", cost=5)
def rdma_cgroup(t):
    """A group has as many objects as it may have; others are not concerned."""
    most = "%s hca_object=%d" % (t.topo.dev_lo, OBJECTS)
    for kind in ("pd", "cq", "srq", "qp", "mr"):
        with t.sub(kind), Group("rsiw-account", "rdma", rdma_max=most) as group:
            proc = hoard(t, kind, 2 * OBJECTS, "--hold", group=group)
            proc.wait_output("all ", t.left())
            beside = hoard(t, kind, 2 * OBJECTS)
            beside.expect(t.left())
            if ": EAGAIN" not in proc.output():
                raise Fail(proc.tail())
            # What all of them need counts, too.
            if not OBJECTS - 10 <= made(proc) <= OBJECTS:
                raise Fail("%d of %d" % (made(proc), OBJECTS))
            if made(beside) != 2 * OBJECTS:
                raise Fail("outside: " + beside.tail())
            proc.reap()
    most = "%s hca_handle=1" % t.topo.dev_lo
    with t.sub("handle"), Group("rsiw-account", "rdma", rdma_max=most) as group:
        first = hoard(t, "pd", 1, "--hold", group=group)
        first.wait_output("all 1", t.left())
        if not hoard(t, "pd", 1, group=group).wait(t.left()):
            raise Fail("the device is open twice")
        hoard(t, "pd", 1).expect(t.left())
        first.reap()
        hoard(t, "pd", 1, group=group).expect(t.left())
