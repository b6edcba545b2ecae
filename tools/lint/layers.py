#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The layers of the driver: each module uses those below it only.

Reads every path that begins with crate:: in the driver's files, outside comments
and strings. Run at the top of the checkout.
"""

import re
import sys

from source import main, rust_files

DRIVER = "drivers/infiniband/sw/rsiw"
# From the top down. Modules of one line do not use each other.
LAYERS = (
    ("rsiw_main", "kunit"),
    ("link",),
    ("verbs",),
    ("rnic",),
    ("cm",),
    ("gids",),
    ("ud",),
    ("qp",),
    ("srq",),
    ("device",),
    ("cq", "mr"),
    ("queue",),
    ("abi", "counts", "limits", "log", "notes"),
    ("ffi",),
    ("proto",),
    ("wire",),
    ("num",),
)
RANK = {module: rank for rank, modules in enumerate(LAYERS) for module in modules}
# Those that stand alone, and what else they may use: the pure ones, which nothing of the kernel
# may get into, and the interface to the kernel, which knows nothing of the protocol.
ALONE = {"proto": {"wire", "num"}, "wire": {"num"}, "ffi": {"num"}, "num": set()}
# What of the interface only this driver has a use for: the rest of it does not use that, so that
# another driver can leave it out.
OWN = re.compile(r"\brsiw\s*(?:::|[,}])")
# A crate of its own.
OTHER = "compat"
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


def check(module, text, depth=1):
    """What is wrong with a file of `module`, which is `depth` modules below the crate."""
    code = NOISE.sub(" ", text)
    above = re.compile(r"(?<![\w:])(?:super\s*::\s*){%d}" % depth)
    for start in (*START.finditer(code), *above.finditer(code)):
        # Not what the visibility of an item names.
        if re.search(r"pub\s*\(\s*(in\s+)?$", code[: start.start()]):
            continue
        for used in heads(code, start.end()):
            if used == module or used not in RANK:
                continue
            if module in ALONE and used not in ALONE[module]:
                yield f"{module} stands alone and uses {used}"
            elif RANK[used] <= RANK[module]:
                yield f"{module} uses {used}, which is not below it"


def check_general(text):
    """What is wrong with a file of the interface that is for any driver."""
    if OWN.search(NOISE.sub(" ", text)):
        yield "what is for any driver uses ffi::rsiw"


def check_order(text):
    """What is wrong with the order that the first comment of the crate gives."""
    comment = " ".join(re.findall(r"^//! ?(.*)", text, re.M))
    _, _, order = comment.partition("each using only those before it:")
    told = tuple(tuple(re.findall(r"`(\w+)`", part)) for part in order.split(";"))
    if told != LAYERS[-5:0:-1]:
        yield "the first comment does not have the order of tools/lint/layers.py"


def self_test():
    for module, text, count in (
            ("qp", "use crate::{\n    cm::Endpoint,\n    cq::{Cq, cm},\n};", 1),
            ("qp", "use crate::cq::Cq; // crate::cm\n", 0),
            ("cq", "fn f() { crate::qp::Qp::g() }", 1),
            ("ffi", "use super::wire::ddp;", 1)):
        found = list(check(module, text))
        assert len(found) == count, (module, text, found)
    assert list(check_general("use crate::ffi::{raw::b, rsiw::params};"))
    assert not list(check_general("pub(crate) mod rsiw; // rsiw::\nuse b::rsiw_bind as Bind;"))
    assert list(check_order("//! Above them, each using only those before it: `cq`, `mr`; `qp`.\n"))


def check_all():
    self_test()
    for path, text in rust_files(DRIVER):
        names = path.removesuffix(".rs").split("/")
        module, depth = names[0], len(names) - (names[-1] == "mod")
        if module == OTHER:
            continue
        if module not in RANK:
            yield f"{DRIVER}/{path}: the module {module} has no layer"
            continue
        messages = list(check(module, text, depth))
        if module == "ffi" and names[1:2] != ["rsiw"]:
            messages += check_general(text)
        if module == "rsiw_main":
            messages += check_order(text)
        for message in messages:
            yield f"{DRIVER}/{path}: {message}"


if __name__ == "__main__":
    sys.exit(main(check_all))
