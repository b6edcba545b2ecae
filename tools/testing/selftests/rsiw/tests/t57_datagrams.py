# SPDX-License-Identifier: GPL-2.0
"""Unreliable datagrams, which our own library has."""

import contextlib
import ipaddress
import os
import random
import socket
import struct
import zlib

from rsiwtest import kmsg, stats, tls
from rsiwtest.core import Fail, Skip, test
from rsiwtest.faults import has
from rsiwtest.machine import wait_until
from rsiwtest.pingpong import Pingpong, gid_of, pingpongs, wait_link_local
from rsiwtest.probes import watched
from rsiwtest.tools import perftest
from rsiwtest.topo import IF_A, IF_B, NS_A, NS_B, Path, sh

# Of UDP, at both ends.
PORT = 4791
# Nobody has this address, nor the two behind it, on the wire.
SILENT = "10.77.0.201"


@test("datagrams", cost=20, only_type="rsiw")
def datagrams(t):
    """libibverbs' own example, with its default arguments and others."""
    wait_link_local()
    with t.library("rsiw"):
        for path in t.topo.paths:
            pingpongs(t, path, "ibv_ud_pingpong")


@test("datagrams-perftest", cost=40, only_type="rsiw")
def datagrams_perftest(t):
    """perftest with datagrams, for which it wants devices of InfiniBand."""
    with t.library("rsiw-infiniband"):
        for path in (t.topo.wire, t.topo.loopback):
            with t.sub("ib_send_lat, %s" % path.name):
                perftest(t, path, "ib_send_lat", 64, 300, "-c", "UD", gid=1)
            with t.sub("ib_send_bw, %s" % path.name):
                perftest(t, path, "ib_send_bw", 1024, 1000, "-c", "UD", gid=1)
            with t.sub("ib_send_bw of 8 queue pairs, over IPv6, %s" % path.name):
                perftest(t, path, "ib_send_bw", 64, 500, "-c", "UD", gid=2, qps=8)


@contextlib.contextmanager
def wire_to_rxe(t):
    """Both directions of the wire, with a device of rxe at one end, that speaks RoCEv2."""
    t.need_module("rdma_rxe")
    wire = t.topo.wire
    t.topo.changed = True
    sh("rdma", "link", "del", wire.client_dev)
    t.topo.add_link("rxe_b", IF_B, NS_B, "rxe")
    try:
        yield (Path("to rxe", NS_A, NS_B, wire.server_dev, "rxe_b", wire.addr4, wire.addr6,
                    wire.client4),
               Path("from rxe", NS_B, NS_A, "rxe_b", wire.server_dev, wire.client4, None,
                    wire.addr4))
    finally:
        t.reap()
        sh("rdma", "link", "del", "rxe_b")
        sh("modprobe", "-r", "rdma_rxe")


@test("datagrams-rxe", cost=40, only_type="rsiw", packaged=True)
def rxe(t):
    """The other end is a device of RoCEv2."""
    with t.library("rsiw-infiniband"), wire_to_rxe(t) as paths:
        for path in paths:
            since = stats.Since(t.topo.dev_a)
            for gid in (1, 2):
                for size in (1, 999, 1024):
                    with t.sub("ibv_ud_pingpong of %d octets, GID %d, %s" % (
                            size, gid, path.name)):
                        Pingpong(t, path, "ibv_ud_pingpong", gid, "-n", t.rounds(200), "-s",
                                 size, "-c").finish()
            with t.sub("ib_send_lat, %s" % path.name):
                perftest(t, path, "ib_send_lat", 64, 300, "-c", "UD", gid=1)
            with t.sub("ib_send_bw, %s" % path.name):
                perftest(t, path, "ib_send_bw", 1024, 500, "-c", "UD", gid=2)
            dropped = since.of(t.topo.dev_a).get("datagrams_dropped")
            if dropped:
                raise Fail("%d datagrams were dropped" % dropped)


@test("datagrams-own", limit=600, cost=30, only_type="rsiw")
def own(t):
    """The states, what can be sent, what is refused, what is lost, and what ends a queue pair."""
    args = ("--messages", t.rounds(10000), "--rounds", t.rounds(40))
    with t.library("rsiw"):
        for path in t.topo.paths:
            silent = ("--silent", SILENT) if path == t.topo.wire else ()
            t.own("datagrams", path, *args, *silent)
        # Over IPv6; the last one counts.
        t.own("datagrams", t.topo.wire, *args, "--addr", t.topo.wire.addr6)


# ---- strangers -------------------------------------------------------------------

# Linux' numbers, which not every socket module has.
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
SEND, SEND_IMM = 0x64, 0x65
SOURCE_QP = 0x123456


def transport(qpn, qkey, message=b"", opcode=SEND, immediate=b"", pad=None, flags=0x40,
              version=0, pkey=0xffff, reserved=0):
    """A packet up to the ICRC: BTH, DETH, immediate data, message and pad."""
    pad = -len(message) % 4 if pad is None else pad
    return struct.pack(">BBHIIII", opcode, flags | pad << 4 | version, pkey,
                       reserved << 24 | qpn, 77, qkey, SOURCE_QP) + \
        immediate + message + bytes(-len(message) % 4)


def icrc(source, dest, octets):
    """The ICRC of what goes from one address and port to another, by annex A17 of the InfiniBand
    Architecture Specification: what routers may change counts as ones, and so does a header of
    InfiniBand's link that is not there."""
    udp_len = 8 + len(octets) + 4
    if ":" in dest[0]:
        ip = struct.pack(">IHBB", 0x6fffffff, udp_len, socket.IPPROTO_UDP, 0xff)
        family = socket.AF_INET6
    else:
        # The kernel sets DF, and numbers no packet that cannot be fragmented.
        ip = struct.pack(">BBHHHBBH", 0x45, 0xff, 20 + udp_len, 0, 0x4000, 0xff,
                         socket.IPPROTO_UDP, 0xffff)
        family = socket.AF_INET
    ip += socket.inet_pton(family, source[0]) + socket.inet_pton(family, dest[0])
    udp = struct.pack(">HHHH", source[1], dest[1], udp_len, 0xffff)
    bth = octets[:4] + b"\xff" + octets[5:]
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip + udp + bth))


class Stranger:
    """A socket from which packets go to the port of datagrams of an address, which is his own."""

    def __init__(self, addr):
        self.dest = (addr, PORT)
        self.sock = socket.socket(socket.AF_INET6 if ":" in addr else socket.AF_INET,
                                  socket.SOCK_DGRAM)
        if ":" not in addr:
            self.sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self.sock.bind((addr, 0))

    def close(self):
        self.sock.close()

    def sealed(self, octets):
        """The same with the right ICRC."""
        return octets + icrc(self.sock.getsockname(), self.dest, octets)

    def send(self, packet):
        """Sends octets as they are."""
        self.sock.sendto(packet, self.dest)

    def set_ip(self, option, value):
        """Sets an option of IPv4."""
        self.sock.setsockopt(socket.IPPROTO_IP, option, value)


class Waiting:
    """A program that waits for what strangers send."""

    def __init__(self, t, path):
        self.t, self.path = t, path
        self.proc = t.start(t.bin("datagrams"), *path.args(), "--wait", int(t.left(100) * 1000),
                            "--limit", 200 * t.env.slow)
        self.proc.wait_output("# waits:", t.left(20))
        waits = next(li for li in self.proc.output().splitlines() if "# waits:" in li)
        self.qpn, self.qkey, self.mtu = map(int, waits.split()[2:])
        self.since = stats.Since(path.server_dev)
        self.wrong = 0              # packets so far that are to be dropped
        self.right = []             # lines that it is to say

    def to(self, *args, **values):
        """A packet for it, up to the ICRC."""
        return transport(self.qpn, self.qkey, *args, **values)

    def counts(self):
        """Datagrams that were dropped since it waits, and that it was given."""
        now = self.since.of(self.path.server_dev)
        return now.get("datagrams_dropped", 0), now.get("rx_datagrams", 0)

    def wait_counts(self):
        """Waits until all are counted that were sent so far, and each once."""
        want = (self.wrong, len(self.right))
        wait_until(lambda: "dropped and received are %s, not %s" % (self.counts(), want), 10,
                   lambda: sum(self.counts()) >= sum(want))
        if self.counts() != want:
            raise Fail("dropped and received are %s, not %s" % (self.counts(), want))

    def drops(self, stranger, *packets):
        """These are not for it, nor for anybody."""
        for packet in packets:
            stranger.send(packet)
        self.wrong += len(packets)
        self.wait_counts()

    def takes(self, stranger, packet, message, immediate="-"):
        """This one arrives as that message."""
        gid = ipaddress.ip_address(stranger.dest[0])
        shown = "::ffff:%s" % gid if gid.version == 4 else str(gid)
        self.right.append("# message: %s %d %d %s =%s" % (
            shown, SOURCE_QP, len(message), immediate, message[:32].hex()))
        stranger.send(packet)
        self.wait_counts()

    def finish(self, stranger):
        """The last message; the program must have had these, and no others."""
        self.takes(stranger, stranger.sealed(self.to(b"over")), b"over")
        out = self.proc.expect(self.t.left(30))
        found = [li for li in out.splitlines() if li.startswith("# message:")]
        if found != self.right:
            raise Fail("it had\n%s\ninstead of\n%s" % ("\n".join(found), "\n".join(self.right)))
        if "# came: %d" % len(self.right) not in out:
            raise Fail(out)


def let_in(t, waiting, v4, v6):
    """What the program is to get."""
    text = b"from a stranger"
    for name, octets, message, immediate in (
            ("a message", waiting.to(text), text, "-"),
            ("none at all", waiting.to(), b"", "-"),
            ("one octet", waiting.to(b"x"), b"x", "-"),
            ("with immediate data", waiting.to(text, SEND_IMM, b"\1\2\3\4"), text, "0x1020304"),
            ("immediate data alone", waiting.to(b"", SEND_IMM, b"\1\2\3\4"), b"", "0x1020304"),
            ("the longest", waiting.to(bytes(waiting.mtu)), bytes(waiting.mtu), "-"),
            ("another migration state", waiting.to(text, flags=0), text, "-"),
            ("a limited member of the partition", waiting.to(text, pkey=0x7fff), text, "-"),
            ("what routers set in the BTH", waiting.to(text, reserved=0xc0), text, "-")):
        with t.sub("right: " + name):
            waiting.takes(v4, v4.sealed(octets), message, immediate)
        with t.sub("right: " + name + ", over IPv6"):
            waiting.takes(v6, v6.sealed(octets), message, immediate)
    with t.sub("right: another traffic class and hop limit"):
        v4.set_ip(socket.IP_TOS, 0x28)
        v4.set_ip(socket.IP_TTL, 9)
        waiting.takes(v4, v4.sealed(waiting.to(text)), text)


def keep_out(t, waiting, stranger):
    """What nobody is to get."""
    text = b"from a stranger"
    right = stranger.sealed(waiting.to(text))
    seal = stranger.sealed
    with t.sub("another ICRC"):
        waiting.drops(stranger, right[:-1] + bytes([right[-1] ^ 1]), right[:-4] + bytes(4))
    with t.sub("each octet damaged, but for the one that routers may change"):
        waiting.drops(stranger, *(right[:at] + bytes([right[at] ^ 0x20]) + right[at + 1:]
                                  for at in range(len(right)) if at != 4))
    with t.sub("cut at each length"):
        waiting.drops(stranger, *(right[:at] for at in range(len(right))))
    with t.sub("cut at each length of the headers, and then sealed"):
        waiting.drops(stranger, *(seal(right[:at]) for at in range(5, 20)))
    with t.sub("immediate data that are cut, and then sealed"):
        waiting.drops(stranger, *(seal(waiting.to(b"", SEND_IMM, b"\1\2\3\4")[:at])
                                  for at in range(20, 24)))
    with t.sub("a pad that is longer than the message"):
        waiting.drops(stranger, *(seal(waiting.to(pad=pad)) for pad in (1, 2, 3)))
    for name, values in (
            ("another version", {"version": 1}), ("the last version", {"version": 15}),
            ("another partition", {"pkey": 0x1234}), ("no partition", {"pkey": 0}),
            ("a Send of a connection", {"opcode": 4}), ("a Write of a connection", {"opcode": 10}),
            ("the first of several packets", {"opcode": 0x60}),
            ("a notification of congestion", {"opcode": 0x81})):
        with t.sub(name):
            waiting.drops(stranger, seal(waiting.to(text, **values)))
    for name, qpn in (("another number", waiting.qpn ^ 0x400000), ("number 0", 0),
                      ("number 1", 1), ("the number of multicasts", 0xffffff)):
        with t.sub(name):
            waiting.drops(stranger, seal(transport(qpn, waiting.qkey, text)))
    for name, qkey in (("another Q_Key", waiting.qkey ^ 1),
                       ("its Q_Key with the highest bit", waiting.qkey | 1 << 31),
                       ("the highest bit alone", 1 << 31), ("no Q_Key", 0)):
        with t.sub(name):
            waiting.drops(stranger, seal(transport(waiting.qpn, qkey, text)))
    with t.sub("longer than a receive"):
        waiting.drops(stranger, seal(waiting.to(bytes(8192))))
    with t.sub("65000 octets"):
        waiting.drops(stranger, seal(waiting.to(bytes(65000 - 24))), bytes(65000))
    with t.sub("empty"):
        waiting.drops(stranger, b"")
    with t.sub("anything"):
        some = random.Random(57)
        waiting.drops(stranger, *(some.randbytes(some.randrange(200)) for _ in range(300)))
    with t.sub("anything behind the right headers"):
        waiting.drops(stranger, *(waiting.to(some.randbytes(some.randrange(4, 100)))
                                  for _ in range(300)))


@test("datagrams-strangers", cost=20, only_type="rsiw")
def strangers(t):
    """Who knows number and Q_Key gets through, by an ICRC that is calculated here; nothing else
    does, and all of that is counted."""
    path = t.topo.loopback
    with t.library("rsiw"), contextlib.closing(Stranger(path.addr4)) as v4, \
            contextlib.closing(Stranger(path.addr6)) as v6:
        waiting = Waiting(t, path)
        keep_out(t, waiting, v4)
        with t.sub("over IPv6"):
            right = v6.sealed(waiting.to(b"from a stranger"))
            waiting.drops(v6, b"", right[:-1], right[:-1] + bytes([right[-1] ^ 1]),
                          *(v6.sealed(waiting.to(pad=pad)) for pad in (1, 2, 3)))
        with t.sub("the ICRC is that of another port"), \
                contextlib.closing(Stranger(path.addr4)) as other:
            waiting.drops(other, v4.sealed(waiting.to(b"from a stranger")))
        with t.sub("options of IP"), contextlib.closing(Stranger(path.addr4)) as other:
            # Three that do nothing, and the end.
            other.set_ip(socket.IP_OPTIONS, b"\1\1\1\0")
            waiting.drops(other, other.sealed(waiting.to(b"from a stranger")))
        let_in(t, waiting, v4, v6)
        with t.sub("what has arrived"):
            waiting.finish(v4)
        with t.sub("the device goes on"):
            Pingpong(t, path, "ibv_ud_pingpong", 1, "-n", 100, "-c").finish()


# ---- ports -----------------------------------------------------------------------


def addresses(dev):
    """{address: index} of the GIDs of a device."""
    found = {}
    for index in range(32):
        # The core says so of an index that has none.
        with contextlib.suppress(OSError):
            gid = ipaddress.IPv6Address(gid_of(dev, index))
            found[str(gid.ipv4_mapped or gid)] = index
    return found


def open_at(netns=None, port=PORT):
    """Where UDP sockets of a network namespace have the port, in the kernel's hexadecimal form."""
    shown = sh("cat", "/proc/net/udp", "/proc/net/udp6", netns=netns)
    local = [line.split()[1].split(":") for line in shown.splitlines() if ":" in line]
    return [where[0] for where in local if where[-1] == "%04X" % port]


def in_hex(addr):
    """An IPv4 address in the same form."""
    return "%08X" % struct.unpack("=I", socket.inet_aton(addr))


def serving(t, dev, netns=None, gid=1, tool="ibv_ud_pingpong"):
    """A program that has a queue pair, and waits for its peer."""
    port = t.port()
    proc = t.start(tool, "-d", dev, "-p", port, "-g", gid, netns=netns)
    proc.wait_listening(port)
    return proc


def closed(netns=None):
    """Waits until nobody has the port: whoever sends or receives still ends that first."""
    wait_until(lambda: "open at %s" % open_at(netns), 10, lambda: not open_at(netns))


def refused(t, dev, *words):
    """There is no queue pair for datagrams; if there are words, they are in the log."""
    log = kmsg.Kmsg()
    proc = t.start("ibv_ud_pingpong", "-d", dev, "-p", t.port(), "-g", 1)
    status = proc.wait(t.left(20))
    if not status or "Couldn't create QP" not in proc.output():
        raise Fail("%s ends with status %d:\n%s" % (proc, status, proc.tail()))
    lines = log.read()
    os.close(log.fd)
    if words and not kmsg.says(lines, dev + ": no QP for datagrams", *words):
        raise Fail("the log says nothing of it: %s" % "\n".join(lines))


@contextlib.contextmanager
def device_on_dummy(t, dev, netdev, *addrs):
    """A device on an interface with these addresses."""
    sh("ip", "link", "add", netdev, "type", "dummy")
    try:
        for addr in addrs:
            sh("ip", "addr", "add", addr + "/32", "dev", netdev)
        sh("ip", "link", "set", netdev, "up")
        t.topo.add_link(dev, netdev)
        yield
    finally:
        t.reap()
        sh("ip", "link", "del", netdev)


def only_while_used(t, path):
    """The port is open as long as there is a queue pair for datagrams."""
    netns, dev = path.server_ns, path.server_dev
    closed(netns)
    stream = serving(t, dev, netns, tool="ibv_rc_pingpong")
    if open_at(netns):
        raise Fail("open for a queue pair with a stream")
    stream.reap()
    one = serving(t, dev, netns)
    if in_hex(path.addr4) not in open_at(netns):
        raise Fail("not open at %s, but at %s" % (path.addr4, open_at(netns)))
    two = serving(t, dev, netns)
    one.reap()
    if in_hex(path.addr4) not in open_at(netns):
        raise Fail("not open any more, as one of two is gone")
    two.reap()
    closed(netns)


# Of two interfaces.
TWIN = "192.0.2.77"


def twins(t):
    """Two devices whose interfaces have one address: one of them has its datagrams."""
    with device_on_dummy(t, "rsiw_one", "rsdum1", TWIN), \
            device_on_dummy(t, "rsiw_two", "rsdum2", TWIN):
        paths = [Path(dev, None, None, dev, dev, TWIN, None, TWIN)
                 for dev in ("rsiw_one", "rsiw_two")]
        index = [addresses(path.server_dev)[TWIN] for path in paths]
        log = kmsg.Kmsg()
        serving(t, "rsiw_one", gid=index[0])
        if kmsg.says(log.read(), "rsiw_one: no datagrams at GID %d" % index[0]):
            raise Fail("the first one has none")
        serving(t, "rsiw_two", gid=index[1])
        if not kmsg.says(log.read(), "rsiw_two: no datagrams at GID %d: error -98" % index[1]):
            raise Fail("the log does not say so")
        os.close(log.fd)
        Pingpong(t, paths[0], "ibv_ud_pingpong", index[0], "-n", 100, "-c").finish()
        # The first one lets go. The core knows of that once the socket is closed.
        sh("ip", "addr", "del", TWIN + "/32", "dev", "rsdum1")
        wait_until("the first one to let go", 10, lambda: TWIN not in addresses("rsiw_one"))
        # The second one has it soon, for the queue pair that it has.
        wait_until("the second one to try again", 10, lambda: in_hex(TWIN) in open_at())
        Pingpong(t, paths[1], "ibv_ud_pingpong", index[1], "-n", 100, "-c").finish()


def taken(t):
    """A program has the port at an address."""
    path = t.topo.loopback
    index = addresses(path.server_dev)[path.addr4]
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sock:
        sock.bind((path.addr4, PORT))
        log = kmsg.Kmsg()
        serving(t, path.server_dev, gid=index)
        # At the others there are.
        Pingpong(t, path, "ibv_ud_pingpong", 1, "-n", 100, "-c").finish()
        # With each queue pair the device tries again, and says so once.
        line = "no datagrams at GID %d: error -98" % index
        lines = [text for text in log.read() if kmsg.says([text], path.server_dev, line)]
        os.close(log.fd)
        if len(lines) != 1:
            raise Fail("the log says so %d times" % len(lines))
    # It has the port soon, for the queue pair that is there.
    wait_until("the device to try again", 10, lambda: in_hex(path.addr4) in open_at())
    t.reap()
    Pingpong(t, path, "ibv_ud_pingpong", index, "-n", 100, "-c").finish()


@test("datagrams-refused", cost=15, only_type="rsiw")
def without(t):
    """Where there are no datagrams, and what is open where there are."""
    loopback = t.topo.loopback
    dev = loopback.server_dev
    # There are few lines for each case; those of tests before count, too.
    os.close(kmsg.rested().fd)
    with t.sub("switched off"), t.library("rsiw"), tls.settings({"ud_port": 0}):
        refused(t, dev, "ud_port")
        if open_at():
            raise Fail("the port is open")
    for name in ("stock", "rsiw-stock-rings"):
        with t.sub("library: " + name), t.library(name):
            refused(t, dev)
    with t.library("rsiw"):
        for path in t.topo.paths:
            with t.sub("the port is open while it is used, %s" % path.name):
                only_while_used(t, path)
        with t.sub("another port"), tls.settings({"ud_port": 14791}):
            proc = serving(t, dev)
            if open_at() or in_hex(loopback.addr4) not in open_at(port=14791):
                raise Fail("open at %s and %s" % (open_at(), open_at(port=14791)))
            Pingpong(t, loopback, "ibv_ud_pingpong", 1, "-n", 100, "-c").finish()
            proc.reap()
        with t.sub("two devices, one address"):
            twins(t)
        with t.sub("another program has the port"):
            taken(t)


@test("datagrams-tls", cost=5, only_type="rsiw")
def with_tls(t):
    """A device with TLS has no datagrams, which would go past that."""
    tls.need(t)
    with t.library("rsiw"), tls.settings(tls.X509), \
            device_on_dummy(t, "rsiw_sec", "rsdum", "192.0.2.78"):
        refused(t, "rsiw_sec", "TLS")


def comes_and_goes(t, path, netdev, addr, prefix, *args):
    """An address comes to the server's interface while queue pairs are open, and goes."""
    since = stats.Since(path.server_dev)
    proc = t.start(t.bin("datagrams"), *path.args(), *args, "--later", addr, "--limit",
                   60 * t.env.slow)
    proc.wait_output("# ready", t.left(20))
    flags = ["nodad"] if ":" in addr else []
    where = [addr + prefix, "dev", netdev]
    sh("ip", "addr", "add", *where, *flags, netns=path.server_ns)
    try:
        proc.wait_output("# used", t.left(30))
    finally:
        sh("ip", "addr", "del", *where, netns=path.server_ns, check=False)
    proc.expect(t.left(40))
    if not since.of(path.server_dev).get("datagrams_dropped"):
        raise Fail("what was sent from the former address is not counted as dropped")


def goes(t, path, *devs):
    """Devices go while a program sends by them."""
    since = stats.Since(path.server_dev)
    proc = t.start(t.bin("datagrams"), *path.args(), "--flood", "--limit", 60 * t.env.slow)
    proc.wait_output("# floods", t.left(20))
    wait_until("datagrams flow", 20,
               lambda: since.of(path.server_dev).get("rx_datagrams", 0) > t.rounds(1000))
    t.topo.changed = True
    with t.within(20, "the removal"):
        for dev in devs:
            sh("rdma", "link", "del", dev)
    proc.expect(t.left(40))
    closed(path.server_ns)
    closed(path.client_ns)
    left = [dev for dev in devs if dev in t.topo.links()]
    if left:
        raise Fail("still there: %s" % ", ".join(left))


@test("datagrams-ports", cost=15, only_type="rsiw")
def ports(t):
    """Addresses come and go while queue pairs are open, and devices go."""
    topo = t.topo
    wire, loopback = topo.wire, topo.loopback
    with t.library("rsiw"):
        for path, netdev, addr, prefix, *args in (
                (wire, IF_A, "10.77.0.7", "/24"),
                (wire, IF_A, "fd77::7", "/64", "--addr", wire.addr6),
                (loopback, topo.lo, "10.78.7.1", "/32"),
                (loopback, topo.lo, "fd78::7:1", "/128", "--addr", loopback.addr6)):
            with t.sub("%s comes and goes, %s" % (addr, path.name)):
                comes_and_goes(t, path, netdev, addr, prefix, *args)
        with t.sub("the devices go, wire"):
            goes(t, wire, topo.dev_a, topo.dev_b)
        with t.sub("the device goes, loopback"):
            goes(t, loopback, topo.dev_lo)
    if open_at() or open_at(NS_A):
        raise Fail("the port is open without a device")


@test("datagrams-unload", cost=10, only_type="rsiw")
def unload(t):
    """Unloading waits for tasks that have fetched the callback of a socket, if there was one."""
    waits_for_them = "synchronize_rcu_tasks"
    if not has(waits_for_them):
        raise Skip("no task is preempted in this kernel")

    def waits():
        with watched({"task": "$comm"}, waits_for_them) as calls:
            t.unload()
            found = [call for call in calls() if "modprobe" in call["task"]]
        t.load()
        t.topo.ensure()
        return bool(found)

    # Whatever tests before have used.
    waits()
    with t.sub("nothing was used"):
        if waits():
            raise Fail("it waits")
    with t.sub("a queue pair was used"), t.library("rsiw"):
        Pingpong(t, t.topo.loopback, "ibv_ud_pingpong", 1, "-n", 100, "-c").finish()
        t.reap()
        if not waits():
            raise Fail("it does not wait")
