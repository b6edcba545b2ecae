# SPDX-License-Identifier: GPL-2.0
"""The cases of the benchmark: what is run, how often, in which unit.

Shared by the host's part (run, profile) and the guest's part (guest).
"""

import copy
import re

DEVICES = ("rsiw", "siw", "rxe", "tcp")
PATHS = ("wire", "loopback")

# Kernel module of each device; plain TCP needs none.
MODULES = {"rsiw": "rsiw", "siw": "siw", "rxe": "rdma_rxe", "tcp": None}

# Guest seconds after which a case counts as hung.
LIMIT = 30

# The most receives that perftest posts in advance.
MAX_RECEIVES = 16384

# What a profile of plain TCP takes for a message.
TCP_MESSAGE = 65536
# How many of these its long run moves.
TCP_MESSAGES = 4000

# Of bench-scale: a step is a number of QPs, or this.
CONNECTS = "connections"
STEPS = (CONNECTS, "1", "10", "100", "1000")
STEP_CONNECTS = 100
STEP_MESSAGES = 6400
STEP_LIMIT = 300        # guest seconds
# What the other rows are about.
CONNECTION, IDLE = "connection", "idle connection"
# How the name of a row begins that is about messages of one size, in octets; the
# size follows.
MESSAGE = "message "
SCALE_DEVICES = ("rsiw", "siw", "rxe")

GBITS, MPPS, USEC = "Gb/s", "Mmsg/s", "us"

NAME = re.compile(
    r"(send|write|read)_(bw|lat) (\d+)(?: x(\d+))?( both)?( crc)?"
    r"(?: (polls|events))?$")


class Case:
    """One line of the table."""

    def __init__(self, tool, size, iters, unit, column, qps=1, both=False,
                 crc=False):
        self.tool = tool
        self.size = size
        self.iters = iters      # on each QP
        self.unit = unit
        self.column = column    # of perftest's row of results
        self.qps = qps
        self.both = both        # directions at the same time
        self.crc = crc          # on, which only rsiw can be told
        # Instead of sleeping until an event, of which perftest has none for Writes.
        self.polls = tool.startswith("write")
        self.name = "%s %d" % (tool, size) if size else tool
        if qps > 1:
            self.name += " x%d" % qps
        self.name += " both" * both + " crc" * crc

    @property
    def higher_is_better(self):
        return self.unit != "us"

    @property
    def lengths(self):
        """Iterations of the two runs whose difference is the profile. Each is
        longer than what perftest has on its way at a time, or the short one
        would be another case."""
        short, long = self.iters // 4, self.iters * 3 // 4
        if self.tool.endswith("bw"):
            short = max(short, self.depth * 5 // 4)
            long = max(long, short * 2)
        return short, long

    @property
    def depth(self):
        """Requests on their way on a QP in a counted run; 128 is perftest's
        own, with which large messages would take too long."""
        return 128 if self.size <= 1 << 17 else 16

    def messages(self, iters):
        """What the ends send in so many iterations, all in all. A Read is one
        message; a round of the other tests of latency are two."""
        if not self.size:
            return iters
        two = self.both or self.tool in ("send_lat", "write_lat")
        return iters * self.qps * (2 if two else 1)


def bw(verb, size, iters, **more):
    """A case of bandwidth. perftest's columns: bytes, iterations, peak and
    average in MiB/s, messages."""
    small = size < 1024
    return Case(verb + "_bw", size, iters, MPPS if small else GBITS,
                4 if small else 3, **more)


def lat(verb, size, iters, **more):
    """A case of latency. perftest's columns: bytes, iterations, min, max,
    typical, average."""
    return Case(verb + "_lat", size, iters, USEC, 5, **more)


VERBS = [
    bw("send", 65536, 800),
    bw("write", 65536, 800),
    bw("read", 65536, 600),
    bw("send", 4096, 6000),
    bw("write", 4096, 6000),
    bw("send", 64, 30000),
    lat("send", 64, 8000),
    lat("send", 4096, 4000),
    bw("send", 256, 16000),
    bw("send", 3072, 6000),
    bw("send", 16384, 2400),
    bw("send", 1 << 18, 240),
    # Both ends watch memory until their turn on the processor is over: what
    # is measured is the scheduler, only what is counted says something.
    lat("write", 64, 300),
    lat("read", 64, 4000),
    bw("send", 4096, 400, qps=16),
    bw("send", 65536, 400, both=True),
    # Last what has been seen to hang in one driver or the other.
    bw("read", 4096, 6000),
    bw("send", 1 << 20, 60),
    bw("send", 65536, 800, crc=True),
    bw("send", 4096, 6000, crc=True),
]
TCP = [
    Case("iperf3", 0, 2, GBITS, 0),
    Case("iperf3 -Z", 0, 2, GBITS, 0),
]

# Of bench-smp, where perftest polls as well, which it does unless told otherwise.
SMP = tuple("%s %s" % (name, waits)
            for name in ("send_lat 64", "read_lat 64", "send_bw 64", "write_bw 4096",
                         "read_bw 4096", "send_bw 65536")
            for waits in ("polls", "events")
            if not (name.startswith("write") and waits == "events"))

# So many times the iterations where that is throughput: two processors do the usual ones in less time
# than TCP takes to find out how much fits on the way.
SMP_TIMES = 8

# Of bench-native, which runs each case so often in a guest, and has so many times the
# iterations where that is throughput: a processor does in a fraction of a second
# what takes an emulated one long.
NATIVE = ("send_bw 65536", "write_bw 65536", "read_bw 65536", "send_bw 4096",
          "send_bw 64", "send_lat 64", "send_lat 4096", "iperf3")
NATIVE_REPEATS = 2
NATIVE_TIMES = 20


def cases_of(device):
    """The cases that make sense for a device."""
    if device == "tcp":
        return TCP
    return [c for c in VERBS if device == "rsiw" or not c.crc]


def native_cases_of(device):
    """As cases_of(), where time is measured: plain TCP sends messages of the same size, too."""
    if device == "tcp":
        return [c for c in VERBS if c.tool.startswith("send") and c.qps == 1 and
                not c.both and not c.crc] + TCP
    return cases_of(device)


def named(name):
    """The case of this name, also one that is not in the list; None if there
    cannot be any."""
    for case in VERBS + TCP:
        if case.name == name:
            return case
    found = NAME.match(name)
    if not found:
        return None
    verb, kind, size, qps, both, crc, waits = found.groups()
    if waits:
        return waiting(named(name.rpartition(" ")[0]), waits)
    size, qps = int(size), int(qps or 1)
    if not 1 <= size <= 1 << 23 or not 1 <= qps <= 256:
        return None
    if kind == "lat" and (qps > 1 or both):
        return None
    # About as many instructions as the cases of the list.
    if kind == "lat":
        iters = 300 if verb == "write" else 4000
    else:
        iters = max(64, 60000000 // (size + 2000) // qps)
    return (lat if kind == "lat" else bw)(
        verb, size, iters, qps=qps, both=bool(both), crc=bool(crc))


def waiting(case, waits):
    """The same case, named for how perftest waits; None if it cannot do that."""
    if case is None or (waits == "events" and case.tool.startswith("write")):
        return None
    other = copy.copy(case)
    other.polls = waits == "polls"
    other.name += " " + waits
    return other
