#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Python files that do not compile, use a name that nothing defines, also one of another of
these files, or define one that they import; and tests that wait for a time, not for an event, and do not say why.

usage: names.py FILE...
"""

import ast
import builtins
import functools
import os
import symtable
import sys

KNOWN = set(dir(builtins)) | {"__file__"}


def scopes(table):
    """A scope and all within."""
    yield table
    for child in table.get_children():
        yield from scopes(child)


def parsed(path):
    """The outermost scope of a file."""
    with open(path, encoding="utf-8") as f:
        return symtable.symtable(f.read(), path, "exec")


def undefined(module):
    """The names of a file that are global and that nothing defines."""
    symbols = [(scope, s) for scope in scopes(module) for s in scope.get_symbols()
               if scope is module or s.is_global()]
    known = KNOWN | {s.get_name() for _, s in symbols
                     if s.is_assigned() or s.is_imported() or s.is_namespace()}
    return sorted({s.get_name() for _, s in symbols
                   if s.is_referenced() and s.get_name() not in known})


@functools.cache
def defined(path):
    """The names that a file has for others."""
    return {s.get_name() for s in parsed(path).get_symbols()
            if s.is_assigned() or s.is_imported() or s.is_namespace()}


def lacking(path, files):
    """The names of other files that a file uses and that these do not define. `files`: the paths
    of all, by the name by which they are imported."""
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    found, modules = set(), {}

    def file_of(name):
        here = os.path.join(os.path.dirname(path), name + ".py")
        known = [f for f in files.get(name, []) if os.path.samefile(f, here)] \
            if os.path.exists(here) else files.get(name, [])
        return known[0] if len(known) == 1 else None

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update({a.asname or a.name: a.name for a in node.names if file_of(a.name)})
        elif isinstance(node, ast.ImportFrom) and not node.level and file_of(node.module):
            has = defined(file_of(node.module))
            found |= {"%s.%s" % (node.module, a.name) for a in node.names
                      if a.name != "*" and a.name not in has}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and \
                node.value.id in modules:
            name = modules[node.value.id]
            if node.attr not in defined(file_of(name)) and not node.attr.startswith("__"):
                found.add("%s.%s" % (name, node.attr))
    return sorted(found)


def covered(module):
    """The names that a file imports and then defines itself."""
    return sorted(s.get_name() for s in module.get_symbols()
                  if s.is_imported() and s.is_namespace())


def sleeps(path):
    """The lines of tests that sleep outside a loop which looks, without a comment above."""
    if "selftests/" not in path:
        return
    with open(path, encoding="utf-8") as f:
        text = f.read()
    lines, todo = text.splitlines(), [(ast.parse(text), False)]
    while todo:
        node, looks = todo.pop()
        looks = isinstance(node, ast.While) or looks and not isinstance(node, ast.FunctionDef)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "sleep" and not looks:
            above = lines[max(0, node.lineno - 4):node.lineno]
            if not any(line.lstrip().startswith("#") for line in above):
                yield node.lineno
        todo += [(child, looks) for child in ast.iter_child_nodes(node)]


def main():
    if sys.argv[1:] in ([], ["--help"]):
        print(__doc__.strip())
        return 0 if sys.argv[1:] else 2
    status, files = 0, {}
    for path in sys.argv[1:]:
        if path.endswith(".py"):
            files.setdefault(os.path.basename(path)[:-3], []).append(path)
    for path in sys.argv[1:]:
        try:
            module = parsed(path)
            for name in lacking(path, files):
                print("%s: nothing defines %s" % (path, name))
                status = 1
            for name in undefined(module):
                print("%s: nothing defines %s" % (path, name))
                status = 1
            for name in covered(module):
                print("%s: %s is imported and defined" % (path, name))
                status = 1
            for line in sleeps(path):
                print("%s:%d: what happens meanwhile, that cannot be waited for?" % (path, line))
                status = 1
        except SyntaxError as err:
            print("%s:%s: %s" % (path, err.lineno, err.msg))
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
