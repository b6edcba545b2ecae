# SPDX-License-Identifier: GPL-2.0
"""The cases of the benchmark: what is run, how often, in which unit.

Shared by the host's part (run) and the guest's part (guest).
"""

DEVICES = ("rsiw", "siw", "rxe", "tcp")
PATHS = ("wire", "loopback")

# Kernel module of each device; plain TCP needs none.
MODULES = {"rsiw": "rsiw", "siw": "siw", "rxe": "rdma_rxe", "tcp": None}

# Guest seconds after which a case counts as hung.
LIMIT = 30

# The most receives that perftest posts in advance.
MAX_RECEIVES = 16384


class Case:
    """One line of the table."""

    def __init__(self, tool, size, iters, unit, column):
        self.tool = tool
        self.size = size
        self.iters = iters
        self.unit = unit
        self.column = column    # of perftest's row of results
        self.name = "%s %d" % (tool, size) if size else tool

    @property
    def higher_is_better(self):
        return self.unit != "us"


GBITS, MPPS, USEC = "Gb/s", "Mmsg/s", "us"

# Columns of bandwidth: bytes, iterations, peak and average in MiB/s, messages.
# Columns of latency: bytes, iterations, min, max, typical, average.
VERBS = [
    Case("send_bw", 65536, 800, GBITS, 3),
    Case("write_bw", 65536, 800, GBITS, 3),
    Case("read_bw", 65536, 600, GBITS, 3),
    Case("send_bw", 4096, 6000, GBITS, 3),
    Case("write_bw", 4096, 6000, GBITS, 3),
    Case("send_bw", 64, 30000, MPPS, 4),
    Case("send_lat", 64, 8000, USEC, 5),
    Case("send_lat", 4096, 4000, USEC, 5),
    # Last what has been seen to hang in one driver or the other.
    Case("read_bw", 4096, 6000, GBITS, 3),
    Case("send_bw", 1 << 20, 60, GBITS, 3),
]
TCP = [
    Case("iperf3", 0, 2, GBITS, 0),
    Case("iperf3 -Z", 0, 2, GBITS, 0),
]


def cases_of(device):
    """The cases that make sense for a device."""
    return TCP if device == "tcp" else VERBS
