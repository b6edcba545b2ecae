# SPDX-License-Identifier: GPL-2.0
"""Storms: more connections, errors and slow peers than anyone should have."""

import contextlib
import errno
import os
import signal
import socket
import time
from statistics import median

from rsiwtest.core import Fail, test
from rsiwtest.kmsg import Quiet
from rsiwtest.tools import ping, rping
from rsiwtest.topo import inside, sh

# Seconds, a little less than the driver gives a peer for its Request.
SILENCE = 14


def server_of(t, path):
    """An rping server for any number of clients; its port."""
    port = t.port()
    proc = t.start("rping", "-s", "-P", "-a", path.addr4, "-p", port, "-V",
                   "-C", 5, netns=path.server_ns)
    proc.wait_listening(port)
    return proc, port


def connect_times(t, path, port, count=10):
    """Seconds that rping takes for a connection with five exchanges."""
    times = []
    for _ in range(count):
        start = time.monotonic()
        ping(t, path.addr4, port, 5, "-V", netns=path.client_ns, timeout=30)
        times.append(time.monotonic() - start)
    return times


def told(times):
    if not times:
        return "none"
    times = sorted(times)
    return "median %.3f s, slowest %.3f s" % (median(times), times[-1])


@test("storm-slow-peers", cost=40, long=True)
def slow_peers(t):
    """Normal clients are served beside 300 peers of an octet a second.

    S-5042-13, T-42
    """
    path = t.topo.wire
    server, port = server_of(t, path)
    alone = connect_times(t, path, port)
    request = b"MPA ID Req Frame\x40\x01\x02\x00" + bytes(512)
    with Quiet(t, "slow peers"), contextlib.ExitStack() as socks:
        slow, made = [], []
        with inside(path.client_ns):
            for _ in range(300):
                made.append(time.monotonic())
                slow.append(socks.enter_context(
                    socket.create_connection((path.addr4, port), timeout=10)))
        # The driver has taken all of them when it takes one more.
        connect_times(t, path, port, 1)
        # As many as a listener keeps that have said nothing yet; the oldest ones go first.
        kept = [s for s in slow if not closed(s)]
        # Those that have used up their time are gone, too.
        young = sum(1 for when in made[-100:] if time.monotonic() < when + SILENCE)
        t.subtests.append(("%d of 300 were kept" % len(kept),
                           young <= len(kept) <= 128, ""))
        beside, sent, end = [], 0, time.monotonic() + t.left(60)
        # Each has its own 15 s, however much it says.
        while there := [s for s in kept if not closed(s)]:
            if time.monotonic() > end:
                raise Fail("%d of 300 slow peers are still connected" % len(there))
            for s in there:
                with contextlib.suppress(OSError):      # closed by now, as it may be
                    s.send(request[sent:sent + 1], socket.MSG_NOSIGNAL)
            sent += 1
            times = connect_times(t, path, port, 1)
            # What waits for them to go is served when they are gone.
            if not all(closed(s) for s in there):
                beside += times
            t.forget()
            time.sleep(0.5)
    t.subtests.append(("S-5042-13 T-42 %d clients were served beside slow peers" %
                       len(beside), bool(beside), ""))
    print("# alone %s; beside slow peers %s" % (told(alone), told(beside)))
    if server.poll() is not None:
        raise Fail("the server ended:\n%s" % server.tail())


@test("storm-idle", cost=60, long=True)
def idle(t):
    """Others are served beside processes of least priority that connect (T-42).

    All processors are busy, so that they stand still wherever they are, also
    inside of the driver.
    """
    path = t.topo.wire
    server, port = server_of(t, path)
    hogs = [t.start("sh", "-c", "while :; do :; done")
            for _ in range(os.cpu_count())]
    alone = connect_times(t, path, port, 8)
    storm = [t.start("chrt", "--idle", "0", t.bin("conns"), *path.args(),
                     "--port", t.port(), "--count", 100000, "--parallel", 8,
                     "--limit", int(t.left(200))) for _ in range(4)]
    beside = connect_times(t, path, port, 16)
    for proc in storm + hogs + [server]:
        if proc.poll() is not None:
            raise Fail("%s ended:\n%s" % (proc, proc.tail()))
    for proc in hogs + storm:
        proc.reap()
    # All 16 were served, and the storm went on beside them.
    print("# alone %s; beside the storm %s" % (told(alone), told(beside)))


def closed(sock):
    """Whether the other side has closed it."""
    sock.setblocking(False)
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


@test("storm-refused", cost=30, long=True)
def refused(t):
    """2,500 refused connections that their peer does not close.

    A refusal waits for the peer's FIN, lest the Reply be lost; many do not.
    """
    path = t.topo.wire
    server, port = server_of(t, path)
    server.popen.send_signal(signal.SIGSTOP)
    request = b"MPA ID Req Frame\x40\x01\x00\x00"
    waiting, socks = 0, []
    with Quiet(t, "refused connections"):
        with inside(path.client_ns):
            for i in range(2500):
                s = socket.create_connection((path.addr4, port), timeout=20)
                s.sendall(request)
                socks.append(s)
                if i % 250 == 249:
                    waiting = max(waiting, fin_wait(path.server_ns, port))
        for s in socks:
            s.close()
        server.popen.send_signal(signal.SIGCONT)
        rping(t, path, count=20)
    t.subtests.append(("T-42 at most %d wait for the peer" % waiting,
                       0 < waiting <= 1100, ""))


def fin_wait(netns, port):
    """Connections to a port that wait for the peer's FIN."""
    table = sh("cat", "/proc/net/tcp", netns=netns)
    return sum(1 for line in table.splitlines()[1:]
               if line.split()[1].endswith(":%04X" % port) and
               line.split()[3] in ("04", "05"))


@test("storm-log", cost=40, long=True)
def log(t):
    """3,000 bad set-ups leave a bounded number of lines (T-44)."""
    path = t.topo.wire
    server, port = server_of(t, path)
    noise = (b"GET / HTTP/1.0\r\n\r\n" * 3, b"MPA ID Req Frame",
             b"MPA ID Req Frame\x40\x07\x00\x00", os.urandom(400),
             b"MPA ID Req Frame\x40\x01\xff\xff" + bytes(1000),
             b"MPA ID Rep Frame\x40\x01\x00\x00")
    with Quiet(t, "3000 bad set-ups"):
        with inside(path.client_ns):
            for i in range(3000):
                s = socket.create_connection((path.addr4, port), timeout=20)
                try:
                    s.sendall(noise[i % len(noise)])
                    if i % 2:
                        s.shutdown(socket.SHUT_WR)
                except OSError as err:
                    if err.errno not in (errno.ECONNRESET, errno.EPIPE,
                                         errno.ENOTCONN):
                        raise
                s.close()
        connect_times(t, path, port, 3)
    if server.poll() is not None:
        raise Fail("the server ended:\n%s" % server.tail())


@test("storm-abrupt", limit=600, cost=120, long=True)
def abrupt(t):
    """5,000 connections that end in every way but the usual one."""
    for path in t.topo.paths:
        # Of each device a process, its peer, and who asks for connections.
        authors = 3 * len({path.server_dev, path.client_dev})
        with t.sub("S-5042-13 V-ST-35 2500 abrupt ends on " + path.name), \
                Quiet(t, "abrupt ends on " + path.name, authors):
            t.own("abrupt", path, "--count", 2500)
        rping(t, path, count=20)


@test("abrupt", cost=5)
def abrupt_few(t):
    """100 connections that end abruptly, at any moment, by either side."""
    t.own("abrupt", t.topo.wire, "--count", 100, "--batch", 25, "--seed", 1)


@test("storm-qps-1000", cost=40, long=True)
def qps_1000(t):
    """1,000 connected queue pairs in one process, each used, twice."""
    t.own("conns", t.topo.wire, "--count", 2000, "--parallel", 1000,
          "--ping", 256)
