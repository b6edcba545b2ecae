# SPDX-License-Identifier: GPL-2.0
"""iSCSI over RDMA (iSER): the kernel's target, LIO, and Debian's open-iscsi."""

import os

from .core import Fail
from .machine import wait_until

CORE = "/sys/kernel/config/target/core/rd_mcp_1/rsiw"
FABRIC = "/sys/kernel/config/target/iscsi"
IQN = "iqn.2016-01.org.example:rsiw"
INITIATOR = "iqn.2016-01.org.example:rsiw-host"
PORT = 3260
# 512 MiB of pages.
PAGES = 131072


class Target:
    """A target with one disk of memory, at one port for TCP and for RDMA."""

    def __init__(self, machine, addr):
        self.m = machine
        self.base = "%s/%s/tpgt_1" % (FABRIC, IQN)
        self.portal = "%s/np/%s:%d" % (self.base, addr, PORT)
        self.link = self.base + "/lun/lun_0/rsiw"

    def __enter__(self):
        m = self.m
        m.modprobe("target_core_mod", "iscsi_target_mod", "ib_isert")
        self.drop()
        m.mkdir(CORE)
        m.write(CORE + "/control", "rd_pages=%d" % PAGES)
        m.write(CORE + "/enable", "1")
        m.mkdir(FABRIC)
        m.mkdir(os.path.dirname(self.link))
        m.symlink(CORE, self.link)
        for name, value in (("authentication", 0), ("generate_node_acls", 1),
                            ("cache_dynamic_acls", 1),
                            ("demo_mode_write_protect", 0)):
            m.write("%s/attrib/%s" % (self.base, name), str(value))
        m.mkdir(self.portal)
        m.write(self.portal + "/iser", "1")
        m.write(self.base + "/enable", "1")
        return self

    def drop(self):
        """Removes what there is of the target."""
        m = self.m
        if m.exists(self.base):
            m.write(self.base + "/enable", "0")
            for path in (self.portal, self.link, os.path.dirname(self.link),
                         self.base, os.path.dirname(self.base)):
                m.remove(path)
        m.remove(CORE)

    def __exit__(self, *_):
        self.drop()


class Initiator:
    """The daemon of open-iscsi."""

    def __init__(self, t, machine):
        self.t = t
        self.m = machine

    def __enter__(self):
        m = self.m
        m.modprobe("ib_iser", "sd_mod")
        m.mkdir("/etc/iscsi")
        with open("/etc/iscsi/initiatorname.iscsi", "w") as f:
            f.write("InitiatorName=%s\n" % INITIATOR)
        m.mkdir("/run/lock/iscsi")
        self.daemon = self.t.start("iscsid", "-f")
        wait_until("iscsid to answer", 20, lambda: not m.status(
            "iscsiadm", "-m", "iface")[0])
        return self

    def __exit__(self, *_):
        self.daemon.reap(10)


class Session:
    """A session over iSER with a target that was discovered over TCP.

    Discovered over iSER, it sometimes is not: iscsiadm has read the message that
    holds the answer while it waited for another, and waits for it once more.
    """

    def __init__(self, machine, addr):
        self.m = machine
        self.portal = "%s:%d" % (addr, PORT)

    def node(self, *argv):
        """iscsiadm for this target."""
        return self.m.sh("iscsiadm", "-m", "node", "-T", IQN, "-p", self.portal,
                         *argv, timeout=120)

    def __enter__(self):
        found = self.m.sh("iscsiadm", "-m", "discovery", "-t", "sendtargets", "-p",
                          self.portal)
        if IQN not in found:
            raise Fail("the target is not discovered: %s" % found)
        self.node("-o", "update", "-n", "iface.transport_name", "-v", "iser")
        self.node("--login")
        return self

    def disk(self):
        """The block device of the session, once it is there."""
        def look():
            for name in self.m.listdir("/sys/block"):
                if name.startswith("sd") and "LIO" in self.m.read(
                        "/sys/block/%s/device/vendor" % name):
                    return "/dev/" + name
            return None
        return wait_until("a disk", 30, look)

    def __exit__(self, *_):
        self.node("--logout")
