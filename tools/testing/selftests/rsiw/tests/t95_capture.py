# SPDX-License-Identifier: GPL-2.0
"""What is on the wire, as independent dissectors read it."""

import os
import re

from rsiwtest.core import WIRE, Fail, test
from rsiwtest.frames import (CHECKS, SIZE, capture, dissect, first_fins,
                             misaligned, numbers, opcodes)
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import A4, B4, IF_A, NS_A
from tests.t50_rsocket import stream


@test("capture", cost=15, tcp=WIRE)
def capture_test(t):
    """The iWARP dissectors find no fault in rping and perftest."""
    t.need("tshark", "tcpdump")
    pcap = os.path.join(t.env.results, "capture.pcap")

    def work():
        rping(t, t.topo.wire, count=5, size=3000)
        perftest(t, t.topo.wire, "ib_write_bw", 65536, 5)
        perftest(t, t.topo.wire, "ib_read_bw", 65536, 5)
        # Messages that do not fill segments.
        perftest(t, t.topo.wire, "ib_send_bw", 2000, 50)

    capture(t, IF_A, pcap, work, netns=NS_A)
    text = dissect(pcap)
    whole = ("FPDUs lie whole in segments (M-MPA-12)",
             lambda _: misaligned(pcap, (A4, B4)))
    for name, check in (*CHECKS, whole):
        with t.sub(name):
            found = list(check(text))
            if found:
                raise Fail("\n".join(found))
    with t.sub("all connections are seen (M-MPA-20)"):
        frames = len(re.findall(r"(Request|Reply) frame header", text))
        if frames < 6:
            raise Fail("only %d MPA frames" % frames)
    with t.sub("segments are used (M-MPA-10)"):
        largest = max(numbers(SIZE, text), default=0)
        if largest < 1300:
            raise Fail("the largest ULPDU has %d bytes" % largest)
    with t.sub("opcodes (P-RDMAP-2)"):
        # Write, Read Request, Read Response, Send (RFC 5040 section 4.2).
        seen = opcodes(text)
        if not {0, 1, 2, 3} <= seen:
            raise Fail("opcodes seen: %s" % sorted(seen))
    with t.sub("CRC by default (M-MPA-5, T-26)"):
        good, fpdus = text.count("Good CRC32"), len(numbers(SIZE, text))
        if good != fpdus and t.type == "rsiw":
            raise Fail("%d right CRCs for %d FPDUs" % (good, fpdus))
    if all(ok for _, ok, _ in t.subtests):
        os.unlink(pcap)


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
