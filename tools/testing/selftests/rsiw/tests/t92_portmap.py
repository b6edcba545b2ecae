# SPDX-License-Identifier: GPL-2.0
"""One port for TCP and RDMA, by the port mapper of rdma-core (iwpmd)."""

import contextlib
import errno
import os
import socket
import sys

from rsiwtest import kmsg, mpa
from rsiwtest.core import Fail, test
from rsiwtest.machine import wait_until
from rsiwtest.portmap import daemon, ports_of_tcp, poser, serve
from rsiwtest.tools import ping, rping
from rsiwtest.topo import NS_B, Path, objects, sh

# The daemon serves the first namespace only. There is another end in NS_B, without one.
ADDR, FAR_ADDR = "10.79.1.1", "10.79.1.2"
NEAR_DEV, FAR_DEV = "rsiw_near", "rsiw_far"
NEAR = Path("near", None, None, NEAR_DEV, NEAR_DEV, ADDR, None, ADDR)
FAR = Path("far", NS_B, None, FAR_DEV, NEAR_DEV, FAR_ADDR, None, ADDR)


@contextlib.contextmanager
def devices(t):
    """A device in the first namespace, and one in NS_B, that reach each other."""
    with t.loaded_with("port_map=1"):
        sh("ip", "link", "add", "rspm", "type", "veth", "peer", "name", "rspm",
           "netns", NS_B)
        try:
            for addr, ns in ((ADDR, None), (FAR_ADDR, NS_B)):
                sh("ip", "addr", "add", addr + "/24", "dev", "rspm", netns=ns)
                sh("ip", "link", "set", "rspm", "up", netns=ns)
            t.topo.add_link(NEAR_DEV, "rspm")
            t.topo.add_link(FAR_DEV, "rspm", NS_B)
            yield
        finally:
            t.reap()
            sh("ip", "link", "del", "rspm")


@contextlib.contextmanager
def tcp_listener(port, addr=ADDR):
    """A TCP service at `port`, in this process, that greets."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((addr, port))
        sock.listen()
        sock.settimeout(10)
        yield sock


def greeting(sock):
    """What a TCP client of the service gets."""
    with socket.create_connection(sock.getsockname(), timeout=10) as client:
        try:
            conn, _ = sock.accept()
        except TimeoutError:
            return None
        with conn:
            conn.sendall(b"hello")
        return client.recv(5)


def pings(t, path, port=None):
    """rping goes through a port, whichever TCP uses for it."""
    rping(t, path, 20, port=port, mapped=True)


@test("port-mapper", cost=15, only_type="rsiw")
def port_mapper(t):
    """A TCP service and an RDMA service listen at one port."""
    with devices(t):
        with t.sub("without the daemon"):
            pings(t, NEAR)
        with daemon(t, ADDR) as iwpmd:
            with t.sub("one port for both"):
                port = t.port()
                with tcp_listener(port) as sock:
                    pings(t, NEAR, port)
                    if greeting(sock) != b"hello":
                        raise Fail("the TCP service does not answer")
            with t.sub("the RDMA service first"):
                port = t.port()
                serve(t, "rping", "-s", "-a", ADDR, "-p", port)
                if port in ports_of_tcp():
                    raise Fail("the RDMA listener takes port %d of TCP" % port)
                with tcp_listener(port) as sock:
                    ping(t, ADDR, port, 20)
                    if greeting(sock) != b"hello":
                        raise Fail("the TCP service does not answer")
            with t.sub("a port that RDMA has is still refused to RDMA"):
                port = t.port()
                server = serve(t, "rping", "-s", "-P", "-a", ADDR, "-p", port)
                other = t.start("rping", "-s", "-P", "-a", ADDR, "-p", port)
                if not other.wait(t.left(20)):
                    raise Fail("two RDMA services at one port")
                server.reap(10)
            with t.sub("a peer without the daemon"):
                with t.within(30, "a connection to a peer without it"):
                    pings(t, FAR)
                with t.within(30, "a connection from a peer without it"):
                    # It knows no mapping: the listener's port has to be TCP's.
                    port = t.port()
                    serve(t, "rping", "-s", "-a", FAR_ADDR, "-p", port, netns=NS_B)
                    ping(t, FAR_ADDR, port, 20)
            with t.sub("many connections"):
                port = t.port()
                serve(t, "cmtime", "-b", ADDR, "-p", port, "-c", 100)
                client = t.start("cmtime", "-s", ADDR, "-p", port, "-c", 100)
                client.wait(t.left(60))
                # It prints its times after all of them, and goes on with connections that
                # have no queue pairs, which end it: there are none with iWARP.
                if "full connect" not in client.output():
                    raise Fail("cmtime:\n%s" % client.output())
            with t.sub("its death"):
                iwpmd.reap(10)
                with t.within(60, "a connection after the daemon's death"):
                    pings(t, NEAR)


@test("port-mapper-elsewhere", cost=4, only_type="rsiw")
def port_mapper_elsewhere(t):
    """Devices of other namespaces say that they have no port mapper."""
    log = kmsg.Kmsg()
    with devices(t):
        lines = log.read()
    if not kmsg.says(lines, "rspm", "no port mapper outside the first network namespace"):
        raise Fail("not said:\n%s" % "\n".join(map(str, lines)))


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all")


def places_of_tcp():
    """Addresses and ports with a TCP listener."""
    return {line.split()[3] for line in sh("ss", "-Htln").splitlines()}


def served_at(t, mapper, addr, port, *who):
    """The places at which an RDMA service listens that was to be mapped."""
    before = places_of_tcp()
    server = t.start(*who, "rping", "-s", "-P", "-a", addr, "-p", port)

    def listens():
        if server.poll() is not None:
            raise Fail("%s does not listen:\n%s" % (server, server.tail()))
        return places_of_tcp() - before
    wait_until("%s to listen" % server, 30, listens)
    if "ASKED for a listener" not in mapper.output():
        raise Fail("the mapper was not asked:\n%s" % mapper.tail())
    return server, places_of_tcp() - before


def is_at(places, addr, port):
    if places != {"%s:%d" % (addr, port)}:
        raise Fail("the RDMA service listens at %s, not at %s:%d" % (
            ", ".join(sorted(places)), addr, port))


@contextlib.contextmanager
def mapped(t, how, addr, port, at, *who):
    """An RDMA service asks a mapper of this kind for `port`, and listens at port `at`."""
    with poser(t, *how) as mapper:
        server, places = served_at(t, mapper, addr, port, *who)
        is_at(places, addr, at)
        yield server
        server.reap(10)


def reaches(t, addr, port):
    """Whether an RDMA client is served at `port`."""
    return t.start("rdma_client", "-s", addr, "-p", port).wait(t.left(30)) == 0


@test("port-mapper-posed", cost=15, only_type="rsiw")
def port_mapper_posed(t):
    """Without `port_map` nobody who says that he is the port mapper is believed."""
    addr = t.topo.loopback.addr4
    with t.sub("a port where root listens, for a listener of nobody"):
        port, taken = t.port(), t.port()
        with tcp_listener(taken, addr) as sock, \
                mapped(t, ("--to", taken), addr, port, port, *NOBODY):
            if greeting(sock) != b"hello":
                raise Fail("the service of root sees no connection")
    with t.sub("a port for a peer"):
        port, other = t.port(), t.port()
        t.start(*NOBODY, "rdma_server", "-s", addr, "-p", port).wait_listening(port)
        with poser(t, "--to", port) as mapper:
            if reaches(t, addr, other):
                raise Fail("who connects where nobody listens is served by nobody")
            if "ASKED for a peer" not in mapper.output():
                raise Fail("the mapper was not asked:\n%s" % mapper.tail())
        t.reap()
    with t.sub("an address"):
        port = t.port()
        with mapped(t, ("--address", "127.0.0.9"), addr, port, port):
            pass
    for to in ((), ("--to", t.port())):
        with t.sub("where a connection comes from" + (", mapped" if to else "")):
            port, own = t.port(), t.port()
            with poser(t, *to, "--addr", addr, "--port", port,
                       "--from-port", own) as mapper:
                server, _ = served_at(t, mapper, addr, port)
                with socket.socket() as conn:
                    conn.bind((addr, own))
                    conn.settimeout(t.left(20))
                    conn.connect((addr, port))
                    mpa.ask(conn)
                    comes_from(addr, own)
                server.reap(10)


# Asks the core for each thing that a port mapper says, without saying anything, and prints
# what it answers. The types are RDMA_NL_IWCM (2) and a number of RDMA_NL_IWPM_*, the
# protocol is NETLINK_RDMA, the group RDMA_NL_GROUP_IWPM (2). RDMA_NL_IWPM_REMOVE_MAPPING
# (3) is the kernel's only.
SAY_NOTHING = """
import socket, struct
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 20) as sock:
    sock.settimeout(10)
    for op in (0, 1, 2, 4, 5, 6, 7, 8):
        sock.send(struct.pack("=LHHLL", 16, (2 << 10) + op, 1, op + 1, 0))
        print(op, -struct.unpack_from("=i", sock.recv(4096), 16)[0])
    try:
        sock.setsockopt(270, 1, 2)
        print("group 0")
    except OSError as e:
        print("group", e.errno)
"""
MENDED = "/usr/lib/modules/%s/updates/iw_cm.ko" % os.uname().release


@test("port-mapper-refused", cost=4, only_type="rsiw", packaged=True, where=MENDED)
def port_mapper_refused(t):
    """The RDMA core with tools/vm/patches/core takes nothing from a port mapper of nobody."""
    said = t.run(*NOBODY, sys.executable, "-c", SAY_NOTHING)
    want = ["%s %d" % (what, errno.EPERM) for what in (0, 1, 2, 4, 5, 6, 7, 8, "group")]
    if said.splitlines() != want:
        raise Fail("the core answers nobody: %s" % said.split("\n"))


def comes_from(addr, port):
    """There is a connection of RDMA that comes from there."""
    ids = objects("cm_id")
    peers = [i.get("dst-addr") for i in ids]
    if "%s:%d" % (addr, port) not in peers:
        raise Fail("no connection from %s:%d, but from %s" % (addr, port, peers))


@test("port-mapper-trust", cost=15, only_type="rsiw")
def port_mapper_trust(t):
    """With `port_map` the mapper chooses a port, but nobody's, and no address."""
    with devices(t):
        with t.sub("a port where nobody listens"):
            port, other = t.port(), t.port()
            with mapped(t, ("--to", other), ADDR, port, other):
                pass
        for service in (ADDR, "0.0.0.0"):
            with t.sub("a port where somebody listens at " + service):
                port, taken = t.port(), t.port()
                with tcp_listener(taken, service) as sock, \
                        mapped(t, ("--to", taken), ADDR, port, port, *NOBODY):
                    if greeting(sock) != b"hello":
                        raise Fail("the service sees no connection")
        with t.sub("a port where another RDMA service listens"):
            first, second = t.port(), t.port()
            with poser(t, "--to", first) as mapper:
                one, places = served_at(t, mapper, ADDR, first)
                is_at(places, ADDR, first)
                two, places = served_at(t, mapper, ADDR, second)
                is_at(places, ADDR, second)
                one.reap(10)
                two.reap(10)
        with t.sub("a port that takes a privilege"):
            port = t.port()
            with mapped(t, ("--to", 777), ADDR, port, port):
                pass
        with t.sub("an address"):
            port, other = t.port(), t.port()
            with mapped(t, ("--to", other, "--address", "127.0.0.9"), ADDR, port, other):
                pass
