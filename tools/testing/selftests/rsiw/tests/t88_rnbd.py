# SPDX-License-Identifier: GPL-2.0
"""rnbd on the devices: the kernel's own block device over RDMA.

Its transport, rtrs, tells by the immediate data of an RDMA Write what it has written,
and what it has registered is invalidated by itself and by the peer's Sends.
"""

import contextlib

from rsiwtest import fio, kmsg, rnbd
from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.storage import Kind, del_link, register
from rsiwtest.wire import IF_C, IF_S, Wire, meet

ONLY = {"only_type": "rsiw", "packaged": True}
# Requests up to 124 KiB go to the server in one piece.
MANY = (*fio.MANY, ("124k", "8m"))


@contextlib.contextmanager
def service(t, invalidate="N"):
    """Wire and server."""
    t.need("fio")
    for name in (*rnbd.MODULES, "null_blk"):
        t.need_module(name)
    with Wire(t) as wire, rnbd.Server(invalidate) as server:
        meet()
        yield wire, server


@test("rnbd-verify", cost=11, **ONLY)
def rnbd_verify(t):
    """All block sizes through rnbd, verified."""
    with service(t) as (wire, _), rnbd.Client(wire) as client:
        fio.verify(t, client.disk(), fio.FEW)


@test("rnbd-verify-long", limit=400, cost=60, long=True, **ONLY)
def rnbd_verify_long(t):
    """More of it, with deeper queues, from memory to memory and through TCP."""
    for name, path in (("direct", None), ("through TCP", ANY_PATH)):
        with t.sub(name), t.through_tcp(path), service(t) as (wire, _), \
                rnbd.Client(wire) as client:
            fio.verify(t, client.disk(), MANY, depth=32)


@test("rnbd-send-imm", cost=5, long=True, **ONLY)
def rnbd_send_imm(t):
    """A server that would answer by Sends with immediate data ends the session."""
    with service(t, "Y") as (wire, _):
        log, mapped = kmsg.Kmsg(), False
        try:
            with rnbd.Client(wire):
                mapped = True
        except Fail:
            pass
        if mapped:
            raise Fail("there is a disk")
        lines = log.read()
        if not any(kmsg.says(lines, "rtrs_server", "Posting RDMA", error)
                   for error in ("-EINVAL", "-22")):
            raise Fail("the server does not say why")


class Rnbd(Kind):
    """What rnbd does when something goes away."""

    # If the RDMA CM learns of the removal before it does of the end of the
    # connections, it does not tell the client of the latter any more, which waits
    # 30 seconds for that (RTRS_CONNECT_TIMEOUT_MS).
    name, cost, removal, only = "rnbd", 15, 45, ONLY

    def service(self, t):
        return service(t)

    def use(self, wire):
        return rnbd.Client(wire)

    def target(self, client):
        return client.disk()

    def wait_given_up(self, client):
        client.wait_state("closed", 40)

    @contextlib.contextmanager
    def impatient(self, t):
        # See above: it may keep the device so long, and that the interface.
        t.allowed.append("unregister_netdevice: waiting")
        yield

    def works(self, t, wire):
        with rnbd.Client(wire) as client:
            t.run("dd", "if=/dev/zero", "of=" + client.disk(), "bs=64k",
                  "count=4", "oflag=direct", timeout=30)


RNBD = Rnbd()
register(RNBD)


def taken_away(t, client, dev, netdev):
    """Removes a device under I/O and makes it again."""
    job = fio.running(t, client.disk(), 100)
    with t.within(RNBD.removal, "the removal"):
        del_link(dev)
    client.wait_state("closed", 40)
    fio.expect_errors(t, job, RNBD.patience)
    t.topo.add_link(dev, netdev)


@test("rnbd-reconnect", cost=65, limit=400, long=True, tcp=ANY_PATH, **ONLY)
def rnbd_reconnect(t):
    """The same session works again once a device is there again.

    By itself where it was the server's; where it was the client's, when told so.
    """
    with service(t) as (wire, _), rnbd.Client(wire) as client:
        taken_away(t, client, wire.dev_s, IF_S)
        client.wait_state("open", 60)
        fio.verify(t, client.disk(), fio.FEW)
        taken_away(t, client, wire.dev_c, IF_C)
        client.reconnect()
        client.wait_state("open", 10)
        fio.verify(t, client.disk(), fio.FEW)
