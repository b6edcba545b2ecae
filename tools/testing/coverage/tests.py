#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tests of the code that judges the coverage; for the Debian root."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import report  # noqa: E402

SOURCE = """\
#[derive(
    Clone, Copy,
)]
struct S;

impl S {
    const fn one() -> u32 {
        1
    }

    pub(crate) fn two(
        &self,
    ) -> u32 {
        2
    }
}
""".splitlines()

LCOV = """\
SF:/root/registry/zerocopy/src/wire/lib.rs
DA:1,0
end_of_record
SF:/checkout/drivers/infiniband/sw/rsiw/wire/s.rs
FN:7,_RNvone
DA:2,0
DA:7,3
DA:8,3
DA:9,3
end_of_record
SF:/checkout/drivers/infiniband/sw/rsiw/proto/deep/s.rs
DA:7,1
DA:8,1
DA:11,0
DA:14,0
DA:14,2
end_of_record
SF:/checkout/drivers/infiniband/sw/rsiw/mr/range.rs
DA:1,0
end_of_record
""".splitlines()

FILES = {"wire/s.rs": {2: 0, 7: 3, 8: 3, 9: 3},
         "proto/deep/s.rs": {7: 1, 8: 1, 11: 0, 14: 2}}
SOURCES = dict.fromkeys(FILES, SOURCE)
REASONS = {("wire/s.rs", "derive"): (1, "derived"),
           ("proto/deep/s.rs", "two"): (1, "never")}


def judged(files=None, reasons=None, limit=75, lines=False):
    return report.report(files or FILES, SOURCES,
                         REASONS if reasons is None else reasons, limit, lines)


class Tests(unittest.TestCase):
    def test_reads_the_layers_only(self):
        self.assertEqual(report.parse_lcov(LCOV), FILES)

    def test_functions(self):
        names = {n: report.function_at(SOURCE, n)
                 for n in (1, 2, 7, 8, 9, 11, 13, 14, 15)}
        self.assertEqual(names, {1: "derive", 2: "derive", 7: "one", 8: "one",
                                 9: "one", 11: "two", 13: "two", 14: "two",
                                 15: "two"})
        with self.assertRaises(report.Bad):
            report.function_at(["struct S;"], 1)

    def test_reasons(self):
        lines = ["# a comment", "", "wire/s.rs  derive 1  because of  this"]
        self.assertEqual(report.parse_reasons(lines),
                         {("wire/s.rs", "derive"): (1, "because of  this")})
        for bad in (["wire/s.rs derive 1"], ["wire/s.rs derive one reason"],
                    lines[2:] * 2):
            with self.assertRaises(report.Bad):
                report.parse_reasons(bad)

    def test_passes(self):
        out, wrong = judged()
        self.assertEqual(wrong, [])
        self.assertIn("wire/s.rs: derive: 1: derived", out)
        self.assertNotIn("     11      pub(crate) fn two(", out)
        self.assertIn("     11      pub(crate) fn two(", judged(lines=True)[0])
        both = [line.split() for line in out if line.startswith("both")]
        self.assertEqual(both, [["both", "8", "6", "75.0"]])

    def test_too_little(self):
        _, wrong = judged(limit=75.1)
        self.assertEqual(len(wrong), 2)
        self.assertIn("wire/: 75.0 % covered, at least 75.1 % wanted", wrong)
        # Each layer has to reach it, whatever both do together.
        files = dict(FILES, **{"wire/s.rs": {n: 1 for n in range(1, 16)}})
        reasons = {("proto/deep/s.rs", "two"): (1, "never")}
        _, wrong = judged(files, reasons, 80)
        self.assertEqual(len(wrong), 1)

    def test_nothing_measured(self):
        _, wrong = judged({"wire/s.rs": {7: 1}}, {}, 0)
        self.assertEqual(wrong, ["proto/: nothing was measured"])

    def test_not_rounded_up(self):
        self.assertEqual(report.percent(9499, 10000), 94.9)
        self.assertEqual(report.percent(9999, 10000), 99.9)

    def test_reasons_have_to_be_true(self):
        derive, one = ("wire/s.rs", "derive"), ("wire/s.rs", "one")
        for reasons in ({}, REASONS | {derive: (2, "fewer are left")},
                        REASONS | {one: (1, "all is covered")},
                        REASONS | {("wire/gone.rs", "one"): (1, "gone")}):
            self.assertTrue(judged(reasons=reasons)[1], reasons)


if __name__ == "__main__":
    unittest.main()
