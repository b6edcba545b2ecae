# SPDX-License-Identifier: GPL-2.0
"""NVMe over Fabrics on the devices: the kernel's own host and target.

fio checks every block that comes back. Whatever happens to the peer or to the
device, nothing may hang: not the I/O, not the removal, not the controllers.
"""

import contextlib
import json
import socket
import sys
import time

from rsiwtest import fio, kmsg
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.nvme import PORT, Host, Target
from rsiwtest.topo import sh
from rsiwtest.wire import IF_C, IF_S, Wire


@contextlib.contextmanager
def service(t, inline=None):
    """Wire and target."""
    t.need("fio")
    for name in ("nvme-rdma", "nvmet-rdma", "null_blk"):
        t.need_module(name)
    with Wire(t) as wire, Target(LOCAL, wire.path.addr4, inline) as target:
        yield wire, target


@contextlib.contextmanager
def use_srq(on):
    """The target's module with or without a shared receive queue."""
    sh("modprobe", "-r", "nvmet_rdma")
    sh("modprobe", "nvmet_rdma", "use_srq=%d" % on)
    try:
        yield
    finally:
        sh("modprobe", "-r", "nvmet_rdma")


@test("nvme-verify", cost=25, last=True)
def nvme_verify(t):
    """All block sizes through NVMe-oF, verified; in-capsule data."""
    with service(t, inline=16384) as (wire, _), \
            Host(LOCAL, wire.path.addr4) as host:
        disk = host.disk()
        # In units of 16 bytes, the command of 64 bytes included.
        if host.identify()["ioccsz"] * 16 != 64 + 16384:
            raise Fail("in-capsule data: %s" % host.identify()["ioccsz"])
        fio.verify(t, disk, fio.FEW)


@test("nvme-verify-long", limit=400, cost=120, long=True)
def nvme_verify_long(t):
    """More of it: queue depth 32, with and without in-capsule data."""
    for inline in (0, 4096, 16384):
        with t.sub("%d bytes in capsule" % inline), \
                service(t, inline) as (wire, _), \
                Host(LOCAL, wire.path.addr4) as host:
            fio.verify(t, host.disk(), depth=32, sizes=(
                ("512", "256k"), ("4k", "2m"), ("16k", "4m"), ("64k", "8m"),
                ("256k", "8m"), ("1m", "24m")))


@test("nvme-srq", cost=20, long=True)
def nvme_srq(t):
    """The target takes its commands from a shared receive queue."""
    with use_srq(1), service(t) as (wire, _), \
            Host(LOCAL, wire.path.addr4) as host:
        res = {r["ifname"]: r for r in
               json.loads(sh("rdma", "-j", "resource", "show"))}
        if not res[wire.dev_s].get("srq"):
            raise Fail("no shared receive queue: %s" % res[wire.dev_s])
        fio.verify(t, host.disk())


@test("nvme-connect-50", cost=30, long=True)
def nvme_connect_50(t):
    """50 connects and disconnects, each with a read of the disk."""
    with service(t) as (wire, _):
        for _ in range(50):
            with Host(LOCAL, wire.path.addr4) as host:
                disk = host.disk()
                t.run("dd", "if=" + disk, "of=/dev/null", "bs=64k", "count=1",
                      "iflag=direct", timeout=30)
            t.forget()


@test("nvme-cli", cost=8, long=True)
def nvme_cli(t):
    """nvme connect, list, disconnect as an administrator does."""
    t.need("nvme")
    with service(t) as (wire, target):
        nqn = target.subsys.rsplit("/", 1)[1]
        LOCAL.modprobe("nvme_rdma")
        t.run("nvme", "connect", "-t", "rdma", "-a", wire.path.addr4, "-s",
              "4420", "-n", nqn, timeout=30)
        try:
            if nqn not in t.run("nvme", "list-subsys", timeout=30):
                raise Fail("nvme list-subsys does not show it")
        finally:
            t.run("nvme", "disconnect", "-n", nqn, timeout=30)


def works(t, wire):
    """A new connection serves."""
    with Host(LOCAL, wire.path.addr4) as host:
        t.run("dd", "if=/dev/zero", "of=" + host.disk(), "bs=64k", "count=4",
              "oflag=direct", timeout=30)


@test("nvme-target-restart", cost=25, long=True)
def nvme_target_restart(t):
    """The target disconnects everybody in mid-transfer and comes back."""
    with service(t) as (wire, target), Host(LOCAL, wire.path.addr4) as host:
        job = fio.running(t, host.disk(), 12)
        for _ in range(2):
            target.refuse()
            wait_until("a reconnect", 10, lambda: host.state() != "live")
            time.sleep(1)
            target.serve()
            host.live(30)
        # The host repeats what was under way: no error reaches fio.
        job.expect(t.left(90))


@test("nvme-target-gone", cost=25, long=True)
def nvme_target_gone(t):
    """The target goes in mid-transfer for good: I/O ends in errors."""
    with service(t) as (wire, target), \
            Host(LOCAL, wire.path.addr4, ctrl_loss_tmo=4) as host:
        job = fio.running(t, host.disk(), 60)
        target.refuse()
        host.gone(60)
        if job.wait(t.left(40)) == 0:
            raise Fail("fio noticed nothing")
        target.serve()
        works(t, wire)


@test("nvme-link-flap", cost=25, long=True)
def nvme_link_flap(t):
    """The interface goes down and up under I/O, either side's."""
    with service(t) as (wire, _), Host(LOCAL, wire.path.addr4) as host:
        job = fio.running(t, host.disk(), 15)
        for netdev in (IF_C, IF_S):
            wire.up(netdev, False)
            time.sleep(1)
            wire.up(netdev, True)
            # The other's route went as well: it lost its carrier only.
            time.sleep(2)
        job.expect(t.left(100))
        host.live(30)


@test("nvme-link-down", cost=60, long=True)
def nvme_link_down(t):
    """The interface goes down for good: keep-alive ends the controller."""
    with service(t) as (wire, _), \
            Host(LOCAL, wire.path.addr4, ctrl_loss_tmo=4,
                 keep_alive_tmo=2) as host:
        job = fio.running(t, host.disk(), 100)
        wire.up(IF_S, False)
        host.gone(120)
        if job.wait(t.left(40)) == 0:
            raise Fail("fio noticed nothing")
        wire.up(IF_S, True)
        works(t, wire)


def unplug(t, action, again):
    """`action` takes a device away under I/O, `again` brings it back."""
    with service(t) as (wire, target):
        host = Host(LOCAL, wire.path.addr4, ctrl_loss_tmo=4)
        with host:
            job = fio.running(t, host.disk(), 100)
            start = time.monotonic()
            action(wire)
            took = time.monotonic() - start
            host.gone(60)
            if job.wait(t.left(40)) == 0:
                raise Fail("fio noticed nothing")
            if took > 30 * t.env.slow:
                raise Fail("the removal took %.0f s" % took)
        if again:
            target.refuse()
            again(wire)
            target.serve()
            works(t, wire)


@test("nvme-unplug-host", cost=20, long=True)
def unplug_host(t):
    """rdma link del of the host's device under I/O."""
    unplug(t, lambda w: sh("rdma", "link", "del", w.dev_c, timeout=90),
           lambda w: t.topo.add_link(w.dev_c, IF_C))


@test("nvme-unplug-target", cost=20, long=True)
def unplug_target(t):
    """rdma link del of the target's device under I/O."""
    unplug(t, lambda w: sh("rdma", "link", "del", w.dev_s, timeout=90),
           lambda w: t.topo.add_link(w.dev_s, IF_S))


@test("nvme-unplug-netdev", cost=20, long=True)
def unplug_netdev(t):
    """ip link del of the wire under I/O takes both devices at once."""
    # The host waits for its commands' time to be over: nothing tells it that
    # the target, on the other end of what was a wire, is gone.
    base = "/sys/module/nvme_core/parameters/"
    limits = (base + "io_timeout", base + "admin_timeout")
    LOCAL.modprobe("nvme_rdma")
    before = [LOCAL.read(limit).strip() for limit in limits]
    for limit in limits:
        LOCAL.write(limit, "4")
    t.allowed.append("unregister_netdevice: waiting")
    try:
        unplug(t, lambda w: sh("ip", "link", "del", IF_S, timeout=90), None)
    finally:
        for limit, value in zip(limits, before):
            LOCAL.write(limit, value)


def replied(conn):
    """Answers a Request by the older set-up, without CRCs and depths."""
    conn.settimeout(20)
    if not conn.recv(600).startswith(b"MPA ID Req Frame"):
        raise Fail("no MPA Request")
    conn.sendall(b"MPA ID Rep Frame\x40\x01\x00\x00")
    return conn


def begun(t, wire, **options):
    """A controller that begins to connect: the program that waits for it."""
    LOCAL.modprobe("nvme_rdma")
    host = Host(LOCAL, wire.path.addr4, **options)
    return t.start(sys.executable, "-c",
                   "import os, sys; os.write(os.open('/dev/nvme-fabrics', "
                   "os.O_RDWR), sys.argv[1].encode())", host.text())


def unplug_begun(t, wire, prog, seconds):
    """Removes the device under a controller that waits for the target."""
    start = time.monotonic()
    sh("rdma", "link", "del", wire.dev_c, timeout=60)
    took = time.monotonic() - start
    if prog.wait(t.left(30)) == 0:
        raise Fail("it is connected")
    if took > seconds * t.env.slow:
        raise Fail("the removal took %.0f s" % took)
    t.topo.add_link(wire.dev_c, IF_C)


@test("nvme-unplug-connecting", cost=15, only_type="rsiw")
def unplug_connecting(t):
    """rdma link del under a connect that the target does not answer.

    The consumer waits for the answer; the RDMA CM, which waits for the consumer
    then, drops what comes once the removal has begun.
    """
    t.need_module("nvme-rdma")
    with Wire(t) as wire, \
            socket.create_server((wire.path.addr4, int(PORT))) as silent:
        silent.settimeout(t.left(30))
        prog = begun(t, wire)
        conn, _ = silent.accept()
        conn.settimeout(20)
        if not conn.recv(600).startswith(b"MPA ID Req Frame"):
            raise Fail("no MPA Request")
        unplug_begun(t, wire, prog, 15)
        conn.close()


@test("nvme-unplug-mute", cost=40, limit=200, long=True, only_type="rsiw")
def unplug_mute(t):
    """The same where the connection is there, and the target says nothing.

    The host gives up its commands by itself: until then the log says who is
    waited for.
    """
    t.need_module("nvme-rdma")
    limit = "/sys/module/nvme_core/parameters/admin_timeout"
    LOCAL.modprobe("nvme_rdma")
    before = LOCAL.read(limit).strip()
    LOCAL.write(limit, "25")
    log = kmsg.Kmsg()
    try:
        with Wire(t) as wire, \
                socket.create_server((wire.path.addr4, int(PORT))) as mute:
            mute.settimeout(t.left(30))
            prog = begun(t, wire)
            # It tries again by the older set-up, as told.
            replied(mute.accept()[0])
            conn = replied(mute.accept()[0])
            if not conn.recv(100):
                raise Fail("no command")
            unplug_begun(t, wire, prog, 40)
            conn.close()
    finally:
        LOCAL.write(limit, before)
    if not any("removal waits" in line and "queue pairs 1" in line
               for line in log.read()):
        raise Fail("the log does not say who is waited for")
