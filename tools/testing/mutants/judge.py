# SPDX-License-Identifier: GPL-2.0
"""Judges what cargo-mutants found.

usage: judge.py RESULTS REASONS

A line of REASONS is a change as cargo-mutants names it, without line and column, a tab,
and why no test can notice it. Of all changes that could be built, at most LIMIT may be
neither noticed nor there.
"""

import os
import re
import sys

LIMIT = 0.03


def listed(results, name):
    """The changes of a kind, without where they are in their file."""
    path = os.path.join(results, name + ".txt")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as f:
        return [re.sub(r"^([^:]+):\d+:\d+: ", r"\1: ", line.rstrip("\n")) for line in f]


def reasons(path):
    """What is explained: changes, and the lines that are not of this form."""
    known, bad = {}, []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            change, tab, reason = line.rstrip("\n").partition("\t")
            if tab and reason.strip():
                known[change] = reason
            else:
                bad.append(line.strip())
    return known, bad


def judge(results, known):
    """What was noticed, missed with a reason, missed without one, by numbers and names."""
    noticed = len(listed(results, "caught")) + len(listed(results, "timeout"))
    missed = listed(results, "missed")
    return noticed, [m for m in missed if m in known], [m for m in missed if m not in known]


def main():
    known, bad = reasons(sys.argv[2])
    for line in bad:
        print("no reason: %s" % line)
    noticed, explained, open_ = judge(sys.argv[1], known)
    for change in open_:
        print("missed: %s" % change)
    total = noticed + len(explained) + len(open_)
    if not total:
        print("nothing was changed")
        return 1
    print("%d changes: %d noticed, %d with a reason, %d missed (%.1f %%)" % (
        total, noticed, len(explained), len(open_), 100 * len(open_) / total))
    return 1 if bad or len(open_) > LIMIT * total else 0


if __name__ == "__main__":
    sys.exit(main())
