# SPDX-License-Identifier: GPL-2.0
"""The last results of all tests, and the rows that these name.

build/verdicts.json has, per test, what `collect` took out of the runs:
  {"guest": {TEST: {KIND of run: {"state": "pass" | "fail" | "skip",
                                  "when": seconds, "driver": hash,
                                  "subtests": [[NAME, true | false], ...]}}},
   "pure": {"when": seconds, "driver": hash,
            "tests": {TEST: "ok" | "FAILED" | "ignored"}}}
"""

import importlib
import json
import os
import re
import sys

from rows import Bad, named

PATH = "build/verdicts.json"
SELFTESTS = "tools/testing/selftests/rsiw"
PURE = "tools/testing/pure/src"

PASS, FAIL, NONE = "passed", "failed", "no result"

_PURE_TEST = re.compile(
    r"((?:^[ \t]*///[^\n]*\n)*)(?:^[ \t]*#\[[^\n]*\n)*^[ \t]*#\[test\]\n"
    r"(?:^[ \t]*#\[[^\n]*\n)*^[ \t]*(?:pub )?fn (\w+)", re.M)


class Claim:
    """A test says that it shows a row; and what came of it."""

    def __init__(self, ident, test, verdict, device, driver):
        self.ident, self.test, self.verdict = ident, test, verdict
        self.device = device
        self.driver = driver        # hash of the driver that it was run with


def read(top):
    """The file of verdicts."""
    path = os.path.join(top, PATH)
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        raise Bad("there is no %s: run \"make check\" first" % PATH) from None
    except ValueError as err:
        raise Bad("%s: %s" % (PATH, err)) from err


def guest_tests(top):
    """Names and words of the tests that run in guests, from the tree."""
    base = os.path.join(top, SELFTESTS)
    sys.dont_write_bytecode = True
    sys.path.insert(0, base)
    try:
        core = importlib.import_module("rsiwtest.core")
        return {t.name: t.name + "\n" + (t.func.__doc__ or "")
                for t in core.collect()}
    finally:
        sys.path.remove(base)


def of_newest(kinds):
    """The runs that tell about the newest driver that a test was run with.

    A test runs in several ways: on the debugging kernel, against several
    peers. All of them count, but not what an earlier driver did.
    """
    if not kinds:
        return [("plain", {"state": None, "driver": "", "subtests": []})]
    newest = max(kinds.values(), key=lambda run: run["when"])
    return [(kind, run) for kind, run in kinds.items()
            if run["driver"] == newest["driver"]]


def guest_claims(top, results):
    """What the tests in guests claim, in words and names of subtests."""
    for name, words in guest_tests(top).items():
        for kind, run in of_newest(results.get(name)):
            title = name if kind == "plain" else "%s (%s)" % (name, kind)
            subtests = run["subtests"]
            # What fails beside its parts takes them along: a fault in the
            # kernel's log, something left behind.
            spoilt = run["state"] == "fail" and all(ok for _, ok in subtests)
            whole = {"pass": PASS, "fail": FAIL}.get(run["state"], NONE)
            for ident in named(words):
                yield Claim(ident, title, whole, True, run["driver"])
            for sub, ok in subtests:
                for ident in named(sub):
                    yield Claim(ident, "%s: %s" % (title, sub),
                                PASS if ok and not spoilt else FAIL, True,
                                run["driver"])


def pure_tests(top):
    """Paths and comments of the tests of the protocol layers."""
    base = os.path.join(top, PURE)
    for where, _, names in sorted(os.walk(base)):
        for file in sorted(names):
            if not file.endswith(".rs"):
                continue
            path = os.path.join(where, file)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            module = os.path.relpath(path, base)[:-3].replace(os.sep, "::")
            module = re.sub(r"::mod$", "", module)
            for words, name in _PURE_TEST.findall(text):
                yield "%s::%s" % (module, name), words.replace("///", " ")


def pure_claims(top, results):
    """What the tests of the protocol layers claim in their comments."""
    verdict = {"ok": PASS, "FAILED": FAIL}
    for name, words in pure_tests(top):
        got = verdict.get(results.get("tests", {}).get(name), NONE)
        for ident in named(re.sub(r"\s+", " ", words)):
            yield Claim(ident, name, got, False, results.get("driver", ""))


def claims(top):
    """All claims; raises Bad for what cannot be read."""
    results = read(top)
    return (list(guest_claims(top, results.get("guest", {}))) +
            list(pure_claims(top, results.get("pure", {}))))
