# SPDX-License-Identifier: GPL-2.0
"""What is on the wire, as independent dissectors read it."""

import os
import re

from rsiwtest.core import Fail, test
from rsiwtest.frames import (LARGEST, captured, dissect, misaligned, numbers)
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import A4, B4, IF_A, NS_A


@test("capture", limit=150, cost=15)
def capture_test(t):
    """The iWARP dissectors find no fault in rping and perftest."""
    t.need("tshark", "tcpdump")
    pcap = os.path.join(t.env.results, "capture.pcap")
    with captured(t, IF_A, pcap, netns=NS_A):
        rping(t, t.topo.wire, count=5, size=3000)
        perftest(t, t.topo.wire, "ib_write_bw", 65536, 5)
        perftest(t, t.topo.wire, "ib_read_bw", 65536, 5)
        # Messages that do not fill segments.
        perftest(t, t.topo.wire, "ib_send_bw", 2000, 50)
    text = dissect(pcap)
    with t.sub("no malformed frame (P-RDMAP-21, V-CM-3)"):
        if "Malformed" in text:
            raise Fail("malformed: %s" % text[text.index("Malformed") - 500:][
                :600])
    with t.sub("connection set-up (M-MPA-20)"):
        frames = len(re.findall(r"(Request|Reply) frame header", text))
        if frames < 6:
            raise Fail("only %d MPA frames" % frames)
        revisions = set(numbers(r"Revision: (\d+)", text))
        if not revisions <= {1, 2}:
            raise Fail("MPA revisions %s" % revisions)
        if re.search(r"Marker flag: (True|Set)|1\.*= Marker flag", text):
            raise Fail("markers were asked for")
    with t.sub("FPDU sizes (M-MPA-10)"):
        sizes = numbers(r"ULPDU length: (\d+)", text)
        if not sizes:
            raise Fail("no FPDU was found")
        if max(sizes) > LARGEST:
            raise Fail("an ULPDU of %d bytes does not fit a segment" %
                       max(sizes))
        if max(sizes) < 1300:
            raise Fail("the largest ULPDU has %d bytes: segments are not used"
                       % max(sizes))
    with t.sub("FPDUs lie whole in segments (M-MPA-12)"):
        found = misaligned(pcap, (A4, B4))
        if found:
            raise Fail("\n".join(found))
    with t.sub("versions (D-DDP-2)"):
        versions = set(numbers(r"DDP protocol version: (\d+)", text))
        if versions != {1}:
            raise Fail("DDP versions %s" % versions)
    with t.sub("opcodes (P-RDMAP-2)"):
        ops = set(numbers(r"OpCode: .*\((0x[0-9a-f]+)\)", text))
        # Write, Read Request, Read Response, Send (RFC 5040 section 4.2).
        if not {0, 1, 2, 3} <= ops:
            raise Fail("opcodes seen: %s" % sorted(ops))
        if 7 in ops:
            raise Fail("a Terminate in a clean run")
    with t.sub("CRC (M-MPA-5, D-DDP-27)"):
        good, bad = text.count("Good CRC32"), text.count("Bad CRC32")
        if bad:
            raise Fail("%d of %d CRCs are wrong" % (bad, good + bad))
        if not good and t.type == "rsiw":
            raise Fail("no CRC although it is on by default (T-26)")
        fpdus = len(numbers(r"ULPDU length: (\d+)", text))
        if good != fpdus and t.type == "rsiw":
            raise Fail("%d right CRCs for %d FPDUs" % (good, fpdus))
    if all(ok for _, ok, _ in t.subtests):
        os.unlink(pcap)
