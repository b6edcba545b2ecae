# SPDX-License-Identifier: GPL-2.0
"""Processes that stand still do not hold others up.

Inside of the driver they do on a busy machine, with the least priority: they have
locks, and do not get the processor. Here a call of theirs is held (rsiw_fail), so
that how long it takes is not a matter of chance. Threads of theirs in the kernel
stop with them.
"""

import contextlib
import ctypes
import os
import signal

from rsiwtest.core import ANY_PATH, WIRE, Fail, test
from rsiwtest.faults import CALLS, failing_calls, text_of
from rsiwtest.groups import Group
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.pingpong import Pingpong
from rsiwtest.tools import rping
from rsiwtest.topo import IF_B, NS_A, NS_B, objects, sh, status

from .t58_by_number import asks, hello, waits


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


@test("stuck-seen", cost=8, only_type="rsiw", tcp=WIRE)
def stuck_seen(t):
    """Who looks at objects of others does not wait for those who have their locks."""
    with stuck(t, t.topo.wire, "send", "tcp_sendmsg_locked") as prog:
        for kind in ("qp", "cm_id", "cq", "pd"):
            shown = objects(kind, details=True, timeout=10)
            if not any(o.get("pid") == prog.pid for o in shown):
                raise Fail("not the program's %s: %s" % (kind, shown))
            still(prog)


@test("stuck-numbers", cost=15, only_type="rsiw", tcp=ANY_PATH)
def stuck_numbers(t):
    """Queue pairs meet by number while a Request names one whose process has its lock."""
    path = t.topo.loopback
    # Somebody listens for Requests.
    waits(t, path, 100)
    with stuck(t, path, "send", "tcp_sendmsg_locked") as prog:
        numbers = [o["lqpn"] for o in objects("qp") if o.get("pid") == prog.pid]
        for number in numbers:
            asks(path.addr4, hello(1, number, 0)).close()
        Pingpong(t, path, "ibv_rc_pingpong", 1, "-n", 10, "-c").finish()
        still(prog)
    t.reap()


POLLER = "rsiw-poll"


def lookers(pid):
    """The threads of a process that look at its queues, and their states."""
    found = {}
    for tid in LOCAL.listdir("/proc/%d/task" % pid):
        # State: letter (name)
        text = LOCAL.read("/proc/%d/task/%s/status" % (pid, tid))
        values = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        if values.get("Name") == POLLER:
            found[int(tid)] = values["State"][0]
    return found


def are_stopped(proc, state):
    """Waits until its threads that look are in this state."""
    wait_until(lambda: "its threads stop: %s" % lookers(proc.pid), 10,
               lambda: set(lookers(proc.pid).values()) == {state})


@contextlib.contextmanager
def by_signal(proc, _):
    """Stopped by a signal."""
    proc.popen.send_signal(signal.SIGSTOP)
    try:
        are_stopped(proc, "T")
        yield
    finally:
        proc.popen.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def by_freezer(_, group):
    """Stopped with its control group."""
    LOCAL.write(group.path + "/cgroup.freeze", "1")
    try:
        wait_until("the group is frozen", 10,
                   lambda: "frozen 1" in LOCAL.read(group.path + "/cgroup.events"))
        yield
    finally:
        LOCAL.write(group.path + "/cgroup.freeze", "0")


PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


def trace(pid):
    """Stops the threads of a process, as long as this one lives."""
    libc = ctypes.CDLL(None)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    for tid in LOCAL.listdir("/proc/%d/task" % pid):
        for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
            if libc.ptrace(request, int(tid), None, None):
                os._exit(1)
    while True:
        signal.pause()


@contextlib.contextmanager
def by_debugger(proc, _):
    """Stopped by a debugger."""
    debugger = os.fork()
    if debugger == 0:
        trace(proc.pid)
    try:
        are_stopped(proc, "t")
        yield
    finally:
        os.kill(debugger, signal.SIGKILL)
        os.waitpid(debugger, 0)


@contextlib.contextmanager
def looked_at(t, stops, qps, *argv):
    """A process with queue pairs that the kernel looks at, which stands still."""
    with Group("rsiw-stopped") as group:
        with t.library("rsiw-poll"):
            proc = t.start(*group.within(argv))
        wait_until(lambda: "the kernel looks at its queues:\n%s" % proc.tail(), 20,
                   lambda: len(lookers(proc.pid)) == qps)
        with stops(proc, group):
            yield proc
            if proc.poll() is not None or not lookers(proc.pid):
                raise Fail("it did not stand still:\n%s" % proc.tail())
        proc.reap()


def unload_in_vain(t):
    """The module is said to be in use, at once."""
    with t.within(5, "the attempt to unload it"):
        rv, out = status("rmmod", t.env.module, timeout=60)
    if rv == 0 or "in use" not in out:
        raise Fail("rmmod: status %d, %s" % (rv, out))


@test("stuck-poll", cost=15, only_type="rsiw")
def stuck_look(t):
    """Nothing that ends waits for a process that was stopped while the kernel looked at
    its queue: no device, interface, namespace, and not the module."""
    for stops in (by_signal, by_freezer, by_debugger):
        t.topo.ensure()
        busy = (t.bin("poller"), *t.topo.loopback.args(), "--port", t.port(), "--stream")
        with t.sub("device, " + stops.__doc__), looked_at(t, stops, 2, *busy):
            t.topo.changed = True
            with t.within(8, "the removal"):
                sh("rdma", "link", "del", t.topo.dev_lo)
            unload_in_vain(t)
        # Once it has gone on nothing of it is left.
        with t.sub("module, " + stops.__doc__):
            wait_until("the module goes", 20,
                       lambda: status("rmmod", t.env.module, timeout=60)[0] == 0)
            t.load()
    # Has a queue pair, and waits for its peer to come.
    idle = ("ibv_rc_pingpong", "-g", "0", "-p", t.port(), "-d")
    t.topo.ensure()
    with t.sub("interface"), looked_at(t, by_signal, 1, *idle, t.topo.dev_b):
        t.topo.changed = True
        with t.within(8, "the removal"):
            sh("ip", "link", "del", IF_B, netns=NS_B, timeout=60)
        wait_until("its device is gone", 8, lambda: t.topo.dev_b not in t.topo.links())
    t.topo.ensure()
    with t.sub("namespace"), looked_at(t, by_signal, 1, *idle, t.topo.dev_a):
        t.topo.changed = True
        sh("ip", "netns", "del", NS_A)
        wait_until("its device is gone", 8, lambda: t.topo.dev_a not in t.topo.links())
