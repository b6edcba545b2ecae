# SPDX-License-Identifier: GPL-2.0
"""rsockets: rstream, riostream, rcopy."""

import hashlib
import os
import select

from rsiwtest.core import Fail, test


def stream(t, tool, path, *options):
    port = t.port()
    server = t.start(tool, "-p", port, *options, netns=path.server_ns)
    server.wait_listening(port)
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
        with t.sub("%d bytes, %s" % (size, path.name)):
            stream(t, "riostream", path, "-T", "v", "-S", size, "-C", 20,
                   "-I", 10)


@test("rcopy", cost=8)
def rcopy(t):
    """A file copied by rcopy arrives unchanged."""
    path, port = t.topo.wire, t.port()
    base = "/tmp/rsiw-rcopy"
    os.makedirs(base, exist_ok=True)
    source, target = base + "/source", base + "/target"
    with open(source, "wb") as f:
        f.write(os.urandom((8 << 20) + 4321))
    if os.path.exists(target):
        os.unlink(target)
    server = t.start("rcopy", "-p", port, netns=path.server_ns)
    server.wait_listening(port)
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
