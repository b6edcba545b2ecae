# SPDX-License-Identifier: GPL-2.0
"""What a test gets: paths, processes, ports, and its time."""

import contextlib
import os
import time

from .core import Fail, Skip, TimedOut
from .machine import LOCAL
from .peer import PEER, RemoteProc
from .proc import Proc
from .topo import status


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
        self.end = time.monotonic() + test.limit
        self.allowed = []           # kernel messages this test provokes

    def left(self, at_most=None):
        """Seconds of the test's time, or of `at_most` if that is less."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimedOut("the test's %d s are over" % self.test.limit)
        return left if at_most is None else min(left, at_most)

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
        if netns == PEER:
            proc = RemoteProc(self.env.peer, argv, name, env, cwd)
        else:
            proc = Proc(argv, os.path.join(self.env.results, name), netns,
                        env, cwd)
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
        """Runs one of our programs, which does both sides of `path`."""
        limit = int(self.left(timeout))
        return self.run(self.bin(name), *path.args(), "--port", self.port(),
                        "--limit", limit, *args, timeout=limit + 5)

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

    def reap(self):
        """Ends all processes; complains about those that do not die."""
        stuck = [p for p in self.procs if not p.reap()]
        self.procs = []
        if stuck:
            raise TimedOut("cannot be killed: %s" %
                           ", ".join(str(p) for p in stuck))

    def forget(self):
        """Drops what has ended, with its output, in long series."""
        for proc in self.procs:
            if proc.poll() is not None:
                proc.forget()
        self.procs = [p for p in self.procs if p.poll() is None]

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

    def try_load(self, *params):
        """Status and words of modprobe."""
        return status("modprobe", self.env.module, *params, timeout=60)
