# SPDX-License-Identifier: GPL-2.0
"""The perftest matrix, on both paths.

A run costs its start more than its data, so one run takes all the sizes from
2 bytes to 8 MiB (-a). Events and polling meet each operation. Numbers are not
the subject here: every run must end, on both sides, with a result.
"""

from rsiwtest.core import test
from rsiwtest.tools import perftest, start_perftest

SWEEP = [1 << i for i in range(1, 24)]


def by_events(t, path, tool, *runs):
    """Size by size: perftest loses count of the events of Sends in a sweep."""
    for size, iters in runs:
        with t.sub("%d bytes, events" % size):
            perftest(t, path, tool, size, iters, events=True)


def bandwidth(t, path, op):
    tool = "ib_%s_bw" % op
    with t.sub("2 bytes to 8 MiB, polling"):
        perftest(t, path, tool, SWEEP, 5)
    # perftest has no events for RDMA Writes.
    if op == "read":
        with t.sub("2 bytes to 8 MiB, events"):
            perftest(t, path, tool, SWEEP, 5, events=True)
    elif op == "send":
        runs = ((64, 300), (4096, 200)), ((65536, 40), (8 << 20, 5))
        by_events(t, path, tool, *runs[path is t.topo.wire])
    with t.sub("1 byte, around the rings"):
        perftest(t, path, tool, 1, 600)
    if op != "read":
        with t.sub("inline -I 64"):
            perftest(t, path, tool, 64, 300, "-I", 64)
    with t.sub("bidirectional"):
        perftest(t, path, tool, 65536, 30, "-b")
    with t.sub("16 queue pairs"):
        perftest(t, path, tool, 4096, 50, qps=16)


def latency(t, path, op):
    tool = "ib_%s_lat" % op
    with t.sub("2 bytes to 8 MiB, polling"):
        perftest(t, path, tool, SWEEP, 5)
    if op != "write":
        runs = ((64, 100), (65536, 20)), ((4096, 60), (1 << 20, 5))
        by_events(t, path, tool, *runs[path is t.topo.wire])
    with t.sub("1 byte, polling"):
        perftest(t, path, tool, 1, 100)
    if op != "read":
        with t.sub("inline -I 64"):
            perftest(t, path, tool, 64, 100, "-I", 64)


def _register(path_name, op, kind):
    measure = bandwidth if kind == "bw" else latency

    @test("perftest-%s-%s-%s" % (op, kind, path_name), limit=150,
          cost=16 if kind == "bw" else 12)
    def run(t):
        measure(t, getattr(t.topo, path_name), op)
    run.__doc__ = "ib_%s_%s, all sizes" % (op, kind)


for _path in ("wire", "loopback"):
    for _op in ("send", "write", "read"):
        for _kind in ("bw", "lat"):
            _register(_path, _op, _kind)


@test("perftest-16qp-large", limit=120, cost=12)
def qp16_large(t):
    """16 queue pairs at once with large messages, both directions."""
    for op in ("send", "write", "read"):
        with t.sub(op):
            perftest(t, t.topo.wire, "ib_%s_bw" % op, 65536, 10, "-b", qps=16)


@test("perftest-ipv6", cost=4)
def ipv6(t):
    """perftest over IPv6."""
    perftest(t, t.topo.wire, "ib_write_bw", 65536, 20, v6=True)


@test("read-bw-200", limit=400, cost=140)
def read_bw_200(t):
    """ib_read_bw 200 times in a row, two pairs side by side."""
    path = t.topo.wire
    for i in range(100):
        pairs = []
        for events in ([], ["-e"]):
            port = t.port()
            args = ["ib_read_bw", "-R", "-F", "-p", port, "-s", 65536, "-n", 5,
                    *events]
            pairs.append(start_perftest(t, path, args, port))
        for server, client in pairs:
            client.expect(t.left(30))
            server.expect(t.left(15))
        t.forget()
