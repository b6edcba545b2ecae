# SPDX-License-Identifier: GPL-2.0
"""Links that are slower than the sender, where buffers fill.

How much goes over such links is what `make bench-wan` measures.
"""

import contextlib
import re
import time

from rsiwtest.core import Fail, test
from rsiwtest.tools import Perftest
from rsiwtest.topo import IF_B, NS_B, sh

# Of the sender's socket. TCP calls it writeable once a third of that is free.
SNDBUF = 1 << 20
# The part of it from which on the sender was to go on before.
FULL = 5 / 6
# Octets that TCP has of those, and the size of the buffer.
BUFFER = re.compile(r",tb(\d+),f\d+,w(\d+),")
WMEM = "net.ipv4.tcp_wmem"


@contextlib.contextmanager
def slow_link():
    """The client's way out is slow, and its sockets have a buffer of SNDBUF, within."""
    before = sh("sysctl", "-n", WMEM, netns=NS_B).strip()
    sh("sysctl", "-qw", "%s=4096 %d %d" % (WMEM, SNDBUF, SNDBUF), netns=NS_B)
    sh("tc", "qdisc", "replace", "dev", IF_B, "root", "netem", "limit", "100000", "rate",
       "10mbit", netns=NS_B)
    try:
        yield
    finally:
        sh("tc", "qdisc", "del", "dev", IF_B, "root", netns=NS_B)
        sh("sysctl", "-qw", "%s=%s" % (WMEM, before), netns=NS_B)


def queued(port):
    """What the fullest socket of connections to the port holds; perftest has one more, for
    what its ends tell each other."""
    out = sh("ss", "-tmnH", "state", "established", "( dport = :%d )" % port, netns=NS_B)
    found = [tuple(map(int, numbers)) for numbers in BUFFER.findall(out)]
    if not found:
        raise Fail("no socket:\n%s" % out)
    if any(size != SNDBUF for size, _ in found):
        raise Fail("not all buffers have %d octets:\n%s" % (SNDBUF, out))
    return max(used for _, used in found)


def samples(port):
    """What it holds, two seconds long."""
    found = []
    while len(found) < 40:
        found.append(queued(port))
        time.sleep(0.05)
    return found


@test("send-buffer", cost=40, only_type="rsiw")
def send_buffer(t):
    """A sender that waits for space goes on long before a third of the buffer is free."""
    with slow_link():
        # For as long as it takes to look; it does not end by itself.
        pair = Perftest(t, t.topo.wire, "ib_write_bw", "-s", 65536, "-D", 600)
        pair.connect()
        pair.wait_flowing()
        # It is lower now and then where the sender has to wait for a processor: on a busy
        # machine often, but not all the time, as it is for one that waits for more space.
        for _ in range(5):
            found = samples(pair.port)
            low = sum(1 for s in found if s < SNDBUF * FULL)
            if low <= len(found) // 4:
                break
        else:
            raise Fail("%d of %d times the buffer had less than %d octets: %s" % (
                low, len(found), SNDBUF * FULL, found))
        t.reap()
