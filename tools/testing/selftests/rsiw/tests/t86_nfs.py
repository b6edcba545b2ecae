# SPDX-License-Identifier: GPL-2.0
"""NFS over RDMA on the devices: the kernel's own server and client."""

import contextlib
import hashlib
import os
import time

from rsiwtest import fio, kmsg, nfs
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.topo import sh
from rsiwtest.wire import IF_C, IF_S, Wire

# Of all that fails while a server is away the client tries again for so long.
SOFT = "soft,timeo=30,retrans=1"


@contextlib.contextmanager
def service(t):
    """Wire and server."""
    t.need("fio", "nfsdctl", "rpc.mountd")
    for name in ("rpcrdma", "nfsd", "nfsv4"):
        t.need_module(name)
    with Wire(t) as wire, nfs.Server(t, LOCAL, wire.path.addr4) as server:
        yield wire, server


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def copies(mount, count, size):
    """Files go to the server and come back as they were."""
    for i in range(count):
        data = os.urandom(size + i * 4099)
        want = hashlib.sha256(data).hexdigest()
        name = mount.file("copy%d" % i)
        with open(name, "wb") as f:
            f.write(data)
            os.fsync(f.fileno())
        # Not from what the client remembers, and as the server has it.
        with open("/proc/sys/vm/drop_caches", "w") as f:
            f.write("1")
        for path in (name, os.path.join(nfs.EXPORT, "copy%d" % i)):
            if digest(path) != want:
                raise Fail("%s is not what was written" % path)
        os.unlink(name)


@test("nfs-verify", cost=25)
def nfs_verify(t):
    """fio through NFS, verified, and copied files."""
    with service(t) as (wire, _), nfs.Mount(LOCAL, wire.path.addr4) as mount:
        fio.verify(t, mount.path, fio.FEW)
        copies(mount, 1, 3000000)


@test("nfs-verify-long", limit=400, cost=90, long=True)
def nfs_verify_long(t):
    """More of it: deeper queues, many files, all of them at once."""
    with service(t) as (wire, _), nfs.Mount(LOCAL, wire.path.addr4) as mount:
        fio.verify(t, mount.path, depth=32, sizes=(
            ("512", "256k"), ("4k", "2m"), ("16k", "4m"), ("64k", "8m"),
            ("256k", "8m"), ("1m", "24m")))
        copies(mount, 10, 5000000)
        with t.sub("many small files"):
            for i in range(200):
                with open(mount.file("small%d" % i), "w") as f:
                    f.write("%d" % i)
            names = sorted(os.listdir(mount.path))
            if sum(n.startswith("small") for n in names) != 200:
                raise Fail("%d files: %s" % (len(names), names[:5]))
            for i in range(200):
                with open(mount.file("small%d" % i)) as f:
                    if f.read() != "%d" % i:
                        raise Fail("small%d" % i)


@test("nfs-netns", cost=20, long=True, only_type="rsiw")
def nfs_netns(t):
    """Server and client in network namespaces of their own."""
    path = t.topo.wire
    with nfs.Server(t, LOCAL, path.addr4, path.server_ns, path.server_ns), \
            nfs.Mount(LOCAL, path.addr4, path.client_ns) as mount:
        copies(mount, 2, 3000000)


@test("nfs-mount-50", cost=40, long=True)
def nfs_mount_50(t):
    """50 mounts and unmounts, each with a file."""
    with service(t) as (wire, _):
        for i in range(50):
            with nfs.Mount(LOCAL, wire.path.addr4) as mount:
                copies(mount, 1, 10000)


def running(t, mount, seconds):
    """fio under way."""
    return fio.running(t, mount.path, seconds,
                       sizes=(("64k", "4m"), ("1m", "16m")))


@test("nfs-server-restart", cost=45, long=True)
def nfs_server_restart(t):
    """The server stops in mid-transfer and comes back: no error."""
    with service(t) as (wire, server), \
            nfs.Mount(LOCAL, wire.path.addr4) as mount:
        job = running(t, mount, 12)
        server.stop()
        time.sleep(2)
        server.serve()
        job.expect(t.left(150))
        copies(mount, 1, 100000)


@test("nfs-server-gone", cost=45, long=True)
def nfs_server_gone(t):
    """The server stops in mid-transfer for good: I/O ends in errors."""
    with service(t) as (wire, server):
        with nfs.Mount(LOCAL, wire.path.addr4, options=SOFT) as mount:
            job = running(t, mount, 100)
            server.stop()
            if job.wait(t.left(100)) == 0:
                raise Fail("fio noticed nothing")
        server.serve()
        with nfs.Mount(LOCAL, wire.path.addr4) as mount:
            copies(mount, 1, 100000)


def unplug(t, action, again):
    """`action` takes a device away under I/O, `again` brings it back."""
    with service(t) as (wire, server):
        with nfs.Mount(LOCAL, wire.path.addr4, options=SOFT) as mount:
            job = running(t, mount, 100)
            start = time.monotonic()
            action(wire)
            took = time.monotonic() - start
            if job.wait(t.left(100)) == 0:
                raise Fail("fio noticed nothing")
            if took > 30 * t.env.slow:
                raise Fail("the removal took %.0f s" % took)
        server.stop()
        if again:
            again(wire)
            server.serve()
            with nfs.Mount(LOCAL, wire.path.addr4) as mount:
                copies(mount, 1, 100000)


@test("nfs-unplug-client", cost=45, long=True)
def unplug_client(t):
    """rdma link del of the client's device under I/O."""
    unplug(t, lambda w: sh("rdma", "link", "del", w.dev_c, timeout=90),
           lambda w: t.topo.add_link(w.dev_c, IF_C))


@test("nfs-unplug-server", cost=45, long=True)
def unplug_server(t):
    """rdma link del of the server's device under I/O."""
    unplug(t, lambda w: sh("rdma", "link", "del", w.dev_s, timeout=90),
           lambda w: t.topo.add_link(w.dev_s, IF_S))


@test("nfs-unplug-netdev", cost=45, long=True)
def unplug_netdev(t):
    """ip link del of the wire under I/O takes both devices at once."""
    unplug(t, lambda w: sh("ip", "link", "del", IF_S, timeout=90), None)


@test("nfs-unplug-bound", cost=30, limit=200, long=True, only_type="rsiw")
def unplug_bound(t):
    """rdma link del while the server listens on the device's address.

    The server does not let go of that before it ends; the log says so.
    """
    with service(t) as (wire, server):
        server.stop()
        server.listen_on(wire.path.addr4)
        server.start()
        log = kmsg.Kmsg()
        gone = t.start("rdma", "link", "del", wire.dev_s)
        said = []

        def told():
            said.extend(log.read())
            return any("removal waits" in line and "listeners 1" in line
                       for line in said)

        wait_until("a word in the log", 60, told)
        server.stop()
        gone.expect(t.left(30))
        t.topo.add_link(wire.dev_s, IF_S)
        server.serve()
        with nfs.Mount(LOCAL, wire.path.addr4) as mount:
            copies(mount, 1, 100000)
