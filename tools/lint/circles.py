#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Circles of files in the driver: files that use each other, directly or by way of others.

A file uses another one of its folder if it names a path into it, or calls a method of which that
is the only definition in the driver. What a module has from elsewhere is used where it comes from.
Run at the top of the checkout.
"""

import re
import sys

from source import rust_files

DRIVER = "drivers/infiniband/sw/rsiw"
# The most files of a circle.
MOST = 4

# Comments, strings, and what the visibility of an item names.
NOISE = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|pub\s*\((?:in\s+)?[\w:]+\s*\)', re.S)
METHOD = re.compile(r"\bfn\s+(\w+)\s*(?:<[^(]*>)?\s*\(\s*(?:&\s*(?:'\w+\s*)?)?(?:mut\s+)?self\b")
CALL = re.compile(r"\.(\w+)\s*(?:::<[^()]*>)?\(")
# Tests of the pure parts, at the end of their files.
TESTS = re.compile(r"\bmod\s+\w+\s*\{.*", re.S)
ROOT = re.compile(r"\b(crate|self|super(?:\s*::\s*super)*)\s*::\s*")
USE = re.compile(r"\buse\s+")
NAME = re.compile(r"\w+")


def tree(code, at):
    """The paths of the use tree that begins at `at`, as lists of names, and where it ends."""
    if code[at] == "{":
        paths = []
        at += 1
        while code[at] != "}":
            if code[at] == "," or code[at].isspace():
                at += 1
                continue
            more, at = tree(code, at)
            paths += more
        return paths, at + 1
    name = NAME.match(code, at)
    if not name:
        return [], at + 1
    at = name.end()
    further = re.compile(r"\s*::\s*(?=[\w{])").match(code, at)
    if further:
        paths, at = tree(code, further.end())
        return [[name.group()] + path for path in paths], at
    renamed = re.compile(r"\s+as\s+\w+").match(code, at)
    return [[name.group()]], renamed.end() if renamed else at


class Sources:
    """The driver's files, by module: `qp::sq` is ("qp", "sq")."""

    def __init__(self, files):
        self.code = {module: TESTS.sub("", NOISE.sub(" ", text)) for module, text in files.items()}
        self.homes = {}
        for module, code in self.code.items():
            for method in METHOD.findall(code):
                self.homes.setdefault(method, set()).add(module)
        self.handed_on = {}
        for module, code in self.code.items():
            for use in USE.finditer(code):
                for path in self.paths(module, code, use.end()):
                    self.handed_on[module + path[-1:]] = path

    def paths(self, module, code, at):
        """The paths from the crate's root on that `code` has at `at`."""
        root = ROOT.match(code, at)
        if not root:
            return []
        head = root.group(1)
        start = () if head == "crate" else module
        if head.startswith("super"):
            start = module[:-head.count("super")]
        paths, _ = tree(code, root.end())
        return [start + tuple(path) for path in paths]

    def home(self, path):
        """The module that a path leads into, or None."""
        for _ in range(8):
            for end in range(len(path), 0, -1):
                further = self.handed_on.get(path[:end])
                if further:
                    path = further + path[end:]
                    break
            else:
                break
        while path and path not in self.code:
            path = path[:-1]
        return path

    def used(self, module):
        """The modules that `module` uses, but for itself."""
        code = self.code[module]
        found = set()
        for root in ROOT.finditer(code):
            found.update(self.home(path) for path in self.paths(module, code, root.start()))
        for method in CALL.findall(code):
            homes = self.homes.get(method, ())
            if len(homes) == 1:
                found |= homes
        return found - {module, ()}


def circles(graph):
    """The sets of modules that reach each other (Tarjan)."""
    number, low, stack, found = {}, {}, [], []

    def visit(one):
        number[one] = low[one] = len(number)
        stack.append(one)
        for other in graph[one]:
            if other not in number:
                visit(other)
                low[one] = min(low[one], low[other])
            elif other in stack:
                low[one] = min(low[one], number[other])
        if low[one] == number[one]:
            at = stack.index(one)
            found.append(set(stack[at:]))
            del stack[at:]

    for one in graph:
        if one not in number:
            visit(one)
    return found


def largest(sources, folder):
    """The largest circle of a folder."""
    inside = {module for module in sources.code if module[0] == folder}
    graph = {module: sources.used(module) & inside for module in inside}
    return max(circles(graph), key=len)


def check(sources):
    """What is wrong."""
    for folder in sorted({module[0] for module in sources.code}):
        circle = largest(sources, folder)
        if len(circle) > MOST:
            names = ", ".join(sorted("/".join(module) + ".rs" for module in circle))
            yield f"{folder}: {len(circle)} files use each other, not {MOST} at most: {names}"


def read():
    return {tuple(path.removesuffix(".rs").removesuffix("/mod").split("/")): text
            for path, text in rust_files(DRIVER)}


def self_test():
    sources = Sources({
        ("a",): "use self::two::Two;\nuse self::one::{self, One};",
        ("a", "one"): "use super::Two; // super::three\nimpl One { fn acts(&self) {} }",
        ("a", "two"): "use crate::{b, a::three::Three}; fn f(one: &Two) { one.acts() }",
        ("a", "three"): "pub(in crate::a) fn g(two: &Two) { two.len() } mod t { use super::Two; }",
        ("b",): "fn len(&self) {}",
    })
    assert sources.used(("a", "one")) == {("a", "two")}, sources.used(("a", "one"))
    assert sources.used(("a", "two")) == {("a", "one"), ("a", "three"), ("b",)}
    assert sources.used(("a", "three")) == {("b",)}
    assert largest(sources, "a") == {("a", "one"), ("a", "two")}


def main():
    if sys.argv[1:] not in ([], ["--show"]):
        print("usage: circles.py [--show]    (in the checkout; --show names the largest of each folder)")
        return 0 if sys.argv[1] == "--help" else 2
    self_test()
    sources = Sources(read())
    if sys.argv[1:]:
        for folder in sorted({module[0] for module in sources.code}):
            circle = sorted("/".join(module) for module in largest(sources, folder))
            print(len(circle), " ".join(circle))
        return 0
    bad = list(check(sources))
    for message in bad:
        print(message)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
