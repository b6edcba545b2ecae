# SPDX-License-Identifier: GPL-2.0
"""The command line, the loop over the tests, and what is printed (KTAP)."""

import argparse
import json
import os
import signal
import sys
import time
import traceback

from . import core, kmsg, late, libraries, mpa, peer, topo
from .context import Context, direct
from .core import Fail, Skip, TimedOut
from .first import FIRST
from .leaks import leaked, on_request_only
from .machine import LOCAL
from .pairtopo import HERE4, HERE6, PEER4, PEER6, PairTopology, set_up
from .topo import Topology, make_nodes, sh, status

USAGE = """\
Runs the rsiw kselftests as root, in a guest or on a machine to spare, and
prints KTAP. RESULTS_DIR gets the output of every program, the stacks of all
tasks when something hangs, and results.json."""

# A debugging kernel takes so many times as long for everything.
SLOW = 6

# How long what a closed process held may take to go away.
SETTLE_SECONDS = 10


class Env:
    """What all tests of a run share."""

    def __init__(self, args):
        self.type = args.type
        self.module = args.module or args.type
        self.bin = mpa.bin_dir = os.path.abspath(args.bin)
        self.results = os.path.abspath(args.results)
        # As libibverbs wants it: without what providers' names end with.
        self.library = os.path.join(self.bin, "librsiw")
        if args.library:
            os.environ.update(libraries.variables(self.library, args.library))
        self.peer = None
        # Parameters of the module: those of each load, and those of the first one.
        self.always, self.params = args.param, list(args.param)
        if args.peer:
            set_up(LOCAL, HERE4, HERE6)
            self.peer = peer.Peer(PEER4)
            # What both drivers do when left alone is a subject of its own.
            if self.peer.type != self.type:
                self.params.append("mpa_crc=0")
            self.topo = PairTopology(args.type, self.peer)
        else:
            self.topo = Topology(args.type)
        self.direct = self.direct_with(self.params)
        self.slow = topo.slow = SLOW if args.debug else 1
        self.seconds, self.seed = args.seconds, args.seed
        self._port = 20000

    def direct_with(self, params):
        """Where connections go past TCP if the module is loaded with these."""
        return 0 if self.type != "rsiw" else direct(params)

    def next_port(self):
        """Two ports are used up: some programs take the next one as well."""
        self._port += 2
        return self._port


def parse(argv):
    p = argparse.ArgumentParser(prog="run", description=USAGE)
    p.add_argument("--type", "--device-type", default="rsiw",
                   help="link type (rsiw)")
    p.add_argument("--module", help="module of that type (the type's name)")
    p.add_argument("--bin", help="where our programs are ($RSIW_BIN, or "
                   "bin beside this)")
    p.add_argument("--list", action="store_true", help="only name the tests")
    p.add_argument("--only", action="append", metavar="PATTERN",
                   help="names or shell patterns; may be repeated")
    p.add_argument("--first", dest="only", action="store_const", const=list(FIRST),
                   help="the first twenty for a kernel that is new to the driver")
    p.add_argument("--long", action="store_true",
                   help="the long tests instead of those of make check")
    p.add_argument("--peer", action="store_true", help="the tests with a "
                   "second guest, in which an agent runs")
    p.add_argument("--agent", action="store_true", help="be that agent")
    p.add_argument("--queue", metavar="DIR",
                   help="share the tests with others who are given this "
                   "directory, which is empty at first")
    p.add_argument("--seconds", type=int, metavar="N",
                   help="how long `soak` and `peer-random` run (60)")
    p.add_argument("--seed", type=int, metavar="S",
                   help="of `soak`, `peer-random` and --late (random; printed)")
    p.add_argument("--debug", action="store_true",
                   help="on a debugging kernel: give everything %d times the "
                   "time, look for leaked memory at the end" % SLOW)
    p.add_argument("--library", choices=("stock", "rsiw", "rsiw-stock-rings", "rsiw-poll"),
                   help="the provider that all programs use, where a test does "
                   "not choose; rsiw-stock-rings: ours, without rings of its own")
    p.add_argument("--param", action="append", default=[],
                   metavar="NAME=VALUE", help="a parameter of the module, "
                   "where a test does not set it; may be repeated")
    p.add_argument("--late", type=int, default=0, metavar="MS",
                   help="a processor is late by up to MS milliseconds now and then, as "
                   "on a busy host")
    p.add_argument("--times", type=int, default=1, metavar="N",
                   help="run each test N times, which shows one that fails now and then")
    p.add_argument("results", nargs="?", metavar="RESULTS_DIR")
    args = p.parse_args(argv)
    if not args.bin:
        here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        args.bin = os.environ.get("RSIW_BIN", os.path.join(here, "bin"))
    if not args.list and not args.results:
        p.error("RESULTS_DIR is missing")
    return args


def settle(env):
    """Waits a little for closed objects; what stays is text."""
    end = time.monotonic() + SETTLE_SECONDS * env.slow
    while True:
        left = env.topo.leftovers()
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


class Result:
    """The outcome of one test."""

    def __init__(self, test):
        self.test = test
        self.state = "pass"
        self.notes = []
        self.subtests = []
        self.seconds = 0.0

    def fail(self, note):
        self.state = "fail"
        self.notes.append(note)


class Log:
    """The kernel's log, with that of the peer if this driver runs there too. What the
    kernel of another driver complains about does not count."""

    def __init__(self, other):
        self.own, self.other = kmsg.Kmsg(), other

    def read(self):
        lines = self.own.read()
        if self.other:
            lines += ["peer " + line for line in self.other.kernel()]
        return lines


def on_alarm(_sig, _frame):
    raise TimedOut("the test does not come to its end")


def call(ctx, res, log):
    """Runs the function of the test; everything it can throw is a result."""
    # A little later than the deadline that the test itself looks at.
    signal.alarm((ctx.test.limit + 20) * ctx.env.slow)
    try:
        ctx.topo.ensure()
        with ctx.through_tcp(ctx.test.tcp):
            ctx.test.func(ctx)
        bad = [name for name, ok, _ in ctx.subtests if not ok]
        if bad:
            res.fail("%d of %d parts: %s" % (
                len(bad), len(ctx.subtests), ", ".join(bad)))
    except Skip as err:
        res.state = "skip"
        res.notes.append(str(err))
    except TimedOut as err:
        res.fail(str(err))
        signal.alarm(0)
        path = os.path.join(ctx.env.results, ctx.test.name + ".stacks")
        kmsg.dump_stacks(path, log.own)
        if ctx.env.peer:
            ctx.env.peer.stacks(ctx.test.name)
        res.notes.append("stacks of all tasks: %s" % os.path.basename(path))
    except Fail as err:
        res.fail(str(err))
    except Exception:  # a bug of the test is a failure of the test
        res.fail(traceback.format_exc())
    finally:
        signal.alarm(0)


def run_one(env, test, log):
    """Runs one test and looks at what it left behind."""
    res = Result(test)
    ctx = Context(env, test)
    start = time.monotonic()
    kmsg.say("begin " + test.name)
    lines = log.read()
    call(ctx, res, log)
    for step in (ctx.reap, lambda: leftovers(env, res)):
        try:
            step()
        except Fail as err:
            res.fail(str(err))
            env.topo.baseline = None
    lines = [line for line in lines + log.read()
             if not any(a in line for a in ctx.allowed)]
    bad = kmsg.bad_lines(lines)
    if bad:
        res.fail("the kernel says:\n" + "\n".join("  | " + b for b in bad))
    kmsg.say("end %s: %s" % (test.name, res.state))
    res.subtests = ctx.subtests
    res.seconds = time.monotonic() - start
    return res


def leftovers(env, res):
    left = settle(env)
    if left:
        res.fail("left behind: %s" % left)
        # Count from here, or every later test would fail as well.
        env.topo.baseline = env.topo.resources()


def print_result(number, res):
    if res.subtests:
        print("    KTAP version 1\n    # Subtest: %s\n    1..%d" % (
            res.test.name, len(res.subtests)))
        for i, (name, ok, detail) in enumerate(res.subtests, 1):
            for line in detail.splitlines():
                print("    # " + line)
            print("    %sok %d %s" % ("" if ok else "not ", i, name))
    for note in res.notes:
        for line in note.splitlines():
            print("# " + line)
    print("%sok %d %s%s # time=%.1fs" % (
        "not " if res.state == "fail" else "", number, res.test.name,
        " # SKIP" if res.state == "skip" else "", res.seconds), flush=True)


def leak_check(env, number, records):
    """Unloads the module and asks kmemleak; what it says is printed."""
    rv, out = status("modprobe", "-r", env.module)
    if not rv:
        out = leaked(any(r["name"].startswith("faults-") for r in records))
    for line in out.splitlines():
        print("# " + line)
    print("%sok %d kmemleak" % ("not " if out else "", number), flush=True)
    return not out


def prepare(env):
    """What must hold before any test can run."""
    os.makedirs(env.results, exist_ok=True)
    if env.params:
        status("modprobe", "-r", env.module)
    load_modules(env.module, *env.params)
    env.topo.ensure()


def load_modules(module, *params):
    """The driver and what its users need."""
    rv, out = status("modprobe", module, *params)
    if rv:
        raise Fail("cannot load %s: %s" % (module, out.strip()))
    for name in ("ib_uverbs", "rdma_ucm"):
        sh("modprobe", name)
    make_nodes()
    # Some tools crash when they are refused what they want (a tool's bug);
    # only the kernel's own faults are to be in its log.
    with open("/proc/sys/debug/exception-trace", "w") as f:
        f.write("0")


def be_agent(args):
    """Serves the tests in the other guest."""
    load_modules(args.module or args.type)
    set_up(LOCAL, PEER4, PEER6)
    return peer.serve(args.type, PEER4, os.path.abspath(args.results))


def repeated(tests, times):
    """Each of the tests so many times."""
    for test in tests:
        for _ in range(times):
            yield test


def main(argv=None):
    args = parse(argv)
    if args.agent:
        return be_agent(args)
    try:
        tests = core.select(core.collect(), args.only, args.long, args.peer,
                            args.debug)
    except Fail as err:
        print(err, file=sys.stderr)
        return 2
    for t in tests:
        t.limit += args.seconds or 0
    if args.list:
        for t in tests:
            print("%-28s %4ds  %s" % (t.name, t.cost, t.doc))
        return 0
    if not tests:
        print("no test matches", file=sys.stderr)
        return 2
    try:
        env = Env(args)
    except Fail as err:
        print("Bail out! %s" % err)
        return 1
    log = Log(env.peer if env.peer and env.peer.type == env.type else None)
    signal.signal(signal.SIGALRM, on_alarm)
    print("KTAP version 1")
    if args.queue:
        tests = core.Queue(tests, os.path.abspath(args.queue))
    else:
        print("1..%d" % (len(tests) * args.times + args.debug), flush=True)
    count = {"pass": 0, "fail": 0, "skip": 0}
    records = []
    try:
        if args.debug:
            on_request_only()
        prepare(env)
    except Fail as err:
        print("Bail out! %s" % err)
        return 1
    number = 0
    with late.late(args.late, args.seed):
        for number, test in enumerate(repeated(tests, args.times), 1):
            if test.only_type and test.only_type != env.type:
                res = Result(test)
                res.state = "skip"
                res.notes.append("only for %s" % test.only_type)
            else:
                res = run_one(env, test, log)
            print_result(number, res)
            count[res.state] += 1
            records.append({"name": test.name, "state": res.state,
                            "seconds": round(res.seconds, 1), "notes": res.notes,
                            "subtests": res.subtests})
            with open(os.path.join(env.results, "results.json"), "w") as f:
                json.dump(records, f, indent=1)
    env.topo.drop()
    if env.peer:
        env.peer.end()
    if args.debug and not leak_check(env, number + 1, records):
        count["fail"] += 1
    if args.queue:
        print("1..%d" % (number + args.debug))
    print("# Totals: pass:%(pass)d fail:%(fail)d xfail:0 xpass:0 "
          "skip:%(skip)d error:0" % count)
    return 1 if count["fail"] else 0
