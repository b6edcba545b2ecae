#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Judges what the tests of another project print, by a file that says what is expected."""

import argparse
import fnmatch
import re
import sys

USAGE = """\
EXPECTED has lines "WHAT LIBRARY TEST: REASON", and comments (#). TEST is a pattern of the shell for
SUITE/TEST, LIBRARY is stock, own or any. WHAT is

  fails     has to fail: when it passes, the line has to go
  may       fails with some runs and passes with others
  left-out  is not run; nor is there any result of it

A line "least LIBRARY SUITE: N" says that at least N tests of a suite have to pass: one that finds
no device may skip all that it has.

Everything else has to pass, or to be skipped by itself."""

# Lines of libtest, unittest, pytest, googletest, and "ok NAME" of our own scripts: result and test.
FORMS = (
    re.compile(r"test (?P<test>\S+)(?: - should panic)? \.\.\. (?:.*\b)?(?P<result>ok|FAILED|ignored)\b"),
    re.compile(r"(?P<test>test_\w+ \([\w.]+\))(?:\s.*)?\.\.\. (?P<result>ok|FAIL|ERROR|skipped)\b"),
    # Once more, at the end: threads may have written behind the dots.
    re.compile(r"(?P<result>FAIL|ERROR): (?P<test>test_\w+ \([\w.]+\))$"),
    re.compile(r"(?P<test>\S+\.py::\S+) (?P<result>PASSED|FAILED|ERROR|SKIPPED)\b"),
    re.compile(r"\[ +(?P<result>OK|FAILED|SKIPPED) +\] (?P<test>[\w./-]+)(?:, where .*)? \(\d+ ms"),
    re.compile(r"(?P<result>ok|not ok) (?P<test>.+)"),
)
# A test of unittest with a description, whose result is in one of the next lines, and that.
UNITTEST = re.compile(r"(test_\w+ \([\w.]+\))$")
UNITTEST_RESULT = re.compile(r"(?:.*\.\.\. )?(ok|FAIL|ERROR|skipped)\b(?!:)")
# UCX's googletest says so in front of the result, which is OK then.
SKIPS = re.compile(r"\[ +SKIP +\] ")
PASSED, SKIPPED = {"ok", "OK", "PASSED"}, {"ignored", "skipped", "SKIPPED"}
# Of timeout(1), the shell, and of programs that a signal ended.
KILLED = 124


class Suite:
    """What one program said: the result of each test, and its own status."""

    def __init__(self, name):
        self.name, self.status, self.results = name, None, {}

    def add(self, test, result):
        kind = "passed" if result in PASSED else "skipped" if result in SKIPPED else "failed"
        self.results[f"{self.name}/{test}"] = kind


def read(path):
    """All suites that a log has."""
    suites, pending = [], None
    with open(path, encoding="utf-8", errors="replace") as log:
        for line in log:
            line = line.rstrip()
            if line.startswith("# suite "):
                suites.append(Suite(line.split()[2]))
            elif line.startswith("# status ") and suites:
                suites[-1].status = int(line.split()[2])
            elif suites:
                pending = judge_line(suites[-1], line, pending)
    return suites


def judge_line(suite, line, pending):
    """Takes the result in a line, if it has one. Returns a test whose result comes later, or SKIPS."""
    if SKIPS.match(line):
        return SKIPS
    found = pending and pending is not SKIPS and UNITTEST_RESULT.match(line)
    if found:
        suite.add(pending, found[1])
        return None
    begins = UNITTEST.match(line)
    if begins:
        return begins[1].replace(" (", "(")
    for form in FORMS:
        found = form.match(line)
        if found:
            skips = pending is SKIPS and found["result"] in PASSED
            suite.add(found["test"].replace(" (", "("), "SKIPPED" if skips else found["result"])
            return None
    return pending


def expectations(path, library):
    """Lists of (pattern, reason), or for "least" (suite, number), by kind, for one library."""
    kinds = {"fails": [], "may": [], "left-out": [], "least": []}
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            found = (re.fullmatch(r"(fails|may|left-out) (any|stock|own) (\S+): (.+)", line) or
                     re.fullmatch(r"(least) (any|stock|own) (\S+): ([0-9]+)", line))
            if not found:
                sys.exit(f"{path}: {line!r} is none of these lines (see --help)")
            if found[2] in ("any", library):
                kinds[found[1]].append((found[3], found[4]))
    return kinds


def matched(patterns, test):
    return [p for p, _ in patterns if fnmatch.fnmatchcase(test, p)]


def judge(suites, expected):
    """What is not as it should be, as sentences."""
    wrong, seen = [], set()
    for suite in suites:
        bad = False
        for test, kind in suite.results.items():
            fails, may = matched(expected["fails"], test), matched(expected["may"], test)
            seen.update(fails + may)
            if kind == "failed" and not fails and not may:
                wrong.append(f"{test} fails")
            elif kind == "passed" and fails:
                wrong.append(f"{test} passes, though it is expected to fail")
            bad = bad or kind == "failed"
        if suite.status is None or suite.status >= KILLED or suite.status and not bad:
            wrong.append(f"{suite.name} ended with status {suite.status}")
        if not suite.results:
            wrong.append(f"{suite.name} ran no test")
    for pattern, _ in expected["fails"] + expected["may"]:
        if pattern not in seen:
            wrong.append(f"no test is called {pattern}, which is expected to fail")
    for name, least in expected["least"]:
        passed = sum(list(suite.results.values()).count("passed")
                     for suite in suites if suite.name == name)
        if passed < int(least):
            wrong.append(f"of {name} {passed} tests have passed, not {least} or more")
    return wrong


def main():
    p = argparse.ArgumentParser(description=__doc__, epilog=USAGE,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--library", choices=("stock", "own"), required=True)
    p.add_argument("--status", type=int, default=0, help="of rsiw-run")
    p.add_argument("expected", metavar="EXPECTED")
    p.add_argument("log", metavar="LOG")
    args = p.parse_args()
    expected = expectations(args.expected, args.library)
    suites = read(args.log)
    wrong = judge(suites, expected)
    if args.status:
        wrong.append(f"rsiw-run ended with status {args.status}")
    if not suites:
        wrong.append("no tests were run")
    kinds = [kind for suite in suites for kind in suite.results.values()]
    print("# %d passed, %d skipped by themselves, %d fail as expected, %d patterns left out" % (
        kinds.count("passed"), kinds.count("skipped"),
        kinds.count("failed") - len([w for w in wrong if w.endswith(" fails")]),
        len(expected["left-out"])))
    for what in wrong:
        print(f"# {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
