# SPDX-License-Identifier: GPL-2.0
"""Contents and order: our own programs on both paths."""

from rsiwtest.core import test


@test("integrity-split", cost=15)
def split(t):
    """Payloads of 1..64 bytes over a page border at every point (T-6)."""
    for path in t.topo.paths:
        with t.sub(path.name):
            t.own("integrity", path, "--only", "split", "--depth", 48)


@test("integrity-random", cost=25)
def random(t):
    """Random operations of all kinds; every byte compared.

    V-ACC-11, V-CQ-8, V-FNC-4, V-FNC-5, V-ORD-2, V-ORD-7, V-ORD-8, V-ORD-10,
    V-ST-8, V-WC-1, V-WR-9 to 12, V-WR-17, V-WR-18
    """
    for path in t.topo.paths:
        with t.sub(path.name):
            t.own("integrity", path, "--only", "random", "--seconds", 10)


@test("integrity-small", cost=12)
def small(t):
    """The same with messages up to 200 bytes and short queues."""
    for path in t.topo.paths:
        with t.sub(path.name):
            t.own("integrity", path, "--only", "random", "--seconds", 4,
                  "--max-size", 200, "--depth", 4)


@test("changing", cost=30, only_type="rsiw")
def changing(t):
    """Memory that its owner changes while it is sent, with CRCs and without (T-19),
    through TCP and past it."""
    for crc in (0, 1):
        with t.loaded_with("mpa_crc=%d" % crc):
            for path in t.topo.paths:
                with t.sub("%s, mpa_crc=%d" % (path.name, crc)):
                    t.own("changing", path)


@test("notify", cost=8)
def notify(t):
    """Completion events: next, solicited, one per arming (T-14).

    V-CQ-16, V-CQ-18 to 22
    """
    for path in t.topo.paths:
        with t.sub(path.name):
            t.own("integrity", path, "--only", "notify")


@test("dereg", cost=10)
def dereg(t):
    """Deregistration under RDMA Writes and Reads (T-20).

    V-DEA-2, V-DEA-3, V-MR-26, S-5042-4
    """
    for path in t.topo.paths:
        with t.sub(path.name):
            t.own("dereg", path, "--rounds", 5)
