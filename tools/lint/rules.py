#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Rules of rsiw-design.rst, "Rules for objects", as far as a program sees them.

Reads the driver's Rust files, outside comments and strings, function by function. Run
at the top of the checkout.
"""

import re
import sys

from source import Program, Source, line_of, main, rust_files

DRIVER = "drivers/infiniband/sw/rsiw"
LOCKING = "Documentation/infiniband/rsiw-locking.rst"
PARAMETERS = DRIVER + "/ffi/rsiw/params.c"
LINK = "tools/rsiw-link"
COMPAT = DRIVER + "/compat/rsiw_kernel.rs"
# What stands for the kernel itself, and tests.
LEFT_OUT = re.compile(r"^compat/|^kunit\.rs$")
# Protocol without waits and locks of its own.
PURE = re.compile(r"^(proto|wire)/")

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
    ("ffi/time.rs", "stop"): None,
    ("ffi/time/hrtimer.rs", "stop"): None,
    ("ffi/rdma/handle.rs", "revoke"): None,
    ("ffi/workqueue.rs", "flush"): None,
    ("ffi/workqueue.rs", "drain"): None,
    ("ffi/rsiw.rs", "drain"): None,
    ("mr.rs", "wait_quiet"): None,
    ("cm/endpoint.rs", "disarm"): TIMERS,
    ("cm/acceptor.rs", "remove"): TIMERS,
    ("cm/pairing.rs", "clean_up"): TIMERS,
    ("cm/by_number.rs", "wait_for_pairings"): "pairings that are left (``close_all``)",
    ("qp.rs", "dismantle"): TIMERS,
    ("qp/actors.rs", "cancel_timer"): TIMERS,
    ("qp/actors.rs", "stop_timers"): TIMERS,
    ("qp/state.rs", "release"): TIMERS,
    ("rnic.rs", "close"): TIMERS,
    ("gids.rs", "close"): TIMERS,
    ("ud/ports.rs", "close"): TIMERS,
    ("cm.rs", "close_all"): "endpoints that are left (``close_all``)",
    ("cm/registry.rs", "wait_empty"): None,
    ("rnic.rs", "wait_until"): "consumers in the kernel",
    ("rnic.rs", "leave"): "events of iw_cm that are on their way",
    ("rnic.rs", "await_cleanup"): "their connects (``await_cleanup``)",
    ("rnic.rs", "await_domains"): "domains (``await_domains``)",
    ("cm/registry.rs", "wait_empty_for"): "connections (``end_all``)",
    ("link.rs", "drop"): "removal of all devices; work",
    ("ffi/rdma/device.rs", "remove_all"): "removal of all devices",
    ("ffi/rdma/device.rs", "drop"): "removal of all devices",
    ("ffi/net/netdev.rs", "drop"): "removal of all devices",
    ("ffi/module.rs", "drop"): UNLOAD,
    ("ffi/workqueue.rs", "drop"): UNLOAD,
    ("ffi/rsiw.rs", "drop"): UNLOAD,
    ("ffi/debugfs.rs", "drop"): "who reads or writes its debugfs files",
    ("ffi/mm/movable.rs", "drop"): "readers of the word that moves, RCU",
    ("ffi/net/tls.rs", "drop"): "who tells of the end of a handshake",
    ("ffi/task.rs", "run"): "the thread that has asked for it",
    ("ffi/rdma/callbacks/queue.rs", "unmake_qp"): "upcalls, and references of iw_cm",
    ("ffi/rdma/callbacks/queue.rs", "pre_destroy_cq"): HANDLE,
    ("ffi/rdma/callbacks/queue.rs", "destroy_srq"): HANDLE,
    ("ffi/rdma/callbacks/queue.rs", "make_qp"): "whoever has its handle",
    ("ffi/rdma/callbacks/queue.rs", "create_cq"): "whoever has its handle",
    ("ffi/rdma/callbacks/queue.rs", "create_srq"): "whoever has its handle",
    ("ffi/rdma/device.rs", "add"): "whoever has its handle",
    ("ffi/rdma/callbacks/device.rs", "dealloc_ucontext"): "who takes back an offer to map a ring",
    ("ffi/rdma/callbacks/device.rs", "dealloc_driver"): "who tells of the device",
    ("ffi/rdma/umem.rs", "take"): MEMORY,
    ("ffi/rdma/kmr.rs", "release"): MEMORY,
    ("mr.rs", "register_fast"): MEMORY,
    ("mr/window.rs", "bind"): MEMORY,
    ("mr/window.rs", "end"): MEMORY,
    ("qp/stream.rs", "get"): MEMORY,
    ("qp/sending.rs", "invalidate"): MEMORY,
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


# Who observes an object: who describes it, the core's queries, and sums of counters.
DESCRIBES = re.compile(r"\bDetails\s*<")
QUERIES = re.compile(r"query(?:_\w+)?|describe(?:_\w+)?|of_port")
STATS = "ffi/rdma/callbacks/device.rs"
TAKES = re.compile(r"(\w+)\s*\.\s*(?:lock|try_lock|with_lock|hold)\s*\(")

# The spin locks that observers take, by what they are a field of, and who else takes them: set-up
# and end of an object, and what is rare. Nobody of these posts, sends, receives or completes.
OBSERVED = {
    "Qp.shown": {"show"},
    "Stream.shown_peer": {"link_to", "unlink"},
    "qp/identity.rs.posted": {"replace_rings"},
    "Endpoint.shown": {"show_phase", "recipient", "set_recipient", "introduce", "take_recipient",
                       "consumer"},
    "ByNumber.told": {"is_told", "terms", "max_ord", "fits", "as_callee", "begin_to_meet",
                      "ready_to_send", "note_path", "meet", "part", "hello", "answer_ms",
                      "may_send_by_now", "reset"},
    "UdQp.steps": {"modify", "fail", "destroy"},
    "Gids.state": {"follow", "look_again", "close"},
    "Registry.inner": {"add", "get", "remove", "introduce", "len", "for_each", "first", "close",
                       "wait_empty_for", "wait_empty"},
}


def observers(program, table):
    """Who tells how an object is takes no lock of those who work with it, and no function that he
    calls does."""
    starts = {f: str(f) for source in program.sources for f in source.functions
              if DESCRIBES.search(f.signature) or QUERIES.fullmatch(f.name) or
              source.path == STATS}
    reached = program.reached(starts)
    used = set()
    for f, why in reached.items():
        source = f.source
        for m in TAKES.finditer(source.code, f.body, f.end):
            if source.around(m.start()) is not f:
                continue
            name = name_of(program, source, m)
            used.add(name)
            if name not in table:
                told = why if why == str(f) else f"{f}, for {why}"
                yield f"{source.at(m.start())}: who only looks takes {m.group(1)} ({told})"
    for name, takers in table.items():
        if name not in used:
            yield f"{name}: nobody who only looks takes this any more"
        yield from others(program, name, takers, reached)


def name_of(program, source, m):
    """A lock that is taken, by what it is a field of, or by the file."""
    of_type = program.field_of(source, m.end(), m.group(1))
    return f"{of_type or source.path}.{m.group(1)}"


def others(program, name, takers, reached):
    """Only those take the lock that the table says."""
    lock = name.rpartition(".")[2]
    for source in program.sources:
        for m in TAKES.finditer(source.code):
            if m.group(1) != lock:
                continue
            of, f = name_of(program, source, m), source.around(m.start())
            if of == name and f and f not in reached and f.name not in takers:
                yield (f"{source.at(m.start())}: {f} takes {name}, which who only looks may have")


# What goes on for as long as something says: also methods of slices and iterators.
LOOP = re.compile(r"""
    \bfor\b[^;{}<>]*?\bin\b | \bwhile\b | \bloop\s*\{
    |\.\s*(?:(?:try_)?for_each|find_map|any|all|r?position|(?:try_|r)?fold|retain(?:_mut)?
       |(?:copy|clone)_from_slice|copy_within|swap_with_slice|extend_from_slice|to_vec|fill
       |(?:min|max)_by(?:_key)?|sort\w*|reverse|rotate_\w+|partition|collect|sum|product
       )\s*(?:::<[^()]*>)?\(
    |\.\s*find\s*\(\s*\| | \.\s*contains\s*\(\s*& | \.\s*drain\s*\(\s*\.\.
    |\b(?:memmove|memcpy|memset|copy_nonoverlapping)\s*\(
    |\.\s*(?:iter(?:_mut)?|into_iter|keys|values(?:_mut)?|chunks\w*|windows)\s*\([^;{}]*?
       \.\s*(?:min|max|count|last|nth)\s*\(\s*\)
    """, re.X)
# A guard that lives as long as the loop.
LOCKED_LOOP = re.compile(r"\b(?:for\b[^;{}<>]*?\bin\b|while\s+let\b)[^;{}]*?(\w+)\s*\.\s*lock\s*\(\)")


def loops(program):
    """A loop with a spin lock held has a comment that says what bounds it, also in functions that
    are called with it held."""
    places, starts = {}, {}
    for source, begin, end, lock in program.held():
        for m in LOOP.finditer(source.code, begin, end):
            places[source, m.start()] = f"{lock} held"
        f = source.around(begin)
        for called, at in program.calls(f, begin, end) if f else ():
            starts.setdefault(called, f"{source.at(at)}, with {lock} held")
    for source in program.sources:
        for m in LOCKED_LOOP.finditer(source.code):
            if program.kind_of(source, m.end(), m.group(1)) != "Mutex":
                places[source, m.start()] = f"{m.group(1)} held"
    for f, why in program.reached(starts).items():
        for m in LOOP.finditer(f.source.code, f.body, f.end):
            places.setdefault((f.source, m.start()), f"a spin lock held ({f}, for {why})")
    for (source, at), held in places.items():
        line = line_of(source.code, at)
        above = source.text.splitlines()[max(0, line - 4):line]
        if not any("// Bound:" in text for text in above):
            yield f"{source.path}:{line}: a loop with {held} has no '// Bound:' above it"


# Which device a connection belongs to is said by its local address, and which way it may come by
# the device, each in one place: where each of what could say it may be used.
WHICH_DEVICE = (
    (r"\bTcpSocket::new\s*\(", {"cm/acceptor.rs", "cm/calls.rs"}),
    (r"\bWays::\w+", {"cm/acceptor.rs", "device.rs", "ffi/net/socket.rs"}),
    (r"\.\s*accept\s*\(\s*\)", {"cm/acceptor.rs"}),
    (r"\bsock_bindtoindex\s*\(", {"ffi/net/socket.rs"}),
    (r"\bib_device_get_by_\w+\s*\(", {"ffi/rdma/device.rs"}),
    (r"\bby_netdev\s*\(", {"link.rs", "ffi/rdma/device.rs"}),
    (r"\bLocalOwner\b", {"cm/acceptor.rs", "ffi/rdma/iwcm.rs"}),
    (r"\bbind_to_\w+\s*\(", set()),
)


# One function makes memory of the kernel of an address. The address there belongs to a request that
# the domain's consumer has posted, and that is not complete. No type says so: such a type would have
# to live as long as the request, in all rings.
KERNEL_MEMORY = (
    (r"\bPdId::new\s*\(", {"ffi/rdma/callbacks/device.rs"}),
    (r"\bDmaMemory::new\s*\(", {"ffi/rdma/callbacks/mr.rs"}),
    (r"\bKernelPieces::new\s*\(", {"ffi/rdma/kmr.rs"}),
    (r"\bKind::Dma\s*\(memory\)\s*=>\s*self\b", {"mr/access.rs"}),
    (r"\bmemory\s*\.\s*slices\s*\(", {"mr/access.rs"}),
)


# What an upper layer has made is passed to what needs it when that is made, and keeps its type.
NO_TYPE = (
    (r"\bdyn\s+Any\b", set()),
    (r"\bdowncast\w*\s*(?:::\s*<|\()", set()),
)


def in_one_place(source, table, what):
    """Nothing else does what the table has places for."""
    for form, where in table:
        for m in re.finditer(form, source.code):
            if source.path not in where:
                yield f"{source.at(m.start())}: {what} elsewhere"


# Who writes to the kernel's log, beside the device's own part of it, and without a limit.
ALL_WRITERS = {
    "log.rs": "the device's lines, each author with its limit",
    "link.rs": "what only the administrator can cause: devices that are made, the module",
    "rnic.rs": "a removal, of which the driver tells every 10 s",
}
WRITES = re.compile(r"""
    \b(?:pr|dev|net|netdev|ibdev)_(?:emerg|alert|crit|err|warn|notice|info|debug|dbg|cont)\w*\s*!?\s*\(
    |\b\w*printk\w*\s*!?\s*\(
    |\b_*ratelimit\s*\(
    """, re.X)
# A defect, which is told once.
DEFECT = re.compile(r'pr_(?:warn|err)_once!\(\s*"BUG: ')


def log_lines(source, writers):
    """A line in the log names its device and its author, which `Device::log` asks for; whoever
    else writes one is in the table."""
    for m in WRITES.finditer(source.code):
        if (source.path not in writers and not DEFECT.match(source.text, m.start())
                and not (source.path == "ffi/time.rs" and "ratelimit" in m.group())):
            yield (f"{source.at(m.start())}: a line in the log that names no author; "
                   "Device::log writes those")


# What changes something: words that several threads share, what is taken out, assignments.
CHANGES = re.compile(r"\.\s*(?:store|x?chg|cmpxchg|fetch_\w+|populate)\s*\(|&mut\b"
                     r"|\bmem::(?:take|replace|swap)\b|^\s*\*?\w[\w.]*\s*[-+|&]?=\s", re.M)


def questions(source):
    """A function whose name begins with `is_` answers a question, and changes nothing."""
    for f in source.functions:
        if f.name.startswith("is_") and (not re.search(r"->\s*bool\b", f.signature)
                                         or CHANGES.search(f.source.code, f.start, f.end)):
            yield f"{source.at(f.start)}: {f} is named as a question, and does something"


PARAMETER = re.compile(r'MODULE_PARM_DESC\(\s*(\w+),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)')


def settings(declared, program):
    """Each parameter that new devices are made with is a setting of the program that makes them
    from a file."""
    for name, words in PARAMETER.findall(declared):
        if "new devices" in words and not re.search(r"^\s*%s\)" % name, program, re.M):
            yield f"{LINK}: devices are made with {name}, which no file can set"


# Errors that the kernel crate of Linux 7.2 has, as far as the driver may need them.
ERRORS = set("""
    E2BIG EACCES EAGAIN EBADF EBUSY EDOM EEXIST EFAULT EFBIG EINTR EINVAL EIO EMFILE EMLINK EMSGSIZE
    ENFILE ENODEV ENOENT ENOMEM ENOSPC ENOTSUPP ENOTTY ENXIO EOVERFLOW EPERM EPIPE ERANGE
    ERESTARTNOINTR ERESTARTSYS EROFS ESRCH ETIMEDOUT ETXTBSY EXDEV
""".split())
NAMES_ERROR = re.compile(
    r"\b(?:Err|ok_or|return|Refusal::new)\s*\(\(*\s*(E[A-Z0-9]{3,})\b|[=!]=\s*(E[A-Z0-9]{3,})\b"
    r"|=>\s*(E[A-Z0-9]{3,})\b")


def errors(source, added):
    """An error is one that the oldest kernel's crate has, or that compat/ adds to it."""
    for m in NAMES_ERROR.finditer(source.code):
        name = next(filter(None, m.groups()))
        if name not in ERRORS and name not in added:
            yield f"{source.at(m.start())}: {COMPAT} has to have {name}, which Linux 7.2 has not"


def section_of(text, title):
    """A section of a document, up to the next one."""
    body = text.split(f"\n{title}\n{'=' * len(title)}\n", 1)
    return re.split(r"\n[^\n]+\n=+\n", body[1], maxsplit=1)[0] if len(body) == 2 else ""


def check(sources, section):
    above = [source for source in sources if not PURE.search(source.path)]
    yield from waits(above, ALL_WAITS, section)
    program = Program(sources)
    yield from observers(program, OBSERVED)
    yield from loops(program)
    for source in sources:
        yield from questions(source)
    for source in above:
        yield from in_one_place(source, WHICH_DEVICE, "which device it is, is answered")
        yield from in_one_place(source, KERNEL_MEMORY, "an address becomes memory of the kernel")
        yield from in_one_place(source, NO_TYPE, "an object is looked for by its type")
        yield from log_lines(source, ALL_WRITERS)
    paths = {source.path for source in above}
    yield from (f"{path} is not there any more" for path in ALL_WRITERS if path not in paths)


def self_test():
    """Each rule finds what breaks it, and not what looks like it."""
    def found(rule, *args, path="a.rs", text=""):
        source = Source(path, text)
        if rule is waits:
            return len(list(waits([source], *args)))
        of_file = rule in (in_one_place, log_lines, questions, errors)
        return len(list(rule(source if of_file else Program([source]), *args)))

    stop = "fn end(&self) { // Timer::stop(self)\n    Timer::stop(self);\n}"
    assert found(waits, {}, "", text=stop) == 1
    assert not found(waits, {("a.rs", "end"): "the timer"}, "for the\ntimer", text=stop)
    assert found(waits, {("a.rs", "end"): "the timer"}, "nothing", text=stop) == 1
    assert found(waits, {}, "", text="fn f() { self.empty.wait(&mut x); self.cm.drain(); }") == 2
    assert not found(waits, {}, "", text="fn f() { rx.waits_for(); stream.drain(&sock); }")

    seen = ("struct A { x: SpinLock<u32>,\n}\n"
            "impl A { fn describe(&self, to: &mut Details<'_>) { %s } %s }")
    take = "self.x.lock();"
    assert found(observers, {}, text=seen % (take, "")) == 1
    assert not found(observers, {"A.x": set()}, text=seen % (take, ""))
    # Someone else takes it, who is named or not.
    text = seen % (take, "fn send(&self) { self.x.lock(); }")
    assert found(observers, {"A.x": set()}, text=text) == 1
    assert not found(observers, {"A.x": {"send"}}, text=text)
    # Calls are followed.
    inner = "fn inner(&self) { self.x.lock(); }"
    assert found(observers, {}, text=seen % ("self.inner();", inner)) == 1
    assert not found(observers, {}, text=seen % ("self.outer();", inner))

    loop = ("struct A { q: %s<B>,\n}\n"
            "impl A { fn f(&self) {\n    let q = self.q.lock();\n%s    %s\n} }")
    go = "while q.go() {}"
    assert found(loops, text=loop % ("SpinLock", "", go)) == 1
    assert found(loops, text=loop % ("SpinLock", "", "q.iter().any(|x| x);")) == 1
    assert not found(loops, text=loop % ("SpinLock", "", "a.min(b);"))
    assert not found(loops, text=loop % ("Mutex", "", go))
    assert not found(loops, text=loop % ("SpinLock", "    // Bound: one ring full.\n", go))
    assert not found(loops, text=loop % ("SpinLock", "    drop(q);\n", go))
    assert found(loops, text="fn f(&self) { for x in self.q.lock().iter() {} }") == 1
    # In what is called, by the type of what the lock protects, and in closures.
    deep = "\nimpl B { fn deep(&self) { loop {} } }\nimpl C { fn other(&self) { loop {} } }"
    assert found(loops, text=loop % ("SpinLock", "", "q.deep();") + deep) == 1
    assert not found(loops, text=loop % ("SpinLock", "", "q.other();") + deep)
    taker = ("\nimpl D { fn g(&self) { self.with(|b| b.deep()) }"
             " fn with<R>(&self, act: impl FnOnce(&mut B) -> R) { act(&mut self.q.lock()) } }")
    assert found(loops, text="struct D { q: SpinLock<B>,\n}" + taker + deep) == 1

    memory = "fn f() { self.pd.and_then(|pd| memory.slices(&g, pd, 0, 1)) }"
    assert found(in_one_place, KERNEL_MEMORY, "", text=memory) == 1
    assert not found(in_one_place, KERNEL_MEMORY, "", path="mr/access.rs", text=memory)

    line = 'fn f() { pr_warn_once!("%s\\n"); }'
    assert found(log_lines, {}, text=line % "x") == 1
    assert not found(log_lines, {}, text=line % "BUG: x")
    assert not found(log_lines, {"a.rs": "x"}, text=line % "x")

    assert found(questions, text="fn is_a(&self) -> bool { self.a.store(1, Relaxed); true }") == 1
    assert not found(questions, text="fn is_a(&self) -> bool {\n    let a = 1;\n    a == self.b }")

    declared = 'MODULE_PARM_DESC(%s, "Of new devices");\nMODULE_PARM_DESC(x,\n\t "Else");'
    assert len(list(settings(declared % "a", "\tb) w=$v ;;\n"))) == 1
    assert not list(settings(declared % "b", "\tb) w=$v ;;\n"))

    assert found(errors, set(), text="fn f() { return Err(ENEW); } // Err(EOLD)") == 1
    assert not found(errors, {"ENEW"}, text="fn f() { a.ok_or(ENEW); Err(EINVAL) }")

    text = "A\n=\nx\n\nB\n=\ny\nz\n\nCC\n==\nw\n"
    assert section_of(text, "B").split() == ["y", "z"] and not section_of(text, "D")


def check_all():
    self_test()
    with open(LOCKING, encoding="utf-8") as f:
        section = section_of(f.read(), "What an end waits for")
    sources = [Source(*file) for file in rust_files(DRIVER, LEFT_OUT)]
    yield from check(sources, section)
    with open(COMPAT, encoding="utf-8") as compat:
        added = set(re.findall(r"^ {8}(E[A-Z0-9]+),$", compat.read(), re.M))
    for source in sources:
        yield from errors(source, added)
    with open(PARAMETERS, encoding="utf-8") as declared, open(LINK, encoding="utf-8") as program:
        yield from settings(declared.read(), program.read())


if __name__ == "__main__":
    sys.exit(main(check_all))
