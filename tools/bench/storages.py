# SPDX-License-Identifier: GPL-2.0
"""The cases of bench-storage, and over what each is run.

Shared by the host's part (storage) and the guest's part (guest-storage).
"""

import collections

Variant = collections.namedtuple("Variant", "type params options")
Variant.__doc__ = """What carries the blocks: a link type with parameters of its module, or
plain TCP; and what the NVMe host asks for."""

VARIANTS = {
    "rsiw": Variant("rsiw", ("mpa_crc=0", "direct=0"), ()),
    "rsiw-direct": Variant("rsiw", ("direct=1",), ()),
    "rsiw-crc": Variant("rsiw", ("mpa_crc=1", "direct=0"), ()),
    "siw": Variant("siw", (), ()),
    "tcp": Variant("tcp", (), ()),
    "tcp-digest": Variant("tcp", (), ("hdr_digest", "data_digest")),
}
# What the others are compared with.
BASE = "tcp"

# What is measured.
COUNTED, SWITCHES, TIMED = "instructions", "changes of task", "blocks/s"
# The last one on one processor of this machine.
NATIVE = "blocks/s, native"
# Of the instructions: all but those that copy, sum and clear octets.
WORK = "work"

# Guest seconds after which a case counts as hung.
LIMIT = 60


class Case:
    """One line of the table."""

    def __init__(self, service, verb, size, depth, count):
        self.service, self.verb = service, verb
        self.size, self.depth = size, depth
        self.count = count          # blocks that are counted
        self.name = "%s %s %s x%d" % (
            service, verb, "%dM" % (size >> 20) if size >> 20 else "%dK" % (size >> 10),
            depth)

    def options(self):
        """Of native/blkio.c."""
        return ["--size", self.size, "--depth", self.depth] + \
            ["--write"] * (self.verb == "write")


CASES = (
    Case("nvme", "read", 4096, 1, 600),
    Case("nvme", "read", 4096, 32, 1600),
    Case("nvme", "write", 4096, 1, 600),
    Case("nvme", "write", 4096, 32, 1600),
    Case("nvme", "read", 131072, 8, 160),
    Case("nvme", "write", 131072, 8, 160),
    Case("nfs", "read", 4096, 1, 600),
    Case("nfs", "read", 4096, 16, 1200),
    Case("nfs", "read", 1 << 20, 1, 24),
    Case("nfs", "write", 1 << 20, 1, 24),
)
NAMES = tuple(c.name for c in CASES)
SERVICES = tuple(dict.fromkeys(c.service for c in CASES))


def named(name):
    """The case of this name."""
    return next(c for c in CASES if c.name == name)


def fits(case, variant):
    """Whether there is such a thing: NFS knows no digests."""
    return case.service == "nvme" or not VARIANTS[variant].options
