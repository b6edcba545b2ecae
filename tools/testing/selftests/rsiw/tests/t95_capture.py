# SPDX-License-Identifier: GPL-2.0
"""What is on the wire, as independent dissectors read it."""

import os
import time

from rsiwtest.core import Fail, test
from rsiwtest.tools import perftest, rping
from rsiwtest.topo import IF_A, NS_A

# Dissectors of upper layers guess at the contents of small Sends.
TSHARK = ["tshark", "-n", "--disable-protocol", "rpcordma",
          "--disable-protocol", "smb_direct"]


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


def fields(t, pcap, display, *names):
    """Rows of the values of these fields in the frames that match."""
    argv = TSHARK + ["-r", pcap, "-Y", display, "-T", "fields", "-E",
                     "occurrence=a"]
    for n in names:
        argv += ["-e", n]
    out = t.run(*argv, timeout=60)
    return [line.split("\t") for line in out.splitlines()
            if line and not line.startswith("Running as")]


def flat(rows, column=0):
    return [v for row in rows if len(row) > column
            for v in row[column].split(",") if v]


@test("capture", limit=150, cost=20)
def capture_test(t):
    """The iWARP dissectors find no fault in rping and perftest."""
    t.need("tshark", "tcpdump")
    pcap = capture(t, "capture", lambda: (
        rping(t, t.topo.wire, count=10, size=3000),
        perftest(t, t.topo.wire, "ib_write_bw", 65536, 5),
        perftest(t, t.topo.wire, "ib_read_bw", 65536, 5)))
    with t.sub("no malformed frame"):
        bad = fields(t, pcap, "_ws.malformed", "frame.number")
        if bad:
            raise Fail("%d malformed frames, the first is %s" % (
                len(bad), bad[0]))
    with t.sub("connection set-up"):
        req = fields(t, pcap, "iwarp_mpa.req || iwarp_mpa.rep",
                     "iwarp_mpa.rev", "iwarp_mpa.crc_flag",
                     "iwarp_mpa.marker_flag")
        if len(req) < 6:
            raise Fail("only %d MPA frames: %s" % (len(req), req))
        if any(v not in ("1", "2") for v in flat(req)):
            raise Fail("MPA revisions %s" % flat(req))
        if any(v not in ("0", "False") for v in flat(req, 2)):
            raise Fail("markers were asked for: %s" % req)
    with t.sub("FPDU sizes"):
        rows = fields(t, pcap, "iwarp_mpa.ulpdulength",
                      "iwarp_mpa.ulpdulength")
        sizes = [int(v) for v in flat(rows)]
        if not sizes:
            raise Fail("no FPDU was found")
        if max(sizes) > 1448 - 6:
            raise Fail("an ULPDU of %d bytes does not fit a segment" %
                       max(sizes))
        if max(sizes) < 1300:
            raise Fail("the largest ULPDU has %d bytes: segments are "
                       "not used" % max(sizes))
    with t.sub("opcodes"):
        ops = set(int(v, 0) for v in flat(fields(
            t, pcap, "iwarp_rdma.opcode", "iwarp_rdma.opcode")))
        # Write, Read Request, Read Response, Send (RFC 5040 section 4.2).
        if not {0, 1, 2, 3} <= ops:
            raise Fail("opcodes seen: %s" % sorted(ops))
        if 7 in ops:
            raise Fail("a Terminate in a clean run")
    with t.sub("CRC"):
        bad = fields(t, pcap, "iwarp_mpa.crc_check", "frame.number")
        if bad:
            raise Fail("%d frames with a wrong CRC" % len(bad))
    if all(ok for _, ok, _ in t.subtests):
        os.unlink(pcap)
