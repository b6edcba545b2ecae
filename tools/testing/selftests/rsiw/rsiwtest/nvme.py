# SPDX-License-Identifier: GPL-2.0
"""NVMe over Fabrics: the kernel's target, through its configfs, and host."""

import json
import os
import re

from . import nullb
from .core import Fail
from .machine import wait_until

NVMET = "/sys/kernel/config/nvmet"
NQN = "nqn.2016-01.org.example:rsiw"
HOST = "11111111-2222-3333-4444-555555555555"
PORT = "4420"
PORT_ID = "79"


class Target:
    """A target with one namespace that is a piece of memory."""

    def __init__(self, machine, addr, inline=None, size_mib=512, transport="rdma",
                 memory=True):
        self.m = machine
        self.addr = addr
        self.transport = transport
        self.memory = memory        # or the disk keeps nothing
        self.inline = inline        # bytes of in-capsule data, None: default
        self.size = size_mib
        self.port = "%s/ports/%s" % (NVMET, PORT_ID)
        self.subsys = "%s/subsystems/%s" % (NVMET, NQN)
        self.linked = "%s/subsystems/%s" % (self.port, NQN)

    def __enter__(self):
        m = self.m
        m.modprobe("nvmet_" + self.transport)
        self.drop()
        nullb.make(m, self.size, memory=self.memory)
        m.mkdir(self.subsys)
        m.write(self.subsys + "/attr_allow_any_host", "1")
        space = self.subsys + "/namespaces/1"
        m.mkdir(space)
        m.write(space + "/device_path", nullb.DISK)
        m.write(space + "/enable", "1")
        m.mkdir(self.port)
        for name, value in (("addr_trtype", self.transport), ("addr_adrfam", "ipv4"),
                            ("addr_traddr", self.addr),
                            ("addr_trsvcid", PORT)):
            m.write("%s/%s" % (self.port, name), value)
        if self.inline is not None:
            m.write(self.port + "/param_inline_data_size", str(self.inline))
        self.serve()
        return self

    def serve(self):
        """Listens and offers the subsystem."""
        self.m.symlink(self.subsys, self.linked)

    def stop(self):
        """Disconnects everybody and stops to listen."""
        self.m.remove(self.linked)

    def drop(self):
        """Takes down whatever is there of it."""
        m = self.m
        m.remove(self.linked)
        m.remove(self.port)
        space = self.subsys + "/namespaces/1"
        if m.exists(space):
            m.write(space + "/enable", "0")
            m.remove(space)
        m.remove(self.subsys)
        nullb.drop(m)

    def __exit__(self, *_):
        self.drop()


class Host:
    """A controller on the host side, through /dev/nvme-fabrics."""

    def __init__(self, machine, addr, **options):
        self.m = machine
        self.options = {"transport": "rdma", "traddr": addr, "trsvcid": PORT,
                        "nqn": NQN, "hostid": HOST,
                        "hostnqn": "nqn.2014-08.org.nvmexpress:uuid:" + HOST,
                        "nr_io_queues": 2, "reconnect_delay": 1,
                        "ctrl_loss_tmo": 60, **options}
        self.name = None

    def text(self):
        """What /dev/nvme-fabrics is told."""
        return ",".join(name if value is None else "%s=%s" % (name, value)
                        for name, value in self.options.items())

    def connect(self):
        """Connects; the controller's name."""
        self.m.modprobe("nvme_" + self.options["transport"])
        answer = self.m.query("/dev/nvme-fabrics", self.text())
        found = re.search(r"instance=(\d+)", answer)
        if not found:
            raise Fail("nvme-fabrics answers '%s'" % answer)
        self.name = "nvme" + found.group(1)
        return self.name

    def __enter__(self):
        self.connect()
        return self

    def __exit__(self, *_):
        self.disconnect()

    def base(self):
        return "/sys/class/nvme/%s" % self.name

    def there(self):
        return self.name is not None and self.m.exists(self.base())

    def state(self):
        return self.m.read(self.base() + "/state").strip()

    def disconnect(self):
        """Disconnects, if that has not happened by itself."""
        if self.there():
            try:
                self.m.write(self.base() + "/delete_controller", "1")
            except Fail:
                # It may go at this very moment.
                if self.there() and self.state() != "deleting":
                    raise
        self.gone(60)

    def gone(self, seconds):
        """Waits until the controller is no more."""
        wait_until(lambda: "the end of %s (%s)" % (self.name, self.state()),
                   seconds, lambda: not self.there())

    def live(self, seconds):
        """Waits until the controller works."""
        wait_until(lambda: "%s is live (%s)" % (self.name, self.state()),
                   seconds, lambda: self.state() == "live")

    def disk(self):
        """The block device of the namespace, once it has been found."""
        def look():
            for name in self.m.listdir("/sys/block"):
                # With multipath the paths' own devices have a "c" in them.
                if re.fullmatch(r"nvme\d+n\d+", name) and self.m.read(
                        "/sys/block/%s/device/subsysnqn" % name).strip() \
                        == NQN and self.m.exists("/dev/" + name):
                    return os.path.join("/dev", name)
            return None
        return wait_until("a disk of %s" % self.name, 20, look)

    def identify(self):
        """nvme id-ctrl as a dictionary."""
        return json.loads(self.m.sh("nvme", "id-ctrl", "-o", "json",
                                    "/dev/" + self.name))
