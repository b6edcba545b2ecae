# SPDX-License-Identifier: GPL-2.0
"""The port mapper of rdma-core (iwpmd), and services whose port of TCP it chooses."""

import contextlib
import os
import socket
import tempfile

from .core import Fail
from .machine import LOCAL, wait_until
from .topo import sh

# The core asks for the daemon's number with a request that it completes only after it
# has sent it (iwpm_register_pid), and an answer in between makes it follow a null pointer.
# Whoever asks first runs on the daemon's processor and is not preempted by it, not even
# after a second without a pause, when the scheduler lets others have a part.
CPU = ("taskset", "-c", "0")
FIRST = CPU + ("chrt", "-f", "1")
OTHERS_PART = "/sys/kernel/debug/sched/fair_server/cpu0/runtime"


def ports_of_tcp(netns=None):
    """Ports with a TCP listener in a network namespace, the first one if none is named."""
    return {int(line.split()[3].rsplit(":", 1)[1])
            for line in sh("ss", "-Htln", netns=netns).splitlines()}


def serve(t, *argv, netns=None):
    """Starts a program that listens for RDMA, and waits until it does, at whatever port of
    TCP. The state of its cm_id says so before the core has asked for that port."""
    before = ports_of_tcp(netns)
    proc = t.start(*argv, netns=netns)

    def listens():
        if proc.poll() is not None:
            raise Fail("%s ends with status %s instead of listening:\n%s" %
                       (proc, proc.poll(), proc.tail()))
        return ports_of_tcp(netns) - before
    wait_until("%s to listen" % proc, 30, listens)
    return proc


@contextlib.contextmanager
def nothing_for_others():
    """What is to run first runs until it sleeps."""
    if not LOCAL.exists(OTHERS_PART):
        yield
        return
    before = LOCAL.read(OTHERS_PART).strip()
    LOCAL.write(OTHERS_PART, "0")
    try:
        yield
    finally:
        LOCAL.write(OTHERS_PART, before)


@contextlib.contextmanager
def daemon(t, addr):
    """iwpmd, while it is needed, known to the core, which serves the device of `addr`."""
    with tempfile.TemporaryDirectory() as folder, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
        path = os.path.join(folder, "ready")
        ready.bind(path)
        ready.settimeout(t.left(30))
        proc = t.start(*CPU, "/usr/sbin/iwpmd", "--systemd", env={"NOTIFY_SOCKET": path})
        try:
            if ready.recv(100) != b"READY=1":
                raise Fail("iwpmd is not ready:\n%s" % proc.tail())
            with nothing_for_others():
                serve(t, *FIRST, "rping", "-s", "-a", addr, "-p", t.port()).reap(10)
            yield proc
        finally:
            proc.reap(10)


@contextlib.contextmanager
def poser(t, *args):
    """A process of nobody that says it is the port mapper."""
    proc = t.start(t.bin("mapper"), *args)
    try:
        proc.wait_output("READY", t.left(20))
        yield proc
    finally:
        proc.reap(10)
