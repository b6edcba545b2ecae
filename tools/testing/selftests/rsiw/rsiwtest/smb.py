# SPDX-License-Identifier: GPL-2.0
"""SMB Direct: the kernel's server, in the first network namespace as it knows no
other, and its client in one of its own."""

import os

from .core import Fail
from .machine import LOCAL, wait_until
from .topo import sh, status

NS, IF_S, IF_C = "rsiw-smb", "rssmb0", "rssmb1"
S4, C4 = "10.80.1.1", "10.80.1.2"
EXPORT = "/srv/rsiw-smb"
MOUNTPOINT = "/mnt/rsiw-smb"
ETC = "/run/rsiw-smb"
USER, PASSWORD = "rsiw", "secret"
MODULES = ("ksmbd", "cifs", "smbdirect")
MIB = 1 << 20
# The largest request that both agree on.
SIZE = 4 * MIB
CONFIG = """[global]
	bind interfaces only = no
	netbios name = RSIW
	smb2 max read = 4MB
	smb2 max write = 4MB
	smbd max io size = 8MB
[files]
	path = %s
	read only = no
""" % EXPORT


class Wire:
    """A device on either end of a veth pair between the namespaces."""

    def __init__(self, t):
        self.topo = t.topo
        self.dev_s, self.dev_c = t.type + "_s", t.type + "_c"

    def __enter__(self):
        self.drop()
        sh("ip", "netns", "add", NS)
        sh("ip", "link", "set", "lo", "up", netns=NS)
        sh("ip", "link", "add", IF_S, "mtu", "1500", "type", "veth", "peer",
           "name", IF_C, "mtu", "1500", "netns", NS)
        for netdev, addr, ns in ((IF_S, S4, None), (IF_C, C4, NS)):
            sh("ip", "addr", "add", addr + "/24", "dev", netdev, netns=ns)
            sh("ip", "link", "set", netdev, "up", netns=ns)
        self.topo.add_link(self.dev_s, IF_S)
        self.topo.add_link(self.dev_c, IF_C, NS)
        return self

    def __exit__(self, *_):
        self.drop()

    def drop(self):
        """Takes down whatever is there of it."""
        links = self.topo.links()
        for dev in (self.dev_s, self.dev_c):
            if dev in links:
                sh("rdma", "link", "del", dev, timeout=60)
        status("ip", "link", "del", IF_S)
        if os.path.exists("/run/netns/" + NS):
            sh("ip", "netns", "del", NS)


class Server:
    """A server that exports a file system in memory."""

    def __init__(self, t):
        self.t = t
        self.daemon = None

    def __enter__(self):
        self.drop()
        LOCAL.modprobe("ksmbd")
        for path in (EXPORT, ETC):
            os.makedirs(path, exist_ok=True)
        sh("mount", "-t", "tmpfs", "tmpfs", EXPORT)
        config, users = ETC + "/ksmbd.conf", ETC + "/ksmbdpwd.db"
        with open(config, "w") as f:
            f.write(CONFIG)
        with open(users, "w"):
            pass
        sh("ksmbd.adduser", "-C", config, "-P", users, "-a", "-p", PASSWORD,
           USER)
        self.daemon = self.t.start("ksmbd.mountd", "-n", "-C", config, "-P",
                                   users)
        wait_until(lambda: "the server: " + self.daemon.output(), 30,
                   lambda: ":5445 " in sh("ss", "-ltn"))
        return self

    def drop(self):
        """Takes down whatever is there of it."""
        if os.path.exists("/sys/class/ksmbd-control"):
            status("ksmbd.control", "-s")
        if self.daemon:
            self.daemon.reap()
            self.daemon = None
        # It may still be closing connections.
        for name in MODULES:
            wait_until("the removal of " + name, 60, lambda m=name: not (
                os.path.exists("/sys/module/" + m)
                and status("modprobe", "-r", m)[0]))
        if " %s " % EXPORT in LOCAL.read("/proc/self/mounts"):
            sh("umount", EXPORT)

    def __exit__(self, *_):
        self.drop()


class Mount:
    """The client's mount, by requests of 4 MiB."""

    path = MOUNTPOINT

    def __enter__(self):
        os.makedirs(self.path, exist_ok=True)
        # Not "ip netns exec", which would mount it where nobody else sees it.
        sh("nsenter", "--net=/run/netns/" + NS, "mount", "-t", "cifs", "-o",
           "rdma,vers=3.1.1,cache=none,username=%s,password=%s,"
           "rsize=%d,wsize=%d" % (USER, PASSWORD, SIZE, SIZE),
           "//%s/files" % S4, self.path, timeout=60)
        line = [x for x in LOCAL.read("/proc/mounts").splitlines()
                if " %s " % self.path in x]
        for want in ("rdma", "rsize=%d" % SIZE, "wsize=%d" % SIZE):
            if not line or want not in line[0].split()[3].split(","):
                self.__exit__()
                raise Fail("the mount is not as wanted (%s): %s" % (want, line))
        return self

    def __exit__(self, *_):
        sh("umount", self.path, timeout=60)
