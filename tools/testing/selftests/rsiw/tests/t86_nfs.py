# SPDX-License-Identifier: GPL-2.0
"""NFS over RDMA on the devices: the kernel's own server and client."""

import contextlib
import hashlib
import os
import time

from rsiwtest import fio, kmsg, nfs
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.storage import Kind, register
from rsiwtest.wire import IF_S, Wire


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
        fio.verify(t, mount.path, fio.MANY, depth=32)
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


class Nfs(Kind):
    """What NFS does when something goes away."""

    name, cost, patience = "nfs", 45, 100
    sizes = (("64k", "4m"), ("1m", "16m"))

    def service(self, t):
        return service(t)

    def use(self, wire):
        return nfs.Mount(LOCAL, wire.path.addr4, options=nfs.SOFT)

    def target(self, client):
        return client.path

    def works(self, t, wire):
        with nfs.Mount(LOCAL, wire.path.addr4) as mount:
            copies(mount, 1, 100000)


NFS = Nfs()
register(NFS)


@test("nfs-server-restart", cost=45, long=True)
def nfs_server_restart(t):
    """The server stops in mid-transfer and comes back: no error."""
    with service(t) as (wire, server), \
            nfs.Mount(LOCAL, wire.path.addr4) as mount:
        job = fio.running(t, mount.path, 12, sizes=NFS.sizes)
        server.stop()
        # Some attempts to reconnect fail.
        time.sleep(2)
        server.serve()
        job.expect(t.left(150))
        copies(mount, 1, 100000)


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
            return kmsg.says(said, "removal waits", "listeners 1")

        wait_until("a word in the log", 60, told)
        server.stop()
        gone.expect(t.left(30))
        t.topo.add_link(wire.dev_s, IF_S)
        server.serve()
        NFS.works(t, wire)
