# SPDX-License-Identifier: GPL-2.0
"""What is on the wire, as independent dissectors read it."""

import os
import re
import time

from rsiwtest.core import Fail, test
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import IF_A, NS_A


def capture(t, name, work):
    """Captures what `work` does on the server's veth; the file's name."""
    pcap = os.path.join(t.env.results, name + ".pcap")
    dump = t.start("tcpdump", "-i", IF_A, "-s", "0", "-U", "-w", pcap, "tcp",
                   netns=NS_A)
    dump.wait_output("listening on", t.left(15))
    work()
    time.sleep(0.5)
    dump.kill(2)
    dump.wait(t.left(10))
    return pcap


def dissect(t, pcap):
    """All that tshark has to say about the iWARP layers, as text."""
    # The dissectors of upper layers guess at the contents of small Sends.
    return t.run("tshark", "-n", "--disable-protocol", "rpcordma",
                 "--disable-protocol", "smb_direct", "-r", pcap, "-V", "-O",
                 "iwarp_mpa,iwarp_ddp_rdmap", timeout=90)


def numbers(pattern, text):
    return [int(v, 0) for v in re.findall(pattern, text)]


@test("capture", limit=150, cost=15)
def capture_test(t):
    """The iWARP dissectors find no fault in rping and perftest."""
    t.need("tshark", "tcpdump")
    pcap = capture(t, "capture", lambda: (
        rping(t, t.topo.wire, count=5, size=3000),
        perftest(t, t.topo.wire, "ib_write_bw", 65536, 5),
        perftest(t, t.topo.wire, "ib_read_bw", 65536, 5)))
    text = dissect(t, pcap)
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
        # A segment of 1448 bytes holds length, ULPDU and CRC.
        if max(sizes) > 1448 - 6:
            raise Fail("an ULPDU of %d bytes does not fit a segment" %
                       max(sizes))
        if max(sizes) < 1300:
            raise Fail("the largest ULPDU has %d bytes: segments are not used"
                       % max(sizes))
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
