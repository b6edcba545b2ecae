# SPDX-License-Identifier: GPL-2.0
"""NFS: the kernel's server and client, version 4.2, over RDMA if nothing else is said."""

import os

from .core import Fail
from .machine import wait_until

EXPORT = "/srv/rsiw"
MOUNTPOINT = "/mnt/rsiw"
PIPEFS = "/run/rpc_pipefs"
CLD = "/var/lib/nfs/nfsdcld"
NFSD = "/proc/fs/nfsd"
PORT = 20049
# Of all that fails while a server is away the client tries again for so long.
SOFT = "soft,timeo=30,retrans=1"
OPTIONS = "vers=4.2,proto=%s,port=%d,rsize=1048576,wsize=1048576"


def within(netns, *argv):
    """A command in a network namespace that shares all else."""
    if not netns:
        return argv
    return ("nsenter", "--net=/run/netns/" + netns) + argv


class Server:
    """A server that exports a file system in memory."""

    def __init__(self, t, machine, addr, netns=None, where=None, proto="rdma"):
        self.t = t
        self.m = machine
        self.addr = addr
        self.netns = netns          # the service's, a name
        self.where = where          # what t.start calls that
        self.proto = proto
        self.procs = []

    def sh(self, *argv):
        return self.m.sh(*within(self.netns, *argv))

    def __enter__(self):
        m = self.m
        m.modprobe("nfsd", "rpcrdma")
        self.drop()
        m.mkdir(EXPORT)
        m.mkdir(PIPEFS)
        m.mkdir(CLD)
        for path, fs in ((EXPORT, "tmpfs"), (PIPEFS, "rpc_pipefs"),
                         (NFSD, "nfsd")):
            self.sh("mount", "-t", fs, fs, path)
        # Without one that keeps the clients' names the server makes them
        # wait for others that never existed.
        self.procs = [
            self.t.start("nfsdcld", "-F", netns=self.where),
            self.t.start("rpc.mountd", "-N", "3", "--foreground",
                         netns=self.where)]
        self.procs[1].wait_output("starting", self.t.left(20))
        # The default depends on the size of the machine's memory.
        m.write(NFSD + "/max_block_size", "1048576")
        m.write(NFSD + "/nfsv4leasetime", "10")
        m.write(NFSD + "/nfsv4gracetime", "10")
        self.sh("exportfs", "-o", "rw,no_root_squash,fsid=0,insecure,"
                "no_subtree_check,async", "*:" + EXPORT)
        self.sh("nfsdctl", "version", "-3", "+4.1", "+4.2")
        self.serve()
        return self

    def serve(self):
        """Listens."""
        if self.netns or self.proto != "rdma":
            self.listen_on(self.addr)
        else:
            # On all devices: an identifier bound to one would hold up the
            # removal of that device until the server ends.
            self.m.write(NFSD + "/portlist", "rdma %d" % PORT)
        self.start()

    def listen_on(self, addr):
        """Listens on one address."""
        self.sh("nfsdctl", "listener", "+%s:%s:%d" % (self.proto, addr, PORT))

    def start(self):
        """Starts the threads."""
        self.sh("nfsdctl", "threads", "4")
        wait_until("the server's threads", 20, lambda: self.threads() > 0)

    def threads(self):
        """How many there are."""
        return int(self.m.read(NFSD + "/threads") or "0")

    def stop(self):
        """Ends all connections and the service, unless that was done."""
        if self.threads() == 0:
            return
        self.sh("nfsdctl", "threads", "0")
        wait_until("the end of the server's threads", 30,
                   lambda: self.threads() == 0)

    def drop(self):
        """Takes down whatever is there of it."""
        m = self.m
        if m.exists(NFSD + "/threads"):
            self.stop()
            m.status(*within(self.netns, "exportfs", "-ua"))
        for proc in self.procs:
            proc.reap()
        self.procs = []
        for path in (NFSD, PIPEFS, EXPORT):
            if " %s " % path in m.read("/proc/self/mounts"):
                m.sh("umount", path)

    def __exit__(self, *_):
        self.drop()


class Mount:
    """The client's mount."""

    def __init__(self, machine, addr, netns=None, options="", proto="rdma"):
        self.m = machine
        self.addr = addr
        self.netns = netns
        self.proto = proto
        self.options = ",".join([OPTIONS % (proto, PORT)] + ([options] if options else []))
        self.path = MOUNTPOINT

    def __enter__(self):
        m = self.m
        m.modprobe("nfsv4", "rpcrdma")
        m.mkdir(self.path)
        m.sh(*within(self.netns, "mount", "-t", "nfs4", "-o", self.options,
                     "%s:/" % self.addr, self.path), timeout=60)
        line = [x for x in m.read("/proc/mounts").splitlines()
                if " %s " % self.path in x]
        for want in ("proto=" + self.proto, "rsize=1048576", "wsize=1048576",
                     "vers=4.2"):
            if not line or want not in line[0]:
                self.__exit__()
                raise Fail("the mount is not as wanted (%s): %s" % (
                    want, line))
        return self

    def __exit__(self, *_):
        self.m.sh("umount", self.path, timeout=60)

    def file(self, name):
        return os.path.join(self.path, name)
