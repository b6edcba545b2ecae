# SPDX-License-Identifier: GPL-2.0
"""WireGuard and IPsec below rsiw: what works in the clear works, and nobody else reads it.

What goes past TCP goes past them, too: these tests are without that.
"""

import os

from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.frames import capture, framing
from rsiwtest.secure import BEGIN, PLAIN, SECRET, Ipsec, Wireguard, need, seen, works
from rsiwtest.tools import perftest
from rsiwtest.wire import C4, IF_C, S4, Wire


def secure(t, make, name, most):
    """All of it over one kind of wire."""
    need(t)
    with make(t) as wire:
        works(t, wire, name, most)


@test("secure-wireguard", cost=60, limit=600, only_type="rsiw", tcp=ANY_PATH,
      packaged=True, long=True)
def wireguard(t):
    """WireGuard below the devices."""
    t.need("wg")
    t.need_module("wireguard")
    secure(t, Wireguard, "wireguard", PLAIN - 80)
    with t.sub("FPDUs lie whole in segments"), \
            t.loaded_with("direct=0", "large_fpdus=0"), Wireguard(t) as wire:
        pcap = os.path.join(t.env.results, "inside.pcap")
        capture(t, IF_C, pcap,
                lambda: perftest(t, wire.path, "ib_write_bw", 65536, 20))
        if bad := framing(pcap, (S4, C4), PLAIN - 80):
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
