# SPDX-License-Identifier: GPL-2.0
"""What tests do to the machine they run on, or to the one of their peer.

Everything takes and returns plain values, so that a peer in another guest can
be asked for the same over XML-RPC (see agent and peer).
"""

import os
import time

from . import topo
from .core import Fail
from .topo import make_nodes, sh, status


class Machine:
    """This machine."""

    def sh(self, *argv, timeout=60):
        """A short administrative command; returns its output."""
        return sh(*argv, timeout=timeout)

    def status(self, *argv, timeout=60):
        """Exit status of a command, and all it said."""
        return status(*argv, timeout=timeout)

    def write(self, path, text):
        """Writes `text` in one go, as control files want it."""
        try:
            fd = os.open(path, os.O_WRONLY)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        except OSError as err:
            raise Fail("cannot write '%s' to %s: %s" % (
                text, path, err)) from None

    def query(self, path, text):
        """Writes `text` and reads the answer through the same descriptor."""
        try:
            fd = os.open(path, os.O_RDWR)
            try:
                os.write(fd, text.encode())
                return os.read(fd, 4096).decode()
            finally:
                os.close(fd)
        except OSError as err:
            raise Fail("cannot ask %s for '%s': %s" % (
                path, text, err)) from None

    def read(self, path):
        """Contents of a file; "" when it is not there."""
        try:
            with open(path) as f:
                return f.read()
        except OSError:
            return ""

    def exists(self, path):
        return os.path.exists(path)

    def listdir(self, path):
        """Names in a directory; none when it is not there."""
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def mkdir(self, path):
        os.makedirs(path, exist_ok=True)

    def symlink(self, to, path):
        try:
            os.symlink(to, path)
        except OSError as err:
            raise Fail("cannot link %s to %s: %s" % (path, to, err)) from None

    def remove(self, path):
        """A file, link or directory, if it is there."""
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as err:
            raise Fail("cannot remove %s: %s" % (path, err)) from None

    def nodes(self):
        """Makes the character devices of new RDMA devices."""
        make_nodes()

    def modprobe(self, *names):
        self.sh("modprobe", "-a", *names, timeout=120)


LOCAL = Machine()


def wait_until(what, seconds, condition):
    """Waits until `condition` returns something true, and returns it.

    On a debugging kernel it may take longer than `seconds`. `what` is what is
    waited for, or a function that says it when it did not come.
    """
    seconds *= topo.slow
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Fail("not within %.0f s: %s"
                       % (seconds, what() if callable(what) else what))
        time.sleep(0.1)
