# SPDX-License-Identifier: GPL-2.0
"""The raw peer (tools/testing/peer): scripted scenarios, octet by octet.

Each row of the conformance matrix that a scenario shows is a subtest of its
own, "ID text".
"""

import re
import secrets

from rsiwtest.core import Fail, TimedOut, test
from rsiwtest.kmsg import Quiet
from rsiwtest.topo import B4

LINE = re.compile(r"(not )?ok \d+ (.*?)(?: # time=(\d+)ms)?$")


def peer(t, command, *args):
    """Runs the raw peer in the client's namespace; its exit status, or that it
    takes too long, and its output."""
    path = t.topo.wire
    # A verbs program that hangs ends itself before, so that its command is named.
    own = max(1, int(t.left()) - 5)
    proc = t.start(
        t.bin("peer"), command, *args, "--ep", t.bin("peer_ep"),
        "--ep-netns", path.server_ns, "--addr", path.addr4, "--own", B4,
        "--port", t.port(), "--limit", own,
        netns=path.client_ns)
    try:
        status = proc.wait(t.left())
    except TimedOut as err:
        status = err
    return status, proc.output()


def scenarios(t, *args):
    """Turns the lines of TAP into subtests."""
    status, text = peer(t, "run", *args)
    notes, plan, seen = [], 0, 0
    for line in text.splitlines():
        found = LINE.match(line)
        if found:
            seen += 1
            t.subtests.append((found.group(2), not found.group(1),
                               "\n".join(notes)))
            # Further rows of the same scenario say no more than this one.
            notes = []
        elif line.startswith("# "):
            notes.append(line[2:])
        elif line.startswith("1.."):
            plan = int(line[3:])
        elif line.startswith("Bail out!"):
            raise Fail("\n".join([line] + notes))
    if isinstance(status, TimedOut):
        raise status
    if not seen or seen != plan:
        raise Fail("%d of %d scenarios were reported; the last lines:\n%s" % (
            seen, plan, "\n".join(text.splitlines()[-20:])))
    if status and all(ok for _, ok, _ in t.subtests):
        raise Fail("the peer ends with status %d" % status)


@test("peer", limit=600, cost=150, only_type="rsiw")
def quick(t):
    """Every scenario of the raw peer that takes less than a second."""
    scenarios(t)


@test("peer-crc-off", cost=4, only_type="rsiw")
def crc_off(t):
    """The scenarios in which neither side asks for CRCs."""
    with t.loaded_with("mpa_crc=0"):
        scenarios(t, "--kind", "crc-off")


@test("peer-long", limit=900, cost=120, only_type="rsiw", long=True)
def long(t):
    """The scenarios of the raw peer that take long."""
    scenarios(t, "--kind", "long")


@test("peer-storm", limit=1200, cost=100, only_type="rsiw", long=True)
def storm(t):
    """The scenarios of the raw peer with many connections or much data."""
    # Who asks for connections, and the peer of a process.
    with Quiet(t, "storms", authors=2):
        scenarios(t, "--kind", "storm")


@test("peer-random", cost=70, only_type="rsiw", long=True)
def random(t):
    """Valid traffic of the raw peer, changed at random."""
    seconds = t.env.seconds or 60
    seed = t.env.seed or secrets.randbelow(1 << 31) + 1
    status, text = peer(t, "random", "--seed", seed, "--seconds", seconds)
    t.subtests.append(("seed %d" % seed, not status, ""))
    if isinstance(status, TimedOut):
        raise status
    if status:
        raise Fail("\n".join(text.splitlines()[-30:]))
