# SPDX-License-Identifier: GPL-2.0
"""What iWARP cannot do, asked for by the packaged programs."""

from rsiwtest.core import Fail, test


def fails(t, server_argv, client_argv=None, server_ns=None, client_ns=None,
          port=None):
    """One side at least reports an error, both sides end in time."""
    server = t.start(*server_argv, netns=server_ns)
    client = None
    if client_argv:
        if port:
            try:
                server.wait_listening(port, 5)
            except Fail:
                pass        # refused before it came to that, as it may be
        client = t.start(*client_argv, netns=client_ns)
    procs = [p for p in (server, client) if p]
    status = []
    for p in reversed(procs):
        # Once one has given up the other may wait for ever: tool's choice.
        if status and status[0] != 0:
            p.kill()
        status.append(p.wait(t.left(20)))
    if not any(status):
        raise Fail("%s succeeds" % procs[-1])


@test("tools-negative", cost=15)
def tools_negative(t):
    """UD and atomics of the stock library, UC, XRC, a peer without an address: clean errors
    (T-45)."""
    path = t.topo.wire

    def pair(*argv, manager=True):
        port = t.port()
        args = list(argv) + ["-p", port] + (["-R"] if manager else [])
        fails(t, args + ["-d", path.server_dev],
              args + ["-d", path.client_dev, path.addr4],
              path.server_ns, path.client_ns, port)

    # Ours has atomics.
    with t.sub("ib_atomic_bw"), t.library("stock"):
        pair("ib_atomic_bw", "-n", 5)
    with t.sub("ib_send_bw -c UD"), t.library("stock"):
        pair("ib_send_bw", "-c", "UD", "-n", 5)
    with t.sub("ib_send_bw -c XRC"):
        pair("ib_send_bw", "-c", "XRC", "-n", 5, manager=False)
    with t.sub("ibv_rc_pingpong without a GID"):
        pair("ibv_rc_pingpong", manager=False)
    with t.sub("ibv_uc_pingpong"):
        pair("ibv_uc_pingpong", "-g", 0, manager=False)
    with t.sub("ibv_ud_pingpong"), t.library("stock"):
        pair("ibv_ud_pingpong", "-g", 0, manager=False)
    with t.sub("udaddy"):
        port = t.port()
        fails(t, ["udaddy", "-b", path.addr4, "-p", port],
              ["udaddy", "-s", path.addr4, "-p", port],
              path.server_ns, path.client_ns)
    with t.sub("rdma_xserver -c x"):
        port = t.port()
        fails(t, ["rdma_xserver", "-p", port, "-c", "x"],
              ["rdma_xclient", "-s", path.addr4, "-p", port, "-c", "x"],
              path.server_ns, path.client_ns)
    with t.sub("mckey"):
        fails(t, ["mckey", "-m", "239.1.1.1", "-b", path.addr4],
              server_ns=path.server_ns)
