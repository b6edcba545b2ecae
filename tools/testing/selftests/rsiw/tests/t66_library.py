# SPDX-License-Identifier: GPL-2.0
"""Our own library, and programs of others with it."""

import time

from rsiwtest import libraries
from rsiwtest.core import test
from rsiwtest.tools import all_rounds, perftest, ping, rping, rping_ends


@test("library", cost=10, only_type="rsiw")
def library(t):
    """Extended verbs, immediates, atomics, windows (X-IMM, X-ATM, V-MW)."""
    with t.library("rsiw"):
        t.own("library", t.topo.loopback, "--own")


@test("library-stock-rings", cost=8, only_type="rsiw")
def stock_rings(t):
    """What there is without rings of its own, which the kernel may not know."""
    with t.library("rsiw-stock-rings"):
        t.own("library", t.topo.loopback)


@test("library-poll", cost=15, only_type="rsiw")
def look(t):
    """The kernel looks for requests, and is not called."""
    with t.library("rsiw"):
        t.own("poller", t.topo.loopback)


@test("library-poll-ends", cost=10, only_type="rsiw")
def look_ends(t):
    """A process is killed, or becomes another program, while the kernel looks for
    its requests."""
    args = (t.bin("poller"), *t.topo.loopback.args(), "--port")
    with t.library("rsiw"):
        for n in range(10):
            with t.sub("killed, %d" % n):
                proc = t.start(*args, t.port(), "--stream")
                proc.wait_output("streams", t.left())
                # At another moment each time.
                time.sleep(0.01 * n)
                proc.kill()
                proc.reap()
        with t.sub("replaced"):
            t.run(*args, t.port(), "--exec")


@test("library-posting", cost=60, only_type="rsiw")
def posting(t):
    """Every request that was posted completes once, whoever posts it and while the
    queue pair fails (T-11, T-34)."""
    for rings in ("rsiw", "rsiw-stock-rings", "rsiw-poll"):
        with t.library(rings):
            t.own("posting", t.topo.loopback)


@test("library-fence", cost=10, only_type="rsiw")
def fence(t):
    """What waits for all in front of it goes on when they are complete (T-11, V-FNC-3)."""
    for rings in ("rsiw", "rsiw-poll"):
        with t.library(rings):
            t.own("fence", t.topo.loopback)


@test("library-mix", cost=70, only_type="rsiw", long=True)
def mix(t):
    """Requests of every kind, sleeping, polling and resizing at once: all completes once
    and in order (T-4, T-11)."""
    seed = 0
    for params in (("direct=1",), ("direct=0",), ("direct=1", "rnr_wait_ms=1000")):
        with t.loaded_with(*params):
            for rings in ("rsiw", "rsiw-poll"):
                seed += 1
                with t.sub("%s %s" % (" ".join(params), rings)), t.library(rings):
                    t.own("mix", t.topo.loopback, "--seed", seed)


@test("library-abandon", cost=3, only_type="rsiw")
def abandon(t):
    """A process ends whose windows are bound; nothing of it is left (V-RNIC-25).

    The core destroys the newest first: what the windows hold, then these.
    """
    with t.library("rsiw"):
        t.run(t.bin("library"), *t.topo.loopback.args(), "--port", t.port(), "--own",
              "--abandon")


@test("library-scarce", cost=5, only_type="rsiw")
def scarce(t):
    """Queues are resized in a process that may have hardly more than their new rings:
    a call that fails changes nothing (V-CQ-11, V-QP-23)."""
    with t.library("rsiw"):
        t.run("setpriv", "--bounding-set=-ipc_lock", t.bin("library"), *t.topo.loopback.args(),
              "--port", t.port(), "--own", "--scarce")


@test("library-parting", cost=30, only_type="rsiw")
def parting(t):
    """Connections that end while messages arrive: what has arrived is told before the end, and
    our library takes the completions of a queue pair out that is destroyed (V-CQ-29)."""
    for library, args in (("rsiw", ("--clean",)), ("stock", ())):
        with t.library(library), t.sub(library):
            t.own("parting", t.topo.loopback, *args)


@test("library-in-use", cost=3, only_type="rsiw")
def in_use(t):
    """Programs that are to use the library have loaded it."""
    with t.library("rsiw"):
        server, client = rping_ends(t, t.topo.wire, "-C", 10, "-v")
        libraries.check_in_use(server, t.env.library)
        all_rounds(client, t.left())
        server.expect(t.left(30))


@test("library-programs", cost=110, only_type="rsiw", long=True)
def programs(t):
    """Tests of the verbs with each kind of rings."""
    # On a debugging kernel what takes most of its code.
    for rings in ("rsiw", "rsiw-stock-rings", "rsiw-poll") if t.env.slow == 1 else ("rsiw-poll",):
        with t.library(rings):
            with t.sub("rping, " + rings):
                rping(t, t.topo.wire)
            for name in ("srq", "errors", "depths", "owner"):
                t.own(name, t.topo.loopback)
            for op in ("send", "write", "read"):
                with t.sub("ib_%s_bw, %s" % (op, rings)):
                    perftest(t, t.topo.wire, "ib_%s_bw" % op, 65536, 40, "-b")
                with t.sub("ib_%s_lat, %s" % (op, rings)):
                    perftest(t, t.topo.wire, "ib_%s_lat" % op, 64, 100)


@test("library-mixed", cost=15, only_type="rsiw")
def mixed(t):
    """A peer with another library, on the same device."""
    path = t.topo.loopback
    for here, there in (("rsiw", "stock"), ("stock", "rsiw")):
        with t.sub("server %s, client %s" % (here, there)):
            port, args = t.port(), ["-V", "-S", 1000]
            with t.library(here):
                server = t.start("rping", "-s", "-a", path.addr4, "-p", port, "-C", 200, *args)
                server.wait_listening(port)
            with t.library(there):
                ping(t, path.addr4, port, 200, *args)
            server.expect(t.left(30))


@test("library-perftest", cost=40, only_type="rsiw")
def new_operations(t):
    """perftest: Writes with immediate data, Atomic Operations (X-IMM, X-ATM)."""
    with t.library("rsiw"):
        for path in t.topo.paths:
            with t.sub("X-IMM-4 ib_write_bw --write_with_imm, " + path.name):
                perftest(t, path, "ib_write_bw", 65536, 100, "--write_with_imm")
            for op in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
                with t.sub("X-ATM-8 ib_atomic_bw %s, %s" % (op, path.name)):
                    perftest(t, path, "ib_atomic_bw", 8, 200, "-A", op)
                with t.sub("X-ATM-8 ib_atomic_lat %s, %s" % (op, path.name)):
                    perftest(t, path, "ib_atomic_lat", 8, 100, "-A", op)
