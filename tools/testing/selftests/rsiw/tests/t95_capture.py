# SPDX-License-Identifier: GPL-2.0
"""What is on the wire, as independent dissectors read it."""

import os
import re

from rsiwtest.core import WIRE, Fail, test
from rsiwtest.frames import (CHECKS, SIZE, agreed, capture, dissect, first_fins,
                             framing, numbers, opcodes)
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import A4, B4, IF_A, NS_A
from tests.t50_rsocket import stream


@test("capture", cost=25, tcp=WIRE)
def capture_test(t):
    """The iWARP dissectors find no fault in rping and perftest."""
    t.need("tshark", "tcpdump")
    if t.type == "rsiw":
        text = examine(t, "long")
        with t.sub("FPDUs are longer than segments by default"):
            if not agreed(text) or max(numbers(SIZE, text)) < 64000:
                raise Fail("agreed upon: %s" % agreed(text))
        with t.loaded_with("direct=0", "large_fpdus=0"):
            examine(t, "short")
    else:
        examine(t, "short")


def examine(t, name):
    """The dissectors' text, of connections whose FPDUs fit segments or need not."""
    pcap = os.path.join(t.env.results, "capture-%s.pcap" % name)

    def work():
        rping(t, t.topo.wire, count=5, size=3000)
        perftest(t, t.topo.wire, "ib_write_bw", 65536, 5)
        perftest(t, t.topo.wire, "ib_read_bw", 65536, 5)
        # Messages that do not fill segments.
        perftest(t, t.topo.wire, "ib_send_bw", 2000, 50)

    capture(t, IF_A, pcap, work, netns=NS_A)
    text = dissect(pcap)
    whole = ("FPDUs lie whole in segments, or are long where that is agreed upon (M-MPA-12)",
             lambda _: framing(pcap, (A4, B4), long=name == "long"))
    for what, check in (*CHECKS, whole):
        with t.sub("%s: %s" % (name, what)):
            found = list(check(text))
            if found:
                raise Fail("\n".join(found))
    with t.sub("%s: all connections are seen (M-MPA-20)" % name):
        frames = len(re.findall(r"(Request|Reply) frame header", text))
        if frames < 6:
            raise Fail("only %d MPA frames" % frames)
    with t.sub("%s: segments are used (M-MPA-10)" % name):
        largest = max(numbers(SIZE, text), default=0)
        if largest < 1300:
            raise Fail("the largest ULPDU has %d bytes" % largest)
    with t.sub("%s: opcodes (P-RDMAP-2)" % name):
        # Write, Read Request, Read Response, Send (RFC 5040 section 4.2).
        seen = opcodes(text)
        if not {0, 1, 2, 3} <= seen:
            raise Fail("opcodes seen: %s" % sorted(seen))
    with t.sub("%s: CRC by default (M-MPA-5, T-26)" % name):
        good, fpdus = text.count("Good CRC32"), len(numbers(SIZE, text))
        if good != fpdus and t.type == "rsiw":
            raise Fail("%d right CRCs for %d FPDUs" % (good, fpdus))
    if all(ok for _, ok, _ in t.subtests):
        os.unlink(pcap)
    return text


@test("capture-fin", cost=15, only_type="rsiw", tcp=WIRE)
def capture_fin(t):
    """A FIN waits until the peer has acknowledged what stands in front of it."""
    t.need("tshark", "tcpdump")
    pcap = os.path.join(t.env.results, "fin.pcap")

    def work():
        # Both end right behind their last message.
        for _ in range(6):
            stream(t, "rstream", t.topo.wire, "-T", "b", "-S", 4096, "-C", 5,
                   "-I", 2)
        rping(t, t.topo.wire, count=5, size=3000)

    capture(t, IF_A, pcap, work, netns=NS_A)
    fins, early = first_fins(pcap, (A4, B4))
    if fins < 7:
        raise Fail("only %d connections end" % fins)
    if early:
        raise Fail("%d of %d FINs come early, %s" % (len(early), fins,
                                                     "; ".join(early[:5])))
    os.unlink(pcap)
