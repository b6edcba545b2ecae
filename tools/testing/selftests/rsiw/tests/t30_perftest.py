# SPDX-License-Identifier: GPL-2.0
"""The perftest matrix, on both paths.

Every size runs with every operation on both paths, by events and by polling
in turns, so that each value of each dimension meets each operation. Numbers
are not the subject here: every run must end, on both sides, with a result.
"""

from rsiwtest.core import test
from rsiwtest.tools import Perftest, has_events, perftest

# Bytes and iterations: enough to go around the rings, little enough for TCG.
BW_SIZES = ((1, 300), (64, 300), (4096, 200), (65536, 40), (1 << 20, 8),
            (8 << 20, 5))
LAT_SIZES = ((1, 100), (64, 100), (4096, 60), (65536, 20), (1 << 20, 5),
             (8 << 20, 5))


def matrix(t, path, op, kind):
    sizes = BW_SIZES if kind == "bw" else LAT_SIZES
    tool = "ib_%s_%s" % (op, kind)
    turn = 0 if path is t.topo.wire else 1
    for i, (size, iters) in enumerate(sizes):
        # The start of two programs takes seconds on a debugging kernel.
        if t.env.slow > 1 and i % 2 != turn:
            continue
        events = (i // 2 + turn) % 2 == 0 and has_events(tool)
        with t.sub("%d bytes%s" % (size, " -e" if events else "")):
            perftest(t, path, tool, size, iters, events=events)
    if kind == "lat":
        if op != "read":
            with t.sub("inline -I 64"):
                perftest(t, path, tool, 64, 100, "-I", 64)
        return
    if op != "read":
        with t.sub("inline -I 64"):
            perftest(t, path, tool, 64, 200, "-I", 64)
    with t.sub("bidirectional"):
        perftest(t, path, tool, 65536, 30, "-b")
    with t.sub("16 queue pairs"):
        perftest(t, path, tool, 4096, 50, qps=16)


def _register(path_name, op, kind):
    @test("perftest-%s-%s-%s" % (op, kind, path_name), cost=22)
    def run(t):
        matrix(t, getattr(t.topo, path_name), op, kind)
    run.__doc__ = "ib_%s_%s, all sizes" % (op, kind)


for _path in ("wire", "loopback"):
    for _op in ("send", "write", "read"):
        for _kind in ("bw", "lat"):
            _register(_path, _op, _kind)


@test("perftest-16qp-large", cost=12)
def qp16_large(t):
    """16 queue pairs at once with large messages, both directions."""
    for op in ("send", "write", "read"):
        with t.sub(op):
            perftest(t, t.topo.wire, "ib_%s_bw" % op, 65536, 10, "-b", qps=16)


@test("perftest-ipv6", cost=4)
def ipv6(t):
    """perftest over IPv6."""
    perftest(t, t.topo.wire, "ib_write_bw", 65536, 20, v6=True)


@test("read-bw-200", limit=1200, cost=190, long=True)
def read_bw_200(t):
    """ib_read_bw 200 times in a row, four pairs side by side; fewer times on
    a debugging kernel."""
    path = t.topo.wire
    # There four pairs take half a minute, most of which is their start.
    for _ in range(50 if t.env.slow == 1 else 3):
        pairs = [Perftest(t, path, "ib_read_bw", "-s", 65536, "-n", 5,
                          *(["-e"] if e else []))
                 for e in (False, True, False, True)]
        for pair in pairs:
            pair.connect()
        for pair in pairs:
            pair.finish()
        t.forget()
