# SPDX-License-Identifier: GPL-2.0
"""Child processes: each a session of its own, so that none is left behind."""

import contextlib
import errno
import glob
import os
import signal
import subprocess
import sys
import time

from .core import Fail, TimedOut

NETNS_DIR = "/run/netns"


class Proc:
    """A started program; its output goes to a file."""

    def __init__(self, argv, log, netns=None, env=None, cwd=None, slow=1):
        self.slow = slow            # how many times as long all takes here
        self.argv = [str(a) for a in argv]
        self.log = log
        self._ns = None

        def enter():
            if self._ns is not None:
                os.setns(self._ns, os.CLONE_NEWNET)

        if netns:
            self._ns = os.open(os.path.join(NETNS_DIR, netns), os.O_RDONLY)
        try:
            with open(log, "wb") as out:
                self.popen = subprocess.Popen(
                    self.argv, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=subprocess.STDOUT, start_new_session=True,
                    preexec_fn=enter if netns else None, cwd=cwd,
                    env={**os.environ, **(env or {})})
        except FileNotFoundError as err:
            raise Fail("cannot start %s: %s" % (self.argv[0], err)) from err
        finally:
            if self._ns is not None:
                os.close(self._ns)
        self.pid = self.popen.pid

    def __str__(self):
        return " ".join([os.path.basename(self.argv[0])] + self.argv[1:])

    def forget(self):
        """Drops its output."""
        os.unlink(self.log)

    def poll(self):
        """Exit status, or None while it runs."""
        return self.popen.poll()

    def output(self):
        """What it has printed so far."""
        try:
            with open(self.log, "rb") as f:
                return f.read().decode(errors="replace")
        except OSError as err:
            # A shared directory may say so of a file that just grows.
            if err.errno != errno.ENODATA:
                raise
            return ""

    def wait(self, timeout):
        """Exit status; TimedOut when it takes longer."""
        try:
            return self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimedOut("%s does not end within %.0f s; its output:\n%s" %
                           (self, timeout, self.tail())) from None

    def expect(self, timeout, *statuses):
        """Waits, checks the exit status (0 unless given), returns the output."""
        rv = self.wait(timeout)
        if rv not in (statuses or (0,)):
            raise Fail("%s ends with status %d; its output:\n%s" %
                       (self, rv, self.tail()))
        return self.output()

    def wait_output(self, text, timeout):
        """Waits until it has printed `text`."""
        end = time.monotonic() + timeout
        while text not in self.output():
            if self.poll() is not None and text not in self.output():
                raise Fail("%s ends with status %s before it says '%s':\n%s" %
                           (self, self.poll(), text, self.tail()))
            if time.monotonic() > end:
                raise TimedOut("%s does not say '%s' within %.0f s:\n%s" %
                               (self, text, timeout, self.tail()))
            time.sleep(0.05)

    def wait_listening(self, port, timeout=15, is_through=None):
        """Waits until a TCP socket of its network namespace listens. A wildcard has one for each
        network namespace or VRF, made one by one in a call whose end is waited for:
        `is_through` says whether it has ended; if it is not given, the program rests then."""
        end = time.monotonic() + timeout * self.slow
        while True:
            found = self.listeners(port)
            if found and (is_through() if is_through else
                          not any(map(is_wildcard, found)) or not self.is_calling()):
                return
            if self.poll() is not None:
                raise Fail("%s ends with status %s instead of listening:\n%s" %
                           (self, self.poll(), self.tail()))
            if time.monotonic() > end:
                raise TimedOut("%s does not listen on port %d:\n%s" %
                               (self, port, self.tail()))
            time.sleep(0.03)

    def listeners(self, port):
        """Where sockets listen on `port` where it runs."""
        return listening(self.pid, port)

    def is_calling(self):
        """Whether it may be about to listen for more."""
        return is_calling(self.pid)

    def tail(self, head=5, tail=20):
        """The beginning and the end of its output, indented."""
        lines = self.output().splitlines()
        if len(lines) > head + tail:
            lines[head:-tail] = ["..."]
        return "\n".join("  | " + line[:200] for line in lines)

    def kill(self, sig=signal.SIGKILL):
        """Signals the whole session."""
        try:
            os.killpg(self.pid, sig)
        except ProcessLookupError:
            pass

    def reap(self, timeout=10):
        """Kills the session, and waits for all of it; False when it does not even die of that."""
        end = time.monotonic() + timeout
        self.kill()
        try:
            self.popen.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        # What it has started is waited for by process 1, and gone then.
        while lives(self.pid):
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return True


def lives(group):
    """Whether a process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def listening(pid, port):
    """The addresses at which sockets listen on `port` in the namespace of `pid`, in the kernel's
    hexadecimal form."""
    want, found = "%04X" % port, []
    for name in ("tcp", "tcp6"):
        try:
            with open("/proc/%d/net/%s" % (pid, name)) as f:
                for line in f:
                    field = line.split()
                    addr, _, at = field[1].partition(":")
                    if field[3] == "0A" and at == want:
                        found.append(addr)
        except OSError:
            pass
    return found


def is_wildcard(addr):
    """Whether an address of `listening` is any of the host's."""
    return not addr.strip("0")


# The call by which librdmacm asks for anything, and its command to listen.
WRITE = {"x86_64": "1", "aarch64": "64"}[os.uname().machine]
LISTEN = 7


def is_within_listen(task):
    """Whether a thread (of /proc) is in the call that makes a socket listen, or at work."""
    with open(task + "/syscall") as f:
        call = f.read().split()
    if call[0] != WRITE:
        return call[0] == "running"
    with open(task + "/mem", "rb", buffering=0) as mem:
        mem.seek(int(call[2], 16))
        return int.from_bytes(mem.read(4), sys.byteorder) == LISTEN


def children(pid):
    """What a process has started. Not all kernels list that by themselves."""
    for stat in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(stat) as f:
            # The name, in parentheses, may be anything.
            if int(f.read().rpartition(")")[2].split()[1]) == pid:
                yield int(stat.split("/")[2])


def is_calling(pid):
    """Whether a process, or one that it has started, may be about to listen for more: a wildcard
    listens for one device after the other, in one call."""
    try:
        tasks = glob.glob("/proc/%d/task/*" % pid)
        if any(is_within_listen(task) for task in tasks):
            return True
        if any(is_calling(child) for child in children(pid)):
            return True
    except (OSError, IndexError):
        # One has just ended.
        return True
    return False
