# SPDX-License-Identifier: GPL-2.0
"""A network block device over RDMA (rnbd), by the kernel's own server and client,
over their transport (rtrs). Both know the first network namespace only."""

import os
import time

from . import nullb
from .core import Fail
from .machine import LOCAL, wait_until
from .topo import sh, status

# In an order in which they can be removed.
MODULES = ("rnbd_client", "rnbd_server", "rtrs_client", "rtrs_server",
           "rtrs_core")
CONTROL = "/sys/class/rnbd-client/ctl/map_device"
SESSION = "rsiw"
TRANSPORT = "/sys/class/rtrs-client/" + SESSION
PATHS = TRANSPORT + "/paths"


def disks():
    """The names of its disks here."""
    return [name for name in LOCAL.listdir("/sys/block") if name.startswith("rnbd")]


def unload():
    """Removes all of it from the kernel, its sessions first."""
    if os.path.exists("/sys/module/rnbd_client") and not disks():
        # A session without disks ends by itself. The client forgets it a moment after it can
        # be seen no more, and complains if it is removed in between.
        wait_until("the end of the session", 60, lambda: not os.path.exists(TRANSPORT))
        time.sleep(1)
    for name in MODULES:
        # A program that has just ended may have been the last user.
        wait_until("the removal of " + name, 60, lambda m=name: not (
            os.path.exists("/sys/module/" + m)
            and status("modprobe", "-r", m, timeout=60)[0]))


class Server:
    """A server with a disk that is a piece of memory.

    Unless it is told not to invalidate what its clients have written to, it answers by
    Sends with immediate data, which there are none of in iWARP.
    """

    def __init__(self, invalidate="N"):
        self.invalidate = invalidate

    def __enter__(self):
        self.drop()
        nullb.make(LOCAL, 512)
        self.serve()
        return self

    def serve(self):
        """Listens."""
        sh("modprobe", "rtrs_server", "always_invalidate=" + self.invalidate)
        sh("modprobe", "rnbd_server")

    def stop(self):
        """Disconnects everybody and stops to listen."""
        sh("modprobe", "-r", "rnbd_server", timeout=60)

    def drop(self):
        """Takes down whatever is there of it, and of its clients."""
        unload()
        nullb.drop(LOCAL)

    def __exit__(self, *_):
        self.drop()


class Client:
    """The server's disk, through a session of this client's."""

    def __init__(self, wire):
        self.wire = wire
        self.base = None

    def __enter__(self):
        LOCAL.modprobe("rnbd_client")
        LOCAL.write(CONTROL, "sessname=%s path=ip:%s device_path=%s" % (
            SESSION, self.wire.path.addr4, nullb.DISK))
        self.base = "/sys/block/%s/rnbd" % self.find()
        # By itself it may take the one path for one that it has tried: see rsiw.rst.
        LOCAL.write(TRANSPORT + "/mpath_policy", "round-robin")
        device = self.attribute("hca_name")
        if device != self.wire.dev_c:
            self.__exit__()
            raise Fail("it is connected through %s" % device)
        return self

    def find(self):
        """The name of the disk here."""
        names = disks()
        if len(names) != 1:
            raise Fail("disks of rnbd: %s" % names)
        return names[0]

    def disk(self):
        """The block device."""
        return "/dev/" + self.base.split("/")[3]

    def path(self):
        """Where the session's one path is."""
        return os.path.join(PATHS, *LOCAL.listdir(PATHS))

    def attribute(self, name):
        """What the path says of itself."""
        return LOCAL.read("%s/%s" % (self.path(), name)).strip()

    def state(self):
        """"open" or "closed"; "open" again once the server has been asked for
        the disk again."""
        return LOCAL.read(self.base + "/state").strip()

    def wait_state(self, state, seconds):
        """Waits until the disk is so."""
        wait_until(lambda: "the disk is %s (%s, path %s)" % (
            state, self.state(), self.attribute("state")), seconds,
            lambda: self.state() == state)

    def reconnect(self):
        """Connects again now; rtrs would try that every 30 seconds, unless its own
        device has gone."""
        LOCAL.write(self.path() + "/reconnect", "1")

    def __exit__(self, *_):
        LOCAL.write(self.base + "/unmap_device", "force")
