# SPDX-License-Identifier: GPL-2.0
"""The verbs, one program per family of rows (V-SRQ, ...)."""

import os
import re

from rsiwtest import kmsg
from rsiwtest.core import WIRE, Fail, Skip, test
from rsiwtest.tools import perftest
from rsiwtest.topo import sh


@test("srq", cost=8)
def srq(t):
    """Shared receive queues: sizes, limit event, PDs, failures (V-SRQ)."""
    t.own("srq", t.topo.loopback)


@test("srq-perftest", cost=10)
def srq_perftest(t):
    """perftest on a shared receive queue.

    One QP: its credits name QPs by the receive that was used.
    """
    for path in t.topo.paths:
        with t.sub("V-SRQ-1 ib_send_bw --use-srq, %s" % path.name):
            perftest(t, path, "ib_send_bw", 4096, 500, "--use-srq")
        with t.sub("V-SRQ-1 ib_send_lat --use-srq, %s" % path.name):
            perftest(t, path, "ib_send_lat", 64, 200, "--use-srq")


@test("states", cost=25, tcp=WIRE)
def states(t):
    """All transitions of QP states and what they do (V-ST)."""
    t.own("states", t.topo.wire)


@test("errors", cost=20)
def errors(t):
    """Completion statuses and events, each at its own cause (V-WC, V-AE)."""
    t.own("errors", t.topo.loopback)


@test("depths", cost=15)
def depths(t):
    """Read depths, fences, attributes, immediate errors (V-RD, V-QP, V-IMM)."""
    t.own("depths", t.topo.loopback)


@test("regions", cost=15)
def regions(t):
    """Regions: addresses, registered again, DMA buffers, size (V-MR)."""
    t.own("regions", t.topo.loopback)


@test("regions-exporters", cost=4, only_type="rsiw")
def regions_exporters(t):
    """DMA buffers that cannot be mapped are refused, without a warning of the kernel (V-IMM-9)."""
    t.need_module("rsiw_export")
    sh("modprobe", "rsiw_export")
    try:
        t.own("regions", t.topo.loopback, "--exporters")
    finally:
        sh("modprobe", "-r", "rsiw_export")


@test("regions-big", limit=900, cost=200, long=True)
def regions_big(t):
    """Messages of 2.5 GiB and of 2^32-1 bytes by each operation (V-WR-16)."""
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if have < 6000:
        raise Skip("%d MiB of memory, 6000 are needed" % have)
    # CRCs of 20 GB take long where the processor is emulated.
    with t.loaded_with("mpa_crc=0"):
        t.own("regions", t.topo.loopback, "--big", 2560)


@test("cqresize", cost=8)
def cqresize(t):
    """Completion queues resized under load (V-CQ-11 to V-CQ-13)."""
    t.own("cqresize", t.topo.loopback)


@test("cqresize-long", cost=60, long=True)
def cqresize_long(t):
    """The same for longer: a queue fills while what waits in it is looked for."""
    t.own("cqresize", t.topo.loopback, "--rounds", 10000)


@test("owner", cost=8)
def owner(t):
    """Connections and processes: others' numbers, ends of processes."""
    log = kmsg.rested()
    t.own("owner", t.topo.loopback)
    if t.type == "rsiw":
        line = r"rsiw_\w+: QP \d+: cannot connect: %s: the QP is not the caller's"
        line %= re.escape(kmsg.error("EINVAL"))
        if not any(re.search(line, said) for said in log.read()):
            raise Fail("not a word about the queue pair of another process")


@test("uverbs", cost=4)
def uverbs(t):
    """Numbers of objects, and commands that are not offered."""
    t.own("uverbs", t.topo.loopback)
