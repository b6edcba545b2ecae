# SPDX-License-Identifier: GPL-2.0
"""usage: port.py LOG    (of a build that went on after errors)

Prints what a kernel lacks of what the driver uses, grouped by kind: each name once, with how
often it is missed, and where at first.
"""

import re
import sys

# A kind, and what its errors look like. The group is what is missing, or what the compiler says;
# names in backquotes count one by one in the first kind.
NAMES = "names of the kernel crate"
RUST = (
    (NAMES, r"(?:unresolved imports?|failed to resolve:|cannot find macro) (.+)"),
    ("names of C, and of what is in scope", r"cannot find [a-z ,]+ (`[^`]+`)"),
    ("methods, constants and fields", r"(no [a-z ]+ (?:named )?`[^`]+` (?:found )?for .*`[^`]+`)"),
    ("items of traits", r"(not all trait items.*|.* is not a member of trait.*)"),
    ("types and parameters", r"(mismatched types.*|.*takes \d+ .*argument.*|.*is not satisfied.*)"),
)
C = (
    ("members of C structures", r"has no member named ‘(\w+)’"),
    ("functions and macros of C", r"implicit declaration of function ‘(\w+)’|‘(\w+)’ undeclared"),
    ("C headers", r"(\S+): No such file"),
    ("symbols for modules", r"modpost: \"(\w+)\" .*undefined"),
)
RUST_ERROR = re.compile(r"error(?:\[E\d+\])?: (.*)")
RUST_PLACE = re.compile(r" +--> (\S+?:\d+):")
RUST_FOUND = re.compile(r" +(?:\d+ +)?\|.* (expected .*, found .*)")
C_ERROR = re.compile(r"(?:(\S+?:\d+):\d+: (?:fatal )?error|ERROR): (.*)")
SUMMARY = re.compile(r"aborting due to|could not compile")


def told(text, kinds, other):
    """The kind of an error, and what is missing."""
    for kind, pattern in kinds:
        if found := re.search(pattern, text):
            what = next(group for group in found.groups() if group)
            return kind, re.findall(r"`([^`]+)`", what) if kind == NAMES else [what]
    return other, [text]


def errors(lines):
    """All errors: what is said, where, and whether it is of Rust."""
    last = None
    for line in lines:
        if rust := RUST_ERROR.match(line):
            last = None
            if not SUMMARY.search(line):
                last = [rust[1], "", True]
                yield last
        elif c := C_ERROR.match(line):
            last = None
            yield [c[2], c[1] or "modpost", False]
        elif last and not last[1] and (place := RUST_PLACE.match(line)):
            last[1] = place[1]
        elif last and last[0] == "mismatched types" and (found := RUST_FOUND.match(line)):
            last[0] += ": " + found[1]


def main():
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        print(__doc__.strip())
        return 0 if sys.argv[1:] == ["--help"] else 2
    kinds = {}
    with open(sys.argv[1], encoding="utf-8", errors="replace") as f:
        for text, place, is_rust in list(errors(f)):
            kind, names = told(text, RUST if is_rust else C, "other errors")
            for name in names:
                kinds.setdefault(kind, {}).setdefault(name, []).append(place)
    for kind, found in sorted(kinds.items(), key=lambda item: -len(item[1])):
        print(f"{kind} ({len(found)}):")
        for name, places in sorted(found.items(), key=lambda item: -len(item[1])):
            print(f"  {len(places):3} x  {name}    {places[0].rpartition('/rsiw/')[2]}")
    if not kinds:
        print("nothing is missing that the compilers see")
    return 0


if __name__ == "__main__":
    sys.exit(main())
