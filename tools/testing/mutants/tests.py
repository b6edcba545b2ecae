# SPDX-License-Identifier: GPL-2.0
"""Tests of judge.py."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import judge  # noqa: E402


class Judge(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def write(self, name, text):
        path = os.path.join(self.dir.name, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def test_kinds(self):
        self.write("caught.txt", "a.rs:1:2: replace + with -\n")
        self.write("timeout.txt", "a.rs:3:2: replace + with *\n")
        self.write("missed.txt", "a.rs:9:9: replace f with ()\nb.rs:1:1: replace g with ()\n")
        found = judge.judge(self.dir.name, {"a.rs: replace f with ()": "why"})
        self.assertEqual(found, (2, ["a.rs: replace f with ()"], ["b.rs: replace g with ()"]))

    def test_reasons(self):
        path = self.write("reasons", "# comment\n\na: b\tbecause\na: c\na: d\t \n")
        self.assertEqual(judge.reasons(path), ({"a: b": "because"}, ["a: c", "a: d"]))


if __name__ == "__main__":
    unittest.main()
