# SPDX-License-Identifier: GPL-2.0
"""Connections: the packaged programs, loops, many at once, hostile TCP."""

import collections
import contextlib
import ctypes
import errno
import fcntl
import os
import re
import socket
import struct
import termios
import time

from rsiwtest import kmsg, mpa, stats
from rsiwtest.core import Fail, test
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.proc import listening
from rsiwtest.tools import ping, rping, stream
from rsiwtest.topo import IF_B, NS_A, NS_B, inside, objects, sh


def ucmatose(t, path, count):
    port = t.port()
    args = ["-p", port, "-c", count, "-C", 10]
    server = t.start("ucmatose", "-b", path.addr4, *args,
                     netns=path.server_ns)
    server.wait_listening(port)
    client = t.start("ucmatose", "-s", path.addr4, *args,
                     netns=path.client_ns)
    out = client.expect(t.left())
    if "return status 0" not in out:
        raise Fail("%s:\n%s" % (client, client.tail()))
    server.expect(t.left(30))


@test("ucmatose-10", cost=3)
def ucmatose_10(t):
    """ucmatose -c 10 on both paths."""
    for path in t.topo.paths:
        with t.sub(path.name):
            ucmatose(t, path, 10)


@test("ucmatose-500", cost=15)
def ucmatose_500(t):
    """ucmatose -c 500: that many connections of one process; fewer on a
    debugging kernel."""
    ucmatose(t, t.topo.wire, t.rounds(500))


@test("rdma-client-server", cost=4)
def rdma_client_server(t):
    """rdma_server and rdma_client: the synchronous API, inline data."""
    for path in t.topo.paths:
        with t.sub(path.name):
            port = t.port()
            server = t.start("rdma_server", "-s", path.addr4, "-p", port,
                             netns=path.server_ns)
            server.wait_listening(port)
            t.run("rdma_client", "-s", path.addr4, "-p", port,
                  netns=path.client_ns, timeout=20)
            server.expect(t.left(10))


@test("xclient-rc", cost=3)
def xclient(t):
    """rdma_xserver and rdma_xclient with RC queue pairs."""
    path, port = t.topo.wire, t.port()
    server = t.start("rdma_xserver", "-p", port, "-c", "r",
                     netns=path.server_ns)
    server.wait_listening(port)
    t.run("rdma_xclient", "-s", path.addr4, "-p", port, "-c", "r",
          netns=path.client_ns, timeout=20)
    server.expect(t.left(10))


@test("connect-500", cost=15)
def connect_500(t):
    """500 connects and disconnects in a row; fewer on a debugging kernel."""
    t.own("conns", t.topo.wire, "--count", t.rounds(500))


def late_acknowledgements(netns):
    """How often a namespace's TCP has acknowledged because time was over."""
    lines = sh("cat", "/proc/net/netstat", netns=netns).splitlines()
    names, values = (line.split() for line in lines if line.startswith("TcpExt:"))
    return int(values[names.index("DelayedACKs")])


@test("connect-acknowledged", cost=6, only_type="rsiw")
def connect_acknowledged(t):
    """What the side that connects sends first is acknowledged at once: if nothing else is sent, its
    FIN waits for that."""
    path, port, count = t.topo.wire, t.port(), 10
    server = t.start("rping", "-s", "-P", "-a", path.addr4, "-p", port, netns=path.server_ns)
    server.wait_listening(port)
    before = late_acknowledgements(path.server_ns)
    with inside(path.client_ns):
        for _ in range(count):
            with socket.create_connection((path.addr4, port), timeout=t.left(20)) as peer:
                mpa.ask_peer_to_peer(peer)
                peer.sendall(mpa.first_message())
                wait_until("TCP acknowledges", t.left(10), lambda: not unacknowledged(peer))
    late = late_acknowledgements(path.server_ns) - before
    if late > count // 3:
        raise Fail("%d acknowledgements came late, of %d connections" % (late, count))


def unacknowledged(sock):
    """How many octets the other side has not acknowledged."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


@test("connect-storm", cost=12)
def connect_storm(t):
    """Bursts of 50 connections, ended by one side, the other, and both."""
    for side in ("client", "server", "both"):
        with t.sub("disconnected by %s%s" % (
                side, " (L-CORE-3)" if side == "both" else "")):
            t.own("conns", t.topo.loopback, "--count", t.rounds(150), "--parallel", 50,
                  "--disconnect", side)


@contextlib.contextmanager
def one_queue():
    """All packets come from one processor, where programs and the kernel's work run meanwhile.

    Packets over lo or a veth pair wait in the queue of the processor that sends them. On a busy
    machine they may wait there while those of another one overtake them, which is the network's
    affair. Gives the processors that there are.
    """
    mask, all_of_them = "/sys/devices/virtual/workqueue/cpumask", os.sched_getaffinity(0)
    before, one = LOCAL.read(mask).strip(), min(all_of_them)
    try:
        LOCAL.write(mask, "%x" % (1 << one))
        os.sched_setaffinity(0, {one})
        yield all_of_them
    finally:
        os.sched_setaffinity(0, all_of_them)
        LOCAL.write(mask, before)


@test("connect-ordered", cost=15, only_type="rsiw")
def connect_ordered(t):
    """A listener is told of requests in the order of the calls, under load.

    Programs count on it: ib_send_bw with many queue pairs numbers both ends by it.
    """
    for path in t.topo.paths:
        with t.sub("32 calls at once on " + path.name), one_queue() as cpus:
            for cpu in cpus:
                t.start("taskset", "-c", cpu, "sh", "-c",
                        "while :; do :; done")
            t.own("conns", path, "--ordered", "--count", t.rounds(256), "--parallel", 32)
            t.reap()


@test("connect-observed", cost=15, only_type="rsiw")
def connect_observed(t):
    """Who looks at connections holds nothing up, whatever his priority."""
    for path in t.topo.paths:
        with t.sub(path.name), one_queue() as cpus:
            for cpu in cpus:
                t.start("taskset", "-c", cpu, "nice", "-n", 19, "sh", "-c",
                        "while :; do rdma resource show cm_id; done")
                t.start("taskset", "-c", cpu, "sh", "-c",
                        "while :; do :; done")
            t.own("conns", path, "--ordered", "--count", t.rounds(256),
                  "--parallel", 32, "--ping", 256)
            t.reap()


@test("qps-200", cost=10)
def qps_200(t):
    """200 connected queue pairs in one process, each used (mmap keys)."""
    for path in t.topo.paths:
        with t.sub(path.name):
            t.own("conns", path, "--count", 200, "--parallel", 200,
                  "--ping", 256)


@test("peer-death", cost=20)
def peer_death(t):
    """A process is killed in each state of a connection."""
    for name in t.run(t.bin("peerdeath"), "--list").split():
        t.own("peerdeath", t.topo.wire, "--only", name, timeout=40)


@test("give-up", cost=30, only_type="rsiw")
def give_up(t):
    """A client that gives up, or comes too early: an accept succeeds all the same (L-CORE-4)."""
    t.own("giveup", t.topo.wire)


@test("kill-perftest", cost=8)
def kill_perftest(t):
    """kill -9 of ib_write_bw and ib_send_bw in mid-transfer, either side."""
    path = t.topo.wire
    for tool in ("ib_write_bw", "ib_send_bw", "ib_read_bw"):
        for victim in ("server", "client"):
            server, client = stream(t, path, tool, 30)
            first, second = (server, client) if victim == "server" \
                else (client, server)
            # Whether the other one notices is its own affair; it must die.
            if not first.reap() or not second.reap():
                raise Fail("%s: kill -9 of the %s does not end it" % (
                    tool, victim))


@test("kill-accepted", cost=4, only_type="rsiw")
def kill_accepted(t):
    """A server that is killed while it waits for the peer's first message ends at once.

    It waits in the kernel: rdma_disconnect, as the end of its files, does so until the
    RDMA CM knows how the accept ended.
    """
    path, port = t.topo.wire, t.port()
    since = stats.Since(path.server_dev)
    with inside(path.client_ns), socket.socket() as peer:
        peer.bind((path.client4, 0))
        lines = "serve 0 20000 %d\ndisconnect 0" % peer.getsockname()[1]
        server = t.start(
            "sh", "-c", 'exec "$@" <<EOT\n%s\nEOT' % lines, "sh", t.bin("peer_ep"),
            "--addr", path.addr4, "--port", port, "--server-netns", path.server_ns,
            "--limit", int(t.left()))
        server.wait_output("ok", t.left(20))
        peer.settimeout(t.left(20))
        peer.connect((path.addr4, port))
        mpa.ask_peer_to_peer(peer)
        wait_until(lambda: "it waits:\n%s" % server.tail(), 10, lambda: "iw_cm" in
                   LOCAL.read("/proc/%d/wchan" % server.pid))
        server.kill()
        server.wait(t.left(40))
        # Then the time for the first message would have run out.
        if "conn_timed_out" in since.of(path.server_dev):
            raise Fail("it did not end before the driver gave the peer up")


def is_open(sock):
    """Whether the other side has neither closed nor reset the connection."""
    sock.setblocking(False)
    try:
        return sock.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def is_served_beside_noise(t, path, port, count):
    """Whether rping is served while each silent one of so many bare TCP connections is
    still open, so that it has waited for none of them. The driver gives them 15 s, which
    may be too little for many on a busy machine."""
    noise = (b"", b"GET / HTTP/1.0\r\n\r\n", b"MPA ID Req Frame",
             b"MPA ID Req Frame\x40\x01\x00", os.urandom(400),
             b"MPA ID Req Frame\x40\x01\xff\xff" + bytes(1000))
    with contextlib.ExitStack() as silent, inside(path.client_ns):
        socks = []
        for i in range(count):
            s = socket.create_connection((path.addr4, port), timeout=10)
            data = noise[i % len(noise)]
            if data:
                s.sendall(data)
            if i % 3:
                s.close()
            else:
                socks.append(silent.enter_context(s))
        ping(t, path.addr4, port, 1, netns=path.client_ns, timeout=60)
        return all(is_open(s) for s in socks)


@test("tcp-noise", cost=5)
def tcp_noise(t):
    """Bare TCP connections do not disturb a listener (T-42, T-42b)."""
    path, port = t.topo.wire, t.port()
    server = t.start("rping", "-s", "-P", "-a", path.addr4, "-p", port, "-V",
                     netns=path.server_ns)
    server.wait_listening(port)
    if not any(is_served_beside_noise(t, path, port, n) for n in (60, 30, 6)):
        raise Fail("a connect took as long as silent ones are given")
    ping(t, path.addr4, port, 20, "-V", netns=path.client_ns, timeout=20)
    if server.poll() is not None:
        raise Fail("the server ended:\n%s" % server.tail())


@test("log-limit", cost=6, only_type="rsiw")
def log_limit(t):
    """A peer has the kernel say something, but not as often as it likes."""
    path, port = t.topo.wire, t.port()
    server = t.start("rping", "-s", "-P", "-a", path.addr4, "-p", port,
                     netns=path.server_ns)
    server.wait_listening(port)
    log = kmsg.rested()
    with inside(path.client_ns), kmsg.Quiet(t, "bad Requests"):
        for _ in range(150):
            s = socket.create_connection((path.addr4, port), timeout=10)
            s.sendall(b"GET / HTTP/1.0\r\n\r\n" * 4)
            try:
                s.recv(1)
            except ConnectionResetError:
                pass
            s.close()
    if not any("bad MPA Request" in line for line in log.read()):
        raise Fail("not a word about bad Requests")


LEFT_OUT = re.compile(r"rsiw: (\S+): left out (\d+) lines about (.*)")


class Lines:
    """What the log says of the bad Requests of a stranger and the bad calls of a process to
    the server's device of a path."""

    def __init__(self, t, path):
        self.path, self.port = path, t.port()
        self.dev = path.server_dev

    def ask(self, count):
        """As a stranger."""
        with enter(self.path.client_ns):
            for _ in range(count):
                with socket.create_connection((self.path.addr4, self.port), timeout=10) as s:
                    s.sendall(b"GET / HTTP/1.0\r\n\r\n" * 4)
                    with contextlib.suppress(ConnectionResetError):
                        s.recv(1)

    def call(self, count):
        """As a process."""
        with enter(self.path.server_ns):
            for _ in range(count):
                taken_for(RDMA_PS_UDP, self.port, errno.EADDRINUSE)

    def told(self, lines, words):
        """How many lines say this of the device."""
        return sum("rsiw: %s: %s" % (self.dev, words) in line for line in lines)

    def left_out(self, lines):
        """How many lines were left out, by whom they are about."""
        sums = collections.Counter()
        for found in filter(None, map(LEFT_OUT.search, lines)):
            dev, count, who = found.groups()
            sums[who] += int(count) if dev == self.dev else 0
        return +sums


def enter(netns):
    return inside(netns) if netns else contextlib.nullcontext()


@test("log-authors", cost=14, only_type="rsiw")
def log_authors(t):
    """Who has much said in the log hides nobody else, and is told how much was left out (T-44).

    A process has its limit, strangers have theirs, and each device has its own.
    """
    flood = 4 * kmsg.BURST
    with contextlib.ExitStack() as stack:
        wire, loopback = (Lines(t, path) for path in t.topo.paths)
        for at in (wire, loopback):
            with enter(at.path.server_ns):
                stack.enter_context(wildcard(RDMA_PS_TCP, at.port))
        log = kmsg.rested()
        stack.callback(os.close, log.fd)
        start = time.monotonic()
        wire.call(flood)
        wire.ask(1)
        wire.ask(flood - 1)
        loopback.call(1)
        loopback.ask(1)
        took, lines = time.monotonic() - start, log.read()
        calls, asks = wire.told(lines, "cannot listen"), wire.told(lines, "bad MPA Request")
        for what, good in (("a stranger is told of beside a process", asks > 0),
                           ("another device is told of", loopback.told(lines, "cannot listen") == 1
                            and loopback.told(lines, "bad MPA Request") == 1)):
            t.subtests.append(("T-44 " + what, good, "" if good else "\n".join(lines)))
        for what, count in (("processes", calls), ("strangers", asks)):
            good = count <= kmsg.BURST * (int(took / kmsg.INTERVAL) + 2)
            t.subtests.append(("T-44 %s: %d of %d lines" % (what, count, flood), good, ""))
        # What was left out is told with the next line, once.
        time.sleep(kmsg.INTERVAL + 1)
        wire.call(1)
        wire.ask(1)
        lines += log.read()
        calls, asks = wire.told(lines, "cannot listen"), wire.told(lines, "bad MPA Request")
        want = {"processes": flood + 1 - calls, "who asks for connections": flood + 1 - asks}
        if wire.left_out(lines) != want:
            raise Fail("left out are %s, and not %s" % (wire.left_out(lines), want))
        # ... or at the end of the device.
        loopback.call(flood)
        sh("rdma", "link", "del", loopback.dev)
        lines = log.read()
        want = {"processes": flood - loopback.told(lines, "cannot listen")}
        if loopback.left_out(lines) != want:
            raise Fail("left out are %s, and not %s" % (loopback.left_out(lines), want))


@test("refused", cost=4)
def refused(t):
    """Nobody listens, a wildcard listener, and a port that is taken."""
    path = t.topo.wire
    # (rping waits for ever when rdma_connect itself reports the refusal.)
    rv = t.start("rdma_client", "-s", path.addr4, "-p", t.port(),
                 netns=path.client_ns)
    if rv.wait(t.left(20)) == 0:
        raise Fail("rdma_client without a server succeeds")
    port = t.port()
    server = t.start("rping", "-s", "-p", port, "-C", 5,
                     netns=path.server_ns)
    server.wait_listening(port)
    second = t.start("rping", "-s", "-p", port, "-C", 5, netns=NS_A)
    if second.wait(t.left(20)) == 0:
        raise Fail("two wildcard listeners on one port")
    ping(t, path.addr4, port, 5, netns=path.client_ns, timeout=20)
    server.expect(t.left(10))
    rping(t, path, count=5)


RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB = 0x0002, 0x0106, 0x0111, 0x013F


@contextlib.contextmanager
def wildcard(space, port):
    """Listens on an IPv4 wildcard port of a port space of the RDMA CM within; raises
    OSError."""
    lib = ctypes.CDLL("librdmacm.so.1", use_errno=True)
    lib.rdma_create_event_channel.restype = ctypes.c_void_p

    def call(name, *args):
        if getattr(lib, name)(*args):
            number = ctypes.get_errno()
            raise OSError(number, "%s: %s" % (name, os.strerror(number)))

    channel, cm_id = ctypes.c_void_p(lib.rdma_create_event_channel()), ctypes.c_void_p()
    if not channel:
        raise OSError(ctypes.get_errno(), "rdma_create_event_channel")
    with contextlib.ExitStack() as made:
        made.callback(lib.rdma_destroy_event_channel, channel)
        call("rdma_create_id", channel, ctypes.byref(cm_id), None, space)
        made.callback(call, "rdma_destroy_id", cm_id)
        call("rdma_bind_addr", cm_id,
             struct.pack("=H", socket.AF_INET) + struct.pack(">H12x", port))
        call("rdma_listen", cm_id, 4)
        yield


def taken_for(space, port, number):
    """Who listens at a port of a space is refused with this errno."""
    try:
        with wildcard(space, port):
            pass
    except OSError as e:
        if e.errno != number:
            raise Fail("%#x: %s" % (space, e)) from e
    else:
        raise Fail("%#x listens too" % space)


@test("port-spaces", cost=4, only_type="rsiw")
def port_spaces(t):
    """A wildcard port is one consumer's, whatever port space of the RDMA CM others name."""
    path, spaces = t.topo.wire, (RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB)
    for first in spaces:
        with t.sub("%#x first" % first), inside(path.server_ns):
            port = t.port()
            with wildcard(first, port):
                for other in spaces:
                    # The RDMA CM itself knows who is in one space.
                    taken_for(other, port, errno.EADDRNOTAVAIL if other == first
                              else errno.EADDRINUSE)
            with wildcard(first, port):
                pass


@test("netns-wildcard", cost=6, only_type="rsiw")
def netns_wildcard(t):
    """Wildcard listeners on the same port in two network namespaces."""
    path, port = t.topo.wire, t.port()

    def serve(ns):
        server = t.start("rping", "-s", "-p", port, "-V", "-C", 20, netns=ns)
        server.wait_listening(port)
        return server

    def client(addr, ns):
        ping(t, addr, port, 20, "-V", netns=ns, timeout=20)

    with t.sub("two listeners"):
        servers = [serve(NS_A), serve(NS_B)]
        client(path.addr4, NS_B)
        client(path.client4, NS_A)
        for server in servers:
            server.expect(t.left(10))
    with t.sub("a device that comes later"):
        sh("rdma", "link", "del", path.client_dev)
        first = serve(NS_A)
        t.topo.add_link(path.client_dev, IF_B, netns=NS_B)
        second = serve(NS_B)
        client(path.client4, NS_A)
        second.expect(t.left(10))
        client(path.addr4, NS_B)
        first.expect(t.left(10))
    with t.sub("a device that comes later, when TCP has the port"):
        sh("rdma", "link", "del", path.client_dev)
        without = t.start("rping", "-s", "-p", port, netns=NS_B)
        wait_until("%s to listen" % without, t.left(10), lambda: any(
            (one.get("pid"), one.get("state")) == (without.pid, "LISTEN")
            for one in objects("cm_id")))
        with inside(NS_B):
            taken = socket.create_server(("", port))
        with taken:
            t.topo.add_link(path.client_dev, IF_B, netns=NS_B)
        port = t.port()
        server = serve(NS_A)
        client(path.addr4, NS_B)
        server.expect(t.left(10))


def one_transfer(t, addr, port, ns=None):
    """Exit status of a client of `one_server`."""
    client = t.start("rdma_client", "-s", addr, "-p", port, netns=ns)
    return client.wait(t.left(20))


def one_server(t, addr, port, ns=None):
    """Serves one client."""
    server = t.start("rdma_server", "-s", addr, "-p", port, netns=ns)
    server.wait_listening(port)
    return server


@test("netns-loopback", cost=12, only_type="rsiw")
def netns_loopback(t):
    """127.0.0.1 and ::1 are those of the caller's network namespace.

    rdma_cm takes them for addresses of all devices: it listens on each, and
    connects by the first one, which here is one of the initial namespace.
    """
    t.topo.add_link("rsiw_lo_b", "lo", netns=NS_B)
    try:
        for addr in ("127.0.0.1", "::1"):
            port = t.port()
            with t.sub("a listener on %s is in its own namespace" % addr):
                one_server(t, addr, port, NS_B)
                if listening(os.getpid(), port):
                    raise Fail("it listens in another one as well")
            t.reap()
            with t.sub("the same port of %s in two namespaces" % addr):
                elsewhere = one_server(t, addr, port, NS_B)
                server = one_server(t, addr, port)
                if one_transfer(t, addr, port):
                    raise Fail("no connection")
                server.expect(t.left(10))
                if elsewhere.poll() is not None:
                    raise Fail("the other one ended:\n%s" % elsewhere.tail())
            t.reap()
    finally:
        sh("rdma", "link", "del", "rsiw_lo_b")
    with t.sub("loopback addresses of others are out of reach"):
        for addr in ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"):
            listener = "::1" if addr == "::1" else "127.0.0.1"
            if addr == "127.1.2.3":
                listener = addr
            port = t.port()
            server = one_server(t, listener, port)
            if not one_transfer(t, addr, port, NS_B):
                raise Fail("%s reaches it" % addr)
            if server.poll() is not None:
                raise Fail("the server ended:\n%s" % server.tail())
            t.reap()
    with t.sub("two devices in one namespace"):
        sh("ip", "link", "add", "rsd1", "type", "dummy")
        try:
            sh("ip", "link", "set", "rsd1", "up")
            t.topo.add_link("rsiw_second", "rsd1")
            for addr in ("127.0.0.1", "::1"):
                port = t.port()
                server = one_server(t, addr, port)
                if one_transfer(t, addr, port):
                    raise Fail("no connection to " + addr)
                server.expect(t.left(10))
        finally:
            t.reap()
            sh("ip", "link", "del", "rsd1")
