# SPDX-License-Identifier: GPL-2.0
"""Of bench-wan: the links, what is moved over them, and what is made of the times.

Shared by the host's part (wan) and the guest's part (guest).
"""

import collections
import re

import sweeps
import tables

UNIT = "Mb/s"
DEVICES = ("rsiw", "siw", "tcp")
# The packets that a link holds: more than any window, so that none is dropped.
QUEUE = 1000000
# Where packets are lost: how many losses there are in each measurement. Octets of a packet.
LOSSES = (20, 0, 40)
SEGMENT = 1448
# Of what TCP has, less is worth a look: headers and CRCs of FPDUs take 2 percent.
WORTH_A_LOOK = 0.97

# Megabits a second, milliseconds there and back, and how many percent of the packets are lost.
Link = collections.namedtuple("Link", "rate rtt loss", defaults=(0.0,))
Case = collections.namedtuple("Case", "link verb size depth")
LINKS = (Link(1000, 1), Link(1000, 10), Link(1000, 20), Link(1000, 40), Link(100, 20),
         Link(100, 100))
# A verb, a size in octets, and how many are in flight.
LOADS = (("send", 65536, 16), ("send", 1 << 20, 16), ("write", 65536, 16),
         ("write", 1 << 20, 16), ("read", 65536, 16), ("read", 65536, 128))
# The most that a queue pair of rsiw or siw can have under way, if they are Reads.
MOST = 128

NAME = re.compile(r"(\d+) Mb/s (\d+) ms (?:(\d+(?:\.\d+)?) % )?(send|write|read) (\d+) x(\d+)$")
LINE = re.compile(r"wan (.+): (?:(\d+\.\d+)|failed)$")


def load(case):
    """What is moved, as text."""
    return "%s %d x%d" % (case.verb, case.size, case.depth)


def link(case):
    """What it is moved over, as text."""
    lost = " %g %%" % case.link.loss if case.link.loss else ""
    return "%d Mb/s %d ms" % case.link[:2] + lost


def name(case):
    return "%s %s" % (link(case), load(case))


def named(text):
    """The case of a name, also one that is not in the list; None if there is none."""
    found = NAME.match(text)
    if not found:
        return None
    rate, rtt, size, depth = (int(found.group(n)) for n in (1, 2, 5, 6))
    loss = float(found.group(3) or 0)
    if not 1 <= rate <= 100000 or not 1 <= rtt <= 1000 or not loss <= 10 or \
            not 1 <= size <= sweeps.LARGEST or not 1 <= depth <= MOST:
        return None
    return Case(Link(rate, rtt, loss), found.group(4), size, depth)


def default_cases():
    return [Case(link, *load) for link in LINKS for load in LOADS]


def reference(case):
    """The case that plain TCP has for this one: it has messages only, and as many are on
    their way as its buffers take. The link is the same in both directions."""
    return case._replace(verb="send", depth=1)


def cases_of(device, wanted):
    """The cases of a device, in order."""
    if device != "tcp":
        return list(wanted)
    return list(dict.fromkeys(map(reference, wanted)))


def counts(case):
    """Messages of three measurements in a row. In the first one windows grow. The second
    and the third have a beginning and an end alike, where the link is not full.
    If packets are lost, the first lasts until the window is what losses make of it, and the
    third for many of them."""
    if case.link.loss:
        of_a_loss = 100 / case.link.loss * SEGMENT / case.size
        return tuple(max(int(n * of_a_loss), 3) + k for k, n in enumerate(LOSSES))
    round_trip = case.link.rtt / 1000
    short = 0.05 + 4 * round_trip
    seconds = (0.1 + 10 * round_trip, short, short + 0.15 + 8 * round_trip)
    of_a_second = case.link.rate * 1e6 / 8 / case.size
    # There has to be a difference, whatever the size is.
    return tuple(max(int(s * of_a_second), 3) + n for n, s in enumerate(seconds))


def rate(case, points):
    """Megabits a second of payload from the measurements (size, count, nanoseconds), without
    beginning and end unless packets are lost."""
    (_, short, before), (_, long, after) = points[-2:]
    if case.link.loss:
        # How long a few messages take is chance there.
        return 8000.0 * case.size * long / max(after, 1)
    return 8000.0 * case.size * (long - short) / max(after - before, 1)


def row(device, case, value):
    """A row of bench-wan.json; without a value of a case that failed."""
    out = {"device": device, "case": name(case), "unit": UNIT, "value": value,
           "rate": case.link.rate, "rtt": case.link.rtt, "loss": case.link.loss, "verb": case.verb,
           "size": case.size, "depth": case.depth}
    if value is None:
        out["note"] = "failed"
    return out


def case_of(row):
    """The case that a row is of."""
    return named(row["case"])


def table(rows, devices, wanted):
    """The rates, and their ratios to plain TCP's, as text."""
    found = {(r["device"], r["case"]): r for r in rows}
    others = [d for d in devices if d != "tcp"]
    has_tcp = "tcp" in devices
    lines = [["link", "messages"] + devices + ["%s/tcp" % d for d in others if has_tcp]]
    for case in wanted:
        tcp = found.get(("tcp", name(reference(case))))
        get = {d: found.get((d, name(case))) for d in others}
        lines.append([link(case), load(case)] + [
            tables.cell(tcp if d == "tcp" else get[d]) for d in devices] + [
                tables.ratio(get[d], tcp, True) for d in others if has_tcp])
    return "\n".join(tables.align(lines, 2))


def behind(rows, device):
    """The cases in which a device has less of TCP's rate than it should: (name, part)."""
    tcp = {r["case"]: r["value"] for r in rows if r["device"] == "tcp"}
    parts = [(r["case"], r["value"] / tcp[name(reference(case_of(r)))]) for r in rows
             if r["device"] == device and r["value"] and
             tcp.get(name(reference(case_of(r))))]
    return [(case, part) for case, part in parts if part < WORTH_A_LOOK]
