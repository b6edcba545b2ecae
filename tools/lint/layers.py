#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The layers of the driver: each module uses those below it only.

Reads every path that begins with crate:: in the driver's files, outside comments
and strings. Run at the top of the checkout.
"""

import os
import re
import sys

DRIVER = "drivers/infiniband/sw/rsiw"
# From the top down. Modules of one line do not use each other.
LAYERS = (
    ("rsiw_main", "kunit"),
    ("link",),
    ("verbs",),
    ("rnic",),
    ("cm",),
    ("qp",),
    ("srq",),
    ("pd",),
    ("device",),
    ("cq", "mr"),
    ("queue",),
    ("abi", "limits", "notes", "tuning"),
    ("ffi",),
    ("proto",),
    ("wire",),
)
RANK = {module: rank for rank, modules in enumerate(LAYERS) for module in modules}
# The pure ones, which nothing of the kernel may get into.
PURE = {"proto": {"wire"}, "wire": set()}
NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
# What comes behind "crate::": a path, or a group of paths.
START = re.compile(r"\bcrate\s*::\s*")
NAME = re.compile(r"\w+")


def heads(code, at):
    """The first names of the path or the group of paths that begins at `at`."""
    if code[at] != "{":
        name = NAME.match(code, at)
        return [name.group()] if name else []
    found, depth, fresh = [], 0, False
    for i in range(at, len(code)):
        c = code[i]
        if c == "{":
            depth += 1
            fresh = depth == 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                break
        elif c == "," and depth == 1:
            fresh = True
        elif fresh and not c.isspace():
            name = NAME.match(code, i)
            if name:
                found.append(name.group())
            fresh = False
    return found


def check(module, text):
    """What is wrong with a file of `module`."""
    code = NOISE.sub(" ", text)
    for start in START.finditer(code):
        # Not what the visibility of an item names.
        if re.search(r"pub\s*\(\s*(in\s+)?$", code[: start.start()]):
            continue
        for used in heads(code, start.end()):
            if used == module or used not in RANK:
                continue
            if module in PURE and used not in PURE[module]:
                yield f"{module} is pure and uses {used}"
            elif RANK[used] <= RANK[module]:
                yield f"{module} uses {used}, which is not below it"


def files(top):
    for where, dirs, names in os.walk(top):
        dirs.sort()
        for name in sorted(names):
            if name.endswith(".rs"):
                yield os.path.join(where, name)


def self_test():
    cases = (
        ("qp", "use crate::{\n    cm::Endpoint,\n    cq::{Cq, cm},\n};", 1),
        ("qp", "use crate::cq::Cq; // crate::cm\n", 0),
        ("cq", "fn f() { crate::qp::Qp::g() }", 1),
        ("qp", "pub(in crate::qp) fn f() {}", 0),
        ("proto", "use crate::ffi::log;", 1),
        ("proto", "use crate::wire::ddp;", 0),
        ("mr", "use crate::{abi, ffi::{page, raw::{b, h}}, device};", 1),
    )
    for module, text, count in cases:
        found = list(check(module, text))
        assert len(found) == count, (module, text, found)


def main():
    if sys.argv[1:]:
        print("usage: layers.py    (in the checkout)")
        return 0 if sys.argv[1] == "--help" else 2
    self_test()
    bad = 0
    for path in files(DRIVER):
        module = os.path.relpath(path, DRIVER).split(os.sep)[0].removesuffix(".rs")
        if module not in RANK:
            print(f"{path}: the module {module} has no layer")
            bad += 1
            continue
        with open(path, encoding="utf-8") as f:
            for message in check(module, f.read()):
                print(f"{path}: {message}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
