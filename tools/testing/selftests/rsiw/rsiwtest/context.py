# SPDX-License-Identifier: GPL-2.0
"""What a test gets: paths, processes, ports, and its time."""

import contextlib
import os
import time

from . import libraries
from .core import Fail, Skip, TimedOut
from .machine import LOCAL
from .peer import PEER, RemoteProc
from .proc import Proc
from .topo import status


def parts(proc):
    """What one of our programs says of its parts: subtests."""
    found, begun = [], []
    for line in proc.output().splitlines():
        if line.startswith("# part "):
            begun.append(line[len("# part "):])
        for name in begun:
            why = line[len("not ok %s: " % name):]
            if line == "ok " + name or line == "not ok %s: %s" % (name, why):
                found.append((name, line.startswith("ok "), why))
                begun.remove(name)
                break
    return found + [(name, False, proc.tail()) for name in begun]


def direct(params):
    """The value of `direct` that these parameters of the module stand for."""
    values = [p.partition("=")[2] for p in params if p.startswith("direct=")]
    return int(values[-1]) if values else 1


class Context:
    """One test's view of the machine. Everything it starts dies with it."""

    def __init__(self, env, test):
        self.env = env
        self.test = test
        self.topo = env.topo
        self.type = env.type
        self.subtests = []          # (name, ok, detail)
        self.procs = []
        self.started = 0
        self.end = time.monotonic() + test.limit * env.slow
        self.allowed = []           # kernel messages this test provokes
        self.variables = {}         # of the programs' environment

    def left(self, at_most=None):
        """Seconds of the test's time, or of `at_most` if that is less."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimedOut("the test's %d s are over" %
                           (self.test.limit * self.env.slow))
        return left if at_most is None else min(left, at_most * self.env.slow)

    def rounds(self, count):
        """How often to do what is done `count` times: a debugging kernel looks
        closer at each, and takes its time."""
        return max(count // self.env.slow, min(count, 50))

    def ends(self, values):
        """The first and the last of `values` on a debugging kernel, else all."""
        return values if self.env.slow == 1 else (values[0], values[-1])

    def port(self):
        """A TCP port that nothing in this run has used."""
        return self.env.next_port()

    def bin(self, name):
        """Path of one of our own programs."""
        path = os.path.join(self.env.bin, name)
        if not os.path.exists(path):
            raise Fail("%s is not built" % path)
        return path

    def start(self, *argv, netns=None, env=None, cwd=None):
        """Starts a program, in a network namespace or on the peer."""
        self.started += 1
        name = "%s.%d.log" % (self.test.name, self.started)
        env = {**self.variables, **(env or {})}
        if netns == PEER:
            proc = RemoteProc(self.env.peer, argv, name, env, cwd)
        else:
            proc = Proc(argv, os.path.join(self.env.results, name), netns,
                        env, cwd, self.env.slow)
        self.procs.append(proc)
        return proc

    def machine(self, netns=None):
        """The machine that `netns` (of a Path) is on."""
        return self.env.peer if netns == PEER else LOCAL

    def run(self, *argv, netns=None, timeout=None, expect=0, env=None,
            cwd=None):
        """Runs a program to its end; returns its output."""
        proc = self.start(*argv, netns=netns, env=env, cwd=cwd)
        return proc.expect(self.left(timeout), expect)

    def own(self, name, path, *args, timeout=None):
        """Runs one of our programs, which does both sides of `path`.

        Each of its parts (lib/prog.h) becomes a subtest; one that it has begun
        fails when it ends in the midst of it.
        """
        limit = int(self.left(timeout))
        proc = self.start(self.bin(name), *path.args(), "--port", self.port(),
                          "--limit", limit, *args)
        try:
            status = proc.wait(limit + 5)
        except TimedOut:
            self.subtests += parts(proc)
            raise
        found = parts(proc)
        self.subtests += found
        if status and all(ok for _, ok, _ in found):
            raise Fail("%s ends with status %s:\n%s" % (
                proc, status, proc.tail()))

    @contextlib.contextmanager
    def sub(self, name):
        """A subtest; what fails in it does not end the test."""
        try:
            yield
        except TimedOut as err:
            # Whatever hangs, the rest would only hang too.
            self.subtests.append((name, False, str(err)))
            raise
        except Fail as err:
            self.subtests.append((name, False, str(err)))
            self.reap()
        else:
            self.subtests.append((name, True, ""))

    @contextlib.contextmanager
    def library(self, name):
        """Programs that start within use this provider (see `libraries`)."""
        if name != "stock" and not os.path.exists(libraries.file_of(self.env.library)):
            raise Fail("%s is not built" % self.env.library)
        before = self.variables
        self.variables = {**before,
                          **libraries.variables(self.env.library, name)}
        try:
            yield
        finally:
            self.variables = before

    @contextlib.contextmanager
    def within(self, seconds, what):
        """What is done in it takes no longer, or the test fails."""
        start = time.monotonic()
        yield
        took = time.monotonic() - start
        if took > seconds * self.env.slow:
            raise Fail("%s took %.1f s" % (what, took))

    def reap(self):
        """Ends all processes; complains about those that do not die."""
        limit = 10 * self.env.slow
        stuck = [p for p in self.procs if not p.reap(limit)]
        self.procs = []
        if stuck:
            raise TimedOut("cannot be killed: %s" %
                           ", ".join(str(p) for p in stuck))

    def forget(self):
        """Drops what has ended, with its output, in long series."""
        ended = [p for p in self.procs if p.poll() is not None]
        self.procs = [p for p in self.procs if p not in ended]
        for proc in ended:
            proc.forget()

    def need(self, *programs):
        """Skips the test where a program is missing."""
        for name in programs:
            if not any(os.access(os.path.join(d, name), os.X_OK)
                       for d in os.environ["PATH"].split(":")):
                raise Skip("no %s here" % name)

    def need_module(self, name):
        """Skips the test where there is no such kernel module."""
        if status("modinfo", name)[0]:
            raise Skip("no module %s here" % name)

    # ---- the driver's module ------------------------------------------

    def unload(self):
        """Removes the module with all of its devices."""
        self.topo.drop()
        rv, out = status("modprobe", "-r", self.env.module, timeout=60)
        if rv:
            raise Fail("modprobe -r %s: %s" % (self.env.module, out.strip()))

    def load(self, *params):
        """Loads the module; fails the test when that fails."""
        rv, out = self.try_load(*params)
        if rv:
            raise Fail("modprobe %s: %s" % (self.env.module, out.strip()))

    @contextlib.contextmanager
    def loaded_with(self, *params):
        """Within, the module is loaded with these parameters, devices too."""
        self.unload()
        self.load(*params)
        try:
            self.topo.ensure()
            yield
        finally:
            self.reap()
            self.unload()
            self.load()

    @contextlib.contextmanager
    def through_tcp(self, path):
        """What such a path carries goes through TCP within this. `path`: ANY_PATH,
        WIRE, or None if it does not matter."""
        if path is None or self.env.direct < path:
            yield
            return
        with self.loaded_with("direct=0"):
            yield

    def try_load(self, *params):
        """Status and words of modprobe."""
        # A parameter counts once: later ones replace those that are always given.
        values = dict(p.split("=", 1) for p in (*self.env.always, *params))
        params = ["%s=%s" % item for item in values.items()]
        self.env.direct = self.env.direct_with(params)
        return status("modprobe", self.env.module, *params, timeout=60)
