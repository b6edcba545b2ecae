# SPDX-License-Identifier: GPL-2.0
"""Failures inside of the driver, one after the other, each once.

For allocations and copies the kernel has to be one with fault injection, like
the debugging kernel; calls can be made to fail in any.
"""

import itertools
import re

from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.faults import (ANSWERS, ANSWERS_IN_VRF, CALLS, FUNCTIONS, NEAR,
                             failing_calls, failures, function, text_of)
from rsiwtest.kmsg import say
from rsiwtest.kverbs import complaint, loaded
from rsiwtest.leaks import leaked
from rsiwtest.machine import wait_until
from rsiwtest.topo import sh, status

# Failures that are all tried, how far apart the others are, and how many in one
# step are a loop.
EACH, STEP, MOST = 50, 10, 3000
# Cases of a kernel consumer that together use all there is.
CASES = ("mw-use", "inv-by-send", "fence-send", "drain-srq", "qp-resize")
REASONS = ("Cannot allocate memory", "No buffer space", "Bad address")
# What a kernel consumer is told: the initiator by an event, others by ENOMEM,
# ENFILE, EADDRINUSE, ENOBUFS or the end of the connection; in a transfer by
# vendor_err, that the stream was ended for a fault of its own by this side (1), or by
# the other one, which is in this kernel as well (2).
CLEAR = re.compile(r"^out of memory$|event (rejected|connect error)$|"
                   r": -(12|23|98|103|104|105)$|\(0x[12]0000\)$")


def sweep(t, what, failing, run, prepare=None, undo=None, succeeds=False):
    """Runs the step until nothing in it fails any more. `run` returns what it
    complains about, "" for nothing. A device is a thousand allocations of the
    core; the driver's own are among the first."""
    seen = 0
    with t.sub("failures to " + what):
        for n in [*range(EACH), *range(EACH, MOST, STEP)]:
            t.left()
            say("%s, failure %d" % (what, n))
            if prepare:
                prepare()
            failing.arm(n)
            try:
                error = run()
            finally:
                fired = failing.disarm()
            if error and (not fired or succeeds):
                raise Fail("failure %d: %s" % (n, error))
            if error and not any(r in error for r in REASONS):
                raise Fail("failure %d is told as: %s" % (n, error))
            seen += error != ""
            if not error and undo:
                undo()
            if not fired:
                say("%s: %d failures inside, %d told" % (what, n, seen))
                if not n and not succeeds:
                    raise Fail("nothing can be made to fail")
                return
        raise Fail("no end after %d failures" % MOST)


def tried(*argv):
    """A command, for `sweep`."""
    def run():
        rv, out = status(*argv, timeout=120)
        return (out.strip() or "status %d" % rv) if rv else ""
    return run


def program(t, kind, *args):
    """The failures of a kind in what programs do."""
    with failures(kind, text_of(t.env.module)) as failing:
        if kind == "allocations":
            args += ("--each",)
        t.own("faults", t.topo.loopback, "--dir", failing.dir, *args)


@test("faults-objects", cost=8, only_type="rsiw", where=FUNCTIONS)
def objects(t):
    """Allocations that fail in verbs, transfers and ends of connections."""
    program(t, "allocations", "--only", "[!c]*")


@test("faults-connect", cost=8, only_type="rsiw", where=FUNCTIONS)
def connect(t):
    """Allocations that fail while connections are made."""
    program(t, "allocations", "--only", "c*")


@test("faults-copies", cost=3, only_type="rsiw", where=FUNCTIONS)
def copies(t):
    """Copies from and to programs that fail."""
    program(t, "copies")


@test("faults-own-rings", cost=12, only_type="rsiw", where=FUNCTIONS)
def own_rings(t):
    """The same with the rings of our own library."""
    with t.library("rsiw-poll"):
        objects(t)
        copies(t)


@test("faults-link", cost=12, only_type="rsiw", where=FUNCTIONS)
def link(t):
    """Allocations that fail while devices come and go."""
    name = t.type + "_f"
    add = ("rdma", "link", "add", name, "type", t.type, "netdev", "rsdum")
    delete = ("rdma", "link", "del", name)
    sh("ip", "link", "add", "rsdum", "type", "dummy")
    sh("ip", "link", "set", "rsdum", "up")
    try:
        with failures("allocations", text_of(t.env.module), NEAR) as failing:
            sweep(t, "add a device", failing, tried(*add),
                  undo=lambda: sh(*delete))
            sweep(t, "remove a device", failing, tried(*delete),
                  prepare=lambda: sh(*add), succeeds=True)
        sh(*add)
        if t.topo.links().get(name) != "ACTIVE":
            raise Fail("the device is not active afterwards")
    finally:
        status("ip", "link", "del", "rsdum")


@test("faults-netdev", cost=12, only_type="rsiw", where=FUNCTIONS)
def netdev(t):
    """Allocations that fail while the interface of a device goes away."""
    # The core keeps a name for longer than the device is seen.
    names = (t.type + "_f%d" % n for n in itertools.count())

    def prepare():
        sh("ip", "link", "add", "rsdum", "type", "dummy")
        sh("ip", "link", "set", "rsdum", "up")
        sh("rdma", "link", "add", next(names), "type", t.type, "netdev", "rsdum")

    def run():
        error = tried("ip", "link", "del", "rsdum")()
        wait_until("the device to go", 20, lambda: not any(
            name.startswith(t.type + "_f") for name in t.topo.links()))
        return error

    with failures("allocations", text_of(t.env.module), NEAR) as failing:
        sweep(t, "remove an interface", failing, run, prepare=prepare,
              succeeds=True)


@test("faults-kernel", limit=600, cost=100, only_type="rsiw", where=FUNCTIONS)
def kernel(t):
    """Allocations that fail in what consumers in the kernel do."""
    with loaded(t), failures("allocations", text_of(t.env.module)) as failing:
        for name in CASES:
            with t.sub("failures in %s" % name):
                every_failure(t, name, failing)


def every_failure(t, name, failing):
    """Every fifth failure, on a debugging kernel every tenth: a clear error, or
    none; afterwards all is well."""
    for n in range(0, MOST, STEP // 2 if t.env.slow == 1 else STEP):
        t.left()
        say("%s, failure %d" % (name, n))
        failing.arm(n)
        try:
            error = complaint(name)
        finally:
            fired = failing.disarm()
        if not fired:
            if error:
                raise Fail("without a failure: %s" % error)
            if not n:
                raise Fail("nothing can be made to fail")
            say("%s: %d failures inside" % (name, n))
            return
        say("%s, failure %d: %s" % (name, n, error or "ok"))
        if error and not CLEAR.search(error):
            raise Fail("failure %d is told as: %s" % (n, error))
        error = complaint(name)
        if error:
            raise Fail("after failure %d: %s" % (n, error))
    raise Fail("no end after %d failures" % MOST)


@test("faults-module", cost=8, only_type="rsiw", where=FUNCTIONS)
def module(t):
    """Allocations that fail while the module is loaded."""
    t.unload()
    try:
        # Nothing knows where the module's code will be.
        with failures("allocations", function("do_one_initcall"),
                      NEAR) as failing:
            sweep(t, "load the module", failing,
                  tried("modprobe", t.env.module), undo=t.unload)
    finally:
        t.try_load()
    t.topo.ensure()


@test("faults-leaks", cost=12, only_type="rsiw", where=FUNCTIONS)
def leaks(t):
    """Nothing of all that is left: the module goes, and no memory is lost."""
    t.unload()
    found = leaked(True)
    t.load()
    if found:
        raise Fail(found)


@test("faults-calls", cost=6, only_type="rsiw", tcp=ANY_PATH)
def calls(t):
    """Calls of the network and of the RDMA core that fail."""
    t.need_module(CALLS)
    with failing_calls(text_of(t.env.module)) as failing:
        def parts():
            t.own("faults", t.topo.loopback, "--dir", failing.dir)

        parts()
        # What only our library asks for.
        failing.set("only", "vhost_task_create")
        with t.library("rsiw-poll"):
            parts()
        # Who comes first in what runs side by side is different each time:
        # some were never the one to fail.
        for name in failing.never(ANSWERS):
            failing.set("only", name)
            parts()
        each_failed(t, failing, ANSWERS)


def each_failed(t, failing, answers):
    """None of the calls went well each time."""
    never = failing.never(answers)
    with t.sub("each of them failed at least once"):
        if never:
            raise Fail("never: " + ", ".join(never))


@test("faults-calls-vrf", cost=2, only_type="rsiw", packaged=True)
def calls_in_a_vrf(t):
    """Calls that are made for an interface in a VRF only."""
    t.need_module(CALLS)
    t.need_module("vrf")
    dev, addr = "rsiw_vrf", "10.77.0.1"
    try:
        sh("ip", "link", "add", "rsv", "type", "vrf", "table", "1011")
        sh("ip", "link", "add", "rsvd", "type", "dummy")
        sh("ip", "link", "set", "rsvd", "master", "rsv")
        for netdev in ("rsv", "rsvd"):
            sh("ip", "link", "set", netdev, "up")
        sh("ip", "addr", "add", addr + "/24", "dev", "rsvd")
        t.topo.add_link(dev, "rsvd")
        with failing_calls(text_of(t.env.module), ANSWERS_IN_VRF) as failing:
            port = t.port()
            serve = ("rping", "-s", "-a", addr, "-p", port)
            with t.sub("a failure to listen is told"):
                failing.arm(0)
                server = t.start(*serve)
                failed = server.wait(10)
                if not failing.disarm() or not failed or not any(
                        r in server.tail() for r in REASONS):
                    raise Fail("status %s: %s" % (failed, server.tail()))
            with t.sub("and listening works afterwards"):
                t.start(*serve).wait_listening(port)
            each_failed(t, failing, ANSWERS_IN_VRF)
    finally:
        t.reap()
        # The device goes with its interface.
        for netdev in ("rsvd", "rsv"):
            sh("ip", "link", "del", netdev, check=False)
