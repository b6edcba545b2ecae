#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""What "make coverage" prints: line coverage by file and layer, and what is left.

Reads what llvm-cov exports in the format of lcov, and the reasons for the lines that
no test runs. Run at the top of the checkout.
"""

import argparse
import collections
import os
import re
import sys

DRIVER = "drivers/infiniband/sw/rsiw/"
LAYERS = ("wire", "proto")
REASONS = "Documentation/infiniband/rsiw-coverage-reasons"

_FN = re.compile(r"(\s*)(?:pub(?:\([a-z]+\))? )?(?:const )?fn (\w+)")


class Bad(Exception):
    """A file that is not as it should be; the message says which."""


def parse_lcov(lines):
    """{file: {number of a line: how often it was run}} of the layers' files."""
    files, counts = {}, None
    for line in lines:
        key, _, value = line.rstrip("\n").partition(":")
        if key == "SF":
            _, found, name = value.partition(DRIVER)
            counts = None
            if found and name.split("/")[0] in LAYERS:
                counts = files.setdefault(name, {})
        elif key == "DA" and counts is not None:
            number, times = (int(x) for x in value.split(",")[:2])
            counts[number] = max(counts.get(number, 0), times)
    return files


def function_at(source, number):
    """The name of the function that line `number` is of; "derive" of an attribute.

    The sources are formatted: what is inside of a function is indented.
    """
    line = source[number - 1]
    indent = len(line) - len(line.lstrip())
    for above in reversed(source[:number]):
        if above.lstrip().startswith("#[derive("):
            return "derive"
        found = _FN.match(above)
        if found and len(found.group(1)) <= indent:
            return found.group(2)
    raise Bad("line %d is in no function" % number)


def parse_reasons(lines):
    """{(file, function): (how many lines, reason)}."""
    reasons = {}
    for n, line in enumerate(lines, 1):
        if line.startswith("#") or not line.strip():
            continue
        words = line.split(None, 3)
        if len(words) < 4 or not words[2].isdigit():
            raise Bad("%s:%d: not FILE FUNCTION LINES REASON" % (REASONS, n))
        key = tuple(words[:2])
        if key in reasons:
            raise Bad("%s:%d: %s %s again" % (REASONS, n, *key))
        reasons[key] = (int(words[2]), words[3].strip())
    return reasons


def left(files, sources):
    """{(file, function): [numbers of its lines that were not run]}."""
    found = collections.defaultdict(list)
    for name in sorted(files):
        for number in sorted(n for n, times in files[name].items() if not times):
            found[name, function_at(sources[name], number)].append(number)
    return dict(found)


def complaints(missed, reasons):
    """Where the reasons are not about what is left."""
    for (name, function), numbers in missed.items():
        many, _ = reasons.get((name, function), (0, ""))
        if many != len(numbers):
            yield "%s: %s: %d not covered (line %s), %d in %s" % (
                name, function, len(numbers), ", ".join(map(str, numbers)),
                many, REASONS)
    for name, function in sorted(reasons.keys() - missed.keys()):
        yield "%s: %s: in %s, but all is covered, or nothing is called so" % (
            name, function, REASONS)


def percent(covered, lines):
    """Never rounded up."""
    return (1000 * covered // lines) / 10 if lines else 100.0


def table(files):
    """Lines of text: files, layers, all; and {layer: (lines, covered)}."""
    row = "%-32s %6d %8d %7.1f"
    out = ["%-32s %6s %8s %7s" % ("", "lines", "covered", "%")]
    sums = dict.fromkeys(LAYERS, (0, 0))
    for name in sorted(files, key=lambda f: (LAYERS.index(f.split("/")[0]), f)):
        lines = len(files[name])
        covered = sum(1 for times in files[name].values() if times)
        layer = name.split("/")[0]
        sums[layer] = (sums[layer][0] + lines, sums[layer][1] + covered)
        out.append(row % (name, lines, covered, percent(covered, lines)))
    out.append("")
    for layer, (lines, covered) in sums.items():
        out.append(row % (layer + "/", lines, covered, percent(covered, lines)))
    both = tuple(map(sum, zip(*sums.values())))
    out.append(row % ("both", *both, percent(both[1], both[0])))
    return out, sums


def report(files, sources, reasons, limit, show_lines):
    """The text, and what is wrong."""
    out, sums = table(files)
    missed = left(files, sources)
    wrong = list(complaints(missed, reasons))
    for layer, (lines, covered) in sums.items():
        if not lines:
            wrong.append("%s/: nothing was measured" % layer)
        elif 100 * covered < limit * lines:
            wrong.append("%s/: %.1f %% covered, at least %g %% wanted" % (
                layer, percent(covered, lines), limit))
    if missed:
        out += ["", "Not covered:"]
    for (name, function), numbers in missed.items():
        _, reason = reasons.get((name, function), (0, "NO REASON GIVEN"))
        out.append("%s: %s: %d: %s" % (name, function, len(numbers), reason))
        if show_lines:
            out += ["%7d  %s" % (n, sources[name][n - 1]) for n in numbers]
    return out, wrong


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().splitlines()
    except OSError as err:
        raise Bad(str(err)) from err


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--limit", type=float, default=95)
    p.add_argument("--lines", action="store_true")
    p.add_argument("lcov")
    args = p.parse_args()
    try:
        files = parse_lcov(read(args.lcov))
        sources = {name: read(os.path.join(DRIVER, name)) for name in files}
        out, wrong = report(files, sources, parse_reasons(read(REASONS)),
                            args.limit, args.lines)
    except Bad as err:
        p.exit(1, "coverage: %s\n" % err)
    print("\n".join(out))
    print()
    for message in wrong:
        print("coverage: %s" % message)
    print("coverage: " + ("FAILED" if wrong else "at least %g %% of each layer; "
                          "what is left has its reason" % args.limit))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
