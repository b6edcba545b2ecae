# SPDX-License-Identifier: GPL-2.0
"""One port for TCP and RDMA, by the port mapper of rdma-core (iwpmd)."""

import contextlib
import socket

from rsiwtest import kmsg
from rsiwtest.core import Fail, test
from rsiwtest.portmap import daemon, ports_of_tcp, serve
from rsiwtest.tools import rping
from rsiwtest.topo import NS_B, Path, sh

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
def tcp_listener(port):
    """A TCP service at `port`, in this process, that greets."""
    with socket.socket() as sock:
        sock.bind((ADDR, port))
        sock.listen()
        yield sock


def greeting(sock, port):
    """What a TCP client of the port gets."""
    with socket.create_connection((ADDR, port), timeout=10) as client:
        conn, _ = sock.accept()
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
                    if greeting(sock, port) != b"hello":
                        raise Fail("the TCP service does not answer")
            with t.sub("the RDMA service first"):
                port = t.port()
                serve(t, "rping", "-s", "-a", ADDR, "-p", port)
                if port in ports_of_tcp():
                    raise Fail("the RDMA listener takes port %d of TCP" % port)
                with tcp_listener(port) as sock:
                    t.run("rping", "-c", "-a", ADDR, "-p", port, "-C", 20)
                    if greeting(sock, port) != b"hello":
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
                    t.run("rping", "-c", "-a", FAR_ADDR, "-p", port, "-C", 20)
            with t.sub("many connections"):
                port = t.port()
                serve(t, "cmtime", "-b", ADDR, "-p", port, "-c", 100)
                client = t.start("cmtime", "-s", ADDR, "-p", port, "-c", 100)
                client.wait(t.left(60))
                if "connect" not in client.output():
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
