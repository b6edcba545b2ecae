#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of judge.py: what the forms of output say, and what is not as expected."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from judge import expectations, judge, read  # noqa: E402


def judged(log, expected="", library="own"):
    """The suites of a log, and what is wrong with them."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("log", log), ("expected", expected)):
            with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        suites = read(f"{folder}/log")
        return suites, judge(suites, expectations(f"{folder}/expected", library))


class Forms(unittest.TestCase):
    """One line of each kind of output."""

    def results(self, *lines):
        suites, _ = judged("# suite s\n" + "\n".join(lines) + "\n# status 0\n")
        return suites[0].results

    def test_libtest(self):
        self.assertEqual(self.results("test a::b ... ok", "test c ... FAILED", "test d ... ignored",
                                      "test e - should panic ... ok", "test result: ok. 1 passed"),
                         {"s/a::b": "passed", "s/c": "failed", "s/d": "skipped", "s/e": "passed"})

    def test_unittest(self):
        self.assertEqual(self.results("test_a (tests.test_x.Y.test_a) ... ok",
                                      "test_b (tests.test_x.Y.test_b)", "What it does ... ERROR",
                                      "test_c (tests.test_x.Y.test_c)", "Said in", "two lines ... FAIL",
                                      "test_d (tests.test_x.Y.test_d) ... skipped 'not here'",
                                      "test_e (tests.test_x.Y.test_e) ... Player got:", "ERROR",
                                      "ERROR: test_e (tests.test_x.Y.test_e)"),
                         {"s/test_a(tests.test_x.Y.test_a)": "passed",
                          "s/test_b(tests.test_x.Y.test_b)": "failed",
                          "s/test_c(tests.test_x.Y.test_c)": "failed",
                          "s/test_d(tests.test_x.Y.test_d)": "skipped",
                          "s/test_e(tests.test_x.Y.test_e)": "failed"})

    def test_pytest(self):
        self.assertEqual(self.results("test_a.py::test_b PASSED [ 1%]", "test_a.py::test_c FAILED [ 2%]",
                                      "test_a.py::test_d SKIPPED (no) [ 3%]"),
                         {"s/test_a.py::test_b": "passed", "s/test_a.py::test_c": "failed",
                          "s/test_a.py::test_d": "skipped"})

    def test_googletest(self):
        self.assertEqual(self.results("[ RUN      ] a.b/0", "[       OK ] a.b/0 (5 ms)",
                                      "[  FAILED  ] c.d/1, where GetParam() = 3 (7 ms)",
                                      "[  SKIPPED ] e.f (0 ms)", "[  FAILED  ] c.d/1"),
                         {"s/a.b/0": "passed", "s/c.d/1": "failed", "s/e.f": "skipped"})

    def test_googletest_of_ucx(self):
        self.assertEqual(self.results("[ RUN      ] a.b/0 <rc_verbs/rsiw0:1>", "[     SKIP ] (!check_caps())",
                                      "[       OK ] a.b/0 (5 ms)", "[       OK ] a.c/0 (5 ms)",
                                      "[     SKIP ] (later)", "[  FAILED  ] a.d/0, where GetParam() = x (7 ms)"),
                         {"s/a.b/0": "skipped", "s/a.c/0": "passed", "s/a.d/0": "failed"})

    def test_own(self):
        self.assertEqual(self.results("ok one", "not ok two"), {"s/one": "passed", "s/two": "failed"})


class Judgement(unittest.TestCase):
    """What is not as it should be."""

    FAILS = "# suite s\nnot ok a\nok b\n# status 1\n"

    def wrong(self, *args):
        return judged(*args)[1]

    def test_all_pass(self):
        self.assertEqual(self.wrong("# suite s\nok a\n# status 0\n"), [])

    def test_fails(self):
        self.assertEqual(self.wrong(self.FAILS), ["s/a fails"])
        self.assertEqual(self.wrong(self.FAILS, "fails any s/a: so\n"), [])
        self.assertEqual(self.wrong(self.FAILS, "fails own s/*: so\n"),
                         ["s/b passes, though it is expected to fail"])
        self.assertEqual(self.wrong(self.FAILS, "fails stock s/a: so\n"), ["s/a fails"])

    def test_may(self):
        self.assertEqual(self.wrong(self.FAILS, "may own s/*: so\n"), [])

    def test_unknown_pattern(self):
        self.assertEqual(self.wrong("# suite s\nok a\n# status 0\n", "may any s/x: so\n"),
                         ["no test is called s/x, which is expected to fail"])

    def test_ends_early(self):
        for status in ("139", "124"):
            self.assertEqual(self.wrong(f"# suite s\nnot ok a\n# status {status}\n", "fails any s/a: so\n"),
                             [f"s ended with status {status}"])
        self.assertEqual(self.wrong("# suite s\nok a\n"), ["s ended with status None"])
        self.assertEqual(self.wrong("# suite s\nok a\n# status 1\n"), ["s ended with status 1"])

    def test_nothing_run(self):
        self.assertEqual(self.wrong("# suite s\n# status 0\n"), ["s ran no test"])

    def test_least(self):
        log = "# suite s\nok a\ntest b ... ignored\n# status 0\n"
        self.assertEqual(self.wrong(log, "least any s: 1\n"), [])
        self.assertEqual(self.wrong(log, "least stock s: 2\n"), [])
        self.assertEqual(self.wrong(log, "least own s: 2\n"),
                         ["of s 1 tests have passed, not 2 or more"])
        self.assertEqual(self.wrong(log, "least own t: 1\n"),
                         ["of t 0 tests have passed, not 1 or more"])
        with self.assertRaises(SystemExit):
            self.wrong(log, "least own s: some\n")

    def test_no_reason(self):
        with self.assertRaises(SystemExit):
            self.wrong(self.FAILS, "fails any s/a\n")


if __name__ == "__main__":
    unittest.main()
