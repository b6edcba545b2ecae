# SPDX-License-Identifier: GPL-2.0
"""Our own kernel consumer (tools/testing/kverbs), case by case."""

import contextlib

from .core import Fail
from .topo import LO4, sh

MODULE = "rsiw_kverbs"
CONTROL = "/sys/kernel/debug/" + MODULE


def control(name, text=None):
    """Reads a file of the module, or writes to it."""
    try:
        with open("%s/%s" % (CONTROL, name), "r" if text is None else "w") as f:
            return f.read() if text is None else f.write(text)
    except OSError as err:
        raise Fail("%s/%s: %s" % (CONTROL, name, err.strerror)) from err


@contextlib.contextmanager
def loaded(t):
    """The cases: family, name and rows of each."""
    t.need_module(MODULE)
    sh("modprobe", MODULE, "addr=" + LO4)
    try:
        yield [line.split(None, 2) for line in control("cases").splitlines()]
    finally:
        sh("modprobe", "-r", MODULE)


def complaint(name):
    """Runs a case; "" if it ends well."""
    control("run", name)
    result = control("result").strip()
    return "" if result == "ok" else result


class Held:
    """A queue pair of the kernel's, connected when it is told to."""

    def __enter__(self):
        self.file = open(CONTROL + "/held", "r+b", buffering=0)
        text = self.file.read(300).decode().strip()
        if not text.isdigit():
            raise Fail("no queue pair: " + text)
        self.num = int(text)
        return self

    def connect(self):
        """Connects it."""
        try:
            self.file.write(b"1")
        except OSError as err:
            self.file.seek(0)
            raise Fail("the kernel's connection: " +
                       self.file.read(300).decode().strip()) from err

    def __exit__(self, *_):
        self.file.close()
