# SPDX-License-Identifier: GPL-2.0
"""The matrix, its reasons, how tests name rows, and which driver this is."""

import hashlib
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
PARTS = {"A": "rows-verbs", "B": "rows-wire", "T": "rows-traps"}
REASONS = "Documentation/infiniband/rsiw-conformance-reasons"
LEVELS = {"M": "mandatory", "S": "recommended", "O": "optional",
          "N": "undefined"}
SEEN_BY = ("V", "K", "RP", "W", "I")
# Documents with their sections, such as RFC5041:5.2 or
# verbs:6.2.2,8.1/RFC5040:5.3; "-" for what practice has taught.
_DOCUMENT = r"(?:RFC\d{4}|verbs|core)(?::[\w.]+(?:,[\w.]+)*)?"
SOURCE = re.compile(r"-|%s(?:/%s)*" % (_DOCUMENT, _DOCUMENT))

# What the driver is made of.
SOURCES = ("drivers/infiniband/sw/rsiw", "include")

_ID = (r"(?:(?:V-[A-Z]+\d?|L-CORE|P-[A-Z]+|D-DDP|M-MPA|X-[A-Z]+|S-5042)-\d+"
       r"|T-\d+b?)")
# One row, or from one to another: "V-FNC-1", "V-FNC-1 to 5".
_NAMED = re.compile(r"(?<![\w-])(%s)(?:\s+to\s+(%s|\d+)\b)?" % (_ID, _ID))


class Bad(Exception):
    """A file that is not as it should be; the message says which."""


class Row:
    """One line of the matrix."""

    def __init__(self, part, ident, level, vantage, source, title):
        self.part, self.ident, self.level = part, ident, level
        self.vantage, self.source, self.title = vantage, source, title
        self.reason = ""
        # A row can stand for others, which its title names then.
        self.sum_of = named(title)

    @property
    def expressible(self):
        return self.vantage != "n-e"

    def without_device(self):
        """Whether octets in and out are enough to see it.

        Then a test of the protocol layers, which runs in user space, shows it;
        what is seen through verbs takes a device.
        """
        return any(set(way.split("+")) <= {"RP", "W"}
                   for way in self.vantage.split("/"))


def driver(top=TOP):
    """What tells this driver's sources from others: a hash over them."""
    found = hashlib.sha256()
    for base in SOURCES:
        for where, dirs, names in os.walk(os.path.join(top, base)):
            dirs.sort()
            for name in sorted(names):
                path = os.path.join(where, name)
                found.update(os.path.relpath(path, top).encode() + b"\0")
                with open(path, "rb") as f:
                    found.update(hashlib.sha256(f.read()).digest())
    return found.hexdigest()[:16]


def lines(path):
    """Lines of a data file with their numbers, comments left out."""
    try:
        with open(path, encoding="utf-8") as f:
            for n, line in enumerate(f, 1):
                if line.strip() and not line.startswith("#"):
                    yield n, line.strip()
    except OSError as err:
        raise Bad("%s: %s" % (path, err.strerror)) from err


def load(top=TOP):
    """All rows by ID, in the order of the matrix, with their reasons."""
    rows = {}
    for part, name in PARTS.items():
        path = os.path.join(HERE, name)
        for n, line in lines(path):
            field = line.split(None, 4)
            if len(field) != 5 or field[1] not in LEVELS or field[0] in rows:
                raise Bad("%s:%d: not a row: %s" % (path, n, line))
            if field[2] != "n-e" and not set(
                    re.split(r"[+/]", field[2])) <= set(SEEN_BY):
                raise Bad("%s:%d: unknown vantage %s" % (path, n, field[2]))
            if not SOURCE.fullmatch(field[3]):
                raise Bad("%s:%d: not a source: %s" % (path, n, field[3]))
            rows[field[0]] = Row(part, *field)
    path = os.path.join(top, REASONS)
    for n, line in lines(path):
        field = line.split(None, 2)
        row = rows.get(field[0])
        if len(field) != 3 or row is None or row.reason:
            raise Bad("%s:%d: not a reason: %s" % (path, n, line))
        if field[1] != row.vantage:
            raise Bad("%s:%d: the vantage of %s is %s" % (
                path, n, row.ident, row.vantage))
        row.reason = field[2]
    for row in rows.values():
        if not row.expressible and not row.reason and row.level == "M":
            raise Bad("%s: no reason why %s cannot be expressed" % (
                REASONS, row.ident))
    return rows


def named(text):
    """The IDs of rows in a text, ranges spelled out."""
    found = []
    for first, last in _NAMED.findall(text):
        group, _, number = first.rpartition("-")
        if not last:
            found.append(first)
            continue
        end = last.rpartition("-")[2]
        found += ["%s-%d" % (group, n)
                  for n in range(int(number), int(end) + 1)]
    return found
