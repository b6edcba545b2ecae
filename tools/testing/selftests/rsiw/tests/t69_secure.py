# SPDX-License-Identifier: GPL-2.0
"""WireGuard and IPsec below rsiw: what works in the clear works, and nobody else reads it.

What goes past TCP goes past them, too: these tests are without that.
"""

import json
import os

from rsiwtest import fio
from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.frames import capture, misaligned
from rsiwtest.machine import LOCAL
from rsiwtest.nvme import Host, Target
from rsiwtest.secure import Ipsec, Wireguard
from rsiwtest.tools import perftest, pinging
from rsiwtest.topo import sh
from rsiwtest.wire import C4, IF_C, S4, Wire

# Octets of a segment over a wire of 1500, IPv4 with time stamps.
PLAIN = 1448
# What is written, which is nowhere else, and how a connection begins (RFC 5044).
SECRET = b"a secret of rsiw "
BEGIN = b"MPA ID Req Frame"
# Little: a debugging kernel encrypts some ten thousand octets a second, and NVMe gives a
# request up after half a minute.
BLOCKS, DEPTH = (("4k", "64k"), ("64k", "256k")), 2


def segment(t, wire):
    """Octets of a segment of a connection over the wire."""
    server, client = pinging(t, wire.path)
    shown = json.loads(sh("rdma", "-dd", "-j", "resource", "show", "qp"))
    t.reap()
    found = {qp["drv_mss"] for qp in shown if qp.get("pid") in (server.pid, client.pid)
             and qp["state"] == "RTS"}
    if len(found) != 1:
        raise Fail("segments of %s octets" % found)
    return found.pop()


def write_secret(disk):
    """Blocks that are full of it."""
    with open(disk, "wb", buffering=0) as f:
        f.write((SECRET * 16384)[:1 << 18])
        os.fsync(f.fileno())


def seen(t, wire, outside, name):
    """Which of our words whoever listens outside reads, of a connection and of blocks."""
    pcap = os.path.join(t.env.results, name + ".pcap")

    def work():
        with Target(LOCAL, wire.path.addr4), Host(LOCAL, wire.path.addr4) as host:
            write_secret(host.disk())
        perftest(t, wire.path, "ib_write_bw", 65536, 10)

    capture(t, outside, pcap, work, "ip")
    with open(pcap, "rb") as f:
        data = f.read()
    os.unlink(pcap)
    if len(data) < 1 << 18:
        raise Fail("only %d octets were captured" % len(data))
    return {word for word in (SECRET, BEGIN) if word in data}


def secure(t, make, name, most):
    """All of it over one kind of wire, whose segments have `most` octets at most."""
    t.need("fio", "tcpdump", "tshark")
    for module in ("nvme-rdma", "nvmet-rdma", "null_blk"):
        t.need_module(module)
    with make(t) as wire:
        with t.sub("segments fit"):
            octets = segment(t, wire)
            if not 1300 < octets <= most:
                raise Fail("%d octets, not up to %d" % (octets, most))
        with t.sub("perftest"):
            for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_read_lat"):
                perftest(t, wire.path, tool, 16384, 20)
        with t.sub("NVMe over Fabrics"), Target(LOCAL, wire.path.addr4), \
                Host(LOCAL, wire.path.addr4) as host:
            fio.verify(t, host.disk(), BLOCKS, DEPTH)
        with t.sub("nobody else can read it"):
            if words := seen(t, wire, wire.outside, name):
                raise Fail("seen outside: %s" % words)


@test("secure-wireguard", cost=60, limit=600, only_type="rsiw", tcp=ANY_PATH,
      packaged=True)
def wireguard(t):
    """WireGuard below the devices."""
    t.need("wg")
    t.need_module("wireguard")
    secure(t, Wireguard, "wireguard", PLAIN - 80)
    with t.sub("FPDUs lie whole in segments"), Wireguard(t) as wire:
        pcap = os.path.join(t.env.results, "inside.pcap")
        capture(t, IF_C, pcap,
                lambda: perftest(t, wire.path, "ib_write_bw", 65536, 20))
        if bad := misaligned(pcap, (S4, C4), PLAIN - 80):
            raise Fail("\n".join(bad))
        os.unlink(pcap)


@test("secure-ipsec", cost=40, limit=600, only_type="rsiw", tcp=ANY_PATH)
def ipsec(t):
    """IPsec below the devices."""
    for module in ("xfrm_user", "esp4"):
        t.need_module(module)
    secure(t, Ipsec, "ipsec", PLAIN - 30)


@test("secure-control", cost=20, only_type="rsiw", tcp=ANY_PATH)
def control(t):
    """In the clear, the same words are seen: so they would be in the other tests."""
    t.need("tcpdump")
    for module in ("nvme-rdma", "nvmet-rdma", "null_blk"):
        t.need_module(module)
    with Wire(t) as wire:
        if words := {SECRET, BEGIN} - seen(t, wire, IF_C, "clear"):
            raise Fail("not seen: %s" % words)
