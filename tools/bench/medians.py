# SPDX-License-Identifier: GPL-2.0
"""Results that are taken several times: their medians, and how far they are apart."""

import statistics

import cases
import tables


KEYS = ("device", "path", "case", "unit")


class Runs:
    """All that was measured."""

    def __init__(self):
        self.values = {}    # lists by KEYS
        self.notes = {}     # what went wrong, by the same

    def add(self, rows):
        for row in rows:
            key = tuple(row[k] for k in KEYS)
            if row["value"] is None:
                self.notes.setdefault(key, []).append(row["note"])
            else:
                self.values.setdefault(key, []).append(row["value"])

    def failed(self, times):
        """The device of what did not run at each of so many times, and what to say of it."""
        return [(key[0], "%s %s %s: %d of %d did not run: %s" % (
            *key[:3], len(notes), times, ", ".join(notes))) for key, notes in self.notes.items()]

    def rows(self):
        """The medians, as rows that are kept."""
        keys = list(dict.fromkeys([*self.values, *self.notes]))
        out = []
        for key in keys:
            values = sorted(self.values.get(key, []))
            row = {**dict(zip(KEYS, key)), "value": None, "runs": values}
            if values:
                row["value"] = round(statistics.median(values), 4)
                row["spread"] = round(spread(values), 1)
            else:
                row["note"] = self.notes[key][0]
            out.append(row)
        return out


def spread(values):
    """How far the middle half is apart, in percent of the median."""
    if len(values) < 2:
        return 0.0
    low, median, high = statistics.quantiles(values, method="inclusive")
    return 100 * (high - low) / median if median else 0.0


def best(row):
    """The value that the machine disturbed least."""
    higher = cases.named(row["case"]).higher_is_better
    return max(row["runs"]) if higher else min(row["runs"])


def spreads(rows, devices):
    """The spread of each result and the best of its values, as text."""
    found = {(r["path"], r["case"], r["device"]): r for r in rows}
    out = []
    for path in cases.PATHS:
        lines = [["%s: case" % path] + devices + ["best " + d for d in devices]]
        for case in tables.listed([r for r in rows if r["path"] == path]):
            some = [found.get((path, case.name, d)) for d in devices]
            lines.append([case.name] + [tables.spread(r) for r in some] + [
                tables.cell({"value": best(r)}) if r and r["runs"] else "-" for r in some])
        if len(lines) > 1:
            out += tables.align(lines, 1)
    return "\n".join(out)
