# SPDX-License-Identifier: GPL-2.0
"""rsockets: rstream, riostream, rcopy."""

import contextlib
import hashlib
import os
import select
import time

from rsiwtest import stats
from rsiwtest.core import Fail, TimedOut, test

# Seconds in which a message comes, on a busy host too.
STILL = 8
# How many mappings a socket has room for, unless its program says.
ROOM = "/etc/rdma/rsocket/iomap_size"


@contextlib.contextmanager
def room_for_mappings():
    """Within, every socket has room for one mapping. The server of riostream asks for it
    only when it listens already: a client that was faster would find none (ENOMEM)."""
    made = not os.path.exists(ROOM)
    if made:
        os.makedirs(os.path.dirname(ROOM), exist_ok=True)
        with open(ROOM, "w") as f:
            f.write("1")
    try:
        yield
    finally:
        if made:
            os.unlink(ROOM)


def serve(t, path, tool, *options):
    """A server that listens, and its port. It may poll then. Once rsockets listen with one device
    after the other, they start a thread for the connections; a plain socket (-T f) just listens."""
    port = t.port()
    server = t.start(tool, "-p", port, *options, netns=path.server_ns)
    tasks, threads = "/proc/%d/task" % server.pid, 1 if "f" in options else 2
    server.wait_listening(port, is_through=lambda: len(os.listdir(tasks)) >= threads)
    return server, port


def stream(t, tool, path, *options):
    server, port = serve(t, path, tool, *options)
    client = t.start(tool, "-s", path.addr4, "-p", port, *options,
                     netns=path.client_ns)
    # The server leaves right after its last byte. A client that polls (-T a)
    # gives up with the event as its status if it sees the hang-up together
    # with that byte; the server's own success says that all was exchanged.
    polls = "a" in options
    client.expect(t.left(60), 0, *([select.POLLHUP] if polls else []))
    server.expect(t.left(20))


@test("rstream", cost=20)
def rstream(t):
    """rstream with -T verify in each of its modes."""
    for mode in ("b", "n", "a", "r", "f"):
        with t.sub("mode " + mode):
            stream(t, "rstream", t.topo.wire, "-T", "v", "-T", mode,
                   "-S", 4096, "-C", 50, "-I", 10 if t.env.slow == 1 else 2)
    for size in (64, 65536, 1 << 20):
        with t.sub("%d bytes" % size):
            stream(t, "rstream", t.topo.loopback, "-T", "v", "-S", size,
                   "-C", 10, "-I", 5)


@test("riostream", cost=10)
def riostream(t):
    """riostream -T verify: direct placement by riowrite."""
    for path, size in ((t.topo.wire, 4096), (t.topo.loopback, 65536)):
        with t.sub("%d bytes, %s" % (size, path.name)), room_for_mappings():
            stream(t, "riostream", path, "-T", "v", "-S", size, "-C", 20,
                   "-I", 10)


def gets_on(t, path, tool, *options):
    """Runs the tool while messages come in, however slowly. Its ends take turns, each
    waits for the other's message: one that is not sent, or not taken in, is the last."""
    server, port = serve(t, path, tool, "-T", "v", *options)
    client = t.start(tool, "-s", path.addr4, "-p", port, "-T", "v", *options,
                     netns=path.client_ns)
    seen, since = 0, time.monotonic()
    while client.poll() is None:
        count = stats.of_device(path.server_dev)["rx_fpdus"]
        if count != seen:
            seen, since = count, time.monotonic()
        elif time.monotonic() - since > STILL * t.env.slow:
            raise TimedOut("no message for %d s, after %d" % (STILL, seen))
        t.left()
        time.sleep(0.5)
    client.expect(t.left(5))
    server.expect(t.left(20))


@test("rsocket-spin", cost=20, only_type="rsiw", long=True)
def spin(t):
    """Where both ends keep all processors busy by polling, each message gets there."""
    path = t.topo.loopback
    for value in (0, 1):
        with t.loaded_with("direct=%d" % value), room_for_mappings():
            for tool in ("rstream", "riostream"):
                # Polling, by default and without a call that waits; waiting.
                for mode in ((), ("-T", "n"), ("-T", "b")):
                    with t.sub(" ".join(("direct=%d," % value, tool) + mode)):
                        gets_on(t, path, tool, "-S", 4096, "-C", 1, "-I", 300, *mode)
                        gets_on(t, path, tool, "-S", 64, "-C", 100, "-I", 3, *mode)


@test("rcopy", cost=8)
def rcopy(t):
    """A file copied by rcopy arrives unchanged."""
    path = t.topo.wire
    base = "/tmp/rsiw-rcopy"
    os.makedirs(base, exist_ok=True)
    source, target = base + "/source", base + "/target"
    with open(source, "wb") as f:
        f.write(os.urandom((8 << 20) + 4321))
    if os.path.exists(target):
        os.unlink(target)
    server, port = serve(t, path, "rcopy")
    # Its options come last, or it takes itself for the server.
    t.run("rcopy", source, path.addr4 + ":" + target, "-p", port,
          netns=path.client_ns, timeout=40)
    sums = []
    for name in (source, target):
        with open(name, "rb") as f:
            sums.append(hashlib.sha256(f.read()).hexdigest())
        os.unlink(name)
    if sums[0] != sums[1]:
        raise Fail("the copy differs")
