#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Rules of rsiw-design.rst, "Rules for objects", as far as a program sees them.

Reads the driver's Rust files, outside comments and strings, function by function. Run
at the top of the checkout.
"""

import os
import re
import sys

DRIVER = "drivers/infiniband/sw/rsiw"
LOCKING = "Documentation/infiniband/rsiw-locking.rst"
# Protocol without waits and locks, tests, and what stands for the kernel itself.
LEFT_OUT = re.compile(r"^(proto|wire|compat)/|^kunit\.rs$")
NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)

# What waits for others, beside taking a lock.
WAITS = re.compile(r"""
    \b(?:wait_for_completion\w*|synchronize_\w+|rcu_barrier|fsleep|msleep|schedule_timeout\w*
       |close_and_wait|flush_events|flush_work\w*|__flush_workqueue
       |drain_workqueue|destroy_workqueue|shared_flush|cancel_\w*sync\w*|timer_delete_sync
       |hrtimer_cancel|vhost_task_stop|kthread_stop\w*|unregister_netdevice_notifier
       |rdma_link_unregister|ib_unregister_(?:device|driver)|rsiw_debugfs_remove)\s*\(
    |\.\s*wait(?:_\w+)?\s*\(\s*(?:&mut\s+\w+\b[^()]*)?\s*\)
    |\.\s*revoke\s*\(\s*\)
    |\b(?:Timer|ShortTimer)::stop\s*\(
    |\b(?:queues|self)(?:\.\w+)*\.(?:flush|drain)\s*\(\s*\)
    """, re.X)


class Function:
    """A function with its body, in which comments and strings are blanks."""

    def __init__(self, name, start, end):
        self.name, self.start, self.end = name, start, end


def blank(text):
    """The text with blanks for comments and strings, each character at its place."""
    return NOISE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def functions(code):
    """The functions with a body, the inner ones behind those that they are in."""
    for m in re.finditer(r"\bfn\s+(\w+)", code):
        depth, i = 0, m.end()
        # The signature ends with a body or without one.
        while i < len(code) and not (depth == 0 and code[i] in "{;"):
            depth += (code[i] in "([") - (code[i] in ")]")
            i += 1
        if i == len(code) or code[i] == ";":
            continue
        yield Function(m.group(1), m.start(), end_of_block(code, i))


def end_of_block(code, at):
    """Behind the brace that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth == 0:
            return i + 1
    return len(code)


def function_at(found, at):
    """The innermost function around a place."""
    around = [f for f in found if f.start <= at < f.end]
    return min(around, key=lambda f: f.end - f.start).name if around else ""


def line_of(code, at):
    return code.count("\n", 0, at) + 1


class Source:
    """A file of the driver."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.code = blank(text)
        self.functions = list(functions(self.code))
        # By name of a field.
        self.locks = dict(re.findall(r"\b(\w+)\s*:\s*(SpinLockIrq|SpinLock|Mutex)\s*<", self.code))

    def at(self, place):
        return f"{self.path}:{line_of(self.code, place)}"

    def function(self, place):
        return function_at(self.functions, place)


# What is waited for, by file and function, in words of "What an end waits for" in
# rsiw-locking.rst, which says how long that lasts. None: a function that waits for what its
# caller says, and is looked for as such.
HANDLE = "upcalls (the gate of its handle)"
MEMORY = "users of the memory (its gate)"
TIMERS = "the timers' functions"
UNLOAD = "work, RCU callbacks, memory that is being freed"
ALL_WAITS = {
    ("ffi/sync/gate.rs", "close_and_wait"): None,
    ("ffi/sync/gate.rs", "wait_empty"): None,
    ("ffi/time/timer.rs", "stop"): None,
    ("ffi/time/hrtimer.rs", "stop"): None,
    ("ffi/rdma/handle.rs", "revoke"): None,
    ("ffi/workqueue.rs", "flush"): None,
    ("ffi/workqueue.rs", "drain"): None,
    ("ffi/rsiw/queues.rs", "drain"): None,
    ("mr.rs", "wait_quiet"): None,
    ("cm/endpoint.rs", "disarm"): TIMERS,
    ("cm/acceptor.rs", "remove"): TIMERS,
    ("qp/inner.rs", "dismantle"): TIMERS,
    ("qp/deferred.rs", "cancel_timer"): TIMERS,
    ("qp/deferred.rs", "stop_timers"): TIMERS,
    ("qp/effects.rs", "release"): TIMERS,
    ("rnic/removal.rs", "close"): TIMERS,
    ("cm.rs", "close_all"): "endpoints that are left (``close_all``)",
    ("cm/registry.rs", "wait_empty"): None,
    ("rnic/removal.rs", "wait_until"): "consumers in the kernel",
    ("rnic/removal.rs", "leave"): "events of iw_cm that are on their way",
    ("rnic/removal.rs", "await_cleanup"): "their connects (``await_cleanup``)",
    ("rnic/removal.rs", "await_domains"): "domains (``await_domains``)",
    ("cm/registry.rs", "wait_empty_for"): "connections (``end_all``)",
    ("link.rs", "drop"): "removal of all devices; work",
    ("ffi/rdma/device.rs", "remove_all"): "removal of all devices",
    ("ffi/rdma/link.rs", "drop"): "removal of all devices",
    ("ffi/net/notifier.rs", "drop"): "removal of all devices",
    ("ffi/module.rs", "drop"): UNLOAD,
    ("ffi/workqueue.rs", "drop"): UNLOAD,
    ("ffi/rsiw/queues.rs", "drop"): UNLOAD,
    ("ffi/debugfs.rs", "drop"): "who reads or writes its debugfs files",
    ("ffi/mm/movable.rs", "drop"): "readers of the word that moves, RCU",
    ("ffi/net/tls.rs", "drop"): "who tells of the end of a handshake",
    ("ffi/task/serving.rs", "run"): "the thread that has asked for it",
    ("ffi/rdma/callbacks/qp.rs", "destroy_qp"): "upcalls, and references of iw_cm",
    ("ffi/rdma/callbacks/queue.rs", "pre_destroy_cq"): HANDLE,
    ("ffi/rdma/callbacks/srq.rs", "destroy_srq"): HANDLE,
    ("ffi/rdma/callbacks/qp.rs", "create_qp"): "whoever has its handle",
    ("ffi/rdma/callbacks/queue.rs", "create_cq"): "whoever has its handle",
    ("ffi/rdma/callbacks/srq.rs", "create_srq"): "whoever has its handle",
    ("ffi/rdma/device.rs", "add"): "whoever has its handle",
    ("ffi/rdma/callbacks/device.rs", "dealloc_ucontext"): "who takes back an offer to map a ring",
    ("ffi/rdma/callbacks/device.rs", "dealloc_driver"): "who tells of the device",
    ("ffi/rdma/umem.rs", "take"): MEMORY,
    ("ffi/rdma/kmr.rs", "release"): MEMORY,
    ("mr/fast.rs", "register_fast"): MEMORY,
    ("mr/window.rs", "bind"): MEMORY,
    ("mr/window.rs", "unbind"): MEMORY,
    ("qp/stream.rs", "get"): MEMORY,
    ("qp/tx.rs", "invalidate"): MEMORY,
}


def waits(sources, table, section):
    """Whoever waits is in the table, with words that the section has."""
    used = set()
    flat = " ".join(section.split())
    for source in sources:
        for m in WAITS.finditer(source.code):
            if re.search(r"\bfn\s+$", source.code[:m.start()]):
                continue
            where = (source.path, source.function(m.start()))
            used.add(where)
            if where not in table:
                call = " ".join(m.group().split())
                yield (f"{source.at(m.start())}: {where[1]} waits ({call}) for what {LOCKING} "
                       "does not name")
    for where, words in table.items():
        if where not in used:
            yield f"{':'.join(where)} waits for nothing any more"
        elif words and words not in flat:
            yield f"{LOCKING}: what {':'.join(where)} waits for is not there: {words}"


def observers(source, by_path):
    """Who tells how an object is waits for nobody who works with it: there are mutexes and
    sockets' locks that are held for long, and spin locks for a moment."""
    for f in source.functions:
        signature = source.code[f.start:source.code.index("{", f.start)]
        if not re.search(r"\bDetails\s*<", signature):
            continue
        for m in re.finditer(r"(\w+)\s*\.\s*(lock|with_lock|hold)\s*\(",
                             source.code[f.start:f.end]):
            if m.group(2) != "lock" or kind_of(by_path, source.path, m.group(1)) == "Mutex":
                yield (f"{source.at(f.start + m.start())}: {f.name} takes {m.group(1)}, "
                       "which those who work with it may have for long")


GUARD = re.compile(r"let\s+(?:mut\s+)?(\w+)\s*=\s*[^;{}]*?(\w+)\s*\.\s*lock\s*\(\s*\)\s*;")
LOOP = re.compile(r"\b(?:for\b[^;{}]*?\bin\b|while\b|loop\s*\{)")
# A guard that lives as long as the loop.
LOCKED_LOOP = re.compile(r"\b(?:for\b[^;{}]*?\bin\b|while\s+let\b)[^;{}]*?(\w+)\s*\.\s*lock\s*\(\)")


def loops(source, by_path):
    """A loop with a spin lock held has a comment that says what bounds it."""
    for place, lock in loops_under_locks(source):
        if kind_of(by_path, source.path, lock) == "Mutex":
            continue
        line = line_of(source.code, place)
        above = source.text.splitlines()[max(0, line - 4):line]
        if not any("// Bound:" in text for text in above):
            yield f"{source.path}:{line}: a loop with {lock} held has no '// Bound:' above it"


def loops_under_locks(source):
    """Places of loops, and the lock that is held there."""
    code = source.code
    for m in GUARD.finditer(code):
        end = end_of_scope(code, m.end())
        dropped = re.search(r"\bdrop\s*\(\s*%s\s*\)" % m.group(1), code[m.end():end])
        end = m.end() + dropped.start() if dropped else end
        for loop in LOOP.finditer(code, m.end(), end):
            yield loop.start(), m.group(2)
    for m in LOCKED_LOOP.finditer(code):
        yield m.start(), m.group(1)


def end_of_scope(code, at):
    """Where the block that `at` is in ends."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] == "{") - (code[i] == "}")
        if depth < 0:
            return i
    return len(code)


def kind_of(by_path, path, lock):
    """What a lock is: that of a file, or of the module that this is a part of."""
    while path:
        if path in by_path and lock in by_path[path].locks:
            return by_path[path].locks[lock]
        above = os.path.dirname(path.removesuffix(".rs"))
        path = above + ".rs" if above else ""
    return "SpinLock"


# Which device a connection belongs to is said by its local address, in one place: where each
# of what could say it may be used. Listeners are bound to no interface.
WHICH_DEVICE = (
    (r"\bsock_bindtoindex\s*\(", {"ffi/net/socket.rs"}),
    (r"\bib_device_get_by_\w+\s*\(", {"ffi/rdma/device.rs"}),
    (r"\bby_netdev\s*\(", {"link.rs", "ffi/rdma/device.rs"}),
    (r"\bLocalOwner\b", {"cm/acceptor.rs", "ffi/rdma/iwcm.rs"}),
    (r"\bbind_to_\w+\s*\(", set()),
)


def which_device(source, table):
    """Nothing else answers which device it is."""
    for what, where in table:
        for m in re.finditer(what, source.code):
            if source.path not in where:
                yield f"{source.at(m.start())}: which device it is, is answered elsewhere"


def section_of(text, title):
    """A section of a document, up to the next one."""
    body = text.split(f"\n{title}\n{'=' * len(title)}\n", 1)
    return re.split(r"\n[^\n]+\n=+\n", body[1], maxsplit=1)[0] if len(body) == 2 else ""


def sources_of(top):
    for where, dirs, names in os.walk(top):
        dirs.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(where, name), top)
            if name.endswith(".rs") and not LEFT_OUT.search(path):
                with open(os.path.join(where, name), encoding="utf-8") as f:
                    yield Source(path, f.read())


def check(sources, section):
    yield from waits(sources, ALL_WAITS, section)
    by_path = {source.path: source for source in sources}
    for source in sources:
        yield from observers(source, by_path)
        yield from loops(source, by_path)
        yield from which_device(source, WHICH_DEVICE)


def self_test():
    """Each rule finds what breaks it, and nothing else."""
    def found(rule, *args, path="a.rs", text=""):
        source = Source(path, text)
        if rule is waits:
            return list(waits([source], *args))
        return list(rule(source, *args or ({path: source},)))

    stop = "fn end(&self) { // Timer::stop(self)\n    Timer::stop(self);\n}"
    assert len(found(waits, {}, "", text=stop)) == 1
    assert not found(waits, {("a.rs", "end"): "the timer"}, "for the\ntimer", text=stop)
    assert len(found(waits, {("a.rs", "end"): "the timer"}, "nothing", text=stop)) == 1
    assert len(found(waits, {("a.rs", "end"): "x"}, "x", text="fn end(&self) {}")) == 1
    for call in ("self.gate.close_and_wait()", "rcu::synchronize_rcu()", "self.empty.wait(&mut x)",
                 "unsafe { b::hrtimer_cancel(t) }", "self.cm.drain()", "mr.wait_quiet()",
                 "unsafe { h::vhost_task_stop(task) }", "cancel_work_sync(w)", "handle.revoke()"):
        assert len(found(waits, {}, "", text="fn f() { %s; }" % call)) == 1, call
    for call in ("rx.waits_for()", "self.order.flush(env)", "stream.drain(&sock)", "x.stop()"):
        assert not found(waits, {}, "", text="fn f() { %s; }" % call), call

    shows = "struct A { x: %s<u32> }\nfn describe(&self, to: &mut Details<'_>) { self.x.lock(); }"
    assert len(found(observers, text=shows % "Mutex")) == 1
    assert not found(observers, text=shows % "SpinLockIrq")
    assert not found(observers, text="struct A { x: Mutex<u32> }\nfn send(&self) { self.x.lock(); }")
    assert len(found(observers, text="fn d(to: &mut Details<'_>) { s.with_lock(|sk| 1) }")) == 1

    loop = "struct A { q: %s<u32> }\nfn f(&self) {\n    let q = self.q.lock();\n%s    while q.go() {}\n}"
    assert len(found(loops, text=loop % ("SpinLock", ""))) == 1
    assert not found(loops, text=loop % ("Mutex", ""))
    assert not found(loops, text=loop % ("SpinLock", "    // Bound: one ring full.\n"))
    assert not found(loops, text=loop % ("SpinLock", "    drop(q);\n"))
    assert not found(loops, text="fn f(&self) { { let q = self.q.lock(); } loop {} }")
    assert len(found(loops, text="fn f(&self) { for x in self.q.lock().iter() {} }")) == 1

    table = ((r"\bbind_to_device\s*\(", {"b.rs"}),)
    assert len(found(which_device, table, text="fn f() { s.bind_to_device(n) }")) == 1
    assert not found(which_device, table, path="b.rs", text="fn f() { s.bind_to_device(n) }")

    text = "A\n=\nx\n\nB\n=\ny\nz\n\nCC\n==\nw\n"
    assert section_of(text, "B").split() == ["y", "z"] and not section_of(text, "D")


def main():
    if sys.argv[1:]:
        print("usage: rules.py    (in the checkout)")
        return 0 if sys.argv[1] == "--help" else 2
    self_test()
    with open(LOCKING, encoding="utf-8") as f:
        section = section_of(f.read(), "What an end waits for")
    bad = list(check(list(sources_of(DRIVER)), section))
    for message in bad:
        print(message)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
