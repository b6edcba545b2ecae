# SPDX-License-Identifier: GPL-2.0
"""The registry of tests, their verdicts, and how they are chosen."""

import fnmatch
import importlib
import os
import pkgutil


class Fail(Exception):
    """The test found something wrong."""


class Skip(Exception):
    """The test cannot run here; the reason is the message."""


class TimedOut(Fail):
    """Something took longer than it may; stacks are worth having."""


# Which paths of one host have to go through TCP for a test: any, or those between
# network namespaces. Each is the smallest value of the module's parameter `direct`
# with which such a path does not.
ANY_PATH, WIRE = 1, 2


class Test:
    """One test: a function that gets a Context and raises Fail or Skip."""

    def __init__(self, func, name, limit, cost, only_type, long, pair,
                 where, packaged, last, tcp):
        self.func = func
        self.name = name
        # Seconds until it counts as hanging: a busy machine takes many times as long.
        self.limit = max(limit, 8 * cost)
        self.cost = cost            # seconds it usually takes
        self.only_type = only_type  # link type it is made for, or None
        self.long = long            # for `make check-long`
        self.pair = pair            # needs a peer in another guest
        self.where = where          # only where there is such a file
        self.packaged = packaged    # only for the packaged kernel
        self.tcp = tcp              # looks at TCP, on paths of this kind
        # After it, lockdep is off: it reports once, and not only on us.
        self.last = last and os.path.exists("/proc/lockdep_stats")
        self.doc = (func.__doc__ or "").strip().split("\n")[0]


_tests = []


def test(name, limit=300, cost=3, only_type=None, long=False, pair=False,
         where="/", packaged=False, last=False, tcp=None):
    """Registers the decorated function as a test."""
    def register(func):
        _tests.append(Test(func, name, limit, cost, only_type, long, pair,
                           where, packaged, last, tcp))
        return func
    return register


def collect():
    """All tests of the `tests` package, in the order of their files."""
    import tests
    for info in sorted(pkgutil.iter_modules(tests.__path__),
                       key=lambda m: m.name):
        importlib.import_module("tests." + info.name)
    names = [t.name for t in _tests]
    for name in names:
        if names.count(name) > 1:
            raise ValueError("two tests are called %s" % name)
    return list(_tests)


def select(tests, patterns, long=False, pair=False, debug=False):
    """The tests that match a pattern, if they are for this kernel; a debugging kernel has
    all files that tests look for. Without patterns either those of
    `make check` or the long ones. A pattern that no test has is an error."""
    unknown = [p for p in patterns or () if not fnmatch.filter([t.name for t in tests], p)]
    if unknown:
        raise Fail("no test is called " + " or ".join(unknown))
    tests = [t for t in tests if t.pair == pair and
             (not t.packaged if debug else os.path.exists(t.where))]
    if not patterns and not pair:
        tests = [t for t in tests if t.long == long]
    if patterns:
        tests = [t for t in tests
                 if any(fnmatch.fnmatch(t.name, p) for p in patterns)]
    return tests


class Queue:
    """The tests, taken by several guests out of one directory they share:
    what a guest does, it has claimed there."""

    # What takes longer comes first, so that nobody begins with it at the end.
    LONG = 12

    def __init__(self, tests, path):
        self.tests, self.path = tests, path

    def __iter__(self):
        """The tests that nobody else has, one after the other."""
        last = [t for t in self.tests if t.last]
        tests = [t for t in self.tests if not t.last]
        long = [t for t in tests if t.cost >= self.LONG]
        short = [t for t in tests if t.cost < self.LONG]
        for t in sorted(long, key=lambda t: -t.cost) + short + last:
            try:
                os.mkdir(os.path.join(self.path, t.name))
            except FileExistsError:
                continue
            yield t
