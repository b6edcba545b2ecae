# SPDX-License-Identifier: GPL-2.0
"""Wires whose packets are encrypted, WireGuard and IPsec as rsiw-secure.rst sets them up, and
what has to hold of such a wire."""

import os

from . import fio
from .core import Fail
from .frames import capture
from .machine import LOCAL
from .nvme import Host, Target
from .tools import perftest, pinging
from .topo import objects, sh, status
from .wire import C4, IF_C, IF_S, S4, Pair, Wire

PORTS = {IF_S: "51820", IF_C: "51821"}
# Octets of a segment over a wire of 1500, IPv4 with time stamps.
PLAIN = 1448
# What is written, which is nowhere else, and how a connection begins (RFC 5044).
SECRET = b"a secret of rsiw "
BEGIN = b"MPA ID Req Frame"
# Little: a debugging kernel encrypts some ten thousand octets a second, and NVMe gives a
# request up after half a minute.
BLOCKS, DEPTH = (("4k", "64k"), ("64k", "256k")), 2


class Wireguard(Wire):
    """The devices are on WireGuard's interfaces, which send over a pair below."""

    def __init__(self, t):
        self.below = Pair(("rsbelow0", "rsbelow1"), ("10.79.2.1", "10.79.2.2"),
                          ("7903", "7904"))
        self.keys = {netdev: os.path.join(t.env.results, netdev + ".key")
                     for netdev in (IF_S, IF_C)}
        # Where packets are as others see them.
        self.outside = self.below.netdevs[1]
        super().__init__(t)

    def add_interfaces(self):
        self.below.add_veth()
        self.below.start()
        public = {}
        for netdev, path in self.keys.items():
            public[netdev] = sh("sh", "-c", 'umask 077; wg genkey >"$0"; wg pubkey <"$0"',
                                path).strip()
            sh("ip", "link", "add", netdev, "type", "wireguard")
        for netdev, other, lower in ((IF_S, IF_C, self.below.netdevs[0]),
                                     (IF_C, IF_S, self.below.netdevs[1])):
            sh("wg", "set", netdev, "listen-port", PORTS[netdev], "private-key",
               self.keys[netdev], "peer", public[other],
               "allowed-ips", self.pair.ways[netdev][0] + "/32",
               "endpoint", "%s:%s" % (self.below.ways[lower][0], PORTS[other]))

    def drop(self):
        super().drop()
        self.below.drop()
        for path in self.keys.values():
            if os.path.exists(path):
                os.unlink(path)


class Ipsec(Wire):
    """What the devices send is encrypted on its way out (ESP in transport mode)."""

    outside = IF_C
    ENDS = ((S4, C4), (C4, S4))

    def add_interfaces(self):
        super().add_interfaces()
        for spi, (src, dst) in enumerate(self.ENDS, 0x1000):
            sh("ip", "xfrm", "state", "add", "src", src, "dst", dst, "proto", "esp",
               "spi", hex(spi), "mode", "transport", "aead", "rfc4106(gcm(aes))",
               "0x" + os.urandom(20).hex(), "128")
            # Both ends are here.
            for way in ("out", "in"):
                sh("ip", "xfrm", "policy", "add", "src", src, "dst", dst, "dir", way,
                   "tmpl", "proto", "esp", "mode", "transport")

    def drop(self):
        for src, dst in self.ENDS:
            for way in ("out", "in"):
                status("ip", "xfrm", "policy", "del", "src", src, "dst", dst, "dir", way)
            status("ip", "xfrm", "state", "deleteall", "src", src, "dst", dst)
        super().drop()


def segment(t, wire):
    """Octets of a segment of a connection over the wire."""
    server, client = pinging(t, wire.path)
    shown = objects("qp", details=True)
    t.reap()
    found = {qp["drv_mss"] for qp in shown if qp.get("pid") in (server.pid, client.pid)
             and qp["state"] == "RTS"}
    if len(found) != 1:
        raise Fail("segments of %s octets" % found)
    return found.pop()


def write_secret(disk):
    """Blocks that are full of it."""
    with open(disk, "wb", buffering=0) as f:
        f.write((SECRET * 16384)[:1 << 18])
        os.fsync(f.fileno())


def seen(t, wire, outside, name):
    """Which of our words whoever listens outside reads, of a connection and of blocks."""
    pcap = os.path.join(t.env.results, name + ".pcap")

    def work():
        with Target(LOCAL, wire.path.addr4), Host(LOCAL, wire.path.addr4) as host:
            write_secret(host.disk())
        perftest(t, wire.path, "ib_write_bw", 65536, 10)

    capture(t, outside, pcap, work, "ip")
    with open(pcap, "rb") as f:
        data = f.read()
    os.unlink(pcap)
    if len(data) < 1 << 18:
        raise Fail("only %d octets were captured" % len(data))
    return {word for word in (SECRET, BEGIN) if word in data}


def need(t):
    """What `works` uses."""
    t.need("fio", "tcpdump", "tshark")
    for module in ("nvme-rdma", "nvmet-rdma", "null_blk"):
        t.need_module(module)


def works(t, wire, name, most):
    """What works in the clear works over such a wire, whose segments have `most` octets at
    most, and nobody else can read it."""
    with t.sub("segments fit"):
        octets = segment(t, wire)
        if not 1300 < octets <= most:
            raise Fail("%d octets, not up to %d" % (octets, most))
    with t.sub("perftest"):
        for tool in ("ib_send_bw", "ib_write_bw", "ib_read_bw", "ib_read_lat"):
            perftest(t, wire.path, tool, 16384, 20)
    with t.sub("NVMe over Fabrics"), Target(LOCAL, wire.path.addr4), \
            Host(LOCAL, wire.path.addr4) as host:
        fio.verify(t, host.disk(), BLOCKS, DEPTH)
    with t.sub("nobody else can read it"):
        if words := seen(t, wire, wire.outside, name):
            raise Fail("seen outside: %s" % words)
