# SPDX-License-Identifier: GPL-2.0
"""rping: both address families, both paths, many sizes."""

from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.tools import all_rounds, connected_qps, ping_client, rping


@test("rping-wire-v4", cost=6)
def rping_wire(t):
    """1,000 iterations with validation over veth (L-CORE-1, V-CM-2)."""
    rping(t, t.topo.wire)


@test("rping-wire-v6", cost=6)
def rping_wire6(t):
    """The same with IPv6."""
    rping(t, t.topo.wire, v6=True)


@test("rping-loopback-v4", cost=6)
def rping_loopback(t):
    """The same on lo."""
    rping(t, t.topo.loopback)


@test("rping-loopback-v6", cost=6)
def rping_loopback6(t):
    """The same on lo with IPv6."""
    rping(t, t.topo.loopback, v6=True)


@test("rping-sizes", cost=10)
def rping_sizes(t):
    """Sizes around segments and pages, up to the largest."""
    for size in (23, 1408, 1449, 4096, 4097, 65535):
        with t.sub("size %d" % size):
            rping(t, t.topo.wire, count=100, size=size)


@test("rping-persistent", cost=12)
def rping_persistent(t):
    """One persistent server, ten clients, five of them at once."""
    path, port = t.topo.wire, t.port()
    args = ["-V", "-S", 1000]
    server = t.start("rping", "-s", "-P", "-a", path.addr4, "-p", port, *args,
                     netns=path.server_ns)
    server.wait_listening(port)
    for many in (1, 1, 3, 5):
        clients = []
        for _ in range(many):
            client = ping_client(t, path.addr4, port, t.rounds(100), *args,
                                 netns=path.client_ns)
            clients.append(client)
            # Of requests to connect the server keeps one: a second one, before it has begun to
            # serve the first, takes its place.
            wait_until("a connection", 20, lambda c=client: c.poll() is not None or
                       connected_qps(path.client_ns, pid=c.pid))
        for c in clients:
            all_rounds(c, t.left(40))
    if server.poll() is not None:
        raise Fail("the persistent server ended:\n%s" % server.tail())
