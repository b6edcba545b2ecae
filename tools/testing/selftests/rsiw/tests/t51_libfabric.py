# SPDX-License-Identifier: GPL-2.0
"""libfabric: its ping-pong over the provider of verbs."""

from rsiwtest.core import Fail, test

# Size, how often there and back, label of the size in the result.
TRANSFERS = ((64, 200, "64"), (4096, 100, "4k"), (65536, 50, "64k"), (1048576, 5, "1m"))


@test("libfabric", cost=15)
def libfabric(t):
    """fi_pingpong with verified data, over an interface: libfabric leaves lo out."""
    path = t.topo.wire
    for size, count, label in TRANSFERS:
        with t.sub("fi_pingpong -S %d" % size):
            port = t.port()
            args = ["fi_pingpong", "-p", "verbs", "-e", "msg", "-c", "-S", size,
                    "-I", t.rounds(count)]
            server = t.start(*args, "-B", port, "-d", path.server_dev,
                             netns=path.server_ns)
            server.wait_listening(port)
            out = t.run(*args, "-P", port, "-d", path.client_dev, path.addr4,
                        netns=path.client_ns)
            server.expect(t.left(20))
            if out.split("\n")[1].split()[0] != label:
                raise Fail("no line for %s:\n%s" % (label, out))
