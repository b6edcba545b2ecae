# SPDX-License-Identifier: GPL-2.0
"""Failures inside of the driver, by the kernel's own fault injection.

Of everything that can be made to fail only what has the driver in its stack
counts, whoever does it: a program's system call, a work item, a softirq. The
controls are exact: `space` things pass, then `times` fail.
"""

import contextlib
import os
import re

from .core import Fail
from .machine import LOCAL, wait_until
from .topo import sh

DEBUGFS = "/sys/kernel/debug"
FUNCTIONS = DEBUGFS + "/fail_function"
COPIES = DEBUGFS + "/fail_usercopy"
# How many frames of the stack are looked at: the most there can be, which takes
# in what the core and the network allocate for the driver; and few, for what it
# and who it calls allocate. A third of either are of the injection itself.
DEEP, NEAR = 32, 16
ENOMEM = -12

# What the slab and the page allocator ask, with the answer that means no.
ALLOCATIONS = {"should_failslab": ENOMEM, "should_fail_alloc_page": 1}

# Our own module (tools/testing/kverbs) makes these fail, which is what they answer.
CALLS = "rsiw_fail"
# This one too; it counts.
WATCH = "rsiw_watch"
ENOBUFS, ENOTCONN, EFAULT = -105, -107, -14
ANSWERS = {
    "sock_create_kern": ENOBUFS,
    "kernel_bind": ENOBUFS,
    "kernel_listen": ENOBUFS,
    "sock_create_lite": ENOBUFS,
    "kernel_connect": ENOBUFS,
    "kernel_getsockname": ENOBUFS,
    "inet_getname": ENOTCONN,
    "kernel_sock_shutdown": ENOTCONN,
    "tcp_sendmsg_locked": ENOMEM,
    "_ib_copy_validate_udata_in": EFAULT,
    "_ib_respond_udata": EFAULT,
    "ib_umem_get_attr_or_va": ENOMEM,
    "rdma_user_mmap_entry_insert_range": ENOMEM,
    "vm_insert_page": ENOMEM,
    "__xa_alloc_cyclic": ENOMEM,
    "__xa_insert": ENOMEM,
    "__vmalloc_noprof": 0,
    "vhost_task_create": ENOMEM,
}
# What is called for an interface in a VRF only.
ANSWERS_IN_VRF = {"sock_bindtoindex": ENOMEM}


class Failures:
    """The controls of one kind of failure; see `failures`."""

    def __init__(self, directory):
        self.dir = directory

    def set(self, name, value):
        LOCAL.write(os.path.join(self.dir, name), str(value))

    def arm(self, passes):
        """The next but `passes` fails."""
        self.set("space", passes)
        self.set("times", 1)

    def disarm(self):
        """No more failures; whether there was one."""
        left = int(LOCAL.read(os.path.join(self.dir, "times")))
        self.set("times", 0)
        return left == 0

    def never(self, answers):
        """The calls of which none was made to fail, of those in `answers`."""
        fired = dict(line.split() for line in LOCAL.read(
            os.path.join(self.dir, "fired")).splitlines())
        return [name for name in answers if fired[name] == "0"]

    @contextlib.contextmanager
    def held(self, call, task=""):
        """The task's next such call, or that of a work item, which has "hold" for an answer,
        waits; gives a function that waits until it does. At the end the call is made."""
        self.set("only", call)
        self.set("task", task + "\n")
        self.arm(0)
        held = os.path.join(self.dir, "held")
        try:
            yield lambda: wait_until("%s is held in %s" % (task or "a work item", call), 20,
                                     lambda: int(LOCAL.read(held)) == 1)
        finally:
            self.set("times", 0)
            self.set("held", 0)
            self.set("task", "\n")
            self.set("only", "\n")

    @contextlib.contextmanager
    def stopped(self, call, task):
        """The task's next such call does not come back within."""
        self.set("only", call)
        self.set("stop", task)
        try:
            yield
        finally:
            self.set("stop", "\n")
            self.set("only", "\n")

    def stack(self, what, start, end):
        """What the stack needs ("require") or must not have ("reject")."""
        self.set(what + "-start", hex(start))
        self.set(what + "-end", hex(end))


def symbols():
    """Address, type, name and module of each piece of the kernel's code."""
    for line in LOCAL.read("/proc/kallsyms").splitlines():
        field = line.split()
        if field[1] in "tT":
            yield int(field[0], 16), field[2], field[3:]


def text_of(module):
    """The addresses of a module's code: first, and behind the last."""
    mine = [a for a, _, where in symbols() if where == ["[%s]" % module]]
    if not mine:
        raise Fail("%s is not loaded" % module)
    return min(mine), (max(mine) | 0xfff) + 1


def has(name):
    """Whether the kernel has this function."""
    return any(n == name and not where for _, n, where in symbols())


def text_like(module, pattern):
    """The addresses of a module's functions with such names: where the first
    begins and the last ends."""
    mine = sorted((a, n) for a, n, where in symbols()
                  if where == ["[%s]" % module] and not n.startswith("__pfx"))
    found = [i for i, (_, n) in enumerate(mine) if re.search(pattern, n)]
    if not found:
        raise Fail("no function is %s" % pattern)
    behind = [a for a, _ in mine[found[-1] + 1:] if a > mine[found[-1]][0]]
    return mine[found[0]][0], (behind or [mine[-1][0] | 0xfff])[0]


def lock_name():
    """The function that takes a mutex for the driver."""
    # With lock debugging mutex_lock is a macro, of which Rust has a function.
    return "rust_helper_mutex_lock" if has("mutex_lock_nested") else "mutex_lock"


def address(module, pattern):
    """Where the one function of a module with such a name begins."""
    found = [a for a, n, where in symbols()
             if where == ["[%s]" % module] and re.search(pattern, n)
             and not n.startswith("__pfx")]
    if len(found) != 1:
        raise Fail("%d functions are %s" % (len(found), pattern))
    return found[0]


def function(name):
    """The same as `text_of` of a function of the kernel."""
    all_of_them = sorted((a, n) for a, n, where in symbols() if not where)
    for i, (start, known) in enumerate(all_of_them[:-1]):
        if known == name:
            return start, all_of_them[i + 1][0]
    raise Fail("the kernel has no %s" % name)


@contextlib.contextmanager
def failures(kind, where, depth=DEEP):
    """Failures of a kind, "allocations" or "copies", within an address range;
    none is armed yet."""
    f = Failures(FUNCTIONS if kind == "allocations" else COPIES)
    f.set("times", 0)
    f.set("verbose", 0)
    f.set("task-filter", "N")
    f.set("stacktrace-depth", depth)
    f.stack("require", *where)
    # It says so in the log when there is no memory for what it is told of.
    f.stack("reject", *function("ref_tracker_alloc"))
    if kind == "allocations":
        for name, answer in ALLOCATIONS.items():
            LOCAL.write(FUNCTIONS + "/inject", name)
            LOCAL.write("%s/%s/retval" % (FUNCTIONS, name),
                        str(answer & (1 << 64) - 1))
    f.set("probability", 100)
    try:
        yield f
    finally:
        f.set("probability", 0)
        if kind == "allocations":
            LOCAL.write(FUNCTIONS + "/inject", " ")


@contextlib.contextmanager
def failing_calls(where, answers=None):
    """Failures of the driver's calls, made within an address range; `answers`
    are others than ANSWERS."""
    answers = answers or ANSWERS
    sh("modprobe", CALLS, "start=%#x" % where[0], "end=%#x" % where[1],
       "calls=" + ",".join("%s:%s" % pair for pair in answers.items()))
    try:
        yield Failures("%s/%s" % (DEBUGFS, CALLS))
    finally:
        sh("modprobe", "-r", CALLS)


@contextlib.contextmanager
def watched(each, since):
    """Counts, in softirq, the calls of one function after those of another."""
    sh("modprobe", WATCH, "each=%#x" % each, "since=%#x" % since)
    try:
        yield lambda name: int(LOCAL.read("%s/%s/%s" % (DEBUGFS, WATCH, name)))
    finally:
        sh("modprobe", "-r", WATCH)
