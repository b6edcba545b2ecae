# SPDX-License-Identifier: GPL-2.0
"""Queue pairs that programs connect by number, without the RDMA CM."""

import contextlib
import socket
import struct

from rsiwtest import mpa, stats
from rsiwtest.core import ANY_PATH, Fail, test
from rsiwtest.faults import CALLS, failing_calls, lock_name, text_like, text_of
from rsiwtest.groups import Group
from rsiwtest.machine import LOCAL, wait_until
from rsiwtest.pingpong import Pingpong, pingpongs, wait_link_local
from rsiwtest.tls import settings
from rsiwtest.tools import Perftest, perftest
from rsiwtest.topo import B6, IF_A, IF_B, NS_A, NS_B, Path, long_way, sh


@test("by-number", cost=30, only_type="rsiw")
def by_number(t):
    """libibverbs' own examples, with their default arguments and others."""
    wait_link_local()
    for path in t.topo.paths:
        pingpongs(t, path, "ibv_rc_pingpong")
        with t.sub("ibv_srq_pingpong, %s" % path.name):
            Pingpong(t, path, "ibv_srq_pingpong", 1, "-n", t.rounds(500), "-c").finish()
    with t.sub("an interface without the address of index 0"):
        t.topo.changed = True
        wire = t.topo.wire
        sh("ip", "addr", "flush", "dev", IF_A, "scope", "link", netns=NS_A)
        here = Path("on one host", NS_A, NS_A, wire.server_dev, wire.server_dev, wire.addr4,
                    wire.addr6, wire.addr4)
        Pingpong(t, here, "ibv_rc_pingpong", 0, "-n", 100, "-c").finish()


@test("numbers", cost=60, only_type="rsiw")
def numbers(t):
    """The steps of both ends in all orders, and each way in which they end."""
    for name in ("stock", "rsiw"):
        with t.library(name):
            for path in t.topo.paths:
                t.own("by_number", path, "--rounds", t.rounds(50),
                      "--stock", int(name == "stock"))


@test("numbers-cut", cost=25, only_type="rsiw")
def cut(t):
    """The peer goes in the middle of a message: nobody is told, its receive neither."""
    t.own("by_number", t.topo.wire, "--cuts", 4, "--stock", 1)
    with t.loaded_with("direct=0"):
        t.own("by_number", t.topo.loopback, "--cuts", 4, "--stock", 1)


@test("numbers-placed", cost=25, only_type="rsiw")
def placed(t):
    """What has completed is in the peer's memory."""
    with t.loaded_with("direct=0"):
        with t.sub("on a long way"), long_way(("delay", "20ms")):
            t.own("placed", t.topo.wire, "--by-number", "--rounds", t.rounds(10))
        t.own("placed", t.topo.loopback, "--by-number", "--rounds", t.rounds(100))


@test("numbers-perftest", cost=60, only_type="rsiw")
def numbers_perftest(t):
    """perftest without the RDMA CM, also with what only our own library has."""
    wire, loopback = t.topo.wire, t.topo.loopback
    for path in (wire, loopback):
        for op in ("send", "write", "read"):
            with t.sub("ib_%s_bw, %s" % (op, path.name)):
                perftest(t, path, "ib_%s_bw" % op, 65536, 100, gid=1)
                perftest(t, path, "ib_%s_bw" % op, 64, 1000, gid=1, qps=8)
            with t.sub("ib_%s_lat, %s" % (op, path.name)):
                perftest(t, path, "ib_%s_lat" % op, 64, 300, gid=1)
    with t.sub("in both directions, over IPv6"):
        perftest(t, wire, "ib_write_bw", 4096, 300, "-b", gid=2)
    with t.sub("sleeping"):
        perftest(t, wire, "ib_send_lat", 64, 200, gid=1, events=True)
    with t.library("rsiw"):
        for op in ("write", "send"):
            with t.sub("ib_%s_bw, own library" % op):
                perftest(t, wire, "ib_%s_bw" % op, 4096, 300, gid=1, qps=4)
        with t.sub("Writes with immediate data"):
            perftest(t, wire, "ib_write_bw", 4096, 200, "--write_with_imm", gid=1)
        with t.sub("Atomic Operations"):
            perftest(t, wire, "ib_atomic_bw", 8, 200, gid=1)


@test("numbers-perftest-many", limit=1800, cost=300, only_type="rsiw", long=True)
def many(t):
    """perftest with many queue pairs, for a while, and in both directions."""
    wire, loopback = t.topo.wire, t.topo.loopback
    for library in ("stock", "rsiw"):
        extra = (("write", "--write_with_imm"), ("atomic",)) if library == "rsiw" else ()
        ops = (("send",), ("write",), ("read",), *extra)
        with t.library(library):
            for path in (wire, loopback):
                for op, *args in ops:
                    size = 8 if op == "atomic" else 2048
                    how = "".join(arg + ", " for arg in (*args, path.name)) + library
                    with t.sub("ib_%s_bw, 64 queue pairs, %s" % (op, how)):
                        perftest(t, path, "ib_%s_bw" % op, size, 50, *args, gid=1, qps=64)
                    with t.sub("ib_%s_lat, %s" % (op, how)):
                        # ib_write_lat looks at the memory, and cannot sleep.
                        perftest(t, path, "ib_%s_lat" % op, min(size, 64), 100, *args, gid=1,
                                 events=op != "write")
                for op in ("send", "write", "read"):
                    with t.sub("ib_%s_bw, both ways for 3 s, %s, %s" % (op, path.name, library)):
                        pair = Perftest(t, path, "ib_%s_bw" % op, "-D", 3, "-b", "-s", 8192,
                                        gid=1)
                        pair.connect()
                        pair.finish()
            with t.sub("ib_write_bw, 1000 queue pairs, %s" % library):
                # They connect one after the other, with requests posted, for longer than 2 s.
                perftest(t, wire, "ib_write_bw", 512, 5, "-t", 5, "-u", 20, gid=1, qps=1000)


def one_is_killed(t, path, dies, lives):
    """The end that is left is told of it by its requests, and others can connect."""
    pair = Perftest(t, path, "ib_write_bw", "-D", 60, "-s", 4096, "-b", gid=1)
    pair.connect()
    pair.wait_flowing()
    getattr(pair, dies).kill()
    left = getattr(pair, lives)
    left.wait(t.left(30))
    # IBV_WC_RETRY_EXC_ERR.
    if "Failed status 12" not in left.output():
        raise Fail(left.tail())
    t.reap()
    Pingpong(t, path, "ibv_rc_pingpong", 1, "-n", 100, "-c").finish()


@test("numbers-killed", cost=25, only_type="rsiw")
def killed(t):
    """One of two programs is killed while both write."""
    with t.library("rsiw"):
        for path in t.topo.paths:
            for dies, lives in (("client", "server"), ("server", "client")):
                with t.sub("the %s is killed, %s" % (dies, path.name)):
                    one_is_killed(t, path, dies, lives)


def enter_vrfs(t):
    """Moves both interfaces of the wire into VRFs. Returns it as the path of programs whose own
    sockets are in none, and take another way."""
    t.topo.changed = True
    wire = t.topo.wire
    sh("ip", "link", "add", "rsx", "netns", NS_A, "type", "veth", "peer", "name", "rsx", "netns",
       NS_B)
    for netns, netdev, addr6, addr4 in ((NS_A, IF_A, wire.addr6, "10.79.0.1"),
                                        (NS_B, IF_B, B6, "10.79.0.2")):
        sh("ip", "link", "add", "rsv", "type", "vrf", "table", "1010", netns=netns)
        sh("ip", "link", "set", "rsv", "up", netns=netns)
        sh("ip", "link", "set", netdev, "master", "rsv", netns=netns)
        # The kernel has removed it.
        sh("ip", "addr", "replace", addr6 + "/64", "dev", netdev, "nodad", netns=netns)
        sh("ip", "addr", "add", addr4 + "/24", "dev", "rsx", netns=netns)
        sh("ip", "link", "set", "rsx", "up", netns=netns)
    return Path("in a VRF", NS_A, NS_B, wire.server_dev, wire.client_dev, "10.79.0.1", None,
                "10.79.0.2")


def wait_outside(t):
    """At either end and for each address a queue pair waits, from before there is a VRF."""
    wire = t.topo.wire
    for server, client, dev, addrs in (
            (NS_A, NS_B, wire.server_dev, (wire.addr4, wire.addr6)),
            (NS_B, NS_A, wire.client_dev, (wire.client4, B6))):
        for addr in addrs:
            waits(t, Path("outside", server, client, dev, None, addr, None, None), 300)


@test("numbers-vrf", cost=40, only_type="rsiw")
def vrf(t):
    """Both interfaces are in a VRF."""
    t.need_module("vrf")
    def run(tool, how):
        for gid in (1, 2):
            with t.sub("%s, %s, GID %d" % (tool, how, gid)):
                Pingpong(t, path, tool, gid, "-n", t.rounds(500), "-c").finish()
    with t.loaded_with("direct=0"):
        wait_outside(t)
        path = enter_vrfs(t)
        run("ibv_rc_pingpong", "through TCP")
        t.reap()
    t.topo.ensure()
    with t.library("rsiw"):
        for netns, dev in ((NS_A, t.topo.wire.server_dev), (NS_B, t.topo.wire.client_dev)):
            # Keeps the sockets for datagrams open.
            port = t.port()
            t.start("ibv_ud_pingpong", "-d", dev, "-p", port, "-g", 1,
                    netns=netns).wait_listening(port)
    path = enter_vrfs(t)
    run("ibv_rc_pingpong", "past TCP")
    with t.library("rsiw"):
        run("ibv_ud_pingpong", "over UDP")


PORT = 4791
# Why a Request is refused (proto/by_number.rs).
FOREIGN, VERSION, NO_SUCH_QP, NOT_EXPECTED, TAKEN, PSN, CROWDED = range(1, 8)


def hello(sender, to, psn):
    """The private data of a Request by number."""
    return b"rsiwQPs\0" + struct.pack(">BBBBIIIxxxxxxxx", 1, 0, 7, 0, sender, to, psn)


def refusal(conn):
    """Waits for a Reply that refuses by number; says why."""
    reply = b""
    while len(reply) < 20 + 4 + 32:
        octets = conn.recv(600)
        if not octets:
            raise Fail("no Reply, but %r" % reply)
        reply += octets
    if not reply.startswith(b"MPA ID Rep Frame") or not reply[16] & mpa.REJECTED:
        raise Fail("%r" % reply)
    data = reply[24:]
    if data[:8] != b"rsiwQPs\0":
        raise Fail("%r" % data)
    return data[9]


def asks(addr, data, source=""):
    """A Request by number of somebody, in the mode in which he sends first."""
    conn = socket.create_connection((addr, PORT), timeout=20, source_address=(source, 0))
    mpa.request(conn, struct.pack(">HH", 0xc080, 0x8080) + data, b"\x50\2")
    return conn


def waits(t, path, seconds, group=None):
    """A program with a queue pair that waits for so long for a peer that does not exist, and listens
    for it. Also its number, its PSN, the peer's number, and that of one that is not ready."""
    argv = [t.bin("by_number"), *path.args(), "--hold-ms", seconds * 1000, "--limit", seconds + 100]
    proc = t.start(*(group.within(argv) if group else argv))
    proc.wait_output("# waits:", t.left(20))
    line = next(line for line in proc.output().splitlines() if "# waits:" in line)
    return proc, tuple(map(int, line.split()[2:]))


@test("numbers-stripes", cost=20, only_type="rsiw")
def stripes(t):
    """What libraries for collective operations do: many queue pairs, immediate data."""
    with t.library("rsiw"):
        for path in t.topo.paths:
            t.own("stripes", path, "--rounds", t.rounds(40))


@test("numbers-strangers", cost=25, only_type="rsiw")
def strangers(t):
    """Requests that a queue pair does not wait for are refused, and bounded in number."""
    path = t.topo.loopback
    proc, (qpn, psn, peer, unready) = waits(t, path, 15)
    since = stats.Since(path.server_dev)
    right = hello(peer, qpn, psn)
    wrong = (
        ("another number of the peer", hello(peer - 1, qpn, psn), "", NOT_EXPECTED),
        ("no such queue pair", hello(peer, 0xabcdef, psn), "", NO_SUCH_QP),
        ("other private data", b"rsiwQPs1" + right[8:], "", FOREIGN),
        ("none at all", b"", "", FOREIGN),
        ("a later version", right[:8] + b"\2" + right[9:], "", VERSION),
        ("all is right but the address", right, "127.0.0.2", NOT_EXPECTED),
    )
    for name, data, source, why in wrong:
        with t.sub(name), contextlib.closing(asks(path.addr4, data, source)) as conn:
            got = refusal(conn)
            if got != why:
                raise Fail("refused because of %d, not %d" % (got, why))
    with t.sub("early Requests are bounded"):
        conns = [asks(path.addr4, hello(n, unready, psn)) for n in range(2, 12)]
        # One for each queue pair and address: the others are reset.
        wait_until("the others to be reset", 10,
                   lambda: sum(is_reset(conn) for conn in conns) == len(conns) - 1)
        for conn in conns:
            conn.close()
    with t.sub("counters"):
        counted = since.of(path.server_dev)
        if (counted.get("qp_refused"), counted.get("qp_parked")) != (len(wrong), len(conns)):
            raise Fail("%r" % counted)
    proc.expect(t.left())


# Seconds that a peer has for its first message (RTR_MS).
FIRST = 15


@test("numbers-silent", cost=25, only_type="rsiw")
def silent(t):
    """Who poses as the peer and says nothing more does not keep a queue pair."""
    path = t.topo.loopback
    _, (qpn, psn, peer, _) = waits(t, path, 100)
    with contextlib.closing(asks(path.addr4, hello(peer, qpn, psn), path.addr4)) as conn:
        reply = conn.recv(600)
        if not reply.startswith(b"MPA ID Rep Frame") or reply[16] & mpa.REJECTED:
            raise Fail("%r" % reply)
        wait_until("it is reset", FIRST + 5, lambda: is_reset(conn))
    with t.sub("the peer is still waited for"), contextlib.closing(
            asks(path.addr4, hello(peer, qpn, psn), path.addr4)) as conn:
        if conn.recv(600)[16] & mpa.REJECTED:
            raise Fail("refused")
    t.reap()


# MPA, a local error.
LOCAL_CATASTROPHIC = 0x2005


@test("numbers-upon-reply", cost=15, only_type="rsiw")
def upon_reply(t):
    """A peer that gives up when it has the Reply, as for lack of memory, can dial again."""
    path = t.topo.loopback
    _, (qpn, psn, peer, _) = waits(t, path, 100)

    def is_accepted():
        conn = asks(path.addr4, hello(peer, qpn, psn), path.addr4)
        reply = conn.recv(600)
        if not reply or reply[16] & mpa.REJECTED:
            # The stream before may not have ended yet.
            conn.close()
            return None
        return conn

    for _ in range(5):
        conn = wait_until("a Request is accepted", 10, is_accepted)
        conn.sendall(mpa.terminate(LOCAL_CATASTROPHIC))
        conn.close()
    t.reap()


@test("numbers-flood", limit=900, cost=200, only_type="rsiw", long=True)
def flood(t):
    """Ten thousand Requests for a queue pair that does not get ready keep nobody out."""
    path = t.topo.loopback
    _, (_, psn, _, unready) = waits(t, path, 300)
    conns = []
    for n in range(10000):
        # From different addresses, so that they do not replace each other.
        source = "127.%d.%d.%d" % (1 + n % 7, n // 250 % 250, 1 + n % 250)
        conns.append(asks(path.addr4, hello(2 + n, unready, psn), source))
        if len(conns) > 500:
            conns.pop(0).close()
    with t.sub("beside them queue pairs meet"):
        Pingpong(t, path, "ibv_rc_pingpong", 1, "-n", 100, "-c").finish()
    for conn in conns:
        conn.close()
    t.reap()


@test("numbers-again", limit=900, cost=100, only_type="rsiw", long=True)
def again(t):
    """RESET, and the same numbers once more, a thousand times."""
    t.own("by_number", t.topo.wire, "--rounds", 1000, "--stock", 1)


def is_reset(conn):
    """Whether a connection is over."""
    conn.setblocking(False)
    try:
        return not conn.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


@test("numbers-silence", cost=15, only_type="rsiw")
def silence(t):
    """A peer whose host does not answer any more fails a request in the time that was set."""
    wire = t.topo.wire
    with t.library("rsiw"):
        pair = Perftest(t, wire, "ib_write_bw", "-D", 60, "-s", 4096, gid=1)
        pair.connect()
        pair.wait_flowing()
        with long_way(("loss", "100%")):
            pair.client.wait(t.left(30))
            # IBV_WC_RETRY_EXC_ERR.
            if "Failed status 12" not in pair.client.output():
                raise Fail(pair.client.tail())
        t.reap()


@test("numbers-unplug", cost=25, only_type="rsiw")
def unplug(t):
    """Devices go while queue pairs talk, and while one waits for its peer."""
    wire, loopback = t.topo.wire, t.topo.loopback
    with t.sub("while they talk"):
        pair = Perftest(t, wire, "ib_send_bw", "-D", 60, "-s", 4096, "-b", gid=1)
        pair.connect()
        pair.wait_flowing()
        with t.within(20, "the removal"):
            sh("rdma", "link", "del", t.topo.dev_a)
            sh("rdma", "link", "del", t.topo.dev_b)
        t.reap()
    with t.sub("while one waits"):
        waits(t, loopback, 60)
        with t.within(20, "the removal"):
            sh("rdma", "link", "del", t.topo.dev_lo)
        t.reap()
    t.topo.changed = True
    left = [dev for dev in (t.topo.dev_a, t.topo.dev_b, t.topo.dev_lo) if dev in t.topo.links()]
    if left:
        raise Fail("still there: %s" % ", ".join(left))


STEP = "rsiw-step"
# What gives a queue pair its stream.
STARTS = r"2qp5state.*(2Qp5start|11take_stream)$"


@test("numbers-unplug-step", cost=15, only_type="rsiw")
def unplug_step(t):
    """A device goes while a program takes the step to RTR: nothing of either is left."""
    t.need_module(CALLS)
    t.topo.changed = True
    lock = lock_name()
    with failing_calls(text_of(t.env.module), {lock: "hold"}) as calls:
        # The device knows of the pairing already, and the queue pair does not.
        with calls.held(lock, STEP) as wait_held:
            prog = t.start(t.bin("by_number"), *t.topo.loopback.args(), "--step-as", STEP)
            wait_held()
            gone = t.start("rdma", "link", "del", t.topo.dev_lo)
            stack = "/proc/%d/stack" % gone.pid
            wait_until(lambda: "the driver has let go:\n%s" % LOCAL.read(stack), 15,
                       lambda: "uverbs" in LOCAL.read(stack))
        prog.wait_output("# stepped:", t.left(20))
        gone.expect(t.left(30))
        t.reap()
    with t.sub("the module goes, and comes again"):
        t.unload()
        t.load()


@test("numbers-unplug-start", cost=15, only_type="rsiw")
def unplug_start(t):
    """A device goes while a queue pair gets its stream: nothing of either is left."""
    t.need_module(CALLS)
    t.topo.changed = True
    lock = lock_name()
    with failing_calls(text_like(t.env.module, STARTS), {lock: "hold"}) as calls:
        with calls.held(lock) as wait_held:
            pair = Pingpong(t, t.topo.loopback, "ibv_rc_pingpong", 1, "-n", 1000000)
            wait_held()
            gone = t.start("rdma", "link", "del", t.topo.dev_lo)
            stack = "/proc/%d/stack" % gone.pid
            # It has told the pairing and its endpoint, and waits until that has ended.
            wait_until(lambda: "the removal waits:\n%s" % LOCAL.read(stack), 10,
                       lambda: "Rnic5leave" in LOCAL.read(stack).split("\n", 1)[0])
        gone.expect(t.left(30))
        t.reap()
    with t.sub("the module goes, and comes again"):
        t.unload()
        t.load()


@test("numbers-port", cost=15, only_type="rsiw")
def port(t):
    """A new qp_port is that of queue pairs from then on; others wait at the old one."""
    path = t.topo.loopback
    _, (qpn, psn, peer, _) = waits(t, path, 60)
    with settings({"qp_port": 5000}):
        Pingpong(t, path, "ibv_rc_pingpong", 1, "-n", 100, "-c").finish()
    with t.sub("the first one can still be asked"), contextlib.closing(
            asks(path.addr4, hello(peer - 1, qpn, psn))) as conn:
        if refusal(conn) != NOT_EXPECTED:
            raise Fail("refused for another reason")
    t.reap()


# Octets that the driver has for a connection without a Request, at the least.
HALF_OPEN = 1000


@test("numbers-charged", cost=15, only_type="rsiw")
def charged(t):
    """Connections that have not said whom they want are not charged to who listens first."""
    path, count = t.topo.loopback, 200
    with Group("rsiw-account", "memory") as group:
        waits(t, path, 60, group)
        before = group.stat("slab")
        with contextlib.ExitStack() as conns:
            for n in range(count):
                conns.enter_context(contextlib.closing(socket.create_connection(
                    (path.addr4, PORT), timeout=20, source_address=("127.0.3.%d" % n, 0))))
            more = group.stat("slab") - before
        t.reap()
    print("# %d connections: %d octets" % (count, more))
    if more > count * HALF_OPEN // 2:
        raise Fail("charged with %d octets" % more)


@test("numbers-charged-later", cost=20, only_type="rsiw", tcp=ANY_PATH)
def charged_later(t):
    """What TCP has for a queue pair is charged to its process, whoever listened first."""
    path = t.topo.loopback
    for end, options in (("listens", []), ("dials", ["--pile-at-dialler"])):
        waits(t, path, 100)
        with t.sub("the end that %s" % end), Group("rsiw-account", "memory") as group:
            proc = t.start(*group.within(
                [t.bin("by_number"), *path.args(), "--pile-ms", 60000, *options]))
            proc.wait_output("# piled: ", t.left(30))
            piled = int(proc.output().partition("# piled: ")[2].split()[0])
            wait_until(lambda: "%d of %d octets" % (group.stat("sock"), piled), 10,
                       lambda: group.stat("sock") >= piled)
            t.reap()


# Seconds after which a Request that nobody has answered is forgotten (ANSWER_MS), and more.
FORGOTTEN = 62
# How many early Requests a device keeps (PARKED).
PARKED = 256


@test("numbers-parked", limit=400, cost=90, only_type="rsiw", long=True)
def parked(t):
    """Early Requests that are over do not keep others out."""
    path = t.topo.loopback
    _, (_, psn, _, first) = waits(t, path, 200)
    _, (_, _, _, second) = waits(t, path, 200)
    old = [asks(path.addr4, hello(2, first, psn), "127.0.%d.%d" % (4 + n % 2, 1 + n // 2))
           for n in range(PARKED - 2)]
    wait_until("the early Requests to be over", FORGOTTEN + 20,
               lambda: all(is_reset(conn) for conn in old))
    # Of two from one address the older one would have to go for a third from another.
    new = [asks(path.addr4, hello(2, to, psn), source) for to, source in (
        (first, "127.0.6.1"), (second, "127.0.6.1"), (first, "127.0.6.2"))]
    counted = stats.Since(path.server_dev)
    conn = asks(path.addr4, hello(2, second, psn), "127.0.6.3")
    wait_until("it is parked", 10, lambda: counted.of(path.server_dev).get("qp_parked"))
    if any(is_reset(conn) for conn in new):
        raise Fail("one that is not over had to go")
    for conn in (*old, *new, conn):
        conn.close()
    t.reap()
