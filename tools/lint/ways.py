#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The two ways of rsiw-design.rst are those of the code.

Each line of their blocks names a function and its file, indented below the function that calls it.
Checks that the function is there, that the one above it calls something of that name, and that it
does so in the order of the list. Run at the top of the checkout.
"""

import os
import re
import sys

from source import main

DRIVER = "drivers/infiniband/sw/rsiw"
PAGE = "Documentation/infiniband/rsiw-design.rst"
CHAPTER = re.compile(r"^The two ways\n=+\n(.*?)(?=^[^\n]+\n=+\n)", re.M | re.S)
LINE = re.compile(r"^    ( *)(\w+) +([\w/]+\.rs)(?: .*)?$")
NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)


def bodies(code, name):
    """The bodies of the functions of that name, each up to the bracket that ends it."""
    for found in re.finditer(rf"\bfn\s+{name}\b[^{{;]*\{{", code):
        depth, at = 1, found.end()
        while depth and at < len(code):
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        yield code[found.end():at]


def calls(body, name):
    """Where a body calls something of that name first, or hands it on; -1 if it does not."""
    found = re.search(rf"(?<!fn )\b{name}\b\s*(?:::<[^()]*>\s*)?(?=[(,)])", body)
    return found.start() if found else -1


def check(page, read):
    """What is wrong with the page, given what reads a file of the driver."""
    chapter = CHAPTER.search(page)
    if not chapter:
        yield f"{PAGE} has no chapter 'The two ways'"
        return
    above, ways = [], 0
    for text in chapter[1].splitlines():
        line = LINE.match(text)
        if not line:
            above = []
            continue
        depth, name, path = len(line[1]) // 2, line[2], line[3]
        code = read(path)
        found = list(bodies(code, name)) if code is not None else []
        if not found:
            yield f"{PAGE}: {path} has no function {name}"
            continue
        ways += depth == 0
        above = above[:depth]
        if len(above) < depth:
            yield f"{PAGE}: nothing above {name} calls it"
        elif depth:
            caller = above[-1]
            at = max(calls(body, name) for body in caller["bodies"])
            if at < 0:
                yield f"{PAGE}: {caller['name']} of {caller['path']} does not call {name}"
            elif at < caller["last"]:
                yield f"{PAGE}: {caller['name']} of {caller['path']} calls {name} before the one above"
            else:
                caller["last"] = at
        above.append({"name": name, "path": path, "bodies": found, "last": -1})
    if ways != 2:
        yield f"{PAGE} has {ways} ways"


def read_driver(path):
    path = os.path.join(DRIVER, path)
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as f:
        return NOISE.sub(" ", f.read())


def self_test():
    code = {"a.rs": "fn one() { two(); three() }", "b.rs": "fn two() {} fn three() { f(four) }"}
    way = "    one  a.rs  x\n      two  b.rs  x\n      three  b.rs  x\n"
    page = "The two ways\n====\n\n%s\n%s\nNext\n====\n"
    for other, want in ((way, 0), ("", 1),
                        ("    one  a.rs  x\n      three  b.rs  x\n      two  b.rs  x\n", 1)):
        got = list(check(page % (way, other), code.get))
        assert len(got) == want, (other, got)


def check_all():
    self_test()
    with open(PAGE, encoding="utf-8") as f:
        yield from check(f.read(), read_driver)


if __name__ == "__main__":
    sys.exit(main(check_all))
