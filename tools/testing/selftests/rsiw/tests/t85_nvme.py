# SPDX-License-Identifier: GPL-2.0
"""NVMe over Fabrics on the devices: the kernel's own host and target.

fio checks every block that comes back. Whatever happens to the peer or to the
device, nothing may hang: not the I/O, not the removal, not the controllers.
"""

import base64
import contextlib
import socket
import struct
import sys
import time
import zlib

from rsiwtest import fio, kmsg, mpa
from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.nvme import PORT, Host, Target
from rsiwtest.storage import Kind, del_link, register
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
            fio.verify(t, host.disk(), fio.MANY, depth=32)


@test("nvme-srq", cost=20, long=True)
def nvme_srq(t):
    """The target takes its commands from a shared receive queue."""
    with use_srq(1), service(t) as (wire, _), \
            Host(LOCAL, wire.path.addr4) as host:
        held = t.topo.resources()[wire.dev_s]
        if not held.get("srq"):
            raise Fail("no shared receive queue: %s" % held)
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


@contextlib.contextmanager
def parameters(value, *names):
    """Parameters of the host's core with another value for a while."""
    paths = ["/sys/module/nvme_core/parameters/" + name for name in names]
    LOCAL.modprobe("nvme_rdma")
    before = [LOCAL.read(path).strip() for path in paths]
    for path in paths:
        LOCAL.write(path, value)
    try:
        yield
    finally:
        for path, old in zip(paths, before):
            LOCAL.write(path, old)


class Nvme(Kind):
    """What NVMe-oF does when something goes away."""

    name, client, server = "nvme", "host", "target"

    def service(self, t):
        return service(t)

    def use(self, wire):
        return Host(LOCAL, wire.path.addr4, ctrl_loss_tmo=4)

    def target(self, client):
        return client.disk()

    def wait_given_up(self, client):
        client.gone(60)

    @contextlib.contextmanager
    def impatient(self, t):
        # The host waits for its commands' time to be over: nothing tells it
        # that the target, on the other end of what was a wire, is gone.
        t.allowed.append("unregister_netdevice: waiting")
        with parameters("4", "io_timeout", "admin_timeout"):
            yield

    def works(self, t, wire):
        with Host(LOCAL, wire.path.addr4) as host:
            t.run("dd", "if=/dev/zero", "of=" + host.disk(), "bs=64k",
                  "count=4", "oflag=direct", timeout=30)


NVME = Nvme()
register(NVME)


@test("nvme-target-restart", cost=25, long=True)
def nvme_target_restart(t):
    """The target disconnects everybody in mid-transfer and comes back."""
    with service(t) as (wire, target), Host(LOCAL, wire.path.addr4) as host:
        job = fio.running(t, host.disk(), 12)
        for _ in range(2):
            target.stop()
            wait_until("a reconnect", 10, lambda: host.state() != "live")
            # Some attempts to reconnect fail.
            time.sleep(1)
            target.serve()
            host.live(30)
        # The host repeats what was under way: no error reaches fio.
        job.expect(t.left(90))


@test("nvme-link-flap", cost=25, long=True, tcp=ANY_PATH)
def nvme_link_flap(t):
    """The interface goes down and up under I/O, either side's."""
    with service(t) as (wire, _), Host(LOCAL, wire.path.addr4) as host:
        job = fio.running(t, host.disk(), 15)
        for netdev in (IF_C, IF_S):
            wire.up(netdev, False)
            # Long enough for losses, too short for the host to give up.
            time.sleep(1)
            wire.up(netdev, True)
            # The other's route went as well: it lost its carrier only.
            time.sleep(2)
        job.expect(t.left(100))
        host.live(30)


@test("nvme-link-down", cost=60, long=True, tcp=ANY_PATH)
def nvme_link_down(t):
    """The interface goes down for good: keep-alive ends the controller."""
    with service(t) as (wire, _), \
            Host(LOCAL, wire.path.addr4, ctrl_loss_tmo=4,
                 keep_alive_tmo=2) as host:
        job = fio.running(t, host.disk(), 100)
        wire.up(IF_S, False)
        host.gone(120)
        fio.expect_errors(t, job, NVME.patience)
        wire.up(IF_S, True)
        NVME.works(t, wire)


def begun(t, wire, **options):
    """A controller that begins to connect: the program that waits for it."""
    LOCAL.modprobe("nvme_rdma")
    host = Host(LOCAL, wire.path.addr4, **options)
    return t.start(sys.executable, "-c",
                   "import os, sys; os.write(os.open('/dev/nvme-fabrics', "
                   "os.O_RDWR), sys.argv[1].encode())", host.text())


def unplug_begun(t, wire, prog, seconds):
    """Removes the device under a controller that waits for the target."""
    with t.within(seconds, "the removal"):
        del_link(wire.dev_c)
    if prog.wait(t.left(30)) == 0:
        raise Fail("it is connected")
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
        mpa.take_request(t, conn)
        unplug_begun(t, wire, prog, 15)
        conn.close()


@contextlib.contextmanager
def silent_target(t, timeout="25", **options):
    """A controller that begins to connect, and the connection that it has to a target
    that is this test. The log has to say who the removal waits for."""
    log = kmsg.Kmsg()
    with parameters(timeout, "admin_timeout"), Wire(t) as wire, \
            socket.create_server((wire.path.addr4, int(PORT))) as mute:
        mute.settimeout(t.left(30))
        prog = begun(t, wire, **options)
        # It tries again by the older set-up, as told.
        mpa.answer(t, mute.accept()[0])
        conn = mute.accept()[0]
        mpa.answer(t, conn)
        conn.settimeout(t.left(30))
        yield wire, prog, conn
    if not kmsg.says(log.read(), "removal waits", "queue pairs 1"):
        raise Fail("the log does not say who is waited for")


@test("nvme-unplug-mute", cost=40, limit=200, long=True, only_type="rsiw")
def unplug_mute(t):
    """The same where the connection is there, and the target says nothing.

    The host gives up its commands by itself: until then the log says who is
    waited for.
    """
    t.need_module("nvme-rdma")
    with silent_target(t) as (wire, prog, conn):
        mpa.receive(conn)
        unplug_begun(t, wire, prog, 40)
        conn.close()


# A secret of 32 octets, and the CRC behind it, as "nvme gen-dhchap-key" prints them.
SECRET = bytes(range(32))
DHCHAP = "DHHC-1:00:%s:" % base64.b64encode(
    SECRET + struct.pack("<I", zlib.crc32(SECRET))).decode()
# NVMe over Fabrics: opcode and type of commands, and that a host has to authenticate.
FABRICS, CONNECT, AUTH_SEND, AUTHREQ_ATR = 0x7f, 1, 5, 1 << 17


def fabrics_command(conn, kind):
    """Waits for a command of NVMe over Fabrics; its identifier."""
    opcode, _, ident, found = struct.unpack_from("<BBHB", mpa.receive(conn))
    if (opcode, found) != (FABRICS, kind):
        raise Fail("opcode %#x, type %d" % (opcode, found))
    return ident


@test("nvme-unplug-auth", cost=60, limit=200, long=True, only_type="rsiw")
def unplug_auth(t):
    """The same where the target wants the host to authenticate, and does not answer
    that any more. The host asks six times (NVME_SUBMIT_RETRY), a time-out each."""
    t.need_module("nvme-rdma")
    with silent_target(t, "6", dhchap_secret=DHCHAP) as (wire, prog, conn):
        ident = fabrics_command(conn, CONNECT)
        # Controller 1; head and number of the queue; success.
        mpa.send(conn, 1, struct.pack("<QHHHH", 1 | AUTHREQ_ATR, 0, 0, ident, 0))
        fabrics_command(conn, AUTH_SEND)
        unplug_begun(t, wire, prog, 80)
        conn.close()
