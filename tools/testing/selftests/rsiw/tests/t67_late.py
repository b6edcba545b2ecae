# SPDX-License-Identifier: GPL-2.0
"""Messages that wait for a receive: the parameter `rnr_wait_ms`."""

from rsiwtest import stats
from rsiwtest.core import Fail, test
from rsiwtest.tools import Perftest

PATIENCE = 3000


def has_waited(since, dev):
    if not since.of(dev).get("rx_recv_waits"):
        raise Fail("%s: nothing has waited for a receive" % dev)


@test("late-receives", cost=40, only_type="rsiw", long=True)
def late_receives(t):
    """Data waits for a receive that is late, through TCP and past it (V-WR-19)."""
    for direct in (0, 2):
        with t.loaded_with("direct=%d" % direct, "rnr_wait_ms=%d" % PATIENCE):
            for path in (t.topo.loopback, t.topo.wire):
                with t.sub("%s, direct=%d" % (path.name, direct)):
                    since = stats.Since(path.server_dev)
                    t.own("late", path, "--patience", PATIENCE)
                    has_waited(since, path.server_dev)
                    if not since.of(path.server_dev).get("rx_fpdus_in_pieces"):
                        raise Fail("none was collected in the buffer")


@test("late-disconnect", cost=20, only_type="rsiw")
def late_disconnect(t):
    """A disconnect takes as long as the peer takes what was sent past TCP, and no longer."""
    path = t.topo.loopback
    with t.loaded_with("direct=1", "rnr_wait_ms=20000"):
        since = stats.Since(path.client_dev)
        t.own("late", path, "--patience", 20000, "--disconnects")
        if not since.of(path.client_dev).get("tx_direct_segments"):
            raise Fail("nothing went past TCP")


@test("late-perftest", cost=20, only_type="rsiw")
def late_perftest(t):
    """Programs run that send more at once than their peer has posted receives."""
    with t.loaded_with("rnr_wait_ms=1000"):
        for path in (t.topo.loopback, t.topo.wire):
            for size in (64, 65536):
                with t.sub("ib_send_bw --use-srq -q 4 -s %d, %s" % (size, path.name)):
                    # With a number of messages (-n) it waits for credits that it gives
                    # to the wrong queue pairs, also where nothing has to wait.
                    pair = Perftest(t, path, "ib_send_bw", "-s", size, "-D", 3,
                                    "--use-srq", "-q", 4)
                    pair.connect()
                    pair.finish()


def fio_options(t, path, verb, port, is_server):
    """Command line of fio for one side of a transfer of 16 MiB."""
    options = ["fio", "--name=" + verb, "--ioengine=rdma", "--port=%d" % port,
               # Who is the server, whatever the verb does.
               "--rw=" + ("read" if is_server else "write"), "--bs=64k", "--size=%dk" % (64 * t.rounds(256)),
               "--iodepth=16"]
    if not is_server:
        options += ["--hostname=" + path.addr4, "--verb=" + verb]
    return options


@test("late-fio", cost=20, only_type="rsiw")
def late_fio(t):
    """fio transfers with each verb that it has for iWARP."""
    with t.loaded_with("rnr_wait_ms=1000"):
        for verb in t.ends(("read", "write", "send")):
            for path in (t.topo.loopback, t.topo.wire):
                with t.sub("%s, %s" % (verb, path.name)):
                    port = t.port()
                    server = t.start(*fio_options(t, path, verb, port, True),
                                     netns=path.server_ns)
                    server.wait_listening(port)
                    t.run(*fio_options(t, path, verb, port, False),
                          netns=path.client_ns)
                    server.expect(t.left(20))
