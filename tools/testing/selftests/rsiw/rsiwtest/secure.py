# SPDX-License-Identifier: GPL-2.0
"""Wires whose packets are encrypted: WireGuard and IPsec, as rsiw.rst sets them up."""

import os

from .topo import sh, status
from .wire import C4, IF_C, IF_S, S4, Pair, Wire

PORTS = {IF_S: "51820", IF_C: "51821"}


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
