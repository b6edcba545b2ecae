# SPDX-License-Identifier: GPL-2.0
"""Control groups (version 2)."""

import os

from .machine import LOCAL, wait_until

ROOT = "/sys/fs/cgroup"


class Group:
    """A group below the root, while it lasts; its processes end with it.

    `limits` are written to the files of these names: `memory_max` is memory.max.
    """

    def __init__(self, name, *controllers, **limits):
        self.path = os.path.join(ROOT, name)
        self.controllers = controllers
        self.limits = limits

    def __enter__(self):
        for name in self.controllers:
            LOCAL.write(ROOT + "/cgroup.subtree_control", "+" + name)
        LOCAL.mkdir(self.path)
        for name, value in self.limits.items():
            LOCAL.write(os.path.join(self.path, name.replace("_", ".", 1)),
                        str(value))
        return self

    def __exit__(self, *_):
        LOCAL.write(self.path + "/cgroup.kill", "1")
        wait_until("%s is empty" % self.path, 10, lambda: "populated 0" in
                   LOCAL.read(self.path + "/cgroup.events"))
        LOCAL.remove(self.path)

    def within(self, argv):
        """The command that runs a program in the group."""
        return ["sh", "-c", "echo $$ >%s/cgroup.procs && exec \"$@\"" % self.path,
                "sh", *argv]

    def stat(self, name):
        """A number of memory.stat: octets that its processes are charged with."""
        stat = LOCAL.read(self.path + "/memory.stat")
        return {k: int(v) for k, v in map(str.split, stat.splitlines())}[name]

    def current(self):
        """Octets that its processes are charged with, of all kinds."""
        return int(LOCAL.read(self.path + "/memory.current"))
