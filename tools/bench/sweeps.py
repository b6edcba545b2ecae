# SPDX-License-Identifier: GPL-2.0
"""Of bench-sweep: what is measured, and what is to be said of the results.

Shared by the host's part (sweep) and the guest's part (guest).
"""

import bisect
import collections
import math
import re

import cases
import tables

VERBS = ("send", "write", "read")
METRICS = ("lat", "bw")
DEPTHS = (1, 2, 16)
LARGEST = 8 << 20       # as in native/sweep.c
LIMIT = 60              # guest seconds, for a point

# A point is measured for about so long, in nanoseconds of the guest's clock.
TIME = 6000000
# With fewer the beginning and the end are all there is.
FEWEST = 3

# Below the line between its neighbours, or behind another device, by more than
# this part.
DIP = 0.10
BEHIND = 0.01
# Neighbours are also looked for this part of the size away: a dip may be wider
# than the three points around a power of two.
APART = 0.10

# One curve.
Series = collections.namedtuple("Series", "verb metric depth")
POINT = re.compile(r"point (\d+) (\d+) (\d+)$", re.M)


def name(series):
    text = "%s %s" % (series.verb, series.metric)
    return text + " x%d" % series.depth if series.metric == "bw" else text


def named(text):
    """The series of a name; None if there is none."""
    for series in series_of("rsiw"):
        if name(series) == text:
            return series
    return None


def series_of(device):
    """The series that make sense for a device. Plain TCP has messages only; as
    many of them are on their way as its buffers take."""
    if device == "tcp":
        return [Series("send", "lat", 1), Series("send", "bw", max(DEPTHS))]
    return [Series(v, m, d) for v in VERBS for m in METRICS
            for d in (DEPTHS if m == "bw" else (1,))]


def of_tcp(metric):
    """The series of plain TCP that has this metric."""
    return next(s for s in series_of("tcp") if s.metric == metric)


def default_sizes():
    """Powers of two up to the largest size, what is next to those where something
    may change, and what is in between."""
    found = {1 << n for n in range(24)}
    for n in (6, 8, 10, 12, 13, 14, 15, 16, 17, 20):
        found |= {(1 << n) - 1, (1 << n) + 1}
    found |= {3 << (n - 1) for n in range(3, 23)}
    # Segments of the wire, and the sizes for which a driver may have rules.
    for n in range(10, 18):
        found |= {5 << (n - 2), 7 << (n - 2)}
    return sorted(found)


def sizes_of(text):
    """The sizes in a list with commas; ValueError says what is wrong."""
    found = set()
    for word in text.split(","):
        if not word.isdecimal() or not 1 <= int(word) <= LARGEST:
            raise ValueError("'%s' is no size from 1 to %d" % (word, LARGEST))
        found.add(int(word))
    return sorted(found)


def count(series, size):
    """Messages, or rounds, that are measured. All devices have the same."""
    if series.metric == "lat":
        took = 60000 + 6 * size
    else:
        took = 10000 + 3 * size
    return max(TIME // took, series.depth, FEWEST)


def row(device, path, series, size, nanoseconds):
    """A row of bench-sweep.json; without nanoseconds of a point that failed."""
    unit = cases.USEC if series.metric == "lat" else cases.GBITS
    out = {"device": device, "path": path, "verb": series.verb,
           "metric": series.metric, "size": size, "depth": series.depth,
           "value": None, "unit": unit}
    messages = count(series, size)
    if nanoseconds is None:
        out["note"] = "failed"
    elif series.metric == "bw":
        out["value"] = round(8.0 * size * messages / max(nanoseconds, 1), 5)
    else:
        # One way, but for a Read, which is the way there and back.
        ways = 1 if series.verb == "read" else 2
        out["value"] = round(nanoseconds / 1000 / messages / ways, 3)
    return out


def curves(rows):
    """The values by size, in order; a dictionary by device, path and series."""
    out = {}
    for r in rows:
        if r["value"] is not None:
            key = r["device"], r["path"], Series(r["verb"], r["metric"],
                                                 r["depth"])
            out.setdefault(key, {})[r["size"]] = r["value"]
    return {k: dict(sorted(v.items())) for k, v in out.items()}


def rate(series, value):
    """More is better."""
    return value if series.metric == "bw" else 1 / value


def on_line(left, right, size):
    """What the line between two points has at a size, both axes logarithmic: what
    a fixed cost and one of each octet come to is never below such a line."""
    (x0, y0), (x1, y1) = left, right
    part = math.log(size / x0) / math.log(x1 / x0)
    return y0 * (y1 / y0) ** part


Dip = collections.namedtuple("Dip", "size value part left right")


def dips(series, curve):
    """Points of a curve that are too far below the line between their neighbours,
    by how much, and between which ones: the next ones, and the next ones that are
    some way apart. Then those that are no better than a smaller message's, or a
    larger one's latency, by as much (`right` or `left` is None)."""
    sizes = list(curve)
    rates = {s: rate(series, v) for s, v in curve.items()}
    out = []
    for i, size in enumerate(sizes):
        pairs = [(i - 1, i + 1),
                 (bisect.bisect_right(sizes, size * (1 - APART)) - 1,
                  bisect.bisect_left(sizes, size * (1 + APART)))]
        found = []
        for low, high in pairs:
            if low >= 0 and high < len(sizes):
                left, right = sizes[low], sizes[high]
                line = on_line((left, rates[left]), (right, rates[right]), size)
                found.append(Dip(size, curve[size], rates[size] / line, left,
                                 right))
        if series.metric == "bw":
            found += [Dip(size, curve[size], rates[size] / rates[s], s, None)
                      for s in sizes[:i]]
        else:
            found += [Dip(size, curve[size], rates[size] / rates[s], None, s)
                      for s in sizes[i + 1:]]
        found = [d for d in found if d.part < 1 - DIP]
        if found:
            # What lies between two neighbours says more than the rest.
            out.append(min(found, key=lambda d: (
                d.left is None or d.right is None, d.part)))
    return out


def behind(series, mine, other):
    """Sizes at which another device is ahead: (size, part of the other's)."""
    return [(s, rate(series, v) / rate(series, other[s]))
            for s, v in mine.items() if s in other and
            rate(series, v) < (1 - BEHIND) * rate(series, other[s])]


def percent(part):
    return "%.0f %%" % (100 * part)


def cell(value):
    return tables.cell({"value": value})


def summary(rows, devices):
    """What is to be said of the first device, as text."""
    mine, found = devices[0], curves(rows)
    out = []
    lines = [["dips of %s" % mine, "series", "size", "value", "unit", "part",
              "of"]]
    for path in cases.PATHS:
        for series in series_of("rsiw"):
            curve = found.get((mine, path, series), {})
            for d in dips(series, curve):
                if d.left is None or d.right is None:
                    what = "that of %d" % (d.left or d.right)
                else:
                    what = "the line from %d to %d" % (d.left, d.right)
                lines.append([
                    path, name(series), str(d.size), cell(d.value),
                    cases.GBITS if series.metric == "bw" else cases.USEC,
                    percent(d.part), what])
    out += tables.align(lines, 2) if len(lines) > 1 else [
        "no dips of %s" % mine, ""]
    for other in devices[1:]:
        lines = []
        for path in cases.PATHS:
            for series in series_of("rsiw"):
                some = behind(series, found.get((mine, path, series), {}),
                              found.get((other, path, series), {}))
                if some:
                    lines.append("%s %s: " % (path, name(series)) + ", ".join(
                        "%d: %s" % (s, percent(p)) for s, p in some))
        out += ["%s behind %s at (size: part of the rate):" % (mine, other),
                *lines, ""] if lines else [
                    "%s is nowhere behind %s" % (mine, other), ""]
    return "\n".join(out)
